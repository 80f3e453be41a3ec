//! Discovery: D1 to D12.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use hyper::StatusCode;
use windlass_api::dns_label::check_rfc1123_label;
use windlass_api::hooks::{
    DiscoveryRequest, DiscoveryResponse, ExtensionHandler, FailurePolicy, HookTag, ResponseStatus,
    decode_lenient,
};
use windlass_api::{Hook, HookResponse};

use crate::answer::first_json_value;
use crate::check::{CheckId, Finding, Rule};
use crate::determinism::scan_message;
use crate::endpoint::{Answer, Call};
use crate::options::CapiVersion;
use crate::progress::Progress;
use crate::session::{Handler, Session};

/// Body that no server can decode and therefore no handler can act on.
pub(crate) const NOT_JSON: &[u8] = b"{\"kind\":";

/// Longest registered name, handler and ExtensionConfig with a dot between.
const MAX_REGISTERED_NAME: usize = 512;
/// Longest name of an ExtensionConfig, plus the dot.
const MAX_SUFFIX: usize = 64;
/// Most handlers that the status of an ExtensionConfig holds.
const MAX_HANDLERS: usize = 512;

/// Discovers, checks what was announced, and fills in the handlers of the session. `None` if it failed.
pub(crate) async fn check(session: &mut Session<'_>) -> Option<DiscoveryResponse> {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::D1, &subject);
    let call = call(session);
    let answer = session.send(&subject, &call).await;
    let response = match answer.map_err(|error| error.to_string()).and_then(|answer| {
        session.ledger.looked_at(CheckId::D8, &subject);
        if answer.elapsed > session.options.timing.slow_discovery {
            let observed = format!("took {} ms", answer.elapsed.as_millis());
            session.ledger.found(Finding::new(Rule::DiscoverySlow, &subject, observed));
        }
        read(&answer)
    }) {
        Ok(response) => response,
        Err(observed) => {
            session.ledger.found(Finding::new(Rule::DiscoveryFailed, subject, observed));
            return None;
        }
    };

    session.progress.report(&Progress::Discovered { handlers: response.handlers.len() });
    if response.handlers.is_empty() {
        session.ledger.found(Finding::new(Rule::NoHandlers, &subject, "no handler is announced"));
    }
    let scope = [
        CheckId::D2,
        CheckId::D3,
        CheckId::D4,
        CheckId::D5,
        CheckId::D9,
        CheckId::D10,
        CheckId::D11,
        CheckId::D12,
    ];
    for check in scope {
        session.ledger.looked_at(check, &subject);
    }
    for finding in judge(&response.handlers, &session.options.capi_versions, &subject) {
        session.ledger.found(finding);
    }
    session.handlers = response.handlers.iter().cloned().map(Handler::new).collect();
    if !session.ledger.leaves_out(CheckId::D7) {
        check_stability(session, &call, &response).await;
    }
    Some(response)
}

/// A discovery as callers send it.
pub(crate) fn call(session: &Session<'_>) -> Call {
    let timeout = session.options.timing.discovery;
    Call::post(session.path(&Hook::Discovery.base_path(), timeout), request_body(), timeout)
}

/// The body of a discovery.
pub(crate) fn request_body() -> Bytes {
    Bytes::from(serde_json::to_vec(&DiscoveryRequest::default()).unwrap_or_default())
}

/// Reads an answer as callers do: 200, the first JSON value, status Success.
pub(crate) fn read(answer: &Answer) -> Result<DiscoveryResponse, String> {
    if answer.status != StatusCode::OK {
        return Err(format!("HTTP status {}: {}", answer.status.as_u16(), answer.excerpt()));
    }
    let value = first_json_value(&answer.body).map_err(|error| format!("not JSON: {error}"))?;
    let response: DiscoveryResponse = decode_lenient(value.to_string().as_bytes())
        .map_err(|error| format!("not a DiscoveryResponse: {error}"))?;
    match response.status() {
        ResponseStatus::Success => Ok(response),
        status => Err(format!("status {:?}, message {:?}", status.as_str(), response.message())),
    }
}

/// Names that are the same whatever their order.
pub(crate) fn handler_set(response: &DiscoveryResponse) -> BTreeSet<String> {
    let text = |handler: &ExtensionHandler| serde_json::to_string(handler).unwrap_or_default();
    response.handlers.iter().map(text).collect()
}

