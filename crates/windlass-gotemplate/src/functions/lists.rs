//! Lists.

use super::Type::{Any, Int, Str};
use super::{Call, Function, check_length, function, list_or_nil, variadic};
use crate::value::{Element, List, Value, deep_equal};

pub(super) const FUNCTIONS: &[Function] = &[
    function("append", &[Any, Any], append),
    function("chunk", &[Int, Any], chunk),
    function("compact", &[Any], compact),
    variadic("concat", &[], Any, concat),
    function("first", &[Any], |c| Ok(c.list(0)?.items.first().cloned().unwrap_or(Value::Nil))),
    function("has", &[Any, Any], has),
    function("initial", &[Any], initial),
    function("join", &[Str, Any], join),
    function("last", &[Any], |c| Ok(c.list(0)?.items.last().cloned().unwrap_or(Value::Nil))),
    variadic("list", &[], Any, |c| Value::list(c.values.clone())),
    function("mustAppend", &[Any, Any], append),
    function("mustChunk", &[Int, Any], chunk),
    function("mustCompact", &[Any], compact),
    function("mustFirst", &[Any], |c| Ok(c.list(0)?.items.first().cloned().unwrap_or(Value::Nil))),
    function("mustHas", &[Any, Any], has),
    function("mustInitial", &[Any], initial),
    function("mustLast", &[Any], |c| Ok(c.list(0)?.items.last().cloned().unwrap_or(Value::Nil))),
    function("mustPrepend", &[Any, Any], prepend),
    function("mustPush", &[Any, Any], append),
    function("mustRest", &[Any], rest),
    function("mustReverse", &[Any], reverse),
    variadic("mustSlice", &[Any], Any, slice),
    function("mustUniq", &[Any], uniq),
    variadic("mustWithout", &[Any], Any, without),
    function("prepend", &[Any, Any], prepend),
    function("push", &[Any, Any], append),
    function("rest", &[Any], rest),
    function("reverse", &[Any], reverse),
    variadic("slice", &[Any], Any, slice),
    function("sortAlpha", &[Any], sort_alpha),
    function("toStrings", &[Any], |c| Value::strings(c.string_list(0)?)),
    variadic("tuple", &[], Any, |c| Value::list(c.values.clone())),
    function("uniq", &[Any], uniq),
    variadic("without", &[Any], Any, without),
];

fn append(c: &mut Call<'_>) -> Result<Value, String> {
    Value::list(c.list(0)?.items.iter().chain([c.value(1)?]).cloned().collect())
}

fn prepend(c: &mut Call<'_>) -> Result<Value, String> {
    Value::list([c.value(1)?].into_iter().chain(c.list(0)?.items.iter()).cloned().collect())
}

fn chunk(c: &mut Call<'_>) -> Result<Value, String> {
    let items = c.list(1)?.items;
    let size = usize::try_from(c.int(0)?).ok().filter(|size| *size > 0);
    let Some(size) = size else { return Err("the size of a chunk is at least 1".to_owned()) };
    let chunks: Result<Vec<Value>, String> =
        items.chunks(size).map(|chunk| Value::list(chunk.to_vec())).collect();
    Ok(Value::List(List::new(chunks?, Element::List)?))
}

fn compact(c: &mut Call<'_>) -> Result<Value, String> {
    Value::list(c.list(0)?.items.iter().filter(|item| item.is_true(c.heap)).cloned().collect())
}

fn concat(c: &mut Call<'_>) -> Result<Value, String> {
    let mut all = Vec::new();
    for at in 0..c.values.len() {
        all.extend_from_slice(&c.list(at)?.items);
    }
    list_or_nil(all, Element::Any)
}

fn contains(c: &mut Call<'_>, items: &[Value], needle: &Value) -> Result<bool, String> {
    for item in items {
        if deep_equal(c.heap, needle, item, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn has(c: &mut Call<'_>) -> Result<Value, String> {
    if c.value(1)?.is_nil() {
        return Ok(false.into());
    }
    let (needle, items) = (c.value(0)?.clone(), c.list(1)?.items);
    Ok(contains(c, &items, &needle)?.into())
}

fn initial(c: &mut Call<'_>) -> Result<Value, String> {
    match c.list(0)?.items.split_last() {
        Some((_, items)) => Value::list(items.to_vec()),
        None => Ok(Value::List(List::nil(Element::Any))),
    }
}

fn rest(c: &mut Call<'_>) -> Result<Value, String> {
    match c.list(0)?.items.split_first() {
        Some((_, items)) => Value::list(items.to_vec()),
        None => Ok(Value::List(List::nil(Element::Any))),
    }
}

fn reverse(c: &mut Call<'_>) -> Result<Value, String> {
    Value::list(c.list(0)?.items.iter().rev().cloned().collect())
}

fn slice(c: &mut Call<'_>) -> Result<Value, String> {
    let list = c.list(0)?;
    if list.items.is_empty() {
        return Ok(Value::Nil);
    }
    let position = |value: &Value| usize::try_from(super::math::to_int(value)).ok();
    let start = c.values.get(1).map_or(Some(0), position);
    let end = c.values.get(2).map_or(Some(list.items.len()), position);
    let part = start.zip(end).and_then(|(start, end)| list.items.get(start..end));
    match part {
        Some(part) => Ok(Value::List(List::new(part.to_vec(), list.element)?)),
        None => Err(format!("the list has {} items, and no such part", list.items.len())),
    }
}

fn sort_alpha(c: &mut Call<'_>) -> Result<Value, String> {
    let mut strings = match c.value(0)? {
        Value::Nil => vec!["<nil>".into()],
        _ => c.string_list(0)?,
    };
    strings.sort_unstable();
    Value::strings(strings)
}

fn uniq(c: &mut Call<'_>) -> Result<Value, String> {
    let mut seen: Vec<Value> = Vec::new();
    for item in c.list(0)?.items.iter() {
        if !contains(c, &seen, item)? {
            seen.push(item.clone());
        }
    }
    Value::list(seen)
}

fn without(c: &mut Call<'_>) -> Result<Value, String> {
    let omitted = c.rest(1).to_vec();
    let mut kept = Vec::new();
    for item in c.list(0)?.items.iter() {
        if !contains(c, &omitted, item)? {
            kept.push(item.clone());
        }
    }
    Value::list(kept)
}

fn join(c: &mut Call<'_>) -> Result<Value, String> {
    let (separator, strings) = (c.str(0)?, c.string_list(1)?);
    let length: usize = strings.iter().map(|string| string.len()).sum();
    check_length(length.saturating_add(separator.len().saturating_mul(strings.len().saturating_sub(1))))?;
    Ok(strings.join(&*separator).into())
}
