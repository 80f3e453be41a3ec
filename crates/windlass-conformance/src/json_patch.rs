//! Applies patches to JSON the way Cluster API does: RFC 6902 with negative array indices, and RFC 7396.

use serde_json::{Map, Value};

/// Why a patch does not apply.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("a JSON patch must be a list of operations")]
    NotAList,
    #[error("a merge patch must be an object")]
    NotAnObject,
    #[error("operation {index}: {reason}")]
    Operation { index: usize, reason: String },
}

/// Applies a list of operations.
pub(crate) fn apply_json_patch(document: &Value, patch: &Value) -> Result<Value, ApplyError> {
    let operations = patch.as_array().ok_or(ApplyError::NotAList)?;
    let mut document = document.clone();
    for (index, operation) in operations.iter().enumerate() {
        apply(&mut document, operation).map_err(|reason| ApplyError::Operation { index, reason })?;
    }
    Ok(document)
}

/// Lays an object over another.
pub(crate) fn apply_merge_patch(document: &Value, patch: &Value) -> Result<Value, ApplyError> {
    if !patch.is_object() {
        return Err(ApplyError::NotAnObject);
    }
    let mut document = document.clone();
    merge(&mut document, patch);
    Ok(document)
}

fn merge(document: &mut Value, patch: &Value) {
    let Value::Object(overlay) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(fields) = document else { return };
    for (key, value) in overlay {
        if value.is_null() {
            fields.remove(key);
        } else {
            merge(fields.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

fn apply(document: &mut Value, operation: &Value) -> Result<(), String> {
    let text = |name: &str| operation.get(name).and_then(Value::as_str);
    let path = text("path").ok_or("no path")?;
    let value = || operation.get("value").cloned().ok_or("no value");
    let from = || text("from").ok_or("no from");
    match text("op") {
        Some("add") => add(document, path, value()?),
        Some("remove") => remove(document, path).map(drop),
        Some("replace") => {
            let value = value()?;
            *find_mut(document, path)? = value;
            Ok(())
        }
        Some("move") => {
            let moved = remove(document, from()?)?;
            add(document, path, moved)
        }
        Some("copy") => {
            let copied = find_mut(document, from()?)?.clone();
            add(document, path, copied)
        }
        Some("test") => {
            let expected = value()?;
            let found = find_mut(document, path)?;
            if *found == expected { Ok(()) } else { Err(format!("{path} is not {expected}")) }
        }
        Some(other) => Err(format!("unknown operation {other:?}")),
        None => Err("no op".to_owned()),
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    let Some((parent, key)) = split(path)? else {
        *document = value;
        return Ok(());
    };
    match find_mut(document, parent)? {
        Value::Object(fields) => {
            fields.insert(key, value);
            Ok(())
        }
        Value::Array(items) => {
            let index = if key == "-" { items.len() } else { index(&key, items.len() + 1, path)? };
            items.insert(index, value);
            Ok(())
        }
        _ => Err(format!("{parent} is neither an object nor a list")),
    }
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let Some((parent, key)) = split(path)? else { return Ok(document.take()) };
    let missing = || format!("{path} does not exist");
    match find_mut(document, parent)? {
        Value::Object(fields) => fields.remove(&key).ok_or_else(missing),
        Value::Array(items) => {
            let index = index(&key, items.len(), path)?;
            Ok(items.remove(index))
        }
        _ => Err(missing()),
    }
}

fn find_mut<'a>(document: &'a mut Value, path: &str) -> Result<&'a mut Value, String> {
    let mut found = document;
    if path.is_empty() {
        return Ok(found);
    }
    let segments = path.strip_prefix('/').ok_or_else(|| format!("path {path:?} does not start with /"))?;
    for segment in segments.split('/') {
        let key = unescape(segment);
        let missing = || format!("{path} does not exist");
        found = match found {
            Value::Object(fields) => fields.get_mut(&key).ok_or_else(missing)?,
            Value::Array(items) => {
                let index = index(&key, items.len(), path)?;
                items.get_mut(index).ok_or_else(missing)?
            }
            _ => return Err(missing()),
        };
    }
    Ok(found)
}

/// Parent and last key; `None` for the whole document.
fn split(path: &str) -> Result<Option<(&str, String)>, String> {
    if path.is_empty() {
        return Ok(None);
    }
    let (parent, key) =
        path.rsplit_once('/').ok_or_else(|| format!("path {path:?} does not start with /"))?;
    Ok(Some((parent, unescape(key))))
}

/// An index below `length`. A negative one counts from the end.
fn index(key: &str, length: usize, path: &str) -> Result<usize, String> {
    let number: i64 = key.parse().map_err(|_| format!("{path}: {key:?} is not an index"))?;
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let number = if number < 0 { number + length } else { number };
    match usize::try_from(number) {
        Ok(index) if number < length => Ok(index),
        _ => Err(format!("{path}: index {key} is out of range")),
    }
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}

/// Pointers of everything that differs between two values, without descending into lists.
pub(crate) fn changed_paths(before: &Value, after: &Value) -> Vec<String> {
    let mut changed = Vec::new();
    collect_changes(before, after, "", &mut changed);
    changed
}

fn collect_changes(before: &Value, after: &Value, path: &str, changed: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(one), Value::Object(other)) => {
            let keys: std::collections::BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                let null = Value::Null;
                let (before, after) = (one.get(key).unwrap_or(&null), other.get(key).unwrap_or(&null));
                collect_changes(before, after, &format!("{path}/{key}"), changed);
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
    fn operations_apply_as_in_rfc_6902_with_negative_indices() {
        let document = json!({"a": {"b": [1, 2, 3]}, "x/y": 1});
        for (patch, expected) in [
            (json!([]), document.clone()),
            (
                json!([{"op": "add", "path": "/a/c", "value": 4}]),
                json!({"a": {"b": [1, 2, 3], "c": 4}, "x/y": 1}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/-", "value": 4}]),
                json!({"a": {"b": [1, 2, 3, 4]}, "x/y": 1}),
            ),
            (
                json!([{"op": "add", "path": "/a/b/0", "value": 0}]),
                json!({"a": {"b": [0, 1, 2, 3]}, "x/y": 1}),
            ),
            (json!([{"op": "remove", "path": "/a/b/-1"}]), json!({"a": {"b": [1, 2]}, "x/y": 1})),
            (
                json!([{"op": "replace", "path": "/x~1y", "value": 2}]),
                json!({"a": {"b": [1, 2, 3]}, "x/y": 2}),
            ),
            (json!([{"op": "move", "from": "/x~1y", "path": "/z"}]), json!({"a": {"b": [1, 2, 3]}, "z": 1})),
            (
                json!([{"op": "copy", "from": "/a/b/0", "path": "/z"}]),
                json!({"a": {"b": [1, 2, 3]}, "x/y": 1, "z": 1}),
            ),
            (json!([{"op": "test", "path": "/a/b/1", "value": 2}]), document.clone()),
            (json!([{"op": "add", "path": "", "value": {}}]), json!({})),
        ] {
            assert_eq!(apply_json_patch(&document, &patch), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn operations_on_what_is_not_there_are_errors() {
        let document = json!({"a": [1]});
        for patch in [
            json!({}),
            json!([{"op": "add", "path": "/b/c", "value": 1}]),
            json!([{"op": "replace", "path": "/b", "value": 1}]),
            json!([{"op": "remove", "path": "/b"}]),
            json!([{"op": "add", "path": "/a/2", "value": 1}]),
            json!([{"op": "remove", "path": "/a/-2"}]),
            json!([{"op": "remove", "path": "/a/x"}]),
            json!([{"op": "test", "path": "/a/0", "value": 2}]),
            json!([{"op": "add", "path": "b", "value": 1}]),
            json!([{"op": "add", "path": "/b"}]),
            json!([{"op": "prepend", "path": "/b"}]),
            json!([{"path": "/b"}]),
        ] {
            assert!(apply_json_patch(&document, &patch).is_err(), "{patch}");
        }
    }

    #[test]
    fn merge_patches_apply_as_in_rfc_7396() {
        let document = json!({"a": {"b": 1, "c": 2}, "l": [1]});
        let patch = json!({"a": {"b": null, "d": {"e": 1}}, "l": [2]});
        assert_eq!(apply_merge_patch(&document, &patch), Ok(json!({"a": {"c": 2, "d": {"e": 1}}, "l": [2]})));
        assert_eq!(apply_merge_patch(&document, &json!([])), Err(ApplyError::NotAnObject));
    }

    #[test]
    fn changes_are_found_where_they_are() {
        let before = json!({"spec": {"a": 1, "l": [1]}, "status": {"x": 1}});
        let after = json!({"spec": {"a": 2, "l": [2]}, "metadata": {"labels": {"b": "c"}}});
        assert_eq!(changed_paths(&before, &after), ["/metadata", "/spec/a", "/spec/l", "/status"]);
        assert!(changed_paths(&before, &before).is_empty());
    }
}
