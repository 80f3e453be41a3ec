//! Strings. Positions count bytes, as in Go.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Type::{Any, Int, Str};
use super::{Call, Function, check_length, function, variadic};
use crate::print::{print, quoted};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] = &[
    function("abbrev", &[Int, Str], |c| {
        let (width, string) = (c.int(0)?, c.str(1)?);
        if width < 4 { Ok(Value::String(string)) } else { Ok(abbreviated(&string, 0, width)?.into()) }
    }),
    function("abbrevboth", &[Int, Int, Str], |c| {
        let (left, right, string) = (c.int(0)?, c.int(1)?, c.str(2)?);
        if right < 4 || (left > 0 && right < 7) {
            return Ok(Value::String(string));
        }
        Ok(abbreviated(&string, left, right)?.into())
    }),
    variadic("cat", &[], Any, |c| {
        let values: Vec<Value> = c.values.iter().filter(|value| !value.is_nil()).cloned().collect();
        Ok(joined(c, &values, |string| string)?.into())
    }),
    function("contains", &[Str, Str], |c| Ok(c.str(1)?.contains(&*c.str(0)?).into())),
    function("hasPrefix", &[Str, Str], |c| Ok(c.str(1)?.starts_with(&*c.str(0)?).into())),
    function("hasSuffix", &[Str, Str], |c| Ok(c.str(1)?.ends_with(&*c.str(0)?).into())),
    function("indent", &[Int, Str], |c| Ok(indented(c.int(0)?, &c.str(1)?)?.into())),
    function("nindent", &[Int, Str], |c| Ok(format!("\n{}", indented(c.int(0)?, &c.str(1)?)?).into())),
    function("nospace", &[Str], |c| Ok(c.str(0)?.split_whitespace().collect::<String>().into())),
    function("plural", &[Str, Str, Int], |c| c.value(usize::from(c.int(2)? != 1)).cloned()),
    variadic("quote", &[], Any, |c| {
        let values: Vec<Value> = c.values.iter().filter(|value| !value.is_nil()).cloned().collect();
        Ok(joined(c, &values, |string| quoted(&string))?.into())
    }),
    function("repeat", &[Int, Str], |c| {
        let (count, string) = (c.int(0)?, c.str(1)?);
        let Ok(count) = usize::try_from(count) else { return Err(format!("{count} is negative")) };
        check_length(count.saturating_mul(string.len()))?;
        Ok(string.repeat(count).into())
    }),
    function("replace", &[Str, Str, Str], |c| {
        let (old, new, string) = (c.str(0)?, c.str(1)?, c.str(2)?);
        let count = string.matches(&*old).count();
        check_length(string.len().saturating_add(count.saturating_mul(new.len())))?;
        Ok(string.replace(&*old, &new).into())
    }),
    function("split", &[Str, Str], |c| {
        let (separator, string) = (c.str(0)?, c.str(1)?);
        Ok(numbered(c, split(&separator, &string, None)))
    }),
    function("splitList", &[Str, Str], |c| Value::strings(split(&c.str(0)?, &c.str(1)?, None))),
    function("splitn", &[Str, Int, Str], |c| {
        let (separator, count, string) = (c.str(0)?, c.int(1)?, c.str(2)?);
        // A negative number means all parts.
        Ok(numbered(c, split(&separator, &string, usize::try_from(count).ok())))
    }),
    variadic("squote", &[], Any, |c| {
        let values: Vec<Value> = c.values.iter().filter(|value| !value.is_nil()).cloned().collect();
        Ok(joined(c, &values, |string| format!("'{string}'"))?.into())
    }),
    function("substr", &[Int, Int, Str], substr),
    function("toString", &[Any], |c| {
        let value = c.value(0)?.clone();
        Ok(Value::String(c.as_string(&value)?))
    }),
    function("trim", &[Str], |c| Ok(c.str(0)?.trim().into())),
    function("trimAll", &[Str, Str], trim_all),
    function("trimPrefix", &[Str, Str], |c| {
        let (prefix, string) = (c.str(0)?, c.str(1)?);
        Ok(string.strip_prefix(&*prefix).unwrap_or(&string).into())
    }),
    function("trimSuffix", &[Str, Str], |c| {
        let (suffix, string) = (c.str(0)?, c.str(1)?);
        Ok(string.strip_suffix(&*suffix).unwrap_or(&string).into())
    }),
    function("trimall", &[Str, Str], trim_all),
    function("trunc", &[Int, Str], trunc),
    function("wrap", &[Int, Str], |c| Ok(wrapped(c.int(0)?, "\n", false, &c.str(1)?)?.into())),
    function("wrapWith", &[Int, Str, Str], |c| {
        let (length, separator, string) = (c.int(0)?, c.str(1)?, c.str(2)?);
        let separator = if separator.is_empty() { "\n" } else { &separator };
        Ok(wrapped(length, separator, true, &string)?.into())
    }),
];

fn joined(c: &mut Call<'_>, values: &[Value], shown: fn(String) -> String) -> Result<String, String> {
    let mut out = String::new();
    for (at, value) in values.iter().enumerate() {
        if at > 0 {
            out.push(' ');
        }
        out.push_str(&shown(print(c.heap, value)?));
        check_length(out.len())?;
    }
    Ok(out)
}

