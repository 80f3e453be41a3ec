//! What an extension says about its handlers, filled in and checked.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use windlass_api::HandlerName;
use windlass_api::handler_name::HandlerNameError;
use windlass_api::hooks::{ExtensionHandler, FailurePolicy, UnknownHook};
use windlass_api::runtime::{ExtensionConfig, HandlerStatus};

use crate::error::CallFailure;
use crate::registry::RegistrationError;
use crate::transport::TransportError;

const DEFAULT_TIMEOUT_SECONDS: i32 = 10;
/// How long discovery may take, and a call whose handler does not say.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(DEFAULT_TIMEOUT_SECONDS as u64);
/// How long a handler may ask callers to wait for it.
pub const MAX_TIMEOUT_SECONDS: i32 = 30;
/// How many handlers the status of an ExtensionConfig can hold.
const MAX_HANDLERS: usize = 512;

/// Fills in what handlers leave out and checks all of them. One handler that cannot be used makes all of
/// them unusable: an extension that is half there would let things pass that its other half holds.
///
/// # Errors
///
/// Everything that is wrong, in the order of the handlers.
pub fn check_handlers(
    config: &ExtensionConfig,
    handlers: &[ExtensionHandler],
) -> Result<Vec<HandlerStatus>, HandlerProblems> {
    let mut problems = Vec::new();
    let mut checked = Vec::new();
    let mut names = BTreeSet::new();
    if handlers.len() > MAX_HANDLERS {
        problems.push(HandlerProblem::TooMany(handlers.len()));
    }
    for handler in handlers {
        if !names.insert(&handler.name) {
            problems.push(HandlerProblem::Duplicate { name: handler.name.clone() });
        }
        match check_handler(config, handler) {
            Ok(status) => checked.push(status),
            Err(found) => problems.extend(found),
        }
    }
    if problems.is_empty() { Ok(checked) } else { Err(HandlerProblems(problems)) }
}

fn check_handler(
    config: &ExtensionConfig,
    handler: &ExtensionHandler,
) -> Result<HandlerStatus, Vec<HandlerProblem>> {
    let mut filled = handler.clone();
    let timeout = *filled.timeout_seconds.get_or_insert(DEFAULT_TIMEOUT_SECONDS);
    let policy = filled.failure_policy.get_or_insert(FailurePolicy::Fail).clone();

    let name = || handler.name.clone();
    let mut problems = Vec::new();
    if let Err(reason) = HandlerName::new(name()) {
        problems.push(HandlerProblem::Name(reason));
    }
    if let Err(unknown) = handler.request_hook.resolve() {
        problems.push(HandlerProblem::UnknownHook { name: name(), unknown });
    }
    if !(0..=MAX_TIMEOUT_SECONDS).contains(&timeout) {
        problems.push(HandlerProblem::Timeout { name: name(), seconds: timeout });
    }
    if let FailurePolicy::Unknown(policy) = policy {
        problems.push(HandlerProblem::UnknownPolicy { name: name(), policy });
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    config.handler_status(&filled).map_err(|reason| vec![HandlerProblem::Name(reason)])
}

/// All that is wrong with the handlers of an extension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandlerProblems(pub Vec<HandlerProblem>);

impl fmt::Display for HandlerProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for HandlerProblems {}

/// What can be wrong with a handler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerProblem {
    /// Its name, or that of its ExtensionConfig.
    #[error("{0}")]
    Name(HandlerNameError),
    /// Names are unique across all hooks of an extension.
    #[error("there is more than one handler {name:?}")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A hook, or a version of a hook, that came after this release.
    #[error("handler {name:?}: {unknown}")]
    UnknownHook {
        /// The handler.
        name: String,
        /// What it is for.
        unknown: UnknownHook,
    },
    /// Callers wait up to 30 seconds.
    #[error("handler {name:?}: timeoutSeconds must be between 0 and {MAX_TIMEOUT_SECONDS}, not {seconds}")]
    Timeout {
        /// The handler.
        name: String,
        /// What it asks for.
        seconds: i32,
    },
    /// Neither `Fail` nor `Ignore`.
    #[error("handler {name:?}: failurePolicy must be Fail or Ignore, not {policy:?}")]
    UnknownPolicy {
        /// The handler.
        name: String,
        /// What it asks for.
        policy: String,
    },
    /// More than the status of an ExtensionConfig can hold.
    #[error("there are {0} handlers, more than {MAX_HANDLERS}")]
    TooMany(usize),
}

