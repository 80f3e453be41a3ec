//! The plan of an upgrade that is under way: what is done, what is running, what is to come.

use serde::Serialize;
use windlass_api::cluster::{Machine, MachinesStatus};
use windlass_api::hooks::Hook;
use windlass_api::names::{
    PENDING_HOOKS_ANNOTATION, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL,
    UPGRADE_STEP_ANNOTATION,
};

use super::{Described, version_of};
use crate::contract::{self, Contract};
use crate::topology::hooks::PendingHooks;

/// An upgrade that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeDescription {
    /// The version that everything goes to.
    pub to: String,
    /// The step that the control plane takes or took last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The steps in their order. Those before the last that is done are not known any more.
    pub steps: Vec<StepDescription>,
}

/// One step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StepDescription {
    /// How far it is.
    pub state: StepState,
    /// What takes it: `control plane`, `workers`, or the kind and name of a worker group.
    pub part: String,
    /// The version that it leads to.
    pub version: String,
    /// How many machines have that version, while it is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines_done: Option<usize>,
    /// How many machines there are, while it is running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<usize>,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepState {
    /// All machines have the version.
    Done,
    /// Some do.
    Running,
    /// It waits for its turn.
    ToCome,
}

impl UpgradeDescription {
    /// The upgrade of a Cluster, if one is under way.
    pub(super) fn of(objects: Described<'_>) -> Option<Self> {
        let cluster = objects.cluster;
        let to = cluster.spec.topology.as_ref()?.version.clone();
        let annotations = cluster.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key));
        let pending = PendingHooks::parse(annotation(PENDING_HOOKS_ANNOTATION).map(String::as_str));
        let step = annotation(UPGRADE_STEP_ANNOTATION).cloned();
        let control_plane = plan(cluster.status.control_plane.as_ref());
        let workers = plan(cluster.status.workers.as_ref());
        let is_under_way = step.is_some()
            || !control_plane.is_empty()
            || !workers.is_empty()
            || pending.contains(Hook::AfterClusterUpgrade);
        is_under_way.then(|| Self { steps: steps(objects, &control_plane, &workers), to, step })
    }
}

/// The versions that remain.
fn plan(status: Option<&MachinesStatus>) -> Vec<String> {
    status.into_iter().flat_map(|status| &status.upgrade_plan).map(|step| step.version.clone()).collect()
}

fn steps(objects: Described<'_>, control_plane: &[String], workers: &[String]) -> Vec<StepDescription> {
    let mut steps = Vec::new();
    let read = objects.control_plane.map(|found| contract::control_plane(found, Contract::V1Beta2));
    let current = read.and_then(|read| read.version);
    let groups = groups(objects);
    if let Some(current) = &current {
        let (done, all) = counted(&objects.control_plane_machines(), current);
        steps.push(taken("control plane".to_owned(), current, done, all));
        for group in groups.iter().filter(|group| &group.version == current) {
            steps.push(taken(group.part.clone(), current, group.done, group.all));
        }
        steps.extend(workers_to_come(current, workers, &groups));
    }
    for version in control_plane.iter().filter(|version| Some(*version) != current.as_ref()) {
        steps.push(to_come("control plane".to_owned(), version));
        steps.extend(workers_to_come(version, workers, &groups));
    }
    steps
}

struct Group {
    part: String,
    version: String,
    done: usize,
    all: usize,
}

fn groups(objects: Described<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    for group in objects.my_deployments() {
        let labels = group.metadata.labels.as_ref();
        let entry = labels.and_then(|labels| labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL));
        let name = entry.or(group.metadata.name.as_ref()).cloned().unwrap_or_default();
        let version = group.spec.template.spec.version.clone();
        let (done, all) = counted(&objects.machines_of(group), &version);
        groups.push(Group { part: format!("MachineDeployment {name}"), version, done, all });
    }
    for pool in objects.my_pools() {
        let labels = pool.metadata.labels.as_ref();
        let entry = labels.and_then(|labels| labels.get(TOPOLOGY_POOL_NAME_LABEL));
        let name = entry.or(pool.metadata.name.as_ref()).cloned().unwrap_or_default();
        let version = pool.spec.template.spec.version.clone();
        let mut group = Group { part: format!("MachinePool {name}"), version, done: 0, all: 0 };
        for running in &pool.status.versions {
            let count = running.replicas.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            group.all += count;
            group.done += if running.version == group.version { count } else { 0 };
        }
        groups.push(group);
    }
    groups.sort_by(|a, b| a.part.cmp(&b.part));
    groups
}

fn counted(machines: &[&Machine], version: &str) -> (usize, usize) {
    (machines.iter().filter(|machine| version_of(machine) == version).count(), machines.len())
}

/// A step that was begun: it is done when all machines have the version.
fn taken(part: String, version: &str, done: usize, all: usize) -> StepDescription {
    let is_running = done < all;
    StepDescription {
        state: if is_running { StepState::Running } else { StepState::Done },
        part,
        version: version.to_owned(),
        machines_done: is_running.then_some(done),
        machines: is_running.then_some(all),
    }
}

fn to_come(part: String, version: &str) -> StepDescription {
    StepDescription {
        state: StepState::ToCome,
        part,
        version: version.to_owned(),
        machines_done: None,
        machines: None,
    }
}

/// The groups that go to a version and have not begun, if workers stop there.
fn workers_to_come(version: &str, workers: &[String], groups: &[Group]) -> Option<StepDescription> {
    if !workers.iter().any(|stop| stop == version) {
        return None;
    }
    let waiting: Vec<&str> =
        groups.iter().filter(|group| group.version != version).map(|group| group.part.as_str()).collect();
    match waiting.as_slice() {
        [] => None,
        _ if waiting.len() == groups.len() => Some(to_come("workers".to_owned(), version)),
        some => Some(to_come(some.join(", "), version)),
    }
}
