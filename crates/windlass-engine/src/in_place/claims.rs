//! What one extension says that it can change.

use std::fmt;

use serde_json::Value;
use windlass_api::hooks::{CanUpdateMachineResponse, CanUpdateMachineSetResponse, Patch, PatchType};
use windlass_api::{Object, RegisteredName};
use windlass_patch::{Dialect, JsonPatch, JsonPatchError, Problem, merge_patch};

use super::Part;

/// The patches of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Patch of the Machine or the MachineSet.
    pub machine: Option<Patch>,
    /// Patch of the infrastructure machine or its template.
    pub infrastructure: Option<Patch>,
    /// Patch of the bootstrap config or its template.
    pub bootstrap: Option<Patch>,
}

impl Claims {
    pub(super) fn of(&self, part: Part) -> Option<&Patch> {
        let patch = match part {
            Part::Machine => &self.machine,
            Part::Infrastructure => &self.infrastructure,
            Part::Bootstrap => &self.bootstrap,
        };
        patch.as_ref().filter(|patch| patch.is_defined())
    }
}

impl From<CanUpdateMachineResponse> for Claims {
    fn from(response: CanUpdateMachineResponse) -> Self {
        Self {
            machine: response.machine_patch,
            infrastructure: response.infrastructure_machine_patch,
            bootstrap: response.bootstrap_config_patch,
        }
    }
}

impl From<CanUpdateMachineSetResponse> for Claims {
    fn from(response: CanUpdateMachineSetResponse) -> Self {
        Self {
            machine: response.machine_set_patch,
            infrastructure: response.infrastructure_machine_template_patch,
            bootstrap: response.bootstrap_config_template_patch,
        }
    }
}

/// An answer that cannot be used. Nothing is decided from it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the answer of {handler} cannot be used: {why}")]
pub struct ClaimError {
    /// Who answered.
    pub handler: RegisteredName,
    /// What is wrong.
    pub why: WhyUnusable,
}

/// What is wrong with an answer. Values of fields are never in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyUnusable {
    /// The format of a patch is not known, or not given.
    PatchType {
        /// The object that it is for.
        kind: String,
        /// What is given.
        given: String,
    },
    /// A patch is no JSON, or not of its format.
    NotAPatch {
        /// The object that it is for.
        kind: String,
        /// The format that it should have.
        format: &'static str,
    },
    /// A patch cannot be applied to the current object.
    DoesNotApply {
        /// The object.
        kind: String,
        /// The operation that fails, and why.
        error: Box<JsonPatchError>,
    },
    /// A patch changes what no extension may change.
    Outside {
        /// The object.
        kind: String,
        /// The paths that it changes.
        paths: Vec<String>,
        /// Where it may change something.
        allowed: &'static str,
    },
    /// A patch of an object that there is not.
    NoObject,
    /// The same change is claimed by an extension that was asked before.
    Overlap {
        /// The field.
        field: super::Field,
        /// Who claims it too.
        other: RegisteredName,
    },
    /// A field is claimed by an extension that was asked before, which would give it another value.
    Conflict {
        /// The field.
        field: super::Field,
        /// Who claims it too.
        other: RegisteredName,
    },
    /// The extension cannot be asked to do what it says that it can.
    NoUpdateHandler,
}

impl fmt::Display for WhyUnusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PatchType { kind, given } if given.is_empty() => {
                write!(f, "the patch of {kind} has no patchType")
            }
            Self::PatchType { kind, given } => write!(f, "patchType {given:?} of {kind} is unknown"),
            Self::NotAPatch { kind, format } => write!(f, "the patch of {kind} is no {format}"),
            Self::DoesNotApply { kind, error } => {
                write!(f, "the patch of {kind} does not apply: {error}")
            }
            Self::Outside { kind, paths, allowed } => write!(
                f,
                "the patch of {kind} changes {}, and only {allowed} may be changed",
                paths.join(", ")
            ),
            Self::NoObject => f.write_str("it patches a bootstrap config, and there is none"),
            Self::Overlap { field, other } => write!(f, "{field} is covered by {other} already"),
            Self::Conflict { field, other } => {
                write!(f, "{field} is covered by {other} already, which gives it another value")
            }
            Self::NoUpdateHandler => f.write_str("its extension has no handler for UpdateMachine"),
        }
    }
}

/// Applies a patch to a copy of an object.
pub(super) fn applied(object: &Object, kind: &str, patch: &Patch) -> Result<Object, WhyUnusable> {
    let kind = kind.to_owned();
    let not_a = |format| WhyUnusable::NotAPatch { kind: kind.clone(), format };
    let mut document = Value::Object(object.as_map().clone());
    match &patch.patch_type {
        PatchType::JsonPatch => {
            let content = patch.patch.to_json().map_err(|_| not_a("JSON"))?;
            let patched =
                JsonPatch::parse(Dialect::ClusterApi, &content).and_then(|patch| patch.apply(&document));
            document = patched.map_err(|error| match error {
                JsonPatchError::Malformed => not_a("list of JSONPatch operations"),
                JsonPatchError::Rejected { problem, .. } if problem.is_malformed() => {
                    not_a("list of JSONPatch operations")
                }
                JsonPatchError::Rejected { problem: Problem::Root, .. } => {
                    not_a("patch that leaves an object")
                }
                error => WhyUnusable::DoesNotApply { kind: kind.clone(), error: Box::new(error) },
            })?;
        }
        PatchType::JsonMergePatch => {
            if patch.patch.is_empty() {
                return Ok(object.clone());
            }
            let content = patch.patch.to_json().map_err(|_| not_a("JSON"))?;
            if !content.is_object() {
                return Err(not_a("JSONMergePatch object"));
            }
            merge_patch::apply_to(&mut document, &content);
        }
        other => return Err(WhyUnusable::PatchType { given: other.to_string(), kind }),
    }
    Object::try_from(document).map_err(|_| not_a("patch that leaves an object"))
}
