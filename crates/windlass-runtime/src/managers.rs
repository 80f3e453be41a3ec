//! Who manages what of an object that others have managed before: older releases, or an API server that lost count.
//!
//! Server-side apply takes away what its manager applied before and does not apply now. That is what makes it useful, and
//! what makes the first apply after a takeover dangerous.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{FieldsV1, ManagedFieldsEntry};
use kube::api::ObjectMeta;
use serde_json::{Map, Value, json};

/// What API servers call the manager of everything that was there before the first apply, if nothing was on record.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What upstream's controllers are called when they do not apply: the name of their binary.
const UPSTREAM_MANAGER: &str = "manager";

/// Finalizers that a manager has applied and that are still there. Upstream's controllers apply the finalizers that they
/// find; an intent without them would take them off, and an object that is deleted in that moment would be gone at once.
pub(crate) fn applied_finalizers(meta: &ObjectMeta, manager: &str) -> Vec<String> {
    let owned = meta.managed_fields.iter().flatten().find(|entry| is_apply(entry, manager));
    let owned = owned.and_then(|entry| entry.fields_v1.as_ref()?.0.pointer("/f:metadata/f:finalizers"));
    let owns = |finalizer: &&String| {
        owned.is_some_and(|owned| owned.get(format!("v:{}", json!(finalizer))).is_some())
    };
    meta.finalizers.iter().flatten().filter(owns).cloned().collect()
}

/// The managers that an object should have before a manager applies to it, if it has others: without a record the first
/// apply would make the API server manage everything that is there, and nothing could ever be taken away again.
pub(crate) fn with_a_record(
    meta: &ObjectMeta,
    manager: &str,
    api_version: &str,
) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = meta.managed_fields.as_deref().unwrap_or_default();
    let kept: Vec<ManagedFieldsEntry> = entries
        .iter()
        .filter(|entry| entry.manager.as_deref() != Some(BEFORE_FIRST_APPLY))
        .cloned()
        .collect();
    match (entries.len(), kept.len()) {
        (_, 0) => Some(vec![seed(manager, api_version)]),
        (before, after) if before == after => None,
        _ => Some(kept),
    }
}

/// The managers that an object should have whose labels and annotations were once applied together with its spec, if they
/// still are: with two managers no label can be taken off again. `stays` is the label that the manager of the spec may
/// have.
pub(crate) fn with_metadata_apart(
    meta: &ObjectMeta,
    spec_manager: &str,
    stays: &str,
    (metadata_manager, api_version): (&str, &str),
) -> Option<Vec<ManagedFieldsEntry>> {
    let entries = meta.managed_fields.as_deref().unwrap_or_default();
    let labels = |entry: &ManagedFieldsEntry| -> Option<Map<String, Value>> {
        entry.fields_v1.as_ref()?.0.pointer("/f:metadata/f:labels")?.as_object().cloned()
    };
    let owned = entries.iter().find(|entry| is_apply(entry, spec_manager)).and_then(labels)?;
    if !owned.keys().any(|path| path != "." && path.strip_prefix("f:") != Some(stays)) {
        return None;
    }
    let mut after: Vec<ManagedFieldsEntry> = entries
        .iter()
        .filter_map(|entry| {
            let is_upstreams = entry.manager.as_deref() == Some(UPSTREAM_MANAGER)
                && entry.operation.as_deref() == Some("Update")
                && entry.subresource.is_none();
            match is_apply(entry, spec_manager) || is_upstreams {
                true => without_metadata(entry),
                false => Some(entry.clone()),
            }
        })
        .collect();
    if !after.iter().any(|entry| is_apply(entry, metadata_manager)) {
        after.push(seed(metadata_manager, api_version));
    }
    Some(after)
}

fn is_apply(entry: &ManagedFieldsEntry, manager: &str) -> bool {
    entry.manager.as_deref() == Some(manager)
        && entry.operation.as_deref() == Some("Apply")
        && entry.subresource.is_none()
}

