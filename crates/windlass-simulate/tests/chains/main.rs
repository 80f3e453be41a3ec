//! Chained upgrades of managed clusters with all real controllers, in virtual time, checked after every write.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod abort;
mod changes;
mod crash;
mod hooks;
mod pairs;
mod pins;
mod retarget;
mod support;
mod variables;

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
