//! What keeps pods running.

use jiff::Timestamp;
use serde_json::Value;

use super::{age_of, at, items, labels, number_at, or_none};
use crate::time;

pub(super) fn ready(object: &Value, _: Timestamp) -> Value {
    format!("{}/{}", number_at(object, "/status/readyReplicas"), number_at(object, "/spec/replicas")).into()
}

/// The spec of the pods, wherever the kind has it.
fn pod_spec(object: &Value) -> Option<&Value> {
    ["/spec/template/spec", "/spec/jobTemplate/spec/template/spec", "/template/spec"]
        .into_iter()
        .find_map(|path| object.pointer(path))
}

fn of_containers(object: &Value, field: &str) -> Value {
    let containers = pod_spec(object).into_iter().flat_map(|spec| items(spec, "/containers"));
    containers.map(|container| at(container, field)).collect::<Vec<_>>().join(",").into()
}

pub(super) fn containers(object: &Value, _: Timestamp) -> Value {
    of_containers(object, "/name")
}

pub(super) fn images(object: &Value, _: Timestamp) -> Value {
    of_containers(object, "/image")
}

pub(super) fn selector(object: &Value, _: Timestamp) -> Value {
    let found = object.pointer("/spec/selector").or(object.pointer("/spec/jobTemplate/spec/selector"));
    let is_plain = object["kind"] == "ReplicationController";
    or_none(if is_plain { labels(found) } else { super::selector(found) })
}

pub(super) fn template_labels(object: &Value, _: Timestamp) -> Value {
    or_none(labels(object.pointer("/template/metadata/labels")))
}

pub(super) fn node_selector(object: &Value, _: Timestamp) -> Value {
    or_none(labels(pod_spec(object).and_then(|spec| spec.get("nodeSelector"))))
}

pub(super) fn controller(revision: &Value, _: Timestamp) -> Value {
    let owner = items(revision, "/metadata/ownerReferences").find(|owner| owner["controller"] == true);
    or_none(owner.map_or_else(String::new, |owner| {
        format!("{}/{}", at(owner, "/kind").to_lowercase(), at(owner, "/name"))
    }))
}

pub(super) fn time_zone(cron_job: &Value, _: Timestamp) -> Value {
    or_none(at(cron_job, "/spec/timeZone"))
}

pub(super) fn suspended(cron_job: &Value, _: Timestamp) -> Value {
    if cron_job["spec"]["suspend"] == true { "True" } else { "False" }.into()
}

pub(super) fn last_schedule(cron_job: &Value, now: Timestamp) -> Value {
    match at(cron_job, "/status/lastScheduleTime") {
        "" => "<none>".into(),
        time => age_of(time, now),
    }
}

pub(super) fn scale_target(autoscaler: &Value, _: Timestamp) -> Value {
    let target = &autoscaler["spec"]["scaleTargetRef"];
    format!("{}/{}", at(target, "/kind"), at(target, "/name")).into()
}

pub(super) fn job_status(job: &Value, _: Timestamp) -> Value {
    let is = |ty: &str| {
        items(job, "/status/conditions")
            .any(|condition| condition["type"] == ty && condition["status"] == "True")
    };
    match () {
        () if is("Complete") => "Complete",
        () if is("Failed") => "Failed",
        () if job["metadata"]["deletionTimestamp"].is_string() => "Terminating",
        () if is("Suspended") => "Suspended",
        () if is("FailureTarget") => "FailureTarget",
        () if is("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
    .into()
}

pub(super) fn completions(job: &Value, _: Timestamp) -> Value {
    let succeeded = number_at(job, "/status/succeeded");
    match (job["spec"]["completions"].as_i64(), number_at(job, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}").into(),
        (None, parallel @ 2..) => format!("{succeeded}/1 of {parallel}").into(),
        (None, _) => format!("{succeeded}/1").into(),
    }
}

pub(super) fn duration(job: &Value, now: Timestamp) -> Value {
    let Some(started) = time::parse(at(job, "/status/startTime")) else { return "".into() };
    let ended = time::parse(at(job, "/status/completionTime")).unwrap_or(now);
    time::age(started, ended).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_deployment_shows_what_it_runs() {
        let deployment = json!({
            "spec": {"replicas": 3, "selector": {"matchLabels": {"a": "b"},
                "matchExpressions": [{"key": "c", "operator": "In", "values": ["d", "e"]}]},
                "template": {"spec": {"containers": [{"name": "x", "image": "i"}, {"name": "y", "image": "j"}]}}},
            "status": {"readyReplicas": 1},
        });
        assert_eq!(ready(&deployment, Timestamp::UNIX_EPOCH), "1/3");
        assert_eq!(containers(&deployment, Timestamp::UNIX_EPOCH), "x,y");
        assert_eq!(images(&deployment, Timestamp::UNIX_EPOCH), "i,j");
        assert_eq!(selector(&deployment, Timestamp::UNIX_EPOCH), "a=b,c in (d,e)");
        assert_eq!(node_selector(&deployment, Timestamp::UNIX_EPOCH), "<none>");
    }

    #[test]
    fn a_job_shows_how_far_it_is() {
        let job = json!({"spec": {"completions": 3}, "status": {"succeeded": 1,
            "startTime": "2023-11-14T22:13:20Z", "completionTime": "2023-11-14T22:13:50Z",
            "conditions": [{"type": "Complete", "status": "True"}]}});
        assert_eq!(job_status(&job, Timestamp::UNIX_EPOCH), "Complete");
        assert_eq!(completions(&job, Timestamp::UNIX_EPOCH), "1/3");
        assert_eq!(duration(&job, Timestamp::UNIX_EPOCH), "30s");
    }
}
