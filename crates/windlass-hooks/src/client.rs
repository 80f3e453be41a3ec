//! Calls of handlers.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tracing::Instrument;
use windlass_api::hooks::{FailurePolicy, Hook, HookRequest, HookType};

use crate::answer::{Answer, Answers, HandlerAnswer};
use crate::cache::{Pace, Question, Waiting};
use crate::cached_calls::ResponseCaches;
use crate::call::{Caller, Target};
use crate::discovery::DEFAULT_TIMEOUT;
use crate::error::CallError;
use crate::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::namespaces::{Labels, NamespaceLabels};
use crate::registry::{Registration, Registry};
use crate::transport::BoxTransport;

/// Calls the handlers of registered extensions. Clones share everything.
#[derive(Clone)]
pub struct HookClient(pub(crate) Arc<Shared>);

pub(crate) struct Shared {
    pub(crate) caller: Caller,
    pub(crate) registry: Registry,
    pub(crate) discovery_timeout: Duration,
    pub(crate) responses: ResponseCaches,
    namespaces: Arc<dyn NamespaceLabels>,
    pace: Pace,
    in_flight: InFlight,
}

impl HookClient {
    /// A client over a transport. No extension is registered yet.
    pub fn builder(transport: BoxTransport) -> HookClientBuilder {
        HookClientBuilder {
            transport,
            namespaces: Arc::new(BTreeMap::new()),
            metrics: Metrics::new(),
            registry: Registry::new(),
            discovery_timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Which handlers there are.
    pub fn registry(&self) -> &Registry {
        &self.0.registry
    }

    /// What was called, and what came of it.
    pub fn metrics(&self) -> &Metrics {
        &self.0.caller.metrics
    }

    /// The handlers of a hook that are for a namespace, in the order in which they are called.
    ///
    /// # Errors
    ///
    /// When that is not known yet, or a selector needs labels that cannot be looked up.
    pub async fn handlers(&self, hook: Hook, namespace: &str) -> Result<Vec<Arc<Registration>>, CallError> {
        self.check_warm(hook)?;
        let mut labels = None;
        let mut matching = Vec::new();
        for handler in self.0.registry.handlers(hook) {
            if self.is_for(&handler, namespace, &mut labels).await? {
                matching.push(handler);
            }
        }
        Ok(matching)
    }

    /// Calls every handler of a hook that is for a namespace, one after the other. If there is none, that is
    /// a success.
    ///
    /// # Errors
    ///
    /// The first failure that is not ignored. Handlers after it are not called.
    pub async fn call_all<H: HookType>(
        &self,
        namespace: &str,
        request: &H::Request,
    ) -> Result<Answers<H::Response>, CallError> {
        let mut answers = Vec::new();
        for handler in self.handlers(H::HOOK, namespace).await? {
            let answer = self.call::<H>(&handler, request.clone()).await?;
            answers.push(HandlerAnswer::of(handler.name.clone(), &answer));
        }
        Ok(Answers::collect(answers))
    }

    /// As [`call_all`](Self::call_all), but at a pace: while a wait that handlers asked for is not over, no handler is
    /// called and the rest of the wait is the answer; and after a failure, no handler is called before the time of the
    /// next try. The namespace is that of the object in the question.
    ///
    /// # Errors
    ///
    /// As [`call_all`](Self::call_all), with the time of the next try ([`CallError::retry`]).
    pub async fn call_all_at_pace<H: HookType>(
        &self,
        question: &Question,
        request: &H::Request,
    ) -> Result<Answers<H::Response>, CallError> {
        let handlers = self.0.registry.handler_set(H::HOOK);
        if let Some(waiting) = self.0.pace.early(question, &handlers)? {
            return Ok(Answers::still_waiting(waiting));
        }
        let answers = match self.call_all::<H>(&question.object().namespace, request).await {
            Ok(answers) => answers,
            Err(error) => return Err(self.0.pace.failed(question, handlers, error)),
        };
        self.0.pace.answered(question, handlers, answers.wait());
        Ok(answers)
    }

    /// Asks something, but after a failure not before the time of the next try.
    ///
    /// # Errors
    ///
    /// What went wrong, now or at the last try, with the time of the next ([`CallError::retry`]).
    pub async fn at_pace<T>(
        &self,
        question: &Question,
        ask: impl Future<Output = Result<T, CallError>>,
    ) -> Result<T, CallError> {
        let handlers = self.0.registry.handler_set(question.hook());
        self.0.pace.early(question, &handlers)?;
        match ask.await {
            Ok(answer) => {
                self.0.pace.passed(question);
                Ok(answer)
            }
            Err(error) => Err(self.0.pace.failed(question, handlers, error)),
        }
    }

    /// As [`call`](Self::call), at a pace, for a hook whose handler may ask to wait: while the wait is not over, the handler
    /// is not called and the rest of the wait is the answer; and after a failure, it is not called before the time of the
    /// next try. Nothing is that the handler is done. The same request to the same handler is the same question, so this
    /// is for requests that hold nothing that changes by itself: no status.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call), with the time of the next try ([`CallError::retry`]); also if the handler was not reached and
    /// its failure policy says not to mind, because a handler that was not reached has done nothing.
    pub async fn wait_at_pace<H: HookType>(
        &self,
        handler: &Registration,
        request: H::Request,
    ) -> Result<Option<Waiting>, CallError> {
        let question = Question::of_content::<H>(handler.name.as_str(), &request);
        let handlers = self.0.registry.handler_set(H::HOOK);
        if let Some(waiting) = self.0.pace.early(&question, &handlers)? {
            return Ok(Some(waiting));
        }
        let answer = self.call::<H>(handler, request).await.and_then(|answer| match answer {
            Answer::Given(response) => Ok(response),
            Answer::Ignored(failure) => {
                Err(CallError::Failed { hook: H::HOOK, handler: handler.name.clone(), failure })
            }
        });
        let answer = match answer {
            Ok(response) => HandlerAnswer::of(handler.name.clone(), &Answer::Given(response)),
            Err(error) => return Err(self.0.pace.failed(&question, handlers, error)),
        };
        let wait = Answers::<H::Response>::collect(vec![answer]).wait();
        self.0.pace.answered(&question, handlers, wait.clone());
        Ok(wait)
    }

    /// Calls one handler by its full name.
    ///
    /// # Errors
    ///
    /// When there is no such handler, it is for another hook or another namespace, or it failed in a way that
    /// is not ignored.
    pub async fn call_one<H: HookType>(
        &self,
        handler: &str,
        namespace: &str,
        request: &H::Request,
    ) -> Result<Answer<H::Response>, CallError> {
        let handler = self.find(H::HOOK, handler, namespace).await?;
        self.call::<H>(&handler, request.clone()).await
    }

    /// A handler by its full name, if it is for the hook and the namespace.
    pub(crate) async fn find(
        &self,
        hook: Hook,
        name: &str,
        namespace: &str,
    ) -> Result<Arc<Registration>, CallError> {
        self.check_warm(hook)?;
        let unknown = || CallError::UnknownHandler { name: name.to_owned() };
        let handler = self.0.registry.get(name).ok_or_else(unknown)?;
        if handler.hook != hook {
            let (registered, handler) = (handler.hook, handler.name.clone());
            return Err(CallError::WrongHook { handler, registered, called: hook });
        }
        if !self.is_for(&handler, namespace, &mut None).await? {
            let (handler, namespace) = (handler.name.clone(), namespace.to_owned());
            return Err(CallError::OutOfNamespace { handler, namespace });
        }
        Ok(handler)
    }

    /// Calls a handler that [`handlers`](Self::handlers) has found, without looking it up again.
    ///
    /// # Errors
    ///
    /// It failed in a way that is not ignored.
    pub async fn call<H: HookType>(
        &self,
        handler: &Registration,
        request: H::Request,
    ) -> Result<Answer<H::Response>, CallError> {
        let request = request.with_default_settings(&handler.settings);
        let short_name = handler.name.handler();
        let target = Target {
            client_config: &handler.client_config,
            endpoint: &handler.endpoint,
            handler: Some(&short_name),
            timeout: handler.timeout,
        };
        // Neither settings nor bodies: both may hold secrets.
        let span = tracing::debug_span!("hook", hook = %H::HOOK, handler = %handler.name);
        let turn = self.0.in_flight.turn(handler.name.extension_config()).await;
        let result = self.0.caller.call::<H>(target, &request).instrument(span.clone()).await;
        drop(turn);
        let _entered = span.enter();
        match result {
            Ok(response) => {
                tracing::debug!("the handler answered");
                Ok(Answer::Given(response))
            }
            Err(failure) if handler.failure_policy == FailurePolicy::Ignore && failure.is_ignorable() => {
                tracing::warn!(%failure, "a failure was ignored, as the handler wants");
                Ok(Answer::Ignored(failure))
            }
            Err(failure) => {
                tracing::debug!(%failure, "the call failed");
                Err(CallError::Failed { hook: H::HOOK, handler: handler.name.clone(), failure })
            }
        }
    }

    /// Labels are looked up when a selector needs them, and only once for all selectors.
    async fn is_for(
        &self,
        handler: &Registration,
        namespace: &str,
        labels: &mut Option<Labels>,
    ) -> Result<bool, CallError> {
        if handler.selector.is_everything() || handler.selector.is_nothing() {
            return Ok(handler.selector.is_everything());
        }
        let labels = match labels {
            Some(labels) => labels,
            None => {
                let found = self.0.namespaces.labels(namespace).await.map_err(|error| {
                    CallError::NamespaceLookup { namespace: namespace.to_owned(), reason: error.to_string() }
                })?;
                labels.insert(found)
            }
        };
        Ok(handler.selector.matches(labels))
    }

    fn check_warm(&self, hook: Hook) -> Result<(), CallError> {
        if self.0.registry.is_warm() { Ok(()) } else { Err(CallError::NotWarm { hook }) }
    }
}

impl fmt::Debug for HookClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookClient").field("registry", &self.0.registry).finish_non_exhaustive()
    }
}

