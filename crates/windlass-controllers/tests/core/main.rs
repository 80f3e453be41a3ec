//! The controllers of Cluster, MachineHealthCheck and MachinePool on the embedded API, in virtual time.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod clusters;
mod health_checks;
mod machine_pools;
mod world;
