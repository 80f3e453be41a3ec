//! Workload clusters that exist in this process only: one small API per cluster, whatever the number of its Nodes.

mod etcd;
mod gate;
mod objects;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Client;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Clock, Options};
use windlass_etcd::{MemoryEtcd, Refusal};
use windlass_random::mix;
use windlass_store::{History, Store};

use etcd::Members;
use gate::{Door, Gate};
pub use objects::Kubelet;
pub(crate) use objects::address;

/// The end of every made-up host name. Nothing outside of the process resolves it: the domain is reserved.
pub const DOMAIN: &str = "dev.windlass.internal";
/// The port of every made-up address.
pub const PORT: i32 = 6443;

/// All workload clusters of the process. Cheap to clone; all clones are one.
#[derive(Clone)]
pub struct WorkloadClusters {
    inner: Arc<Inner>,
}

struct Inner {
    clock: Clock,
    seed: u64,
    is_isolated: bool,
    clusters: Mutex<BTreeMap<String, WorkloadCluster>>,
}

/// What became of an address.
#[derive(Clone)]
pub enum Resolution {
    /// It is not one of this process.
    Elsewhere,
    /// It is, and nothing listens there.
    Down,
    /// It is answered in the process.
    Open {
        /// The API server.
        client: Client,
        /// The etcd behind it.
        etcd: MemoryEtcd,
    },
}

impl fmt::Debug for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elsewhere => "Elsewhere",
            Self::Down => "Down",
            Self::Open { .. } => "Open",
        })
    }
}

/// Why a workload cluster could not be changed.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// It did not start.
    #[error("the API of {host} did not start: {why}")]
    Start {
        /// Which one.
        host: String,
        /// Why.
        why: String,
    },
    /// A request failed.
    #[error("{what}: {}", windlass_runtime::describe_error(source))]
    Request {
        /// What was tried.
        what: String,
        /// How it failed.
        source: Box<kube::Error>,
    },
    /// Its etcd takes no member.
    #[error("etcd takes no member {member}: {refusal}")]
    Etcd {
        /// The member.
        member: String,
        /// Why.
        refusal: Refusal,
    },
    /// An object of this provider has the wrong shape, which is a mistake in the provider.
    #[error("{what} is malformed: {source}")]
    Shape {
        /// Which object.
        what: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
}

impl WorkloadClusters {
    /// No clusters yet. `seed` makes uids the same in every run.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self { inner: Arc::new(Inner { clock, seed, is_isolated: false, clusters: Mutex::default() }) }
    }

    /// The same for a process that must not reach any cluster outside of it: no address is elsewhere.
    pub fn isolated(clock: Clock, seed: u64) -> Self {
        Self { inner: Arc::new(Inner { clock, seed, is_isolated: true, clusters: Mutex::default() }) }
    }

    /// The host name of the cluster of a DevCluster: the same after every restart.
    pub fn host(namespace: &str, name: &str) -> String {
        format!("{name}.{namespace}.{DOMAIN}")
    }

    /// The cluster at a host, if it was started.
    pub fn get(&self, host: &str) -> Option<WorkloadCluster> {
        self.clusters().get(host).cloned()
    }

    /// The cluster at a host; starts it if it is not there. It lets no client in before the Nodes are there that it had
    /// before.
    pub async fn ensure(
        &self,
        host: &str,
        nodes_before: impl FnOnce() -> BTreeSet<String>,
    ) -> Result<WorkloadCluster, WorkloadError> {
        if let Some(cluster) = self.get(host) {
            return Ok(cluster);
        }
        let seed = mix(self.inner.seed, &["workload", host], 0);
        let cluster = WorkloadCluster::start(host, self.inner.clock.clone(), seed, nodes_before()).await?;
        // Two may have started it at the same time; the first one stays.
        Ok(self.clusters().entry(host.to_owned()).or_insert(cluster).clone())
    }

    /// Takes a cluster and all that is in it away.
    pub fn remove(&self, host: &str) {
        if let Some(cluster) = self.clusters().remove(host) {
            cluster.door.close_all();
        }
    }

    /// What is behind the address of a kubeconfig, such as `https://c1.default.dev.windlass.internal:6443`.
    pub fn resolve(&self, server: &str) -> Resolution {
        let host = host_in(server);
        match self.get(host) {
            Some(cluster) if cluster.door.is_open() => {
                Resolution::Open { client: cluster.outside.clone(), etcd: cluster.etcd.ensemble() }
            }
            None if !host.ends_with(DOMAIN) && !self.inner.is_isolated => Resolution::Elsewhere,
            _ => Resolution::Down,
        }
    }

    fn clusters(&self) -> MutexGuard<'_, BTreeMap<String, WorkloadCluster>> {
        self.inner.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The host of an address; one of IPv6 is in brackets there.
fn host_in(server: &str) -> &str {
    let address = server.split_once("://").map_or(server, |(_, address)| address);
    match address.strip_prefix('[') {
        Some(address) => address.split(']').next().unwrap_or_default(),
        None => address.split(['/', ':']).next().unwrap_or_default(),
    }
}

