//! A cluster whose machines are updated in place.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use serde_json::{Value, json};
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::CONTROL_PLANE_LABEL;
use windlass_engine::condition;
use windlass_inmemory::WorkloadClusters;
use windlass_runtime::WriteFault;
use windlass_simulate::{
    ClusterManifests, Population, SimulatedExtension, SimulatedExternalUpdater, SimulatedUpdater, Startup,
    WorkerGroup, World, WorldOptions, is_complete, key,
};

pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);
const CONTROL_PLANE: &str = "c-control-plane";

pub(crate) struct Scene {
    pub(crate) world: World,
    manifests: ClusterManifests,
    group: WorkerGroup,
    pub(crate) population: Population,
}

/// The write at which a round kills, and how. Every write has two rounds: in one it is killed before it, so that what was
/// done since the write before is lost, and in the next after it.
pub(crate) fn place(round: u32) -> (u64, WriteFault) {
    let fault = if round.is_multiple_of(2) { WriteFault::CrashAfter } else { WriteFault::CrashBefore };
    (u64::from(round.div_ceil(2)), fault)
}

/// A strategy that replaces no machine, or only as the fallback says.
pub(crate) fn external(fallback: Option<Value>) -> Value {
    match fallback {
        None => json!({"type": "External"}),
        Some(fallback) => json!({"type": "External", "fallbackRolling": fallback}),
    }
}

impl Scene {
    /// A cluster with so many control plane machines and workers, of version v1.33.0, and the extensions that update them.
    pub(crate) async fn new(
        control_plane: u32,
        group: WorkerGroup,
        extension: &SimulatedExtension,
        updaters: &[&SimulatedUpdater],
    ) -> Self {
        let manifests = ClusterManifests::new("c", "v1.33.0", control_plane)
            .startup(Startup { vm: 1.0, node: 1.0, jitter: 0.0 })
            .workers(group.clone());
        let population = Population::of(&group.deployment_name("c"));
        let mut world = World::begin(WorldOptions::extended_by(1, extension)).await.unwrap();
        world.observe(population.clone());
        let configs: Vec<Value> = updaters.iter().map(|updater| updater.config()).collect();
        world.apply_objects(&configs).await.unwrap();
        world.apply_objects(&manifests.objects()).await.unwrap();
        let deployment = group.deployment_name("c");
        let up =
            |world: &World| is_complete(world, &deployment) && has_reached(world, "v1.33.0", control_plane);
        world.run_until("all machines are up", LONG, up).await.unwrap();
        population.begin(world.now());
        Self { world, manifests, group, population }
    }

    /// The same, with external updaters instead of updaters.
    pub(crate) async fn with_external_updaters(
        control_plane: u32,
        group: WorkerGroup,
        extension: &SimulatedExtension,
        updaters: &[&SimulatedExternalUpdater],
    ) -> Self {
        let scene = Self::new(control_plane, group, extension, &[]).await;
        let configs: Vec<Value> = updaters.iter().map(|updater| updater.config()).collect();
        scene.world.apply_objects(&configs).await.unwrap();
        scene
    }

    /// Gives the workers another version, with a strategy.
    pub(crate) async fn update_workers_by(&mut self, patch: u32, strategy: Value) {
        self.update_workers_with(patch, |objects| objects[2]["spec"]["rollout"]["strategy"] = strategy).await;
    }

    /// Gives the workers another version.
    pub(crate) async fn update_workers(&mut self, patch: u32) {
        self.update_workers_with(patch, |_| {}).await;
    }

    /// Gives the workers another version, and changes their templates and MachineDeployment.
    pub(crate) async fn update_workers_with(&mut self, patch: u32, change: impl FnOnce(&mut [Value])) {
        self.group = self.group.clone().generation(patch + 1).version(&format!("v1.33.{patch}"));
        let mut objects = self.manifests.worker_objects(&self.group);
        change(&mut objects);
        self.world.apply_objects(&objects).await.unwrap();
    }

    pub(crate) async fn until_workers_are_done(&mut self) {
        let deployment = self.group.deployment_name("c");
        let done = |world: &World| is_complete(world, &deployment);
        self.world.run_until("the rollout is complete", LONG, done).await.unwrap();
    }

