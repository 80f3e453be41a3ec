//! External updaters: N7.

use serde_json::Value;
use windlass_api::Hook;

use crate::answer::{Reply, field};
use crate::calls;
use crate::check::{CheckId, Finding, Rule};
use crate::session::{HOOKS_OPT_IN, Handler, Session};
use crate::synthetic;

/// Checks all handlers of ExternalUpdate that may be called.
pub(crate) async fn check(session: &mut Session<'_>) {
    for handler in session.callable(Hook::ExternalUpdate) {
        check_handler(session, &handler).await;
    }
    session.ledger.skip(CheckId::N7, "no handler of ExternalUpdate was called", Some(HOOKS_OPT_IN));
}

/// The same request over and over, as after crashes of the caller.
async fn check_handler(session: &mut Session<'_>, handler: &Handler) {
    let subject = handler.subject();
    session.calling(handler, "the same update over and over");
    let request = synthetic::request(Hook::ExternalUpdate, session.options, &session.settings());
    let mut seen = Vec::new();
    for _ in 0..session.options.repetitions.max(3) {
        let Some(reply) = calls::call(session, handler, &request).await else { return };
        session.ledger.looked_at(CheckId::N7, &subject);
        seen.push(reply);
    }
    judge(&subject, &seen).into_iter().for_each(|finding| session.ledger.found(finding));
}

fn judge(subject: &str, seen: &[Reply]) -> Vec<Finding> {
    let accepts =
        |reply: &Reply| reply.success && field(&reply.value, "accepted") == Some(&Value::Bool(true));
    let said = |reply: &&Reply| reply.success && field(&reply.value, "accepted").is_none_or(Value::is_null);
    let silent = |reply: &&Reply| {
        reply.success
            && field(&reply.value, "accepted") == Some(&Value::Bool(false))
            && field(&reply.value, "reason").and_then(Value::as_str).unwrap_or_default().is_empty()
    };
    let mut found = Vec::new();
    if seen.iter().find(said).is_some() {
        found.push(Finding::new(Rule::AcceptedNotSaid, subject, "Success without accepted"));
    }
    if seen.iter().find(silent).is_some() {
        found.push(Finding::new(Rule::RefusalWithoutReason, subject, "accepted is false without a reason"));
    }
    let forgotten =
        seen.windows(2).find(|pair| matches!(pair, [before, after] if accepts(before) && !accepts(after)));
    if let Some([_, after]) = forgotten {
        let what = if after.success { "refused" } else { "failed" };
        let observed = format!("accepted, and {what} when asked again: {:?}", after.message);
        found.push(Finding::new(Rule::AcceptanceForgotten, subject, observed));
    }
    found
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::*;

    #[test]
    fn answers_say_what_they_mean_and_mean_it_again() {
        let reply = |value: Value| Reply {
            success: value["status"] == "Success",
            message: String::new(),
            retry: 0,
            value,
            elapsed: Duration::ZERO,
        };
        let accepted = || reply(json!({"status": "Success", "accepted": true}));
        let refused = || reply(json!({"status": "Success", "accepted": false, "reason": "not mine"}));
        let failed = || reply(json!({"status": "Failure", "message": "busy"}));
        for (seen, expected) in [
            (vec![accepted(), accepted()], vec![]),
            (vec![refused(), refused()], vec![]),
            (vec![refused(), accepted()], vec![]),
            (vec![failed(), failed()], vec![]),
            (vec![reply(json!({"status": "Success"}))], vec![Rule::AcceptedNotSaid]),
            (vec![reply(json!({"status": "Success", "accepted": false}))], vec![Rule::RefusalWithoutReason]),
            (vec![accepted(), refused()], vec![Rule::AcceptanceForgotten]),
            (vec![accepted(), failed()], vec![Rule::AcceptanceForgotten]),
        ] {
            let rules: Vec<Rule> = judge("s", &seen).iter().map(|finding| finding.rule).collect();
            assert_eq!(rules, expected, "{seen:?}");
        }
    }
}
