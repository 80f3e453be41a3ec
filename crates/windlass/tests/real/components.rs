//! A kube-apiserver with etcd and kube-controller-manager, as processes of the test, on loopback.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use windlass_extension::DevelopmentCertificate;

const ADMIN_TOKEN: &str = "the-administrator-of-a-test";

/// Where `cargo xtask real` put something.
pub(crate) fn given(variable: &str) -> PathBuf {
    let path = std::env::var_os(variable).map(PathBuf::from);
    path.unwrap_or_else(|| panic!("{variable} is not set: these tests are run by cargo xtask real"))
}

/// The program under test. Another build of it may be named, such as an optimised one, whose figures are those of users.
pub(crate) fn windlass_program() -> PathBuf {
    std::env::var_os("WINDLASS_PROGRAM").map_or_else(|| env!("CARGO_BIN_EXE_windlass").into(), PathBuf::from)
}

/// A figure of a run. `cargo xtask real` prints all of them at its end.
pub(crate) fn figure(what: &str, value: impl std::fmt::Display) {
    println!("{what}: {value}");
    let file = File::options().create(true).append(true).open(given("WINDLASS_REAL_FIGURES"));
    writeln!(file.unwrap(), "{what}\t{value}").unwrap();
}

/// A process that ends with the test, by its id.
pub(crate) struct Component {
    name: String,
    child: Child,
}

