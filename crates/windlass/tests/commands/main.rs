//! The program as its users run it: every command as a process of its own, what it prints, and how it ends.
//!
//! One binary for all of them, so that it is linked once and its tests share the cores. `up` and `readme` are apart: the one is
//! asked for by name, the other changes the current directory of its process.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failing helper fails the test"
)]

mod apply;
mod bad_input;
mod browser;
mod credentials;
mod demo;
mod deploy;
mod describe;
mod durability;
mod examples;
mod extension;
mod history;
mod live_stories;
mod old_manifests;
mod page;
mod report;
mod run;
mod scarcity;
mod scenarios;
mod serve;
mod served;
mod shells;
mod statements;
mod stories;
mod transcript;
mod watch;
