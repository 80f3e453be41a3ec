//! Watches an upgrade write by write: operations, machines, and the skew between kubelets and API servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::cluster::{Machine, MachineDeployment, MachinePool};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevMachinePool;
use windlass_api::names::{CLUSTER_NAME_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL};
use windlass_engine::progress::{Part, Record, Seen};
use windlass_engine::topology::{StepName, WorkerKind};
use windlass_runtime::ObjectKey;
use windlass_version::Version;

use super::report::UpgradeReport;
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
    record: Record,
}

impl Journal {
    /// Begins with what is there.
    pub(super) fn begin(world: &World, cluster: &ObjectKey) -> Self {
        let mut inner =
            Inner { cluster: cluster.name.clone(), begun: world.now(), record: Record::default() };
        let mut versions: BTreeMap<Part, String> = BTreeMap::new();
        let mut machines: BTreeMap<String, Seen> = BTreeMap::new();
        for control_plane in world.list::<KubeadmControlPlane>() {
            if inner.is_mine(control_plane.labels()) {
                versions.insert(Part::ControlPlane, control_plane.spec.version.clone());
            }
        }
        for group in world.list::<MachineDeployment>() {
            if let Some(part) = inner.deployment(group.labels()) {
                versions.insert(part, group.spec.template.spec.version.clone());
            }
        }
        for pool in world.list::<MachinePool>() {
            if let Some(part) = inner.pool(pool.labels()) {
                versions.insert(part, pool.spec.template.spec.version.clone());
            }
        }
        for machine in world.list::<Machine>() {
            if let Some(seen) = Seen::of(&machine).filter(|_| inner.is_mine(machine.labels())) {
                machines.insert(machine.name_any(), seen);
            }
        }
        for pool in world.list::<DevMachinePool>() {
            if let Some(part) = inner.pool(pool.labels()) {
                machines.extend(instances(&part, &pool));
            }
        }
        inner.record = Record::begin(versions, machines);
        inner.record.go_on();
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
            operations: inner.record.operations().map(|(_, operation)| operation.clone()).collect(),
            hooks,
            worst_skew: inner.record.worst_skew(),
            lanes: inner.record.lanes(),
            skew: inner.record.skew().to_vec(),
            machines: inner.record.counts(),
            // What stands still takes no more time.
            virtual_seconds: course.stopped.as_ref().map_or(took.as_secs(), |stopped| stopped.at_seconds),
            retargets: course.retargets,
            approvals: course.approvals,
            stopped: course.stopped,
            insights: Vec::new(),
            estimate: None,
            warnings,
        }
    }

    /// When something happened to a machine or a version last.
    pub(super) fn last_seconds(&self) -> u64 {
        self.lock().record.operations().map(|(_, operation)| operation.end_seconds).max().unwrap_or_default()
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
        self.lock().record.operations().any(|(of, operation)| *of == part && operation.to == to)
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
                self.record.version(Part::ControlPlane, control_plane.spec.version.clone(), at);
            }
        } else if let Some(group) = written.object::<MachineDeployment>() {
            if let Some(part) = self.deployment(group.labels()).filter(|_| !written.is_deletion()) {
                self.record.version(part, group.spec.template.spec.version.clone(), at);
            }
        } else if let Some(pool) = written.object::<MachinePool>() {
            if let Some(part) = self.pool(pool.labels()).filter(|_| !written.is_deletion()) {
                self.record.version(part, pool.spec.template.spec.version.clone(), at);
            }
        } else if let Some(pool) = written.object::<DevMachinePool>() {
            if let Some(part) = self.pool(pool.labels()) {
                self.pool_instances(&part, &pool, written.is_deletion(), at);
                self.record.look(at)?;
            }
        } else if let Some(machine) = written.object::<Machine>()
            && self.is_mine(machine.labels())
            && let Some(seen) = Seen::of(&machine)
        {
            self.record.seen(machine.name_any(), seen, written.is_deletion(), at);
            self.record.look(at)?;
        }
        Ok(())
    }

    fn seconds(&self, at: Timestamp) -> u64 {
        u64::try_from(at.duration_since(self.begun).as_secs()).unwrap_or_default()
    }

    /// Instances of a pool have no Machines: what the provider reports of them is all there is.
    fn pool_instances(&mut self, part: &Part, pool: &DevMachinePool, is_deletion: bool, at: u64) {
        let now = if is_deletion { BTreeMap::new() } else { instances(part, pool) };
        let gone: Vec<(String, Seen)> =
            self.record.machines_of(part).filter(|(name, _)| !now.contains_key(name)).collect();
        for (name, seen) in gone {
            self.record.begins(part, &name, "delete", at);
            self.record.seen(name, seen, true, at);
        }
        for (name, seen) in now {
            self.record.seen(name, seen, false, at);
        }
    }
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
