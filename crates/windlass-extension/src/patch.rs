//! Patches by comparing two states of an object.
//!
//! A patch from here changes what differs and nothing else, and there is none where nothing differs: a
//! patch that says again what is so already makes callers believe that something changes.

use serde_json::{Map, Value, json};
use windlass_api::hooks::Patch;
use windlass_api::object::Object;

/// The operations (RFC 6902) that turn one value into the other; an empty list if they are equal.
///
/// Applies to exactly the first value. Items of a list are compared by their place after what both lists
/// begin and end with is left out, so one item inserted into a list is one operation.
pub fn json_patch(from: &Value, to: &Value) -> Value {
    let mut operations = Vec::new();
    compare(&mut String::new(), from, to, &mut operations);
    Value::Array(operations)
}

/// The overlay (RFC 7396) that turns one value into the other; for objects that are equal, `{}`.
///
/// # Errors
///
/// When the other value has a `null` in an object where an overlay would remove the field instead.
pub fn merge_patch(from: &Value, to: &Value) -> Result<Value, NotMergeable> {
    let changes = overlay(&mut String::new(), from, to)?;
    // An empty object would make an object of what is none, so that repeats itself.
    let nothing = || if to.is_object() { Value::Object(Map::new()) } else { to.clone() };
    Ok(changes.unwrap_or_else(nothing))
}

/// A patch of an object for an in-place response: the operations, or nothing if the objects are equal.
pub fn between(from: &Object, to: &Object) -> Option<Patch> {
    if from == to {
        return None;
    }
    let (from, to) = (Value::Object(from.as_map().clone()), Value::Object(to.as_map().clone()));
    Some(Patch::json_patch(&json_patch(&from, &to)))
}

/// Lays an overlay (RFC 7396) over a value.
pub fn apply_merge_patch(target: &mut Value, overlay: &Value) {
    let Value::Object(overlay) = overlay else {
        *target = overlay.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(fields) = target else { return };
    for (key, value) in overlay {
        if value.is_null() {
            fields.remove(key);
        } else {
            apply_merge_patch(fields.entry(key.as_str()).or_insert(Value::Null), value);
        }
    }
}

/// A `null` that an overlay cannot carry: to an overlay it means that the field is removed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a merge patch cannot set {path:?} to null")]
pub struct NotMergeable {
    /// Where it is, as an RFC 6901 pointer.
    pub path: String,
}

fn compare(path: &mut String, from: &Value, to: &Value, operations: &mut Vec<Value>) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(from), Value::Object(to)) => {
            for key in from.keys().filter(|key| !to.contains_key(*key)) {
                below(path, key, |path| operations.push(json!({"op": "remove", "path": path})));
            }
            for (key, value) in to {
                below(path, key, |path| match from.get(key) {
                    Some(before) => compare(path, before, value, operations),
                    None => operations.push(json!({"op": "add", "path": path, "value": value})),
                });
            }
        }
        (Value::Array(from), Value::Array(to)) => compare_lists(path, from, to, operations),
        _ => operations.push(json!({"op": "replace", "path": path, "value": to})),
    }
}

fn compare_lists(path: &mut String, from: &[Value], to: &[Value], operations: &mut Vec<Value>) {
    let start = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    let (from, to) = (&from[start..], &to[start..]);
    let end = from.iter().rev().zip(to.iter().rev()).take_while(|(a, b)| a == b).count();
    let (from, to) = (&from[..from.len() - end], &to[..to.len() - end]);

    let both = from.len().min(to.len());
    for (index, (before, value)) in from.iter().zip(to).enumerate() {
        below(path, &(start + index).to_string(), |path| compare(path, before, value, operations));
    }
    // From the back, because a removal moves everything behind it.
    for index in (both..from.len()).rev() {
        below(path, &(start + index).to_string(), |path| {
            operations.push(json!({"op": "remove", "path": path}));
        });
    }
    for (index, value) in to.iter().enumerate().skip(both) {
        below(path, &(start + index).to_string(), |path| {
            operations.push(json!({"op": "add", "path": path, "value": value}));
        });
    }
}

fn overlay(path: &mut String, from: &Value, to: &Value) -> Result<Option<Value>, NotMergeable> {
    let Value::Object(to_fields) = to else {
        return Ok((from != to).then(|| to.clone()));
    };
    // What is no object is replaced by an empty one before an overlay is laid over it.
    let empty = Map::new();
    let from_fields = from.as_object().unwrap_or(&empty);
    let mut changes = Map::new();
    for key in from_fields.keys().filter(|key| !to_fields.contains_key(*key)) {
        changes.insert(key.clone(), Value::Null);
    }
    for (key, value) in to_fields {
        let before = from_fields.get(key);
        if before == Some(value) {
            continue;
        }
        let change = below(path, key, |path| match value {
            Value::Null => Err(NotMergeable { path: path.clone() }),
            _ => overlay(path, before.unwrap_or(&Value::Null), value),
        })?;
        changes.extend(change.map(|change| (key.clone(), change)));
    }
    let changed = !changes.is_empty() || !from.is_object();
    Ok(changed.then_some(Value::Object(changes)))
}

