//! What tells one wait from another: the reason, the object, the hook and the version. Evidence that may change while
//! the wait is the same, such as the message of an extension or the pods that are left, is no part of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use windlass_api::cluster::{ContractVersionedObjectReference, Machine};
use windlass_version::Version;

use super::WaitingOn;
use crate::rollout::ROLLOUT_BLOCKED;
use crate::topology::{GroupId, StepName};

/// An object that is waited on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectName {
    /// The kind, without its group.
    pub kind: String,
    /// The name, in the namespace of the object that waits.
    pub name: String,
}

impl ObjectName {
    fn new(kind: &str, name: &str) -> Self {
        Self { kind: kind.to_owned(), name: name.to_owned() }
    }

    fn machine(name: &str) -> Self {
        Self::new(Machine::KIND, name)
    }
}

impl From<&ContractVersionedObjectReference> for ObjectName {
    fn from(reference: &ContractVersionedObjectReference) -> Self {
        Self::new(&reference.kind, &reference.name)
    }
}

impl From<&GroupId> for ObjectName {
    fn from(group: &GroupId) -> Self {
        Self::new(&group.kind.to_string(), &group.name)
    }
}

impl fmt::Display for ObjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

pub(super) const UPGRADE_HELD: &str = "UpgradeHeld";
pub(super) const UPGRADE_HELD_AT: &str = "UpgradeHeldAtVersion";
pub(super) const APPROVAL_NEEDED: &str = "UpgradeApprovalNeeded";
const UPGRADE_DEFERRED: &str = "UpgradeDeferred";
const SEQUENCE_HELD: &str = "UpgradeSequenceHeld";

/// An upgrade waits for rollouts from before.
pub(super) const ROLLOUTS_BEFORE: &str = "WaitingForRolloutsBefore";

/// Reasons of waits that only the owner of the Cluster ends.
pub(super) const FOR_OWNER: [&str; 5] =
    [UPGRADE_HELD, UPGRADE_HELD_AT, APPROVAL_NEEDED, UPGRADE_DEFERRED, SEQUENCE_HELD];

/// Reasons of waits for machines of the Cluster, which are at work.
pub(super) const FOR_MACHINES: [&str; 9] = [
    "WaitingForControlPlaneProvisioning",
    "WaitingForControlPlaneUpgrade",
    "WaitingForControlPlaneVersion",
    "WaitingForStableControlPlane",
    "WaitingForWorkersUpgrade",
    "WaitingForWorkersRollout",
    "WaitingForTurn",
    "WaitingForMachineDeployments",
    ROLLOUTS_BEFORE,
];

