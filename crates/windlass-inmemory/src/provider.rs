//! The provider as a whole, and what its controllers have in common.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::infrastructure::{DevCluster, DevMachine, DevMachinePool};
use windlass_api::names::CLUSTER_NAME_LABEL;
use windlass_apiserver::Clock;
use windlass_engine::condition;
use windlass_engine::machine_set::is_updating;
use windlass_runtime::{Cache, Context, Incomplete, Kind, Manager, ObjectKey, Outcome, WriteError};

use crate::cluster::DevClusters;
use crate::machine::{DevMachines, node_name};
use crate::pool::DevMachinePools;
use crate::startup::Part;
use crate::workload::{WorkloadCluster, WorkloadClusters, WorkloadError};

/// Field manager of everything that the provider applies.
pub(crate) const FIELD_MANAGER: &str = "windlass-inmemory";

/// The provider. Cheap to clone; all clones share their workload clusters.
#[derive(Debug, Clone)]
pub struct Provider {
    workloads: WorkloadClusters,
    seed: u64,
}

impl Provider {
    /// A provider without clusters. The clock is what workload clusters take the time from; all chance comes from the
    /// seed.
    pub fn new(clock: Clock, seed: u64) -> Self {
        Self { workloads: WorkloadClusters::new(clock, seed), seed }
    }

    /// The same in a process that must not reach any cluster outside of it, as simulations must not.
    pub fn isolated(clock: Clock, seed: u64) -> Self {
        Self { workloads: WorkloadClusters::isolated(clock, seed), seed }
    }

    /// The workload clusters.
    pub fn workloads(&self) -> &WorkloadClusters {
        &self.workloads
    }

    /// Adds the controllers of the provider to a manager: DevCluster, DevMachine and DevMachinePool.
    pub fn register(&self, manager: &Manager) {
        let world = World {
            clusters: manager.cache(),
            dev_clusters: manager.cache(),
            machines: manager.cache(),
            pools: manager.cache(),
            dev_machines: manager.cache(),
            dev_pools: manager.cache(),
            workloads: self.workloads.clone(),
            seed: self.seed,
        };
        DevClusters::register(manager, &world);
        DevMachines::register(manager, &world);
        DevMachinePools::register(manager, &world);
    }
}

/// Why a reconcile of the provider failed.
#[derive(Debug, thiserror::Error)]
pub enum DevError {
    /// A write to the management cluster failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// A workload cluster could not be changed.
    #[error(transparent)]
    Workload(#[from] WorkloadError),
}

/// What the controllers of the provider look at.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) clusters: Cache<Cluster>,
    pub(crate) dev_clusters: Cache<DevCluster>,
    pub(crate) machines: Cache<Machine>,
    pub(crate) pools: Cache<MachinePool>,
    pub(crate) dev_machines: Cache<DevMachine>,
    pub(crate) dev_pools: Cache<DevMachinePool>,
    pub(crate) workloads: WorkloadClusters,
    pub(crate) seed: u64,
}

/// The Cluster of a machine, its DevCluster, and the workload cluster of that.
pub(crate) struct Home {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) dev_cluster: Option<Arc<DevCluster>>,
}

impl World {
    /// Where the machines of a Cluster live.
    pub(crate) fn home(&self, namespace: &str, cluster: &str) -> Option<Home> {
        let cluster = self.clusters.get(&ObjectKey::new(namespace, cluster))?;
        let reference =
            cluster.spec.infrastructure_ref.as_ref().filter(|reference| reference.kind == DevCluster::KIND);
        let dev_cluster = reference
            .and_then(|reference| self.dev_clusters.get(&ObjectKey::new(namespace, &reference.name)));
        Some(Home { cluster, dev_cluster })
    }

    /// The workload cluster of a DevCluster; made anew if this process does not have it yet.
    pub(crate) async fn workload(&self, dev_cluster: &DevCluster) -> Result<WorkloadCluster, WorkloadError> {
        self.workloads.ensure(&host_of(dev_cluster), || self.nodes_before(dev_cluster)).await
    }

