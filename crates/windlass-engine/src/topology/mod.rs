//! Managed topologies: which version everything gets, what it is built from, what it waits for.
//!
//! [`decide`] is the whole upgrade as one function. It plans from live state, walks through the control plane's
//! and the workers' rows, and either asks for a hook to be called or says what to write.

pub mod admission;
mod condition;
mod control_plane;
mod describe;
pub mod desired;
pub mod gotemplate;
mod hooks;
mod observed;
pub mod patches;
mod plan;
mod upgrade;
mod waiting;
mod workers;

pub use condition::{Outcome, TopologyReconciled};
pub use control_plane::{ControlPlaneDecision, ControlPlanePhase};
pub use describe::{
    ClusterDescription, ConditionDescription, Described, MachineUpdateDescription, ObjectDescription,
    ReplicaDescription, StepDescription, StepState, UpdatesDescription, UpgradeDescription,
    WaitingDescription,
};
pub use hooks::{HookAnswer, HookAnswers, HookCall, PendingHooks};
pub use observed::{
    ControlPlane, GroupId, GroupKind, GroupObject, MachineVersions, Observed, PlanSource, PoolMembers,
    WorkerGroup,
};
pub use plan::{NoPath, Plan, PlanQuery};
pub use upgrade::{Decision, Next, decide};
pub use waiting::{HeldByHook, UPGRADE_HOLD_RETRY_SECONDS, WaitingOn};
pub use workers::{GroupAction, GroupDecision};
