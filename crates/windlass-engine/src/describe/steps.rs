//! The plan of an upgrade that is under way: what is done, what is running, what is to come.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_core::ResourceExt;
use serde::Serialize;
use windlass_api::cluster::{Machine, MachineDeployment, MachinePool, MachinesStatus};
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_api::hooks::Hook;
use windlass_api::names::{
    PENDING_HOOKS_ANNOTATION, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL,
    UPGRADE_STEP_ANNOTATION,
};

use super::{Described, VersionChange, timing, version_of};
use crate::condition;
use crate::contract::{self, Contract};
use crate::progress::{Estimate, Part};
use crate::topology::PendingHooks;
use crate::waiting::Wait;

/// An upgrade that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeDescription {
    /// The version that the control plane came from, if events still tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The version that everything goes to.
    pub to: String,
    /// The step that the control plane takes or took last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// When it began: since then the topology has not been as it should.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Time>,
    /// How many minors kubelets were behind at worst while steps were taken that events still tell of.
    #[serde(skip)]
    pub(crate) worst_skew: u64,
    /// The steps in their order. Those before the last that is done are known as long as the API keeps events.
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
    /// How many machines there shall be, while it is running. During a rollout there may be more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machines: Option<usize>,
    /// When it began, if events still tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Time>,
    /// How long it has taken, or took until the next one began or its last machine was ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<u64>,
    /// How much longer its machines take, until it is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Estimate>,
    /// The parts that take it, each with how many times a machine of it is waited for.
    #[serde(skip)]
    pub(crate) work: Vec<(Part, u64)>,
}

impl StepDescription {
    /// The parts that take it.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.work.iter().map(|(part, _)| part)
    }
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
    pub(super) fn of(objects: Described<'_>, now: Timestamp) -> Option<Self> {
        let cluster = objects.cluster;
        let to = cluster.spec.topology.as_ref()?.version.clone();
        let annotations = cluster.metadata.annotations.as_ref();
        let annotation = |key: &str| annotations.and_then(|all| all.get(key));
        let pending = PendingHooks::parse(annotation(PENDING_HOOKS_ANNOTATION).map(String::as_str));
        let step = annotation(UPGRADE_STEP_ANNOTATION).filter(|step| !step.is_empty()).cloned();
        // Without a path, what was planned last is not what comes.
        let is_lost = Wait::of_cluster(cluster).is_some_and(|wait| wait.reason == "NoUpgradePath");
        let status = |status: Option<&MachinesStatus>| if is_lost { Vec::new() } else { plan(status) };
        let control_plane = status(cluster.status.control_plane.as_ref());
        let workers = status(cluster.status.workers.as_ref());
        let is_under_way = step.is_some()
            || is_lost
            || !control_plane.is_empty()
            || !workers.is_empty()
            || pending.contains(Hook::AfterClusterUpgrade);
        let history = objects.history();
        let from = history.iter().find(|change| is_control_plane(objects, change));
        let from = from.map(|change| change.from.clone());
        is_under_way.then(|| {
            let mut steps = steps(objects, &history, &control_plane, &workers);
            timing::add(objects, &mut steps, now);
            let worst_skew = timing::worst_skew(objects, &history);
            Self { steps, from, to, step, began: began(objects, &history), worst_skew }
        })
    }
}

/// The versions that remain.
fn plan(status: Option<&MachinesStatus>) -> Vec<String> {
    status.into_iter().flat_map(|status| &status.upgrade_plan).map(|step| step.version.clone()).collect()
}

/// When the topology was last found not to be as it should: that is so until the upgrade is over.
fn unreconciled(objects: Described<'_>) -> Option<Timestamp> {
    let conditions = &objects.cluster.status.conditions;
    let topology = condition::find(conditions, TOPOLOGY_RECONCILED).filter(|found| found.status != "True");
    topology.map(|found| found.last_transition_time.0)
}

/// When the upgrade began, as the condition or the first step tells.
fn began(objects: Described<'_>, history: &[&VersionChange]) -> Option<Time> {
    unreconciled(objects).or_else(|| history.first().map(|change| change.at)).map(Time)
}

