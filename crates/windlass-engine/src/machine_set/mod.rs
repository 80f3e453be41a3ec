//! How a MachineSet scales, adopts, and remediates.
