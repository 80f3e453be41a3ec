//! What one extension says that it can change.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;
use windlass_api::hooks::{CanUpdateMachineResponse, CanUpdateMachineSetResponse, Patch, PatchType};
use windlass_api::{Object, RegisteredName};
use windlass_patch::{Dialect, JsonPatch, JsonPatchError, Problem, merge_patch};

use super::fields::{differing, path_of};
use super::{Effect, Level, Part, Requirement};

/// The patches of one answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Patch of the Machine or the MachineSet.
    pub machine: Option<Patch>,
    /// Patch of the infrastructure machine or its template.
    pub infrastructure: Option<Patch>,
    /// Patch of the bootstrap config or its template.
    pub bootstrap: Option<Patch>,
    /// Whether machines are out of service while they are updated; they are if the answer does not say.
    pub affects_availability: Option<bool>,
    /// What has to be done before a machine is updated, as the answer has it.
    pub requirements: Vec<String>,
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

    pub(super) fn effect(&self) -> Result<Effect, WhyUnusable> {
        let requirements = self.requirements.iter().map(|name| {
            Requirement::of(name).ok_or_else(|| WhyUnusable::UnknownRequirement { name: name.clone() })
        });
        let mut requirements: BTreeSet<Requirement> = requirements.collect::<Result<_, _>>()?;
        // A volume that is in use is not detached.
        if requirements.contains(&Requirement::VolumeDetach) {
            requirements.insert(Requirement::Drain);
        }
        Ok(Effect { affects_availability: self.affects_availability != Some(false), requirements })
    }
}

impl From<CanUpdateMachineResponse> for Claims {
    fn from(response: CanUpdateMachineResponse) -> Self {
        Self {
            machine: response.machine_patch,
            infrastructure: response.infrastructure_machine_patch,
            bootstrap: response.bootstrap_config_patch,
            affects_availability: response.affects_availability,
            requirements: response.requirements,
        }
    }
}

impl From<CanUpdateMachineSetResponse> for Claims {
    fn from(response: CanUpdateMachineSetResponse) -> Self {
        Self {
            machine: response.machine_set_patch,
            infrastructure: response.infrastructure_machine_template_patch,
            bootstrap: response.bootstrap_config_template_patch,
            affects_availability: response.affects_availability,
            requirements: response.requirements,
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
    /// Something has to be done before the update that is not known here. To update without it might do harm.
    UnknownRequirement {
        /// What the answer calls it.
        name: String,
    },
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
            Self::NoObject => f.write_str("it patches a bootstrap config, and there is none"),
            Self::Overlap { field, other } => write!(f, "{field} is covered by {other} already"),
            Self::Conflict { field, other } => {
                write!(f, "{field} is covered by {other} already, which gives it another value")
            }
            Self::NoUpdateHandler => f.write_str("its extension has no handler for UpdateMachine"),
            Self::UnknownRequirement { name } => write!(
                f,
                "it asks for {name:?} before the update, known are {}",
                Requirement::ALL.map(Requirement::as_str).join(" and ")
            ),
        }
    }
}

/// An object after a patch.
pub(super) struct Applied {
    /// The object, changed only where changes count.
    pub(super) object: Object,
    /// The paths that the patch changes as well, which is dropped.
    pub(super) dropped: BTreeSet<String>,
}

/// Applies a patch to a copy of an object. Only what it changes below the path of the level is taken over, as Cluster API
/// does; a patch that removes all of that changes nothing.
pub(super) fn applied(
    object: &Object,
    kind: &str,
    patch: &Patch,
    level: Level,
) -> Result<Applied, WhyUnusable> {
    let before = Value::Object(object.as_map().clone());
    let (after, mut dropped) = match &patch.patch_type {
        PatchType::JsonPatch => json_patched(&before, kind, patch, level)?,
        PatchType::JsonMergePatch => (merge_patched(&before, kind, patch)?, BTreeSet::new()),
        other => {
            return Err(WhyUnusable::PatchType { given: other.to_string(), kind: kind.to_owned() });
        }
    };
    let after = Object::try_from(after).map_err(|_| not_a(kind, "patch that leaves an object"))?;
    dropped.append(&mut differing(Some(&level.rest_of(object)), Some(&level.rest_of(&after)), ""));
    Ok(Applied { object: level.taken_over(object, &after), dropped })
}

fn not_a(kind: &str, format: &'static str) -> WhyUnusable {
    WhyUnusable::NotAPatch { kind: kind.to_owned(), format }
}

/// The document after a JSON patch, and the paths of operations that were left out. Extensions do not get to see all of an
/// object, so that an operation elsewhere may have nothing to work on: then all operations elsewhere are left out. Tests
/// stay, as they are there to keep the patch from being applied.
fn json_patched(
    document: &Value,
    kind: &str,
    patch: &Patch,
    level: Level,
) -> Result<(Value, BTreeSet<String>), WhyUnusable> {
    let content = patch.patch.to_json().map_err(|_| not_a(kind, "JSON"))?;
    let apply = |content: &Value| {
        JsonPatch::parse(Dialect::ClusterApi, content).and_then(|patch| patch.apply(document))
    };
    let refused = |error: JsonPatchError| match error {
        JsonPatchError::Malformed => not_a(kind, "list of JSONPatch operations"),
        JsonPatchError::Rejected { problem, .. } if problem.is_malformed() => {
            not_a(kind, "list of JSONPatch operations")
        }
        JsonPatchError::Rejected { problem: Problem::Root, .. } => not_a(kind, "patch that leaves an object"),
        error => WhyUnusable::DoesNotApply { kind: kind.to_owned(), error: Box::new(error) },
    };
    let is_elsewhere = |operation: &str, path: &str| operation != "test" && level.is_elsewhere(path);
    match apply(&content) {
        Ok(after) => Ok((after, BTreeSet::new())),
        Err(JsonPatchError::Rejected { problem, operation, path, .. })
            if !problem.is_malformed() && is_elsewhere(&operation, &path) =>
        {
            let text = |operation: &Value, key: &str| operation[key].as_str().unwrap_or_default().to_owned();
            let operations = content.as_array().cloned().unwrap_or_default();
            let (left_out, kept): (Vec<Value>, Vec<Value>) = operations
                .into_iter()
                .partition(|operation| is_elsewhere(&text(operation, "op"), &text(operation, "path")));
            let dropped = left_out.iter().map(|operation| path_of(&text(operation, "path"))).collect();
            Ok((apply(&Value::Array(kept)).map_err(refused)?, dropped))
        }
        Err(error) => Err(refused(error)),
    }
}

fn merge_patched(document: &Value, kind: &str, patch: &Patch) -> Result<Value, WhyUnusable> {
    let mut document = document.clone();
    if patch.patch.is_empty() {
        return Ok(document);
    }
    let content = patch.patch.to_json().map_err(|_| not_a(kind, "JSON"))?;
    if !content.is_object() {
        return Err(not_a(kind, "JSONMergePatch object"));
    }
    merge_patch::apply_to(&mut document, &content);
    Ok(document)
}
