//! What tests of the controllers share: a [`World`] with a management API in memory and a clock that starts at a fixed time,
//! and stand-ins for the controllers that are not under test.
//!
//! For dev-dependencies only, which `xtask/tests/architecture.rs` checks: a helper that fails fails the test.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod control_plane_machines;
mod worker_machines;
mod workload;
mod world;

pub use control_plane_machines::ControlPlaneMachines;
pub use worker_machines::{Seen, WorkerMachines};
pub use world::{NAMESPACE, Object, Options, World, merge};
