//! The three steps of a JSON patch that classes may use: add, replace, remove.

use serde_json::Value;

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Operation {
    /// Adds a field or a list item; an existing field is replaced.
    Add {
        /// Where, as a JSON pointer.
        path: String,
        /// What.
        value: Value,
    },
    /// Replaces what must be there.
    Replace {
        /// Where, as a JSON pointer.
        path: String,
        /// With what.
        value: Value,
    },
    /// Removes what must be there.
    Remove {
        /// Where, as a JSON pointer.
        path: String,
    },
}

/// A step that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{operation} {path}: {problem}")]
pub struct JsonPatchError {
    /// What was tried.
    pub operation: &'static str,
    /// Where.
    pub path: String,
    /// What is wrong.
    pub problem: String,
}

/// Makes the steps one after the other.
///
/// # Errors
///
/// When a step cannot be made. Steps before it have been made.
pub fn apply(document: &mut Value, operations: &[Operation]) -> Result<(), JsonPatchError> {
    operations.iter().try_for_each(|operation| {
        let (name, path) = match operation {
            Operation::Add { path, .. } => ("add", path),
            Operation::Replace { path, .. } => ("replace", path),
            Operation::Remove { path } => ("remove", path),
        };
        step(document, operation, path).map_err(|problem| JsonPatchError {
            operation: name,
            path: path.clone(),
            problem,
        })
    })
}

fn step(document: &mut Value, operation: &Operation, path: &str) -> Result<(), String> {
    let Some(rest) = path.strip_prefix('/') else {
        return Err("a path must begin with /".to_owned());
    };
    let mut tokens: Vec<String> =
        rest.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
    let last = tokens.pop().unwrap_or_default();
    let mut parent = document;
    for token in &tokens {
        parent = match parent {
            Value::Object(map) => map.get_mut(token).ok_or_else(|| format!("there is no {token:?}"))?,
            Value::Array(items) => {
                let at = index(token, items.len(), false)?;
                &mut items[at]
            }
            _ => return Err(format!("{token:?} is asked of something that has no fields")),
        };
    }
    match parent {
        Value::Object(map) => match operation {
            Operation::Add { value, .. } => {
                map.insert(last, value.clone());
            }
            Operation::Replace { value, .. } => match map.get_mut(&last) {
                Some(field) => *field = value.clone(),
                None => return Err(format!("there is no {last:?}")),
            },
            Operation::Remove { .. } => {
                map.remove(&last).ok_or_else(|| format!("there is no {last:?}"))?;
            }
        },
        Value::Array(items) => match operation {
            Operation::Add { value, .. } => {
                let at = if last == "-" { items.len() } else { index(&last, items.len(), true)? };
                items.insert(at, value.clone());
            }
            Operation::Replace { value, .. } => {
                let at = index(&last, items.len(), false)?;
                items[at] = value.clone();
            }
            Operation::Remove { .. } => {
                let at = index(&last, items.len(), false)?;
                items.remove(at);
            }
        },
        _ => return Err(format!("{last:?} is asked of something that has no fields")),
    }
    Ok(())
}

/// Negative positions count from the end, as the library does that classes were written against.
fn index(token: &str, length: usize, may_be_end: bool) -> Result<usize, String> {
    let limit = if may_be_end { length + 1 } else { length };
    let position: i64 = token.parse().map_err(|_| format!("{token:?} is not a position in a list"))?;
    let at = if position < 0 { position + i64::try_from(limit).unwrap_or(i64::MAX) } else { position };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < limit)
        .ok_or_else(|| format!("position {token} is out of range, there are {length} items"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn add(path: &str, value: Value) -> Operation {
        Operation::Add { path: path.to_owned(), value }
    }

    #[test]
    fn steps_build_on_each_other() {
        let mut document = json!({"a": {"b": [1, 2]}});
        let steps = [
            add("/a/c", json!({})),
            add("/a/c/d", json!("x")),
            add("/a/b/-1", json!(9)),
            Operation::Replace { path: "/a/b/0".to_owned(), value: json!(7) },
            Operation::Remove { path: "/a/b/-2".to_owned() },
        ];
        apply(&mut document, &steps).unwrap();
        assert_eq!(document, json!({"a": {"b": [7, 9], "c": {"d": "x"}}}));
    }

    #[test]
    fn what_is_not_there_is_named() {
        for (step, problem) in [
            (add("a", json!(1)), "add a: a path must begin with /"),
            (add("/x/y", json!(1)), "add /x/y: there is no \"x\""),
            (add("/l/7", json!(1)), "add /l/7: position 7 is out of range, there are 1 items"),
            (add("/l/x", json!(1)), "add /l/x: \"x\" is not a position in a list"),
            (add("/s/x", json!(1)), "add /s/x: \"x\" is asked of something that has no fields"),
            (Operation::Remove { path: "/none".to_owned() }, "remove /none: there is no \"none\""),
            (
                Operation::Replace { path: "/none".to_owned(), value: json!(1) },
                "replace /none: there is no \"none\"",
            ),
        ] {
            let mut document = json!({"l": [1], "s": "text"});
            assert_eq!(apply(&mut document, &[step]).unwrap_err().to_string(), problem);
        }
    }
}