fn indented(spaces: i64, string: &str) -> Result<String, String> {
    let Ok(spaces) = usize::try_from(spaces) else { return Err(format!("{spaces} is negative")) };
    let lines = 1 + string.matches('\n').count();
    check_length(string.len().saturating_add(lines.saturating_mul(spaces)))?;
    let pad = " ".repeat(spaces);
    Ok(format!("{pad}{}", string.replace('\n', &format!("\n{pad}"))))
}

/// The parts between separators, at most so many. An empty separator splits between characters.
fn split(separator: &str, string: &str, count: Option<usize>) -> Vec<Rc<str>> {
    if count == Some(0) {
        return Vec::new();
    }
    let most = count.unwrap_or(usize::MAX);
    if !separator.is_empty() {
        return string.splitn(most, separator).map(Rc::from).collect();
    }
    let mut parts = Vec::new();
    let mut rest = string;
    while let Some(c) = rest.chars().next() {
        if parts.len() + 1 == most {
            break;
        }
        parts.push(Rc::from(&rest[..c.len_utf8()]));
        rest = &rest[c.len_utf8()..];
    }
    if !rest.is_empty() {
        parts.push(rest.into());
    }
    parts
}

/// The parts as a map with the keys `_0`, `_1`, ...
fn numbered(c: &mut Call<'_>, parts: Vec<Rc<str>>) -> Value {
    let entries: BTreeMap<Rc<str>, Value> = parts
        .into_iter()
        .enumerate()
        .map(|(at, part)| (format!("_{at}").into(), Value::String(part)))
        .collect();
    Value::Map(c.heap.new_map_of_strings(entries))
}

fn substr(c: &mut Call<'_>) -> Result<Value, String> {
    let (start, end, string) = (c.int(0)?, c.int(1)?, c.str(2)?);
    let position = |at: i64| usize::try_from(at).map_err(|_| format!("{at} is not in the string"));
    match (start, end) {
        (..0, end) => Call::part(&string, 0, position(end)?),
        (start, end) => {
            let end = usize::try_from(end).ok().filter(|end| *end <= string.len()).unwrap_or(string.len());
            Call::part(&string, position(start)?, end)
        }
    }
}

fn trim_all(c: &mut Call<'_>) -> Result<Value, String> {
    let (cutset, string) = (c.str(0)?, c.str(1)?);
    Ok(string.trim_matches(|c| cutset.contains(c)).into())
}

/// The first so many bytes, or the last.
fn trunc(c: &mut Call<'_>) -> Result<Value, String> {
    let (count, string) = (c.int(0)?, c.str(1)?);
    let length = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if length >= string.len() {
        return Ok(Value::String(string));
    }
    if count < 0 {
        return Call::part(&string, string.len() - length, string.len());
    }
    Call::part(&string, 0, length)
}

/// At most `width` bytes, with dots where something is left out.
fn abbreviated(string: &str, offset: i64, width: i64) -> Result<String, String> {
    const DOTS: &str = "...";
    let cut = || "a character would be cut through".to_owned();
    let (length, mut offset) = (i64::try_from(string.len()).unwrap_or(i64::MAX), offset);
    if length <= width {
        return Ok(string.to_owned());
    }
    offset = offset.min(length);
    if length - offset < width - 3 {
        offset = length - (width - 3);
    }
    let position = |at: i64| usize::try_from(at).unwrap_or(0);
    if offset <= 4 {
        return Ok(format!("{}{DOTS}", string.get(..position(width - 3)).ok_or_else(cut)?));
    }
    if width < 7 {
        return Ok(String::new());
    }
    let rest = string.get(position(offset)..).ok_or_else(cut)?;
    if offset + width - 3 < length {
        return Ok(format!("{DOTS}{}", abbreviated(rest, 0, width - 3)?));
    }
    Ok(format!("{DOTS}{}", string.get(position(length - (width - 3))..).ok_or_else(cut)?))
}

/// Breaks lines at spaces.
fn wrapped(width: i64, separator: &str, breaks_words: bool, string: &str) -> Result<String, String> {
    let width = usize::try_from(width.max(1)).unwrap_or(usize::MAX);
    let cut = || "a character would be cut through".to_owned();
    let mut out = String::new();
    let mut rest = string;
    while rest.len() > width {
        check_length(out.len())?;
        if let Some(after) = rest.strip_prefix(' ') {
            rest = after;
            continue;
        }
        let bytes = rest.as_bytes();
        // The byte behind the line may be the space to break at.
        let space = bytes[..=width].iter().rposition(|&byte| byte == b' ');
        let (end, skipped) = match space {
            Some(space) => (space, 1),
            None if breaks_words => (width, 0),
            None => match bytes[width..].iter().position(|&byte| byte == b' ') {
                Some(space) => (width + space, 1),
                None => break,
            },
        };
        out.push_str(rest.get(..end).ok_or_else(cut)?);
        out.push_str(separator);
        rest = rest.get(end + skipped..).ok_or_else(cut)?;
    }
    out.push_str(rest);
    Ok(out)
}
