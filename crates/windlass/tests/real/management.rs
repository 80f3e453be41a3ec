//! Windlass on a management cluster as `deploy/` installs it, with the rights of its ServiceAccount and no others, and an
//! extension that writes down what it is asked.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine};
use windlass_extension::hooks::{
    AfterClusterUpgrade, AfterControlPlaneInitialized, AfterControlPlaneUpgrade, AfterWorkersUpgrade,
    BeforeClusterCreate, BeforeClusterDelete, BeforeClusterUpgrade, BeforeControlPlaneUpgrade,
    BeforeWorkersUpgrade, HookResponse, HookType,
};
use windlass_extension::{DevelopmentCertificate, Extension, Server, Tls};
use windlass_version::Version;

use crate::apply::apply;
use crate::components::{Asked, RealCluster, Windlass, counted, figure};

pub(crate) const ACCOUNT: &str = "system:serviceaccount:windlass-system:windlass";

/// Where the CRDs come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crds {
    /// Those of `deploy/`.
    Own,
    /// Those that Cluster API releases, as they are.
    Upstream,
}

/// A management cluster on which Windlass is installed.
pub(crate) struct Management {
    pub(crate) cluster: RealCluster,
    pub(crate) admin: Client,
    account: PathBuf,
    webhooks: DevelopmentCertificate,
    webhook_port: u16,
    calls: Arc<Mutex<Vec<String>>>,
}

impl Management {
    /// Starts everything but Windlass itself.
    pub(crate) async fn install(crds: Crds) -> Self {
        let cluster = RealCluster::start().await;
        let admin = cluster.admin().await;
        let webhooks = DevelopmentCertificate::generate(["127.0.0.1"]).unwrap();
        let webhook_port = crate::components::free_port();
        for (file, text) in [("webhook.crt", webhooks.certificate_pem()), ("webhook.key", webhooks.key_pem())]
        {
            std::fs::write(cluster.directory().join(file), text).unwrap();
        }
        let mut installed =
            Self { account: PathBuf::new(), calls: Arc::default(), cluster, admin, webhooks, webhook_port };
        installed.apply_all(manifests(&deploy("namespace.yaml"))).await;
        let definitions = match crds {
            Crds::Own => manifests(&deploy("crds.yaml")),
            Crds::Upstream => {
                let directory = crate::components::given("WINDLASS_REAL_CRDS");
                let files = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
                let released =
                    files.flat_map(|file| manifests(&file)).filter(|crd| !is_dev(crd)).map(labelled);
                // The Dev kinds are those of the provider that runs here, whose machines keep more in their status.
                released.chain(manifests(&deploy("crds.yaml")).into_iter().filter(is_dev)).collect()
            }
        };
        installed.apply_all(definitions.into_iter().map(|crd| installed.reachable(crd)).collect()).await;
        established(&installed.admin).await;
        installed.apply_all(manifests(&deploy("rbac.yaml"))).await;
        installed.account = installed.account_kubeconfig().await;
        installed
    }

    /// Everything, with a process that leads and answers webhooks, and an extension.
    pub(crate) async fn running(crds: Crds) -> (Self, Windlass) {
        let management = Self::install(crds).await;
        let mut windlass = management.run_with_webhooks("first");
        windlass.says("Leading");
        management.install_webhooks().await;
        management.extend().await;
        (management, windlass)
    }

    /// The webhooks, which nothing can be written without from now on.
    async fn install_webhooks(&self) {
        let configurations = manifests(&deploy("webhooks.yaml"));
        self.apply_all(configurations.into_iter().map(|one| self.reachable(one)).collect()).await;
    }

    /// There is no Service on a cluster without Nodes: where one is named, an address is.
    fn reachable(&self, object: Value) -> Value {
        reachable(object, &|_| (self.webhook_port, self.webhooks.ca_bundle()))
    }

    pub(crate) async fn apply_all(&self, objects: Vec<Value>) {
        apply_all(&self.admin, objects).await;
    }

