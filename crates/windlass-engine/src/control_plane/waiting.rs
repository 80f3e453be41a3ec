//! What a control plane waits on.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

use super::etcd::UnsafeRemoval;
use super::observed::InPlaceRefusal;
use super::preflight::{Operation, PreflightFailure};
use crate::external_update::Refusal;

/// Why nothing is done right now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// The infrastructure of the Cluster is not there yet.
    ClusterInfrastructure,
    /// The cluster certificates are not there yet.
    Certificates,
    /// The Cluster has no control plane endpoint yet.
    Endpoint,
    /// Something must be true first.
    Preflight {
        /// What would be done.
        operation: Operation,
        /// All that is in the way; never empty.
        failures: Vec<PreflightFailure>,
    },
    /// A Machine goes, and is not at the point where etcd is cleaned up.
    MachineDeletion {
        /// Its name.
        machine: String,
        /// Since when.
        since: Timestamp,
        /// Hooks of others that hold it, by their annotation keys.
        hooks: Vec<String>,
    },
    /// A Machine must not go now.
    UnsafeRemoval {
        /// Its name.
        machine: String,
        /// Why.
        why: UnsafeRemoval,
    },
    /// A Machine is being updated in place.
    InPlaceUpdate {
        /// Its name.
        machine: String,
    },
    /// Extensions were asked about a Machine, and there is no answer that could be used.
    InPlaceAnswer {
        /// Its name.
        machine: String,
        /// What went wrong.
        why: String,
    },
    /// The strategy allows nothing but in-place updates, and this Machine cannot be updated in place.
    InPlaceRefused {
        /// Its name.
        machine: String,
        /// Why.
        refusal: InPlaceRefusal,
        /// Who was asked to take over the update, and why not.
        refusals: Vec<Refusal>,
    },
    /// Somebody else updates the Machines.
    ExternalUpdate {
        /// Who, by the full name of its handler.
        handler: String,
    },
    /// Somebody could not be asked whether it takes over the update; a condition of its own says who and why.
    ExternalAnswer,
    /// Deletion: workers are still there.
    Workers {
        /// Machines and pools, by name.
        names: Vec<String>,
    },
    /// Deletion: Machines of the control plane are still there.
    Machines {
        /// Their names.
        names: Vec<String>,
    },
}

impl WaitingOn {
    /// When to look again, if no event comes before; none if only an event or a change by the user helps.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Preflight { failures, .. } => failures.iter().map(PreflightFailure::retry_after).min(),
            Self::UnsafeRemoval { .. }
            | Self::InPlaceAnswer { .. }
            | Self::ExternalAnswer
            // Infrastructure that was updated does not tell us.
            | Self::ExternalUpdate { .. } => Some(Duration::from_secs(15)),
            // Extensions may learn; nothing says when they have.
            Self::InPlaceRefused { .. } => Some(Duration::from_secs(600)),
            Self::MachineDeletion { .. } | Self::Workers { .. } | Self::Machines { .. } => {
                Some(Duration::from_secs(30))
            }
            Self::ClusterInfrastructure
            | Self::Certificates
            | Self::Endpoint
            | Self::InPlaceUpdate { .. } => None,
        }
    }
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ClusterInfrastructure => f.write_str("waiting for the infrastructure of the Cluster"),
            Self::Certificates => f.write_str("waiting for the cluster certificates"),
            Self::Endpoint => f.write_str("waiting for the control plane endpoint of the Cluster"),
            Self::Preflight { operation, failures } => {
                write!(f, "{operation} waits: ")?;
                joined(f, failures)
            }
            Self::MachineDeletion { machine, hooks, .. } if hooks.is_empty() => {
                write!(f, "waiting for the deletion of Machine {machine}")
            }
            Self::MachineDeletion { machine, hooks, .. } => {
                write!(f, "waiting for the deletion of Machine {machine}, held by ")?;
                joined(f, hooks)
            }
            Self::UnsafeRemoval { machine, why } => write!(f, "Machine {machine} must stay for now: {why}"),
            Self::InPlaceUpdate { machine } => {
                write!(f, "waiting for the in-place update of Machine {machine}")
            }
            Self::InPlaceAnswer { machine, why } => {
                write!(f, "waiting to know whether Machine {machine} can be updated in place: {why}")
            }
            Self::InPlaceRefused { machine, refusal, refusals } => {
                write!(
                    f,
                    "the rollout stops: Machine {machine} cannot be updated in place, and the strategy has no \
                     fallback: {refusal}"
                )?;
                refusals.iter().try_for_each(|refusal| write!(f, "; {refusal}"))
            }
            Self::ExternalUpdate { handler } => {
                write!(f, "waiting for {handler}, which updates the Machines")
            }
            Self::ExternalAnswer => f.write_str("waiting to know whether somebody takes over the update"),
            Self::Workers { names } => {
                f.write_str("waiting for the deletion of workers: ")?;
                joined(f, names)
            }
            Self::Machines { names } => {
                f.write_str("waiting for the deletion of Machines: ")?;
                joined(f, names)
            }
        }
    }
}

/// At most this many are named; a message must stay readable in a table.
const NAMED: usize = 5;

fn joined<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T]) -> fmt::Result {
    for (index, item) in items.iter().take(NAMED).enumerate() {
        if index > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{item}")?;
    }
    match items.len().saturating_sub(NAMED) {
        0 => Ok(()),
        more => write!(f, " and {more} more"),
    }
}
