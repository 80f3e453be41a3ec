//! The machines of a MachineSet: whose they are, and how they leave.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use windlass_api::cluster::{Machine, MachineSet};
use windlass_api::names::{
    HAND_OVER_UPDATED_MACHINES_ANNOTATION, IN_PLACE_EXTENSIONS_ANNOTATION, MACHINE_TEMPLATE_HASH_LABEL,
    PENDING_ACKNOWLEDGE_MOVE_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::in_place::Effect;
use windlass_engine::machine_set::{Candidate, Controller, Handover, annotation, belonging};
use windlass_runtime::{EventType, Incomplete, controller_reference, namespace_of, uid_of};

use super::{Scope, Sets};
use crate::worker_group::{WorkerError, adoption, controller, select_where};

impl Sets {
    /// The machines that the MachineSet controls. Those that it selects and that have no controller are adopted; those that
    /// have another controller are left alone, and users told.
    pub(super) async fn belonging(&self, scope: &Scope<'_>) -> Result<Vec<Arc<Machine>>, WorkerError> {
        let Scope { context, set, .. } = *scope;
        let (uid, namespace) = (uid_of(set)?, namespace_of(set)?);
        let mut machines = self.controlled(set)?;
        let is_other = |machine: &Machine| !is_controlled_by(machine, uid);
        let others = select_where(&self.machines, namespace, &set.spec.selector, is_other)?;
        let candidates = others.iter().map(|machine| Candidate {
            name: text(machine.metadata.name.as_ref()),
            selected: true,
            controller: controller(&machine.metadata).map(|owner| Controller {
                uid: &owner.uid,
                kind: &owner.kind,
                name: &owner.name,
            }),
            deleting: machine.metadata.deletion_timestamp.is_some(),
        });
        let found = belonging(uid, candidates);
        for foreign in &found.foreign {
            context.event(set, EventType::Warning, "ForeignMachine", foreign.to_string());
        }
        for name in &found.orphans {
            let orphan = others.iter().find(|machine| machine.metadata.name.as_ref() == Some(name));
            let Some(orphan) = orphan else { continue };
            let patch = adoption(&orphan.metadata, &controller_reference(set)?);
            let adopted = context.writer::<Machine>().patch(orphan, patch).await?;
            context.event(set, EventType::Normal, "SuccessfulAdopt", format!("Adopted Machine {name}"));
            machines.push(Arc::new(adopted));
        }
        Ok(machines)
    }

    /// The machines that the MachineSet controls, as they are.
    pub(super) fn controlled(&self, set: &MachineSet) -> Result<Vec<Arc<Machine>>, Incomplete> {
        let uid = uid_of(set)?;
        let owned = self.machines.owned_by(uid).into_iter();
        Ok(owned.filter(|machine| is_controlled_by(machine, uid)).collect())
    }

    pub(super) async fn delete_machines(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        names: &[String],
    ) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        for machine in named(machines, names) {
            let name = text(machine.metadata.name.as_ref());
            if let Err(error) = context.writer().delete(machine).await {
                let message = format!("Could not delete Machine {name}: {error}");
                context.event(set, EventType::Warning, "FailedDelete", message);
                return Err(error.into());
            }
            context.event(set, EventType::Normal, "SuccessfulDelete", format!("Deleted Machine {name}"));
        }
        Ok(())
    }

    /// Makes another MachineSet the controller of machines, each in one write: from then on they are its machines, wait to
    /// be counted, and are updated in place.
    pub(super) async fn hand_over(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
        handover: &Handover,
    ) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        let Some(target) = self.target(set) else { return Ok(()) };
        for machine in named(machines, &handover.machines) {
            let patch = handed_over(set, &target, machine)?;
            context.writer::<Machine>().patch(machine, patch).await?;
            let name = text(machine.metadata.name.as_ref());
            let message = format!("Handed Machine {name} over to MachineSet {}", handover.to);
            context.event(set, EventType::Normal, "SuccessfulMove", message);
        }
        Ok(())
    }
}

fn is_controlled_by(machine: &Machine, uid: &str) -> bool {
    controller(&machine.metadata).is_some_and(|owner| owner.uid == uid)
}

fn handed_over(from: &MachineSet, to: &MachineSet, machine: &Machine) -> Result<Value, Incomplete> {
    let owners = machine.metadata.owner_references.iter().flatten();
    let kept = owners.filter(|owner| Some(&owner.uid) != from.metadata.uid.as_ref()).cloned();
    let owners: Vec<_> = kept.chain([controller_reference(to)?]).collect();
    let hash = to.metadata.labels.as_ref().and_then(|labels| labels.get(MACHINE_TEMPLATE_HASH_LABEL));
    let mut annotations = json!({PENDING_ACKNOWLEDGE_MOVE_ANNOTATION: ""});
    // What an external updater has updated already is only counted.
    if annotation(&from.metadata, HAND_OVER_UPDATED_MACHINES_ANNOTATION).is_none() {
        annotations[UPDATE_IN_PROGRESS_ANNOTATION] = json!("");
        // Who updates the machine is written down with the mark: it must be known after a crash.
        annotations[IN_PLACE_EXTENSIONS_ANNOTATION] =
            json!(annotation(&from.metadata, IN_PLACE_EXTENSIONS_ANNOTATION));
        for (key, value) in Effect::written_in(from.metadata.annotations.as_ref()).annotations() {
            annotations[key] = json!(value);
        }
    }
    Ok(json!({"metadata": {
        "ownerReferences": owners,
        "labels": {MACHINE_TEMPLATE_HASH_LABEL: hash},
        "annotations": annotations,
    }}))
}

pub(super) fn named<'a>(
    machines: &'a [Arc<Machine>],
    names: &'a [String],
) -> impl Iterator<Item = &'a Machine> {
    let by_name: BTreeMap<&str, &Machine> =
        machines.iter().map(|machine| (text(machine.metadata.name.as_ref()), machine.as_ref())).collect();
    names.iter().filter_map(move |name| by_name.get(name.as_str()).copied())
}

/// A name. Every object in a cache has one: what comes without is not taken in.
pub(super) fn text(value: Option<&String>) -> &str {
    value.map_or("", String::as_str)
}
