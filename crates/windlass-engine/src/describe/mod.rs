//! A Cluster on one screen: what is, what comes next, what it waits on.

mod history;
mod steps;
#[cfg(test)]
mod tests;
mod timing;
mod tree;
mod updates;
mod waiting;

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::ResourceExt;
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool};
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_api::names::PENDING_HOOKS_ANNOTATION;

use crate::condition;
use crate::progress::{Part, Progress};
use crate::topology::PendingHooks;
pub use history::VersionChange;
pub use steps::{StepDescription, StepState, UpgradeDescription};
pub use tree::{ConditionDescription, ObjectDescription, ReplicaDescription};
pub use updates::{MachineUpdateDescription, UpdatesDescription};
pub use waiting::WaitingDescription;

/// The objects that a description is made from. Those of other Clusters are left out.
#[derive(Clone, Copy, Debug)]
pub struct Described<'a> {
    /// The Cluster.
    pub cluster: &'a Cluster,
    /// The infrastructure that it refers to, if it could be read.
    pub infrastructure: Option<&'a Value>,
    /// The control plane that it refers to, if it could be read.
    pub control_plane: Option<&'a Value>,
    /// MachineDeployments of its namespace.
    pub machine_deployments: &'a [MachineDeployment],
    /// MachinePools of its namespace.
    pub machine_pools: &'a [MachinePool],
    /// Machines of its namespace.
    pub machines: &'a [Machine],
    /// Changes of versions that its events tell of, in any order.
    pub version_changes: &'a [VersionChange],
}

/// A Cluster on one screen. The fields are a contract with scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterDescription {
    /// Namespace of the Cluster.
    pub namespace: String,
    /// Name of the Cluster.
    pub name: String,
    /// Its class, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<String>,
    /// The version that everything shall have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What is: the Cluster, and below it what it is made of.
    pub tree: ObjectDescription,
    /// What was done and what comes next, if an upgrade is under way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<UpgradeDescription>,
    /// Updates in place: who can update what, and what runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<UpdatesDescription>,
    /// Whether the topology controller has said, about the Cluster as it is written now, that everything is up to date.
    #[serde(skip)]
    pub topology_reconciled: bool,
    /// Hooks that are still to be called.
    pub pending_hooks: Vec<String>,
    /// What the topology controller has to say although everything is up to date.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// What it waits on, if it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_on: Option<WaitingDescription>,
    /// How far it is, and whether it goes on.
    pub progress: Progress,
}

impl ClusterDescription {
    /// Describes a Cluster at a moment.
    pub fn of(objects: Described<'_>, now: Timestamp) -> Self {
        let cluster = objects.cluster;
        let topology = cluster.spec.topology.as_ref();
        let annotation =
            cluster.metadata.annotations.as_ref().and_then(|all| all.get(PENDING_HOOKS_ANNOTATION));
        let pending = PendingHooks::parse(annotation.map(String::as_str)).annotation().unwrap_or_default();
        let upgrade = UpgradeDescription::of(objects, now);
        let waiting_on = WaitingDescription::of(objects);
        Self {
            progress: Progress::of(objects, upgrade.as_ref(), waiting_on.as_ref(), now),
            namespace: cluster.metadata.namespace.clone().unwrap_or_default(),
            name: cluster.name_any(),
            class: topology.map(|topology| topology.class_ref.name.clone()),
            version: topology.map(|topology| topology.version.clone()),
            tree: tree::of(objects),
            upgrade,
            updates: updates::of(objects),
            topology_reconciled: is_reconciled(cluster),
            pending_hooks: pending.split(',').filter(|hook| !hook.is_empty()).map(str::to_owned).collect(),
            notes: notes(cluster),
            waiting_on,
        }
    }
}

/// The message of a topology that is up to date. While it is not, the message is the evidence of what is waited on.
fn notes(cluster: &Cluster) -> Vec<String> {
    let told = condition::find(&cluster.status.conditions, TOPOLOGY_RECONCILED);
    let lines = told.filter(|told| told.status == "True").into_iter().flat_map(|told| told.message.lines());
    lines.map(str::to_owned).collect()
}