impl<'a> Described<'a> {
    /// Changes of versions since the upgrade began, in their order.
    pub(crate) fn history(&self) -> Vec<&'a VersionChange> {
        /// Events are told in whole seconds.
        const SLACK_SECONDS: i64 = 1;
        let Some(begun) = unreconciled(*self).map(|begun| begun.as_second()) else { return Vec::new() };
        let changes = self.version_changes.iter();
        let mut changes: Vec<&VersionChange> =
            changes.filter(|change| change.at.as_second() >= begun - SLACK_SECONDS).collect();
        changes.sort_by_key(|change| change.at);
        changes
    }
}

fn is_control_plane(objects: Described<'_>, change: &VersionChange) -> bool {
    let reference = objects.cluster.spec.control_plane_ref.as_ref();
    reference.is_some_and(|reference| reference.kind == change.kind && reference.name == change.name)
}

/// Steps that are over: the control plane is not at their version any more.
fn over(
    objects: Described<'_>,
    history: &[&VersionChange],
    current: Option<&String>,
    groups: &[Group],
) -> Vec<StepDescription> {
    let part = |change: &VersionChange| match () {
        () if is_control_plane(objects, change) => "control plane".to_owned(),
        () => {
            let group = groups.iter().find(|group| group.kind == change.kind && group.name == change.name);
            group.map_or_else(|| format!("{} {}", change.kind, change.name), |group| group.part.clone())
        }
    };
    let over = history.iter().filter(|change| Some(&change.to) != current);
    over.map(|change| {
        let work = objects.part_of(&change.kind, &change.name).map(|part| (part, 0)).into_iter().collect();
        StepDescription { state: StepState::Done, ..to_come(part(change), &change.to, work) }
    })
    .collect()
}

fn steps(
    objects: Described<'_>,
    history: &[&VersionChange],
    control_plane: &[String],
    workers: &[String],
) -> Vec<StepDescription> {
    let read = objects.control_plane.map(|found| contract::control_plane(found, Contract::V1Beta2));
    // The control plane has the last word on whether it is done: a machine may be up that it does not count yet.
    let is_moving = read.as_ref().is_some_and(|read| read.is_upgrading());
    let desired = read.as_ref().and_then(|read| read.replicas);
    let current = read.and_then(|read| read.version);
    let groups = groups(objects);
    let mut steps = over(objects, history, current.as_ref(), &groups);
    if let Some(current) = &current {
        let counted = Counted::of(&objects.control_plane_machines(), current, desired);
        let work = vec![(Part::ControlPlane, counted.left(1))];
        let mut step = taken("control plane".to_owned(), current, counted, work);
        if is_moving {
            step.state = StepState::Running;
        }
        steps.push(step);
        for group in groups.iter().filter(|group| &group.version == current) {
            let work = vec![(group.id.clone(), group.counted.left(group.at_once))];
            steps.push(taken(group.part.clone(), current, group.counted, work));
        }
        steps.extend(workers_to_come(current, workers, &groups));
    }
    for version in control_plane.iter().filter(|version| Some(*version) != current.as_ref()) {
        let machines = desired.and_then(|desired| u64::try_from(desired).ok());
        let machines = machines.unwrap_or(objects.control_plane_machines().len() as u64);
        let work = vec![(Part::ControlPlane, machines)];
        steps.push(to_come("control plane".to_owned(), version, work));
        steps.extend(workers_to_come(version, workers, &groups));
    }
    steps
}

struct Group {
    id: Part,
    /// How many of its machines are replaced or updated at a time.
    at_once: u64,
    kind: &'static str,
    name: String,
    part: String,
    version: String,
    counted: Counted,
}

