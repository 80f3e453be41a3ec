//! Admission: what is filled in, and what is refused, before an object is stored.
//!
//! Every refusal names its field and says what would be accepted. Nothing here reads anything: what a rule needs to
//! know about other objects is an argument.

mod class;
mod cluster;
mod machine_deployment;
mod machines;
mod names;
mod pins;
mod replicas;
mod version_change;

use std::fmt;

use windlass_version::{ParseError, Version};

pub use class::{ClassUse, validate_class, validate_class_deletion};
pub use cluster::{ClusterContext, default_cluster, validate_cluster};
pub use machine_deployment::{default_machine_deployment, validate_machine_deployment};
pub use pins::pins_change;
pub use replicas::{default_machine_pool, default_machine_set, default_replicas, validate_replicas};
pub use version_change::UpgradeState;

/// One field that is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldProblem {
    /// The field, for example `spec.topology.version`.
    pub field: String,
    /// What is wrong, and what would be accepted.
    pub problem: String,
}

impl fmt::Display for FieldProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.problem)
    }
}

/// What is to be said about an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Verdict {
    /// Why it is refused; nothing if it is not.
    pub problems: Vec<FieldProblem>,
    /// What its author should know, although it is stored.
    pub warnings: Vec<String>,
}

impl Verdict {
    /// Whether the object is stored.
    pub fn is_accepted(&self) -> bool {
        self.problems.is_empty()
    }

    /// Adds a problem.
    pub fn refuse(&mut self, field: impl Into<String>, problem: impl Into<String>) {
        self.problems.push(FieldProblem { field: field.into(), problem: problem.into() });
    }

    pub(crate) fn warn(&mut self, warning: impl Into<String>) {
        self.warnings.push(warning.into());
    }
}

/// What would be accepted, in words.
fn accepted<T: fmt::Display>(choices: impl IntoIterator<Item = T>) -> String {
    let choices: Vec<String> = choices.into_iter().map(|choice| choice.to_string()).collect();
    match choices.as_slice() {
        [] => "none is accepted".to_owned(),
        [one] => format!("{one} is accepted"),
        many => format!("{} are accepted", many.join(", ")),
    }
}

/// A version as it may stand in a specification: strict, with or without its `v`.
pub(crate) fn strict_version(text: &str) -> Result<Version, ParseError> {
    Version::parse_strict(text.strip_prefix('v').unwrap_or(text))
}
