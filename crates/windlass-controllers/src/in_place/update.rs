//! Asks extensions to update a machine in place.

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use windlass_api::RegisteredName;
use windlass_api::hooks::{self, Hook, UpdateMachineRequest};
use windlass_engine::machine::in_place::HookAnswer;
use windlass_hooks::{Answer, HookClient};

use super::InPlaceExtensions;
use crate::machine::{UpdateMachine, Updater};

impl Updater for InPlaceExtensions {
    fn update(&self, update: UpdateMachine) -> BoxFuture<'_, HookAnswer> {
        Box::pin(async move {
            match self.hooks().await {
                None => HookAnswer::NoHandler,
                Some(hooks) => call(hooks, update).await,
            }
        })
    }
}

/// Calls the handlers of one extension, or of all of them, one after the other: the update is done when the last one is.
async fn call(hooks: &HookClient, update: UpdateMachine) -> HookAnswer {
    let failed = |message: String| HookAnswer::Failed { message };
    let handlers = match hooks.handlers(Hook::UpdateMachine, &update.namespace).await {
        Ok(handlers) => handlers,
        Err(error) => return failed(error.to_string()),
    };
    let asked = |handler: &&RegisteredName| match &update.extension {
        Some(extension) => handler.extension_config() == extension,
        None => true,
    };
    let handlers: Vec<&RegisteredName> = handlers.iter().filter(asked).collect();
    if handlers.is_empty() {
        return HookAnswer::NoHandler;
    }
    let request = UpdateMachineRequest { desired: update.desired, ..UpdateMachineRequest::default() };
    for handler in handlers {
        let called =
            hooks.call_one::<hooks::UpdateMachine>(handler.as_str(), &update.namespace, &request).await;
        match called {
            Err(error) => return failed(error.to_string()),
            // A machine that nobody has touched must not count as updated.
            Ok(Answer::Ignored(failure)) => return failed(format!("{handler} was not reached: {failure}")),
            Ok(Answer::Given(response)) if response.retry_after_seconds > 0 => {
                return HookAnswer::Retry {
                    message: response.message,
                    after: SignedDuration::from_secs(i64::from(response.retry_after_seconds)),
                };
            }
            Ok(Answer::Given(_)) => {}
        }
    }
    HookAnswer::Done
}
