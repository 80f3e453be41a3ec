//! Watches an upgrade write by write: operations, machines, and the skew between kubelets and API servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::cluster::{Machine, MachineDeployment, MachinePool};
use windlass_api::conditions::UP_TO_DATE;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevMachinePool;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL,
    UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::condition;
use windlass_engine::topology::{StepName, WorkerKind};
use windlass_runtime::ObjectKey;
use windlass_version::{Version, kubelet_skew};

use super::report::{
    LanePoint, LaneRecord, MachineCounts, MachineRecord, OperationRecord, SkewRecord, UpgradeReport,
};
use super::steering::Course;
use crate::extension::HookRecord;
use crate::recorder::{Observer, Written};
use crate::world::World;

/// What was seen. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct Journal(Arc<Mutex<Inner>>);

struct Inner {
    cluster: String,
    begun: Timestamp,
    /// The version of each part.
    versions: BTreeMap<Part, String>,
    machines: Machines,
    operations: Vec<(Part, OperationRecord)>,
    counts: MachineCounts,
    lanes: BTreeMap<Part, Vec<LanePoint>>,
    skew: Vec<SkewRecord>,
}

/// What is upgraded as a whole. A MachineDeployment and a MachinePool may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    ControlPlane,
    MachineDeployment(String),
    MachinePool(String),
}

impl Part {
    fn kind(&self) -> &'static str {
        if *self == Self::ControlPlane { "controlPlane" } else { "workers" }
    }

    fn group(&self) -> Option<&String> {
        match self {
            Self::ControlPlane => None,
            Self::MachineDeployment(name) | Self::MachinePool(name) => Some(name),
        }
    }
}

/// A machine, or an instance of a pool, as it was last seen.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    part: Part,
    /// The version that it shall have.
    version: String,
    /// The version that its kubelet and, on control planes, its API server run; nothing before they do.
    running: Option<Version>,
    available: bool,
    deleting: bool,
    updating: bool,
    /// Why it is not up to date, if it says so.
    outdated: Option<String>,
}

/// Machines by their names, with the versions that run counted for each part: there are few of them, however many machines
/// there are.
#[derive(Default)]
struct Machines {
    all: BTreeMap<String, Seen>,
    running: BTreeMap<Part, Vec<(Version, usize)>>,
    has_changed: bool,
}

impl Machines {
    fn insert(&mut self, name: String, seen: Seen) -> Option<Seen> {
        let before = self.all.get(&name).map(|before| (before.part.clone(), before.running.clone()));
        if before.as_ref().is_none_or(|(part, running)| (part, running) != (&seen.part, &seen.running)) {
            self.has_changed = true;
            if let Some((part, running)) = &before {
                self.forget(part, running.as_ref());
            }
            self.count(&seen.part, seen.running.as_ref());
        }
        self.all.insert(name, seen)
    }

    fn remove(&mut self, name: &str) -> Option<Seen> {
        let gone = self.all.remove(name)?;
        self.has_changed = true;
        self.forget(&gone.part, gone.running.as_ref());
        Some(gone)
    }

    fn count(&mut self, part: &Part, running: Option<&Version>) {
        let Some(running) = running else { return };
        let counted = self.running.entry(part.clone()).or_default();
        match counted.iter_mut().find(|(version, _)| version == running) {
            Some((_, count)) => *count += 1,
            None => counted.push((running.clone(), 1)),
        }
    }

    fn forget(&mut self, part: &Part, running: Option<&Version>) {
        let (Some(running), Some(counted)) = (running, self.running.get_mut(part)) else { return };
        for (_, count) in counted.iter_mut().filter(|(version, _)| version == running) {
            *count -= 1;
        }
        counted.retain(|(_, count)| *count > 0);
    }

    /// The versions that run in a part.
    fn versions(&self, part: &Part) -> impl Iterator<Item = &Version> {
        self.running.get(part).into_iter().flatten().map(|(version, _)| version)
    }