/// An entry that manages no labels and annotations; nothing if it managed nothing else.
fn without_metadata(entry: &ManagedFieldsEntry) -> Option<ManagedFieldsEntry> {
    let mut entry = entry.clone();
    let fields = entry.fields_v1.as_mut()?.0.as_object_mut()?;
    if let Some(metadata) = fields.get_mut("f:metadata").and_then(Value::as_object_mut) {
        metadata.remove("f:labels");
        metadata.remove("f:annotations");
        if metadata.is_empty() {
            fields.remove("f:metadata");
        }
    }
    (!fields.is_empty()).then_some(entry)
}

/// An entry that claims nothing of value, in the form that upstream writes.
fn seed(manager: &str, api_version: &str) -> ManagedFieldsEntry {
    ManagedFieldsEntry {
        manager: Some(manager.to_owned()),
        operation: Some("Apply".to_owned()),
        api_version: Some(api_version.to_owned()),
        fields_type: Some("FieldsV1".to_owned()),
        fields_v1: Some(FieldsV1(json!({"f:metadata": {"f:name": {}}}))),
        ..ManagedFieldsEntry::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(value: &Value) -> ObjectMeta {
        serde_json::from_value(value.clone()).unwrap()
    }

    fn entry(manager: &str, operation: &str, fields: &Value) -> Value {
        json!({"manager": manager, "operation": operation, "apiVersion": "x/v1", "fieldsType": "FieldsV1",
            "fieldsV1": fields})
    }

    #[test]
    fn finalizers_that_were_applied_are_kept_and_those_of_others_are_theirs() {
        let fields = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"ours\"": {}, "v:\"gone\"": {}}}});
        let meta = meta(
            &json!({"finalizers": ["ours", "theirs"], "managedFields": [entry("us", "Apply", &fields)]}),
        );
        assert_eq!(applied_finalizers(&meta, "us"), ["ours"]);
        assert_eq!(applied_finalizers(&meta, "them"), [""; 0]);
    }

    #[test]
    fn an_object_without_a_record_gets_one() {
        let seeded = json!([entry("us", "Apply", &json!({"f:metadata": {"f:name": {}}}))]);
        let other = entry("them", "Update", &json!({"f:spec": {}}));
        let lost = entry(BEFORE_FIRST_APPLY, "Update", &json!({"f:spec": {}}));
        for (before, after) in [
            (json!([]), Some(&seeded)),
            (json!([lost]), Some(&seeded)),
            (json!([lost, other]), Some(&json!([other]))),
            (json!([other]), None),
        ] {
            let found = with_a_record(&meta(&json!({"managedFields": before})), "us", "x/v1");
            assert_eq!(found.map(|found| json!(found)).as_ref(), after, "{before}");
        }
    }

    #[test]
    fn labels_that_were_applied_with_the_spec_are_handed_over() {
        let spec = json!({"f:spec": {"f:x": {}}, "f:metadata": {"f:labels": {"f:cluster": {}, "f:set": {}},
            "f:annotations": {"f:a": {}}, "f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}}});
        let created = json!({"f:metadata": {"f:labels": {"f:set": {}}}});
        let status = json!({"manager": "manager", "operation": "Update", "subresource": "status"});
        let before = json!({"managedFields": [entry("us", "Apply", &spec), entry("manager", "Update", &created),
            status, entry("kubectl-edit", "Update", &created)]});
        let metadata = ("us-metadata", "x/v1");
        let after = json!(with_metadata_apart(&meta(&before), "us", "cluster", metadata).unwrap());
        let kept =
            json!({"f:spec": {"f:x": {}}, "f:metadata": {"f:ownerReferences": {"k:{\"uid\":\"1\"}": {}}}});
        assert_eq!(
            after,
            json!([
                entry("us", "Apply", &kept),
                status,
                entry("kubectl-edit", "Update", &created),
                entry("us-metadata", "Apply", &json!({"f:metadata": {"f:name": {}}}))
            ])
        );
        let again = meta(&json!({"managedFields": after}));
        assert_eq!(with_metadata_apart(&again, "us", "cluster", metadata), None);
        let new = json!({"f:spec": {}, "f:metadata": {"f:labels": {".": {}, "f:cluster": {}}}});
        let new = meta(&json!({"managedFields": [entry("us", "Apply", &new)]}));
        assert_eq!(
            with_metadata_apart(&new, "us", "cluster", metadata),
            None,
            "only the label that it may have"
        );
    }
}
