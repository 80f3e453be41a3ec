//! Worker machines from the first to the last, with the real controllers in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

mod bad_input;
mod crash;
mod lifecycle;
mod limits;
mod schedules;
mod support;
mod trouble;

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