fn groups(objects: Described<'_>) -> Vec<Group> {
    let mut groups = Vec::new();
    for group in objects.my_deployments() {
        let labels = group.metadata.labels.as_ref();
        let entry = labels.and_then(|labels| labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL));
        let object = group.name_any();
        let name = entry.unwrap_or(&object);
        let version = group.spec.template.spec.version.clone();
        let counted = Counted::of(&objects.machines_of(group), &version, group.replicas());
        let (kind, part) = (MachineDeployment::KIND, format!("{} {name}", MachineDeployment::KIND));
        let id = Part::MachineDeployment(name.clone());
        let at_once = timing::at_once(group);
        groups.push(Group { id, at_once, kind, part, name: object, version, counted });
    }
    for pool in objects.my_pools() {
        let labels = pool.metadata.labels.as_ref();
        let entry = labels.and_then(|labels| labels.get(TOPOLOGY_POOL_NAME_LABEL));
        let object = pool.name_any();
        let name = entry.unwrap_or(&object).clone();
        let (kind, part) = (MachinePool::KIND, format!("{} {name}", MachinePool::KIND));
        let version = pool.spec.template.spec.version.clone();
        let (mut done, mut all) = (0, 0);
        for running in &pool.status.versions {
            let count = running.replicas.and_then(|count| usize::try_from(count).ok()).unwrap_or_default();
            all += count;
            done += if running.version == version { count } else { 0 };
        }
        let counted = Counted::new(done, all, pool.replicas());
        let id = Part::MachinePool(name);
        // Whose provider decides; one at a time is what it does at least.
        groups.push(Group { id, at_once: 1, kind, part, name: object, version, counted });
    }
    groups.sort_by(|a, b| a.part.cmp(&b.part));
    groups
}

/// How far the machines of a part are.
#[derive(Clone, Copy)]
struct Counted {
    done: usize,
    desired: usize,
    /// Some machines do not have the version, also those that are on their way out.
    is_running: bool,
}

impl Counted {
    /// A machine without a Node was given a version, and has none yet.
    fn of(machines: &[&Machine], version: &str, desired: Option<i32>) -> Self {
        let has = |machine: &&&Machine| machine.status.node_info.is_some() && version_of(machine) == version;
        let done = machines.iter().filter(has).count();
        Self::new(done, machines.len(), desired)
    }

    /// With a surge there are more machines than are wanted: people count in those that are wanted.
    fn new(done: usize, all: usize, desired: Option<i32>) -> Self {
        let desired = desired.and_then(|desired| usize::try_from(desired).ok()).unwrap_or(all);
        Self { done: done.min(desired), desired, is_running: done < all }
    }

    /// How many times machines are waited for until all have the version, with so many at a time.
    fn left(&self, at_once: u64) -> u64 {
        ((self.desired - self.done) as u64).div_ceil(at_once.max(1))
    }
}

/// A step that was begun: it is done when all machines have the version.
fn taken(part: String, version: &str, counted: Counted, work: Vec<(Part, u64)>) -> StepDescription {
    let Counted { done, desired, is_running } = counted;
    StepDescription {
        state: if is_running { StepState::Running } else { StepState::Done },
        part,
        version: version.to_owned(),
        machines_done: is_running.then_some(done),
        machines: is_running.then_some(desired),
        started: None,
        elapsed_seconds: None,
        left: None,
        work,
    }
}

fn to_come(part: String, version: &str, work: Vec<(Part, u64)>) -> StepDescription {
    StepDescription {
        state: StepState::ToCome,
        part,
        version: version.to_owned(),
        machines_done: None,
        machines: None,
        started: None,
        elapsed_seconds: None,
        left: None,
        work,
    }
}

/// The groups that go to a version and have not begun, if workers stop there.
fn workers_to_come(version: &str, workers: &[String], groups: &[Group]) -> Option<StepDescription> {
    if !workers.iter().any(|stop| stop == version) {
        return None;
    }
    let waiting = || groups.iter().filter(|group| group.version != version);
    let rounds = |group: &Group| (group.counted.desired as u64).div_ceil(group.at_once.max(1));
    let work = waiting().map(|group| (group.id.clone(), rounds(group))).collect();
    let names: Vec<&str> = waiting().map(|group| group.part.as_str()).collect();
    match names.as_slice() {
        [] => None,
        _ if names.len() == groups.len() => Some(to_come("workers".to_owned(), version, work)),
        some => Some(to_come(some.join(", "), version, work)),
    }
}
