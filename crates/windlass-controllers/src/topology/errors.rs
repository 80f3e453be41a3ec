//! Why a topology could not be reconciled.

use std::time::Duration;

use windlass_engine::topology::Lost;
use windlass_engine::topology::desired::BuildError;
use windlass_runtime::{Incomplete, SelectorError, WatchKindError, WriteError};
use windlass_version::ParseError;

use super::patches::ExternalPatchError;
use crate::external::ExternalError;

/// Why a topology could not be reconciled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TopologyError {
    /// The class does not exist.
    #[error("ClusterClass {class} does not exist")]
    NoClass {
        /// Namespace and name of the class.
        class: String,
    },
    /// The class cannot be used yet, or not any more.
    #[error("ClusterClass {class} is not ready: {why}")]
    ClassNotReady {
        /// Namespace and name of the class.
        class: String,
        /// Why.
        why: String,
    },
    /// A template of the class does not exist.
    #[error("{template}, which ClusterClass {class} refers to, does not exist")]
    NoTemplate {
        /// Kind, namespace and name of the template.
        template: String,
        /// Name of the class.
        class: String,
    },
    /// Something that the Cluster refers to does not exist.
    #[error("{field} refers to {object}, which does not exist")]
    NoObject {
        /// The field with the reference.
        field: &'static str,
        /// Kind and name of the object.
        object: String,
    },
    /// Something that the Cluster refers to is not of its topology.
    #[error("{field} refers to {object}, which has no label topology.cluster.x-k8s.io/owned")]
    NotOwned {
        /// The field with the reference.
        field: &'static str,
        /// Kind and name of the object.
        object: String,
    },
    /// Two objects stand for the same entry of the topology.
    #[error("{one} and {other} are both for {entry} of the topology")]
    Twice {
        /// Kind and name of the entry.
        entry: String,
        /// One object.
        one: String,
        /// The other.
        other: String,
    },
    /// A version cannot be read.
    #[error("{field}: {error}")]
    Version {
        /// Where it stands.
        field: String,
        /// What is wrong with it.
        error: ParseError,
    },
    /// Values of variables are not valid.
    #[error("{}", .0.join("; "))]
    Variables(Vec<String>),
    /// An object lacks what every object has.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// An object cannot be compared, because it is no JSON.
    #[error("an object cannot be written as JSON: {0}")]
    Json(#[source] serde_json::Error),
    /// The selector of a MachineDeployment cannot be used.
    #[error("MachineDeployment {name}: spec.selector: {error}")]
    Selector {
        /// The MachineDeployment.
        name: String,
        /// What is wrong with its selector.
        error: SelectorError,
    },
    /// The objects cannot be built.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// Extensions that patch or check templates did not do so.
    #[error(transparent)]
    ExternalPatch(#[from] Box<ExternalPatchError>),
    /// An object of a provider could not be read.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// A kind cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchKindError),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Applying it would take away what upstream applied.
    #[error("{0}")]
    TakeOver(Box<Lost>),
    /// Hooks or planning failed; what does not depend on them was reconciled.
    #[error("{0}")]
    Held(String),
}

impl TopologyError {
    /// When to try again, where the failure says so.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::ExternalPatch(error) => error.retry_after(),
            _ => None,
        }
    }

    /// Whether another client has written in between: the next reconcile sees it.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Write(error) if error.is_conflict())
    }
}