    /// The Nodes that the workload cluster of a DevCluster had when this process was started.
    fn nodes_before(&self, dev_cluster: &DevCluster) -> BTreeSet<String> {
        let Some(cluster) = cluster_name(dev_cluster) else { return BTreeSet::new() };
        let namespace = ObjectKey::of(dev_cluster).namespace;
        let labels = BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.clone())]);
        let machines = self.dev_machines.labelled(&namespace, &labels).into_iter();
        let machines = machines
            .filter(|machine| condition::is_true(&machine.status.conditions, Part::Node.condition()))
            .map(|machine| node_name(&machine));
        let pools = self.dev_pools.labelled(&namespace, &labels);
        let instances = pools.iter().flat_map(|pool| &pool.status.instances);
        let instances = instances.filter(|instance| instance.ready == Some(true));
        machines.chain(instances.map(|instance| instance.instance_name.clone())).collect()
    }

    /// The workload cluster from which something goes; nothing if the cluster goes with it. Made anew if this process does
    /// not have it yet: it awaits the Nodes that it had before, and must be told of those that will not come.
    pub(crate) async fn workload_to_leave(
        &self,
        namespace: &str,
        cluster: &str,
    ) -> Result<Option<WorkloadCluster>, WorkloadError> {
        let Some(dev_cluster) = self.home(namespace, cluster).and_then(|home| home.dev_cluster) else {
            return Ok(None);
        };
        if dev_cluster.metadata.deletion_timestamp.is_some() {
            return Ok(self.workloads.get(&host_of(&dev_cluster)));
        }
        self.workload(&dev_cluster).await.map(Some)
    }
}

/// The host of a DevCluster: what its spec says, or what the provider would write there.
pub(crate) fn host_of(dev_cluster: &DevCluster) -> String {
    let host = &dev_cluster.spec.control_plane_endpoint.host;
    if host.is_empty() {
        WorkloadClusters::host(&ObjectKey::of(dev_cluster).namespace, &dev_cluster.name_any())
    } else {
        host.clone()
    }
}

impl Home {
    /// Annotations of the DevCluster, which hold knobs for all machines.
    pub(crate) fn annotations(&self) -> BTreeMap<String, String> {
        self.dev_cluster.as_ref().map(|dev_cluster| dev_cluster.annotations().clone()).unwrap_or_default()
    }

    /// What a machine still waits for before it can start.
    pub(crate) fn hold(&self, control_plane: bool, data_secret: Option<&String>) -> Option<Hold> {
        let initialization = &self.cluster.status.initialization;
        match () {
            () if initialization.infrastructure_provisioned != Some(true) || self.dev_cluster.is_none() => {
                Some(Hold::ClusterInfrastructure)
            }
            () if !control_plane && initialization.control_plane_initialized != Some(true) => {
                Some(Hold::ControlPlaneInitialized)
            }
            () if data_secret.is_none_or(String::is_empty) => Some(Hold::BootstrapData),
            () => None,
        }
    }
}

/// What a machine waits for before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    Owner,
    ClusterInfrastructure,
    ControlPlaneInitialized,
    BootstrapData,
}

impl Hold {
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Owner => "WaitingForOwner",
            Self::ClusterInfrastructure => "WaitingForClusterInfrastructureReady",
            Self::ControlPlaneInitialized => "WaitingForControlPlaneInitialized",
            Self::BootstrapData => "WaitingForBootstrapData",
        }
    }

    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Owner => "waiting for its owner to claim it",
            Self::ClusterInfrastructure => "waiting for the infrastructure of the Cluster",
            Self::ControlPlaneInitialized => "waiting for the control plane to be initialized",
            Self::BootstrapData => "waiting for bootstrap data",
        }
    }
}

/// The Cluster that an object belongs to, by its label.
pub(crate) fn cluster_name<K: Resource>(object: &K) -> Option<&String> {
    object.labels().get(CLUSTER_NAME_LABEL)
}

