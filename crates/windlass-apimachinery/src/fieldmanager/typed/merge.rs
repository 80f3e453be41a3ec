//! A value merged into another: what applying does to an object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::{Kind, elements, entries, items, kind};
use crate::fieldmanager::path::PathElement;
use crate::fieldmanager::shape::{ListShape, Shape};

/// The live value with the applied one merged in. Nothing is removed.
///
/// Elements that only the live list has stay where they are; the others come in the order of the
/// applied list.
pub fn merge(live: &Value, applied: &Value, shape: &Shape) -> Value {
    merge_except(live, applied, shape, None)
}

/// The same, as if the live value had nothing in the place of `except`.
pub(in crate::fieldmanager) fn merge_except(
    live: &Value,
    applied: &Value,
    shape: &Shape,
    except: Option<&Value>,
) -> Value {
    values(Some(live), Some(applied), shape, except).unwrap_or_default()
}

/// `None` if nothing is left to write down: a list or map without elements that only gained some
/// that are nothing themselves.
fn values(
    live: Option<&Value>,
    applied: Option<&Value>,
    shape: &Shape,
    except: Option<&Value>,
) -> Option<Value> {
    // If the kind of value changes, the live value cannot be merged into, and is not.
    let kind = kind(shape, applied.or(live)?);
    let leaf = || applied.or(live).cloned();
    match kind {
        Kind::Scalar | Kind::Whole => leaf(),
        Kind::Map(shapes) => {
            let (old, new) = (entries(live), entries(applied));
            if shapes.is_atomic() || old.is_none() && new.is_none() {
                return leaf();
            }
            let mut merged = Map::new();
            let mut add = |name: &String, live: Option<&Value>, applied: Option<&Value>| {
                let field = match shapes.shape(name) {
                    Some(shape) => values(live, applied, shape, except),
                    // The schema does not know the field any more; it is not ours to drop.
                    None => applied.or(live).cloned(),
                };
                merged.extend(field.map(|field| (name.clone(), field)));
            };
            for (name, live) in old.into_iter().flatten() {
                let live = Some(live).filter(|live| except.is_none_or(|except| !std::ptr::eq(except, *live)));
                add(name, live, new.and_then(|fields| fields.get(name)));
            }
            for (name, applied) in new.into_iter().flatten() {
                if old.is_none_or(|fields| !fields.contains_key(name)) {
                    add(name, None, Some(applied));
                }
            }
            (!merged.is_empty()).then_some(Value::Object(merged))
        }
        Kind::List(shape) => {
            let (old, new) = (items(live), items(applied));
            match (elements(shape, old), elements(shape, new)) {
                (Some(old_names), Some(new_names)) if !old.is_empty() || !new.is_empty() => {
                    let merged = lists((&old_names, old), (&new_names, new), shape);
                    (!merged.is_empty()).then_some(Value::Array(merged))
                }
                _ => leaf(),
            }
        }
    }
}

type Named<'a> = (&'a [PathElement], &'a [Value]);

fn lists((live_names, live): Named<'_>, (names, applied): Named<'_>, shape: &ListShape) -> Vec<Value> {
    let mut counterparts: BTreeMap<&PathElement, Option<&Value>> = BTreeMap::new();
    for (name, item) in live_names.iter().zip(live) {
        // Which of several elements of one name is meant is unknown, so none is merged with.
        counterparts.entry(name).and_modify(|item| *item = None).or_insert(Some(item));
    }
    let in_applied: BTreeSet<&PathElement> = names.iter().collect();
    let merged = |index: usize| {
        let counterpart = counterparts.get(&names[index]).copied().flatten();
        values(counterpart, Some(&applied[index]), &shape.item, None)
    };
    let mut out = Vec::with_capacity(live.len() + applied.len());
    let mut next = 0;
    let mut in_both = (0..names.len()).filter(|index| counterparts.contains_key(&names[*index])).peekable();
    for (name, item) in live_names.iter().zip(live) {
        if !in_applied.contains(name) {
            out.extend(values(Some(item), None, &shape.item, None));
            continue;
        }
        // Elements of both lists come in the applied order: this one now if it is the next of them,
        // preceded by the new ones that the applied list has before it; or else when its turn comes.
        if let Some(turn) = in_both.next_if(|index| &names[*index] == name) {
            out.extend((next..=turn).filter_map(merged));
            next = turn + 1;
        }
    }
    out.extend((next..names.len()).filter_map(merged));
    out
}
