//! Calls of handlers that were opted into: the same request several times, one at a time and concurrently.

use std::time::Duration;

use serde_json::Value;

use crate::answer::{CALL_CHECKS, Reply, judge, judge_latency};
use crate::check::{CheckId, Finding, Rule};
use crate::determinism;
use crate::session::{HOOKS_OPT_IN, Handler, Session};
use crate::synthetic;

/// What a handler answered to one request, over and over.
#[derive(Debug)]
pub(crate) struct Conversation {
    pub(crate) handler: Handler,
    pub(crate) request: Value,
    /// Usable answers: first those one at a time, in order, then the concurrent ones.
    pub(crate) replies: Vec<Reply>,
}

/// Calls every handler that may be called.
pub(crate) async fn check(session: &mut Session<'_>) -> Vec<Conversation> {
    let handlers = session.all_callable();
    if handlers.is_empty() {
        skip_everything_that_calls(session);
    }
    let mut conversations = Vec::new();
    for handler in handlers {
        let Some(hook) = handler.hook else { continue };
        let request = synthetic::request(hook, session.options, &session.settings());
        session.calling(&handler, "the same request several times");
        let mut replies = Vec::new();
        for _ in 0..session.options.repetitions.max(1) {
            replies.extend(call(session, &handler, &request).await);
        }
        let calls = vec![session.call_of(&handler, &request); session.options.repetitions.max(2)];
        for answer in session.send_all(&handler.subject(), calls).await {
            let (reply, found) = judge(&handler, &answer);
            found.into_iter().for_each(|finding| session.ledger.found(finding));
            replies.extend(reply);
        }
        check_timeout_parameter(session, &handler, &request, &replies).await;
        if let Some(finding) = judge_latency(&handler, &replies, &session.options.timing) {
            session.ledger.found(finding);
        }
        conversations.push(Conversation { handler, request, replies });
    }
    conversations
}

/// T7 at a handler: the same request without the parameter and with another value gets the same answer. An extension may
/// take the parameter for a deadline, so the other value is longer than any that callers send.
async fn check_timeout_parameter(
    session: &mut Session<'_>,
    handler: &Handler,
    request: &Value,
    replies: &[Reply],
) {
    let subject = handler.subject();
    // What is not the same twice with the same parameter tells nothing about another.
    if session.ledger.leaves_out(CheckId::T7) || !determinism::compare(&subject, replies).is_empty() {
        return;
    }
    session.ledger.looked_at(CheckId::T7, &subject);
    for query in ["", "?timeout=1m0s"] {
        let mut call = session.call_of(handler, request);
        let path = call.path.split('?').next().unwrap_or_default();
        call.path = format!("{path}{query}");
        let (reply, _) = judge(handler, &session.send(&subject, &call).await);
        let other = if query.is_empty() { "without the timeout parameter" } else { query };
        let observed = match (replies.last(), reply) {
            (None, Some(reply)) if reply.success => format!("calls work only {other}"),
            (Some(_), None) => format!("calls fail {other}"),
            (Some(first), Some(reply))
                if !determinism::compare(&subject, &[first.clone(), reply.clone()]).is_empty() =>
            {
                format!("the same request gets another answer {other}")
            }
            _ => continue,
        };
        session.ledger.found(Finding::new(Rule::TimeoutParameterBreaks, &subject, observed));
    }
}

/// Calls a handler once. Whatever is wrong with the answer is noted; `None` if it cannot be used.
pub(crate) async fn call(session: &mut Session<'_>, handler: &Handler, request: &Value) -> Option<Reply> {
    call_within(session, handler, request, handler.timeout()).await
}

/// The same with another limit of time.
pub(crate) async fn call_within(
    session: &mut Session<'_>,
    handler: &Handler,
    request: &Value,
    limit: Duration,
) -> Option<Reply> {
    let subject = handler.subject();
    for check in CALL_CHECKS {
        session.ledger.looked_at(check, &subject);
    }
    let mut call = session.call_of(handler, request);
    call.timeout = limit;
    let answer = session.send(&subject, &call).await;
    let (reply, found) = judge(handler, &answer);
    found.into_iter().for_each(|finding| session.ledger.found(finding));
    reply
}

fn skip_everything_that_calls(session: &mut Session<'_>) {
    let reason = if session.options.hooks.is_empty() {
        "no hook was opted into, so that no handler is called"
    } else {
        "no handler of the hooks that were opted into is announced"
    };
    let needs_calls = |check: &CheckId| {
        use crate::check::Group::{Blocking, Calls, Determinism, InPlace, Patches, UpgradePlan};
        [Calls, Determinism, Blocking, Patches, UpgradePlan, InPlace].contains(&check.group())
    };
    for &check in CheckId::ALL.iter().filter(|check| needs_calls(check)) {
        session.ledger.skip(check, reason, Some(HOOKS_OPT_IN));
    }
}
