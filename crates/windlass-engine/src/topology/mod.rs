//! Managed topologies: which version everything gets, what it is built from, what it waits for.
//!
//! [`decide`] is the whole upgrade as one function. It plans from live state, walks through the control plane's
//! and the workers' rows, and either asks for a hook to be called or says what to write.

mod condition;
mod control_plane;
pub mod desired;
mod forecast;
mod hooks;
mod observed;
pub mod patches;
pub mod pin;
mod plan;
mod redirect;
mod steering;
mod step_name;
mod upgrade;
mod waits;
mod workers;

pub use crate::pending_hooks::PendingHooks;
pub(crate) use condition::HELD;
pub use condition::{Outcome, TopologyReconciled};
pub use control_plane::{ControlPlaneDecision, ControlPlanePhase};
pub use forecast::{Stop, stops};
pub use hooks::{HookAnswer, HookAnswers, HookCall};
pub use observed::{
    ControlPlane, GroupId, GroupObject, MachineVersions, Observed, PlanSource, PoolMembers, WorkerGroup,
    WorkerKind,
};
pub use pin::{Entry, WrittenPin};
pub(crate) use plan::planned;
pub use plan::{NoPath, Plan, PlanQuery};
pub use steering::{MAX_APPROVALS, Steering, SteeringProblem};
pub use step_name::{NotAStep, StepName, StepScope};
pub use upgrade::{Decision, Next, decide};
pub use workers::{GroupAction, GroupDecision};
