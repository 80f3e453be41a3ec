//! Whether an intent was applied already, so that nothing has to be written.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

/// Whether the metadata of an object are what applying `intent` as `manager` would make of them: everything that is in
/// the intent is there, and nothing that the manager applied earlier has to go.
pub fn is_applied(manager: &str, there: &ObjectMeta, intent: &ObjectMeta) -> bool {
    let owned = |field: &str| owned_keys(manager, there, field);
    holds(there.labels.as_ref(), intent.labels.as_ref(), &owned("f:labels"))
        && holds(there.annotations.as_ref(), intent.annotations.as_ref(), &owned("f:annotations"))
        && intent
            .owner_references
            .iter()
            .flatten()
            .all(|owner| there.owner_references.iter().flatten().any(|present| present == owner))
}

fn holds(
    there: Option<&BTreeMap<String, String>>,
    intent: Option<&BTreeMap<String, String>>,
    owned: &BTreeSet<String>,
) -> bool {
    let empty = BTreeMap::new();
    let (there, intent) = (there.unwrap_or(&empty), intent.unwrap_or(&empty));
    intent.iter().all(|(key, value)| there.get(key) == Some(value))
        && owned.iter().all(|key| intent.contains_key(key))
}

/// The keys of a map in the metadata that a manager applied.
fn owned_keys(manager: &str, there: &ObjectMeta, field: &str) -> BTreeSet<String> {
    let entries = there.managed_fields.iter().flatten().filter(|entry| {
        entry.manager.as_deref() == Some(manager)
            && entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().unwrap_or_default().is_empty()
    });
    let fields =
        entries.filter_map(|entry| entry.fields_v1.as_ref()?.0.get("f:metadata")?.get(field)?.as_object());
    let keys = fields.flat_map(|fields: &serde_json::Map<String, Value>| fields.keys());
    keys.filter_map(|key| key.strip_prefix("f:").map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn meta(labels: Value, owned: Value) -> ObjectMeta {
        serde_json::from_value(json!({
            "labels": labels,
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "n", "uid": "u"}],
            "managedFields": [
                {"manager": "us", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": owned}}},
                {"manager": "us", "operation": "Update", "fieldsV1": {"f:metadata": {"f:labels": {"f:z": {}}}}},
                {"manager": "us", "operation": "Apply", "subresource": "status",
                    "fieldsV1": {"f:metadata": {"f:labels": {"f:z": {}}}}},
                {"manager": "them", "operation": "Apply", "fieldsV1": {"f:metadata": {"f:labels": {"f:z": {}}}}},
            ],
        }))
        .unwrap()
    }

    #[test]
    fn an_intent_is_applied_if_all_of_it_is_there_and_nothing_of_an_earlier_one_is_left() {
        let intent = |labels: Value| serde_json::from_value::<ObjectMeta>(json!({"labels": labels})).unwrap();
        let there = meta(json!({"a": "1", "b": "2", "z": "3"}), json!({"f:a": {}, "f:b": {}}));
        for (labels, expected) in [
            (json!({"a": "1", "b": "2"}), true),
            (json!({"a": "1", "b": "other"}), false),
            (json!({"a": "1", "b": "2", "c": "4"}), false),
            // `b` was applied and is not wanted any more.
            (json!({"a": "1"}), false),
            // What somebody else has is no business of ours.
            (json!({"a": "1", "b": "2", "z": "3"}), true),
        ] {
            assert_eq!(is_applied("us", &there, &intent(labels.clone())), expected, "{labels}");
        }
        let owned_by_other = serde_json::from_value(json!({"labels": {"a": "1", "b": "2"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "m", "uid": "v"}]}))
        .unwrap();
        assert!(!is_applied("us", &there, &owned_by_other));
    }
}
