//! Patches by comparing two states of an object.
//!
//! A patch from here changes what differs and nothing else, and there is none where nothing differs: a
//! patch that says again what is so already makes callers believe that something changes.

use serde_json::{Map, Value};
use windlass_api::hooks::Patch;
use windlass_api::object::Object;
pub use windlass_patch::json_patch::between as json_patch;
use windlass_patch::merge_patch;
pub use windlass_patch::merge_patch::{NotMergeable, apply_to as apply_merge_patch};
pub use windlass_patch::pointer;

/// The merge patch (RFC 7386) that turns one value into the other; for objects that are equal, `{}`.
///
/// # Errors
///
/// When the other value has a `null` in an object where a merge patch would remove the field instead.
pub fn merge_patch(from: &Value, to: &Value) -> Result<Value, NotMergeable> {
    // An empty object would make an object of what is none, so that repeats itself.
    let nothing = || if to.is_object() { Value::Object(Map::new()) } else { to.clone() };
    Ok(merge_patch::between(from, to)?.unwrap_or_else(nothing))
}

/// A patch of an object for an in-place response: the operations, or nothing if the objects are equal.
pub fn between(from: &Object, to: &Object) -> Option<Patch> {
    if from == to {
        return None;
    }
    let (from, to) = (Value::Object(from.as_map().clone()), Value::Object(to.as_map().clone()));
    Some(Patch::json_patch(&json_patch(&from, &to)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn overlays_contain_only_what_changes() {
        for (from, to, patch) in [
            (json!({"a": 1}), json!({"a": 1}), Ok(json!({}))),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), Ok(json!({"a": {"c": 3}}))),
            (json!([1]), json!([1]), Ok(json!([1]))),
            (json!([]), json!([]), Ok(json!([]))),
            (json!({}), json!({"a": {"b/c": null}}), Err(NotMergeable { path: "/a/b~1c".to_owned() })),
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
}