    /// The largest skew between any kubelet of a worker and any API server, or the rule that is broken.
    fn skew(&self) -> Result<u64, String> {
        let mut worst = 0;
        let workers = self.running.keys().filter(|part| **part != Part::ControlPlane);
        for kubelet in workers.flat_map(|part| self.versions(part)) {
            for api_server in self.versions(&Part::ControlPlane) {
                let behind = kubelet_skew(api_server, kubelet).map_err(|violation| {
                    let (name, server) = (self.first(false, kubelet), self.first(true, api_server));
                    format!("{name} under {server}: {violation}")
                })?;
                worst = worst.max(behind);
            }
        }
        Ok(worst)
    }

    /// Whether what runs has changed since the last time.
    fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.has_changed)
    }

    /// The oldest and the newest version that run in a part.
    fn range(&self, part: &Part) -> Option<(String, String)> {
        let oldest = self.versions(part).min_by(|a, b| a.precedence(b))?;
        let newest = self.versions(part).max_by(|a, b| a.precedence(b))?;
        Some((oldest.to_string(), newest.to_string()))
    }

    /// The machines of a part.
    fn of(&self, part: &Part) -> impl Iterator<Item = (String, Seen)> {
        let machines = self.all.iter().filter(move |(_, seen)| seen.part == *part);
        machines.map(|(name, seen)| (name.clone(), seen.clone()))
    }

    /// The first machine that runs a version.
    fn first(&self, control_plane: bool, version: &Version) -> &str {
        let mut running = self.all.iter().filter(|(_, seen)| {
            (seen.part == Part::ControlPlane) == control_plane && seen.running.as_ref() == Some(version)
        });
        running.next().map_or("", |(name, _)| name.as_str())
    }
}

impl Journal {
    /// Begins with what is there.
    pub(super) fn begin(world: &World, cluster: &ObjectKey) -> Self {
        let mut inner = Inner {
            cluster: cluster.name.clone(),
            begun: world.now(),
            versions: BTreeMap::new(),
            machines: Machines::default(),
            operations: Vec::new(),
            counts: MachineCounts::default(),
            lanes: BTreeMap::new(),
            skew: Vec::new(),
        };
        for control_plane in world.list::<KubeadmControlPlane>() {
            if inner.is_mine(control_plane.labels()) {
                inner.versions.insert(Part::ControlPlane, control_plane.spec.version.clone());
            }
        }
        for group in world.list::<MachineDeployment>() {
            if let Some(part) = inner.deployment(group.labels()) {
                inner.versions.insert(part, group.spec.template.spec.version.clone());
            }
        }
        for pool in world.list::<MachinePool>() {
            if let Some(part) = inner.pool(pool.labels()) {
                inner.versions.insert(part, pool.spec.template.spec.version.clone());
            }
        }
        for machine in world.list::<Machine>() {
            if inner.is_mine(machine.labels()) {
                inner.machines.insert(machine.name_any(), seen(&machine));
            }
        }
        for pool in world.list::<DevMachinePool>() {
            if let Some(part) = inner.pool(pool.labels()) {
                for (name, seen) in instances(&part, &pool) {
                    inner.machines.insert(name, seen);
                }
            }
        }
        let skew = inner.machines.skew().unwrap_or_default();
        inner.run(skew, 0);
        inner.go_on();
        Self(Arc::new(Mutex::new(inner)))
    }

    /// What came of it.
    pub(super) fn report(
        &self,
        hooks: Vec<HookRecord>,
        took: Duration,
        mut warnings: Vec<String>,
        course: Course,
    ) -> UpgradeReport {
        let inner = self.lock();
        warnings.extend(course.warnings);
        UpgradeReport {
            operations: inner.operations.iter().map(|(_, operation)| operation.clone()).collect(),
            hooks,
            worst_skew: inner.skew.iter().map(|record| record.minors).max().unwrap_or_default(),
            lanes: inner
                .lanes
                .iter()
                .map(|(part, points)| LaneRecord {
                    kind: part.kind(),
                    group: part.group().cloned(),
                    points: points.clone(),
                })
                .collect(),
            skew: inner.skew.clone(),
            machines: inner.counts,
            // What stands still takes no more time.
            virtual_seconds: course.stopped.as_ref().map_or(took.as_secs(), |stopped| stopped.at_seconds),
            retargets: course.retargets,
            approvals: course.approvals,
            stopped: course.stopped,
            warnings,
        }
    }

