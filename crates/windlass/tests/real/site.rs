//! A management cluster with Cluster API, installed from the manifests that it is released with.
//!
//! It has no Nodes: what a Deployment asks for is started here, as a process with the arguments of its container and the rights
//! of its ServiceAccount, and webhooks find the process by its port instead of a Service. There is no cert-manager either: all
//! processes have the certificate of the API server.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ListParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::components::{Component, RealCluster, free_port, given, windlass_program};
use crate::management::{apply_all, documents, established, objects_of_cluster_api, reachable};

/// Namespaces of Deployments, the program that is in their image, and what they are called by `cargo xtask real`.
const PROGRAMS: [(&str, &str, &str); 5] = [
    ("capi-system", "cluster-api-core", "core"),
    ("capi-kubeadm-bootstrap-system", "cluster-api-bootstrap", "bootstrap"),
    ("capi-kubeadm-control-plane-system", "cluster-api-control-plane", "control-plane"),
    ("capd-system", "cluster-api-infrastructure", "infrastructure"),
    ("windlass-system", "windlass", ""),
];

/// Leases run out sooner than they usually do, so that a test need not wait.
const LEASE: u64 = 6;

/// A management cluster with the programs of its Deployments.
pub(crate) struct Site {
    pub(crate) cluster: RealCluster,
    pub(crate) admin: Client,
    ports: BTreeMap<&'static str, u16>,
    /// By namespace: the arguments that they were started with, and the processes.
    running: BTreeMap<String, (Vec<String>, Vec<Component>)>,
    started: usize,
    /// Exit codes of `windlass check`, since they were last asked for.
    checks: Vec<i32>,
}

impl Site {
    /// Nothing at all.
    pub(crate) async fn bare() -> Self {
        let cluster = RealCluster::start().await;
        let admin = cluster.admin().await;
        let ports = PROGRAMS.iter().map(|(namespace, ..)| (*namespace, free_port())).collect();
        Self { cluster, admin, ports, running: BTreeMap::new(), started: 0, checks: Vec::new() }
    }

    /// Nothing but cert-manager.
    pub(crate) async fn empty() -> Self {
        let site = Self::bare().await;
        apply_all(&site.admin, cert_manager()).await;
        established(&site.admin).await;
        site
    }

    /// Installs Cluster API with the feature gate for topologies, and starts its managers.
    pub(crate) async fn start() -> Self {
        let mut site = Self::empty().await;
        for (_, _, manifests) in PROGRAMS.iter().filter(|(_, _, manifests)| !manifests.is_empty()) {
            let file = given("WINDLASS_REAL_MANAGERS").join(format!("{manifests}.yaml"));
            let text =
                std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            let objects: Vec<Value> = documents(&substituted(&text));
            let objects = objects.into_iter().map(|object| site.wired(object)).collect();
            apply_all(&site.admin, objects).await;
        }
        established(&site.admin).await;
        site.sync().await;
        site
    }

    /// Brings processes and webhooks in line with what was written: what the control plane of a management cluster and its
    /// Nodes would do.
    pub(crate) async fn sync(&mut self) {
        self.rewire::<MutatingWebhookConfiguration>().await;
        self.rewire::<ValidatingWebhookConfiguration>().await;
        self.rewire::<CustomResourceDefinition>().await;
        for (namespace, program, _) in PROGRAMS {
            let api: Api<Deployment> = Api::namespaced(self.admin.clone(), namespace);
            let deployments = api.list(&ListParams::default()).await.unwrap().items;
            let wanted = match deployments.first() {
                Some(found) => found.spec.as_ref().unwrap().replicas.unwrap_or(1),
                None => 0,
            };
            let wanted = usize::try_from(wanted).unwrap();
            let arguments = deployments.first().map(arguments_of).unwrap_or_default();
            let (before, mut processes) = self.running.remove(namespace).unwrap_or_default();
            processes.retain_mut(|process| !process.has_ended());
            if before != arguments {
                processes.drain(..).for_each(Component::terminate);
            }
            // The Pod that was there first goes first, as in a rolling update.
            while processes.len() > wanted {
                processes.remove(0).terminate();
            }
            while processes.len() < wanted {
                processes.push(self.start_one(namespace, program, &deployments[0], processes.len()).await);
            }
            self.running.insert(namespace.to_owned(), (arguments, processes));
        }
    }