/// Adds a finalizer; true if that was needed.
pub(crate) async fn add_finalizer<K: Kind>(
    context: &Context,
    object: &K,
    finalizer: &str,
) -> Result<bool, WriteError>
where
    K::DynamicType: Default,
{
    if object.finalizers().iter().any(|has| has == finalizer) {
        return Ok(false);
    }
    let mut finalizers = object.finalizers().to_vec();
    finalizers.push(finalizer.to_owned());
    context.writer().patch(object, json!({"metadata": {"finalizers": finalizers}})).await?;
    Ok(true)
}

/// Removes a finalizer, if it is there.
pub(crate) async fn remove_finalizer<K: Kind>(
    context: &Context,
    object: &K,
    finalizer: &str,
) -> Result<Outcome, WriteError>
where
    K::DynamicType: Default,
{
    if object.finalizers().iter().any(|has| has == finalizer) {
        let finalizers: Vec<&String> = object.finalizers().iter().filter(|has| *has != finalizer).collect();
        context.writer().patch(object, json!({"metadata": {"finalizers": finalizers}})).await?;
    }
    Ok(Outcome::done())
}

/// An intent to apply the status of an object, which never creates one.
pub(crate) fn status_intent<K: Resource>(object: &K, status: impl serde::Serialize) -> Value {
    json!({
        "metadata": {"name": object.name_any(), "namespace": object.namespace(), "uid": object.uid()},
        "status": status,
    })
}

/// The machines of a Cluster, when something changed in it that they wait for.
pub(crate) fn concerned<K: Kind>(
    cache: &Cache<K>,
    before: Option<&Cluster>,
    after: Option<&Cluster>,
) -> Vec<ObjectKey> {
    let Some(cluster) = after else { return Vec::new() };
    let relevant = |cluster: &Cluster| (cluster.status.initialization, cluster.spec.paused);
    if before.map(relevant) == Some(relevant(cluster)) {
        return Vec::new();
    }
    let labels = BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.name_any())]);
    let found = cache.labelled(&ObjectKey::of(cluster).namespace, &labels);
    found.iter().map(|object| ObjectKey::of(object.as_ref())).collect()
}

/// The machines of a DevCluster, when its knobs or its endpoint changed.
pub(crate) fn concerned_by_infrastructure<K: Kind>(
    cache: &Cache<K>,
    before: Option<&DevCluster>,
    after: Option<&DevCluster>,
) -> Vec<ObjectKey> {
    let Some(dev_cluster) = after else { return Vec::new() };
    let relevant = |dev_cluster: &DevCluster| {
        (dev_cluster.annotations().clone(), dev_cluster.spec.control_plane_endpoint.clone())
    };
    let Some(cluster) = cluster_name(dev_cluster) else { return Vec::new() };
    if before.map(relevant) == Some(relevant(dev_cluster)) {
        return Vec::new();
    }
    let labels = BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), cluster.clone())]);
    let found = cache.labelled(&ObjectKey::of(dev_cluster).namespace, &labels);
    found.iter().map(|object| ObjectKey::of(object.as_ref())).collect()
}

/// The DevMachine of a Machine, when something changed that it looks at. What Machines report about themselves, most
/// of what changes in them, is nothing of that.
pub(crate) fn dev_machine_of(before: Option<&Machine>, after: Option<&Machine>) -> Vec<ObjectKey> {
    let relevant = |machine: &Machine| {
        let deleting = machine.metadata.deletion_timestamp.is_some();
        (machine.spec.clone(), deleting, machine.labels().clone(), is_updating(machine))
    };
    if before.map(relevant) == after.map(relevant) {
        return Vec::new();
    }
    let Some(machine) = after.or(before) else { return Vec::new() };
    let reference = &machine.spec.infrastructure_ref;
    if reference.kind != DevMachine::KIND {
        return Vec::new();
    }
    vec![ObjectKey::new(ObjectKey::of(machine).namespace, &reference.name)]
}