impl fmt::Debug for WorkloadClusters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.clusters().keys()).finish()
    }
}

/// One workload cluster.
#[derive(Clone)]
pub struct WorkloadCluster {
    _server: ApiServer,
    /// For the provider: it puts things there before anything listens.
    inside: Client,
    /// For the controllers: answers only while an API server of a control plane machine runs.
    outside: Client,
    etcd: Members,
    door: Door,
}

impl WorkloadCluster {
    async fn start(
        host: &str,
        clock: Clock,
        seed: u64,
        nodes_before: BTreeSet<String>,
    ) -> Result<Self, WorkloadError> {
        let options = Options::new().clock(clock).seed(seed);
        let server = ApiServer::start(Store::in_memory(History::default()), options).await;
        let server =
            server.map_err(|why| WorkloadError::Start { host: host.to_owned(), why: why.to_string() })?;
        let door = Door::awaiting(nodes_before);
        let inside = Client::new(server.service(), "default");
        let outside = Client::new(Gate::new(server.service(), door.clone(), host), "default");
        Ok(Self { _server: server, inside, outside, etcd: Members::default(), door })
    }

    /// A client that is answered whether or not anything listens: what only the provider may do.
    pub fn inside(&self) -> &Client {
        &self.inside
    }

    /// Its etcd.
    pub fn etcd(&self) -> MemoryEtcd {
        self.etcd.ensemble()
    }

    /// Whether an API server listens.
    pub fn is_open(&self) -> bool {
        self.door.is_open()
    }

    fn nodes_api(&self) -> Api<DynamicObject> {
        Api::all_with(self.inside.clone(), &ApiResource::erase::<Node>(&()))
    }

    fn pods_api(&self, namespace: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.inside.clone(), namespace, &ApiResource::erase::<Pod>(&()))
    }

    /// Registers a Node, or brings an existing one to the state that its machine is in.
    pub async fn put_node(&self, kubelet: &Kubelet) -> Result<(), WorkloadError> {
        let nodes = self.nodes_api();
        let about = || format!("Node {}", kubelet.name);
        if create(&nodes, about(), objects::node(kubelet)).await? {
            patch_status(&nodes, about(), &kubelet.name, &objects::node_status(kubelet)).await?;
            self.door.arrived(&kubelet.name);
            return Ok(());
        }
        let existing = nodes.get(&kubelet.name).await.map_err(|error| request(about(), error))?;
        let status = &existing.data["status"];
        let ready =
            status["conditions"].as_array().into_iter().flatten().find(|found| found["type"] == "Ready");
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        if status["nodeInfo"]["kubeletVersion"] != kubelet.version.as_str()
            || is_ready == kubelet.not_ready.is_some()
        {
            patch_status(&nodes, about(), &kubelet.name, &objects::node_status(kubelet)).await?;
        }
        Ok(())
    }

    /// Puts a pod on a Node that never goes away: a drain of the Node waits for it.
    pub async fn put_stubborn_pod(&self, node: &str) -> Result<(), WorkloadError> {
        let pods = self.pods_api("default");
        let name = format!("{node}-stubborn");
        create(&pods, format!("Pod {name}"), objects::stubborn_pod(&name, node)).await.map(drop)
    }

    /// Lets the pod go that [`WorkloadCluster::put_stubborn_pod`] put there.
    pub async fn release_stubborn_pod(&self, node: &str) -> Result<(), WorkloadError> {
        let pods = self.pods_api("default");
        remove(&pods, &format!("{node}-stubborn")).await
    }

    /// Starts the etcd member of a control plane machine.
    pub async fn put_etcd(&self, kubelet: &Kubelet) -> Result<(), WorkloadError> {
        self.etcd.join(&kubelet.name)?;
        self.put_static_pod(objects::static_pod("etcd", kubelet), kubelet, "etcd").await
    }

    /// Starts API server, scheduler and controller manager of a control plane machine, and what kubeadm leaves in the
    /// cluster. From the first one on, the cluster answers.
    pub async fn put_control_plane(&self, kubelet: &Kubelet) -> Result<(), WorkloadError> {
        for component in ["kube-apiserver", "kube-scheduler", "kube-controller-manager"] {
            self.put_static_pod(objects::static_pod(component, kubelet), kubelet, component).await?;
        }
        for (resource, namespace, object) in objects::addons(&kubelet.version) {
            let about = format!("{} {}", resource.kind, object["metadata"]["name"]);
            let api: Api<DynamicObject> = match namespace {
                Some(namespace) => Api::namespaced_with(self.inside.clone(), namespace, &resource),
                None => Api::all_with(self.inside.clone(), &resource),
            };
            create(&api, about, object).await?;
        }
        self.door.open(&kubelet.name);
        Ok(())
    }

    async fn put_static_pod(
        &self,
        pod: Value,
        kubelet: &Kubelet,
        component: &str,
    ) -> Result<(), WorkloadError> {
        let pods = self.pods_api("kube-system");
        let name = format!("{component}-{}", kubelet.name);
        let image = json!({"spec": pod["spec"].clone()});
        if create(&pods, format!("Pod {name}"), pod).await? {
            return patch_status(&pods, format!("Pod {name}"), &name, &objects::running()).await;
        }
        let existing = pods.get(&name).await.map_err(|error| request(format!("Pod {name}"), error))?;
        if existing.data["spec"]["containers"][0]["image"] != image["spec"]["containers"][0]["image"] {
            patch(&pods, format!("Pod {name}"), &name, &image).await?;
        }
        Ok(())
    }

    /// Takes a machine away: its Node, all that runs on it, and its API server.
    pub async fn remove_machine(&self, name: &str) -> Result<(), WorkloadError> {
        self.door.close(name);
        self.door.arrived(name);
        self.etcd.leave(name);
        let all: Api<DynamicObject> = Api::all_with(self.inside.clone(), &ApiResource::erase::<Pod>(&()));
        let on_node = ListParams::default().fields(&format!("spec.nodeName={name}"));
        let pods =
            all.list(&on_node).await.map_err(|error| request(format!("pods of Node {name}"), error))?;
        for pod in pods.items {
            let (namespace, pod) =
                (pod.metadata.namespace.unwrap_or_default(), pod.metadata.name.unwrap_or_default());
            let pods = self.pods_api(&namespace);
            remove(&pods, &pod).await?;
        }
        let nodes = self.nodes_api();
        remove(&nodes, name).await
    }

    /// The names of all Nodes.
    pub async fn nodes(&self) -> Result<BTreeSet<String>, WorkloadError> {
        let nodes = self.nodes_api();
        let nodes =
            nodes.list(&ListParams::default()).await.map_err(|error| request("Nodes".to_owned(), error))?;
        Ok(nodes.items.into_iter().filter_map(|node| node.metadata.name).collect())
    }
}

