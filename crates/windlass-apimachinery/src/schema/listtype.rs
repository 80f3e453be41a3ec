//! Duplicates in lists that are sets or maps.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::structural::{Additional, ListType, Schema};
use crate::cause::{Cause, FieldPath};
use crate::json::{self, Ordered};

/// A cause for every element that repeats an earlier one of its set or map.
pub(super) fn check(object: &Value, schema: &Schema) -> Vec<Cause> {
    let mut causes = Vec::new();
    if is_fine(object, schema) {
        return causes;
    }
    walk(object, schema, &mut FieldPath::default(), &mut causes);
    causes
}

/// The positions at which a value occurs for the second time. Third times are not reported.
pub(super) fn duplicates<'a>(values: impl Iterator<Item = &'a Value>) -> Vec<usize> {
    repeated(values.map(Ordered))
}

fn repeated<K: Ord>(keys: impl Iterator<Item = K>) -> Vec<usize> {
    // Looked up rather than searched: a million elements must not take a million comparisons each.
    let mut seen: BTreeMap<K, usize> = BTreeMap::new();
    let mut repeated = Vec::new();
    for (index, key) in keys.enumerate() {
        let times = seen.entry(key).or_default();
        *times += 1;
        if *times == 2 {
            repeated.push(index);
        }
    }
    repeated
}

/// Whether a short look finds nothing to complain about: no path is made, and short lists are compared
/// element by element. A longer list is left to the long look.
fn is_fine(value: &Value, schema: &Schema) -> bool {
    if !schema.tells_apart {
        return true;
    }
    match value {
        Value::Object(fields) => fields.iter().all(|(name, field)| {
            !(field.is_array() || field.is_object())
                || schema.field(name).is_none_or(|schema| is_fine(field, schema))
        }),
        Value::Array(items) => {
            let differ = match &schema.list_type {
                Some(ListType::Set) => all_differ(items, json::equal),
                Some(ListType::Map(keys)) => {
                    let same = |left: &Value, right: &Value| {
                        keys.iter().all(|key| match (left.get(key), right.get(key)) {
                            (Some(left), Some(right)) => json::equal(left, right),
                            (left, right) => left.is_none() && right.is_none(),
                        })
                    };
                    items.iter().all(Value::is_object) && all_differ(items, same)
                }
                Some(ListType::Atomic) | None => true,
            };
            let inside = schema.items.as_deref();
            differ && inside.is_none_or(|schema| items.iter().all(|item| is_fine(item, schema)))
        }
        _ => true,
    }
}

fn all_differ(items: &[Value], same: impl Fn(&Value, &Value) -> bool) -> bool {
    /// Comparing each with each is quicker than a map for this many.
    const FEW: usize = 16;
    let repeats = |(index, item)| items[..index].iter().any(|earlier| same(earlier, item));
    items.len() <= FEW && !items.iter().enumerate().any(repeats)
}

fn walk(value: &Value, schema: &Schema, path: &mut FieldPath, causes: &mut Vec<Cause>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                let (schema, mark) = match (schema.properties.get(name), &schema.additional) {
                    (Some(field), _) => (field, path.push(name)),
                    (None, Some(Additional::Schema(field))) => (field.as_ref(), path.push_key(name)),
                    _ => continue,
                };
                walk(field, schema, path, causes);
                path.pop(mark);
            }
        }
        Value::Array(items) => {
            match &schema.list_type {
                Some(ListType::Set) => {
                    for index in duplicates(items.iter()) {
                        push_duplicate(&items[index], index, path, causes);
                    }
                }
                Some(ListType::Map(keys)) => map_duplicates(items, keys, path, causes),
                _ => {}
            }
            let Some(schema) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                let mark = path.push_index(index);
                walk(item, schema, path, causes);
                path.pop(mark);
            }
        }
        _ => {}
    }
}

fn map_duplicates(items: &[Value], keys: &[String], path: &mut FieldPath, causes: &mut Vec<Cause>) {
    if let Some((index, item)) =
        items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null())
    {
        let mark = path.push_index(index);
        causes.push(Cause::invalid(path.field(), item, "must be an object for an array of list-type map"));
        path.pop(mark);
        return;
    }
    let key_of = |item: &Value| {
        let present = keys.iter().filter_map(|key| item.get(key).map(|value| (key.clone(), value.clone())));
        Value::Object(present.collect::<Map<_, _>>())
    };
    let values = |item| keys.iter().map(|key| Value::get(item, key).map(Ordered)).collect::<Vec<_>>();
    for index in repeated(items.iter().map(values)) {
        push_duplicate(&key_of(&items[index]), index, path, causes);
    }
}

fn push_duplicate(value: &Value, index: usize, path: &mut FieldPath, causes: &mut Vec<Cause>) {
    let mark = path.push_index(index);
    causes.push(Cause::duplicate(path.field(), value));
    path.pop(mark);
}
