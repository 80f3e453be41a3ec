//! JSON patch, RFC 6902, with the habits of the API server's implementation.
//!
//! It differs from the RFC where clients rely on it: `test` for `null` passes where the field is
//! absent (kube-rs adds its first finalizer so), `replace` of an absent field adds it, a negative
//! index counts from the end, and the root can be replaced or tested but not added or removed.

use serde_json::{Map, Value};

use crate::depth::{self, TooDeep};
use crate::json;

/// The most operations of a patch. More are refused with 413.
pub const MAX_OPERATIONS: usize = 10_000;

/// The most bytes that the `copy` operations of a patch may add together. Without a limit, a patch
/// that copies a field into itself doubles it with every operation.
pub const MAX_COPIED_BYTES: usize = 3 * 1024 * 1024;

/// The most work that a patch may make, in values looked at or moved. Ten thousand insertions at the
/// start of a long list, or moves of a large object, would otherwise keep a thread busy for minutes.
const MAX_WORK: usize = 20_000_000;

/// A JSON patch that has been read and not applied.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
}

/// Why a patch is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonPatchError {
    /// It is not a list of operations: 400.
    #[error("a JSON patch is a list of operations")]
    Malformed,
    /// It has too many operations: 413.
    #[error("the allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {0}")]
    TooManyOperations(usize),
    /// An operation cannot be carried out: 422.
    #[error("operation {index} ({operation}): {problem}")]
    Rejected {
        /// The position of the operation.
        index: usize,
        /// What it says it is.
        operation: String,
        /// Why it cannot be carried out.
        problem: Problem,
    },
    /// The document or the patch nests too deep: 422.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

