//! What is observed, from the objects of the API.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube_core::ResourceExt;
use windlass_api::Hook;
use windlass_api::cluster::{self, MachineSet};
use windlass_api::conditions::{AVAILABLE, HEALTH_CHECK_SUCCEEDED, NODE_HEALTHY, OWNER_REMEDIATED, reason};
use windlass_api::label_selector::{Selector, SelectorError};
use windlass_api::names::{
    ACKNOWLEDGED_MOVE_ANNOTATION, DELETE_MACHINE_ANNOTATION, DISABLE_MACHINE_CREATE_ANNOTATION,
    HAND_OVER_UPDATED_MACHINES_ANNOTATION, MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION,
    PENDING_ACKNOWLEDGE_MOVE_ANNOTATION, RECEIVE_MACHINES_FROM_MACHINE_SETS_ANNOTATION,
    REMEDIATE_MACHINE_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};

use super::{DeletionOrder, Machine, Observed, OwnerRemediated, Target};
use crate::condition;
use crate::in_place::Effect;
use crate::pending_hooks::PendingHooks;

/// A MachineSet with the machines that it controls. `target` is the MachineSet that its annotation names, if it exists.
pub fn observe(
    set: &MachineSet,
    machines: &[&cluster::Machine],
    target: Option<&MachineSet>,
    now: Timestamp,
) -> Observed {
    let text = |key| annotation(&set.metadata, key);
    let moves_to = text(MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION).map(|name| Target {
        name: name.to_owned(),
        receives_from: target.map(|target| {
            let givers = annotation(&target.metadata, RECEIVE_MACHINES_FROM_MACHINE_SETS_ANNOTATION);
            givers.map(names_in).unwrap_or_default()
        }),
    });
    Observed {
        name: set.name_any(),
        replicas: u32::try_from(set.replicas().unwrap_or(0)).unwrap_or(0),
        order: match set.spec.deletion.order {
            Some(cluster::DeletionOrder::Newest) => DeletionOrder::Newest,
            Some(cluster::DeletionOrder::Oldest) => DeletionOrder::Oldest,
            _ => DeletionOrder::Random,
        },
        create_disabled: text(DISABLE_MACHINE_CREATE_ANNOTATION) == Some("true"),
        acknowledged: text(ACKNOWLEDGED_MOVE_ANNOTATION).map(names_in).unwrap_or_default(),
        moves_to,
        updated: text(HAND_OVER_UPDATED_MACHINES_ANNOTATION).map(names_in),
        machines: machines.iter().map(|machine| observe_machine(machine)).collect(),
        now,
    }
}

fn observe_machine(machine: &cluster::Machine) -> Machine {
    let meta = &machine.metadata;
    let has = |key| annotation(meta, key).is_some();
    let conditions = &machine.status.conditions;
    let remediated = condition::find(conditions, OWNER_REMEDIATED);
    let remediated = remediated.filter(|_| condition::is_false(conditions, OWNER_REMEDIATED));
    Machine {
        name: machine.name_any(),
        created: meta.creation_timestamp.as_ref().map(|time| time.0),
        deleting: meta.deletion_timestamp.is_some(),
        marked: has(DELETE_MACHINE_ANNOTATION),
        remediate_requested: has(REMEDIATE_MACHINE_ANNOTATION),
        updating: is_updating(machine),
        pending_acknowledge: has(PENDING_ACKNOWLEDGE_MOVE_ANNOTATION),
        update_started: PendingHooks::of(&machine.metadata).contains(Hook::UpdateMachine),
        available: condition::is_true(conditions, AVAILABLE),
        has_node: machine.status.node_ref.is_some(),
        node_unhealthy: condition::is_false(conditions, NODE_HEALTHY),
        health_check_failed: condition::is_false(conditions, HEALTH_CHECK_SUCCEEDED),
        owner_remediated: remediated.map(|condition| match condition.reason.as_str() {
            reason::MACHINE_DELETING => OwnerRemediated::MachineDeleting,
            _ => OwnerRemediated::Waiting,
        }),
    }
}

/// Whether a machine is being updated in place. It has two marks, which are neither set nor removed together.
pub fn is_updating(machine: &cluster::Machine) -> bool {
    annotation(&machine.metadata, UPDATE_IN_PROGRESS_ANNOTATION).is_some()
        || PendingHooks::of(&machine.metadata).contains(Hook::UpdateMachine)
}

/// Whether a machine is out of service because it is being updated in place. Its conditions follow later than the mark.
pub fn is_out_of_service(machine: &cluster::Machine) -> bool {
    is_updating(machine) && Effect::written_in(machine.metadata.annotations.as_ref()).takes_out_of_service()
}

/// Whether a health check wants the owner of a machine to replace it.
pub fn needs_remediation(machine: &cluster::Machine) -> bool {
    let conditions = &machine.status.conditions;
    condition::is_false(conditions, HEALTH_CHECK_SUCCEEDED)
        && condition::is_false(conditions, OWNER_REMEDIATED)
}

/// The value of an annotation.
pub fn annotation<'a>(meta: &'a ObjectMeta, key: &str) -> Option<&'a str> {
    meta.annotations.as_ref()?.get(key).map(String::as_str)
}

/// The names in a list that is joined with commas.
pub fn names_in(list: &str) -> BTreeSet<String> {
    list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// The selector of a group of machines, ready to match. One that would select everything selects nothing: a group that
/// was given no selector must not take all machines of its namespace.
///
/// # Errors
///
/// What is wrong with the selector.
pub fn selector(given: &LabelSelector) -> Result<Selector, SelectorError> {
    let selector = Selector::compile(Some(given))?;
    if selector.is_everything() { Selector::compile(None) } else { Ok(selector) }
}