async fn check_stability(session: &mut Session<'_>, call: &Call, first: &DiscoveryResponse) {
    let subject = session.whole();
    session.ledger.looked_at(CheckId::D7, &subject);
    for _ in 1..session.options.repetitions.max(2) {
        let again = session.send(&subject, call).await.map_err(|error| error.to_string());
        let observed = match again.and_then(|answer| read(&answer)) {
            Ok(response) if handler_set(&response) == handler_set(first) => continue,
            Ok(response) => {
                format!(
                    "{} handlers first, {} later, or not the same",
                    first.handlers.len(),
                    response.handlers.len()
                )
            }
            Err(error) => format!("worked first and failed later: {error}"),
        };
        session.ledger.found(Finding::new(Rule::DiscoveryUnstable, &subject, observed));
    }
}

/// What is wrong with the handlers that were announced.
fn judge(handlers: &[ExtensionHandler], capi_versions: &[CapiVersion], whole: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut by_name: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut by_hook: BTreeMap<Hook, Vec<&str>> = BTreeMap::new();
    for announced in handlers {
        let handler = Handler::new(announced.clone());
        by_name.entry(&announced.name).or_default().push(&announced.request_hook.hook);
        if let Some(hook) = handler.hook {
            by_hook.entry(hook).or_default().push(&announced.name);
        }
        judge_handler(&handler, capi_versions, &mut found);
    }
    for (name, hooks) in by_name.into_iter().filter(|(_, hooks)| hooks.len() > 1) {
        let observed = format!("{} handlers have this name: {}", hooks.len(), hooks.join(", "));
        found.push(Finding::new(Rule::HandlerNameRepeated, name, observed));
    }
    if handlers.len() > MAX_HANDLERS {
        found.push(Finding::new(Rule::TooManyHandlers, whole, format!("{} handlers", handlers.len())));
    }
    judge_combination(&by_hook, whole, &mut found);
    found
}

fn judge_handler(handler: &Handler, capi_versions: &[CapiVersion], found: &mut Vec<Finding>) {
    let subject = handler.subject();
    let mut add = |rule, observed: String| found.push(Finding::new(rule, &subject, observed));
    let announced = &handler.announced;
    if let Err(error) = check_rfc1123_label(&announced.name) {
        add(Rule::BadHandlerName, format!("name {:?} {error}", announced.name));
    }
    if announced.name.len() + MAX_SUFFIX > MAX_REGISTERED_NAME {
        add(Rule::RegisteredNameTooLong, format!("the name has {} characters", announced.name.len()));
    }
    match announced.timeout_seconds {
        Some(0) => add(Rule::TimeoutZero, "timeoutSeconds is 0".to_owned()),
        Some(seconds @ 11..=30) => add(Rule::TimeoutLong, format!("timeoutSeconds is {seconds}")),
        Some(seconds) if !(0..=30).contains(&seconds) => {
            add(Rule::TimeoutOutOfRange, format!("timeoutSeconds is {seconds}"));
        }
        _ => {}
    }
    if let Some(FailurePolicy::Unknown(policy)) = &announced.failure_policy
        && !policy.is_empty()
    {
        add(Rule::BadFailurePolicy, format!("failurePolicy is {policy:?}"));
    }
    match announced.request_hook.resolve() {
        // Only its handlers are listed; discovery announcing itself is a hook that cannot be called.
        Ok(Hook::Discovery) => add(Rule::UnknownHook, "discovery announces itself".to_owned()),
        Err(unknown) => add(Rule::UnknownHook, unknown.to_string()),
        Ok(hook) => {
            match CapiVersion::that_introduced(hook) {
                None => add(Rule::HookOfWindlassOnly, format!("{hook} is announced")),
                Some(introduced) => {
                    let too_old = capi_versions.iter().filter(|&&version| version < introduced);
                    let too_old: Vec<String> = too_old.map(ToString::to_string).collect();
                    if !too_old.is_empty() {
                        let observed =
                            format!("{hook} exists since {introduced}, not in {}", too_old.join(", "));
                        add(Rule::HookTooNew, observed);
                    }
                }
            }
            if announced.failure_policy == Some(FailurePolicy::Ignore) && loses_effect_when_ignored(hook) {
                add(Rule::IgnoreLosesEffect, format!("failurePolicy of {hook} is Ignore"));
            }
        }
    }
}

