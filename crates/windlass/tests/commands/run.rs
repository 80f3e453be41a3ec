//! `windlass run` against a `windlass serve`, both as processes, over HTTPS.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use windlass_extension::DevelopmentCertificate;

use crate::apply::apply;

/// A process that says on its standard output how far it is, ended when it goes out of scope.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(arguments).current_dir(directory).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits for a line that begins so, and returns the rest of it.
    fn says(&mut self, beginning: &str) -> String {
        for line in self.lines.by_ref() {
            if let Some(rest) = line.unwrap().strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
        panic!("it ended before it said {beginning:?}");
    }

    fn signal(&mut self, name: &str) -> Option<i32> {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([&format!("-{name}"), &id]).status().unwrap().success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn serve(directory: &Path) -> Process {
    let arguments = [
        "serve",
        "--in-memory",
        "--cluster-api",
        "--listen",
        "127.0.0.1:0",
        "--kubeconfig-out",
        "kubeconfig",
    ];
    let mut server = Process::start(directory, &arguments);
    server.says("Ready: ");
    server
}

fn run(directory: &Path, name: &str, more: &[&str]) -> Process {
    let usual = ["run", "--kubeconfig", "kubeconfig", "--lease-namespace", "default", "--lease-seconds", "3"];
    Process::start(directory, &[&usual[..], &["--log-level", "error", "--identity", name], more].concat())
}

async fn client(directory: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(directory.join("kubeconfig")).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn holder(client: &Client) -> String {
    let leases: Api<Lease> = Api::default_namespaced(client.clone());
    leases.get("windlass").await.unwrap().spec.unwrap().holder_identity.unwrap()
}

fn quickstart() -> Vec<Value> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/quickstart.yaml");
    serde_saphyr::from_multiple(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// What a plain HTTP server answers.
fn get(url: &str) -> String {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(stream, "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_processes_one_leads_and_the_other_takes_over() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = serve(path);
    let client = client(path).await;
    let mut first = run(path, "first", &["--metrics-listen", "127.0.0.1:0"]);
    let metrics = first.says("Metrics: ");
    first.says("Leading");
    let mut second = run(path, "second", &["--metrics-listen", "127.0.0.1:0"]);
    let waiting = second.says("Metrics: ");
    second.says("Ready");
    assert_eq!(holder(&client).await, "first");

    for object in quickstart() {
        apply(&client, &object).await.unwrap();
    }
    // The first acts: it takes the Cluster on, and counts what it does.
    let clusters: Api<windlass_api::cluster::Cluster> = Api::default_namespaced(client.clone());
    let begun = Instant::now();
    while clusters.get("quickstart").await.unwrap().spec.control_plane_ref.is_none() {
        assert!(begun.elapsed() < Duration::from_secs(60), "nobody acts");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let counted = |url: &str| {
        let text = get(url);
        let line = "controller_runtime_reconcile_total{controller=\"topology\",result=\"";
        text.lines().filter(|found| found.starts_with(line)).any(|found| !found.ends_with(" 0"))
    };
    while !counted(&metrics) {
        assert!(begun.elapsed() < Duration::from_secs(60), "{}", get(&metrics));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!counted(&waiting), "the second does nothing");
    assert!(get(&metrics).contains("windlass_cluster_machines{namespace=\"default\",cluster=\"quickstart\""));
    for probe in ["healthz", "readyz"] {
        let answer = get(&metrics.replace("metrics", probe));
        assert!(answer.starts_with("HTTP/1.1 200"), "{probe}: {answer}");
    }

    first.signal("KILL");
    second.says("Leading");
    assert_eq!(holder(&client).await, "second");
    let mut third = run(path, "third", &[]);
    third.says("Ready");
    assert_eq!(second.signal("TERM"), Some(0));
    // The third may have been quick.
    let holder = holder(&client).await;
    assert!(["", "third"].contains(&holder.as_str()), "it was not given back: {holder}");
    third.says("Leading");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_is_refused_where_cluster_api_leads() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = serve(path);
    let client = client(path).await;
    for object in [
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "capi-system"}}),
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "controller-leader-election-capi", "namespace": "capi-system"},
            "spec": {"holderIdentity": "capi-0", "leaseDurationSeconds": 15, "renewTime": "2999-01-01T00:00:00.000000Z"}}),
    ] {
        apply(&client, &object).await.unwrap();
    }
    let refused = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["run", "--kubeconfig", "kubeconfig", "--lease-namespace", "default", "--log-level", "error"])
        .current_dir(path)
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(3));
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(said.contains("capi-0 holds the Lease capi-system/controller-leader-election-capi"), "{said}");
    assert!(said.contains("--hold-lease capi-system/controller-leader-election-capi"), "{said}");
    assert_eq!(holder(&client).await, "", "what it held is given back");

    // What its feature gates may have turned off, and what another manager does, runs beside it.
    let mut beside = run(path, "beside", &["--controllers", "topology,extensionconfig,kubeadmcontrolplane"]);
    beside.says("Leading");
}

