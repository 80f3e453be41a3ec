//! Previews: a snapshot of a live cluster, and what a simulation says from it.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod disguise;
mod law;
mod snapshot;
