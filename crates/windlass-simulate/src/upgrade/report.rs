//! What an upgrade came to: the JSON contract of `windlass simulate upgrade`.

use serde::Serialize;
pub use windlass_engine::progress::{
    LanePoint, LaneRecord, MachineCounts, MachineRecord, OperationRecord, SkewRecord,
};

use crate::extension::HookRecord;
use crate::insights::Insight;

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
    /// What stands in the way, as far as the snapshot of a live cluster tells.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub insights: Vec<Insight>,
    /// How long it takes with other draws of how long machines take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub estimate: Option<EstimateRecord>,
    /// What differs from the manifests.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// How long an upgrade takes, over runs with seeds of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EstimateRecord {
    /// How many runs.
    pub runs: u64,
    /// Half of them took no longer, in seconds.
    pub p50_seconds: u64,
    /// 19 of 20 took no longer.
    pub p95_seconds: u64,
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
