//! What tests of the controllers share: a [`World`] with a management API in memory and a clock that starts at a fixed time,
//! and stand-ins for the controllers that are not under test.
//!
//! For dev-dependencies only, which `xtask/tests/architecture.rs` checks: a helper that fails fails the test.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod control_plane_machines;
mod touched;
mod worker_machines;
mod workload;
mod world;

pub use control_plane_machines::ControlPlaneMachines;
pub use touched::touched;
pub use worker_machines::{Seen, WorkerMachines};
pub use world::{NAMESPACE, Object, Options, World, merge};

/// Lets a suite use its own world, which adds controllers to a [`World`] in its field `kit`, as that [`World`].
#[macro_export]
macro_rules! deref_to_kit {
    ($world:ty) => {
        impl ::std::ops::Deref for $world {
            type Target = $crate::World;

            fn deref(&self) -> &Self::Target {
                &self.kit
            }
        }
    };
}
