//! The patch that turns one value into another.

use serde_json::{Value, json};

use crate::pointer;

/// The operations that turn one value into the other; an empty list if they are equal.
///
/// Applies to exactly the first value, in both dialects. Items of a list are compared by their place
/// after what both lists begin and end with is left out, so one item inserted into a list is one
/// operation.
pub fn between(from: &Value, to: &Value) -> Value {
    let mut operations = Vec::new();
    compare(&mut String::new(), from, to, &mut operations);
    Value::Array(operations)
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

/// Goes one step down, and back up.
fn below(path: &mut String, name: &str, visit: impl FnOnce(&mut String)) {
    let length = path.len();
    pointer::push(path, name);
    visit(path);
    path.truncate(length);
}

#[cfg(test)]
mod tests {
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
            assert_eq!(between(&from, &to), patch, "{from} to {to}");
        }
    }
}