    /// When something happened to a machine or a version last.
    pub(super) fn last_seconds(&self) -> u64 {
        self.lock().operations.iter().map(|(_, operation)| operation.end_seconds).max().unwrap_or_default()
    }

    /// Whether a step has begun: its part was given the version.
    pub(super) fn has_begun(&self, step: &StepName) -> bool {
        let part = match step {
            StepName::ControlPlane(_) => Part::ControlPlane,
            StepName::Group { kind: WorkerKind::MachineDeployment, entry, .. } => {
                Part::MachineDeployment(entry.clone())
            }
            StepName::Group { kind: WorkerKind::MachinePool, entry, .. } => Part::MachinePool(entry.clone()),
            StepName::Cluster(_) | StepName::Workers(_) => return false,
        };
        let to = step.version().to_string();
        self.lock().operations.iter().any(|(of, operation)| *of == part && operation.to == to)
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Journal {
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String> {
        self.lock().take(written)
    }
}

impl Inner {
    fn is_mine(&self, labels: &BTreeMap<String, String>) -> bool {
        labels.get(CLUSTER_NAME_LABEL) == Some(&self.cluster)
    }

    fn deployment(&self, labels: &BTreeMap<String, String>) -> Option<Part> {
        let name = labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).filter(|_| self.is_mine(labels))?;
        Some(Part::MachineDeployment(name.clone()))
    }

    fn pool(&self, labels: &BTreeMap<String, String>) -> Option<Part> {
        let name = labels.get(TOPOLOGY_POOL_NAME_LABEL).filter(|_| self.is_mine(labels))?;
        Some(Part::MachinePool(name.clone()))
    }

    fn take(&mut self, written: &Written<'_>) -> Result<(), String> {
        let at = self.seconds(written.at);
        if let Some(control_plane) = written.object::<KubeadmControlPlane>() {
            if self.is_mine(control_plane.labels()) {
                self.version(Part::ControlPlane, control_plane.spec.version.clone(), at);
            }
        } else if let Some(group) = written.object::<MachineDeployment>() {
            if let Some(part) = self.deployment(group.labels()).filter(|_| !written.is_deletion()) {
                self.version(part, group.spec.template.spec.version.clone(), at);
            }
        } else if let Some(pool) = written.object::<MachinePool>() {
            if let Some(part) = self.pool(pool.labels()).filter(|_| !written.is_deletion()) {
                self.version(part, pool.spec.template.spec.version.clone(), at);
            }
        } else if let Some(pool) = written.object::<DevMachinePool>() {
            if let Some(part) = self.pool(pool.labels()) {
                self.pool_instances(&part, &pool, written.is_deletion(), at);
                self.look(at)?;
            }
        } else if let Some(machine) = written.object::<Machine>()
            && self.is_mine(machine.labels())
        {
            self.seen(machine.name_any(), seen(&machine), written.is_deletion(), at);
            self.look(at)?;
        }
        Ok(())
    }

    /// Goes on with what was begun before: parts that have machines of another version than their own.
    fn go_on(&mut self) {
        for (part, to) in self.versions.clone() {
            let machines: Vec<(String, Seen)> = self.machines.of(&part).collect();
            let Some(from) = outdated(&machines, &to) else { continue };
            self.operate(part.clone(), from, to, 0);
            if let Some(operation) = self.operation(&part) {
                operation.under_way = true;
            }
            for (name, seen) in machines {
                if seen.deleting {
                    self.begins(&part, &name, "delete", 0);
                } else if seen.updating {
                    self.begins(&part, &name, "update", 0);
                } else if !seen.available {
                    self.begins(&part, &name, "create", 0);
                }
            }
        }
    }

    /// Notes what runs, if that has changed.
    fn look(&mut self, at: u64) -> Result<(), String> {
        let skew = self.machines.skew()?;
        if self.machines.take_changed() {
            self.run(skew, at);
        }
        Ok(())
    }

    fn run(&mut self, minors: u64, at: u64) {
        if self.skew.last().is_none_or(|last| last.minors != minors) {
            self.skew.push(SkewRecord { at_seconds: at, minors });
        }
        for part in self.versions.keys() {
            let Some((oldest, newest)) = self.machines.range(part) else { continue };
            let points = self.lanes.entry(part.clone()).or_default();
            let is_same = |last: &LanePoint| last.oldest == oldest && last.newest == newest;
            if !points.last().is_some_and(is_same) {
                // Within one second, what is last counts.
                points.retain(|point| point.at_seconds != at);
                points.push(LanePoint { at_seconds: at, oldest, newest });
            }
        }
    }

    fn seconds(&self, at: Timestamp) -> u64 {
        u64::try_from(at.duration_since(self.begun).as_secs()).unwrap_or_default()
    }

    fn version(&mut self, part: Part, version: String, at: u64) {
        let before = self.versions.insert(part.clone(), version.clone());
        if let Some(before) = before.filter(|before| *before != version) {
            self.operate(part, before, version, at);
        }
    }

    fn operate(&mut self, part: Part, from: String, to: String, at: u64) {
        let operation = OperationRecord {
            kind: part.kind(),
            group: part.group().cloned(),
            from,
            to,
            under_way: false,
            start_seconds: at,
            end_seconds: at,
            machines: Vec::new(),
        };
        self.operations.push((part, operation));
    }

    fn operation(&mut self, part: &Part) -> Option<&mut OperationRecord> {
        let operations = self.operations.iter_mut().rev();
        operations.into_iter().find(|(of, _)| of == part).map(|(_, operation)| operation)
    }

    /// Instances of a pool have no Machines: what the provider reports of them is all there is.
    fn pool_instances(&mut self, part: &Part, pool: &DevMachinePool, is_deletion: bool, at: u64) {
        let now = if is_deletion { BTreeMap::new() } else { instances(part, pool) };
        let gone: Vec<(String, Seen)> = self
            .machines
            .all
            .iter()
            .filter(|(name, seen)| seen.part == *part && !now.contains_key(*name))
            .map(|(name, seen)| (name.clone(), seen.clone()))
            .collect();
        for (name, seen) in gone {
            self.begins(part, &name, "delete", at);
            self.seen(name, seen, true, at);
        }
        for (name, seen) in now {
            self.seen(name, seen, false, at);
        }
    }

    fn seen(&mut self, name: String, now: Seen, gone: bool, at: u64) {
        let before =
            if gone { self.machines.remove(&name) } else { self.machines.insert(name.clone(), now.clone()) };
        match &before {
            None if !gone => {
                self.counts.created += 1;
                self.begins(&now.part, &name, "create", at);
            }
            Some(before) => {
                if now.available && !before.available {
                    self.ends(&now.part, &name, "create", at);
                }
                if now.deleting && !before.deleting {
                    self.begins(&now.part, &name, "delete", at);
                }
                if now.updating && !before.updating {
                    self.begins(&now.part, &name, "update", at);
                }
                if !now.updating && before.updating && !gone {
                    self.counts.updated_in_place += 1;
                    self.ends(&now.part, &name, "update", at);
                }
            }
            None => {}
        }
        if gone {
            self.counts.deleted += 1;
            self.ends(&now.part, &name, "delete", at);
        }
    }

    fn begins(&mut self, part: &Part, name: &str, action: &'static str, at: u64) {
        // Machines that come and go without another version do so for another reason.
        if self.operation(part).is_none()
            && let Some(version) = self.versions.get(part).cloned()
        {
            self.operate(part.clone(), version.clone(), version, at);
        }
        let seen = self.machines.all.get(name).filter(|_| action != "create");
        let reason = seen.and_then(|seen| seen.outdated.clone());
        if let Some(operation) = self.operation(part) {
            let name = name.to_owned();
            let record = MachineRecord { name, action, reason, start_seconds: at, end_seconds: at };
            operation.machines.push(record);
            operation.end_seconds = at;
        }
    }

    fn ends(&mut self, part: &Part, name: &str, action: &'static str, at: u64) {
        if let Some(operation) = self.operation(part) {
            let open = operation.machines.iter_mut().rev();
            if let Some(record) =
                open.into_iter().find(|record| record.name == name && record.action == action)
            {
                record.end_seconds = at;
                operation.end_seconds = at;
            }
        }
    }
}

fn seen(machine: &Machine) -> Seen {
    let labels = machine.labels();
    let part = match (labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL), labels.get(TOPOLOGY_POOL_NAME_LABEL)) {
        _ if labels.contains_key(CONTROL_PLANE_LABEL) => Part::ControlPlane,
        (Some(name), _) => Part::MachineDeployment(name.clone()),
        (None, Some(name)) => Part::MachinePool(name.clone()),
        (None, None) => Part::ControlPlane,
    };
    let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
    Seen {
        part,
        version: machine.spec.version.clone(),
        running: kubelet.and_then(|version| Version::parse(version).ok()),
        available: machine
            .status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Available" && condition.status == "True"),
        deleting: machine.metadata.deletion_timestamp.is_some(),
        updating: machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION),
        outdated: condition::find(&machine.status.conditions, UP_TO_DATE)
            .filter(|found| found.status == "False" && !found.message.is_empty())
            .map(|found| found.message.clone()),
    }
}