/// Why an operation cannot be carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// There is no such operation.
    #[error("unknown operation")]
    UnknownOperation,
    /// A member that it needs is missing or is not a string.
    #[error("missing {0}")]
    Missing(&'static str),
    /// There is nothing at the path, or nothing that could contain it.
    #[error("nothing at {0:?}")]
    NoSuchPath(String),
    /// The path names a place in a list that the list does not have.
    #[error("no such index in {0:?}")]
    NoSuchIndex(String),
    /// The root can only become an object or a list.
    #[error("the root must be an object or a list")]
    Root,
    /// The value is not what the test wants.
    #[error("test failed at {0:?}")]
    TestFailed(String),
    /// The patch copies too much.
    #[error("copies more than {MAX_COPIED_BYTES} bytes")]
    CopiesTooMuch,
    /// The patch takes too long.
    #[error("the patch is too expensive to apply")]
    TooExpensive,
    /// The document would nest too deep.
    #[error(transparent)]
    TooDeep(#[from] TooDeep),
}

impl JsonPatch {
    /// Reads a patch. Whether its operations make sense shows when it is applied.
    pub fn parse(patch: &Value) -> Result<Self, JsonPatchError> {
        let operations = patch.as_array().ok_or(JsonPatchError::Malformed)?;
        if operations.len() > MAX_OPERATIONS {
            return Err(JsonPatchError::TooManyOperations(operations.len()));
        }
        depth::check(patch)?;
        let operations: Option<Vec<_>> = operations.iter().map(|item| item.as_object().cloned()).collect();
        Ok(JsonPatch { operations: operations.ok_or(JsonPatchError::Malformed)? })
    }

    /// The document with all operations applied in order; unchanged if one of them fails.
    pub fn apply(&self, document: &Value) -> Result<Value, JsonPatchError> {
        depth::check(document)?;
        let mut patched = document.clone();
        let mut cost = Cost::default();
        for (index, operation) in self.operations.iter().enumerate() {
            apply(&mut patched, operation, &mut cost).map_err(|problem| JsonPatchError::Rejected {
                index,
                operation: text(operation, "op").unwrap_or("?").to_owned(),
                problem,
            })?;
        }
        Ok(patched)
    }
}

fn apply(document: &mut Value, operation: &Map<String, Value>, cost: &mut Cost) -> Result<(), Problem> {
    let path = || text(operation, "path").ok_or(Problem::Missing("path"));
    let from = || text(operation, "from").ok_or(Problem::Missing("from"));
    // An absent value is `null`, as everywhere in the API.
    let value = || operation.get("value").cloned().unwrap_or_default();
    match text(operation, "op").ok_or(Problem::UnknownOperation)? {
        "add" => add(document, path()?, value(), cost),
        "remove" => remove(document, path()?, cost).map(|_| ()),
        "replace" => replace(document, path()?, value(), cost),
        "test" => test(document, path()?, &value()),
        "move" => {
            let (from, path) = (from()?, path()?);
            let value = remove(document, from, cost)?;
            add(document, path, value, cost)
        }
        "copy" => {
            let (from, path) = (from()?, path()?);
            let value = get(document, from)?.cloned().unwrap_or_default();
            cost.copy(&value)?;
            add(document, path, value, cost)
        }
        _ => Err(Problem::UnknownOperation),
    }
}

/// What a patch has cost so far.
#[derive(Default)]
struct Cost {
    copied: usize,
    work: usize,
}

impl Cost {
    fn copy(&mut self, value: &Value) -> Result<(), Problem> {
        self.copied += value.to_string().len();
        if self.copied > MAX_COPIED_BYTES { Err(Problem::CopiesTooMuch) } else { Ok(()) }
    }

    /// A value that is put at a path: everything inside it is looked at, to see how deep it goes.
    fn place(&mut self, value: &Value, path: &str) -> Result<(), Problem> {
        let above = path.bytes().filter(|byte| *byte == b'/').count();
        let seen = depth::check_below(value, above)?;
        self.charge(seen)
    }

    /// Items that make room or close ranks. Moving them is much cheaper than looking at them.
    fn shift(&mut self, items: usize) -> Result<(), Problem> {
        self.charge(items / 8)
    }

    fn charge(&mut self, work: usize) -> Result<(), Problem> {
        self.work += work;
        if self.work > MAX_WORK { Err(Problem::TooExpensive) } else { Ok(()) }
    }
}

fn add(document: &mut Value, path: &str, value: Value, cost: &mut Cost) -> Result<(), Problem> {
    cost.place(&value, path)?;
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // There is one place more to add at than there are items.
            let index =
                position(&key, items.len() + 1).ok_or_else(|| Problem::NoSuchIndex(path.to_owned()))?;
            cost.shift(items.len() - index)?;
            items.insert(index, value);
        }
        _ => return Err(Problem::NoSuchPath(path.to_owned())),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, cost: &mut Cost) -> Result<Value, Problem> {
    let missing = || Problem::NoSuchPath(path.to_owned());
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(fields) => fields.remove(&key).ok_or_else(missing),
        Value::Array(items) => match position(&key, items.len()) {
            Some(index) => {
                cost.shift(items.len() - index)?;
                Ok(items.remove(index))
            }
            None => Err(Problem::NoSuchIndex(path.to_owned())),
        },
        _ => Err(missing()),
    }
}

fn replace(document: &mut Value, path: &str, value: Value, cost: &mut Cost) -> Result<(), Problem> {
    cost.place(&value, path)?;
    if path.is_empty() {
        if !value.is_object() && !value.is_array() {
            return Err(Problem::Root);
        }
        *document = value;
        return Ok(());
    }
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) => match position(&key, items.len()) {
            Some(index) => items[index] = value,
            None => return Err(Problem::NoSuchIndex(path.to_owned())),
        },
        _ => return Err(Problem::NoSuchPath(path.to_owned())),
    }
    Ok(())
}

fn test(document: &Value, path: &str, expected: &Value) -> Result<(), Problem> {
    let found = if path.is_empty() { Some(document) } else { get(document, path)? };
    let passes = match found {
        Some(found) => json::equal(found, expected),
        None => expected.is_null(),
    };
    if passes { Ok(()) } else { Err(Problem::TestFailed(path.to_owned())) }
}

