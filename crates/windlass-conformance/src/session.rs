//! One run: discovery first, then everything that builds on it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use serde::Serialize;
use windlass_api::Hook;
use windlass_api::hooks::{ClusterClassVariable, ExtensionHandler, Settings};
use windlass_hooks::url::timeout_query;

use crate::check::{CheckId, Finding, Group, Rule};
use crate::endpoint::{Answer, Call, Endpoint, TransportError};
use crate::options::Options;
use crate::progress::{Progress, ProgressSink};
use crate::report::{Ledger, Report, ReportKind};
use crate::target::{Target, TargetError};
use crate::{
    availability, blocking, calls, determinism, discovery, external_update, in_place, patches, transport,
    upgrade_plan,
};

/// Tests a live extension.
///
/// Without hooks in the options nothing is called but discovery, with a few odd bodies, and every announced
/// handler once with a body that is not JSON, which no handler can act on. Handlers of hooks in the options
/// are called with objects that are marked as synthetic.
///
/// # Errors
///
/// When the target itself is unusable. Whatever is wrong with the extension is in the report.
pub fn run<'a>(
    target: &'a Target,
    options: &'a Options,
    progress: &'a dyn ProgressSink,
) -> LocalBoxFuture<'a, Result<Report, TargetError>> {
    Box::pin(checked(target, options, progress))
}

async fn checked(
    target: &Target,
    options: &Options,
    progress: &dyn ProgressSink,
) -> Result<Report, TargetError> {
    let mut session = Session {
        target,
        options,
        endpoint: Arc::new(Endpoint::new(target)?),
        progress,
        ledger: Ledger::leaving_out(options.leave_out.clone()),
        handlers: Vec::new(),
        variables: BTreeMap::new(),
    };
    let otherwise = session.check_everything().await;
    let checks = CheckId::ALL.iter().copied().filter(|check| check.group() != Group::Lint);
    Ok(Report {
        kind: ReportKind::ExtensionTest,
        target: target.url.clone(),
        results: session.ledger.into_results(checks, otherwise),
        variables: session.variables,
    })
}

/// How to have the calls checked.
pub(crate) const HOOKS_OPT_IN: &str =
    "name the hook (--hooks); its handlers are called with synthetic objects";

/// What all checks share.
pub(crate) struct Session<'a> {
    pub(crate) target: &'a Target,
    pub(crate) options: &'a Options,
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) progress: &'a dyn ProgressSink,
    pub(crate) ledger: Ledger,
    pub(crate) handlers: Vec<Handler>,
    pub(crate) variables: BTreeMap<String, Vec<ClusterClassVariable>>,
}

