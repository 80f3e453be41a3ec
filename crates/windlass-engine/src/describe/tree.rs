//! What is: the Cluster and what it is made of, with how it goes.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool};
use windlass_api::conditions::TOPOLOGY_RECONCILED;

use super::{Described, is_control_plane, version_of};
use crate::condition;
use crate::contract::{self, Contract};
use crate::topology::{Entry, PINS_IGNORED, WorkerKind};

/// An object, and below it what it is made of.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectDescription {
    /// What it is for the Cluster, where its kind does not say: `ClusterInfrastructure`, `ControlPlane` or `Workers`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<&'static str>,
    /// Its kind; empty for a heading.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its name; empty for a heading.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// The version that it shall have; for a machine, the one that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The version that the topology keeps it at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pinned: Option<String>,
    /// How many machines it has, for those that have machines.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replicas: Option<ReplicaDescription>,
    /// `Available` or `Ready`, as it reports it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<ConditionDescription>,
    /// Whether it is being deleted.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleting: bool,
    /// What it is made of.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub objects: Vec<ObjectDescription>,
}

/// How many machines there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaDescription {
    /// How many there shall be.
    pub desired: i32,
    /// How many there are.
    pub current: i32,
    /// How many are ready.
    pub ready: i32,
    /// How many are available.
    pub available: i32,
    /// How many are up to date.
    pub up_to_date: i32,
}

/// A condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionDescription {
    /// `Available` or `Ready`.
    #[serde(rename = "type")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// A word for programs.
    pub reason: String,
    /// Sentences for people; may be empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when it has this status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
}

impl From<&Condition> for ConditionDescription {
    fn from(condition: &Condition) -> Self {
        Self {
            type_: condition.type_.clone(),
            status: condition.status.clone(),
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: Some(condition.last_transition_time.clone()),
        }
    }
}

/// What a condition of the list says, the first type that is there.
fn reported(conditions: &[Condition], types: &[&str]) -> Option<ConditionDescription> {
    types.iter().find_map(|type_| condition::find(conditions, type_)).map(ConditionDescription::from)
}

pub(super) fn of(objects: Described<'_>) -> ObjectDescription {
    let cluster = objects.cluster;
    let mut below = Vec::new();
    if let Some(reference) = &cluster.spec.infrastructure_ref {
        let found = objects.infrastructure;
        below.push(ObjectDescription {
            role: Some("ClusterInfrastructure"),
            kind: reference.kind.clone(),
            name: reference.name.clone(),
            condition: found.and_then(any_condition),
            deleting: found.is_some_and(is_deleting),
            ..ObjectDescription::default()
        });
    }
    if let Some(reference) = &cluster.spec.control_plane_ref {
        let (kind, name) = (reference.kind.clone(), reference.name.clone());
        below.push(control_plane(objects, kind, name));
    } else if !objects.control_plane_machines().is_empty() {
        below.push(ObjectDescription {
            role: Some("ControlPlane"),
            objects: objects.control_plane_machines().into_iter().map(machine).collect(),
            ..ObjectDescription::default()
        });
    }
    let workers = workers(objects);
    if !workers.is_empty() {
        below.push(ObjectDescription { role: Some("Workers"), objects: workers, ..Default::default() });
    }
    ObjectDescription {
        kind: Cluster::KIND.to_owned(),
        name: objects.name().to_owned(),
        version: cluster.spec.topology.as_ref().map(|topology| topology.version.clone()),
        condition: reported(&cluster.status.conditions, &["Available", "Ready"]),
        deleting: cluster.metadata.deletion_timestamp.is_some(),
        objects: below,
        ..ObjectDescription::default()
    }
}

fn control_plane(objects: Described<'_>, kind: String, name: String) -> ObjectDescription {
    let machines = objects.control_plane_machines();
    let found = objects.control_plane;
    let read = found.map(|found| contract::control_plane(found, Contract::V1Beta2));
    let replicas = read.as_ref().map(|read| ReplicaDescription {
        desired: read.replicas.unwrap_or_default(),
        current: read.status_replicas.unwrap_or_default(),
        ready: read.ready_replicas.unwrap_or_default(),
        available: read.available_replicas.unwrap_or_default(),
        up_to_date: read.up_to_date_replicas.unwrap_or_default(),
    });
    ObjectDescription {
        role: Some("ControlPlane"),
        kind,
        name,
        version: read.and_then(|read| read.version),
        replicas,
        condition: found.and_then(any_condition),
        deleting: found.is_some_and(is_deleting),
        objects: sorted(machines),
        ..ObjectDescription::default()
    }
}

