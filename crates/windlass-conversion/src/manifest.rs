//! Objects of files: lists of them, and what a live cluster has added.

use serde_json::Value;

/// What a live cluster writes into `metadata`, and what would be wrong anywhere else. Owners are known by their uid, and an
/// object whose owner is not there is deleted.
const OF_A_LIVE_CLUSTER: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The objects of a document: what `kubectl get` prints for several is a list of them, and a document may be empty.
pub fn items(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Object(mut list) if is_list(&list) => match list.remove("items") {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        },
        other => vec![other],
    }
}

fn is_list(object: &serde_json::Map<String, Value>) -> bool {
    let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
    kind == "List" || kind.ends_with("List") && object.get("items").is_some_and(Value::is_array)
}

/// An object of a live cluster as a user would have written it: without status, and without what the cluster keeps of it.
pub fn as_written(mut object: Value) -> Value {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
        if let Some(Value::Object(metadata)) = fields.get_mut("metadata") {
            metadata.retain(|name, _| !OF_A_LIVE_CLUSTER.contains(&name.as_str()));
        }
    }
    object
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_are_their_objects() {
        let (a, b) = (json!({"kind": "A"}), json!({"kind": "B"}));
        assert_eq!(items(json!({"apiVersion": "v1", "kind": "List", "items": [a, b]})), [a.clone(), b]);
        assert_eq!(items(json!({"kind": "ClusterList", "items": [a]})), std::slice::from_ref(&a));
        assert_eq!(
            items(json!({"kind": "AllowList", "spec": {}})),
            [json!({"kind": "AllowList", "spec": {}})]
        );
        assert_eq!(items(a.clone()), [a]);
        assert!(items(Value::Null).is_empty());
    }

    #[test]
    fn what_a_live_cluster_has_added_goes() {
        let live = json!({"kind": "A", "metadata": {"name": "a", "uid": "u", "resourceVersion": "7", "labels": {"l": ""},
            "managedFields": [{}], "ownerReferences": [{"uid": "o"}], "generation": 3}, "spec": {}, "status": {"x": 1}});
        assert_eq!(
            as_written(live),
            json!({"kind": "A", "metadata": {"name": "a", "labels": {"l": ""}}, "spec": {}})
        );
    }
}
