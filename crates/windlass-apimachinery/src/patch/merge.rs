//! JSON merge patch, RFC 7386: an object says what changes, `null` what goes.

use serde_json::{Map, Value};

use crate::depth::{self, TooDeep};

/// The target with the patch applied.
pub fn merge_patch(target: &Value, patch: &Value) -> Result<Value, TooDeep> {
    depth::check(target)?;
    depth::check(patch)?;
    Ok(merge_patch_checked(target, patch))
}

/// As [`merge_patch`], for documents that [`depth::check`] accepts or that were just read.
pub fn merge_patch_checked(target: &Value, patch: &Value) -> Value {
    let mut merged = target.clone();
    merge(&mut merged, patch);
    merged
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (name, change) in changes {
        if change.is_null() {
            fields.remove(name);
        } else {
            // Also for a new field: what the patch says with `null` must not become a value.
            merge(fields.entry(name.clone()).or_insert(Value::Null), change);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_examples_of_the_rfc_hold() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (target, patch, expected) in cases {
            assert_eq!(merge_patch(&target, &patch), Ok(expected), "{patch} on {target}");
        }
    }

    #[test]
    fn too_deep_a_patch_is_refused() {
        let deep = depth::tests::nested(10_000);
        assert_eq!(merge_patch(&json!({}), &deep), Err(TooDeep));
        assert_eq!(merge_patch(&deep, &json!({})), Err(TooDeep));
        depth::tests::dismantle(deep);
    }
}
