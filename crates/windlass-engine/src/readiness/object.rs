//! What findings read of objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;
use windlass_api::names::CLUSTER_NAME_LABEL;

use super::Objects;
use crate::pause::Pause;

/// Whether an object says by a label or in its spec that it belongs to a Cluster.
pub(super) fn belongs(object: &Value, cluster: &Value) -> bool {
    object["metadata"]["namespace"] == cluster["metadata"]["namespace"]
        && [&object["spec"]["clusterName"], &object["metadata"]["labels"][CLUSTER_NAME_LABEL]]
            .contains(&&cluster["metadata"]["name"])
}

pub(super) fn machines_of<'a>(objects: &'a Objects, cluster: &'a Value) -> impl Iterator<Item = &'a Value> {
    objects.machines.iter().filter(move |machine| belongs(machine, cluster))
}

/// Whether its own annotation pauses an object.
pub(super) fn is_paused_itself(object: &Value) -> bool {
    let metadata: Option<ObjectMeta> = serde_json::from_value(object["metadata"].clone()).ok();
    metadata.is_some_and(|metadata| Pause::of(&metadata, None).is_some())
}

pub(super) fn annotation<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    object["metadata"]["annotations"].get(name)?.as_str()
}

/// The status of a condition.
pub(super) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

pub(super) fn name(object: &Value) -> String {
    text(&object["metadata"]["name"])
}

pub(super) fn namespace(object: &Value) -> String {
    text(&object["metadata"]["namespace"])
}

pub(super) fn full_name(object: &Value) -> String {
    format!("{}/{}", namespace(object), name(object))
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
