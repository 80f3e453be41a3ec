//! The runtime on the embedded API, in memory and in virtual time.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

mod applied;
mod conditional;
mod determinism;
mod dynamic;
mod faults;
mod queues;
mod read_your_writes;
mod replicas;
mod watches;
