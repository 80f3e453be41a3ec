//! Beside Cluster API's own managers, and instead of them. `cargo xtask real` builds them when a test of this module is to run.

mod beside;
mod takeover;
