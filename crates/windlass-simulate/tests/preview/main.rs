//! Previews: a snapshot of a live cluster, and what a simulation says from it.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod disguise;
mod law;
mod snapshot;

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
