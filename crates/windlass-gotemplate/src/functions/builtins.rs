//! The functions of Go's templates.

use std::cmp::Ordering;

use super::Type::{Any, Str};
use super::{Body, Call, Function, check_length, function, variadic};
use crate::print::print;
use crate::printf::printf;
use crate::value::{Integer, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "and", parameters: &[Any], rest: Some(Any), body: Body::And },
    variadic("call", &[Any], Any, |c| {
        Err(format!("a value of type {} is not a function", c.value(0)?.go_type(c.heap)))
    }),
    variadic("eq", &[Any], Any, |c| {
        if c.values.len() < 2 {
            return Err("there is nothing to compare with".to_owned());
        }
        for at in 1..c.values.len() {
            if is_equal(c, 0, at)? {
                return Ok(true.into());
            }
        }
        Ok(false.into())
    }),
    function("ge", &[Any, Any], |c| Ok((order(c)? != Some(Ordering::Less)).into())),
    function(
        "gt",
        &[Any, Any],
        |c| Ok((!matches!(order(c)?, Some(Ordering::Less | Ordering::Equal))).into()),
    ),
    variadic("html", &[], Any, |c| escaped(c, html)),
    variadic("index", &[Any], Any, index),
    variadic("js", &[], Any, |c| escaped(c, js)),
    function("le", &[Any, Any], |c| Ok(matches!(order(c)?, Some(Ordering::Less | Ordering::Equal)).into())),
    function("len", &[Any], |c| match c.value(0)? {
        Value::String(string) => Ok(Value::count(string.len())),
        Value::List(list) => Ok(Value::count(list.items.len())),
        Value::Map(id) => Ok(Value::count(c.heap.map(*id).entries.len())),
        other => Err(format!("a value of type {} has no length", other.go_type(c.heap))),
    }),
    function("lt", &[Any, Any], |c| Ok((order(c)? == Some(Ordering::Less)).into())),
    function("ne", &[Any, Any], |c| Ok((!is_equal(c, 0, 1)?).into())),
    function("not", &[Any], |c| Ok((!c.value(0)?.is_true(c.heap)).into())),
    Function { name: "or", parameters: &[Any], rest: Some(Any), body: Body::Or },
    variadic("print", &[], Any, |c| Ok(printed(c, false)?.into())),
    variadic("printf", &[Str], Any, |c| {
        let (format, values) = (c.str(0)?, c.rest(1).to_vec());
        Ok(printf(c.heap, &format, &values)?.into())
    }),
    variadic("println", &[], Any, |c| Ok(format!("{}\n", printed(c, true)?).into())),
    variadic("urlquery", &[], Any, |c| escaped(c, query)),
];

/// Spaces stand between values when neither is a string, or always.
fn printed(c: &mut Call<'_>, always: bool) -> Result<String, String> {
    let mut out = String::new();
    let mut after_string = true;
    for value in c.values.clone() {
        let is_string = matches!(value, Value::String(_));
        if !out.is_empty() && (always || !is_string && !after_string) {
            out.push(' ');
        }
        out.push_str(&print(c.heap, &value)?);
        check_length(out.len())?;
        after_string = is_string;
    }
    Ok(out)
}

fn escaped(c: &mut Call<'_>, escape: fn(&str) -> String) -> Result<Value, String> {
    let printed = printed(c, false)?;
    check_length(printed.len().saturating_mul(2))?;
    Ok(escape(&printed).into())
}

fn html(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    for c in string.chars() {
        match c {
            '\0' => out.push(char::REPLACEMENT_CHARACTER),
            '"' => out.push_str("&#34;"),
            '\'' => out.push_str("&#39;"),
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            c => out.push(c),
        }
    }
    out
}

fn js(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    for c in string.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\'' => out.push_str("\\'"),
            '"' => out.push_str("\\\""),
            '<' => out.push_str("\\u003C"),
            '>' => out.push_str("\\u003E"),
            '&' => out.push_str("\\u0026"),
            '=' => out.push_str("\\u003D"),
            c if c < ' ' => out.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => out.push(c),
        }
    }
    out
}

