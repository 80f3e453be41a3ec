//! MachineSets: machines created, deleted, handed over, adopted and remediated.
//!
//! Each question has its function, all of them on an [`Observed`] MachineSet: [`belonging`] says whose a machine is,
//! [`remediation`] which unhealthy ones are replaced, [`replicas`] whether machines are missing or too many. New machines
//! pass the [`preflight`] checks first.

mod adoption;
pub(crate) mod aggregate;
mod deletion_order;
mod desired;
mod facts;
mod naming;
mod observed;
mod preflight;
mod remediation;
mod replicas;
mod status;

pub use adoption::{Belonging, Candidate, Controller, Foreign, belonging};
pub use deletion_order::deletion_order;
pub use desired::{Parts, machine_labels, new_machine, synced_machine, updated_machine};
pub use facts::{annotation, is_out_of_service, is_updating, names_in, needs_remediation, observe, selector};
pub use naming::{
    NameParts, NamedOwner, NamingError, RANDOM_ALPHABET, RANDOM_LENGTH, check_machine_naming, machine_name,
};
pub use observed::{DeletionOrder, Machine, Observed, OwnerRemediated, Target};
pub use preflight::{Check, ControlPlane, Failure, Preflight, Problem, Topology, preflight};
pub use remediation::{Deferred, Policy, Remediation, remediation};
pub use replicas::{
    Handover, HandoverError, Hold, PassedOver, Replicas, WhyPassedOver, arrivals_to_release, batch, replicas,
    updates_to_start,
};
pub use status::{StatusFacts, status};
