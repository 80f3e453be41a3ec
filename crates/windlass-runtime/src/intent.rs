//! Whether an intent was applied already, told from the object alone: after a restart nothing is remembered, and what is up
//! to date is not written again.

use serde_json::{Map, Value};

/// Fields that say which object it is. They have no field manager.
const IDENTITY: [&str; 4] = ["name", "namespace", "uid", "managedFields"];

/// Whether an object is what applying `intent` as `manager` would make of it: everything that is in the intent is there
/// and belongs to the manager, and nothing that the manager applied earlier has to go.
///
/// When in doubt the answer is no: applying once more changes nothing then.
pub(crate) fn is_applied(manager: &str, there: &Value, intent: &Value) -> bool {
    let entries = there.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut mine = entries.into_iter().flatten().filter(|entry| {
        entry["manager"] == manager && entry["operation"] == "Apply" && entry.get("subresource").is_none()
    });
    let owned = mine.next().and_then(|entry| entry["fieldsV1"].as_object().cloned());
    let (Some(mut owned), Some(mut wanted)) = (owned, intent.as_object().cloned()) else { return false };
    wanted.retain(|key, _| key != "apiVersion" && key != "kind");
    retain_in(&mut wanted, "metadata", |key, value| !IDENTITY.contains(&key) && !is_empty(value));
    retain_in(&mut owned, "f:metadata", |_, fields| !is_empty(fields));
    fields_match(&owned, there, &wanted)
}