    pub(crate) async fn update_control_plane(&mut self, patch: u32, strategy: Value) {
        let spec = json!({"spec": {"version": format!("v1.33.{patch}"), "rollout": {"strategy": strategy}}});
        self.world.patch::<KubeadmControlPlane>(&key(CONTROL_PLANE), spec).await.unwrap();
    }

    pub(crate) async fn until_control_plane_is(&mut self, patch: u32, replicas: u32) {
        let version = format!("v1.33.{patch}");
        let reached = |world: &World| has_reached(world, &version, replicas);
        self.world.run_until("the control plane is updated", LONG, reached).await.unwrap();
    }

    pub(crate) async fn until(&mut self, what: &str, limit: Duration, reached: impl FnMut(&World) -> bool) {
        self.world.run_until(what, limit, reached).await.unwrap_or_else(|error| panic!("{error}"));
    }

    /// Lets so much time pass.
    pub(crate) async fn pass(&mut self, time: Duration) {
        self.world.run_until("never", time, |_| false).await.unwrap_err();
    }

    pub(crate) fn deployment(&self) -> MachineDeployment {
        self.world.get(&key(&self.group.deployment_name("c"))).unwrap()
    }

    pub(crate) fn control_plane(&self) -> KubeadmControlPlane {
        self.world.get(&key(CONTROL_PLANE)).unwrap()
    }

    pub(crate) fn workers(&self) -> Vec<Machine> {
        workers(&self.world)
    }

    pub(crate) fn worker_names(&self) -> Vec<String> {
        self.workers().iter().map(ResourceExt::name_any).collect()
    }

    pub(crate) fn control_plane_names(&self) -> Vec<String> {
        control_planes(&self.world).iter().map(ResourceExt::name_any).collect()
    }

    /// The Nodes to which no pod is scheduled.
    pub(crate) async fn cordoned(&self) -> Vec<String> {
        let provider = self.world.provider().unwrap();
        let workload = provider.workloads().get(&WorkloadClusters::host("default", "c")).unwrap();
        let nodes: Api<Node> = Api::all(workload.inside().clone());
        let nodes = nodes.list(&ListParams::default()).await.unwrap().items.into_iter();
        let is_cordoned =
            |node: &Node| node.spec.as_ref().is_some_and(|spec| spec.unschedulable == Some(true));
        nodes.filter(is_cordoned).map(|node| node.name_any()).collect()
    }

    /// Status, reason and message of a condition of the MachineDeployment.
    pub(crate) fn said(&self, type_: &str) -> Option<(String, String, String)> {
        said(&self.deployment().status.conditions, type_)
    }
}

pub(crate) fn said(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    type_: &str,
) -> Option<(String, String, String)> {
    let found = condition::find(conditions, type_)?;
    Some((found.status.clone(), found.reason.clone(), found.message.clone()))
}

pub(crate) fn workers(world: &World) -> Vec<Machine> {
    let all = world.list::<Machine>().into_iter();
    all.filter(|machine| machine.labels().contains_key("group")).collect()
}

pub(crate) fn control_planes(world: &World) -> Vec<Machine> {
    let all = world.list::<Machine>().into_iter();
    all.filter(|machine| machine.labels().contains_key(CONTROL_PLANE_LABEL)).collect()
}

pub(crate) fn kubelet(machine: &Machine) -> String {
    machine.status.node_info.as_ref().map(|info| info.kubelet_version.clone()).unwrap_or_default()
}

/// Whether all of the control plane runs a version and is up to date.
pub(crate) fn has_reached(world: &World, version: &str, replicas: u32) -> bool {
    let Some(found) = world.get::<KubeadmControlPlane>(&key(CONTROL_PLANE)) else { return false };
    let status = &found.status;
    let wanted = i32::try_from(replicas).ok();
    let counts = [status.replicas, status.ready_replicas, status.up_to_date_replicas];
    counts.iter().all(|count| *count == wanted)
        && status.versions.iter().all(|running| running.version == version)
        && status.observed_generation >= found.metadata.generation
}
