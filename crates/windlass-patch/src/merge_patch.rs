//! JSON merge patch, RFC 7386: an object says what changes, `null` says what is removed.

use serde_json::{Map, Value};

use crate::depth::{self, TooDeep};
use crate::pointer;

/// The target with the patch applied, for documents that a client sent.
///
/// # Errors
///
/// When one of them nests too deep.
pub fn apply(target: &Value, patch: &Value) -> Result<Value, TooDeep> {
    depth::check(target)?;
    depth::check(patch)?;
    let mut merged = target.clone();
    apply_to(&mut merged, patch);
    Ok(merged)
}

/// Applies the patch to the target. Recurses as deep as the patch nests: it must be one that
/// [`depth::check`] accepts, or that `serde_json` has just read.
pub fn apply_to(target: &mut Value, patch: &Value) {
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
            apply_to(fields.entry(name.as_str()).or_insert(Value::Null), change);
        }
    }
}

/// The smallest patch that turns one value into the other; `None` if they are equal. Lists are replaced
/// as a whole.
///
/// # Errors
///
/// When the other value has a `null` in an object, which a merge patch would remove instead.
pub fn between(from: &Value, to: &Value) -> Result<Option<Value>, NotMergeable> {
    if from == to { Ok(None) } else { changes(&mut String::new(), from, to) }
}

/// A `null` that a merge patch cannot carry: in it, `null` means that the field is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a merge patch cannot set {path:?} to null")]
pub struct NotMergeable {
    /// Where the `null` is, as a JSON pointer.
    pub path: String,
}

fn changes(path: &mut String, from: &Value, to: &Value) -> Result<Option<Value>, NotMergeable> {
    let Value::Object(to_fields) = to else {
        return Ok((from != to).then(|| to.clone()));
    };
    // What is not an object is replaced by an empty one before a patch is applied to it.
    let empty = Map::new();
    let from_fields = from.as_object().unwrap_or(&empty);
    let mut patch = Map::new();
    for name in from_fields.keys().filter(|name| !to_fields.contains_key(*name)) {
        patch.insert(name.clone(), Value::Null);
    }
    for (name, value) in to_fields {
        let before = from_fields.get(name);
        if before == Some(value) {
            continue;
        }
        let length = path.len();
        pointer::push(path, name);
        if value.is_null() {
            return Err(NotMergeable { path: path.clone() });
        }
        let change = changes(path, before.unwrap_or(&Value::Null), value)?;
        path.truncate(length);
        patch.extend(change.map(|change| (name.clone(), change)));
    }
    let changed = !patch.is_empty() || !from.is_object();
    Ok(changed.then_some(Value::Object(patch)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::depth::hostile::{dismantle, nested};

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
            (
                json!({"a": {"b": 1, "c": 2}, "l": [1]}),
                json!({"a": {"b": null, "d": {"e": 1}}, "l": [2]}),
                json!({"a": {"c": 2, "d": {"e": 1}}, "l": [2]}),
            ),
        ];
        for (target, patch, expected) in cases {
            assert_eq!(apply(&target, &patch), Ok(expected), "{patch} on {target}");
        }
    }

    #[test]
    fn too_deep_a_patch_is_refused() {
        let deep = nested(10_000);
        assert_eq!(apply(&json!({}), &deep), Err(TooDeep));
        assert_eq!(apply(&deep, &json!({})), Err(TooDeep));
        dismantle(deep);
    }

    #[test]
    fn only_what_changed_is_in_the_patch() {
        let not_mergeable = |path: &str| Err(NotMergeable { path: path.to_owned() });
        for (from, to, patch) in [
            (json!({"a": 1}), json!({"a": 1}), Ok(None)),
            (json!(1), json!(1), Ok(None)),
            (json!([]), json!([]), Ok(None)),
            (
                json!({"a": {"b": 1, "c": 2}}),
                json!({"a": {"b": 1, "c": 3}}),
                Ok(Some(json!({"a": {"c": 3}}))),
            ),
            (json!({"a": 1, "b": 2}), json!({"b": 2}), Ok(Some(json!({"a": null})))),
            (json!({"a": 1}), json!({"a": {}}), Ok(Some(json!({"a": {}})))),
            (json!(null), json!({}), Ok(Some(json!({})))),
            (json!({"a": 1}), json!(null), Ok(Some(json!(null)))),
            (json!({"a": null}), json!({"a": null, "b": 1}), Ok(Some(json!({"b": 1})))),
            (json!({}), json!({"a": {"b/c": null}}), not_mergeable("/a/b~1c")),
            (json!({"a": {"b": 1}}), json!({"a": {"b": null}}), not_mergeable("/a/b")),
            (json!([1]), json!([1, null]), Ok(Some(json!([1, null])))),
            (
                json!({"a": 1, "b": {"c": 1, "d": 2}, "gone": true, "list": [1, 2]}),
                json!({"a": 1, "b": {"c": 1, "d": 3}, "new": {"x": 1}, "list": [1]}),
                Ok(Some(json!({"b": {"d": 3}, "new": {"x": 1}, "gone": null, "list": [1]}))),
            ),
        ] {
            assert_eq!(between(&from, &to), patch, "{from} to {to}");
        }
    }
}
