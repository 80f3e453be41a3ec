//! Updates a Machine in place: asks the extensions until they are done, then removes the marks.

use std::collections::BTreeMap;

use jiff::SignedDuration;
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::Machine;
use windlass_api::conditions::{HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED, UPDATING};
use windlass_api::hooks::{Hook, MachineObjects};
use windlass_api::names::{
    EXCLUDE_NODE_DRAINING_ANNOTATION, IN_PLACE_EXTENSIONS_ANNOTATION, PENDING_HOOKS_ANNOTATION,
    REMEDIATE_MACHINE_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::condition::{self, Finding};
use windlass_engine::in_place::Effect;
use windlass_engine::machine::Updating;
use windlass_engine::machine::deadline::{AfterDeadline, Deadline, Time};
use windlass_engine::machine::deletion::Step;
use windlass_engine::machine::in_place::{InPlace, InPlaceFailure, LeftAlone, Preparation, decide};
use windlass_engine::machine_set::needs_remediation;
use windlass_engine::pending_hooks::PendingHooks;
use windlass_runtime::{Context, EventType, ObjectKey};

use super::deletion::EXCLUDE_VOLUME_DETACH_ANNOTATION;
use super::observe::Seen;
use super::{MachineError, Machines};
use crate::in_place::view;

/// Field manager of what says that a Machine whose update is overdue is to be replaced.
const DEADLINE_FIELD_MANAGER: &str = "windlass-in-place-deadline";

/// When it is tried again to uncordon a Node of a workload cluster that does not answer.
const UNCORDON_AGAIN: SignedDuration = SignedDuration::from_secs(10);

impl Machines {
    /// Does what can be done now for an update in place, and notes in `seen` what there is to say about it.
    pub(super) async fn update_in_place(
        &self,
        context: &Context,
        machine: &Machine,
        seen: &mut Seen,
    ) -> Result<(), MachineError> {
        match decide(&seen.observed(machine).marks()) {
            InPlace::Nothing => Ok(()),
            InPlace::Wait(wait) => {
                seen.updating = Some(Updating::waiting(wait.to_string()));
                Ok(())
            }
            InPlace::Complete => self.complete(context, machine, seen).await,
            InPlace::Failed(failure) => failed(seen, failure),
            InPlace::Call => self.call(context, machine, seen).await,
        }
    }

    async fn call(&self, context: &Context, machine: &Machine, seen: &mut Seen) -> Result<(), MachineError> {
        let now = context.now();
        let began = condition::find(&machine.status.conditions, UPDATING)
            .filter(|_| condition::is_true(&machine.status.conditions, UPDATING))
            .map(condition::since);
        let deadline = match Deadline::of(machine.annotations()) {
            Ok(deadline) => deadline,
            Err(error) => return failed(seen, error.into()),
        };
        let time = Deadline::time(deadline.as_ref(), began, now);
        let overdue = match time {
            Time::Unlimited => None,
            Time::Until(until) => {
                seen.update_again = Some(until);
                None
            }
            Time::Over { since, then } => {
                Some((format!("in-place update is overdue since {since}, {then}"), then))
            }
        };
        if let Some((message, then @ (AfterDeadline::Stop | AfterDeadline::Replace))) = overdue {
            if then == AfterDeadline::Replace {
                self.ask_for_remediation(context, machine, &message).await?;
            }
            seen.updating = Some(Updating::Overdue { message });
            return Ok(());
        }
        let called = self.call_next(context, machine, seen).await;
        if let Some((overdue, _)) = overdue {
            let says = seen.updating.as_ref().map(Updating::message).filter(|says| !says.is_empty());
            let message = says.map_or(overdue.clone(), |says| format!("{overdue}: {says}"));
            seen.updating = Some(Updating::Overdue { message });
        }
        called
    }

    /// Calls the extension whose turn it is. One that is done is struck off before the next one is called: none is called
    /// after it has said that it is done, unless we stopped before that was written.
    async fn call_next(
        &self,
        context: &Context,
        machine: &Machine,
        seen: &mut Seen,
    ) -> Result<(), MachineError> {
        let (key, now) = (ObjectKey::of(machine), context.now());
        if !self.prepare(context, machine, seen).await? {
            return Ok(());
        }
        let Some(infrastructure) = &seen.infrastructure.external else {
            let message = format!("waiting for {} to exist", machine.spec.infrastructure_ref);
            seen.updating = Some(Updating::InProgress { message, again: None });
            return Ok(());
        };
        let bootstrap = seen.bootstrap.external.as_ref();
        let desired = MachineObjects {
            machine: view(machine)?,
            infrastructure_machine: view(infrastructure.object.as_ref())?,
            bootstrap_config: bootstrap.map(|external| view(external.object.as_ref())).transpose()?,
        };
        let left = extensions_left(machine);
        let extension = left.first().map(String::as_str);
        let answer = self.in_place.update_machine(&key.namespace, extension, desired, now).await;
        match Updating::after(answer, now) {
            Updating::Done if left.len() > 1 => {
                let rest = left[1..].join(",");
                let patch = json!({"metadata": {"annotations": {IN_PLACE_EXTENSIONS_ANNOTATION: rest}}});
                context.writer::<Machine>().patch_unconditionally(&key, patch).await?;
                seen.updating = Some(Updating::waiting(format!("{} is next", left[1])));
                Ok(())
            }
            Updating::Done => self.complete(context, machine, seen).await,
            Updating::Failed(failure) => failed(seen, failure),
            Updating::InProgress { message, again } => {
                again.into_iter().for_each(|at| seen.update_no_later_than(at));
                seen.updating = Some(Updating::InProgress { message, again });
                Ok(())
            }
            other @ (Updating::Overdue { .. } | Updating::Preparing(_)) => {
                seen.updating = Some(other);
                Ok(())
            }
        }
    }

    /// Does what an extension asks for before it is called: true once all of it is done. What is done is written down before
    /// the extension is called, and is not done again.
    async fn prepare(
        &self,
        context: &Context,
        machine: &Machine,
        seen: &mut Seen,
    ) -> Result<bool, MachineError> {
        let has = |key: &str| machine.annotations().contains_key(key);
        let left_alone = LeftAlone {
            drain: has(EXCLUDE_NODE_DRAINING_ANNOTATION),
            volumes: has(EXCLUDE_VOLUME_DETACH_ANNOTATION),
        };
        let now = context.now();
        let Some(mut preparation) = Preparation::left(machine, left_alone, now) else { return Ok(true) };
        loop {
            let step = preparation.next(now);
            let done = preparation.done_before(step.as_ref());
            if !done.is_empty() {
                let at = now.to_string();
                let annotations: BTreeMap<&str, &str> =
                    done.into_iter().map(|key| (key, at.as_str())).collect();
                let patch = json!({"metadata": {"annotations": annotations}});
                context.writer::<Machine>().patch_unconditionally(&ObjectKey::of(machine), patch).await?;
                let message = format!("Node {} is prepared for the in-place update", preparation.node());
                context.event(machine, EventType::Normal, "PreparedForInPlaceUpdate", message.as_str());
                seen.updating = Some(Updating::waiting(message));
                return Ok(false);
            }
            match step {
                Some(Step::Drain { node }) => {
                    preparation.found().drain = Some(self.drain(context, machine, &node).await);
                }
                Some(Step::LookAtVolumes { node }) => {
                    preparation.found().volumes = Some(self.volumes(machine, &node).await);
                }
                Some(Step::Wait(on)) => {
                    seen.updating = Some(Updating::Preparing(on));
                    return Ok(false);
                }
                // The other steps are of deletions.
                Some(_) | None => return Ok(true),
            }
        }
    }

    /// Asks the owner to replace a Machine, as a health check does; the annotation is for health checks, which would take
    /// the conditions back otherwise.
    async fn ask_for_remediation(
        &self,
        context: &Context,
        machine: &Machine,
        message: &str,
    ) -> Result<(), MachineError> {
        let key = ObjectKey::of(machine);
        if !machine.annotations().contains_key(REMEDIATE_MACHINE_ANNOTATION) {
            let patch = json!({"metadata": {"annotations": {REMEDIATE_MACHINE_ANNOTATION: ""}}});
            context.writer::<Machine>().patch_unconditionally(&key, patch).await?;
            context.event(machine, EventType::Warning, "InPlaceUpdateOverdue", message);
        }
        if needs_remediation(machine) {
            return Ok(());
        }
        let mut conditions = Vec::new();
        let generation = machine.metadata.generation;
        let failed = Finding::no(HEALTH_CHECK_SUCCEEDED, "InPlaceUpdateOverdue").because(message);
        condition::set(&mut conditions, failed, generation, context.now());
        let waiting = Finding::no(OWNER_REMEDIATED, "WaitingForRemediation");
        condition::set(&mut conditions, waiting, generation, context.now());
        let intent = json!({
            "metadata": {"name": machine.name_any(), "namespace": machine.namespace(), "uid": machine.uid()},
            "status": {"conditions": conditions},
        });
        context.writer::<Machine>().apply_status(DEADLINE_FIELD_MANAGER, &intent).await?;
        Ok(())
    }

    /// Removes the marks. The pending hook goes last, so that a process that stops in between goes on with the rest.
    async fn complete(
        &self,
        context: &Context,
        machine: &Machine,
        seen: &mut Seen,
    ) -> Result<(), MachineError> {
        let key = ObjectKey::of(machine);
        let unmark = || {
            json!({"metadata": {"annotations":
                {UPDATE_IN_PROGRESS_ANNOTATION: null, IN_PLACE_EXTENSIONS_ANNOTATION: null}}})
        };
        let machines = context.writer::<Machine>();
        if machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION) {
            machines.patch_unconditionally(&key, unmark()).await?;
        }
        for external in
            seen.externals().filter(|external| external.has_annotation(UPDATE_IN_PROGRESS_ANNOTATION))
        {
            let writer = context.writer_of(&external.kind.resource);
            writer.patch_unconditionally(&ObjectKey::of(external.object.as_ref()), unmark()).await?;
        }
        let effect = Effect::written_in(machine.metadata.annotations.as_ref());
        if let Some(node) = machine.status.node_ref.as_ref().filter(|_| !effect.requirements.is_empty())
            && let Err(why) = self.uncordon(machine, &node.name).await
        {
            // The extension is done and its mark is gone: it is not called again.
            let message = format!("updated, Node {} cannot be uncordoned: {why}", node.name);
            seen.update_no_later_than(context.now() + UNCORDON_AGAIN);
            seen.updating = Some(Updating::waiting(message));
            return Ok(());
        }
        let left = PendingHooks::of(&machine.metadata).without(Hook::UpdateMachine).annotation();
        let mut patch = json!({"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: left}}});
        for key in Effect::ANNOTATIONS {
            patch["metadata"]["annotations"][key] = Value::Null;
        }
        machines.patch_unconditionally(&key, patch).await?;
        context.event(
            machine,
            EventType::Normal,
            "SuccessfulInPlaceUpdate",
            "the Machine was updated in place",
        );
        // What is written shows in the caches before this Machine is reconciled again.
        seen.updating = Some(Updating::Done);
        Ok(())
    }
}

/// Notes why the update does not go on. It is tried again, with growing pauses: those of the hook, if it is one that failed.
fn failed(seen: &mut Seen, failure: InPlaceFailure) -> Result<(), MachineError> {
    seen.updating = Some(Updating::Failed(failure.clone()));
    match failure.again() {
        Some(at) => {
            seen.update_no_later_than(at);
            Ok(())
        }
        None => Err(MachineError::Update(failure)),
    }
}

/// The extensions that are not done yet, in their order; none if the Machine does not say which cover the change.
fn extensions_left(machine: &Machine) -> Vec<String> {
    let left =
        machine.annotations().get(IN_PLACE_EXTENSIONS_ANNOTATION).map(String::as_str).unwrap_or_default();
    left.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
