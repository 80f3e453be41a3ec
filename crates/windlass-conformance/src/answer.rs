//! Reading the answer of a handler: C1 to C8, which hold for every call.

use std::time::Duration;

use hyper::StatusCode;
use serde::de::DeserializeOwned;
use serde_json::Value;
use windlass_api::Hook;
use windlass_api::hooks::{self, HookTag, decode_lenient};

use crate::check::{CheckId, Finding, Rule};
use crate::endpoint::{Answer, TransportError};
use crate::options::Timing;
use crate::session::Handler;

/// An answer that a caller can use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Reply {
    pub(crate) success: bool,
    pub(crate) message: String,
    pub(crate) retry: i64,
    /// The whole body.
    pub(crate) value: Value,
    pub(crate) elapsed: Duration,
}

impl Reply {
    pub(crate) fn is_blocking(&self) -> bool {
        self.success && self.retry > 0
    }

    /// The part that a hook answers beyond status, message and retry time.
    pub(crate) fn payload(&self) -> Value {
        let common = ["kind", "apiVersion", "status", "message", "retryAfterSeconds"];
        match &self.value {
            Value::Object(fields) => fields
                .iter()
                .filter(|(key, value)| !common.contains(&key.as_str()) && !value.is_null())
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect(),
            _ => Value::Null,
        }
    }
}

/// Checks that apply to every call.
pub(crate) const CALL_CHECKS: [CheckId; 8] =
    [CheckId::C1, CheckId::C2, CheckId::C3, CheckId::C4, CheckId::C5, CheckId::C6, CheckId::C7, CheckId::C8];

/// A retry time up to this many seconds is a hot loop.
const HOT_LOOP_SECONDS: i64 = 2;
/// A retry time beyond this many seconds leaves a cluster waiting long after the reason is gone.
const FORGOTTEN_SECONDS: i64 = 600;

/// Reads the first JSON value, which is all that Cluster API reads of an answer.
pub(crate) fn first_json_value(body: &[u8]) -> Result<Value, serde_json::Error> {
    let mut values = serde_json::Deserializer::from_slice(body).into_iter();
    values.next().unwrap_or_else(|| serde_json::from_slice(body))
}

/// Reads an answer of a handler, and says what is wrong with it.
pub(crate) fn judge(
    handler: &Handler,
    answer: &Result<Answer, TransportError>,
) -> (Option<Reply>, Vec<Finding>) {
    let mut found = Vec::new();
    let subject = handler.subject();
    let mut add = |rule, observed: String| found.push(Finding::new(rule, &subject, observed));
    let answer = match answer {
        Ok(answer) if answer.status == StatusCode::OK => answer,
        Ok(answer) => {
            let code = answer.status.as_u16();
            add(Rule::CallNot200, format!("HTTP status {code}: {}", answer.excerpt()));
            return (None, found);
        }
        Err(TransportError::Timeout(limit)) => {
            add(Rule::TimedOut, format!("no answer within {} s", limit.as_secs_f32()));
            return (None, found);
        }
        Err(error @ TransportError::TooLarge) => {
            add(Rule::UndecodableAnswer, error.to_string());
            return (None, found);
        }
        // Reported where compression is looked at.
        Err(TransportError::Compression { .. }) => return (None, found),
        Err(error) => {
            add(Rule::CallAborted, error.to_string());
            return (None, found);
        }
    };
    let value = match first_json_value(&answer.body) {
        Ok(value @ Value::Object(_)) => value,
        Ok(_) => {
            add(Rule::UndecodableAnswer, format!("not a JSON object: {}", answer.excerpt()));
            return (None, found);
        }
        Err(error) => {
            add(Rule::UndecodableAnswer, format!("not JSON: {error}"));
            return (None, found);
        }
    };

    let retry = match field(&value, "retryAfterSeconds") {
        None | Some(Value::Null) => Some(0),
        Some(retry) => retry.as_i64().filter(|seconds| (0..=i64::from(i32::MAX)).contains(seconds)),
    };
    if retry.is_none() {
        let given = field(&value, "retryAfterSeconds").unwrap_or(&Value::Null);
        add(Rule::BadRetry, format!("retryAfterSeconds is {given}"));
    }
    if let Some(hook) = handler.hook
        && let Err(error) = decode_without_special_fields(hook, &value)
    {
        add(Rule::UndecodableAnswer, format!("not a {}: {error}", hook.response_kind()));
        return (None, found);
    }
    let text = |name| field(&value, name).and_then(Value::as_str).unwrap_or_default();
    let status = text("status");
    // What people are shown of this hook is its reason.
    let message = match text("message") {
        "" if handler.hook == Some(Hook::ExternalUpdate) => text("reason"),
        message => message,
    };
    if !matches!(status, "Success" | "Failure") {
        add(Rule::BadStatus, format!("status is {status:?}"));
        return (None, found);
    }
    let retry = retry.unwrap_or(0);
    let success = status == "Success";
    let may_block = handler.hook.is_none_or(Hook::may_block);
    if !may_block && retry != 0 {
        add(Rule::RetryIgnored, format!("retryAfterSeconds is {retry}"));
    }
    if !success && message.is_empty() {
        add(Rule::FailureWithoutMessage, "status Failure without a message".to_owned());
    }
    if success && may_block && retry > 0 {
        if message.is_empty() {
            add(Rule::BlockWithoutMessage, format!("retryAfterSeconds is {retry}, without a message"));
        }
        if retry <= HOT_LOOP_SECONDS {
            add(Rule::RetryTooShort, format!("retryAfterSeconds is {retry}"));
        } else if retry > FORGOTTEN_SECONDS {
            add(Rule::RetryTooLong, format!("retryAfterSeconds is {retry}"));
        }
    }
    let message = message.to_owned();
    (Some(Reply { success, message, retry, value, elapsed: answer.elapsed }), found)
}

