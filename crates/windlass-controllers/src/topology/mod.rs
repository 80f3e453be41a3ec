//! The topology controller: makes a Cluster what its class and its topology say, and takes it through upgrades.
//!
//! What it decides is in `windlass_engine::topology`; here it reads, calls hooks, and writes.

mod apply;
mod blueprint;
mod class;
mod current;
mod errors;
mod finalizers;
mod hooks;
mod patches;
mod reconcile;
mod status;
mod sweep;
mod variables;

pub use class::ClassController;
pub use errors::TopologyError;
pub use patches::{ExternalPatchError, PatchProblem};
pub use reconcile::{TopologyController, register};

pub(crate) use variables::{
    check_definitions as check_variable_definitions, default_and_validate as default_and_validate_variables,
};