    async fn start_one(
        &mut self,
        namespace: &str,
        program: &str,
        deployment: &Deployment,
        place: usize,
    ) -> Component {
        self.started += 1;
        let name = format!("{}-{}", deployment.name_any(), self.started);
        let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
        let account = pod.service_account_name.as_deref().unwrap();
        let kubeconfig = self.kubeconfig(namespace, account).await;
        // Webhooks are answered by the first; another has a port of its own that is not called.
        let port = if place == 0 { self.ports[namespace] } else { free_port() };
        let arguments = arguments_of(deployment);
        let directory = self.cluster.directory();
        let kubeconfig = kubeconfig.display();
        let mut command = if program == "windlass" {
            let replaced = |argument: String| match argument.split_once('=') {
                Some(("--metrics-listen", _)) => "--metrics-listen=127.0.0.1:0".to_owned(),
                Some(("--webhook-listen", _)) => format!("--webhook-listen=127.0.0.1:{port}"),
                Some((option @ ("--tls-cert" | "--tls-key"), path)) => {
                    format!("{option}={}", Path::new(path).file_name().unwrap().display())
                }
                _ => argument,
            };
            let mut command = Command::new(windlass_program());
            command.args(arguments.into_iter().map(replaced)).args([
                format!("--kubeconfig={kubeconfig}"),
                format!("--identity={name}"),
                format!("--lease-seconds={LEASE}"),
            ]);
            command
        } else {
            let mut command = in_a_pod(namespace, &given("WINDLASS_REAL_BIN").join(program).join("manager"));
            command.args(arguments).args([
                format!("--kubeconfig={kubeconfig}"),
                format!("--webhook-port={port}"),
                format!("--webhook-cert-dir={}", directory.display()),
                "--health-addr=127.0.0.1:0".to_owned(),
                "--diagnostics-address=0".to_owned(),
                format!("--leader-elect-lease-duration={LEASE}s"),
                "--leader-elect-renew-deadline=4s".to_owned(),
                "--leader-elect-retry-period=1s".to_owned(),
            ]);
            command
        };
        let environment =
            [("POD_NAMESPACE", namespace), ("POD_NAME", &name), ("POD_UID", &name), ("POD_IP", "127.0.0.1")];
        let log = File::options()
            .create(true)
            .append(true)
            .open(directory.join(format!("{program}-{}.log", self.started)))
            .unwrap();
        command.envs(environment).current_dir(directory).stdin(Stdio::null());
        command.stdout(log.try_clone().unwrap()).stderr(log);
        Component::spawn(program, command)
    }

    /// A kubeconfig of a ServiceAccount, with a token as a Pod has one.
    async fn kubeconfig(&self, namespace: &str, account: &str) -> PathBuf {
        let api: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), namespace);
        let spec = TokenRequestSpec { expiration_seconds: Some(7200), ..TokenRequestSpec::default() };
        let asked = TokenRequest { spec, ..TokenRequest::default() };
        let answer = api.create_token_request(account, &PostParams::default(), &asked).await.unwrap();
        self.cluster.write_kubeconfig(&format!("{namespace}.kubeconfig"), &answer.status.unwrap().token)
    }

    /// An object whose webhooks are called by the ports of processes.
    fn wired(&self, object: Value) -> Value {
        let bundle = STANDARD.encode(std::fs::read(self.cluster.directory().join("ca.crt")).unwrap());
        reachable(object, &|namespace| (self.ports[namespace], bundle.clone()))
    }

    async fn rewire<K>(&self)
    where
        K: Resource<DynamicType = ()> + Clone + std::fmt::Debug + Serialize + DeserializeOwned,
    {
        let api: Api<K> = Api::all(self.admin.clone());
        for object in api.list(&ListParams::default()).await.unwrap().items {
            let before = serde_json::to_value(&object).unwrap();
            let after = self.wired(before.clone());
            if after != before {
                let after = serde_json::from_value(after).unwrap();
                api.replace(&object.name_any(), &PostParams::default(), &after).await.unwrap();
            }
        }
    }

    /// Who holds a Lease.
    pub(crate) async fn holder(&self, namespace: &str, name: &str) -> String {
        let api: Api<Lease> = Api::namespaced(self.admin.clone(), namespace);
        let lease = api.get_opt(name).await.unwrap();
        lease.and_then(|lease| lease.spec?.holder_identity).unwrap_or_default()
    }

    /// Waits until something is so.
    pub(crate) async fn until<F: Future<Output = bool>>(
        &self,
        what: &str,
        within: Duration,
        is: impl Fn() -> F,
    ) {
        let begun = Instant::now();
        while !is().await {
            assert!(
                begun.elapsed() < within,
                "{what}: not within {within:?}\n{}\n{}",
                self.logs(),
                self.state()
            );
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }

    /// Follows a section of docs/migrating.md: its commands are run as they are printed, one after the other. Logs cannot be read
    /// where there are no Pods; what a reader would wait for in them is waited for here.
    pub(crate) async fn follow(&mut self, section: &str) {
        for command in commands_of("migrating.md", section) {
            if command.contains(" logs ") {
                self.until_windlass_leads().await;
                continue;
            }
            self.run(&root(), &command.replace("NAME", "shared"));
            self.sync().await;
        }
    }

    /// What the checks of a page said, by their exit codes.
    pub(crate) fn checks(&mut self) -> Vec<i32> {
        std::mem::take(&mut self.checks)
    }

    /// Runs a command in a directory, as one who administers the management cluster.
    pub(crate) fn run(&mut self, directory: &Path, command: &str) {
        println!("$ {command}");
        let program = windlass_program();
        let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
        let output = Command::new("bash")
            .args(["-euo", "pipefail", "-c", command])
            .current_dir(directory)
            .env("PATH", path)
            .env("KUBECONFIG", self.cluster.directory().join("admin.kubeconfig"))
            .output()
            .unwrap();
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (said(&output.stdout), said(&output.stderr));
        // A check may have something to say against it.
        let is_check = command.starts_with("windlass check");
        let code = output.status.code().unwrap();
        assert!(code == 0 || is_check && code == 3, "{command}: {out}\n{err}\n{}", self.logs());
        if is_check {
            self.checks.push(code);
        }
        if command.starts_with("windlass") {
            println!("{out}");
        }
    }

    /// Waits until a process of Windlass says that it leads.
    pub(crate) async fn until_windlass_leads(&self) {
        let says =
            |file: PathBuf| std::fs::read_to_string(file).unwrap().lines().any(|line| line == "Leading");
        self.until("Windlass leads", Duration::from_mins(1), || async {
            let files =
                std::fs::read_dir(self.cluster.directory()).unwrap().map(|entry| entry.unwrap().path());
            files
                .filter(|file| file.file_name().unwrap().to_string_lossy().starts_with("windlass-"))
                .any(says)
        })
        .await;
    }

    /// Kills the process of a Deployment that leads, without a word.
    pub(crate) fn kill_first(&mut self, namespace: &str) {
        drop(self.running.get_mut(namespace).unwrap().1.remove(0));
    }

    /// All objects of Cluster API, and Secrets, by kind and name.
    pub(crate) async fn objects(&self) -> BTreeMap<String, Value> {
        objects_of_cluster_api(&self.admin).await
    }

    /// What the Clusters and Machines say about themselves, for the reader of a failure.
    fn state(&self) -> String {
        let kubeconfig = self.cluster.directory().join("admin.kubeconfig");
        let output = Command::new("kubectl")
            .args(["get", "clusters,machines", "-o", "yaml", "--kubeconfig"])
            .arg(kubeconfig)
            .output()
            .unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The ends of all logs, for the reader of a failure.
    pub(crate) fn logs(&self) -> String {
        let mut text = String::new();
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(self.cluster.directory()).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        for file in files.into_iter().filter(|file| {
            let name = file.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("cluster-api") || name.starts_with("windlass-")
        }) {
            let log = std::fs::read_to_string(&file).unwrap_or_default();
            let lines: Vec<&str> = log.lines().collect();
            text +=
                &format!("== {}\n{}\n", file.display(), lines[lines.len().saturating_sub(25)..].join("\n"));
        }
        text
    }
}

/// The commands of a section of a page.
pub(crate) fn commands_of(page: &str, section: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join("docs").join(page)).unwrap();
    let commands = commands(&text, section);
    assert!(!commands.is_empty(), "docs/{page} has no commands in {section:?}");
    commands
}

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn arguments_of(deployment: &Deployment) -> Vec<String> {
    let pod = deployment.spec.as_ref().unwrap().template.spec.as_ref().unwrap();
    pod.containers[0].args.clone().unwrap_or_default()
}