impl fmt::Debug for WorkloadCluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadCluster").field("open", &self.is_open()).finish_non_exhaustive()
    }
}

/// Creates an object; false if there is one already.
async fn create(api: &Api<DynamicObject>, about: String, object: Value) -> Result<bool, WorkloadError> {
    let object = serde_json::from_value(object);
    let object = object.map_err(|source| WorkloadError::Shape { what: about.clone(), source })?;
    match api.create(&PostParams::default(), &object).await {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(request(about, error)),
    }
}

async fn patch(
    api: &Api<DynamicObject>,
    about: String,
    name: &str,
    patch: &Value,
) -> Result<(), WorkloadError> {
    let patched = api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map(drop).map_err(|error| request(about, error))
}

async fn patch_status(
    api: &Api<DynamicObject>,
    about: String,
    name: &str,
    patch: &Value,
) -> Result<(), WorkloadError> {
    let patched = api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await;
    patched.map(drop).map_err(|error| request(about, error))
}

/// Deletes an object and its finalizers: a machine that is gone waits for no controller.
async fn remove(api: &Api<DynamicObject>, name: &str) -> Result<(), WorkloadError> {
    let release = json!({"metadata": {"finalizers": null}});
    match api.patch(name, &PatchParams::default(), &Patch::Merge(&release)).await {
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(()),
        patched => drop(patched.map_err(|error| request(name.to_owned(), error))?),
    }
    match api.delete(name, &DeleteParams::default()).await {
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
        deleted => deleted.map(drop).map_err(|error| request(name.to_owned(), error)),
    }
}

fn request(what: String, error: kube::Error) -> WorkloadError {
    WorkloadError::Request { what, source: Box::new(error) }
}

/// A number that depends on nothing but these strings.
pub(crate) fn hash(parts: &[&str]) -> u64 {
    mix(0, parts, 0)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn hosts_are_found_in_addresses() {
        for (server, host) in [
            ("https://c1.example.com:6443", "c1.example.com"),
            ("https://10.0.0.1:6443/path", "10.0.0.1"),
            ("https://[fd00::1]:6443", "fd00::1"),
            ("c1.example.com", "c1.example.com"),
        ] {
            assert_eq!(host_in(server), host);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_outside_is_reached_from_an_isolated_process() {
        let clock = || Clock::starting_at(Timestamp::UNIX_EPOCH);
        let (open, isolated) = (WorkloadClusters::new(clock(), 1), WorkloadClusters::isolated(clock(), 1));
        let server = "https://production.example.com:6443";
        assert!(matches!(open.resolve(server), Resolution::Elsewhere));
        assert!(matches!(isolated.resolve(server), Resolution::Down));
        // A cluster of a real host name that was rebuilt in memory is answered in memory.
        let cluster = isolated.ensure("production.example.com", BTreeSet::new).await.unwrap();
        assert!(matches!(isolated.resolve(server), Resolution::Down), "no API server runs yet");
        cluster.door.open("m1");
        assert!(matches!(isolated.resolve(server), Resolution::Open { .. }));
    }
}