/// What is at a path; `None` for a field that an existing object does not have.
fn get<'a>(document: &'a Value, path: &str) -> Result<Option<&'a Value>, Problem> {
    let missing = || Problem::NoSuchPath(path.to_owned());
    let (parents, key) = split(path).ok_or_else(missing)?;
    let mut at = document;
    for step in parents {
        at = child(at, &step).ok_or_else(missing)?;
    }
    match at {
        Value::Object(fields) => Ok(fields.get(&key)),
        Value::Array(items) => match position(&key, items.len()) {
            Some(index) => Ok(items.get(index)),
            None => Err(Problem::NoSuchIndex(path.to_owned())),
        },
        _ => Err(missing()),
    }
}

fn parent_mut<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), Problem> {
    let missing = || Problem::NoSuchPath(path.to_owned());
    let (parents, key) = split(path).ok_or_else(missing)?;
    let mut at = document;
    for step in parents {
        at = match at {
            Value::Object(fields) => fields.get_mut(&step),
            Value::Array(items) => position(&step, items.len()).and_then(|index| items.get_mut(index)),
            _ => None,
        }
        .ok_or_else(missing)?;
    }
    Ok((at, key))
}

fn child<'a>(value: &'a Value, step: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(step),
        Value::Array(items) => position(step, items.len()).and_then(|index| items.get(index)),
        _ => None,
    }
}

/// The steps of a JSON pointer that does not point to the root.
fn split(path: &str) -> Option<(Vec<String>, String)> {
    let mut steps: Vec<String> =
        path.strip_prefix('/')?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~")).collect();
    let key = steps.pop()?;
    Some((steps, key))
}

/// A place among `places`; a negative one counts from the end.
fn position(key: &str, places: usize) -> Option<usize> {
    let index: i64 = key.parse().ok()?;
    let places = i64::try_from(places).ok()?;
    let index = if index < 0 { index + places } else { index };
    (0..places).contains(&index).then_some(index).and_then(|index| usize::try_from(index).ok())
}