/// The commands in the blocks of a section, up to the next heading. One that goes on in the next lines is one command.
fn commands(page: &str, section: &str) -> Vec<String> {
    let lines = page
        .lines()
        .skip_while(|line| line.trim_start_matches('#').trim() != section || !line.starts_with('#'));
    let lines = lines.skip(1).take_while(|line| !line.starts_with("##"));
    let (mut commands, mut is_inside) = (Vec::<String>::new(), false);
    for line in lines {
        if line.trim_start().starts_with("```") {
            is_inside = !is_inside;
        } else if is_inside {
            let text = line.strip_prefix("   ").filter(|_| line.starts_with("   ")).unwrap_or(line);
            match commands.last_mut() {
                // The rest of a loop.
                Some(last) if text.starts_with(' ') || text == "done" => last.push_str(&format!("\n{text}")),
                _ => commands.push(text.to_owned()),
            }
        }
    }
    commands
}

/// A program that finds the name of its namespace where Pods have it, which is where Cluster API's managers look for that of
/// their Lease.
fn in_a_pod(namespace: &str, program: &Path) -> Command {
    let script = "mount -t tmpfs tmpfs /run && mkdir -p /run/secrets/kubernetes.io/serviceaccount && \
                  printf %s \"$0\" > /run/secrets/kubernetes.io/serviceaccount/namespace && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", script, namespace]).arg(program);
    command
}

/// Fills in the variables of a manifest, as `clusterctl init` does: `${NAME:=default}`.
fn substituted(text: &str) -> String {
    let mut result = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (variable, after) = after.split_once('}').unwrap();
        let (name, default) = variable.split_once(":=").unwrap_or((variable, ""));
        result.push_str(before);
        result.push_str(if name == "CLUSTER_TOPOLOGY" { "true" } else { default });
        rest = after;
    }
    result + rest
}

/// The two kinds of cert-manager that manifests have, with anything in them.
fn cert_manager() -> Vec<Value> {
    let crd = |kind: &str, plural: &str| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.cert-manager.io")},
            "spec": {"group": "cert-manager.io", "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                    {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
    };
    vec![crd("Certificate", "certificates"), crd("Issuer", "issuers")]
}
