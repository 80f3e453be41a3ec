//! Machines that are updated without being replaced: who can, who does, and how far they are.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::ResourceExt;
use serde::Serialize;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_api::conditions::UPDATING;
use windlass_api::names::IN_PLACE_EXTENSIONS_ANNOTATION;

use super::{ConditionDescription, Described};
use crate::condition;
use crate::external_update::EXTERNAL_UPDATE;
use crate::in_place::CAN_UPDATE_IN_PLACE;

/// The updates of the machines of one owner.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdatesDescription {
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// What it says about them: which extension covers which field, and which external updater has accepted.
    pub verdicts: Vec<ConditionDescription>,
    /// The machines whose update runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub machines: Vec<MachineUpdateDescription>,
}

/// A machine whose update runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineUpdateDescription {
    /// The name of the Machine.
    pub name: String,
    /// The extension whose turn it is, by the name of its ExtensionConfig, if that was written down.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<String>,
    /// A word for programs.
    pub reason: String,
    /// What the extension says.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// Since when it runs.
    pub since: Time,
}

/// The updates of all owners that have something to say, the control plane first.
pub(super) fn of(objects: Described<'_>) -> Vec<UpdatesDescription> {
    let mut all = Vec::new();
    if let Some(reference) = &objects.cluster.spec.control_plane_ref {
        let found = objects.control_plane.and_then(|found| found.pointer("/status/conditions"));
        let conditions: Vec<Condition> =
            found.and_then(|found| serde_json::from_value(found.clone()).ok()).unwrap_or_default();
        let machines = objects.control_plane_machines();
        all.extend(updates(&reference.kind, &reference.name, &conditions, &machines));
    }
    let mut groups: Vec<&MachineDeployment> = objects.my_deployments().collect();
    groups.sort_by_key(|group| group.metadata.name.clone());
    for group in groups {
        let name = group.metadata.name.as_deref().unwrap_or_default();
        let machines = objects.machines_of(group);
        all.extend(updates(MachineDeployment::KIND, name, &group.status.conditions, &machines));
    }
    all
}

fn updates(
    kind: &str,
    name: &str,
    conditions: &[Condition],
    machines: &[&Machine],
) -> Option<UpdatesDescription> {
    let verdicts = [CAN_UPDATE_IN_PLACE, EXTERNAL_UPDATE].into_iter();
    let verdicts = verdicts.filter_map(|type_| condition::find(conditions, type_));
    let verdicts: Vec<ConditionDescription> = verdicts.map(ConditionDescription::from).collect();
    let mut running: Vec<MachineUpdateDescription> =
        machines.iter().filter_map(|machine| running(machine)).collect();
    running.sort_by(|a, b| a.name.cmp(&b.name));
    if verdicts.is_empty() && running.is_empty() {
        return None;
    }
    Some(UpdatesDescription { kind: kind.to_owned(), name: name.to_owned(), verdicts, machines: running })
}

fn running(machine: &Machine) -> Option<MachineUpdateDescription> {
    let conditions = &machine.status.conditions;
    let updating =
        condition::find(conditions, UPDATING).filter(|_| condition::is_true(conditions, UPDATING))?;
    let extensions = machine.metadata.annotations.as_ref()?.get(IN_PLACE_EXTENSIONS_ANNOTATION);
    let first = extensions.and_then(|names| names.split(',').map(str::trim).find(|name| !name.is_empty()));
    Some(MachineUpdateDescription {
        name: machine.name_any(),
        extension: first.map(str::to_owned),
        reason: updating.reason.clone(),
        message: updating.message.clone(),
        since: updating.last_transition_time.clone(),
    })
}
