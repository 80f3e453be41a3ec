//! Managed clusters in a world that is watched.

use std::time::Duration;

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::Cluster;
use windlass_api::names::{PENDING_HOOKS_ANNOTATION, UPGRADE_STEP_ANNOTATION};
use windlass_plan::{PlanRequest, Source, UpgradeHook, WorkerGroup, plan};
use windlass_simulate::{
    Chronicle, SimulatedExtension, TopologyManifests, World, WorldError, WorldOptions, is_at, key,
};
use windlass_version::Version;

/// Longer than anything here takes.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

pub(crate) struct Chains {
    pub(crate) world: World,
    pub(crate) extension: SimulatedExtension,
    pub(crate) chronicle: Chronicle,
}

impl Chains {
    /// A world in which everything is watched, with an extension and nothing else.
    pub(crate) async fn begin(seed: u64) -> Self {
        let (extension, chronicle) = (SimulatedExtension::new(), Chronicle::new());
        let world = World::begin(WorldOptions::extended_by(seed, &extension)).await.unwrap();
        extension.follow(&world);
        world.observe(chronicle.clone());
        world.apply_object(&SimulatedExtension::config()).await.unwrap();
        Self { world, extension, chronicle }
    }

    /// A world with one cluster that is complete.
    pub(crate) async fn with(seed: u64, manifests: TopologyManifests, version: &str) -> Self {
        let mut chains = Self::begin(seed).await;
        chains.world.apply_objects(&manifests.objects()).await.unwrap();
        chains.until_at("c1", version).await.unwrap();
        chains.forget("c1");
        chains
    }

    /// Forgets what happened so far.
    pub(crate) fn forget(&self, cluster: &str) {
        self.chronicle.begin(cluster);
        self.extension.begin();
    }

    pub(crate) async fn change_version(&self, cluster: &str, version: &str) {
        self.change(cluster, json!({"version": version})).await;
    }

    /// Merges something into a topology.
    pub(crate) async fn change(&self, cluster: &str, topology: Value) {
        let patch = json!({"spec": {"topology": topology}});
        self.world.patch::<Cluster>(&key(cluster), patch).await.unwrap();
    }

    pub(crate) async fn until_at(&mut self, cluster: &str, version: &str) -> Result<(), WorldError> {
        let goal = format!("{cluster} is at {version}");
        let (key, version) = (key(cluster), Version::parse(version).unwrap());
        self.world.run_until(&goal, LONG, |world| is_at(world, &key, &version)).await
    }

    pub(crate) async fn until(&mut self, goal: &str, reached: impl FnMut(&World) -> bool) {
        self.world.run_until(goal, LONG, reached).await.unwrap();
    }

    /// Lets so many seconds pass.
    pub(crate) async fn pass(&mut self, seconds: u64) {
        let error = self.world.run_until("never", Duration::from_secs(seconds), |_| false).await.unwrap_err();
        assert!(matches!(error, WorldError::NotReached(_)), "{error}");
    }

    pub(crate) fn story(&self, cluster: &str) -> Vec<String> {
        self.chronicle.story(cluster, &self.extension)
    }

    /// Checks that nothing of an upgrade is left in the Cluster.
    pub(crate) fn nothing_is_pending(&self, cluster: &str) {
        let cluster = self.world.get::<Cluster>(&key(cluster)).unwrap();
        for key in [PENDING_HOOKS_ANNOTATION, UPGRADE_STEP_ANNOTATION] {
            assert!(!cluster.annotations().contains_key(key), "{key}: {:?}", cluster.annotations());
        }
        assert!(cluster.status.control_plane.is_none_or(|status| status.upgrade_plan.is_empty()));
        assert!(cluster.status.workers.is_none_or(|status| status.upgrade_plan.is_empty()));
    }
}

/// `status`, `reason` and `message` of TopologyReconciled.
pub(crate) fn condition(world: &World) -> (String, String, String) {
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let found = cluster.status.conditions.into_iter().find(|found| found.type_ == "TopologyReconciled");
    found.map(|found| (found.status, found.reason, found.message)).unwrap_or_default()
}

/// The first releases of minors.
pub(crate) fn releases(minors: impl IntoIterator<Item = u64>) -> Vec<String> {
    minors.into_iter().map(|minor| format!("v1.{minor}.0")).collect()
}

/// What the planner says that happens when groups go one after the other: hooks, versions that are given, and
/// versions that are reached.
pub(crate) fn planned(from: &str, to: &str, groups: &[&str], versions: &[String]) -> Vec<String> {
    let (from, to) = (Version::parse(from).unwrap(), Version::parse(to).unwrap());
    let request = PlanRequest::new(from.clone(), to.clone())
        .with_workers(groups.iter().map(|group| WorkerGroup::new(*group, from.clone())))
        .with_source(Source::versions(versions.iter().cloned()));
    let mut story = Vec::new();
    for operation in plan(&request).unwrap().operations {
        let (start, end) = (operation.step.from(), operation.step.to());
        let part = operation.step.group().map_or("cp", |group| group.as_str());
        let text = |hook: &UpgradeHook| match hook {
            UpgradeHook::BeforeClusterUpgrade => format!("{hook} {from} -> {to}"),
            UpgradeHook::BeforeControlPlaneUpgrade | UpgradeHook::BeforeWorkersUpgrade => {
                format!("{hook} {start} -> {end}")
            }
            _ => format!("{hook} {end}"),
        };
        let (before, after): (Vec<String>, Vec<String>) =
            operation.hooks.iter().map(text).partition(|hook| hook.starts_with("Before"));
        story.extend(before);
        story.push(format!("{part} {start} -> {end}"));
        story.push(format!("{part} at {end}"));
        story.extend(after);
    }
    story
}
