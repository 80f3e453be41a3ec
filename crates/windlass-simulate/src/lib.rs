//! Whole clusters in virtual time: the real controllers, the embedded API, the in-memory provider.
//!
//! A [`World`] is everything that `windlass up` runs, in one thread and under tokio's paused clock: hours pass in
//! milliseconds, and the same seed gives the same story. It can be killed at any write and started again, and
//! [`Observer`]s see every state that was ever written.

mod chronicle;
mod extension;
mod external_updater;
mod in_process;
mod live;
mod manifests;
mod population;
mod progress;
mod recorder;
mod rollout;
pub mod script;
mod topology;
mod updater;
mod upgrade;
mod waiting;
mod world;
pub mod worlds;

pub use chronicle::Chronicle;
pub use extension::{HookRecord, Misbehaviour, SimulatedExtension};
pub use external_updater::{ExternalUpdateCall, Reply, SimulatedExternalUpdater};
pub use manifests::{ClusterManifests, Startup, WorkerGroup};
pub use population::{Bounds, Counts, Limits, Population, Step, StepEvent};
pub use progress::{is_complete, is_settled};
pub use recorder::{Observer, Violation, Written};
pub use rollout::{
    Amount, Change, ChangeKind, InvalidAmount, Progress, RolloutError, RolloutOptions, RolloutReport,
    Strategy, rollout, rollout_with,
};
pub use topology::TopologyManifests;
pub use updater::{Covered, SimulatedUpdater, UpdateCall};
pub use upgrade::{
    ApprovalRecord, MachineCounts, MachineRecord, Moment, NotARetarget, OperationRecord, Prepared, Retarget,
    RetargetRecord, StopRecord, UpgradeError, UpgradeOptions, UpgradeReport, UpgradeRequest, UpgradeSteering,
    is_at, prepare, simulate_upgrade, upgrade,
};
pub use world::{NotReached, Setup, Start, World, WorldError, WorldOptions, key};
