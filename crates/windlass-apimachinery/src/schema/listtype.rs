//! Duplicates in lists that are sets or maps.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::structural::{Additional, ListType, Schema};
use crate::cause::{Cause, FieldPath};
use crate::json::Ordered;

/// A cause for every element that repeats an earlier one of its set or map.
pub(super) fn check(object: &Value, schema: &Schema) -> Vec<Cause> {
    let mut causes = Vec::new();
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