/// A user who may do everything but create Namespaces.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_namespace_for_its_lease_it_is_not_ready_and_says_why() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let listen = ["--listen", "127.0.0.1:0", "--kubeconfig-out", "kubeconfig"];
    let arguments = [&["serve", "--data-dir", "data", "--cluster-api"][..], &listen].concat();
    let mut server = Process::start(path, &arguments);
    let address = server.says("Ready: ");
    let client = client(path).await;
    for object in [
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "some"},
        "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]},
            {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["*"]},
        ]}),
        json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
            "metadata": {"name": "some"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "some"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "someone"}]}),
    ] {
        apply(&client, &object).await.unwrap();
    }
    let arguments = [
        &["credentials", "kubeconfig", "--data-dir", "data", "--server", &address][..],
        &["--user", "someone", "--out", "someone.kubeconfig"],
    ]
    .concat();
    let made =
        Command::new(env!("CARGO_BIN_EXE_windlass")).args(arguments).current_dir(path).output().unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let arguments = [
        &[
            "run",
            "--kubeconfig",
            "someone.kubeconfig",
            "--lease-namespace",
            "nowhere",
            "--lease-seconds",
            "3",
        ][..],
        &["--log-level", "error", "--metrics-listen", "127.0.0.1:0"],
    ];
    let mut limited = Process::start(path, &arguments.concat());
    let ready = limited.says("Metrics: ").replace("metrics", "readyz");
    let said = "Namespace nowhere, in which the Lease is kept, does not exist and cannot be created";
    let begun = Instant::now();
    loop {
        let answer = get(&ready);
        assert!(!answer.starts_with("HTTP/1.1 200"), "{answer}");
        if answer.contains(said) {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{answer}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "nowhere"}});
    apply(&client, &namespace).await.unwrap();
    limited.says("Leading");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dry_run_says_what_it_would_write_and_writes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = serve(path);
    let client = client(path).await;
    for object in quickstart() {
        apply(&client, &object).await.unwrap();
    }
    let clusters: Api<windlass_api::cluster::Cluster> = Api::default_namespaced(client.clone());
    let before = clusters.get("quickstart").await.unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_windlass"))
        .args(["run", "--kubeconfig", "kubeconfig", "--dry-run", "--log-level", "error"])
        .current_dir(path)
        .output()
        .unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let writes = said.lines().filter(|line| line.starts_with("would ")).count();
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters/quickstart";
    assert!(writes > 1 && said.contains(path), "{said}");
    assert_eq!(clusters.get("quickstart").await.unwrap().metadata, before.metadata);
    let leases: Api<Lease> = Api::default_namespaced(client);
    assert!(leases.get_opt("windlass").await.unwrap().is_none(), "nobody is elected for that");
}

