//! Dicts, which are maps with strings as keys.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Type::{Any, Map, Str};
use super::{Call, Function, function, variadic};
use crate::value::{Heap, List, MAX_DEPTH, MapId, Value, too_deep};

pub(super) const FUNCTIONS: &[Function] = &[
    function("deepCopy", &[Any], deep_copy),
    variadic("dict", &[], Any, dict),
    variadic("dig", &[], Any, dig),
    function("get", &[Map, Str], |c| Ok(entry(c, 0, 1)?.unwrap_or_else(|| "".into()))),
    function("hasKey", &[Map, Str], |c| Ok(entry(c, 0, 1)?.is_some().into())),
    variadic("keys", &[], Map, keys),
    variadic("merge", &[Map], Map, |c| merge_all(c, false)),
    variadic("mergeOverwrite", &[Map], Map, |c| merge_all(c, true)),
    function("mustDeepCopy", &[Any], deep_copy),
    variadic("mustMerge", &[Map], Map, |c| merge_all(c, false)),
    variadic("mustMergeOverwrite", &[Map], Map, |c| merge_all(c, true)),
    variadic("omit", &[Map], Str, |c| chosen(c, false)),
    variadic("pick", &[Map], Str, |c| chosen(c, true)),
    variadic("pluck", &[Str], Map, pluck),
    function("set", &[Map, Str, Any], set),
    function("unset", &[Map, Str], unset),
    function("values", &[Map], |c| {
        let values = c.map(0)?.map(|id| c.heap.map(id).entries.values().cloned().collect());
        Value::list(values.unwrap_or_default())
    }),
];

fn entry(c: &Call<'_>, map: usize, key: usize) -> Result<Option<Value>, String> {
    let Some(id) = c.map(map)? else { return Ok(None) };
    Ok(c.heap.map(id).entries.get(&c.str(key)?).cloned())
}

fn dict(c: &mut Call<'_>) -> Result<Value, String> {
    let mut entries = BTreeMap::new();
    for pair in c.values.clone().chunks(2) {
        let key = c.as_string(&pair[0])?;
        entries.insert(key, pair.get(1).cloned().unwrap_or_else(|| "".into()));
    }
    Ok(Value::Map(c.heap.new_map(entries)))
}

/// Goes down into maps: `dig "a" "b" default map`.
fn dig(c: &mut Call<'_>) -> Result<Value, String> {
    let [keys @ .., default, map] = c.values.as_slice() else {
        return Err("at least 3 arguments are needed".to_owned());
    };
    if keys.is_empty() {
        return Err("at least 3 arguments are needed".to_owned());
    }
    let mut value = map;
    for key in keys {
        let (Value::String(key), Value::Map(id)) = (key, value) else {
            let (key, value) = (key.go_type(c.heap), value.go_type(c.heap));
            return Err(format!("expected a string as key of a map, got {key} as key of {value}"));
        };
        match c.heap.map(*id).entries.get(key) {
            Some(next) => value = next,
            None => return Ok(default.clone()),
        }
    }
    Ok(value.clone())
}

fn keys(c: &mut Call<'_>) -> Result<Value, String> {
    let mut all: Vec<Rc<str>> = Vec::new();
    for at in 0..c.values.len() {
        if let Some(id) = c.map(at)? {
            all.extend(c.heap.map(id).entries.keys().cloned());
        }
    }
    Value::strings(all)
}

fn chosen(c: &mut Call<'_>, picks: bool) -> Result<Value, String> {
    let mut entries = BTreeMap::new();
    if let Some(id) = c.map(0)? {
        let named =
            |key: &Rc<str>| c.rest(1).iter().any(|name| matches!(name, Value::String(name) if name == key));
        for (key, value) in c.heap.map(id).entries.iter().filter(|(key, _)| named(key) == picks) {
            entries.insert(key.clone(), value.clone());
        }
    }
    // Every key was compared with every name.
    let compared = entries.len().saturating_mul(c.values.len());
    c.heap.spend(compared)?;
    Ok(Value::Map(c.heap.new_map(entries)))
}

fn pluck(c: &mut Call<'_>) -> Result<Value, String> {
    let mut found = Vec::new();
    for at in 1..c.values.len() {
        found.extend(entry(c, at, 0)?);
    }
    Value::list(found)
}

fn set(c: &mut Call<'_>) -> Result<Value, String> {
    let Some(id) = c.map(0)? else { return Err("there is no map to set a key of".to_owned()) };
    let (key, value) = (c.str(1)?, c.value(2)?.clone());
    c.heap.map_mut(id).entries.insert(key, value);
    Ok(Value::Map(id))
}

fn unset(c: &mut Call<'_>) -> Result<Value, String> {
    let Some(id) = c.map(0)? else { return Ok(Value::Map(c.heap.new_map(BTreeMap::new()))) };
    let key = c.str(1)?;
    c.heap.map_mut(id).entries.remove(&key);
    Ok(Value::Map(id))
}

/// Merges the further maps into the first, which changes, and keeps what it has unless that is empty or is to be
/// overwritten.
fn merge_all(c: &mut Call<'_>, overwrite: bool) -> Result<Value, String> {
    let into = match c.map(0)? {
        Some(id) => id,
        None => c.heap.new_map(BTreeMap::new()),
    };
    for at in 1..c.values.len() {
        if let Some(from) = c.map(at)? {
            merge(c.heap, into, from, overwrite, 0)?;
        }
    }
    Ok(Value::Map(into))
}

fn merge(heap: &mut Heap, into: MapId, from: MapId, overwrite: bool, depth: usize) -> Result<(), String> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    let entries: Vec<(Rc<str>, Value)> =
        heap.map(from).entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
    heap.spend(1 + entries.len())?;
    for (key, value) in entries {
        let there = heap.map(into).entries.get(&key).cloned();
        let takes = match (&there, &value) {
            (_, Value::Nil | Value::Missing) => overwrite,
            (None, _) => true,
            (Some(Value::Map(there)), Value::Map(value)) if there.is_same_kind(*value, heap) => {
                merge(heap, *there, *value, overwrite, depth + 1)?;
                heap.map(*there).entries.is_empty()
            }
            (Some(there), Value::List(_)) if there.is_true(heap) && !overwrite => false,
            (Some(there), _) => overwrite || !there.is_true(heap),
        };
        if takes {
            heap.map_mut(into).entries.insert(key, value);
        }
    }
    Ok(())
}

impl MapId {
    fn is_same_kind(self, other: Self, heap: &Heap) -> bool {
        heap.map(self).of_strings == heap.map(other).of_strings
    }
}

fn deep_copy(c: &mut Call<'_>) -> Result<Value, String> {
    let value = c.value(0)?.clone();
    if value.is_nil() {
        return Err("null cannot be copied".to_owned());
    }
    copy(c.heap, &value, 0)
}

fn copy(heap: &mut Heap, value: &Value, depth: usize) -> Result<Value, String> {
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    heap.spend(value.weight(heap))?;
    Ok(match value {
        Value::List(list) => {
            let items: Result<Vec<Value>, String> =
                list.items.iter().map(|item| copy(heap, item, depth + 1)).collect();
            Value::List(List::new(items?, list.element)?)
        }
        Value::Map(id) => {
            let (entries, of_strings) = (heap.map(*id).entries.clone(), heap.map(*id).of_strings);
            let mut copied = BTreeMap::new();
            for (key, value) in entries {
                copied.insert(key, copy(heap, &value, depth + 1)?);
            }
            Value::Map(if of_strings { heap.new_map_of_strings(copied) } else { heap.new_map(copied) })
        }
        value => value.clone(),
    })
}
