//! Nodes, events, certificates and roles.

use jiff::Timestamp;
use serde_json::Value;

use super::{age_of, at, items, number_at, or_none};

pub(super) fn status(node: &Value, _: Timestamp) -> Value {
    let ready = items(node, "/status/conditions").find(|condition| condition["type"] == "Ready");
    let word = match ready.map(|condition| at(condition, "/status")) {
        Some("True") => "Ready",
        Some(_) => "NotReady",
        None => "Unknown",
    };
    let closed = if node["spec"]["unschedulable"] == true { ",SchedulingDisabled" } else { "" };
    format!("{word}{closed}").into()
}

/// Roles are labels: `node-role.kubernetes.io/worker`, or `kubernetes.io/role: worker`.
pub(super) fn roles(node: &Value, _: Timestamp) -> Value {
    let labels = node["metadata"]["labels"].as_object().into_iter().flatten();
    let mut roles: Vec<&str> = labels
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    or_none(roles.join(","))
}

fn address(node: &Value, ty: &str) -> Value {
    let found = items(node, "/status/addresses").find(|address| address["type"] == ty);
    or_none(found.map_or("", |address| at(address, "/address")))
}

pub(super) fn internal_ip(node: &Value, _: Timestamp) -> Value {
    address(node, "InternalIP")
}

pub(super) fn external_ip(node: &Value, _: Timestamp) -> Value {
    address(node, "ExternalIP")
}

fn info(node: &Value, field: &str) -> Value {
    match at(node, &format!("/status/nodeInfo/{field}")) {
        "" => "<unknown>".into(),
        text => text.into(),
    }
}

pub(super) fn os_image(node: &Value, _: Timestamp) -> Value {
    info(node, "osImage")
}

pub(super) fn kernel_version(node: &Value, _: Timestamp) -> Value {
    info(node, "kernelVersion")
}

pub(super) fn runtime(node: &Value, _: Timestamp) -> Value {
    info(node, "containerRuntimeVersion")
}

/// Events have their time in one of several fields, depending on who wrote them.
pub(super) fn last_seen(event: &Value, now: Timestamp) -> Value {
    let times = ["/series/lastObservedTime", "/lastTimestamp", "/deprecatedLastTimestamp", "/eventTime"];
    let time = times.into_iter().map(|path| at(event, path)).find(|time| !time.is_empty());
    age_of(time.unwrap_or_default(), now)
}

pub(super) fn first_seen(event: &Value, now: Timestamp) -> Value {
    let times = ["/firstTimestamp", "/deprecatedFirstTimestamp", "/eventTime"];
    let time = times.into_iter().map(|path| at(event, path)).find(|time| !time.is_empty());
    age_of(time.unwrap_or_default(), now)
}

pub(super) fn involved(event: &Value, _: Timestamp) -> Value {
    let object = event.get("involvedObject").or(event.get("regarding")).unwrap_or(&Value::Null);
    match (at(object, "/kind").to_lowercase(), at(object, "/name")) {
        (kind, "") => kind.into(),
        (kind, name) => format!("{kind}/{name}").into(),
    }
}

pub(super) fn event_source(event: &Value, _: Timestamp) -> Value {
    let source = event.get("source").or(event.get("deprecatedSource")).unwrap_or(&Value::Null);
    let reporter = at(event, "/reportingComponent");
    match (at(source, "/component"), at(source, "/host")) {
        ("", _) => reporter.into(),
        (component, "") => component.into(),
        (component, host) => format!("{component}, {host}").into(),
    }
}

pub(super) fn event_message(event: &Value, _: Timestamp) -> Value {
    let message = Some(at(event, "/message")).filter(|message| !message.is_empty());
    message.unwrap_or_else(|| at(event, "/note")).trim().into()
}

pub(super) fn event_count(event: &Value, _: Timestamp) -> Value {
    let counts = ["/series/count", "/count", "/deprecatedCount"];
    counts.into_iter().map(|path| number_at(event, path)).find(|count| *count > 0).unwrap_or(1).into()
}