fn text<'a>(operation: &'a Map<String, Value>, name: &str) -> Option<&'a str> {
    operation.get(name).and_then(Value::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(document: Value, patch: Value) -> Result<Value, JsonPatchError> {
        JsonPatch::parse(&patch)?.apply(&document)
    }

    fn problem(document: Value, operation: Value) -> Problem {
        match patched(document, json!([operation])) {
            Err(JsonPatchError::Rejected { problem, .. }) => problem,
            other => panic!("not rejected: {other:?}"),
        }
    }

    #[test]
    fn operations_do_what_the_rfc_says() {
        let cases = [
            (json!({"a": 1}), json!([{"op": "add", "path": "/b", "value": 2}]), json!({"a": 1, "b": 2})),
            (json!({"a": 1}), json!([{"op": "add", "path": "/a", "value": 2}]), json!({"a": 2})),
            (
                json!({"l": [1, 3]}),
                json!([{"op": "add", "path": "/l/1", "value": 2}]),
                json!({"l": [1, 2, 3]}),
            ),
            (json!({"l": [1]}), json!([{"op": "add", "path": "/l/-", "value": 2}]), json!({"l": [1, 2]})),
            (json!({"l": [1]}), json!([{"op": "add", "path": "/l/1", "value": 2}]), json!({"l": [1, 2]})),
            (json!({"a": 1}), json!([{"op": "remove", "path": "/a"}]), json!({})),
            (json!({"l": [1, 2]}), json!([{"op": "remove", "path": "/l/0"}]), json!({"l": [2]})),
            (json!({"a": 1}), json!([{"op": "replace", "path": "/a", "value": [1]}]), json!({"a": [1]})),
            (json!({"a": 1}), json!([{"op": "move", "from": "/a", "path": "/b"}]), json!({"b": 1})),
            (
                json!({"a": {"x": 1}}),
                json!([{"op": "copy", "from": "/a", "path": "/b"}]),
                json!({"a": {"x": 1}, "b": {"x": 1}}),
            ),
            (json!({"a": 1}), json!([{"op": "test", "path": "/a", "value": 1}]), json!({"a": 1})),
            (
                json!({"a/b": {"~": 1}}),
                json!([{"op": "replace", "path": "/a~1b/~0", "value": 2}]),
                json!({"a/b": {"~": 2}}),
            ),
            (
                json!({"l": [{"x": 1}]}),
                json!([{"op": "replace", "path": "/l/0/x", "value": 2}]),
                json!({"l": [{"x": 2}]}),
            ),
            (json!({"a": 1}), json!([]), json!({"a": 1})),
        ];
        for (document, patch, expected) in cases {
            assert_eq!(patched(document, patch.clone()), Ok(expected), "{patch}");
        }
    }

    #[test]
    fn habits_of_the_api_server_are_kept() {
        let cases = [
            (
                "test null on an absent field passes",
                json!({"metadata": {}}),
                json!([{"op": "test", "path": "/metadata/finalizers", "value": null}, {"op": "add", "path": "/metadata/finalizers", "value": ["f"]}]),
                json!({"metadata": {"finalizers": ["f"]}}),
            ),
            (
                "test null on null passes",
                json!({"a": null}),
                json!([{"op": "test", "path": "/a", "value": null}]),
                json!({"a": null}),
            ),
            (
                "an absent value is null",
                json!({}),
                json!([{"op": "test", "path": "/a"}, {"op": "add", "path": "/a"}]),
                json!({"a": null}),
            ),
            (
                "numbers are compared as numbers",
                json!({"a": 1}),
                json!([{"op": "test", "path": "/a", "value": 1.0}]),
                json!({"a": 1}),
            ),
            (
                "replace adds an absent field",
                json!({}),
                json!([{"op": "replace", "path": "/a", "value": 1}]),
                json!({"a": 1}),
            ),
            (
                "the last item",
                json!({"l": [1, 2]}),
                json!([{"op": "remove", "path": "/l/-1"}]),
                json!({"l": [1]}),
            ),
            (
                "replace the last item",
                json!({"l": [1, 2]}),
                json!([{"op": "replace", "path": "/l/-2", "value": 9}]),
                json!({"l": [9, 2]}),
            ),
            (
                "add at the end",
                json!({"l": [1, 2]}),
                json!([{"op": "add", "path": "/l/-1", "value": 3}]),
                json!({"l": [1, 2, 3]}),
            ),
            (
                "through the last item",
                json!({"l": [{"x": 1}]}),
                json!([{"op": "replace", "path": "/l/-1/x", "value": 2}]),
                json!({"l": [{"x": 2}]}),
            ),
            (
                "the root can be replaced",
                json!({"a": 1}),
                json!([{"op": "replace", "path": "", "value": {"b": 1}}]),
                json!({"b": 1}),
            ),
            (
                "the root can be tested",
                json!({"a": 1}),
                json!([{"op": "test", "path": "", "value": {"a": 1}}]),
                json!({"a": 1}),
            ),
            (
                "copying an absent field makes null",
                json!({"a": {}}),
                json!([{"op": "copy", "from": "/a/x", "path": "/b"}]),
                json!({"a": {}, "b": null}),
            ),
        ];
        for (name, document, patch, expected) in cases {
            assert_eq!(patched(document, patch), Ok(expected), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_done_says_why() {
        let at = |path: &str| Problem::NoSuchPath(path.into());
        let index = |path: &str| Problem::NoSuchIndex(path.into());
        let cases = [
            (
                json!({"a": 1}),
                json!({"op": "test", "path": "/a", "value": 2}),
                Problem::TestFailed("/a".into()),
            ),
            (json!({}), json!({"op": "test", "path": "/a", "value": 2}), Problem::TestFailed("/a".into())),
            (json!({}), json!({"op": "test", "path": "/a/b", "value": null}), at("/a/b")),
            (json!({}), json!({"op": "remove", "path": "/a"}), at("/a")),
            (json!({}), json!({"op": "add", "path": "/a/b", "value": 1}), at("/a/b")),
            (json!({"a": 1}), json!({"op": "add", "path": "/a/b", "value": 1}), at("/a/b")),
            (json!({}), json!({"op": "add", "path": "", "value": {}}), at("")),
            (json!({}), json!({"op": "add", "path": "a", "value": 1}), at("a")),
            (json!({}), json!({"op": "replace", "path": "", "value": 1}), Problem::Root),
            (json!({"l": []}), json!({"op": "remove", "path": "/l/0"}), index("/l/0")),
            (json!({"l": [1]}), json!({"op": "add", "path": "/l/2", "value": 1}), index("/l/2")),
            (json!({"l": [1]}), json!({"op": "remove", "path": "/l/-2"}), index("/l/-2")),
            (json!({"l": [1]}), json!({"op": "replace", "path": "/l/x", "value": 1}), index("/l/x")),
            (json!({}), json!({"op": "move", "from": "/a", "path": "/b"}), at("/a")),
            (json!({"a": {}}), json!({"op": "move", "from": "/a", "path": "/a/b"}), at("/a/b")),
            (json!({}), json!({"op": "move", "path": "/b"}), Problem::Missing("from")),
            (json!({}), json!({"op": "add", "value": 1}), Problem::Missing("path")),
            (json!({}), json!({"op": "frob", "path": "/a"}), Problem::UnknownOperation),
            (json!({}), json!({"path": "/a"}), Problem::UnknownOperation),
        ];
        for (document, operation, expected) in cases {
            assert_eq!(problem(document, operation.clone()), expected, "{operation}");
        }
    }

    #[test]
    fn a_failed_patch_changes_nothing() {
        let document = json!({"a": 1});
        let patch = json!([{"op": "remove", "path": "/a"}, {"op": "remove", "path": "/a"}]);
        let error = patched(document, patch).unwrap_err();
        assert_eq!(error.to_string(), "operation 1 (remove): nothing at \"/a\"");
    }

    #[test]
    fn what_is_not_a_patch_is_malformed() {
        for patch in [json!({}), json!("x"), json!([1]), json!([[]])] {
            assert_eq!(patched(json!({}), patch), Err(JsonPatchError::Malformed));
        }
    }

    #[test]
    fn hostile_patches_are_bounded() {
        let many = json!(vec![json!({"op": "test", "path": "/a"}); MAX_OPERATIONS + 1]);
        assert_eq!(patched(json!({}), many), Err(JsonPatchError::TooManyOperations(MAX_OPERATIONS + 1)));

        // Each copy doubles the field and nests it one deeper.
        let doubling = json!(vec![json!({"op": "copy", "from": "/a", "path": "/a/a"}); 5_000]);
        let error = patched(json!({"a": {}}), doubling).unwrap_err();
        assert!(
            matches!(error, JsonPatchError::Rejected { problem: Problem::TooDeep(TooDeep), .. }),
            "{error}"
        );

        // A large field moved to and fro, and a long list filled from its start.
        let large = json!({"a": {"l": vec![0; 100_000]}, "b": {}});
        let to_and_fro = [
            json!({"op": "move", "from": "/a", "path": "/b/a"}),
            json!({"op": "move", "from": "/b/a", "path": "/a"}),
        ];
        let patch = json!(to_and_fro.iter().cycle().take(MAX_OPERATIONS).collect::<Vec<_>>());
        let error = patched(large, patch).unwrap_err();
        assert!(matches!(error, JsonPatchError::Rejected { problem: Problem::TooExpensive, .. }), "{error}");
        let long = json!({"l": vec![0; 500_000]});
        let fill = json!(vec![json!({"op": "add", "path": "/l/0", "value": 0}); MAX_OPERATIONS]);
        let error = patched(long, fill).unwrap_err();
        assert!(matches!(error, JsonPatchError::Rejected { problem: Problem::TooExpensive, .. }), "{error}");

        let wide = json!({"a": "x".repeat(1024 * 1024), "l": []});
        let copies = json!(vec![json!({"op": "copy", "from": "/a", "path": "/l/-"}); 5]);
        let error = patched(wide, copies).unwrap_err();
        assert!(
            matches!(error, JsonPatchError::Rejected { index: 2, problem: Problem::CopiesTooMuch, .. }),
            "{error}"
        );

        let deep = depth::tests::nested(10_000);
        assert_eq!(JsonPatch::parse(&deep).map(|_| ()), Err(JsonPatchError::TooDeep(TooDeep)));
        let empty = JsonPatch::parse(&json!([])).unwrap();
        assert_eq!(empty.apply(&deep), Err(JsonPatchError::TooDeep(TooDeep)));
        depth::tests::dismantle(deep);
    }
}
