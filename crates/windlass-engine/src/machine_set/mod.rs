//! MachineSets: machines created, deleted, handed over, adopted and remediated.
//!
//! Each question has its function, all of them on an [`Observed`] MachineSet: [`belonging`] says whose a machine is,
//! [`remediation`] which unhealthy ones are replaced, [`replicas`] whether machines are missing or too many. New machines
//! pass the [`preflight`] checks first.

mod adoption;
mod deletion_order;
mod naming;
mod observed;
mod preflight;
mod remediation;
mod replicas;

pub use adoption::{Belonging, Candidate, Controller, Foreign, belonging};
pub use deletion_order::deletion_order;
pub use naming::{NameParts, NamingError, RANDOM_ALPHABET, RANDOM_LENGTH, machine_name};
pub use observed::{DeletionOrder, Machine, Observed, OwnerRemediated, Target};
pub use preflight::{Check, ControlPlane, Failure, Preflight, Problem, Topology, preflight};
pub use remediation::{Deferred, Policy, Remediation, remediation};
pub use replicas::{
    Handover, HandoverError, Hold, PassedOver, Replicas, WhyPassedOver, replicas, updates_to_start,
};
