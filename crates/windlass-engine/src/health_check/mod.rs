//! Machines that are not well for too long, and whether something is done about them.
//!
//! [`health`] looks at one Machine, [`Allowance`] at how many are unhealthy, and [`decide`] puts both together. A health
//! check deletes nothing: it marks Machines, and their owners remediate.

mod allowance;
mod decide;
mod health;

pub use allowance::{Allowance, LimitError};
pub use decide::{Decision, Mark, Observed, Remedy, Target, decide, is_left_alone};
pub use health::{Health, NodeState, Since, Unhealthy, health};

#[cfg(test)]
mod tests;