impl WaitingOn {
    /// A word for programs: stable, and the same in conditions, records, `describe` and metrics.
    pub const fn reason(&self) -> &'static str {
        match self {
            Self::Hook(_) => "WaitingForHook",
            Self::HookFailed { .. } => "HookFailed",
            Self::UpgradeHolds { .. } | Self::Held { .. } => UPGRADE_HELD,
            Self::HeldAt { .. } => UPGRADE_HELD_AT,
            Self::Approval { .. } => APPROVAL_NEEDED,
            Self::RolloutsBefore { .. } => ROLLOUTS_BEFORE,
            Self::Path(_) => "NoUpgradePath",
            Self::ControlPlaneProvisioning { .. } => "WaitingForControlPlaneProvisioning",
            Self::ControlPlaneUpgrade { .. } => "WaitingForControlPlaneUpgrade",
            Self::ControlPlaneVersion { .. } => "WaitingForControlPlaneVersion",
            Self::ControlPlaneAtTarget { .. } => "WaitingForStableControlPlane",
            Self::WorkersVersion { .. } => "WaitingForWorkersUpgrade",
            Self::WorkersRollout { .. } => "WaitingForWorkersRollout",
            Self::Turn { .. } => "WaitingForTurn",
            Self::MachineDeployments { .. } => "WaitingForMachineDeployments",
            Self::Deferred => UPGRADE_DEFERRED,
            Self::SequenceHeld { .. } => SEQUENCE_HELD,
            Self::ClusterInfrastructure => "WaitingForClusterInfrastructure",
            Self::Certificates => "WaitingForCertificates",
            Self::Endpoint => "WaitingForControlPlaneEndpoint",
            Self::Preflight { .. } => "WaitingForPreflightChecks",
            Self::MachineDeletion { .. } | Self::MachinesDeletion { .. } => "WaitingForMachineDeletion",
            Self::UnsafeRemoval { .. } => "UnsafeMachineRemoval",
            Self::InPlaceUpdate { .. } | Self::Update { .. } => "WaitingForInPlaceUpdate",
            Self::InPlaceAnswer { .. } => "WaitingForInPlaceAnswer",
            Self::InPlaceRefused { .. } => ROLLOUT_BLOCKED,
            Self::ExternalUpdate { .. } => "WaitingForExternalUpdate",
            Self::ExternalAnswer => "WaitingForExternalUpdateAnswer",
            Self::WorkersDeletion { .. } => "WaitingForWorkersDeletion",
            Self::BootstrapData => "WaitingForBootstrapData",
            Self::Missing(_) => "WaitingForObject",
            Self::Unreadable { .. } => "ObjectUnreadable",
            Self::BootstrapProvider { .. } => "WaitingForBootstrapProvider",
            Self::InfrastructureProvider { .. } => "WaitingForInfrastructureProvider",
            Self::BrokenContract { .. } => "BrokenContract",
            Self::NodeLookup { .. } => "WaitingForControlPlane",
            Self::Workload { .. } => "WaitingForWorkloadCluster",
            Self::Node { .. } => "WaitingForNode",
            Self::NodeHealthy { .. } => "WaitingForHealthyNode",
            Self::MinReady { .. } => "WaitingForMinReadySeconds",
            Self::PreDrainHooks(_) => "WaitingForPreDrainHook",
            Self::Drain { .. } | Self::WorkloadOfDeletion { step: super::DeletionStep::Drain, .. } => {
                "DrainingNode"
            }
            Self::Volumes { .. } | Self::WorkloadOfDeletion { .. } => "WaitingForVolumeDetach",
            Self::PreTerminateHooks(_) => "WaitingForPreTerminateHook",
            Self::InfrastructureDeletion { .. } => "WaitingForInfrastructureDeletion",
            Self::BootstrapDeletion { .. } => "WaitingForBootstrapDeletion",
            Self::NodeDeletion { .. } => "DeletingNode",
        }
    }

    /// The objects that are waited on, where the evidence names them.
    pub fn objects(&self) -> Vec<ObjectName> {
        let machines = |names: &[String]| names.iter().map(|name| ObjectName::machine(name)).collect();
        match self {
            Self::ControlPlaneProvisioning { control_plane }
            | Self::ControlPlaneUpgrade { control_plane, .. } => control_plane
                .split_once('/')
                .map(|(kind, name)| ObjectName::new(kind, name))
                .into_iter()
                .collect(),
            Self::WorkersVersion { groups, .. }
            | Self::WorkersRollout { groups }
            | Self::RolloutsBefore { groups, .. }
            | Self::Turn { upgrading: groups, .. }
            | Self::MachineDeployments { groups } => groups.iter().map(ObjectName::from).collect(),
            Self::MachineDeletion { machine, .. }
            | Self::UnsafeRemoval { machine, .. }
            | Self::InPlaceUpdate { machine }
            | Self::InPlaceAnswer { machine, .. }
            | Self::InPlaceRefused { machine, .. } => vec![ObjectName::machine(machine)],
            Self::MachinesDeletion { names } => machines(names),
            Self::Missing(reference)
            | Self::Unreadable { reference, .. }
            | Self::BootstrapProvider { reference, .. }
            | Self::InfrastructureProvider { reference, .. }
            | Self::BrokenContract { reference, .. } => vec![reference.into()],
            Self::NodeHealthy { name, .. } | Self::NodeDeletion { name, .. } => {
                vec![ObjectName::new("Node", name)]
            }
            Self::InfrastructureDeletion { kind, name } | Self::BootstrapDeletion { kind, name } => {
                vec![ObjectName::new(kind, name)]
            }
            _ => Vec::new(),
        }
    }

    /// Whether the objects are those that are left of many: they get fewer while the wait is the same.
    pub(super) const fn is_of_many(&self) -> bool {
        matches!(
            self,
            Self::WorkersVersion { .. }
                | Self::WorkersRollout { .. }
                | Self::RolloutsBefore { .. }
                | Self::Turn { .. }
                | Self::MachineDeployments { .. }
                | Self::MachinesDeletion { .. }
        )
    }

    /// The handlers that are waited on, by their full names.
    pub fn handlers(&self) -> Vec<String> {
        match self {
            Self::Hook(held) => held.handlers.clone(),
            Self::ExternalUpdate { handler } => vec![handler.clone()],
            _ => Vec::new(),
        }
    }

    /// The step that needs an approval.
    pub const fn step(&self) -> Option<&StepName> {
        match self {
            Self::Approval { step } => Some(step),
            _ => None,
        }
    }

    /// The version that is waited on or that the hook is about: the same wait for the next version is another wait.
    pub const fn version(&self) -> Option<&Version> {
        match self {
            Self::Hook(held) => held.to.as_ref(),
            Self::ControlPlaneUpgrade { to, .. } => Some(to),
            Self::ControlPlaneVersion { next } | Self::HeldAt { next, .. } => Some(next),
            Self::Approval { step } => Some(step.version()),
            Self::ControlPlaneAtTarget { target } => Some(target),
            Self::WorkersVersion { version, .. } => Some(version),
            _ => None,
        }
    }
}
