//! Updates a Machine in place: asks the extensions until they are done, then removes the marks.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::Machine;
use windlass_api::conditions::{HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED, UPDATING};
use windlass_api::hooks::MachineObjects;
use windlass_api::names::{
    IN_PLACE_EXTENSIONS_ANNOTATION, PENDING_HOOKS_ANNOTATION, REMEDIATE_MACHINE_ANNOTATION,
    UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::condition::{self, Finding};
use windlass_engine::machine::Updating;
use windlass_engine::machine::deadline::{AfterDeadline, Deadline, Time};
use windlass_engine::machine::in_place::{AfterHook, HookAnswer, InPlace, after_hook, decide};
use windlass_engine::machine_set::needs_remediation;
use windlass_reconcile::{Context, EventType, ObjectKey};

use super::observe::Seen;
use super::{MachineError, Machines};
use crate::in_place::view;

/// Field manager of what says that a Machine whose update is overdue is to be replaced.
const DEADLINE_FIELD_MANAGER: &str = "windlass-in-place-deadline";

/// What an update in place is asked for.
#[derive(Debug, Clone)]
pub struct UpdateMachine {
    /// The namespace of the Machine.
    pub namespace: String,
    /// The extension whose turn it is, by the name of its ExtensionConfig; all of them if nobody wrote down who covers
    /// the change.
    pub extension: Option<String>,
    /// What the Machine and its objects shall be.
    pub desired: MachineObjects,
}

/// Who updates machines in place.
pub trait Updater: Send + Sync + 'static {
    /// Asks for an update, or how far it is.
    fn update(&self, update: UpdateMachine) -> BoxFuture<'_, HookAnswer>;
}

/// Nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoUpdater;

impl Updater for NoUpdater {
    fn update(&self, _: UpdateMachine) -> BoxFuture<'_, HookAnswer> {
        Box::pin(std::future::ready(HookAnswer::NoHandler))
    }
}

impl Machines {
    /// Does what can be done now for an update in place, and notes in `seen` what there is to say about it.
    pub(super) async fn update_in_place(
        &self,
        context: &Context,
        machine: &Machine,
        seen: &mut Seen,
    ) -> Result<(), MachineError> {
        let key = ObjectKey::of(machine);
        match decide(&seen.observed(machine).marks()) {
            InPlace::Nothing => {
                self.forget_retry(&key);
                Ok(())
            }
            InPlace::Wait(wait) => {
                seen.updating = Some(Updating::InProgress { message: wait.to_string() });
                Ok(())
            }
            InPlace::Complete => self.complete(context, machine, seen).await,
            InPlace::Failed(failure) => {
                let message = failure.to_string();
                seen.updating = Some(Updating::Failed { message: message.clone() });
                Err(MachineError::Update(message))
            }
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
            Err(error) => {
                let message = error.to_string();
                seen.updating = Some(Updating::Failed { message: message.clone() });
                return Err(MachineError::Update(message));
            }
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
            let says = match seen.updating.take() {
                Some(Updating::InProgress { message } | Updating::Failed { message })
                    if !message.is_empty() =>
                {
                    format!("{overdue}: {message}")
                }
                _ => overdue,
            };
            seen.updating = Some(Updating::Overdue { message: says });
        }
        called
    }

    /// Calls the extension whose turn it is. Who is done is struck off before the next one is called: nobody is called
    /// after it has said that it is done, unless we stopped before that was written.
    async fn call_next(
        &self,
        context: &Context,
        machine: &Machine,
        seen: &mut Seen,
    ) -> Result<(), MachineError> {
        let (key, now) = (ObjectKey::of(machine), context.now());
        if let Some((at, message)) = self.retries().get(&key).cloned()
            && now < at
        {
            seen.update_no_later_than(at);
            seen.updating = Some(Updating::InProgress { message });
            return Ok(());
        }
        let desired = MachineObjects {
            machine: view(machine),
            infrastructure_machine: seen
                .infrastructure
                .external
                .as_ref()
                .map(|external| view(external.object.as_ref()))
                .unwrap_or_default(),
            bootstrap_config: seen.bootstrap.external.as_ref().map(|external| view(external.object.as_ref())),
        };
        let left = extensions_left(machine);
        let extension = left.first().cloned();
        let said = |message: String| match &extension {
            Some(extension) if left.len() > 1 && !message.is_empty() => format!("{extension}: {message}"),
            _ => message,
        };
        let update =
            UpdateMachine { namespace: key.namespace.clone(), extension: extension.clone(), desired };
        match after_hook(self.updater.update(update).await, now) {
            AfterHook::Complete if left.len() > 1 => {
                let rest = left[1..].join(",");
                let patch = json!({"metadata": {"annotations": {IN_PLACE_EXTENSIONS_ANNOTATION: rest}}});
                context.writer::<Machine>().patch_unconditionally(&key, patch).await?;
                self.forget_retry(&key);
                seen.updating = Some(Updating::InProgress { message: format!("{} is next", left[1]) });
                Ok(())
            }
            AfterHook::Complete => self.complete(context, machine, seen).await,
            AfterHook::Again { message, at } => {
                let message = said(message);
                self.retries().insert(key, (at, message.clone()));
                seen.update_no_later_than(at);
                seen.updating = Some(Updating::InProgress { message });
                Ok(())
            }
            AfterHook::Failed(failure) => {
                let message = failure.to_string();
                seen.updating = Some(Updating::Failed { message: message.clone() });
                Err(MachineError::Update(message))
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

    /// Removes the marks. The pending hook goes last, so that whoever stops in between is found again.
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
        let pending =
            machine.annotations().get(PENDING_HOOKS_ANNOTATION).map(String::as_str).unwrap_or_default();
        let left: Vec<&str> = pending
            .split(',')
            .map(str::trim)
            .filter(|hook| !hook.is_empty() && *hook != "UpdateMachine")
            .collect();
        let left = if left.is_empty() { Value::Null } else { left.join(",").into() };
        let patch = json!({"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: left}}});
        machines.patch_unconditionally(&key, patch).await?;
        self.forget_retry(&key);
        context.event(
            machine,
            EventType::Normal,
            "SuccessfulInPlaceUpdate",
            "the Machine was updated in place",
        );
        // What is written shows in the caches before this Machine is looked at again.
        seen.updating = Some(Updating::InProgress { message: String::new() });
        Ok(())
    }

    pub(super) fn forget_retry(&self, key: &ObjectKey) {
        self.retries().remove(key);
    }

    fn retries(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (Timestamp, String)>> {
        self.retries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The extensions that are not done yet, in their order; none if nobody wrote down who covers the change.
fn extensions_left(machine: &Machine) -> Vec<String> {
    let left =
        machine.annotations().get(IN_PLACE_EXTENSIONS_ANNOTATION).map(String::as_str).unwrap_or_default();
    left.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
}
