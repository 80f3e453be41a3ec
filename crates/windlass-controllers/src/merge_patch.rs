//! The smallest merge patch between two states of an object: writing it claims nothing that did not change.

use serde::Serialize;
use serde_json::{Map, Value};

/// What turns one state into another, as a JSON merge patch; nothing if they are the same. Lists are replaced as a whole,
/// so a patch with one in it has to be written with the version of the object that was read.
pub(crate) fn between(before: &impl Serialize, after: &impl Serialize) -> Option<Value> {
    // Types of the API have no maps with other keys than texts, so they always encode.
    let encode = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
    difference(&encode(serde_json::to_value(before)), &encode(serde_json::to_value(after)))
}

fn difference(before: &Value, after: &Value) -> Option<Value> {
    let (Value::Object(old), Value::Object(new)) = (before, after) else {
        return (before != after).then(|| after.clone());
    };
    let mut patch = Map::new();
    for (key, value) in new {
        match old.get(key) {
            None => drop(patch.insert(key.clone(), value.clone())),
            Some(known) => {
                if let Some(inner) = difference(known, value) {
                    patch.insert(key.clone(), inner);
                }
            }
        }
    }
    for key in old.keys().filter(|key| !new.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_changed_is_in_the_patch() {
        let before = json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": true, "list": [1, 2]});
        let after = json!({"a": 1, "b": {"c": 1, "d": 3}, "new": {"x": 1}, "list": [1]});
        let patch = json!({"b": {"d": 3}, "new": {"x": 1}, "gone": null, "list": [1]});
        assert_eq!(between(&before, &after), Some(patch));
        assert_eq!(between(&after, &after), None);
    }
}