/// C6 over all calls of a handler: the 95th percentile of how long they took.
pub(crate) fn judge_latency(handler: &Handler, replies: &[Reply], timing: &Timing) -> Option<Finding> {
    let mut times: Vec<Duration> = replies.iter().map(|reply| reply.elapsed).collect();
    times.sort();
    let p95 = *times.get((times.len() * 95).div_ceil(100).checked_sub(1)?)?;
    let on_every_reconcile = matches!(handler.hook, Some(Hook::GeneratePatches | Hook::ValidateTopology));
    let (limit, rule) = if on_every_reconcile {
        (timing.slow_mutation, Rule::SlowMutation)
    } else {
        (timing.slow_call, Rule::SlowCall)
    };
    (p95 > limit).then(|| {
        let observed = format!("95% of {} calls took up to {} ms", times.len(), p95.as_millis());
        Finding::new(rule, handler.subject(), observed)
    })
}

/// A field in any case, as Go finds it; the right spelling wins.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    let fields = value.as_object()?;
    fields
        .get(name)
        .or_else(|| fields.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value))
}

/// Decodes as callers do, but for the retry time and for patches, which have checks of their own.
fn decode_without_special_fields(hook: Hook, value: &Value) -> Result<(), serde_json::Error> {
    let mut value = value.clone();
    blank(&mut value, hook.tag() == HookTag::InPlaceUpdate || hook == Hook::GeneratePatches);
    let body = value.to_string();
    let body = body.as_bytes();
    match hook {
        Hook::Discovery => decoded::<hooks::DiscoveryResponse>(decode_lenient(body)),
        Hook::GeneratePatches => decoded::<hooks::GeneratePatchesResponse>(decode_lenient(body)),
        Hook::DiscoverVariables => decoded::<hooks::DiscoverVariablesResponse>(decode_lenient(body)),
        Hook::GenerateUpgradePlan => decoded::<hooks::GenerateUpgradePlanResponse>(decode_lenient(body)),
        Hook::CanUpdateMachine => decoded::<hooks::CanUpdateMachineResponse>(decode_lenient(body)),
        Hook::CanUpdateMachineSet => decoded::<hooks::CanUpdateMachineSetResponse>(decode_lenient(body)),
        Hook::ExternalUpdate => decoded::<hooks::ExternalUpdateResponse>(decode_lenient(body)),
        // All others have status, message and retry time only.
        _ => decoded::<hooks::BeforeClusterCreateResponse>(decode_lenient(body)),
    }
}

fn decoded<T: DeserializeOwned>(result: Result<T, serde_json::Error>) -> Result<(), serde_json::Error> {
    result.map(drop)
}

