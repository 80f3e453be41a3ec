//! MachineHealthCheck.