impl Component {
    fn start(name: &str, directory: &Path, arguments: &[String]) -> Self {
        let log =
            File::options().create(true).append(true).open(directory.join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(given("WINDLASS_REAL_BIN").join(name));
        command.args(arguments).current_dir(directory).stdout(log.try_clone().unwrap()).stderr(log);
        Self::spawn(name, command)
    }

    pub(crate) fn spawn(name: &str, mut command: Command) -> Self {
        let child = command.spawn().unwrap_or_else(|error| panic!("{name}: {error}"));
        Self { name: name.to_owned(), child }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Asks it to end, as a kubelet does, and waits until it has.
    pub(crate) fn terminate(mut self) {
        let asked = Command::new("kill").arg(self.child.id().to_string()).status().unwrap();
        assert!(asked.success());
        let begun = Instant::now();
        while !self.has_ended() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{} does not end", self.name);
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn end(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Component {
    fn drop(&mut self) {
        self.end();
    }
}

/// A management cluster: an API, where it keeps its data, and what collects garbage in it.
pub(crate) struct RealCluster {
    // Ended in this order.
    _manager: Component,
    api: Component,
    _etcd: Component,
    etcd_url: String,
    address: String,
    directory: tempfile::TempDir,
}

impl RealCluster {
    /// Starts all of it, and waits until the API is ready.
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let (client, peer, secure) = (free_port(), free_port(), free_port());
        let etcd_url = format!("http://127.0.0.1:{client}");
        let etcd = Component::start("etcd", path, &etcd_arguments(&etcd_url, peer));
        let certificate = DevelopmentCertificate::generate(["127.0.0.1", "localhost"]).unwrap();
        for (file, text) in [
            ("tls.crt", certificate.certificate_pem()),
            ("tls.key", certificate.key_pem()),
            ("ca.crt", certificate.ca_pem()),
            ("tokens.csv", &format!("{ADMIN_TOKEN},admin,admin,\"system:masters\"\n")),
            ("audit.yaml", AUDIT_POLICY),
        ] {
            std::fs::write(path.join(file), text).unwrap();
        }
        let address = format!("127.0.0.1:{secure}");
        std::fs::write(path.join("admin.kubeconfig"), kubeconfig(&address, path, ADMIN_TOKEN)).unwrap();
        let api = Component::start("kube-apiserver", path, &api_arguments(&etcd_url, secure));
        let mut cluster = Self {
            // Asks until the API answers.
            _manager: Component::start("kube-controller-manager", path, &manager_arguments()),
            api,
            _etcd: etcd,
            etcd_url,
            address,
            directory,
        };
        cluster.ready().await;
        cluster
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// A client that may do everything.
    pub(crate) async fn admin(&self) -> Client {
        client_of(&self.directory.path().join("admin.kubeconfig")).await
    }

    /// Writes a kubeconfig with a token, and returns its name.
    pub(crate) fn write_kubeconfig(&self, name: &str, token: &str) -> PathBuf {
        let file = self.directory.path().join(name);
        std::fs::write(&file, kubeconfig(&self.address, self.directory.path(), token)).unwrap();
        file
    }

    /// Kills the API server, and starts it again on the same data.
    pub(crate) async fn restart_api(&mut self) {
        self.api.end();
        let secure = self.address.rsplit(':').next().unwrap().parse().unwrap();
        self.api =
            Component::start("kube-apiserver", self.directory.path(), &api_arguments(&self.etcd_url, secure));
        self.ready().await;
    }

    /// Forgets all of the history of etcd up to now, as an API server does every few minutes.
    pub(crate) fn compact(&self) -> u64 {
        // Any key: the header of an answer says the current revision.
        let range = self.ask_etcd("/v3/kv/range", &json!({"key": "YQ=="}));
        let revision: u64 = range["header"]["revision"].as_str().unwrap().parse().unwrap();
        let done =
            self.ask_etcd("/v3/kv/compaction", &json!({"revision": revision.to_string(), "physical": true}));
        assert!(done["header"].is_object(), "{done}");
        revision
    }

    fn ask_etcd(&self, path: &str, body: &Value) -> Value {
        let host = self.etcd_url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(host).unwrap();
        let body = body.to_string();
        let length = body.len();
        write!(stream, "POST {path} HTTP/1.0\r\nHost: {host}\r\nContent-Length: {length}\r\n\r\n{body}")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    async fn ready(&mut self) {
        let begun = Instant::now();
        loop {
            let ended = self.api.child.try_wait().unwrap();
            assert!(ended.is_none(), "the API server has ended: {}", self.log_of(&self.api.name));
            let asked = http::Request::get("/readyz").body(Vec::new()).unwrap();
            match self.admin().await.request_text(asked).await {
                Ok(_) => return,
                Err(error) if begun.elapsed() > Duration::from_mins(2) => {
                    panic!("the API is not ready: {error}\n{}", self.log_of(&self.api.name))
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
            }
        }
    }

    /// The end of what a component logged.
    fn log_of(&self, name: &str) -> String {
        let text = std::fs::read_to_string(self.directory.path().join(format!("{name}.log"))).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// The requests of a user since the beginning, as the API server itself saw them.
    pub(crate) fn requests_of(&self, user: &str) -> Vec<Asked> {
        let file = File::open(self.directory.path().join("audit.log")).unwrap();
        let events = BufReader::new(file).lines().map(Result::unwrap);
        // The last line may be half written.
        let events = events.filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        events.filter(|event| event["user"]["username"] == user).map(|event| Asked::of(&event)).collect()
    }
}

/// A request, as the API server saw it.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    pub(crate) verb: String,
    pub(crate) resource: String,
    pub(crate) code: u64,
    pub(crate) user_agent: String,
    pub(crate) uri: String,
}

impl Asked {
    fn of(event: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let reference = &event["objectRef"];
        let resource = match reference["subresource"].as_str() {
            Some(subresource) => format!("{}/{subresource}", text(&reference["resource"])),
            None => text(&reference["resource"]),
        };
        Self {
            verb: text(&event["verb"]),
            resource,
            code: event["responseStatus"]["code"].as_u64().unwrap_or_default(),
            user_agent: text(&event["userAgent"]),
            uri: text(&event["requestURI"]),
        }
    }

    /// For people: what was asked, and what the answer was.
    pub(crate) fn line(&self) -> String {
        format!("{} {} ({}): {}", self.verb, self.uri, self.user_agent, self.code)
    }

    /// The field manager that it names; empty if it names none.
    pub(crate) fn manager(&self) -> &str {
        let (_, query) = self.uri.split_once('?').unwrap_or_default();
        query.split('&').find_map(|part| part.strip_prefix("fieldManager=")).unwrap_or_default()
    }

    pub(crate) fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete"].contains(&self.verb.as_str())
    }
}

/// How many requests of each resource, verb and field manager there are.
pub(crate) fn counted(requests: &[Asked]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for request in requests {
        let Asked { verb, resource, .. } = request;
        let manager = request.manager();
        *counts.entry(format!("{resource} {verb} {manager}").trim_end().to_owned()).or_default() += 1;
    }
    counts
}

pub(crate) async fn client_of(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Everything that is asked, once it is answered, without bodies.
const AUDIT_POLICY: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
rules: [{level: Metadata}]
";

fn kubeconfig(address: &str, directory: &Path, token: &str) -> String {
    let ca = directory.join("ca.crt");
    json!({"apiVersion": "v1", "kind": "Config", "current-context": "real",
        "clusters": [{"name": "real",
            "cluster": {"server": format!("https://{address}"), "certificate-authority": ca}}],
        "users": [{"name": "user", "user": {"token": token}}],
        "contexts": [{"name": "real", "context": {"cluster": "real", "user": "user", "namespace": "default"}}]})
    .to_string()
}

fn etcd_arguments(url: &str, peer: u16) -> Vec<String> {
    let peer = format!("http://127.0.0.1:{peer}");
    vec![
        "--data-dir=etcd".to_owned(),
        "--log-level=error".to_owned(),
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
    ]
}

fn api_arguments(etcd: &str, port: u16) -> Vec<String> {
    let fixed = [
        "--bind-address=127.0.0.1",
        "--tls-cert-file=tls.crt",
        "--tls-private-key-file=tls.key",
        "--token-auth-file=tokens.csv",
        "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-account-key-file=tls.crt",
        "--service-account-signing-key-file=tls.key",
        "--service-cluster-ip-range=10.96.0.0/24",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        // The strictest that management clusters have: setting an owner that blocks needs rights on the owner.
        "--enable-admission-plugins=OwnerReferencesPermissionEnforcement",
        "--audit-policy-file=audit.yaml",
        "--audit-log-path=audit.log",
        "--audit-log-mode=blocking",
        "--v=1",
    ];
    let mut arguments: Vec<String> = fixed.into_iter().map(str::to_owned).collect();
    arguments.extend([format!("--etcd-servers={etcd}"), format!("--secure-port={port}")]);
    arguments
}

fn manager_arguments() -> Vec<String> {
    let fixed = [
        "--kubeconfig=admin.kubeconfig",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        "--secure-port=0",
        "--controllers=garbage-collector-controller,namespace-controller,serviceaccount-controller,clusterrole-aggregation-controller",
    ];
    fixed.into_iter().map(str::to_owned).collect()
}

/// A port that is free now.
pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// A `windlass` that says on its standard output how far it is.
pub(crate) struct Windlass {
    arguments: Vec<String>,
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl Windlass {
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        let log = File::options().create(true).append(true).open(directory.join("windlass.log")).unwrap();
        let mut child = Command::new(windlass_program())
            .args(arguments)
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let arguments = arguments.iter().map(|&argument| argument.to_owned()).collect();
        Self { arguments, child, lines }
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// How much processor time it has used so far.
    pub(crate) fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // The name of the program is in brackets and may be anything; user and system time are the 12th and 13th field after it.
        let (_, rest) = stat.rsplit_once(')').unwrap();
        let ticks: u64 =
            rest.split_whitespace().skip(11).take(2).map(|field| field.parse::<u64>().unwrap()).sum();
        // Linux shows them in hundredths of a second, whatever it counts in itself.
        Duration::from_millis(ticks * 10)
    }

    /// As it was started before.
    pub(crate) fn start_again(&mut self, directory: &Path) {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        *self = Self::start(directory, &arguments);
    }

    /// Waits for a line that begins so, and returns the rest of it.
    pub(crate) fn says(&mut self, beginning: &str) -> String {
        for line in self.lines.by_ref() {
            if let Some(rest) = line.unwrap().strip_prefix(beginning) {
                return rest.to_owned();
            }
        }
        panic!("it ended before it said {beginning:?}");
    }

    /// Kills it where it stands.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Windlass {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
