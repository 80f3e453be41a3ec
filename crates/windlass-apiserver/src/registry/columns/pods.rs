//! Pods, and what limits them.

use jiff::Timestamp;
use serde_json::Value;

use super::{age_of, at, items, number_at, or_none};

pub(super) fn ready(pod: &Value, _: Timestamp) -> Value {
    let total = items(pod, "/spec/containers").count();
    let ready = items(pod, "/status/containerStatuses").filter(|status| status["ready"] == true).count();
    format!("{ready}/{total}").into()
}

/// The one word that says most about a pod: why a container waits or ended, if one does.
pub(super) fn status(pod: &Value, _: Timestamp) -> Value {
    let mut reason = at(pod, "/status/phase").to_owned();
    if let said @ 1.. = at(pod, "/status/reason").len() {
        reason = at(pod, "/status/reason")[..said].to_owned();
    }
    let gated = items(pod, "/status/conditions")
        .any(|condition| condition["type"] == "PodScheduled" && condition["reason"] == "SchedulingGated");
    if gated {
        reason = "SchedulingGated".to_owned();
    }
    if let Some(initialising) = initialising(pod) {
        reason = initialising;
    } else {
        let statuses: Vec<&Value> = items(pod, "/status/containerStatuses").collect();
        let mut running = false;
        for status in statuses.iter().rev() {
            match container_reason(status) {
                Some(why) => reason = why,
                None => running |= status["ready"] == true && status["state"]["running"].is_object(),
            }
        }
        if reason == "Completed" && running {
            reason = if has_condition(pod, "Ready") { "Running" } else { "NotReady" }.to_owned();
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        reason = if at(pod, "/status/reason") == "NodeLost" { "Unknown" } else { "Terminating" }.to_owned();
    }
    reason.into()
}

fn has_condition(pod: &Value, ty: &str) -> bool {
    items(pod, "/status/conditions").any(|condition| condition["type"] == ty && condition["status"] == "True")
}

/// Why a container waits or has ended; `None` while it runs.
fn container_reason(status: &Value) -> Option<String> {
    let state = &status["state"];
    if let waiting @ 1.. = at(state, "/waiting/reason").len() {
        return Some(at(state, "/waiting/reason")[..waiting].to_owned());
    }
    let ended = state.get("terminated").filter(|ended| ended.is_object())?;
    Some(match (at(ended, "/reason"), number_at(ended, "/signal")) {
        ("", 0) => format!("ExitCode:{}", number_at(ended, "/exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    })
}

fn initialising(pod: &Value) -> Option<String> {
    let total = items(pod, "/spec/initContainers").count();
    for (index, status) in items(pod, "/status/initContainerStatuses").enumerate() {
        let state = &status["state"];
        if state["terminated"].is_object() && number_at(state, "/terminated/exitCode") == 0 {
            continue;
        }
        if status["started"] == true && state["running"].is_object() {
            // A sidecar that runs lets the others start.
            continue;
        }
        return Some(match container_reason(status) {
            Some(reason) if reason != "PodInitializing" => format!("Init:{reason}"),
            _ => format!("Init:{index}/{total}"),
        });
    }
    None
}

pub(super) fn restarts(pod: &Value, now: Timestamp) -> Value {
    let statuses =
        || items(pod, "/status/containerStatuses").chain(items(pod, "/status/initContainerStatuses"));
    let count: i64 = statuses().map(|status| number_at(status, "/restartCount")).sum();
    let last =
        statuses().map(|status| at(status, "/lastState/terminated/finishedAt")).max().unwrap_or_default();
    match (count, age_of(last, now)) {
        (count @ 1.., Value::String(age)) if !last.is_empty() => format!("{count} ({age} ago)").into(),
        (count, _) => count.to_string().into(),
    }
}

pub(super) fn ip(pod: &Value, _: Timestamp) -> Value {
    or_none(at(pod, "/status/podIP"))
}

pub(super) fn node(pod: &Value, _: Timestamp) -> Value {
    or_none(at(pod, "/spec/nodeName"))
}

pub(super) fn nominated(pod: &Value, _: Timestamp) -> Value {
    or_none(at(pod, "/status/nominatedNodeName"))
}

pub(super) fn gates(pod: &Value, _: Timestamp) -> Value {
    let gates: Vec<&str> =
        items(pod, "/spec/readinessGates").map(|gate| at(gate, "/conditionType")).collect();
    let open = gates.iter().filter(|gate| has_condition(pod, gate)).count();
    or_none(if gates.is_empty() { String::new() } else { format!("{open}/{}", gates.len()) })
}

fn amount(value: Option<&Value>) -> Value {
    match value {
        Some(Value::String(text)) => text.as_str().into(),
        Some(Value::Number(number)) => number.to_string().into(),
        _ => "N/A".into(),
    }
}

pub(super) fn min_available(budget: &Value, _: Timestamp) -> Value {
    amount(budget.pointer("/spec/minAvailable"))
}

pub(super) fn max_unavailable(budget: &Value, _: Timestamp) -> Value {
    amount(budget.pointer("/spec/maxUnavailable"))
}

fn quota(quota: &Value, is_wanted: impl Fn(&str) -> bool) -> Value {
    let hard = quota.pointer("/status/hard").or(quota.pointer("/spec/hard")).and_then(Value::as_object);
    let entries = hard.into_iter().flatten().filter(|(name, _)| is_wanted(name)).map(|(name, hard)| {
        let used = quota["status"]["used"].get(name).map_or_else(|| "0".into(), |used| amount(Some(used)));
        let used = used.as_str().unwrap_or_default().to_owned();
        format!("{name}: {used}/{}", amount(Some(hard)).as_str().unwrap_or_default())
    });
    entries.collect::<Vec<_>>().join(", ").into()
}

pub(super) fn quota_requests(object: &Value, _: Timestamp) -> Value {
    quota(object, |name| !name.starts_with("limits."))
}

pub(super) fn quota_limits(object: &Value, _: Timestamp) -> Value {
    quota(object, |name| name.starts_with("limits."))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_summed_up_in_one_word() {
        let waiting = |reason: &str| json!({"state": {"waiting": {"reason": reason}}});
        let cases = [
            (json!({"status": {"phase": "Pending"}}), "Pending"),
            (json!({"status": {"phase": "Failed", "reason": "Evicted"}}), "Evicted"),
            (
                json!({"status": {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]}}),
                "CrashLoopBackOff",
            ),
            (
                json!({"status": {"phase": "Failed",
                    "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}}),
                "ExitCode:3",
            ),
            (
                json!({"spec": {"initContainers": [{}, {}]}, "status": {"phase": "Pending",
                    "initContainerStatuses": [{"state": {"terminated": {"exitCode": 0}}}, {"state": {"running": {}}}]}}),
                "Init:1/2",
            ),
            (
                json!({"metadata": {"deletionTimestamp": "2023-11-14T22:13:20Z"}, "status": {"phase": "Running"}}),
                "Terminating",
            ),
        ];
        for (pod, word) in cases {
            assert_eq!(status(&pod, Timestamp::UNIX_EPOCH), word, "{pod}");
        }
    }

    #[test]
    fn restarts_say_how_long_ago_the_last_one_was() {
        let now = Timestamp::from_second(1_700_000_030).unwrap();
        let status = json!({"restartCount": 2,
            "lastState": {"terminated": {"finishedAt": "2023-11-14T22:13:20Z"}}});
        assert_eq!(restarts(&json!({"status": {"containerStatuses": [status]}}), now), "2 (30s ago)");
        assert_eq!(restarts(&json!({}), now), "0");
    }
}
