//! Asks extensions to update a machine in place.

use jiff::Timestamp;
use windlass_api::hooks::{Hook, MachineObjects, UpdateMachine, UpdateMachineRequest};
use windlass_engine::machine::in_place::InPlaceFailure;
use windlass_engine::waiting::HeldByHook;
use windlass_hooks::CallError;
use windlass_runtime::elsewhere;

use super::{InPlaceExtensions, of_engine};

impl InPlaceExtensions {
    /// Asks one extension, by the name of its ExtensionConfig, or all of them, to update a machine, or how far it is. Its
    /// handlers are called one after the other: the update is done when the last one is, and then nothing is the answer. A
    /// handler that asks to wait is not called before its time, unless it or what it is asked has changed.
    ///
    /// # Errors
    ///
    /// There is no handler, or one of them failed or was not reached: a machine that no extension has touched must not count
    /// as updated.
    pub(crate) async fn update_machine(
        &self,
        namespace: &str,
        extension: Option<&str>,
        desired: MachineObjects,
        now: Timestamp,
    ) -> Result<Option<HeldByHook>, InPlaceFailure> {
        let failed = |error: CallError| InPlaceFailure::Hook {
            message: error.to_string(),
            again: error.retry().and_then(|retry| now.checked_add(retry.left).ok()),
        };
        let Some(hooks) = self.hooks().await else { return Err(InPlaceFailure::NoHandler) };
        let mut handlers = hooks.handlers(Hook::UpdateMachine, namespace).await.map_err(failed)?;
        handlers
            .retain(|handler| extension.is_none_or(|extension| handler.name.extension_config() == extension));
        if handlers.is_empty() {
            return Err(InPlaceFailure::NoHandler);
        }
        let request = UpdateMachineRequest { desired, ..UpdateMachineRequest::default() };
        for handler in handlers {
            let answer = elsewhere(hooks.wait_at_pace::<UpdateMachine>(&handler, request.clone())).await;
            if let Some(waiting) = answer.map_err(failed)? {
                return Ok(Some(HeldByHook {
                    hook: Hook::UpdateMachine,
                    from: None,
                    to: None,
                    handlers: waiting.handlers,
                    message: waiting.message,
                    retry: of_engine(waiting.retry),
                    asked_seconds: waiting.asked_seconds,
                }));
            }
        }
        Ok(None)
    }
}
