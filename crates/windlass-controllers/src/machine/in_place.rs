//! Updates a Machine in place: asks the extensions until they are done, then removes the marks.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use futures_util::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::Object;
use windlass_api::cluster::Machine;
use windlass_api::hooks::{self, Hook, MachineObjects, UpdateMachineRequest};
use windlass_api::names::{PENDING_HOOKS_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION};
use windlass_engine::machine::Updating;
use windlass_engine::machine::in_place::{AfterHook, HookAnswer, InPlace, after_hook, decide};
use windlass_hooks::HookClient;
use windlass_reconcile::{Context, EventType, ObjectKey};

use super::observe::Seen;
use super::{MachineError, Machines};
use crate::external::External;

/// What an update in place is asked for.
#[derive(Debug, Clone)]
pub struct UpdateMachine {
    /// The namespace of the Machine.
    pub namespace: String,
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

/// The extensions that are registered. All of them are asked; the update is done when all of them are.
impl Updater for HookClient {
    fn update(&self, update: UpdateMachine) -> BoxFuture<'_, HookAnswer> {
        Box::pin(async move {
            let failed = |message: String| HookAnswer::Failed { message };
            match self.handlers(Hook::UpdateMachine, &update.namespace).await {
                Ok(handlers) if handlers.is_empty() => return HookAnswer::NoHandler,
                Ok(_) => {}
                Err(error) => return failed(error.to_string()),
            }
            let request = UpdateMachineRequest { desired: update.desired, ..UpdateMachineRequest::default() };
            let answers = match self.call_all::<hooks::UpdateMachine>(&update.namespace, &request).await {
                Ok(answers) => answers,
                Err(error) => return failed(error.to_string()),
            };
            // A machine that nobody has touched must not count as updated.
            if let Some((handler, failure)) = answers.ignored().next() {
                return failed(format!("{handler} was not reached: {failure}"));
            }
            match answers.wait() {
                None => HookAnswer::Done,
                Some(wait) => HookAnswer::Retry {
                    message: wait.message,
                    after: SignedDuration::from_secs(i64::from(wait.retry_after_seconds)),
                },
            }
        })
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
        let (key, now) = (ObjectKey::of(machine), context.now());
        if let Some((at, message)) = self.retries().get(&key).cloned()
            && now < at
        {
            seen.update_again = Some(at);
            seen.updating = Some(Updating::InProgress { message });
            return Ok(());
        }
        let desired = MachineObjects {
            machine: view(serde_json::to_value(machine).unwrap_or_default()),
            infrastructure_machine: seen
                .infrastructure
                .external
                .as_ref()
                .map(view_external)
                .unwrap_or_default(),
            bootstrap_config: seen.bootstrap.external.as_ref().map(view_external),
        };
        let update = UpdateMachine { namespace: key.namespace.clone(), desired };
        match after_hook(self.updater.update(update).await, now) {
            AfterHook::Complete => self.complete(context, machine, seen).await,
            AfterHook::Again { message, at } => {
                self.retries().insert(key, (at, message.clone()));
                seen.update_again = Some(at);
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

    /// Removes the marks. The pending hook goes last, so that whoever stops in between is found again.
    async fn complete(
        &self,
        context: &Context,
        machine: &Machine,
        seen: &mut Seen,
    ) -> Result<(), MachineError> {
        let key = ObjectKey::of(machine);
        let unmark = || json!({"metadata": {"annotations": {UPDATE_IN_PROGRESS_ANNOTATION: null}}});
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

fn view(value: Value) -> Object {
    Object::try_from(value).map(|object| object.in_place_view()).unwrap_or_default()
}

fn view_external(external: &External) -> Object {
    view(serde_json::to_value(external.object.as_ref()).unwrap_or_default())
}
