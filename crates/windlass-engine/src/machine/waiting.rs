//! What a Machine waits on, as a value.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use windlass_api::cluster::ContractVersionedObjectReference;

use super::deletion::Wait;

/// What a Machine waits on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WaitingOn {
    /// Somebody has to name a Secret with bootstrap data: there is no bootstrap config that could.
    BootstrapData,
    /// A provider's object has to be created.
    Missing(ContractVersionedObjectReference),
    /// A provider's object has to become readable.
    Unreadable {
        /// Which one.
        reference: ContractVersionedObjectReference,
        /// What went wrong.
        why: String,
    },
    /// The bootstrap provider has to make the data.
    BootstrapProvider {
        /// Which object.
        reference: ContractVersionedObjectReference,
        /// What it says about itself; may be empty.
        says: String,
    },
    /// The infrastructure provider has to make the machine.
    InfrastructureProvider {
        /// Which object.
        reference: ContractVersionedObjectReference,
        /// What it says about itself; may be empty.
        says: String,
    },
    /// A provider says it is done and does not say what the contract demands.
    BrokenContract {
        /// Which object.
        reference: ContractVersionedObjectReference,
        /// The field that is missing.
        field: &'static str,
    },
    /// The control plane has to answer before a Node can be looked for.
    ControlPlane {
        /// Why nobody has looked.
        why: String,
    },
    /// The workload cluster has to answer again.
    Workload {
        /// What happened instead.
        why: String,
        /// Since when.
        since: Timestamp,
    },
    /// A Node with this identity has to register.
    Node {
        /// The identity.
        provider_id: String,
    },
    /// The Node has to become healthy.
    NodeHealthy {
        /// Its name.
        name: String,
        /// What is wrong with it.
        says: String,
    },
    /// The Machine has to be ready for a while.
    MinReady {
        /// How much longer.
        left: SignedDuration,
    },
    /// The update in place has to go on.
    Update {
        /// What is known about it.
        says: String,
    },
    /// A step of its deletion.
    Deletion(Wait),
}

impl fmt::Display for WaitingOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let colon = |says: &str| if says.is_empty() { String::new() } else { format!(": {says}") };
        match self {
            Self::BootstrapData => f.write_str("waiting for spec.bootstrap.dataSecretName to be set"),
            Self::Missing(reference) => write!(f, "waiting for {reference} to be created"),
            Self::Unreadable { reference, why } => write!(f, "{reference} cannot be read: {why}"),
            Self::BootstrapProvider { reference, says } => {
                write!(f, "waiting for {reference} to make the bootstrap data{}", colon(says))
            }
            Self::InfrastructureProvider { reference, says } => {
                write!(f, "waiting for {reference} to be provisioned{}", colon(says))
            }
            Self::BrokenContract { reference, field } => {
                write!(f, "{reference} says it is done but does not set {field}")
            }
            Self::ControlPlane { why } => write!(f, "the Node is not looked for yet: {why}"),
            Self::Workload { why, since } => {
                write!(f, "the workload cluster has not answered since {since}: {why}")
            }
            Self::Node { provider_id } => write!(f, "waiting for a Node with spec.providerID {provider_id}"),
            Self::NodeHealthy { name, says } => write!(f, "Node {name} is not healthy{}", colon(says)),
            Self::MinReady { left } => write!(f, "ready, and available in {left:#}"),
            Self::Update { says } => write!(f, "being updated in place{}", colon(says)),
            Self::Deletion(wait) => wait.fmt(f),
        }
    }
}
