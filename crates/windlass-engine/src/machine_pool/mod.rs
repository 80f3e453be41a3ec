//! MachinePools: groups whose infrastructure looks after its instances, known here by identities and Nodes.

mod decide;
mod machines;
mod nodes;

pub use decide::{Decision, Deletion, Observed, SpecChange, decide, deletion};
pub use machines::{Instance, is_machine_of, labels_of_machines, machine_of};
pub use nodes::{Counts, NodesSeen, changes, count, retired};

#[cfg(test)]
mod tests;
