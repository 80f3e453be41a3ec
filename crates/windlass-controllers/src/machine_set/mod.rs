//! MachineSet.
