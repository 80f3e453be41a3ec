//! MachinePool.