fn loses_effect_when_ignored(hook: Hook) -> bool {
    hook.may_block()
        || matches!(
            hook,
            Hook::GeneratePatches
                | Hook::DiscoverVariables
                | Hook::GenerateUpgradePlan
                | Hook::CanUpdateMachine
                | Hook::CanUpdateMachineSet
        )
}

fn judge_combination(by_hook: &BTreeMap<Hook, Vec<&str>>, whole: &str, found: &mut Vec<Finding>) {
    let has = |hook: Hook| by_hook.contains_key(&hook);
    for (hook, names) in by_hook {
        // External updaters are asked one after the other, also those of one extension.
        if hook.tag() == HookTag::InPlaceUpdate && *hook != Hook::ExternalUpdate && names.len() > 1 {
            let observed = format!("{} handlers: {}", names.len(), names.join(", "));
            found.push(Finding::new(Rule::InPlaceHandlerRepeated, hook.name(), observed));
        }
    }
    let in_place = [Hook::CanUpdateMachine, Hook::CanUpdateMachineSet, Hook::UpdateMachine];
    let missing: Vec<&str> = in_place.into_iter().filter(|&hook| !has(hook)).map(Hook::name).collect();
    if !missing.is_empty() && missing.len() < in_place.len() {
        let observed = format!("{} missing", missing.join(" and "));
        found.push(Finding::new(Rule::InPlaceIncomplete, whole, observed));
    }
    if has(Hook::GeneratePatches) && !has(Hook::DiscoverVariables) {
        let observed = "GeneratePatches is announced and DiscoverVariables is not";
        found.push(Finding::new(Rule::VariablesNotDiscoverable, whole, observed));
    }
}

/// D6, and with it what every handler does with a body that is not JSON (T3, T6, T9).
pub(crate) async fn check_handlers_are_served(session: &mut Session<'_>) {
    if session.handlers.is_empty() {
        session.ledger.skip(CheckId::D6, "no handler is announced", None);
    }
    for handler in session.handlers.clone() {
        if check_rfc1123_label(handler.name()).is_err() || handler.hook.is_none() {
            continue;
        }
        check_handler_is_served(session, &handler).await;
    }
}

async fn check_handler_is_served(session: &mut Session<'_>, handler: &Handler) {
    let subject = handler.subject();
    let timeout: Duration = handler.timeout();
    let mut call = Call::post(session.path(&handler.path(), timeout), NOT_JSON, timeout);
    session.ledger.looked_at(CheckId::D6, &subject);
    let answer = match session.send(&subject, &call).await {
        Ok(answer) => answer,
        Err(error) => {
            let observed = format!("a body that is not JSON gets no answer: {error}");
            session.ledger.found(Finding::new(Rule::MalformedNotAFailure, subject, observed));
            return;
        }
    };
    let status = answer.status;
    let observed = format!("a body that is not JSON gets HTTP status {}", status.as_u16());
    if status != StatusCode::OK && !status.is_redirection() && works_without_timeout(session, &call).await {
        let observed =
            format!("POST {} gets HTTP status {}, and 200 without ?timeout=", call.path, status.as_u16());
        session.ledger.found(Finding::new(Rule::TimeoutParameterBreaks, subject, observed));
        return;
    }
    match status {
        StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::GONE => {
            let observed = format!("POST {} gets HTTP status {}", call.path, status.as_u16());
            session.ledger.found(Finding::new(Rule::HandlerNotServed, subject, observed));
        }
        _ if status.is_redirection() => {
            session.ledger.found(Finding::new(Rule::Redirected, subject, observed));
        }
        StatusCode::OK => check_refusal(session, &subject, &call, &answer).await,
        _ => {
            call.content_type = Some("application/json");
            let with_type = session.send(&subject, &call).await;
            let rule = match with_type {
                Ok(with_type) if with_type.status == StatusCode::OK => Rule::ContentTypeRequired,
                _ => Rule::MalformedNotAFailure,
            };
            session.ledger.found(Finding::new(rule, subject, observed));
        }
    }
}

/// Whether a call that did not get 200 gets it without the parameter that every caller sends.
async fn works_without_timeout(session: &mut Session<'_>, call: &Call) -> bool {
    if session.ledger.leaves_out(CheckId::T7) {
        return false;
    }
    let path = call.path.split('?').next().unwrap_or_default().to_owned();
    let subject = session.whole();
    let answer = session.send(&subject, &Call { path, ..call.clone() }).await;
    answer.is_ok_and(|answer| answer.status == StatusCode::OK)
}