/// Why an extension is not ready. The text is the message of its condition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiscoveryError {
    /// Discovery did not come to an answer, or to a bad one.
    #[error("discovery failed: {0}")]
    Call(#[from] CallFailure),
    /// An answer with handlers that cannot be used.
    #[error("discovery answered handlers that cannot be used: {0}")]
    Handlers(#[from] HandlerProblems),
    /// The ExtensionConfig itself.
    #[error("{0}")]
    Config(#[from] RegistrationError),
}

impl DiscoveryError {
    /// The kind of failure.
    pub fn reason(&self) -> NotReadyReason {
        match self {
            Self::Handlers(_) => NotReadyReason::InvalidHandlers,
            Self::Config(_) => NotReadyReason::Misconfigured,
            Self::Call(failure) => match failure {
                CallFailure::Url(_) | CallFailure::Encode(_) | CallFailure::RequestTooLarge(_) => {
                    NotReadyReason::Misconfigured
                }
                CallFailure::Transport(error) => match error {
                    TransportError::Misconfigured(_) | TransportError::NotRecorded { .. } => {
                        NotReadyReason::Misconfigured
                    }
                    TransportError::Tls { .. } => NotReadyReason::Untrusted,
                    TransportError::AnswerTooLarge | TransportError::Encoding(_) => NotReadyReason::Garbled,
                    TransportError::Resolve { .. }
                    | TransportError::Connect { .. }
                    | TransportError::Broken(_)
                    | TransportError::NotInProcess { .. }
                    | TransportError::Replayed(_) => NotReadyReason::Unreachable,
                },
                CallFailure::TimedOut { .. } => NotReadyReason::TimedOut,
                CallFailure::HttpStatus { .. } => NotReadyReason::HttpStatus,
                CallFailure::Undecodable(_) | CallFailure::UnknownStatus { .. } => NotReadyReason::Garbled,
                CallFailure::Failure { .. } => NotReadyReason::Failure,
                CallFailure::NegativeRetry(_) | CallFailure::Unusable { .. } => NotReadyReason::Garbled,
            },
        }
    }
}

/// Kinds of failures of discovery, for events and dashboards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum NotReadyReason {
    /// The ExtensionConfig cannot work as it is.
    Misconfigured,
    /// Nothing answers there.
    Unreachable,
    /// A server answers there that is not trusted, or does not trust us.
    Untrusted,
    /// A server is there and does not answer in time.
    TimedOut,
    /// Not 200.
    HttpStatus,
    /// An answer that makes no sense.
    Garbled,
    /// The extension itself says that it failed.
    Failure,
    /// An answer with handlers that cannot be used.
    InvalidHandlers,
}

impl NotReadyReason {
    /// The reason in CamelCase.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Misconfigured => "Misconfigured",
            Self::Unreachable => "Unreachable",
            Self::Untrusted => "Untrusted",
            Self::TimedOut => "TimedOut",
            Self::HttpStatus => "HttpStatus",
            Self::Garbled => "Garbled",
            Self::Failure => "Failure",
            Self::InvalidHandlers => "InvalidHandlers",
        }
    }
}

impl fmt::Display for NotReadyReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_api::runtime::ExtensionConfigSpec;

    use super::*;

    fn check(handlers: serde_json::Value) -> Result<Vec<HandlerStatus>, Vec<String>> {
        let config = ExtensionConfig::new("ext1", ExtensionConfigSpec::default());
        let handlers: Vec<ExtensionHandler> = serde_json::from_value(handlers).unwrap();
        check_handlers(&config, &handlers)
            .map_err(|problems| problems.0.iter().map(ToString::to_string).collect())
    }

    fn handler(name: &str) -> serde_json::Value {
        let hook =
            json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterUpgrade"});
        json!({"name": name, "requestHook": hook})
    }

    #[test]
    fn what_handlers_leave_out_is_filled_in_and_their_order_is_kept() {
        let mut zero = handler("zero");
        zero["timeoutSeconds"] = json!(0);
        let mut given = handler("given");
        given["timeoutSeconds"] = json!(30);
        given["failurePolicy"] = json!("Ignore");
        let checked = check(json!([handler("nothing"), zero, given])).unwrap();
        let seen: Vec<_> = checked
            .iter()
            .map(|h| (h.name.as_str(), h.timeout_seconds, h.failure_policy.as_ref().unwrap().as_str()))
            .collect();
        assert_eq!(
            seen,
            [
                ("nothing.ext1", Some(10), "Fail"),
                ("zero.ext1", None, "Fail"),
                ("given.ext1", Some(30), "Ignore")
            ]
        );
        assert_eq!(check(json!([])), Ok(vec![]));
    }

    #[test]
    fn all_problems_of_all_handlers_are_reported() {
        let mut wrong = handler("Wrong Name");
        wrong["timeoutSeconds"] = json!(31);
        wrong["failurePolicy"] = json!("Sometimes");
        wrong["requestHook"] = json!({"apiVersion": "nonsense", "hook": "BeforeLunch"});
        let mut negative = handler("negative");
        negative["timeoutSeconds"] = json!(-1);
        let mut newer = handler("newer");
        newer["requestHook"]["apiVersion"] = json!("hooks.runtime.cluster.x-k8s.io/v1beta1");
        let mut twin = handler("twin");
        twin["requestHook"]["hook"] = json!("UpdateMachine");
        let problems = check(json!([wrong, negative, newer, handler("twin"), twin])).unwrap_err();
        assert_eq!(
            problems,
            [
                "invalid handler name \"Wrong Name\": must consist of lower-case letters, digits and '-', not 'W'",
                "handler \"Wrong Name\": unknown hook \"BeforeLunch\" of \"nonsense\"",
                "handler \"Wrong Name\": timeoutSeconds must be between 0 and 30, not 31",
                "handler \"Wrong Name\": failurePolicy must be Fail or Ignore, not \"Sometimes\"",
                "handler \"negative\": timeoutSeconds must be between 0 and 30, not -1",
                "handler \"newer\": unknown hook \"BeforeClusterUpgrade\" of \"hooks.runtime.cluster.x-k8s.io/v1beta1\"",
                "there is more than one handler \"twin\"",
            ]
        );
    }

    #[test]
    fn more_handlers_than_a_status_can_hold_are_refused() {
        let handlers: Vec<_> = (0..513).map(|number| handler(&format!("h{number}"))).collect();
        assert_eq!(check(json!(handlers)).unwrap_err(), ["there are 513 handlers, more than 512"]);
    }
}
