//! Operations carried out on a document.

use std::borrow::Cow;

use serde_json::Value;

use super::cost::Cost;
use super::{Dialect, Operation, Problem};
use crate::pointer;

pub(super) fn apply(
    dialect: Dialect,
    document: &mut Value,
    operation: &Operation,
    cost: &mut Cost,
) -> Result<(), Problem> {
    let at_source = |from: &str, problem| Problem::From { from: from.to_owned(), problem: Box::new(problem) };
    match operation {
        Operation::Add { path, value } => add(dialect, document, path, value.clone(), cost),
        Operation::Remove { path } => remove(document, path, cost).map(drop),
        Operation::Replace { path, value } => replace(dialect, document, path, value.clone(), cost),
        Operation::Test { path, value } => test(document, path, value),
        Operation::Move { from, path } => {
            let value = remove(document, from, cost).map_err(|problem| at_source(from, problem))?;
            add(dialect, document, path, value, cost)
        }
        Operation::Copy { from, path } => {
            let found = copied(dialect, document, from).map_err(|problem| at_source(from, problem))?;
            cost.copy(&found)?;
            add(dialect, document, path, found, cost)
        }
    }
}

fn add(
    dialect: Dialect,
    document: &mut Value,
    path: &str,
    value: Value,
    cost: &mut Cost,
) -> Result<(), Problem> {
    cost.place(&value, path)?;
    let Some((parents, name)) = split(path)? else {
        return match dialect {
            Dialect::ApiServer => Err(Problem::WholeDocument),
            Dialect::ClusterApi => set_root(document, value),
        };
    };
    match descend_mut(document, &parents)? {
        Value::Object(fields) => {
            fields.insert(name.into_owned(), value);
        }
        Value::Array(items) if name == "-" => items.push(value),
        Value::Array(items) => {
            // There is one place more to add at than there are items.
            let index = index(&name, items.len(), items.len() + 1)?;
            cost.shift(items.len() - index)?;
            items.insert(index, value);
        }
        _ => return Err(Problem::NoContainer(name.into_owned())),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, cost: &mut Cost) -> Result<Value, Problem> {
    let (parents, name) = split(path)?.ok_or(Problem::WholeDocument)?;
    match descend_mut(document, &parents)? {
        Value::Object(fields) => {
            fields.remove(name.as_ref()).ok_or_else(|| Problem::NoField(name.into_owned()))
        }
        Value::Array(items) => {
            let index = index(&name, items.len(), items.len())?;
            cost.shift(items.len() - index)?;
            Ok(items.remove(index))
        }
        _ => Err(Problem::NoContainer(name.into_owned())),
    }
}

fn replace(
    dialect: Dialect,
    document: &mut Value,
    path: &str,
    value: Value,
    cost: &mut Cost,
) -> Result<(), Problem> {
    cost.place(&value, path)?;
    let Some((parents, name)) = split(path)? else { return set_root(document, value) };
    match descend_mut(document, &parents)? {
        Value::Object(fields) => {
            if dialect == Dialect::ClusterApi && !fields.contains_key(name.as_ref()) {
                return Err(Problem::NoField(name.into_owned()));
            }
            fields.insert(name.into_owned(), value);
        }
        Value::Array(items) => {
            let index = index(&name, items.len(), items.len())?;
            items[index] = value;
        }
        _ => return Err(Problem::NoContainer(name.into_owned())),
    }
    Ok(())
}

fn test(document: &Value, path: &str, expected: &Value) -> Result<(), Problem> {
    let found = match split(path)? {
        None => Some(document),
        Some((parents, name)) => child(descend(document, &parents)?, &name)?,
    };
    if found.unwrap_or(&Value::Null) == expected { Ok(()) } else { Err(Problem::TestFailed) }
}

fn copied(dialect: Dialect, document: &Value, from: &str) -> Result<Value, Problem> {
    let Some((parents, name)) = split(from)? else {
        return match dialect {
            Dialect::ApiServer => Err(Problem::WholeDocument),
            Dialect::ClusterApi => Ok(document.clone()),
        };
    };
    match (dialect, child(descend(document, &parents)?, &name)?) {
        (_, Some(found)) => Ok(found.clone()),
        (Dialect::ApiServer, None) => Ok(Value::Null),
        (Dialect::ClusterApi, None) => Err(Problem::NoField(name.into_owned())),
    }
}

fn set_root(document: &mut Value, value: Value) -> Result<(), Problem> {
    if !value.is_object() && !value.is_array() {
        return Err(Problem::Root);
    }
    *document = value;
    Ok(())
}

/// The names above the last one, and the last one.
type Split<'a> = (Vec<Cow<'a, str>>, Cow<'a, str>);

/// The names of a path; `None` for the root.
fn split(path: &str) -> Result<Option<Split<'_>>, Problem> {
    let mut names = pointer::names(path).ok_or(Problem::NotAPointer)?;
    Ok(names.pop().map(|last| (names, last)))
}

fn descend<'a>(document: &'a Value, names: &[Cow<'_, str>]) -> Result<&'a Value, Problem> {
    names
        .iter()
        .try_fold(document, |at, name| child(at, name)?.ok_or_else(|| Problem::NoField(name.to_string())))
}

fn descend_mut<'a>(document: &'a mut Value, names: &[Cow<'_, str>]) -> Result<&'a mut Value, Problem> {
    names.iter().try_fold(document, |at, name| match at {
        Value::Object(fields) => {
            fields.get_mut(name.as_ref()).ok_or_else(|| Problem::NoField(name.to_string()))
        }
        Value::Array(items) => {
            let index = index(name, items.len(), items.len())?;
            Ok(&mut items[index])
        }
        _ => Err(Problem::NoContainer(name.to_string())),
    })
}

/// What a value has by that name; `None` for a field that an object does not have.
fn child<'a>(value: &'a Value, name: &str) -> Result<Option<&'a Value>, Problem> {
    match value {
        Value::Object(fields) => Ok(fields.get(name)),
        Value::Array(items) => Ok(Some(&items[index(name, items.len(), items.len())?])),
        _ => Err(Problem::NoContainer(name.to_owned())),
    }
}

/// An index below `places` of a list with `length` items; a negative one counts from the end.
fn index(name: &str, length: usize, places: usize) -> Result<usize, Problem> {
    let given: i64 = name.parse().map_err(|_| Problem::NotAnIndex(name.to_owned()))?;
    let places_signed = i64::try_from(places).unwrap_or(i64::MAX);
    let counted = if given < 0 { given + places_signed } else { given };
    usize::try_from(counted)
        .ok()
        .filter(|index| *index < places)
        .ok_or_else(|| Problem::OutOfRange { index: name.to_owned(), length })
}
