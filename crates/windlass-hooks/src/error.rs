//! Why a call failed.
//!
//! Texts go into conditions of Clusters, Machines and ExtensionConfigs. The same failure has the same text,
//! or conditions would never come to rest; and no text is longer than a condition can hold.

use std::time::Duration;

use windlass_api::RegisteredName;
use windlass_api::hooks::Hook;

use crate::cache::Retry;
use crate::transport::{MAX_BODY_BYTES, TransportError};
use crate::url::UrlError;

/// How much of an answer that is no answer is quoted. The number is upstream's.
const MAX_QUOTED_BYTES: usize = 512;
/// How much of an extension's own message is passed on. Ten of them still fit into a condition.
const MAX_MESSAGE_BYTES: usize = 3_000;

/// Why a hook could not be called, or what its handler answered instead of success.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The process has just started and does not know yet which handlers there are. Calling none now
    /// would let something pass that a handler wants to hold.
    #[error("hook {:?}: extensions have not been discovered yet", .hook.group_hook())]
    NotWarm {
        /// The hook.
        hook: Hook,
    },
    /// No extension has such a handler.
    #[error("handler {name:?} is not registered")]
    UnknownHandler {
        /// Name that was asked for.
        name: String,
    },
    /// There is such a handler, but for something else.
    #[error("handler {:?} is for hook {registered}, not for {called}", .handler.as_str())]
    WrongHook {
        /// The handler.
        handler: RegisteredName,
        /// What it is for.
        registered: Hook,
        /// What was asked for.
        called: Hook,
    },
    /// It is unknown whether the handler is for the namespace. Not the same as "no".
    #[error("cannot look up the labels of namespace {namespace:?}: {reason}")]
    NamespaceLookup {
        /// The namespace.
        namespace: String,
        /// What the lookup said.
        reason: String,
    },
    /// A handler that was asked for by name is not for the namespace.
    #[error("the namespace selector of handler {:?} does not match namespace {namespace:?}", .handler.as_str())]
    OutOfNamespace {
        /// The handler.
        handler: RegisteredName,
        /// The namespace.
        namespace: String,
    },
    /// The handler was called, or nearly.
    #[error("hook {:?}: handler {:?}: {failure}", .hook.group_hook(), .handler.as_str())]
    Failed {
        /// The hook.
        hook: Hook,
        /// The handler.
        handler: RegisteredName,
        /// What went wrong.
        failure: CallFailure,
    },
    /// It failed, and is tried again at a time that is known.
    #[error("{error}; tried again {retry}")]
    Delayed {
        /// Why it failed.
        error: Box<CallError>,
        /// When it is tried again.
        retry: Retry,
    },
}

impl CallError {
    /// When the call is tried again, if it waits for that.
    pub fn retry(&self) -> Option<Retry> {
        match self {
            Self::Delayed { retry, .. } => Some(*retry),
            _ => None,
        }
    }
}

