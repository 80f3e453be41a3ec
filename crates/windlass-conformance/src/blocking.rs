//! Hooks that make the caller wait: B1 to B3.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::answer::Reply;
use crate::calls::{self, Conversation};
use crate::check::{CheckId, Finding, Rule};
use crate::progress::Progress;
use crate::session::{Handler, Session};
use crate::synthetic;

/// Looks at how handlers block: those that did so on their own, or all of them if settings make them.
pub(crate) async fn check(session: &mut Session<'_>, conversations: &[Conversation]) {
    for conversation in conversations {
        let handler = &conversation.handler;
        if !handler.hook.is_some_and(|hook| hook.may_block()) {
            continue;
        }
        if session.options.block_settings.is_some() {
            check_told_to_block(session, handler).await;
        } else if let Some(blocking) = conversation.replies.iter().find(|reply| reply.is_blocking()) {
            judge(session, handler, Some(blocking), blocking.elapsed);
        }
        if conversation.replies.iter().any(Reply::is_blocking) {
            check_early_call(session, conversation).await;
            check_unblocking(session, conversation).await;
        }
    }
    let reason = "no handler answered with a retry time";
    let opt_in = "give settings that make handlers block (--block-setting KEY=VALUE)";
    for check in [CheckId::B1, CheckId::B2] {
        session.ledger.skip(check, reason, Some(opt_in));
    }
    let opt_in = "say for how long to ask again (--poll-for SECONDS)";
    session.ledger.skip(CheckId::B3, "blocking handlers are not polled", Some(opt_in));
}

async fn check_told_to_block(session: &mut Session<'_>, handler: &Handler) {
    let Some(hook) = handler.hook else { return };
    let mut settings = session.settings();
    settings.extend(session.options.block_settings.clone().unwrap_or_default());
    let request = synthetic::request(hook, session.options, &settings);
    session.calling(handler, "told to block by settings");
    let started = Instant::now();
    let reply = calls::call(session, handler, &request).await;
    // Connecting is not the handler's doing; without an answer there is only the whole.
    let took = reply.as_ref().map_or_else(|| started.elapsed(), |reply| reply.elapsed);
    judge(session, handler, reply.as_ref(), took);
}

fn judge(session: &mut Session<'_>, handler: &Handler, reply: Option<&Reply>, took: Duration) {
    let subject = handler.subject();
    session.ledger.looked_at(CheckId::B1, &subject);
    let slow = took > session.options.timing.slow_call;
    let broken = match reply {
        None if slow => Some((Rule::BlocksBySleeping, format!("no answer after {} ms", took.as_millis()))),
        // Broken in another way, which the checks of every call report.
        None => None,
        Some(_) if slow => Some((Rule::BlocksBySleeping, format!("answered after {} ms", took.as_millis()))),
        Some(reply) if !reply.success => {
            Some((Rule::BlocksByFailing, format!("answered Failure: {:?}", reply.message)))
        }
        Some(reply) if reply.retry == 0 => {
            Some((Rule::DoesNotBlock, "answered Success without a retry time".to_owned()))
        }
        Some(_) => None,
    };
    if let Some((rule, observed)) = broken {
        session.ledger.found(Finding::new(rule, subject, observed));
    }
}

async fn check_early_call(session: &mut Session<'_>, conversation: &Conversation) {
    let Conversation { handler, request, .. } = conversation;
    let subject = handler.subject();
    session.ledger.looked_at(CheckId::B2, &subject);
    let started = Instant::now();
    let observed = match calls::call(session, handler, request).await {
        Some(reply) if reply.success && reply.elapsed <= session.options.timing.slow_call => return,
        Some(reply) if reply.success => format!("took {} ms", reply.elapsed.as_millis()),
        Some(reply) => format!("failed: {:?}", reply.message),
        None => format!("no usable answer after {} ms", started.elapsed().as_millis()),
    };
    session.ledger.found(Finding::new(Rule::EarlyCallSlow, subject, observed));
}

async fn check_unblocking(session: &mut Session<'_>, conversation: &Conversation) {
    let Some(limit) = session.options.poll_for else { return };
    let Conversation { handler, request, .. } = conversation;
    let subject = handler.subject();
    session.ledger.looked_at(CheckId::B3, &subject);
    session.progress.report(&Progress::Waiting("polling until the handler lets go"));
    let deadline = Instant::now() + limit;
    loop {
        let reply = calls::call(session, handler, request).await;
        let Some(reply) = reply.filter(Reply::is_blocking) else { return };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            let observed = format!("still blocks after {} ms: {:?}", limit.as_millis(), reply.message);
            session.ledger.found(Finding::new(Rule::NeverUnblocks, subject, observed));
            return;
        }
        let retry = Duration::from_secs(u64::try_from(reply.retry).unwrap_or(1));
        sleep(retry.min(left)).await;
    }
}
