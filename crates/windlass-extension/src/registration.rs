//! Registering handlers, and everything that can be wrong with them.
//!
//! Servers written in Go accept all of it and let discovery fail on the other side, where the author of the
//! extension does not see it. Here it is an error before the server starts.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::sync::Arc;

use windlass_api::dns_label::{LabelError, check_rfc1123_label};
use windlass_api::handler_name::{HandlerName, HandlerNameError};
use windlass_api::hooks::{
    Discovery, DiscoveryResponse, ExtensionHandler, FailurePolicy, Hook, HookResponse, HookType,
};

use crate::extension::{Extension, Route};
use crate::handler::{Answer, Context, Handle, Typed};

/// Longest time that a caller waits for a handler; Cluster API refuses the extension beyond it.
pub const MAX_TIMEOUT_SECONDS: u32 = 30;
/// The time that a caller waits for a handler that does not say.
pub const DEFAULT_TIMEOUT_SECONDS: u32 = 10;
/// The status of an ExtensionConfig holds no more handlers than this.
pub const MAX_HANDLERS: usize = 512;

/// Name and options of a handler. A text is a name with default options.
#[derive(Clone, Debug, PartialEq)]
pub struct Handler {
    name: String,
    timeout_seconds: Option<u32>,
    failure_policy: Option<FailurePolicy>,
}

impl Handler {
    /// A handler with default options.
    pub fn named(name: impl Into<String>) -> Self {
        Self { name: name.into(), timeout_seconds: None, failure_policy: None }
    }

    /// How long a caller waits, and how long the function may take. At most 30; 0 means 10, as absence does.
    #[must_use]
    pub fn timeout_seconds(mut self, seconds: u32) -> Self {
        self.timeout_seconds = Some(seconds);
        self
    }

    /// What a caller does when the call does not get through.
    ///
    /// `Ignore` makes a caller go on as if the handler had agreed, so it is wrong for handlers that block or
    /// answer data. It never covers a response that says failure, and that is also how this crate answers
    /// for a function that panics or takes too long.
    #[must_use]
    pub fn failure_policy(mut self, policy: FailurePolicy) -> Self {
        self.failure_policy = Some(policy);
        self
    }
}

impl<T: Into<String>> From<T> for Handler {
    fn from(name: T) -> Self {
        Self::named(name)
    }
}

/// An extension in the making. Errors are collected, so that [`build`](Self::build) tells all of them.
pub struct ExtensionBuilder {
    name: String,
    base_path: String,
    handlers: Vec<Registered>,
    errors: Vec<RegistrationError>,
}

struct Registered {
    name: HandlerName,
    hook: Hook,
    timeout_seconds: Option<u32>,
    failure_policy: Option<FailurePolicy>,
    handle: Box<dyn Handle>,
}

impl ExtensionBuilder {
    pub(crate) fn new(name: String) -> Self {
        let errors = match check_rfc1123_label(&name) {
            Ok(()) => Vec::new(),
            Err(reason) => vec![RegistrationError::ExtensionName { name: name.clone(), reason }],
        };
        Self { name, base_path: String::new(), handlers: Vec::new(), errors }
    }

    /// Registers a function for a hook.
    ///
    /// The function is called once for every request, also for several at once, and again for requests that
    /// it has answered before: callers repeat themselves. It is dropped at its next `await` when the caller
    /// goes away or the deadline passes; work that must not stop there belongs into a task of its own.
    #[must_use]
    pub fn on<H, F, Fut>(mut self, hook: H, handler: impl Into<Handler>, function: F) -> Self
    where
        H: HookType,
        F: Fn(Context, H::Request) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: Answer<H::Response>> + Send + 'static,
    {
        let _: H = hook;
        match self.check(H::HOOK, handler.into()) {
            Ok((name, options)) => self.handlers.push(Registered {
                name,
                hook: H::HOOK,
                timeout_seconds: options.timeout_seconds,
                failure_policy: options.failure_policy,
                handle: Box::new(Typed::<H, F>::new(function)),
            }),
            Err(error) => self.errors.push(error),
        }
        self
    }

    /// Serves everything below a path, as in `clientConfig.url` or `clientConfig.service.path`. For a
    /// server behind something that does not strip the path.
    #[must_use]
    pub fn base_path(mut self, path: impl Into<String>) -> Self {
        let path = path.into();
        match check_base_path(&path) {
            Ok(()) => self.base_path = path.trim_end_matches('/').to_owned(),
            Err(reason) => self.errors.push(RegistrationError::BasePath { path, reason }),
        }
        self
    }