/// Leaves out fields of a map in a map, and the map itself if nothing is left of it. In metadata there are only maps and
/// lists that several managers share: an empty one says nothing, neither in an intent nor as what was applied.
fn retain_in(fields: &mut Map<String, Value>, key: &str, keep: impl Fn(&str, &Value) -> bool) {
    if let Some(inner) = fields.get_mut(key).and_then(Value::as_object_mut) {
        inner.retain(|key, value| keep(key, value));
        if inner.is_empty() {
            fields.remove(key);
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        other => other.is_null(),
    }
}

/// Whether the fields of a map are those that are owned.
fn fields_match(owned: &Map<String, Value>, there: &Value, wanted: &Map<String, Value>) -> bool {
    let is_wanted =
        |path: &str| path == "." || path.strip_prefix("f:").is_some_and(|key| wanted.contains_key(key));
    owned.keys().all(|path| is_wanted(path))
        && wanted.iter().all(|(key, wanted)| {
            match (owned.get(&format!("f:{key}")).and_then(Value::as_object), there.get(key)) {
                (Some(owned), Some(there)) => matches(owned, there, wanted),
                // A null was not applied.
                _ => wanted.is_null(),
            }
        })
}

fn matches(owned: &Map<String, Value>, there: &Value, wanted: &Value) -> bool {
    match wanted {
        Value::Object(wanted) if !owned.is_empty() => fields_match(owned, there, wanted),
        Value::Array(wanted) if !owned.is_empty() => items_match(owned, there, wanted),
        // A value, or a map or list that is owned as a whole.
        _ => owned.is_empty() && there == wanted,
    }
}

/// Whether the items of a list are those that are owned: items with keys (`k:`) or values (`v:`).
fn items_match(owned: &Map<String, Value>, there: &Value, wanted: &[Value]) -> bool {
    let there = there.as_array().map(Vec::as_slice).unwrap_or_default();
    let items: Vec<(&String, &Value)> = owned.iter().filter(|(path, _)| *path != ".").collect();
    items.len() == wanted.len()
        && items.into_iter().all(|(path, owned)| {
            if let Some(keys) = path.strip_prefix("k:") {
                let Ok(Value::Object(keys)) = serde_json::from_str(keys) else { return false };
                let has_keys = |item: &&Value| keys.iter().all(|(key, value)| item.get(key) == Some(value));
                match (owned.as_object(), there.iter().find(has_keys), wanted.iter().find(has_keys)) {
                    (Some(owned), Some(there), Some(wanted)) => matches(owned, there, wanted),
                    _ => false,
                }
            } else if let Some(value) = path.strip_prefix("v:") {
                serde_json::from_str(value)
                    .is_ok_and(|value: Value| there.contains(&value) && wanted.contains(&value))
            } else {
                false
            }
        })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn there() -> Value {
        json!({
            "apiVersion": "x.y/v1", "kind": "K",
            "metadata": {
                "name": "n", "uid": "u", "labels": {"a": "1", "theirs": "2"},
                "ownerReferences": [{"uid": "o", "kind": "Cluster"}, {"uid": "p", "kind": "Other"}],
                "finalizers": ["mine", "theirs"],
                "managedFields": [
                    {"manager": "us", "operation": "Update", "fieldsV1": {"f:spec": {"f:defaulted": {}}}},
                    {"manager": "us", "operation": "Apply", "subresource": "status", "fieldsV1": {"f:status": {}}},
                    {"manager": "us", "operation": "Apply", "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:a": {}}, "f:finalizers": {"v:\"mine\"": {}},
                            "f:ownerReferences": {"k:{\"uid\":\"o\"}": {}}},
                        "f:spec": {"f:replicas": {}, "f:atomic": {}, "f:empty": {},
                            "f:list": {"k:{\"name\":\"x\"}": {".": {}, "f:name": {}, "f:value": {}}}}}},
                ],
            },
            "spec": {"replicas": 3, "defaulted": true, "atomic": {"k": [1]}, "empty": {},
                "list": [{"name": "x", "value": 1, "defaulted": 2}, {"name": "theirs"}]},
            "status": {"ready": true},
        })
    }

    fn intent() -> Value {
        json!({
            "apiVersion": "x.y/v1", "kind": "K",
            "metadata": {"name": "n", "uid": "u", "labels": {"a": "1"}, "finalizers": ["mine"],
                "ownerReferences": [{"uid": "o", "kind": "Cluster"}]},
            "spec": {"replicas": 3, "atomic": {"k": [1]}, "empty": {}, "list": [{"name": "x", "value": 1}],
                "nothing": null},
        })
    }

    #[test]
    fn what_was_applied_is_recognised() {
        assert!(is_applied("us", &there(), &intent()));
    }

    #[test]
    fn empty_metadata_says_nothing() {
        let mut wanted = intent();
        wanted["metadata"]["annotations"] = json!({});
        assert!(is_applied("us", &there(), &wanted), "as if they were not in the intent");
        let mut annotated = there();
        annotated["metadata"]["annotations"] = json!({"theirs": "1"});
        annotated["metadata"]["managedFields"][2]["fieldsV1"]["f:metadata"]["f:annotations"] = json!({});
        assert!(is_applied("us", &annotated, &wanted), "annotations of others are theirs");
        assert!(is_applied("us", &annotated, &intent()));
    }

    #[test]
    fn whatever_differs_has_to_be_applied() {
        for (pointer, value) in [
            ("/metadata/labels/a", json!("other")),
            ("/metadata/labels", json!({"a": "1", "b": "2"})),
            ("/metadata/labels", json!({"a": "1", "theirs": "2"})),
            ("/metadata/labels", json!({})),
            ("/metadata/finalizers", json!(["mine", "more"])),
            ("/metadata/finalizers", json!(["other"])),
            ("/metadata/ownerReferences", json!([{"uid": "p", "kind": "Other"}])),
            ("/spec/replicas", json!(4)),
            ("/spec/atomic", json!({"k": [1, 2]})),
            ("/spec/atomic", json!({})),
            ("/spec/empty", json!({"mine": 1})),
            ("/spec/list/0/value", json!(2)),
            ("/spec/list", json!([])),
            ("/spec/list", json!([{"name": "x", "value": 1}, {"name": "theirs"}])),
            ("/spec", json!({"replicas": 3})),
            ("/spec/nothing", json!("something")),
        ] {
            let mut changed = intent();
            *changed.pointer_mut(pointer).unwrap() = value.clone();
            assert!(!is_applied("us", &there(), &changed), "{pointer}: {value}");
        }
        assert!(!is_applied("them", &there(), &intent()));
        let mut moved = there();
        moved["spec"]["replicas"] = json!(5);
        assert!(!is_applied("us", &moved, &intent()), "another manager changed what is ours");
    }
}
