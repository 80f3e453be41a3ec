//! Whether a template can be changed, or has to be replaced by a new one.

use serde_json::Value;
use windlass_api::names::{TOPOLOGY_DRY_RUN_ANNOTATION, TOPOLOGY_FIELD_MANAGER};

/// What differs between a template and what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateChange {
    /// Nothing.
    None,
    /// Labels, annotations, owners, or only which fields are the topology's: it is changed where it is.
    Metadata,
    /// What machines are made from. Templates are not changed in that: a new one gets a new name, and machines are
    /// rolled out from it.
    Spec,
}

/// Compares two answers to dry runs that carry the mark of a dry run: to one that leaves the template as it is, and to one
/// that applies the desired state.
///
/// Defaults of schemas and webhooks are then in both. Comparing with what is stored instead would take a default that
/// came with a newer release, or that a webhook adds to dry runs only, for a change, and roll out all machines.
pub fn template_change(current: &Value, applied: &Value) -> TemplateChange {
    let differs =
        |pointer: &str| meaningful(current.pointer(pointer)) != meaningful(applied.pointer(pointer));
    if differs("/spec") {
        TemplateChange::Spec
    } else if ["/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences"]
        .into_iter()
        .any(differs)
        || owned(current) != owned(applied)
    {
        TemplateChange::Metadata
    } else {
        TemplateChange::None
    }
}

/// The fields that the topology has applied. What it never applied it cannot take away later.
fn owned(template: &Value) -> Option<Value> {
    let entries = template.pointer("/metadata/managedFields").and_then(Value::as_array);
    let mut entries = entries.into_iter().flatten();
    let mut fields = entries
        .find(|entry| entry["manager"] == TOPOLOGY_FIELD_MANAGER && entry["operation"] == "Apply")?
        .get("fieldsV1")?
        .clone();
    if let Some(annotations) = fields.pointer_mut("/f:metadata/f:annotations").and_then(Value::as_object_mut)
    {
        annotations.remove(&format!("f:{TOPOLOGY_DRY_RUN_ANNOTATION}"));
    }
    Some(fields)
}

/// Nothing and an empty map mean the same.
fn meaningful(value: Option<&Value>) -> Option<&Value> {
    value.filter(|value| match value {
        Value::Null => false,
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_the_spec_asks_for_a_new_template() {
        let current = json!({"metadata": {"name": "t", "labels": {"a": "1"}, "resourceVersion": "1"}, "spec": {"x": 1}});
        for (applied, change) in [
            (
                json!({"metadata": {"name": "t", "labels": {"a": "1"}, "resourceVersion": "2"}, "spec": {"x": 1}}),
                TemplateChange::None,
            ),
            (
                json!({"metadata": {"labels": {"a": "1"}, "annotations": {}}, "spec": {"x": 1}}),
                TemplateChange::None,
            ),
            (json!({"metadata": {"labels": {"a": "2"}}, "spec": {"x": 1}}), TemplateChange::Metadata),
            (json!({"metadata": {"labels": {"a": "2"}}, "spec": {"x": 2}}), TemplateChange::Spec),
        ] {
            assert_eq!(template_change(&current, &applied), change, "{applied}");
        }
    }

    #[test]
    fn a_template_whose_fields_are_not_the_topologys_is_applied_where_it_is() {
        let entry = |manager: &str, fields: Value| {
            json!({"metadata": {"managedFields": [{"manager": manager, "operation": "Apply", "fieldsV1": fields}]},
                "spec": {"x": 1}})
        };
        let fields = json!({"f:spec": {"f:x": {}}, "f:metadata": {"f:annotations": {}}});
        let marked = json!({"f:spec": {"f:x": {}},
            "f:metadata": {"f:annotations": {"f:topology.cluster.x-k8s.io/dry-run": {}}}});
        let applied = entry(TOPOLOGY_FIELD_MANAGER, marked);
        for (current, change) in [
            (entry(TOPOLOGY_FIELD_MANAGER, fields.clone()), TemplateChange::None),
            (entry("before-first-apply", fields), TemplateChange::Metadata),
            (entry(TOPOLOGY_FIELD_MANAGER, json!({"f:spec": {"f:y": {}}})), TemplateChange::Metadata),
        ] {
            assert_eq!(template_change(&current, &applied), change, "{current}");
        }
    }
}
