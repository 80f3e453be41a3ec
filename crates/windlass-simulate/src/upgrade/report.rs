//! What an upgrade came to: the JSON contract of `windlass simulate upgrade`.

use serde::Serialize;

use crate::extension::HookRecord;

/// A whole upgrade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpgradeReport {
    /// What was done, in the order in which it began.
    pub operations: Vec<OperationRecord>,
    /// The hooks that were called.
    pub hooks: Vec<HookRecord>,
    /// How many minors the slowest kubelet was behind an API server, at worst.
    pub worst_skew: u64,
    /// Which versions run in the control plane and in every worker group, over time.
    pub lanes: Vec<LaneRecord>,
    /// How many minors the slowest kubelet is behind an API server, over time.
    pub skew: Vec<SkewRecord>,
    /// How many machines came, went and were changed.
    pub machines: MachineCounts,
    /// How long it took, in virtual time.
    pub virtual_seconds: u64,
    /// Other targets that were set meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub retargets: Vec<RetargetRecord>,
    /// Approvals that were given meanwhile.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<ApprovalRecord>,
    /// Where it stopped, if only the owner of the Cluster can let it go on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StopRecord>,
    /// What differs from the manifests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Another target that was set while the upgrade ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RetargetRecord {
    /// When, in seconds after the version was changed first.
    pub at_seconds: u64,
    /// The target.
    pub to: String,
}

/// An approval that was given while the upgrade ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalRecord {
    /// When.
    pub at_seconds: u64,
    /// The step.
    pub step: String,
}

/// Where an upgrade stopped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct StopRecord {
    /// When.
    pub at_seconds: u64,
    /// Why, in one word.
    pub reason: String,
    /// What it waits for.
    pub waits_for: String,
}

/// The control plane, or a worker group, going from one version to another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperationRecord {
    /// `controlPlane` or `workers`.
    pub kind: &'static str,
    /// The worker group, by its name in the topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Version before.
    pub from: String,
    /// Version after; the same as before, if machines are changed for another reason.
    pub to: String,
    /// Whether it had begun before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub under_way: bool,
    /// When it began, in seconds after the version was changed.
    pub start_seconds: u64,
    /// When its last machine was done.
    pub end_seconds: u64,
    /// What happened to its machines, in order.
    pub machines: Vec<MachineRecord>,
}

/// The versions that run in a part of the cluster, over time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LaneRecord {
    /// `controlPlane` or `workers`.
    pub kind: &'static str,
    /// The worker group, by its name in the topology.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// What runs from when on.
    pub points: Vec<LanePoint>,
}

/// The versions that run in a part of the cluster, from a time on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LanePoint {
    /// From when on.
    pub at_seconds: u64,
    /// The oldest of them.
    pub oldest: String,
    /// The newest of them.
    pub newest: String,
}

/// How far kubelets are behind, from a time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SkewRecord {
    /// From when on.
    pub at_seconds: u64,
    /// How many minors.
    pub minors: u64,
}

/// What happened to one machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineRecord {
    /// The name of the Machine.
    pub name: String,
    /// `create`, `delete` or `update`.
    pub action: &'static str,
    /// Why it is replaced or updated, field by field, as the Machine says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// When that began.
    pub start_seconds: u64,
    /// When it was done: the machine was available, gone, or updated.
    pub end_seconds: u64,
}

/// How many machines came, went and were changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineCounts {
    /// Created.
    pub created: usize,
    /// Deleted.
    pub deleted: usize,
    /// Updated in place.
    pub updated_in_place: usize,
}