impl ClusterDescription {
    /// Whether the upgrade to the version of the Cluster has ended: nothing of it is left, and the topology controller
    /// says so. A condition that was written before the version was changed does not count.
    pub fn has_arrived(&self) -> bool {
        self.upgrade.is_none() && self.topology_reconciled
    }
}

fn is_reconciled(cluster: &Cluster) -> bool {
    let told = condition::find(&cluster.status.conditions, TOPOLOGY_RECONCILED);
    // Controllers that do not say which generation they mean are taken at their word.
    let is_of_now = |told: &Condition| {
        told.observed_generation.is_none_or(|seen| cluster.metadata.generation.is_none_or(|now| seen >= now))
    };
    told.is_some_and(|told| told.status == "True" && is_of_now(told))
}

impl<'a> Described<'a> {
    fn name(&self) -> &'a str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }

    pub(crate) fn my_machines(&self) -> impl Iterator<Item = &'a Machine> {
        let name = self.name();
        self.machines.iter().filter(move |machine| machine.spec.cluster_name == name)
    }

    pub(crate) fn my_deployments(&self) -> impl Iterator<Item = &'a MachineDeployment> {
        let name = self.name();
        self.machine_deployments.iter().filter(move |group| group.spec.cluster_name == name)
    }

    pub(crate) fn my_pools(&self) -> impl Iterator<Item = &'a MachinePool> {
        let name = self.name();
        self.machine_pools.iter().filter(move |pool| pool.spec.cluster_name == name)
    }

    /// The part of the Cluster that an object is: its control plane, or a worker group by its name in the topology.
    pub(crate) fn part_of(&self, kind: &str, name: &str) -> Option<Part> {
        let reference = self.cluster.spec.control_plane_ref.as_ref();
        if reference.is_some_and(|reference| reference.kind == kind && reference.name == name) {
            return Some(Part::ControlPlane);
        }
        let of = |labels: Option<&BTreeMap<String, String>>, own: fn(String) -> Part| {
            labels.and_then(Part::of).unwrap_or_else(|| own(name.to_owned()))
        };
        match kind {
            MachineDeployment::KIND => {
                let group =
                    self.my_deployments().find(|group| group.metadata.name.as_deref() == Some(name))?;
                Some(of(group.metadata.labels.as_ref(), Part::MachineDeployment))
            }
            MachinePool::KIND => {
                let pool = self.my_pools().find(|pool| pool.metadata.name.as_deref() == Some(name))?;
                Some(of(pool.metadata.labels.as_ref(), Part::MachinePool))
            }
            _ => None,
        }
    }

    /// Machines of the control plane.
    fn control_plane_machines(&self) -> Vec<&'a Machine> {
        self.my_machines().filter(|machine| is_control_plane(machine)).collect()
    }

    /// Machines that a MachineDeployment selects.
    pub(crate) fn machines_of(&self, group: &MachineDeployment) -> Vec<&'a Machine> {
        let selector = group.spec.selector.match_labels.as_ref();
        let selects = |machine: &&Machine| {
            selector.is_some_and(|selector| {
                !selector.is_empty()
                    && selector.iter().all(|(key, value)| {
                        machine.metadata.labels.as_ref().and_then(|labels| labels.get(key)) == Some(value)
                    })
            })
        };
        self.my_machines().filter(selects).collect()
    }
}

fn is_control_plane(machine: &Machine) -> bool {
    let labels = machine.metadata.labels.as_ref();
    labels.is_some_and(|labels| labels.contains_key(windlass_api::names::CONTROL_PLANE_LABEL))
}

/// The version that a machine runs, or that it shall run as long as it does not say.
fn version_of(machine: &Machine) -> &str {
    let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
    kubelet.filter(|version| !version.is_empty()).unwrap_or(&machine.spec.version)
}