fn query(string: &str) -> String {
    let mut out = String::with_capacity(string.len());
    for byte in string.bytes() {
        match byte {
            b' ' => out.push('+'),
            b'-' | b'_' | b'.' | b'~' => out.push(char::from(byte)),
            byte if byte.is_ascii_alphanumeric() => out.push(char::from(byte)),
            byte => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn is_equal(c: &Call<'_>, left: usize, right: usize) -> Result<bool, String> {
    let (left, right) = (c.value(left)?, c.value(right)?);
    Ok(match (left, right) {
        (l, r) if l.is_nil() || r.is_nil() => l.is_nil() && r.is_nil(),
        (Value::Bool(l), Value::Bool(r)) => l == r,
        (Value::String(l), Value::String(r)) => l == r,
        (Value::Version(l), Value::Version(r)) => std::rc::Rc::ptr_eq(l, r),
        (Value::Time(l), Value::Time(r)) => l == r,
        (l, r) => match compare_numbers(l, r) {
            Some(order) => order == Some(Ordering::Equal),
            None => return Err(incomparable(c, l, r)),
        },
    })
}

/// Whether two numbers can be compared, and how they compare. A whole number of a document can be compared with
/// integers and with floats; an integer and a float cannot, as in Go.
fn compare_numbers(left: &Value, right: &Value) -> Option<Option<Ordering>> {
    Some(match (left, right) {
        (Value::Integer(l, _) | Value::Whole(l), Value::Integer(r, _) | Value::Whole(r)) => Some(l.cmp(r)),
        (Value::Whole(l), Value::Float(r)) => (*l as f64).partial_cmp(r),
        (Value::Float(l), Value::Whole(r)) => l.partial_cmp(&(*r as f64)),
        (Value::Float(l), Value::Float(r)) => l.partial_cmp(r),
        _ => return None,
    })
}

fn incomparable(c: &Call<'_>, left: &Value, right: &Value) -> String {
    format!("{} and {} cannot be compared", left.go_type(c.heap), right.go_type(c.heap))
}

fn order(c: &Call<'_>) -> Result<Option<Ordering>, String> {
    let (left, right) = (c.value(0)?, c.value(1)?);
    if let (Value::String(left), Value::String(right)) = (left, right) {
        return Ok(Some(left.cmp(right)));
    }
    compare_numbers(left, right).ok_or_else(|| incomparable(c, left, right))
}

fn index(c: &mut Call<'_>) -> Result<Value, String> {
    let mut value = c.value(0)?.clone();
    if value.is_nil() {
        return Err("nothing cannot be indexed".to_owned());
    }
    for key in c.rest(1) {
        value = match (&value, key) {
            (Value::Map(id), Value::String(key)) => {
                let map = c.heap.map(*id);
                let missing = || if map.of_strings { "".into() } else { Value::Nil };
                map.entries.get(key).cloned().unwrap_or_else(missing)
            }
            (Value::List(list), Value::Integer(at, _) | Value::Whole(at)) => {
                let item = usize::try_from(*at).ok().and_then(|at| list.items.get(at));
                match item {
                    Some(item) => item.clone(),
                    None => {
                        return Err(format!("{at} is out of range, there are {} items", list.items.len()));
                    }
                }
            }
            (Value::String(string), Value::Integer(at, _) | Value::Whole(at)) => {
                match usize::try_from(*at).ok().and_then(|at| string.as_bytes().get(at)) {
                    Some(byte) => Value::Integer(i64::from(*byte), Integer::Uint8),
                    None => return Err(format!("{at} is out of range, there are {} bytes", string.len())),
                }
            }
            (value, key) => {
                let (value, key) = (value.go_type(c.heap), key.go_type(c.heap));
                return Err(format!("{value} cannot be indexed with {key}"));
            }
        };
    }
    Ok(value)
}
