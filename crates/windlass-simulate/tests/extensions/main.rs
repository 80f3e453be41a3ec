//! Extensions and the topology: what they are asked, when, and what their answers do. Extensions are real ones, in the
//! process or behind HTTPS.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod burst;
mod cluster;
mod https;
mod lifecycle;
mod pace;
mod patches;
mod plans;
mod recorder;
mod registration;
mod requests;
mod waiting;
mod wire;

/// That of the `windlass` binary: simulations make and drop many small values, and end a fifth sooner with it.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
