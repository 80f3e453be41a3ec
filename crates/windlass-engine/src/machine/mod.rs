//! One Machine: how it comes up, what is said about it, how it is updated and how it goes.
//!
//! The shell reads the objects around a Machine into [`Observed`]; [`decide`] says what its spec and status become and
//! what it waits on. Deletion is a sequence of steps of its own, in [`deletion`].

mod bring_up;
mod conditions;
pub mod deadline;
pub mod deletion;
pub mod drain;
pub mod drain_rules;
pub mod in_place;
pub mod node;
mod observed;
mod since;
mod up_to_date;

pub use bring_up::{Decision, SpecChange, decide, paused_status};
pub use observed::{Node, NodeSeen, Observed, Updating};
pub use up_to_date::{UpToDate, WorkerRevision, up_to_date};

#[cfg(test)]
mod tests;