impl Session<'_> {
    /// Returns why a check that nothing was noted about did not run.
    async fn check_everything(&mut self) -> &'static str {
        self.enter(Group::Transport);
        if !transport::check_tls(self).await {
            return "there is no connection that a caller would accept, see T1";
        }
        self.enter(Group::Discovery);
        let Some(response) = discovery::check(self).await else {
            transport::explain_failed_discovery(self).await;
            return "discovery does not work, see D1";
        };
        transport::check_http(self, &response).await;
        discovery::check_handlers_are_served(self).await;

        self.enter(Group::Calls);
        let conversations = calls::check(self).await;
        self.enter(Group::Determinism);
        determinism::check(self, &conversations).await;
        self.enter(Group::Blocking);
        blocking::check(self, &conversations).await;
        self.enter(Group::Patches);
        patches::check(self).await;
        self.enter(Group::UpgradePlan);
        upgrade_plan::check(self).await;
        self.enter(Group::InPlace);
        in_place::check(self).await;
        external_update::check(self).await;
        // Last, because it may stop what is tested.
        self.enter(Group::Availability);
        availability::check(self, &response, &conversations).await;
        "no handler that was called has anything to do with it"
    }

    fn enter(&self, group: Group) {
        self.progress.report(&Progress::Group(group));
    }

    /// Says that a handler is about to be called.
    pub(crate) fn calling(&self, handler: &Handler, purpose: &'static str) {
        self.progress.report(&Progress::Calling { handler: handler.subject(), purpose });
    }

    /// The extension as a whole, as a subject of findings.
    pub(crate) fn whole(&self) -> String {
        self.target.url.clone()
    }

    /// Sends something. What compression does is looked at here, because any answer may have it.
    pub(crate) async fn send(&mut self, subject: &str, call: &Call) -> Result<Answer, TransportError> {
        let answer = self.endpoint.send(call).await;
        self.note_compression(subject, &answer);
        answer
    }

    /// Sends all of these at the same time. Answers are in the order of the calls.
    pub(crate) async fn send_all(
        &mut self,
        subject: &str,
        calls: Vec<Call>,
    ) -> Vec<Result<Answer, TransportError>> {
        let spawn = |call: Call| {
            let endpoint = self.endpoint.clone();
            tokio::spawn(async move { endpoint.send(&call).await })
        };
        let under_way: Vec<_> = calls.into_iter().map(spawn).collect();
        let mut answers = Vec::with_capacity(under_way.len());
        for call in under_way {
            let lost = |error: tokio::task::JoinError| Err(TransportError::Http(error.to_string()));
            let answer = call.await.unwrap_or_else(lost);
            self.note_compression(subject, &answer);
            answers.push(answer);
        }
        answers
    }

    fn note_compression(&mut self, subject: &str, answer: &Result<Answer, TransportError>) {
        match answer {
            Ok(_) => self.ledger.looked_at(CheckId::T5, self.target.url.clone()),
            Err(error @ TransportError::Compression { .. }) => {
                self.ledger.found(Finding::new(Rule::BadCompression, subject, error.to_string()));
            }
            Err(_) => {}
        }
    }

    /// Path of a hook below the base path, with the query that callers send.
    pub(crate) fn path(&self, hook_path: &str, timeout: Duration) -> String {
        format!("{}{hook_path}?{}", self.endpoint.place.base_path, timeout_query(timeout))
    }

    /// Handlers of a hook that may be called.
    pub(crate) fn callable(&self, hook: Hook) -> Vec<Handler> {
        let selected = |handler: &&Handler| handler.hook == Some(hook) && self.options.hooks.contains(hook);
        self.handlers.iter().filter(selected).cloned().collect()
    }

    /// Handlers of all hooks that may be called.
    pub(crate) fn all_callable(&self) -> Vec<Handler> {
        let selected =
            |handler: &&Handler| handler.hook.is_some_and(|hook| self.options.hooks.contains(hook));
        self.handlers.iter().filter(selected).cloned().collect()
    }

    /// A call of a handler as a caller makes it.
    pub(crate) fn call_of(&self, handler: &Handler, request: &impl Serialize) -> Call {
        // Requests are made of texts, numbers and maps with text keys, which JSON can always hold.
        let body = serde_json::to_vec(request).unwrap_or_default();
        Call::post(self.path(&handler.path(), handler.timeout()), body, handler.timeout())
    }

    /// Settings of every request.
    pub(crate) fn settings(&self) -> Settings {
        self.target.settings.clone()
    }
}

/// A handler that was announced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Handler {
    pub(crate) announced: ExtensionHandler,
    /// `None` if the hook is not known.
    pub(crate) hook: Option<Hook>,
}

impl Handler {
    pub(crate) fn new(announced: ExtensionHandler) -> Self {
        let hook = announced.request_hook.resolve().ok();
        Self { announced, hook }
    }

    pub(crate) fn name(&self) -> &str {
        &self.announced.name
    }

    /// The handler with its hook, as findings name it.
    pub(crate) fn subject(&self) -> String {
        format!("{} ({})", self.announced.name, self.announced.request_hook.hook)
    }

    /// Path below the base path, spelt as callers spell it.
    pub(crate) fn path(&self) -> String {
        let hook = &self.announced.request_hook;
        format!(
            "/{}/{}/{}",
            hook.api_version,
            hook.hook.to_ascii_lowercase(),
            self.announced.name.to_ascii_lowercase()
        )
    }

    /// How long callers wait for it.
    pub(crate) fn timeout(&self) -> Duration {
        const DEFAULT: u64 = 10;
        const MAX: u64 = 30;
        let announced = self.announced.timeout_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        Duration::from_secs(announced.filter(|&seconds| seconds > 0).unwrap_or(DEFAULT).min(MAX))
    }
}