    /// A kubeconfig of the ServiceAccount that `deploy/` makes, with a token as a Pod has one.
    async fn account_kubeconfig(&self) -> PathBuf {
        let api: Api<ServiceAccount> = Api::namespaced(self.admin.clone(), "windlass-system");
        let spec = TokenRequestSpec { expiration_seconds: Some(3600), ..TokenRequestSpec::default() };
        let asked = TokenRequest { spec, ..TokenRequest::default() };
        let answer = api.create_token_request("windlass", &PostParams::default(), &asked).await.unwrap();
        self.cluster.write_kubeconfig("windlass.kubeconfig", &answer.status.unwrap().token)
    }

    /// `windlass run`, which answers webhooks if it is the first.
    pub(crate) fn run(&self, identity: &str, more: &[&str]) -> Windlass {
        let account = self.account.to_str().unwrap();
        let usual = ["run", "--kubeconfig", account, "--dev-provider", "--lease-seconds", "3"];
        let logged = ["--log-level", "warn", "--identity", identity];
        Windlass::start(self.cluster.directory(), &[&usual[..], &logged, more].concat())
    }

    /// `windlass run` that answers webhooks too, and leads.
    fn run_with_webhooks(&self, identity: &str) -> Windlass {
        let address = format!("127.0.0.1:{}", self.webhook_port);
        let tls = ["--tls-cert", "webhook.crt", "--tls-key", "webhook.key"];
        let mut windlass = self.run(identity, &[&["--webhook-listen", &address][..], &tls].concat());
        windlass.says("Webhooks: ");
        windlass
    }

    /// Registers an extension with all hooks of a Cluster's life, which agrees to everything.
    pub(crate) async fn extend(&self) {
        macro_rules! on {
            ($builder:expr, $($hook:ident),*) => {{
                let builder = $builder;
                $(let calls = Arc::clone(&self.calls);
                let builder = builder.on($hook, stringify!($hook).to_lowercase(), move |_, request| {
                    let asked = serde_json::to_value(&request).unwrap();
                    let version = ["toKubernetesVersion", "kubernetesVersion"].iter().find_map(|field| asked[field].as_str());
                    let call = format!("{} {}", stringify!($hook), version.unwrap_or_default());
                    calls.lock().unwrap().push(call.trim_end().to_owned());
                    async { <<$hook as HookType>::Response as HookResponse>::success() }
                });)*
                builder
            }};
        }
        let extension = on!(
            Extension::new("recorder"),
            BeforeClusterCreate,
            AfterControlPlaneInitialized,
            BeforeClusterUpgrade,
            BeforeControlPlaneUpgrade,
            AfterControlPlaneUpgrade,
            BeforeWorkersUpgrade,
            AfterWorkersUpgrade,
            AfterClusterUpgrade,
            BeforeClusterDelete
        );
        let certificate = DevelopmentCertificate::generate(["127.0.0.1"]).unwrap();
        let server = Server::new(extension.build().unwrap(), Tls::development(certificate));
        let server = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let manifest: Value = serde_saphyr::from_str(&server.manifest("127.0.0.1").to_string()).unwrap();
        tokio::spawn(server.run_until(std::future::pending()));
        self.apply_all(vec![manifest]).await;
    }

    /// What the extension was asked so far. A hook that was called twice in a row, as after a crash, is there once.
    pub(crate) fn calls(&self) -> Vec<String> {
        let mut calls = self.calls.lock().unwrap().clone();
        calls.dedup();
        calls
    }

    /// Creates the Cluster of the quick start and waits until all of its machines are there.
    pub(crate) async fn create_quickstart(&self, watched: &mut Machines) {
        self.apply_all(manifests(&example("quickstart.yaml"))).await;
        self.until_at("v1.29.0", watched, |_| {}).await;
    }

