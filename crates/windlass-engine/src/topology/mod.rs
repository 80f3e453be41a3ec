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
mod takeover;
mod upgrade;
mod waits;
mod workers;

pub use crate::pending_hooks::PendingHooks;
pub(crate) use condition::{HELD, PINS_IGNORED};
pub use condition::{Outcome, TAKE_OVER_REFUSED, TopologyReconciled};
pub use control_plane::{ControlPlaneDecision, ControlPlanePhase};
pub use forecast::{Stop, stops};
pub use hooks::{HookAnswer, HookAnswers, HookCall};
pub(crate) use observed::upgrade_holds;
pub use observed::{
    ControlPlane, GroupId, GroupObject, MachineVersions, Observed, PlanSource, PoolMembers, WorkerGroup,
    WorkerKind, are_missing,
};
pub use pin::{Entry, WrittenPin};
pub(crate) use plan::planned;
pub use plan::{NoPath, Plan, PlanQuery};
pub use steering::{MAX_APPROVALS, Steering, SteeringProblem};
pub use step_name::{NotAStep, StepName, StepScope};
pub use takeover::{Lost, TAKE_OVER_ANNOTATION, different_fields, is_taken_over, lost_fields};
pub use upgrade::{Decision, Next, decide};
pub use workers::{GroupAction, GroupDecision};
