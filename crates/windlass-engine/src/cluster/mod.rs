//! A Cluster as a whole: its infrastructure and control plane, what it says of itself, and how it goes.
//!
//! The shell reads what a Cluster refers to and what belongs to it into [`Observed`]; [`decide`] says what its endpoint
//! and status become. Deletion is a sequence of steps of its own, in [`deletion`].

mod conditions;
pub mod deletion;
mod observed;
mod status;

pub use observed::{
    Connection, ControlPlaneSeen, Descendants, Observed, available_report, is_control_plane_machine,
    versions_of,
};
pub use status::{Decision, decide};

#[cfg(test)]
mod tests;