    pub(crate) async fn upgrade_to(&self, version: &str) {
        let clusters: Api<Cluster> = Api::default_namespaced(self.admin.clone());
        let patch = json!({"spec": {"topology": {"version": version}}});
        let by_the_test = PatchParams { field_manager: Some("test".to_owned()), ..PatchParams::default() };
        clusters.patch("quickstart", &by_the_test, &Patch::Merge(&patch)).await.unwrap();
    }

    /// Looks at the machines until all are at a version and nothing is pending. `each` is told how many were ever seen.
    pub(crate) async fn until_at(&self, version: &str, watched: &mut Machines, mut each: impl FnMut(usize)) {
        let machines: Api<Machine> = Api::default_namespaced(self.admin.clone());
        let clusters: Api<Cluster> = Api::default_namespaced(self.admin.clone());
        let begun = Instant::now();
        loop {
            // The API server may be on its way back.
            if let (Ok(found), Ok(cluster)) =
                (machines.list(&ListParams::default()).await, clusters.get("quickstart").await)
            {
                watched.see(&found.items);
                each(watched.seen.len());
                let done =
                    found.items.len() == 5 && found.items.iter().all(|machine| is_at(machine, version));
                let pending = cluster.annotations().contains_key("runtime.cluster.x-k8s.io/pending-hooks");
                if done && !pending && is_reconciled(&cluster) {
                    return;
                }
            }
            assert!(begun.elapsed() < Duration::from_mins(4), "{}", self.state().await);
            tokio::time::sleep(Duration::from_millis(150)).await;
        }
    }

    /// With nothing to do, the Lease is renewed and nothing else is asked but watches.
    pub(crate) async fn at_rest(&self) {
        // What is still on its way, such as the last Event.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let before = self.cluster.requests_of(ACCOUNT).len();
        tokio::time::sleep(Duration::from_secs(20)).await;
        let asked = self.cluster.requests_of(ACCOUNT).split_off(before);
        let count = asked.len();
        figure("at rest, 20 s: requests, all of them for the Lease and watches", count);
        println!("{:?}", counted(&asked));
        let needless = |request: &&Asked| request.resource != "leases" && request.verb != "watch";
        let others: Vec<String> = asked.iter().filter(needless).map(Asked::line).collect();
        assert!(others.is_empty(), "{others:#?}");
        let is_renewal = |request: &&Asked| request.resource == "leases" && request.verb == "update";
        let renewals = asked.iter().filter(is_renewal).count();
        let of_the_lease = asked.iter().filter(|request| request.resource == "leases").count();
        assert!(renewals > 20 && renewals == of_the_lease, "a renewal is one request: {:?}", counted(&asked));
    }

    /// Nothing was forbidden, nothing was refused as malformed, and every request says whose it is.
    pub(crate) fn rights_were_enough(&self) {
        let asked = self.cluster.requests_of(ACCOUNT);
        assert!(asked.len() > 100, "{}", asked.len());
        let only = |wrong: fn(&Asked) -> bool| -> Vec<String> {
            asked.iter().filter(|request| wrong(request)).map(Asked::line).collect()
        };
        let refused = only(|request| [400, 403, 405, 415, 422].contains(&request.code));
        assert!(
            refused.is_empty(),
            "{} of {}: {:#?}",
            refused.len(),
            asked.len(),
            &refused[..refused.len().min(5)]
        );
        let anonymous = only(|request| !request.user_agent.starts_with("windlass/"));
        assert!(anonymous.is_empty(), "{} of {}: {}", anonymous.len(), asked.len(), anonymous[0]);
        let unnamed =
            only(|request| request.is_write() && request.verb != "delete" && request.manager().is_empty());
        assert!(unnamed.is_empty(), "{} of {}: {}", unnamed.len(), asked.len(), unnamed[0]);
    }