fn blank(value: &mut Value, patches: bool) {
    match value {
        Value::Object(fields) => {
            let special = |key: &str| {
                key.eq_ignore_ascii_case("retryAfterSeconds")
                    || (patches && key.eq_ignore_ascii_case("patch"))
            };
            fields.retain(|key, _| !special(key));
            fields.values_mut().filter(|_| patches).for_each(|value| blank(value, patches));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| blank(item, patches)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use windlass_api::HandlerName;
    use windlass_api::hooks::ExtensionHandler;

    use super::*;

    fn handler(hook: Hook) -> Handler {
        Handler::new(ExtensionHandler::new(&HandlerName::new("h").unwrap(), hook))
    }

    fn answer(status: u16, body: &str) -> Result<Answer, TransportError> {
        Ok(Answer {
            status: StatusCode::from_u16(status).unwrap(),
            body: Bytes::copy_from_slice(body.as_bytes()),
            elapsed: Duration::ZERO,
        })
    }

    #[test]
    fn answers_break_the_rules_they_break() {
        let lifecycle = Hook::BeforeClusterUpgrade;
        for (hook, status, body, expected) in [
            (lifecycle, 200, r#"{"status":"Success","retryAfterSeconds":0}"#, vec![]),
            (lifecycle, 200, r#"{"status":"Success"}"#, vec![]),
            (lifecycle, 200, r#"{"Status":"Success","RetryAfterSeconds":5,"Message":"m"} trailing"#, vec![]),
            (lifecycle, 200, r#"{"status":"Failure","message":"no"}"#, vec![]),
            (lifecycle, 201, r#"{"status":"Success"}"#, vec![Rule::CallNot200]),
            (lifecycle, 500, "oops", vec![Rule::CallNot200]),
            (lifecycle, 200, "oops", vec![Rule::UndecodableAnswer]),
            (lifecycle, 200, "", vec![Rule::UndecodableAnswer]),
            (lifecycle, 200, "[]", vec![Rule::UndecodableAnswer]),
            (lifecycle, 200, r#"{"status":"Success","message":5}"#, vec![Rule::UndecodableAnswer]),
            (lifecycle, 200, r#"{"status":"OK"}"#, vec![Rule::BadStatus]),
            (lifecycle, 200, "{}", vec![Rule::BadStatus]),
            (lifecycle, 200, r#"{"status":"Success","retryAfterSeconds":-1}"#, vec![Rule::BadRetry]),
            (lifecycle, 200, r#"{"status":"Success","retryAfterSeconds":"5"}"#, vec![Rule::BadRetry]),
            (lifecycle, 200, r#"{"status":"Success","retryAfterSeconds":3000000000}"#, vec![Rule::BadRetry]),
            (
                Hook::GenerateUpgradePlan,
                200,
                r#"{"status":"Success","retryAfterSeconds":5}"#,
                vec![Rule::RetryIgnored],
            ),
            (lifecycle, 200, r#"{"status":"Failure"}"#, vec![Rule::FailureWithoutMessage]),
            (
                lifecycle,
                200,
                r#"{"status":"Success","retryAfterSeconds":30}"#,
                vec![Rule::BlockWithoutMessage],
            ),
            (
                lifecycle,
                200,
                r#"{"status":"Success","message":"m","retryAfterSeconds":1}"#,
                vec![Rule::RetryTooShort],
            ),
            (
                lifecycle,
                200,
                r#"{"status":"Success","message":"m","retryAfterSeconds":601}"#,
                vec![Rule::RetryTooLong],
            ),
            (
                Hook::ExternalUpdate,
                200,
                r#"{"status":"Success","accepted":true,"reason":"on it","retryAfterSeconds":30}"#,
                vec![],
            ),
            (
                Hook::ExternalUpdate,
                200,
                r#"{"status":"Success","accepted":"yes"}"#,
                vec![Rule::UndecodableAnswer],
            ),
            (Hook::GeneratePatches, 200, r#"{"status":"Success","items":[{"patch":7}]}"#, vec![]),
            (Hook::GeneratePatches, 200, r#"{"status":"Success","items":{}}"#, vec![Rule::UndecodableAnswer]),
        ] {
            let (reply, found) = judge(&handler(hook), &answer(status, body));
            let rules: Vec<Rule> = found.iter().map(|finding| finding.rule).collect();
            assert_eq!(rules, expected, "{hook} {body}");
            let unusable = [Rule::CallNot200, Rule::UndecodableAnswer, Rule::BadStatus];
            assert_eq!(reply.is_none(), rules.iter().any(|rule| unusable.contains(rule)), "{hook} {body}");
        }
    }

    #[test]
    fn transport_errors_are_told_apart() {
        for (error, expected) in [
            (TransportError::Timeout(Duration::from_secs(1)), Some(Rule::TimedOut)),
            (TransportError::Http("reset".to_owned()), Some(Rule::CallAborted)),
            (TransportError::TooLarge, Some(Rule::UndecodableAnswer)),
            (TransportError::Compression { encoding: "br".to_owned(), reason: String::new() }, None),
        ] {
            let (reply, found) = judge(&handler(Hook::UpdateMachine), &Err(error));
            assert_eq!(reply, None);
            assert_eq!(found.first().map(|finding| finding.rule), expected);
        }
    }

    #[test]
    fn the_percentile_decides_and_hooks_of_every_reconcile_have_less_time() {
        let reply = |milliseconds| Reply {
            success: true,
            message: String::new(),
            retry: 0,
            value: Value::Null,
            elapsed: Duration::from_millis(milliseconds),
        };
        let timing = Timing::default();
        let mut replies: Vec<Reply> = (0..100).map(|_| reply(300)).collect();
        let judged = |hook, replies: &[Reply]| {
            judge_latency(&handler(hook), replies, &timing).map(|finding| finding.rule)
        };
        assert_eq!(judged(Hook::UpdateMachine, &replies), None);
        assert_eq!(judged(Hook::GeneratePatches, &replies), Some(Rule::SlowMutation));
        replies[0] = reply(5000);
        assert_eq!(judged(Hook::UpdateMachine, &replies), None, "one outlier in a hundred");
        assert_eq!(judged(Hook::UpdateMachine, &replies[..3]), Some(Rule::SlowCall));
        assert_eq!(judged(Hook::UpdateMachine, &[]), None);
    }
}
