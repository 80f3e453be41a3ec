//! Rollouts of MachineDeployments: which MachineSet grows, which shrinks, which hands its machines over.
//!
//! [`plan`] is the whole decision: from an [`Observed`] MachineDeployment to the size of each of its MachineSets, with
//! the reason for each change. Machines are created, deleted and moved by the MachineSets
//! ([`machine_set`](crate::machine_set)) alone; the planner only sets their sizes and says who may give machines to whom.
//!
//! 1. [`roles`]: which MachineSet is the new one.
//! 2. `rolling`: the new one grows within the surge, the old ones shrink as far as availability allows.
//! 3. `in_place`: machines that can be updated in place are handed over and no machine is added for them.
//! 4. `on_delete`, `paused`: the same for the other modes.

mod desired;
mod facts;
mod in_place;
mod limits;
mod note;
mod observed;
mod on_delete;
mod paused;
mod plan;
mod roles;
mod rolling;
mod sizes;
mod status;
mod template;

pub use desired::{compared_sets, desired_set};
pub use facts::{FactsError, amount, next_set, observe, strategy};
pub use in_place::{InPlaceAnswers, in_place_questions, left_to_external_updaters};
pub use limits::{Amount, AmountError, Limits, RollingUpdate};
pub use note::Note;
pub use observed::{Machine, Observed, Set, Strategy};
pub use plan::{
    Blocked, BlockedSet, Leftover, Plan, Progress, SetPlan, WhyBlocked, finished_sets, is_complete, plan,
};
pub use roles::{MustReplace, NewSet, OldSet, Roles, WhyCreate, roles};
pub use status::{ROLLOUT_BLOCKED, StatusFacts, blocked, progress, status};
pub use template::{FreshSet, fresh_set, same_machines};
