//! What is known about a Cluster when it is decided upon.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use serde_json::Value;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool, MachineSet, StatusVersion};
use windlass_api::conditions as types;
use windlass_api::names::{CONTROL_PLANE_LABEL, MACHINE_POOL_NAME_LABEL};

use super::deletion::Deletion;
use crate::contract::{ControlPlane, InfrastructureCluster, ReadyReport};
use crate::referenced::Referenced;

/// What is known about a Cluster.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The Cluster itself.
    pub cluster: &'a Cluster,
    /// Its infrastructure.
    pub infrastructure: Referenced<InfrastructureCluster>,
    /// Whether its API server answers.
    pub connection: Connection,
    /// Its control plane.
    pub control_plane: Referenced<ControlPlaneSeen>,
    /// Everything that belongs to it.
    pub descendants: Descendants<'a>,
    /// How far its deletion is, if it is being deleted.
    pub deletion: Option<Deletion>,
}

/// Whether the API server of a Cluster answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Connection {
    /// There is none to ask yet.
    NotSought,
    /// It does.
    Answers,
    /// It does not.
    Silent {
        /// Since when.
        since: Timestamp,
        /// What happened instead.
        why: String,
    },
}

/// How long an API server may be silent before its Cluster says so: one that is replaced comes back.
const SILENCE_GRACE: SignedDuration = SignedDuration::from_secs(50);

impl Connection {
    /// Whether it has been silent for long enough to say so.
    pub(crate) fn is_lost(&self, now: Timestamp) -> bool {
        matches!(self, Self::Silent { since, .. } if now.duration_since(*since) >= SILENCE_GRACE)
    }

    /// How long until a silence is long enough to be said.
    pub fn look_again(&self, now: Timestamp) -> Option<SignedDuration> {
        match self {
            Self::Silent { since, .. } if !self.is_lost(now) => {
                Some(SILENCE_GRACE - now.duration_since(*since))
            }
            _ => None,
        }
    }
}

/// A control plane, as far as its Cluster is concerned.
#[derive(Clone, Debug, PartialEq)]
pub struct ControlPlaneSeen {
    /// What the contract reads of it.
    pub facts: ControlPlane,
    /// The versions of its Machines, with how many have each.
    pub versions: Vec<StatusVersion>,
    /// Condition `Available`.
    pub available: ReadyReport,
    /// All its conditions of the usual form.
    pub conditions: Vec<Condition>,
}

impl ControlPlaneSeen {
    /// Takes from a control plane what its Cluster looks at.
    pub fn of(object: &Value, facts: ControlPlane) -> Self {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
        Self {
            facts,
            versions: versions_of(object),
            available: available_report(object),
            conditions: conditions.filter_map(|value| serde_json::from_value(value.clone()).ok()).collect(),
        }
    }
}

/// Condition `Available` of a control plane.
pub fn available_report(object: &Value) -> ReadyReport {
    let conditions = object.pointer("/status/conditions").and_then(Value::as_array).into_iter().flatten();
    let Some(found) = conditions.into_iter().find(|condition| condition["type"] == types::AVAILABLE) else {
        return ReadyReport::Absent;
    };
    let text = |field: &str| found[field].as_str().unwrap_or_default().to_owned();
    match serde_json::from_value(found["status"].clone()) {
        Ok(status) => ReadyReport::Reported { status, reason: text("reason"), message: text("message") },
        Err(_) => ReadyReport::Invalid { status: text("status") },
    }
}

/// `status.versions` of a control plane. One that says only the lowest of them has all Machines at it.
pub fn versions_of(object: &Value) -> Vec<StatusVersion> {
    let listed = object.pointer("/status/versions").cloned().unwrap_or_default();
    let listed: Vec<StatusVersion> = serde_json::from_value(listed).unwrap_or_default();
    let single = object.pointer("/status/version").and_then(Value::as_str).filter(|text| !text.is_empty());
    match single {
        Some(version) if listed.is_empty() => {
            let replicas = object.pointer("/status/replicas").and_then(Value::as_i64);
            let replicas = replicas.and_then(|replicas| i32::try_from(replicas).ok());
            vec![StatusVersion { version: version.to_owned(), replicas }]
        }
        _ => listed,
    }
}

/// What belongs to a Cluster: everything that carries its name, whichever component made it.
#[derive(Clone, Debug, Default)]
pub struct Descendants<'a> {
    /// Its MachineDeployments.
    pub machine_deployments: Vec<&'a MachineDeployment>,
    /// Its MachineSets, those of MachineDeployments included.
    pub machine_sets: Vec<&'a MachineSet>,
    /// Its MachinePools.
    pub machine_pools: Vec<&'a MachinePool>,
    /// Its Machines, those of groups included.
    pub machines: Vec<&'a Machine>,
}

impl<'a> Descendants<'a> {
    /// MachineSets that no MachineDeployment counts.
    pub fn standalone_sets(&self) -> impl Iterator<Item = &'a MachineSet> + '_ {
        self.machine_sets.iter().copied().filter(|set| !is_controlled(&set.metadata))
    }

    /// Machines of the control plane.
    pub fn control_plane_machines(&self) -> impl Iterator<Item = &'a Machine> + '_ {
        self.machines.iter().copied().filter(|machine| is_control_plane_machine(machine))
    }

    /// Machines of workers.
    pub fn worker_machines(&self) -> impl Iterator<Item = &'a Machine> + '_ {
        self.machines.iter().copied().filter(|machine| !is_control_plane_machine(machine))
    }

    /// Machines of workers, those of pools left out: a pool tells how its instances do.
    pub fn worker_machines_outside_pools(&self) -> impl Iterator<Item = &'a Machine> + '_ {
        self.worker_machines().filter(|machine| !has_label(machine, MACHINE_POOL_NAME_LABEL))
    }

    /// Worker Machines that no group counts.
    pub fn standalone_machines(&self) -> impl Iterator<Item = &'a Machine> + '_ {
        self.worker_machines().filter(|machine| !is_controlled(&machine.metadata))
    }
}

/// Whether a Machine is one of a control plane.
pub fn is_control_plane_machine(machine: &Machine) -> bool {
    has_label(machine, CONTROL_PLANE_LABEL)
}

fn has_label(machine: &Machine, label: &str) -> bool {
    machine.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label))
}

fn is_controlled(metadata: &ObjectMeta) -> bool {
    metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true))
}