/// The oldest version that machines are still to leave, if any are.
fn outdated(machines: &[(String, Seen)], to: &str) -> Option<String> {
    let is_outdated = |seen: &Seen| {
        seen.version != to || seen.running.as_ref().is_some_and(|running| running.to_string() != to)
    };
    let left = machines.iter().filter(|(_, seen)| is_outdated(seen));
    let versions = left.map(|(_, seen)| match &seen.running {
        Some(running) => running.to_string(),
        None => seen.version.clone(),
    });
    versions.min_by(|a, b| match (Version::parse(a), Version::parse(b)) {
        (Ok(a), Ok(b)) => a.precedence(&b),
        _ => a.cmp(b),
    })
}

/// The instances of a pool by their names.
fn instances(part: &Part, pool: &DevMachinePool) -> BTreeMap<String, Seen> {
    let instances = pool.status.instances.iter().map(|instance| {
        let ready = instance.ready == Some(true);
        let seen = Seen {
            part: part.clone(),
            version: instance.version.clone(),
            running: Version::parse(&instance.version).ok().filter(|_| ready),
            available: ready,
            deleting: false,
            updating: false,
            outdated: None,
        };
        (instance.instance_name.clone(), seen)
    });
    instances.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(part: Part, running: &str) -> Seen {
        let version = running.to_owned();
        let running = Version::parse(running).ok();
        Seen { part, version, running, available: true, deleting: false, updating: false, outdated: None }
    }

    #[test]
    fn the_skew_is_that_of_what_runs_now() {
        let mut machines = Machines::default();
        let workers = || Part::MachineDeployment("a".to_owned());
        machines.insert("cp".to_owned(), machine(Part::ControlPlane, "v1.31.0"));
        machines.insert("w1".to_owned(), machine(workers(), "v1.29.0"));
        machines.insert("w2".to_owned(), machine(workers(), "v1.29.0"));
        assert_eq!(machines.skew(), Ok(2));
        machines.insert("w1".to_owned(), machine(workers(), "v1.31.0"));
        assert_eq!(machines.skew(), Ok(2), "w2 is still behind");
        machines.insert("w2".to_owned(), machine(workers(), ""));
        assert_eq!(machines.skew(), Ok(0), "w2 does not run");
        machines.insert("w2".to_owned(), machine(workers(), "v1.32.0"));
        let broken = machines.skew().unwrap_err();
        assert!(broken.starts_with("w2 under cp: "), "{broken}");
        assert!(machines.remove("w2").is_some() && machines.remove("w2").is_none());
        assert_eq!(machines.skew(), Ok(0));
    }
}