/// Goes one step down, and back up.
fn below<T>(path: &mut String, key: &str, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.push('/');
    path.push_str(&key.replace('~', "~0").replace('/', "~1"));
    let result = visit(path);
    path.truncate(length);
    result
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn patches_are_as_small_as_a_person_would_write_them() {
        for (from, to, patch) in [
            (json!({"a": 1}), json!({"a": 1}), json!([])),
            (
                json!({"spec": {"version": "v1.32.0", "x/y~z": 1}}),
                json!({"spec": {"version": "v1.33.0", "x/y~z": 2}}),
                json!([
                    {"op": "replace", "path": "/spec/version", "value": "v1.33.0"},
                    {"op": "replace", "path": "/spec/x~1y~0z", "value": 2},
                ]),
            ),
            (
                json!({"gone": 1}),
                json!({"new": {"a": []}}),
                json!([{"op": "remove", "path": "/gone"}, {"op": "add", "path": "/new", "value": {"a": []}}]),
            ),
            (json!([1, 2, 3]), json!([1, 9, 2, 3]), json!([{"op": "add", "path": "/1", "value": 9}])),
            (
                json!([1, 2, 3]),
                json!([3]),
                json!([{"op": "remove", "path": "/1"}, {"op": "remove", "path": "/0"}]),
            ),
            (json!([{"a": 1}]), json!([{"a": 2}]), json!([{"op": "replace", "path": "/0/a", "value": 2}])),
            (json!(1), json!({}), json!([{"op": "replace", "path": "", "value": {}}])),
            (json!({"a": 1}), json!({"a": null}), json!([{"op": "replace", "path": "/a", "value": null}])),
        ] {
            assert_eq!(json_patch(&from, &to), patch, "{from} to {to}");
        }
    }

    #[test]
    fn overlays_contain_only_what_changes() {
        for (from, to, patch) in [
            (json!({"a": 1}), json!({"a": 1}), Ok(json!({}))),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), Ok(json!({"a": {"c": 3}}))),
            (json!({"a": 1, "b": 2}), json!({"b": 2}), Ok(json!({"a": null}))),
            (json!({"a": 1}), json!({"a": {}}), Ok(json!({"a": {}}))),
            (json!({"a": null}), json!({"a": null, "b": 1}), Ok(json!({"b": 1}))),
            (json!({}), json!({"a": {"b/c": null}}), Err(NotMergeable { path: "/a/b~1c".to_owned() })),
            (json!([1]), json!([1, null]), Ok(json!([1, null]))),
        ] {
            assert_eq!(merge_patch(&from, &to), patch, "{from} to {to}");
        }
    }

    #[test]
    fn equal_objects_need_no_patch() {
        let object = |value: Value| Object::try_from(value).unwrap();
        let (a, b) = (object(json!({"spec": {}})), object(json!({"spec": {"version": "v1.33.0"}})));
        assert_eq!(between(&a, &a), None);
        let patch = between(&a, &b).unwrap();
        assert_eq!(
            patch.patch.to_json().unwrap(),
            json!([{"op": "add", "path": "/spec/version", "value": "v1.33.0"}])
        );
    }

    /// Any JSON, with keys that need escaping and few distinct leaves, so that values often share parts.
    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            (0..4_i64).prop_map(Value::from),
            "[a-c]{0,2}".prop_map(Value::from),
        ];
        leaf.prop_recursive(4, 48, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[ab/~0-2]{0,2}", inner, 0..6)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_json_patch_leads_from_one_value_to_the_other(from in any_json(), to in any_json()) {
            let patch: json_patch::Patch = serde_json::from_value(json_patch(&from, &to)).unwrap();
            let mut patched = from.clone();
            json_patch::patch(&mut patched, &patch).unwrap();
            prop_assert_eq!(&patched, &to);
            prop_assert_eq!(json_patch(&patched, &to), json!([]));
        }

        #[test]
        fn an_overlay_leads_from_one_value_to_the_other(from in any_json(), to in any_json()) {
            if let Ok(overlay) = merge_patch(&from, &to) {
                let mut patched = from.clone();
                apply_merge_patch(&mut patched, &overlay);
                prop_assert_eq!(&patched, &to);
                let mut elsewhere = from.clone();
                json_patch::merge(&mut elsewhere, &overlay);
                prop_assert_eq!(&elsewhere, &to);
            }
        }
    }
}