/// A body that is not JSON got 200: it should say Failure, and the same every time.
async fn check_refusal(session: &mut Session<'_>, subject: &str, call: &Call, answer: &Answer) {
    let value = first_json_value(&answer.body).unwrap_or_default();
    if value["status"] != "Failure" {
        let observed = format!("a body that is not JSON gets status {}", value["status"]);
        session.ledger.found(Finding::new(Rule::MalformedNotAFailure, subject, observed));
        return;
    }
    let message = value["message"].as_str().unwrap_or_default();
    scan_message(&mut session.ledger, subject, message, &[]);
    if let Ok(again) = session.send(subject, call).await {
        let again = first_json_value(&again.body).unwrap_or_default();
        if again["message"] != value["message"] {
            let observed = format!("the same failure has messages {:?} and {}", message, again["message"]);
            session.ledger.found(Finding::new(Rule::VolatileMessage, subject, observed));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn rules(handlers: Value, capi_versions: &[CapiVersion]) -> Vec<Rule> {
        let handlers: Vec<ExtensionHandler> = serde_json::from_value(handlers).unwrap();
        judge(&handlers, capi_versions, "whole").iter().map(|finding| finding.rule).collect()
    }

    fn handler(name: &str, hook: &str) -> Value {
        json!({"name": name, "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook}})
    }

    fn with(name: &str, hook: &str, extra: Value) -> Value {
        let mut value = handler(name, hook);
        value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        value
    }

    #[test]
    fn announcements_break_the_rules_they_break() {
        let newest = [CapiVersion::NEWEST];
        for (handlers, expected) in [
            (json!([handler("a", "BeforeClusterUpgrade"), handler("b", "BeforeClusterUpgrade")]), vec![]),
            (
                json!([with(
                    "a",
                    "BeforeClusterUpgrade",
                    json!({"timeoutSeconds": 10, "failurePolicy": "Fail"})
                )]),
                vec![],
            ),
            (json!([with("a", "AfterControlPlaneInitialized", json!({"failurePolicy": "Ignore"}))]), vec![]),
            (json!([handler("A", "BeforeClusterUpgrade")]), vec![Rule::BadHandlerName]),
            (
                json!([handler("a", "BeforeClusterUpgrade"), handler("a", "AfterClusterUpgrade")]),
                vec![Rule::HandlerNameRepeated],
            ),
            (
                json!([with("a", "BeforeClusterUpgrade", json!({"timeoutSeconds": 0}))]),
                vec![Rule::TimeoutZero],
            ),
            (
                json!([with("a", "BeforeClusterUpgrade", json!({"timeoutSeconds": 30}))]),
                vec![Rule::TimeoutLong],
            ),
            (
                json!([with("a", "BeforeClusterUpgrade", json!({"timeoutSeconds": 31}))]),
                vec![Rule::TimeoutOutOfRange],
            ),
            (
                json!([with("a", "BeforeClusterUpgrade", json!({"timeoutSeconds": -1}))]),
                vec![Rule::TimeoutOutOfRange],
            ),
            (
                json!([with("a", "BeforeClusterUpgrade", json!({"failurePolicy": "fail"}))]),
                vec![Rule::BadFailurePolicy],
            ),
            (
                json!([with("a", "UpdateMachine", json!({"failurePolicy": "Ignore"}))]),
                vec![Rule::IgnoreLosesEffect, Rule::InPlaceIncomplete],
            ),
            (json!([handler("a", "BeforeLunch")]), vec![Rule::UnknownHook]),
            (json!([handler("a", "Discovery")]), vec![Rule::UnknownHook]),
            (json!([handler("a", "GeneratePatches")]), vec![Rule::VariablesNotDiscoverable]),
            (
                json!([handler(&"a".repeat(449), "BeforeClusterUpgrade")]),
                vec![Rule::BadHandlerName, Rule::RegisteredNameTooLong],
            ),
        ] {
            assert_eq!(rules(handlers.clone(), &newest), expected, "{handlers}");
        }
    }

    #[test]
    fn hooks_are_checked_against_every_release_that_is_asked_for() {
        let handlers = json!([handler("a", "GenerateUpgradePlan")]);
        assert_eq!(rules(handlers.clone(), &[CapiVersion { minor: 12 }, CapiVersion::NEWEST]), []);
        assert_eq!(rules(handlers, &[CapiVersion { minor: 11 }, CapiVersion::NEWEST]), [Rule::HookTooNew]);
    }
}
