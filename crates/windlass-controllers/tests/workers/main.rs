//! MachineDeployments and MachineSets on the embedded API, in memory and in virtual time. Machines come up by a fake.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

mod faults;
mod groups;
mod machines;
mod rollouts;
mod world;