    /// The extension, with discovery of everything registered, in the order of registration.
    ///
    /// # Errors
    ///
    /// Everything that is wrong with names and options.
    pub fn build(mut self) -> Result<Extension, RegistrationErrors> {
        if self.handlers.len() > MAX_HANDLERS {
            self.errors.push(RegistrationError::TooManyHandlers { count: self.handlers.len() });
        }
        if !self.errors.is_empty() {
            return Err(RegistrationErrors(self.errors));
        }
        let announced = self.handlers.iter().map(Registered::announcement).collect();
        let discovery = DiscoveryResponse { handlers: announced, ..DiscoveryResponse::success() };
        let handlers = discovery.handlers.clone();
        let discover = move |_, _| std::future::ready(discovery.clone());

        let mut routes = BTreeMap::new();
        routes.insert(
            format!("{}{}", self.base_path, Hook::Discovery.base_path()),
            Route {
                hook: Hook::Discovery,
                handler: Hook::Discovery.path_segment().to_owned(),
                timeout_seconds: DEFAULT_TIMEOUT_SECONDS,
                handle: Box::new(Typed::<Discovery, _>::new(discover)),
            },
        );
        for Registered { name, hook, timeout_seconds, handle, .. } in self.handlers {
            let path = format!("{}{}", self.base_path, hook.path(&name));
            let timeout_seconds =
                timeout_seconds.filter(|&seconds| seconds != 0).unwrap_or(DEFAULT_TIMEOUT_SECONDS);
            routes.insert(path, Route { hook, handler: name.as_str().to_owned(), timeout_seconds, handle });
        }
        Ok(Extension::from_parts(self.name, self.base_path, handlers, Arc::new(routes)))
    }

    fn check(&self, hook: Hook, handler: Handler) -> Result<(HandlerName, Handler), RegistrationError> {
        if hook.is_singleton() {
            return Err(RegistrationError::Discovery { handler: handler.name });
        }
        let name = HandlerName::new(handler.name.as_str())
            .map_err(|source| RegistrationError::HandlerName { hook, source })?;
        if let Some(other) = self.handlers.iter().find(|other| other.name == name) {
            return Err(RegistrationError::DuplicateName { handler: handler.name, first: other.hook, hook });
        }
        if let Some(seconds) = handler.timeout_seconds.filter(|&seconds| seconds > MAX_TIMEOUT_SECONDS) {
            return Err(RegistrationError::Timeout { handler: handler.name, seconds });
        }
        if let Some(FailurePolicy::Unknown(policy)) = handler.failure_policy {
            return Err(RegistrationError::FailurePolicy { handler: handler.name, policy });
        }
        Ok((name, handler))
    }
}

impl fmt::Debug for ExtensionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let handlers: Vec<&str> = self.handlers.iter().map(|handler| handler.name.as_str()).collect();
        f.debug_struct("ExtensionBuilder")
            .field("name", &self.name)
            .field("base_path", &self.base_path)
            .field("handlers", &handlers)
            .field("errors", &self.errors)
            .finish()
    }
}

impl Registered {
    fn announcement(&self) -> ExtensionHandler {
        ExtensionHandler {
            timeout_seconds: self.timeout_seconds.and_then(|seconds| i32::try_from(seconds).ok()),
            failure_policy: self.failure_policy.clone(),
            ..ExtensionHandler::new(&self.name, self.hook)
        }
    }
}

/// Callers clean the path they call, so a base path that cleaning would change could never be reached.
fn check_base_path(path: &str) -> Result<(), &'static str> {
    if !path.starts_with('/') {
        return Err("must start with a slash");
    }
    let segments = path.trim_end_matches('/').split('/').skip(1);
    for segment in segments {
        if matches!(segment, "" | "." | "..") {
            return Err("must not have empty, '.' or '..' segments");
        }
        let unreserved = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~');
        if !segment.chars().all(unreserved) {
            return Err("must consist of letters, digits, '-', '.', '_' and '~'");
        }
    }
    Ok(())
}

/// Everything that is wrong with an extension; never empty.
#[derive(Debug, PartialEq)]
pub struct RegistrationErrors(pub Vec<RegistrationError>);

impl fmt::Display for RegistrationErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for RegistrationErrors {}

/// What is wrong with a handler or with the extension.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RegistrationError {
    /// The name of the extension cannot be that of an ExtensionConfig.
    #[error("invalid extension name {name:?}: {reason}")]
    ExtensionName {
        /// The name.
        name: String,
        /// Which rule it breaks.
        reason: LabelError,
    },
    /// The name of a handler is no RFC 1123 label.
    #[error("cannot register a handler of {hook}: {source}")]
    HandlerName {
        /// The hook.
        hook: Hook,
        /// What is wrong with the name.
        source: HandlerNameError,
    },
    /// Two handlers have one name. Names are unique in the extension, not only in the hook.
    #[error("handler {handler} of {hook} has the name of a handler of {first}")]
    DuplicateName {
        /// The name.
        handler: String,
        /// The hook it was registered for first.
        first: Hook,
        /// The hook it was registered for again.
        hook: Hook,
    },
    /// A timeout that Cluster API refuses.
    #[error("handler {handler} has a timeout of {seconds} seconds, more than {MAX_TIMEOUT_SECONDS}")]
    Timeout {
        /// The handler.
        handler: String,
        /// Its timeout.
        seconds: u32,
    },
    /// A failure policy that does not exist.
    #[error("handler {handler} has the unknown failure policy {policy:?}")]
    FailurePolicy {
        /// The handler.
        handler: String,
        /// Its failure policy.
        policy: String,
    },
    /// Discovery answers for what is registered and cannot be registered itself.
    #[error("handler {handler} cannot be registered for Discovery, which every extension has already")]
    Discovery {
        /// The name that was given.
        handler: String,
    },
    /// A base path that no caller can reach.
    #[error("invalid base path {path:?}: {reason}")]
    BasePath {
        /// The path.
        path: String,
        /// Which rule it breaks.
        reason: &'static str,
    },
    /// More handlers than the status of an ExtensionConfig holds.
    #[error("{count} handlers are more than {MAX_HANDLERS}")]
    TooManyHandlers {
        /// How many there are.
        count: usize,
    },
}
