//! Machines that are updated in place, with the real controllers in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

mod answers;
mod chain;
mod control_plane;
mod crash;
mod external;
mod external_update;
mod pace;
mod support;
mod trouble;
mod workers;

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
