//! The store as its users see it, on a real disk where the disk matters.

// Clippy allows these in tests, but does not see that what helps a test is part of it.
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used)]

mod backup;
mod commits;
mod damage;
mod data_dir;
mod kill;
mod support;
mod watch;
mod watch_model;
