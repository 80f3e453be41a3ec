//! Watches an upgrade write by write: operations, machines, and the skew between kubelets and API servers.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use windlass_api::cluster::{Machine, MachineDeployment, MachinePool};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL,
    UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_reconcile::ObjectKey;
use windlass_version::{Version, kubelet_skew};

use super::report::{MachineCounts, MachineRecord, OperationRecord, UpgradeReport};
use crate::extension::HookRecord;
use crate::recorder::{Observer, Written};
use crate::world::World;

/// What was seen. Cheap to clone; all clones are one.
#[derive(Clone)]
pub(super) struct Journal(Arc<Mutex<Inner>>);

struct Inner {
    cluster: String,
    begun: Timestamp,
    /// The version of each part: of the control plane under no name.
    versions: BTreeMap<Option<String>, String>,
    machines: BTreeMap<String, Seen>,
    operations: Vec<OperationRecord>,
    counts: MachineCounts,
    worst_skew: u64,
}

/// A machine as it was last seen.
#[derive(Clone, PartialEq, Eq)]
struct Seen {
    /// Its worker group; nothing for the control plane.
    group: Option<String>,
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
                inner.versions.insert(None, control_plane.spec.version.clone());
            }
        }
        for group in world.list::<MachineDeployment>() {
            if let Some(name) = group.labels().get(TOPOLOGY_DEPLOYMENT_NAME_LABEL) {
                inner.versions.insert(Some(name.clone()), group.spec.template.spec.version.clone());
            }
        }
        for pool in world.list::<MachinePool>() {
            if let Some(name) = pool.labels().get(TOPOLOGY_POOL_NAME_LABEL) {
                inner.versions.insert(Some(name.clone()), pool.spec.template.spec.version.clone());
            }
        }
        for machine in world.list::<Machine>() {
            if inner.is_mine(machine.labels()) {
                inner.machines.insert(machine.name_any(), seen(&machine));
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
        warnings: Vec<String>,
    ) -> UpgradeReport {
        let inner = self.lock();
        UpgradeReport {
            operations: inner.operations.clone(),
            hooks,
            worst_skew: inner.worst_skew,
            machines: inner.counts,
            virtual_seconds: took.as_secs(),
            warnings,
        }
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

    fn take(&mut self, written: &Written<'_>) -> Result<(), String> {
        let at = self.seconds(written.at);
        if let Some(control_plane) = written.object::<KubeadmControlPlane>() {
            if self.is_mine(control_plane.labels()) {
                self.version(None, control_plane.spec.version.clone(), at);
            }
        } else if let Some(group) = written.object::<MachineDeployment>() {
            let name = group.labels().get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).cloned();
            if name.is_some() && self.is_mine(group.labels()) && !written.is_deletion() {
                self.version(name, group.spec.template.spec.version.clone(), at);
            }
        } else if let Some(pool) = written.object::<MachinePool>() {
            let name = pool.labels().get(TOPOLOGY_POOL_NAME_LABEL).cloned();
            if name.is_some() && self.is_mine(pool.labels()) && !written.is_deletion() {
                let version = pool.spec.template.spec.version.clone();
                let done = pool.status.versions.iter().all(|running| running.version == version);
                self.version(name.clone(), version, at);
                if !done && let Some(operation) = self.operation(&name) {
                    operation.end_seconds = at;
                }
            }
        } else if let Some(machine) = written.object::<Machine>()
            && self.is_mine(machine.labels())
        {
            self.machine(&machine, written.is_deletion(), at);
            self.worst_skew = self.worst_skew.max(self.skew()?);
        }
        Ok(())
    }

    fn seconds(&self, at: Timestamp) -> u64 {
        u64::try_from(at.duration_since(self.begun).as_secs()).unwrap_or_default()
    }

    fn version(&mut self, group: Option<String>, version: String, at: u64) {
        let before = self.versions.insert(group.clone(), version.clone());
        if let Some(before) = before.filter(|before| *before != version) {
            self.operations.push(OperationRecord {
                kind: if group.is_none() { "controlPlane" } else { "workers" },
                group,
                from: before,
                to: version,
                start_seconds: at,
                end_seconds: at,
                machines: Vec::new(),
            });
        }
    }

    fn operation(&mut self, group: &Option<String>) -> Option<&mut OperationRecord> {
        self.operations.iter_mut().rev().find(|operation| operation.group == *group)
    }

    fn machine(&mut self, machine: &Machine, gone: bool, at: u64) {
        let name = machine.name_any();
        let now = seen(machine);
        let before =
            if gone { self.machines.remove(&name) } else { self.machines.insert(name.clone(), now.clone()) };
        match &before {
            None if !gone => {
                self.counts.created += 1;
                self.begins(&now.group, &name, "create", at);
            }
            Some(before) => {
                if now.available && !before.available {
                    self.ends(&now.group, &name, "create", at);
                }
                if now.deleting && !before.deleting {
                    self.begins(&now.group, &name, "delete", at);
                }
                if now.updating && !before.updating {
                    self.begins(&now.group, &name, "update", at);
                }
                if !now.updating && before.updating && !gone {
                    self.counts.updated_in_place += 1;
                    self.ends(&now.group, &name, "update", at);
                }
            }
            None => {}
        }
        if gone {
            self.counts.deleted += 1;
            self.ends(&now.group, &name, "delete", at);
        }
    }

    fn begins(&mut self, group: &Option<String>, name: &str, action: &'static str, at: u64) {
        if let Some(operation) = self.operation(group) {
            let record = MachineRecord { name: name.to_owned(), action, start_seconds: at, end_seconds: at };
            operation.machines.push(record);
            operation.end_seconds = at;
        }
    }

    fn ends(&mut self, group: &Option<String>, name: &str, action: &'static str, at: u64) {
        if let Some(operation) = self.operation(group) {
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
                .filter(move |(_, seen)| seen.group.is_none() == control_plane)
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
    let is_control_plane = labels.contains_key(CONTROL_PLANE_LABEL);
    let group = labels.get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).or_else(|| labels.get(TOPOLOGY_POOL_NAME_LABEL));
    let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
    Seen {
        group: group.cloned().filter(|_| !is_control_plane),
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
