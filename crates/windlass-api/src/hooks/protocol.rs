//! What every hook has in common, as traits: a client or a server is written once for all of them.

use std::collections::BTreeMap;
use std::fmt::Debug;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Hook;
use crate::kind::choice;

/// Settings of an extension. Ordered, because caches and logs are keyed by them.
pub type Settings = BTreeMap<String, String>;

/// A hook at the level of types: ties together what is sent and what is answered.
pub trait HookType: Copy + Debug + Default + Send + Sync + 'static {
    /// Which hook it is.
    const HOOK: Hook;
    /// What the caller sends.
    type Request: HookRequest<HookType = Self>;
    /// What the extension answers.
    type Response: HookResponse<HookType = Self>;
}

/// The request of a hook. Its `Default` has `kind` and `apiVersion` filled in.
pub trait HookRequest:
    Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The hook that the request belongs to.
    type HookType: HookType<Request = Self>;

    /// Settings in the request. `None` for discovery, which has nowhere to put them.
    fn settings(&self) -> Option<&Settings>;

    /// Settings in the request, to be changed.
    fn settings_mut(&mut self) -> Option<&mut Settings>;

    /// Puts the settings of an ExtensionConfig under those of the request: on a key that both have, the
    /// request wins. Does nothing for discovery.
    #[must_use]
    fn with_default_settings(mut self, defaults: &Settings) -> Self {
        if let Some(settings) = self.settings_mut() {
            for (key, value) in defaults {
                settings.entry(key.clone()).or_insert_with(|| value.clone());
            }
        }
        self
    }
}

/// The response of a hook.
///
/// `Default` is the response of an extension that said nothing. It has no status, so every client refuses
/// it; [`success`](Self::success) and [`failure`](Self::failure) make responses that mean something.
pub trait HookResponse:
    Clone + Debug + Default + PartialEq + Serialize + DeserializeOwned + Send + Sync + 'static
{
    /// The hook that the response belongs to.
    type HookType: HookType<Response = Self>;

    /// A response with this status and message, `kind` and `apiVersion` filled in, and nothing else.
    fn new(status: ResponseStatus, message: String) -> Self;

    /// Whether the extension could do what it was asked. May be a value outside the contract.
    fn status(&self) -> &ResponseStatus;

    /// What the extension has to say; empty if nothing.
    fn message(&self) -> &str;

    /// Replaces the message.
    fn set_message(&mut self, message: String);

    /// How long the caller is asked to wait. `None` if responses of this hook cannot ask for that. Not
    /// checked: an extension can send a negative number.
    fn retry_after_seconds(&self) -> Option<i32>;

    /// Sets how long the caller is asked to wait. Does nothing if responses of this hook cannot ask for that.
    fn set_retry_after_seconds(&mut self, seconds: i32);

    /// The extension did what it was asked, and the caller may go on.
    fn success() -> Self {
        Self::new(ResponseStatus::Success, String::new())
    }

    /// The extension could not do what it was asked. The caller reports the message and tries again later;
    /// no failure policy hides this. The message must be the same every time the same thing goes wrong.
    fn failure(message: impl Into<String>) -> Self {
        Self::new(ResponseStatus::Failure, message.into())
    }
}

/// A response that can make the caller wait.
pub trait RetryResponse: HookResponse {
    /// Not yet: the caller waits and asks again after about this many seconds. The message says what the
    /// extension waits for. 0 seconds would let the caller go on, so the least is 1.
    fn blocking(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut response = Self::new(ResponseStatus::Success, message.into());
        response.set_retry_after_seconds(i32::try_from(retry_after_seconds.max(1)).unwrap_or(i32::MAX));
        response
    }

    /// Whether a successful response makes the caller wait.
    fn is_blocking(&self) -> bool {
        *self.status() == ResponseStatus::Success
            && self.retry_after_seconds().is_some_and(|seconds| seconds > 0)
    }
}

choice! {
    /// Whether an extension could do what it was asked.
    pub enum ResponseStatus {
        /// It could. With a retry time: it is still at it.
        Success = "Success",
        /// It could not. Always an error for the caller.
        Failure = "Failure",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hooks::*;

    /// Checks what must hold for the types of every hook.
    fn check<H: HookType>() -> Hook {
        let hook = H::HOOK;
        assert_eq!(hook.is_singleton(), H::Request::default().settings().is_none(), "{hook}");
        let request = serde_json::to_value(H::Request::default()).unwrap();
        assert_eq!(request["kind"], hook.request_kind());
        assert_eq!(request["apiVersion"], "hooks.runtime.cluster.x-k8s.io/v1alpha1");

        let failure = H::Response::failure("no");
        assert_eq!(failure.status(), &ResponseStatus::Failure);
        assert_eq!(failure.retry_after_seconds(), hook.may_block().then_some(0), "{hook}");
        let response = serde_json::to_value(&failure).unwrap();
        assert_eq!(response["kind"], hook.response_kind());
        assert_eq!(response["apiVersion"], "hooks.runtime.cluster.x-k8s.io/v1alpha1");
        assert_eq!(response["message"], "no");
        assert_eq!(response.get("retryAfterSeconds").is_some(), hook.may_block(), "{hook}");
        assert_eq!(serde_json::from_value::<H::Response>(response).unwrap(), failure);

        let silent: H::Response = serde_json::from_str("{}").unwrap();
        assert_eq!(silent, H::Response::default());
        assert_eq!(silent.status().as_str(), "");
        assert_eq!(serde_json::to_value(silent).unwrap().get("kind"), None);
        hook
    }

    #[test]
    fn every_hook_has_types_that_fit_it() {
        let checked = [
            check::<Discovery>(),
            check::<BeforeClusterCreate>(),
            check::<AfterControlPlaneInitialized>(),
            check::<BeforeClusterUpgrade>(),
            check::<BeforeControlPlaneUpgrade>(),
            check::<AfterControlPlaneUpgrade>(),
            check::<BeforeWorkersUpgrade>(),
            check::<AfterWorkersUpgrade>(),
            check::<AfterClusterUpgrade>(),
            check::<BeforeClusterDelete>(),
            check::<GeneratePatches>(),
            check::<ValidateTopology>(),
            check::<DiscoverVariables>(),
            check::<GenerateUpgradePlan>(),
            check::<CanUpdateMachine>(),
            check::<CanUpdateMachineSet>(),
            check::<UpdateMachine>(),
            check::<ExternalUpdate>(),
        ];
        assert_eq!(checked, Hook::ALL);
    }
}
