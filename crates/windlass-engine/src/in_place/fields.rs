//! In which fields two objects differ.

use std::collections::BTreeSet;
use std::fmt;

use serde_json::Value;

/// A field of an object, by its path.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// Kind of the object.
    pub kind: String,
    /// The path, from the top of the object.
    pub path: String,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.path)
    }
}

/// A JSON pointer as paths are written.
pub(super) fn path_of(pointer: &str) -> String {
    let names = windlass_patch::pointer::names(pointer).unwrap_or_default();
    names.iter().fold(String::new(), |at, name| below(&at, name))
}

/// The paths below `at` in which two values differ. Lists are compared place by place: two extensions may each add an
/// item to one list.
pub(super) fn differing(one: Option<&Value>, other: Option<&Value>, at: &str) -> BTreeSet<String> {
    let mut paths = BTreeSet::new();
    collect(one, other, at, &mut paths);
    paths
}

fn collect(one: Option<&Value>, other: Option<&Value>, at: &str, paths: &mut BTreeSet<String>) {
    match (one, other) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let keys: BTreeSet<&String> = one.keys().chain(other.keys()).collect();
            for key in keys {
                collect(one.get(key), other.get(key), &below(at, key), paths);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                collect(one.get(index), other.get(index), &format!("{at}[{index}]"), paths);
            }
        }
        // Something against nothing: every field of it for itself, so that several extensions can share it.
        (Some(Value::Object(map)), None) | (None, Some(Value::Object(map))) if !map.is_empty() => {
            for (key, value) in map {
                let (one, other) = if one.is_some() { (Some(value), None) } else { (None, Some(value)) };
                collect(one, other, &below(at, key), paths);
            }
        }
        (one, other) if same(one, other) => {}
        _ => {
            paths.insert(at.to_owned());
        }
    }
}

/// Numbers are the same if they mean the same: an extension in another language may write 1 as 1.0.
fn same(one: Option<&Value>, other: Option<&Value>) -> bool {
    match (one, other) {
        (Some(Value::Number(one)), Some(Value::Number(other))) => {
            one == other || one.as_f64().is_some() && one.as_f64() == other.as_f64()
        }
        (one, other) => one == other,
    }
}

fn below(at: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b));
    match (plain, at.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!("{at}.{key}"),
        (false, _) => format!("{at}[{key:?}]"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_lead_to_what_differs_and_no_further_up() {
        for (one, other, expected) in [
            (json!({"a": 1}), json!({"a": 1}), vec![]),
            (json!({"a": 1}), json!({"a": 1.0}), vec![]),
            (json!({"a": 1}), json!({"a": 2}), vec!["spec.a"]),
            (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1, "c": 3}}), vec!["spec.a.c"]),
            (json!({}), json!({"a": {"b": 1, "c": {}}}), vec!["spec.a.b", "spec.a.c"]),
            (json!({"a": {"b": 1}}), json!({}), vec!["spec.a.b"]),
            (json!({}), json!({"a": {}}), vec!["spec.a"]),
            (json!({"a": null}), json!({}), vec!["spec.a"]),
            (json!({"a": [1, 2]}), json!({"a": [1, 3, 4]}), vec!["spec.a[1]", "spec.a[2]"]),
            (json!({"a": [{"b": 1}]}), json!({"a": [{"b": 2}]}), vec!["spec.a[0].b"]),
            (json!({"a": [1]}), json!({"a": {"b": 1}}), vec!["spec.a"]),
            (json!({"x.y/z": 1}), json!({}), vec!["spec[\"x.y/z\"]"]),
        ] {
            let found = differing(Some(&one), Some(&other), "spec");
            assert_eq!(found.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{one} {other}");
        }
    }
}
