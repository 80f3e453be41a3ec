//! Asks extensions to update a machine in place.

use windlass_api::hooks::{
    Hook, HookResponse, MachineObjects, RetryResponse, UpdateMachine, UpdateMachineRequest,
    UpdateMachineResponse,
};
use windlass_engine::machine::in_place::InPlaceFailure;
use windlass_hooks::Answer;
use windlass_runtime::elsewhere;

use super::InPlaceExtensions;

impl InPlaceExtensions {
    /// Asks one extension, by the name of its ExtensionConfig, or all of them, to update a machine, or how far it is. Its
    /// handlers are called one after the other: the update is done when the last one is.
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
    ) -> Result<UpdateMachineResponse, InPlaceFailure> {
        let failed = |message: String| InPlaceFailure::Hook { message };
        let Some(hooks) = self.hooks().await else { return Err(InPlaceFailure::NoHandler) };
        let mut handlers = hooks
            .handlers(Hook::UpdateMachine, namespace)
            .await
            .map_err(|error| failed(error.to_string()))?;
        handlers
            .retain(|handler| extension.is_none_or(|extension| handler.name.extension_config() == extension));
        if handlers.is_empty() {
            return Err(InPlaceFailure::NoHandler);
        }
        let request = UpdateMachineRequest { desired, ..UpdateMachineRequest::default() };
        for handler in handlers {
            let answer = elsewhere(hooks.call_at_pace::<UpdateMachine>(&handler, request.clone())).await;
            match answer.map_err(|error| failed(error.to_string()))? {
                Answer::Ignored(failure) => {
                    return Err(failed(format!("{} was not reached: {failure}", handler.name)));
                }
                Answer::Given(response) if response.is_blocking() => return Ok(response),
                Answer::Given(_) => {}
            }
        }
        Ok(UpdateMachineResponse::success())
    }
}
