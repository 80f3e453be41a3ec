//! MachineDeployment.
