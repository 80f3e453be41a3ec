//! MachinePools: groups whose infrastructure looks after its instances, known here by identities and Nodes.

mod decide;
mod nodes;

pub use decide::{Decision, Deletion, Observed, SpecChange, decide, deletion};
pub use nodes::{Counts, NodesSeen, count};

#[cfg(test)]
mod tests;