/// The version that the entry of a worker group in the topology keeps it at. The topology controller says if its feature
/// gate is off.
fn pin(objects: Described<'_>, kind: WorkerKind, metadata: &ObjectMeta) -> Option<String> {
    let told = condition::find(&objects.cluster.status.conditions, TOPOLOGY_RECONCILED);
    if told.is_some_and(|told| told.message.contains(PINS_IGNORED)) {
        return None;
    }
    let name = metadata.labels.as_ref()?.get(kind.entry_label())?;
    let entries = Entry::all(objects.cluster.spec.topology.as_ref()?);
    let entry = entries.into_iter().find(|entry| entry.kind == kind && entry.name == name)?;
    entry.written_pins().first().map(|pin| pin.version.to_owned())
}

/// Worker groups in the order of their names, then machines that belong to none.
fn workers(objects: Described<'_>) -> Vec<ObjectDescription> {
    let mut groups: Vec<ObjectDescription> = Vec::new();
    let mut shown: Vec<&str> = Vec::new();
    for group in objects.my_deployments() {
        let machines = objects.machines_of(group);
        shown.extend(machines.iter().filter_map(|machine| machine.metadata.name.as_deref()));
        let status = &group.status;
        groups.push(ObjectDescription {
            version: Some(group.spec.template.spec.version.clone()).filter(|version| !version.is_empty()),
            replicas: Some(ReplicaDescription {
                desired: group.replicas().unwrap_or_default(),
                current: status.replicas.unwrap_or_default(),
                ready: status.ready_replicas.unwrap_or_default(),
                available: status.available_replicas.unwrap_or_default(),
                up_to_date: status.up_to_date_replicas.unwrap_or_default(),
            }),
            condition: reported(&status.conditions, &["Available", "Ready"]),
            pinned: pin(objects, WorkerKind::MachineDeployment, &group.metadata),
            objects: sorted(machines),
            ..named(MachineDeployment::KIND, &group.metadata)
        });
    }
    for pool in objects.my_pools() {
        let status = &pool.status;
        groups.push(ObjectDescription {
            version: Some(pool.spec.template.spec.version.clone()).filter(|version| !version.is_empty()),
            replicas: Some(ReplicaDescription {
                desired: pool.replicas().unwrap_or_default(),
                current: status.replicas.unwrap_or_default(),
                ready: status.ready_replicas.unwrap_or_default(),
                available: status.available_replicas.unwrap_or_default(),
                up_to_date: status.up_to_date_replicas.unwrap_or_default(),
            }),
            condition: reported(&status.conditions, &["Available", "Ready"]),
            pinned: pin(objects, WorkerKind::MachinePool, &pool.metadata),
            ..named(MachinePool::KIND, &pool.metadata)
        });
    }
    groups.sort_by(|a, b| (&a.kind, &a.name).cmp(&(&b.kind, &b.name)));
    let alone = objects.my_machines().filter(|machine| {
        !is_control_plane(machine) && !shown.contains(&machine.metadata.name.as_deref().unwrap_or_default())
    });
    groups.extend(sorted(alone.collect()));
    groups
}

fn sorted(mut machines: Vec<&Machine>) -> Vec<ObjectDescription> {
    machines.sort_by_key(|machine| machine.metadata.name.clone());
    machines.into_iter().map(machine).collect()
}

fn machine(found: &Machine) -> ObjectDescription {
    ObjectDescription {
        version: Some(version_of(found).to_owned()).filter(|version| !version.is_empty()),
        condition: reported(&found.status.conditions, &["Ready", "Available"]),
        ..named(Machine::KIND, &found.metadata)
    }
}

fn named(kind: &str, metadata: &ObjectMeta) -> ObjectDescription {
    ObjectDescription {
        kind: kind.to_owned(),
        name: metadata.name.clone().unwrap_or_default(),
        deleting: metadata.deletion_timestamp.is_some(),
        ..ObjectDescription::default()
    }
}

fn is_deleting(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some_and(|time| !time.is_null())
}

/// `Available` or `Ready` of an object of any kind.
fn any_condition(object: &Value) -> Option<ConditionDescription> {
    let conditions: Vec<Condition> =
        object.pointer("/status/conditions").and_then(|found| serde_json::from_value(found.clone()).ok())?;
    reported(&conditions, &["Available", "Ready"])
}
