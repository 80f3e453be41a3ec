//! What a patch has changed.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_patch::pointer;

/// Pointers of everything that differs between two values, without descending into lists.
pub(crate) fn changed_paths(before: &Value, after: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    collect_changes(before, after, "", &mut changed);
    changed
}

fn collect_changes(before: &Value, after: &Value, path: &str, changed: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let null = Value::Null;
                let (before, after) = (one.get(key).unwrap_or(&null), other.get(key).unwrap_or(&null));
                let mut below = path.to_owned();
                pointer::push(&mut below, key);
                collect_changes(before, after, &below, changed);
            }
        }
        _ if before != after => changed.push(path.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changes_are_found_where_they_are() {
        let before = json!({"spec": {"a": 1, "l": [1]}, "status": {"x": 1}});
        let after = json!({"spec": {"a": 2, "l": [2]}, "metadata": {"labels": {"b": "c"}}});
        assert_eq!(changed_paths(&before, &after), ["/metadata", "/spec/a", "/spec/l", "/status"]);
        assert!(changed_paths(&before, &before).is_empty());
    }
}
