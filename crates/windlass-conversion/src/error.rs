//! Why an object cannot be converted.

use windlass_api::GoDurationError;

/// Why an object cannot be converted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ConvertError {
    /// Not a JSON object, or without `apiVersion` or `kind`.
    #[error("not an object: {missing} is missing")]
    NotAnObject {
        /// What it lacks.
        missing: &'static str,
    },
    /// There are no two versions of this kind.
    #[error("{kind} of {group:?} has no versions that are known here")]
    UnknownKind {
        /// The group.
        group: String,
        /// The kind.
        kind: String,
    },
    /// The kind does not have this version.
    #[error("{kind} has no version {api_version:?}: there are {}", known.join(", "))]
    UnknownVersion {
        /// The kind.
        kind: String,
        /// The version.
        api_version: String,
        /// The versions it has.
        known: Vec<&'static str>,
    },
    /// The `apiVersion` of a reference cannot be read.
    #[error("{field}: invalid apiVersion {value:?}")]
    InvalidApiVersion {
        /// The path of the field.
        field: String,
        /// What is there.
        value: String,
    },
    /// A duration cannot be read.
    #[error("{field}: {source}")]
    InvalidDuration {
        /// The path of the field.
        field: String,
        /// What is wrong with it.
        source: GoDurationError,
    },
    /// A field that must be a string or a whole number is something else.
    #[error("{field}: expected {expected}, got {value}")]
    WrongType {
        /// The path of the field.
        field: String,
        /// What must be there.
        expected: &'static str,
        /// What is there, as JSON.
        value: String,
    },
    /// A reference has no version in v1beta2, and no CRD says which one keeps the contract.
    #[error("{field}: no CRD of {kind} in group {group:?} says which version keeps a contract")]
    NoContract {
        /// The path of the field.
        field: String,
        /// The group that is referred to.
        group: String,
        /// The kind that is referred to.
        kind: String,
    },
    /// The annotation with what v1beta1 cannot say is not JSON.
    #[error("annotation cluster.x-k8s.io/conversion-data is not JSON: {problem}")]
    ConversionData {
        /// What the parser says.
        problem: String,
    },
}