    /// Whatever is written is written under a name: Cluster API's where the fields are its own, Windlass's otherwise.
    pub(crate) async fn everything_has_a_known_manager(&self) {
        let mut seen = BTreeSet::new();
        for object in objects_of_cluster_api(&self.admin).await.into_values() {
            let managed = object["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
            seen.extend(managed.iter().filter_map(|entry| entry["manager"].as_str().map(str::to_owned)));
        }
        let is_known = |manager: &&String| {
            ["windlass", "capi-"].iter().any(|beginning| manager.starts_with(beginning))
                // What this test applies and patches itself, and the garbage collector.
                || ["test", "kube-controller-manager"].contains(&manager.as_str())
        };
        assert!(seen.contains("windlass") && seen.contains("capi-topology"), "{seen:?}");
        let others: Vec<&String> = seen.iter().filter(|manager| !is_known(manager)).collect();
        assert!(others.is_empty(), "{others:?}");
    }

    /// What there is, for the reader of a failure.
    async fn state(&self) -> String {
        let clusters: Api<Cluster> = Api::default_namespaced(self.admin.clone());
        let conditions = clusters.get("quickstart").await.ok().map(|cluster| {
            serde_json::to_string_pretty(&serde_json::to_value(&cluster.status).unwrap()["conditions"])
                .unwrap()
        });
        let log = std::fs::read_to_string(self.cluster.directory().join("windlass.log")).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let log = lines[lines.len().saturating_sub(20)..].join("\n");
        format!("it takes too long: {}\n{log}\ncalls: {:?}", conditions.unwrap_or_default(), self.calls())
    }
}

/// Webhooks by address where they are by Service: the port and the certificate authority of what is behind the Services of a
/// namespace.
pub(crate) fn reachable(mut object: Value, behind: &dyn Fn(&str) -> (u16, String)) -> Value {
    fn visit(value: &mut Value, behind: &dyn Fn(&str) -> (u16, String)) {
        match value {
            Value::Object(fields) => {
                if let Some(Value::Object(config)) = fields.get_mut("clientConfig")
                    && let Some(service) = config.remove("service")
                {
                    let (port, bundle) = behind(service["namespace"].as_str().unwrap());
                    let path = service["path"].as_str().unwrap_or("/");
                    config.insert("url".to_owned(), json!(format!("https://127.0.0.1:{port}{path}")));
                    config.insert("caBundle".to_owned(), json!(bundle));
                }
                fields.values_mut().for_each(|field| visit(field, behind));
            }
            Value::Array(items) => items.iter_mut().for_each(|item| visit(item, behind)),
            _ => {}
        }
    }
    visit(&mut object, behind);
    object
}

pub(crate) async fn apply_all(admin: &Client, objects: Vec<Value>) {
    for object in objects {
        let about = format!("{} {}", object["kind"], object["metadata"]["name"]);
        let begun = Instant::now();
        // A webhook that has just been registered, or a kind that has just been defined, may not be there yet.
        while let Err(error) = apply(admin, &object).await {
            assert!(begun.elapsed() < Duration::from_secs(20), "{about}: {error}");
            tokio::time::sleep(Duration::from_millis(300)).await;
        }
    }
}

/// All objects of Cluster API, and Secrets, by kind and name.
pub(crate) async fn objects_of_cluster_api(admin: &Client) -> BTreeMap<String, Value> {
    let crds: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let mut found = BTreeMap::new();
    let mut kinds = vec![(GroupVersionKind::gvk("", "v1", "Secret"), "secrets".to_owned())];
    for crd in crds.list(&ListParams::default()).await.unwrap().items {
        let version = crd.spec.versions.iter().find(|version| version.storage).unwrap();
        if crd.spec.group.ends_with("cluster.x-k8s.io") && crd.spec.scope == "Namespaced" {
            let kind = GroupVersionKind::gvk(&crd.spec.group, &version.name, &crd.spec.names.kind);
            kinds.push((kind, crd.spec.names.plural.clone()));
        }
    }
    for (kind, plural) in kinds {
        let resource = ApiResource::from_gvk_with_plural(&kind, &plural);
        let api: Api<DynamicObject> = Api::default_namespaced_with(admin.clone(), &resource);
        for object in api.list(&ListParams::default()).await.unwrap().items {
            found.insert(
                format!("{} {}", kind.kind, object.name_any()),
                serde_json::to_value(object).unwrap(),
            );
        }
    }
    found
}

/// Waits until all CRDs can be used.
pub(crate) async fn established(admin: &Client) {
    let api: Api<CustomResourceDefinition> = Api::all(admin.clone());
    let begun = Instant::now();
    loop {
        let all = api.list(&ListParams::default()).await.unwrap().items;
        let conditions = |crd: &CustomResourceDefinition| -> BTreeMap<String, String> {
            let found = crd.status.as_ref().and_then(|status| status.conditions.clone());
            found.into_iter().flatten().map(|found| (found.type_, found.status)).collect()
        };
        for crd in &all {
            let wrong = conditions(crd).remove("NonStructuralSchema");
            assert_eq!(wrong, None, "{}: {:?}", crd.name_any(), crd.status);
        }
        let is = |crd| conditions(crd).get("Established").is_some_and(|status| status == "True");
        if all.iter().all(is) {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(30), "not all CRDs are established");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// A provider's CRD as it is released: the labels that say which contract it keeps are added then.
fn labelled(mut crd: Value) -> Value {
    let group = crd["spec"]["group"].as_str().unwrap();
    if ["infrastructure.", "bootstrap.", "controlplane."].iter().any(|part| group.starts_with(part)) {
        let versions =
            crd["spec"]["versions"].as_array().unwrap().iter().map(|version| version["name"].clone());
        let labels = versions.map(|name| (format!("cluster.x-k8s.io/{}", name.as_str().unwrap()), name));
        crd["metadata"]["labels"] = Value::Object(labels.collect());
    }
    crd
}

fn is_at(machine: &Machine, version: &str) -> bool {
    let node = machine.status.node_ref.is_some();
    node && machine.spec.version == version && machine.metadata.deletion_timestamp.is_none()
}

pub(crate) fn is_reconciled(cluster: &Cluster) -> bool {
    let conditions = serde_json::to_value(cluster).unwrap()["status"]["conditions"].clone();
    let is = |kind: &str| {
        let mut all = conditions.as_array().into_iter().flatten();
        all.any(|found| found["type"] == kind && found["status"] == "True")
    };
    is("TopologyReconciled") && is("Available")
}

/// Every machine that was ever there, and that no version skew was ever broken.
#[derive(Debug, Default)]
pub(crate) struct Machines {
    /// By UID, with the version.
    pub(crate) seen: BTreeMap<String, String>,
}

impl Machines {
    fn see(&mut self, now: &[Machine]) {
        let mut versions: BTreeMap<bool, BTreeSet<u64>> = BTreeMap::new();
        for machine in now {
            let version = machine.spec.version.clone();
            let minor = Version::parse(&version).unwrap().minor().minor;
            let is_control_plane = machine.labels().contains_key("cluster.x-k8s.io/control-plane");
            versions.entry(is_control_plane).or_default().insert(minor);
            self.seen.insert(machine.uid().unwrap(), version);
        }
        let (control_plane, workers) = (versions.get(&true), versions.get(&false));
        let (Some(control_plane), Some(workers)) = (control_plane, workers) else { return };
        let (lowest, highest) = (control_plane.first().unwrap(), control_plane.last().unwrap());
        assert!(highest - lowest <= 1, "control plane: {control_plane:?}");
        assert!(workers.last() <= Some(lowest), "workers {workers:?} are ahead of {control_plane:?}");
        assert!(
            highest - workers.first().unwrap() <= 3,
            "workers {workers:?} are too far behind {control_plane:?}"
        );
    }
}

fn is_dev(crd: &Value) -> bool {
    crd["spec"]["group"] == "infrastructure.cluster.x-k8s.io"
}

pub(crate) fn manifests(file: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    documents(&text)
}

/// The documents of a manifest.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    documents.into_iter().filter(|document| !document.is_null()).collect()
}

fn deploy(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/alone").join(file)
}

pub(crate) fn example(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file)
}