#[test]
fn a_dry_run_without_an_api_says_why_and_ends() {
    let directory = tempfile::tempdir().unwrap();
    drop(serve(directory.path()));
    let arguments = ["run", "--kubeconfig", "kubeconfig", "--dry-run"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    let output = command.args(arguments).current_dir(directory.path()).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.starts_with("error: the API does not answer: ") && said.contains("onnection refused"),
        "{said}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_refuse_what_the_rules_refuse() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = serve(path);
    let client = client(path).await;
    let certificate = DevelopmentCertificate::kept_in(path.join("tls"), ["127.0.0.1"]).unwrap();
    let files = ["--tls-cert", "tls/tls.crt", "--tls-key", "tls/tls.key"];
    let mut run = run(path, "webhooks", &[&["--webhook-listen", "127.0.0.1:0"][..], &files].concat());
    let url = run.says("Webhooks: ");
    use base64::Engine;
    let bundle = base64::engine::general_purpose::STANDARD.encode(certificate.ca_pem());
    let deploy = concat!(env!("CARGO_MANIFEST_DIR"), "/../../deploy/alone/webhooks.yaml");
    let manifests: Vec<Value> =
        serde_saphyr::from_multiple(&std::fs::read_to_string(deploy).unwrap()).unwrap();
    for mut configuration in manifests {
        // As in deploy/, but by address: there are no Services here.
        let service =
            configuration["webhooks"][0]["clientConfig"]["service"]["path"].as_str().unwrap().to_owned();
        configuration["webhooks"][0]["clientConfig"] =
            json!({"url": url.clone() + &service, "caBundle": bundle});
        apply(&client, &configuration).await.unwrap();
    }
    let objects = quickstart();
    let (cluster, rest) = objects.split_last().unwrap();
    for object in rest {
        apply(&client, object).await.unwrap();
    }
    let mut wrong = cluster.clone();
    wrong["spec"]["topology"]["version"] = json!("v1.28.0");
    let refused = apply(&client, &wrong).await.unwrap_err().to_string();
    assert!(refused.contains("v1.28.0"), "{refused}");
    apply(&client, cluster).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_converted_also_by_the_process_that_does_not_lead() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let _server = serve(path);
    let mut first = run(path, "first", &[]);
    first.says("Leading");
    let certificate = DevelopmentCertificate::kept_in(path.join("tls"), ["127.0.0.1"]).unwrap();
    let files = ["--tls-cert", "tls/tls.crt", "--tls-key", "tls/tls.key"];
    let mut second = run(path, "second", &[&["--webhook-listen", "127.0.0.1:0"][..], &files].concat());
    let url = second.says("Webhooks: ");
    second.says("Ready");

    let mut config = Config::new(url.parse().unwrap());
    let pem = certificate.ca_pem();
    let der = CertificateDer::pem_slice_iter(pem.as_bytes()).map(|found| found.unwrap().to_vec());
    config.root_cert = Some(der.collect());
    let webhook = Client::try_from(config).unwrap();
    let review = |to: &str, objects: Value| {
        let review = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
            "request": {"uid": "7", "desiredAPIVersion": format!("cluster.x-k8s.io/{to}"), "objects": objects}});
        let request = http::Request::post("/convert").body(review.to_string().into_bytes()).unwrap();
        webhook.request::<Value>(request)
    };
    let stored = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
        "metadata": {"name": "c", "namespace": "ns1"}, "spec": {"paused": false, "infrastructureRef":
            {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "d"}}});
    let old = review("v1beta1", json!([stored])).await.unwrap();
    assert_eq!(
        (&old["response"]["uid"], &old["response"]["result"]["status"]),
        (&json!("7"), &json!("Success"))
    );
    let old = &old["response"]["convertedObjects"];
    assert_eq!(old[0]["spec"]["infrastructureRef"]["apiVersion"], "infrastructure.cluster.x-k8s.io/v1beta2");
    let new = review("v1beta2", old.clone()).await.unwrap();
    assert_eq!(new["response"]["convertedObjects"], json!([stored]));
    let wrong = json!([{"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Machine", "metadata": {"name": "m"},
        "spec": {"nodeDrainTimeout": "x"}}]);
    let failed = review("v1beta2", wrong).await.unwrap();
    assert_eq!(failed["response"]["result"]["status"], "Failure");
    assert!(failed["response"]["result"]["message"].as_str().unwrap().contains("spec.nodeDrainTimeout"));
}