/// What can go wrong with one call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallFailure {
    /// Not an address to call.
    #[error("{0}")]
    Url(#[from] UrlError),
    /// The request could not be written as JSON.
    #[error("the request cannot be written as JSON: {0}")]
    Encode(String),
    /// The request is larger than any extension takes.
    #[error("the request has {0} bytes, more than {MAX_BODY_BYTES}")]
    RequestTooLarge(usize),
    /// No answer.
    #[error("{0}")]
    Transport(#[from] TransportError),
    /// No answer in time.
    #[error("no answer within {} s", .timeout.as_secs_f64())]
    TimedOut {
        /// How long the caller waited.
        timeout: Duration,
    },
    /// An answer, but not 200.
    #[error("HTTP status {code}: {quoted:?}")]
    HttpStatus {
        /// The status.
        code: u16,
        /// The beginning of the answer.
        quoted: String,
    },
    /// An answer that is not of the contract.
    #[error("the answer cannot be decoded: {0}")]
    Undecodable(String),
    /// The handler says that it could not do it.
    #[error("answered Failure{}", after_colon(.message))]
    Failure {
        /// What it says.
        message: String,
    },
    /// The handler says neither that it could nor that it could not.
    #[error("answered unknown status {status:?}{}", after_colon(.message))]
    UnknownStatus {
        /// What it sent as status.
        status: String,
        /// What it says.
        message: String,
    },
    /// The handler answered with success, and with something that must not be followed.
    #[error("answered {what} that cannot be used: {reason}")]
    Unusable {
        /// What it answered, with its article.
        what: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The handler asks to be called again in the past.
    #[error("answered retryAfterSeconds {0}, which is negative")]
    NegativeRetry(i32),
}

impl CallFailure {
    /// Whether `failurePolicy: Ignore` covers it: the call did not get through, or what came back was no
    /// answer. Never what a handler answered, and never our own mistakes.
    pub fn is_ignorable(&self) -> bool {
        match self {
            Self::Transport(error) => !error.is_misconfiguration(),
            Self::TimedOut { .. } | Self::HttpStatus { .. } | Self::Undecodable(_) => true,
            Self::Url(_)
            | Self::Encode(_)
            | Self::RequestTooLarge(_)
            | Self::Failure { .. }
            | Self::UnknownStatus { .. }
            | Self::Unusable { .. }
            | Self::NegativeRetry(_) => false,
        }
    }

    pub(crate) fn http_status(code: u16, body: &[u8]) -> Self {
        // A character may be cut in half at the end; what is left of it must not grow into three bytes.
        let head = &body[..body.len().min(MAX_QUOTED_BYTES)];
        let mut quoted = clip(&String::from_utf8_lossy(head), MAX_QUOTED_BYTES);
        if body.len() > MAX_QUOTED_BYTES && !quoted.ends_with("...") {
            quoted.push_str("...");
        }
        Self::HttpStatus { code, quoted }
    }
}

fn after_colon(message: &str) -> String {
    if message.is_empty() { String::new() } else { format!(": {message}") }
}

/// A message of an extension, short enough to be passed on.
pub(crate) fn clip_message(message: &str) -> String {
    clip(message, MAX_MESSAGE_BYTES)
}

/// At most so many bytes of a text, with dots if there was more.
fn clip(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(max);
    format!("{}...", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answers_are_quoted_in_part() {
        let quoted = |body: &[u8]| match CallFailure::http_status(500, body) {
            CallFailure::HttpStatus { quoted, .. } => quoted,
            other => panic!("{other}"),
        };
        assert_eq!(quoted(b"broken"), "broken");
        assert_eq!(quoted(&[b'x'; 512]), "x".repeat(512));
        assert_eq!(quoted(&[b'x'; 513]), format!("{}...", "x".repeat(512)));
        let cut = quoted("é".repeat(300).as_bytes());
        assert_eq!(cut, format!("{}...", "é".repeat(256)));
        let garbage = quoted(&[0xff; 600]);
        assert!(garbage.len() <= 515, "{}", garbage.len());
    }

    #[test]
    fn texts_name_hook_and_handler_and_quote_what_came() {
        let failed = |failure| {
            CallError::Failed {
                hook: Hook::BeforeClusterUpgrade,
                handler: "gate.ext1".parse().unwrap(),
                failure,
            }
            .to_string()
        };
        let prefix = "hook \"BeforeClusterUpgrade.hooks.runtime.cluster.x-k8s.io\": handler \"gate.ext1\": ";
        for (failure, text) in [
            (CallFailure::Failure { message: "quota exceeded".into() }, "answered Failure: quota exceeded"),
            (CallFailure::TimedOut { timeout: Duration::from_secs(10) }, "no answer within 10 s"),
            (CallFailure::http_status(500, b"a\nb"), "HTTP status 500: \"a\\nb\""),
            (
                CallFailure::UnknownStatus { status: "ok".into(), message: "fine".into() },
                "answered unknown status \"ok\": fine",
            ),
            (CallFailure::NegativeRetry(-1), "answered retryAfterSeconds -1, which is negative"),
        ] {
            assert_eq!(failed(failure), format!("{prefix}{text}"));
        }
    }

    #[test]
    fn messages_fit_into_conditions() {
        assert_eq!(clip_message("short"), "short");
        assert_eq!(clip_message(&"x".repeat(1 << 20)).len(), MAX_MESSAGE_BYTES + 3);
    }
}
