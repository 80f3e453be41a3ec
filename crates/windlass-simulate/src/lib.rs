//! Whole clusters in virtual time: the real controllers, the embedded API, the in-memory provider.
//!
//! A [`World`] is everything that `windlass up` runs, in one thread and under tokio's paused clock: hours pass in
//! milliseconds, and the same seed gives the same story. It can be killed at any write and started again, and
//! [`Observer`]s see every state that was ever written.

mod chronicle;
mod extension;
mod external_updater;
mod flapping;
mod in_process;
mod insights;
mod ledger;
mod live;
mod manifests;
mod population;
mod progress;
mod recorder;
mod rollout;
pub mod script;
mod snapshot;
mod topology;
mod updater;
mod upgrade;
mod waiting;
mod world;
pub mod worlds;

pub use chronicle::Chronicle;
pub use extension::{HookRecord, Misbehaviour, SimulatedExtension};
pub use external_updater::{ExternalUpdateCall, Reply, SimulatedExternalUpdater};
pub use insights::{Insight, Level, insights};
pub use ledger::{Changed, Flap, Ledger, Revision};
pub use manifests::{ClusterManifests, Startup, WorkerGroup};
pub use population::{Bounds, Counts, Limits, Population, Step, StepEvent};
pub use progress::{is_complete, is_settled};
pub use recorder::{Observer, Violation, Written};
pub use rollout::{
    Amount, Change, ChangeKind, InvalidAmount, Progress, RolloutError, RolloutOptions, RolloutReport,
    Strategy, rollout, rollout_with,
};
pub use snapshot::{Format, Learned, NotRebuilt, RebuildOptions, Rebuilt, Snapshot, SnapshotError, Unread};
pub use topology::TopologyManifests;
pub use updater::{Covered, SimulatedUpdater, UpdateCall};
pub use upgrade::{
    ApprovalRecord, EstimateRecord, Failing, Fate, LanePoint, LaneRecord, MachineCounts, MachineRecord,
    Moment, NoSuchPart, NotAFailure, NotARetarget, OperationRecord, Prepared, PreviewOptions, Retarget,
    RetargetRecord, SkewRecord, StopRecord, UpgradeError, UpgradeOptions, UpgradeReport, UpgradeRequest,
    UpgradeSteering, WhatIf, estimate_preview, is_at, live_of, prepare, preview_upgrade, simulate_preview,
    simulate_upgrade, upgrade, upgrade_world,
};
pub use windlass_inmemory::{Durations, EVERY_GROUP};
pub use world::{NotReached, Setup, Start, World, WorldError, WorldOptions, key};
