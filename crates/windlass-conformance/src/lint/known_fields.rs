//! Which fields an ExtensionConfig has. The API server drops all others without a word.

use serde_json::Value;

/// Fields by the path of their object; `[]` stands for every entry of a list.
const KNOWN: [(&str, &[&str]); 9] = [
    ("", &["apiVersion", "kind", "metadata", "spec", "status"]),
    (
        "metadata",
        &[
            "name",
            "generateName",
            "namespace",
            "uid",
            "resourceVersion",
            "generation",
            "creationTimestamp",
            "deletionTimestamp",
            "deletionGracePeriodSeconds",
            "labels",
            "annotations",
            "ownerReferences",
            "finalizers",
            "managedFields",
            "selfLink",
        ],
    ),
    ("spec", &["clientConfig", "namespaceSelector", "settings"]),
    ("spec.clientConfig", &["url", "service", "caBundle"]),
    ("spec.clientConfig.service", &["namespace", "name", "path", "port"]),
    ("spec.namespaceSelector", &["matchLabels", "matchExpressions"]),
    ("spec.namespaceSelector.matchExpressions[]", &["key", "operator", "values"]),
    ("status", &["conditions", "handlers", "deprecated", "v1beta2"]),
    ("status.handlers[]", &["name", "requestHook", "timeoutSeconds", "failurePolicy"]),
];

/// How alike two names must be for one to be suggested for the other: 1 is the same.
const ALIKE: f64 = 0.75;

/// Path and explanation of every field that does not exist.
pub(super) fn unknown(document: &Value) -> Vec<(String, String)> {
    let mut found = Vec::new();
    visit(document, "", "", &mut found);
    found
}

/// `pattern` is the path in the table, `path` the one to report.
fn visit(value: &Value, pattern: &str, path: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::Object(fields) => {
            let Some((_, known)) = KNOWN.iter().find(|(known, _)| *known == pattern) else { return };
            for (name, value) in fields {
                let join = |base: &str| if base.is_empty() { name.clone() } else { format!("{base}.{name}") };
                if known.contains(&name.as_str()) {
                    visit(value, &join(pattern), &join(path), found);
                } else {
                    found.push((join(path), explain(name, known)));
                }
            }
        }
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                visit(item, &format!("{pattern}[]"), &format!("{path}[{index}]"), found);
            }
        }
        _ => {}
    }
}

fn explain(name: &str, known: &[&str]) -> String {
    let likeness = |candidate: &str| {
        strsim::normalized_damerau_levenshtein(&name.to_ascii_lowercase(), &candidate.to_ascii_lowercase())
    };
    let best = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match best.filter(|candidate| likeness(candidate) >= ALIKE) {
        Some(candidate) => format!("{name} is not a field; did you mean {candidate}?"),
        None => format!("{name} is not a field; known are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_is_not_mistaken_for_fields() {
        let document = json!({
            "metadata": {"labels": {"anything": "x"}, "annotations": {"a/b": "y"}},
            "spec": {"settings": {"any": "thing"}, "namespaceSelector": {"matchLabels": {"my": "label"}}},
        });
        assert_eq!(unknown(&document), []);
    }

    #[test]
    fn entries_of_lists_are_named_by_index() {
        let document =
            json!({"spec": {"namespaceSelector": {"matchExpressions": [{"key": "a"}, {"value": "b"}]}}});
        let (path, text) = &unknown(&document)[0];
        assert_eq!(path, "spec.namespaceSelector.matchExpressions[1].value");
        assert_eq!(text, "value is not a field; did you mean values?");
    }

    #[test]
    fn a_field_like_no_other_gets_the_list() {
        let (_, text) = &unknown(&json!({"spec": {"timeout": 5}}))[0];
        assert_eq!(text, "timeout is not a field; known are clientConfig, namespaceSelector, settings");
    }
}
