//! Watches an upgrade write by write: operations, machines, and the skew between kubelets and API servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::cluster::{Machine, MachineDeployment, MachinePool};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevMachinePool;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL,
    UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::topology::{StepName, WorkerKind};
use windlass_runtime::ObjectKey;
use windlass_version::{Version, kubelet_skew};

use super::report::{MachineCounts, MachineRecord, OperationRecord, UpgradeReport};
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
    machines: BTreeMap<String, Seen>,
    operations: Vec<(Part, OperationRecord)>,
    counts: MachineCounts,
    worst_skew: u64,
}

/// What is upgraded as a whole. A MachineDeployment and a MachinePool may have the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    ControlPlane,
    MachineDeployment(String),
    MachinePool(String),
}

impl Part {
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
    /// The version that its kubelet and, on control planes, its API server run; nothing before they do.
    running: Option<Version>,
    available: bool,
    deleting: bool,
    updating: bool,
}

impl Journal {
    /// Begins with what is there.
    pub(super) fn begin(world: &World, cluster: &ObjectKey) -> Self {
        let mut inner = Inner {
            cluster: cluster.name.clone(),
            begun: world.now(),
            versions: BTreeMap::new(),
            machines: BTreeMap::new(),
            operations: Vec::new(),
            counts: MachineCounts::default(),
            worst_skew: 0,
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
                inner.machines.extend(instances(&part, &pool));
            }
        }
        inner.worst_skew = inner.skew().unwrap_or_default();
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
            worst_skew: inner.worst_skew,
            machines: inner.counts,
            virtual_seconds: took.as_secs(),
            retargets: course.retargets,
            approvals: course.approvals,
            stopped: course.stopped,
            warnings,
        }
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
                self.worst_skew = self.worst_skew.max(self.skew()?);
            }
        } else if let Some(machine) = written.object::<Machine>()
            && self.is_mine(machine.labels())
        {
            self.seen(machine.name_any(), seen(&machine), written.is_deletion(), at);
            self.worst_skew = self.worst_skew.max(self.skew()?);
        }
        Ok(())
    }

    fn seconds(&self, at: Timestamp) -> u64 {
        u64::try_from(at.duration_since(self.begun).as_secs()).unwrap_or_default()
    }

    fn version(&mut self, part: Part, version: String, at: u64) {
        let before = self.versions.insert(part.clone(), version.clone());
        if let Some(before) = before.filter(|before| *before != version) {
            let operation = OperationRecord {
                kind: if part == Part::ControlPlane { "controlPlane" } else { "workers" },
                group: part.group().cloned(),
                from: before,
                to: version,
                start_seconds: at,
                end_seconds: at,
                machines: Vec::new(),
            };
            self.operations.push((part, operation));
        }
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
        if let Some(operation) = self.operation(part) {
            let record = MachineRecord { name: name.to_owned(), action, start_seconds: at, end_seconds: at };
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

    /// The largest skew between any kubelet of a worker and any API server, or the rule that is broken.
    fn skew(&self) -> Result<u64, String> {
        let running = |control_plane: bool| {
            self.machines
                .iter()
                .filter(move |(_, seen)| (seen.part == Part::ControlPlane) == control_plane)
                .filter_map(|(name, seen)| Some((name, seen.running.as_ref()?)))
        };
        let mut worst = 0;
        for (name, kubelet) in running(false) {
            for (server, api_server) in running(true) {
                let behind = kubelet_skew(api_server, kubelet)
                    .map_err(|violation| format!("{name} under {server}: {violation}"))?;
                worst = worst.max(behind);
            }
        }
        Ok(worst)
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
        running: kubelet.and_then(|version| Version::parse(version).ok()),
        available: machine
            .status
            .conditions
            .iter()
            .any(|condition| condition.type_ == "Available" && condition.status == "True"),
        deleting: machine.metadata.deletion_timestamp.is_some(),
        updating: machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION),
    }
}

/// The instances of a pool by their names.
fn instances(part: &Part, pool: &DevMachinePool) -> BTreeMap<String, Seen> {
    let instances = pool.status.instances.iter().map(|instance| {
        let ready = instance.ready == Some(true);
        let seen = Seen {
            part: part.clone(),
            running: Version::parse(&instance.version).ok().filter(|_| ready),
            available: ready,
            deleting: false,
            updating: false,
        };
        (instance.instance_name.clone(), seen)
    });
    instances.collect()
}
