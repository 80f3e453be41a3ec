//! Whether a template can be changed, or has to be replaced by a new one.

use serde_json::Value;

/// What differs between a template and what it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateChange {
    /// Nothing.
    None,
    /// Labels, annotations or owners: it is changed where it is.
    Metadata,
    /// What machines are made from. Templates are not changed in that: a new one gets a new name, and machines are
    /// rolled out from it.
    Spec,
}

/// Compares a template with what applying the desired state would make of it.
pub fn template_change(current: &Value, applied: &Value) -> TemplateChange {
    let differs =
        |pointer: &str| meaningful(current.pointer(pointer)) != meaningful(applied.pointer(pointer));
    if differs("/spec") {
        TemplateChange::Spec
    } else if ["/metadata/labels", "/metadata/annotations", "/metadata/ownerReferences"]
        .into_iter()
        .any(differs)
    {
        TemplateChange::Metadata
    } else {
        TemplateChange::None
    }
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
}
