//! Which changes the command can make.

use serde_json::{Map, Value};
use windlass_extension::hooks::{
    CanUpdateMachineRequest, CanUpdateMachineResponse, CanUpdateMachineSetRequest,
    CanUpdateMachineSetResponse, HookResponse, MachineObjects, Patch,
};
use windlass_extension::{Object, patch};

/// Fields as JSON pointers into a Machine and its bootstrap config.
pub(crate) struct Coverage {
    bootstrap: Vec<String>,
    effect: Effect,
}

/// What the command does to a Machine besides the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Effect {
    /// The Machine is out of service meanwhile.
    pub(crate) affects_availability: bool,
    /// What has to be done before.
    pub(crate) requirements: Vec<String>,
}

const VERSION: &str = "/spec/version";
/// A MachineSet and a template have the fields of what they make further down.
const IN_TEMPLATE: &str = "/spec/template";

impl Coverage {
    pub(crate) fn new(bootstrap: Vec<String>, effect: Effect) -> Result<Self, String> {
        match bootstrap.iter().find(|field| !field.starts_with("/spec/")) {
            None => Ok(Self { bootstrap, effect }),
            Some(field) => Err(format!("{field:?} is not a JSON pointer that starts with /spec/")),
        }
    }

    pub(crate) fn of_machine(&self, request: &CanUpdateMachineRequest) -> CanUpdateMachineResponse {
        let (current, desired) = (&request.current, &request.desired);
        CanUpdateMachineResponse {
            machine_patch: covered(&current.machine, &desired.machine, &[VERSION.to_owned()]),
            bootstrap_config_patch: match (&current.bootstrap_config, &desired.bootstrap_config) {
                (Some(current), Some(desired)) => covered(current, desired, &self.bootstrap),
                _ => None,
            },
            affects_availability: self.effect.said(),
            requirements: self.effect.requirements.clone(),
            ..CanUpdateMachineResponse::success()
        }
    }

    pub(crate) fn of_machine_set(&self, request: &CanUpdateMachineSetRequest) -> CanUpdateMachineSetResponse {
        let (current, desired) = (&request.current, &request.desired);
        let below = |field: &String| format!("{IN_TEMPLATE}{field}");
        let bootstrap: Vec<String> = self.bootstrap.iter().map(below).collect();
        CanUpdateMachineSetResponse {
            machine_set_patch: covered(
                &current.machine_set,
                &desired.machine_set,
                &[below(&VERSION.to_owned())],
            ),
            bootstrap_config_template_patch: match (
                &current.bootstrap_config_template,
                &desired.bootstrap_config_template,
            ) {
                (Some(current), Some(desired)) => covered(current, desired, &bootstrap),
                _ => None,
            },
            affects_availability: self.effect.said(),
            requirements: self.effect.requirements.clone(),
            ..CanUpdateMachineSetResponse::success()
        }
    }

    /// What the command is responsible for. An update is done when it was run with exactly this.
    pub(crate) fn desired(&self, desired: &MachineObjects) -> Value {
        let bootstrap: Map<String, Value> = self
            .bootstrap
            .iter()
            .filter_map(|field| {
                let value = desired.bootstrap_config.as_ref()?.pointer(field)?;
                Some((field.clone(), value.clone()))
            })
            .collect();
        let version = desired.machine.pointer(VERSION).cloned().unwrap_or_default();
        serde_json::json!({"version": version, "bootstrap": bootstrap})
    }
}

impl Effect {
    /// An answer that does not say it means that the Machine is out of service.
    fn said(&self) -> Option<bool> {
        (!self.affects_availability).then_some(false)
    }
}

/// The patch that brings the fields, and only those, to their desired values.
fn covered(current: &Object, desired: &Object, fields: &[String]) -> Option<Patch> {
    let mut updated = Value::from(current.clone());
    for field in fields {
        let (parent, key) = field.rsplit_once('/')?;
        // Without the object that the field is in, the change is not one of the field alone.
        let Some(Value::Object(parent)) = updated.pointer_mut(parent) else { continue };
        let key = patch::pointer::unescape(key);
        match desired.pointer(field) {
            Some(value) => parent.insert(key.into_owned(), value.clone()),
            None => parent.remove(key.as_ref()),
        };
    }
    patch::between(current, &Object::try_from(updated).ok()?)
}