/// Settings of a [`HookClient`].
pub struct HookClientBuilder {
    transport: BoxTransport,
    namespaces: Arc<dyn NamespaceLabels>,
    metrics: Metrics,
    registry: Registry,
    discovery_timeout: Duration,
}

impl HookClientBuilder {
    /// Where labels of namespaces come from. Without it, no namespace exists.
    #[must_use]
    pub fn namespaces(mut self, namespaces: impl NamespaceLabels) -> Self {
        self.namespaces = Arc::new(namespaces);
        self
    }

    /// Counts together with others.
    #[must_use]
    pub fn metrics(mut self, metrics: Metrics) -> Self {
        self.metrics = metrics;
        self
    }

    /// Shares the registry of another client, for example one with another transport.
    #[must_use]
    pub fn registry(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// How long discovery may take, if not 10 seconds.
    #[must_use]
    pub fn discovery_timeout(mut self, timeout: Duration) -> Self {
        self.discovery_timeout = timeout;
        self
    }

    /// The client.
    pub fn build(self) -> HookClient {
        let Self { transport, namespaces, metrics, registry, discovery_timeout } = self;
        HookClient(Arc::new(Shared {
            responses: ResponseCaches::new(),
            pace: Pace::new(),
            in_flight: InFlight::default(),
            caller: Caller { transport, metrics },
            registry,
            namespaces,
            discovery_timeout,
        }))
    }
}

impl fmt::Debug for HookClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HookClientBuilder").field("registry", &self.registry).finish_non_exhaustive()
    }
}
