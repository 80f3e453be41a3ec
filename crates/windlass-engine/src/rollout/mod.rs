//! How a MachineDeployment moves its machines from old MachineSets to the new one.
