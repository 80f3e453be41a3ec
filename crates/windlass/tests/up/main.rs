//! `windlass up` as a process, used as people use it.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a failing helper fails the test"
)]

#[path = "../commands/apply.rs"]
mod apply;
mod check;
mod kills;
mod kubectl;
mod load;
mod older;
mod own_kind;
mod process;
mod selector;
mod settings;
mod steering;
