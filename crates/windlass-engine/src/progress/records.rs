//! What happened to a cluster, in the form that simulations, the page and change tickets print.

use serde::Serialize;

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
    /// When it began, in seconds after the beginning of the record.
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
    /// Its name.
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