pub(super) fn requested_duration(request: &Value, _: Timestamp) -> Value {
    let end = request["spec"]["expirationSeconds"].as_i64().map(Timestamp::from_second);
    or_none(match end {
        Some(end) => crate::time::age(Timestamp::UNIX_EPOCH, end.unwrap_or(Timestamp::MAX)),
        None => String::new(),
    })
}

pub(super) fn request_conditions(request: &Value, _: Timestamp) -> Value {
    let mut words: Vec<&str> =
        items(request, "/status/conditions").map(|condition| at(condition, "/type")).collect();
    if words.is_empty() {
        words.push("Pending");
    }
    if !at(request, "/status/certificate").is_empty() {
        words.push("Issued");
    }
    words.join(",").into()
}

pub(super) fn role(binding: &Value, _: Timestamp) -> Value {
    format!("{}/{}", at(binding, "/roleRef/kind"), at(binding, "/roleRef/name")).into()
}

fn bound(binding: &Value, kind: &str) -> Value {
    let subjects = items(binding, "/subjects").filter(|subject| subject["kind"] == kind);
    let names = subjects.map(|subject| match (kind, at(subject, "/namespace")) {
        ("ServiceAccount", namespace) => format!("{namespace}/{}", at(subject, "/name")),
        _ => at(subject, "/name").to_owned(),
    });
    names.collect::<Vec<_>>().join(", ").into()
}

pub(super) fn bound_users(binding: &Value, _: Timestamp) -> Value {
    bound(binding, "User")
}

pub(super) fn bound_groups(binding: &Value, _: Timestamp) -> Value {
    bound(binding, "Group")
}

pub(super) fn bound_accounts(binding: &Value, _: Timestamp) -> Value {
    bound(binding, "ServiceAccount")
}

fn health(component: &Value) -> Option<&Value> {
    items(component, "/conditions").find(|condition| condition["type"] == "Healthy")
}

pub(super) fn component_status(component: &Value, _: Timestamp) -> Value {
    match health(component).map(|condition| at(condition, "/status")) {
        Some("True") => "Healthy".into(),
        Some("False") => "Unhealthy".into(),
        _ => "Unknown".into(),
    }
}

pub(super) fn component_message(component: &Value, _: Timestamp) -> Value {
    health(component).map_or("", |condition| at(condition, "/message")).into()
}

pub(super) fn component_error(component: &Value, _: Timestamp) -> Value {
    health(component).map_or("", |condition| at(condition, "/error")).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_node_shows_whether_it_takes_pods_and_what_it_is_for() {
        let node = json!({
            "metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge", "x": "y"}},
            "spec": {"unschedulable": true},
            "status": {"conditions": [{"type": "Ready", "status": "True"}],
                "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]},
        });
        assert_eq!(status(&node, Timestamp::UNIX_EPOCH), "Ready,SchedulingDisabled");
        assert_eq!(roles(&node, Timestamp::UNIX_EPOCH), "edge,worker");
        assert_eq!(internal_ip(&node, Timestamp::UNIX_EPOCH), "10.0.0.1");
        assert_eq!(external_ip(&node, Timestamp::UNIX_EPOCH), "<none>");
        assert_eq!(status(&json!({}), Timestamp::UNIX_EPOCH), "Unknown");
    }

    #[test]
    fn an_event_has_its_time_where_its_author_put_it() {
        let now = Timestamp::from_second(1_700_000_060).unwrap();
        let at = "2023-11-14T22:13:20Z";
        for event in [json!({"lastTimestamp": at}), json!({"eventTime": "2023-11-14T22:13:20.000000Z"})] {
            assert_eq!(last_seen(&event, now), "60s");
        }
        let event = json!({"involvedObject": {"kind": "Pod", "name": "p"}, "message": " m\n", "count": 3});
        assert_eq!(involved(&event, now), "pod/p");
        assert_eq!(event_message(&event, now), "m");
        assert_eq!(event_count(&event, now), 3);
    }
}
