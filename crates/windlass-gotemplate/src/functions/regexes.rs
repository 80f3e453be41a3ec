//! Regular expressions.

use regex::Regex;

use super::Type::{Int, Str};
use super::{Call, Function, check_length, function, list_or_nil};
use crate::re2;
use crate::value::{Element, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    function("mustRegexFind", &[Str, Str], find),
    function("mustRegexFindAll", &[Str, Str, Int], find_all),
    function("mustRegexMatch", &[Str, Str], |c| Ok(compiled(c)?.is_match(&c.str(1)?).into())),
    function("mustRegexReplaceAll", &[Str, Str, Str], replace_all),
    function("mustRegexReplaceAllLiteral", &[Str, Str, Str], replace_literally),
    function("mustRegexSplit", &[Str, Str, Int], split),
    function("regexFind", &[Str, Str], find),
    function("regexFindAll", &[Str, Str, Int], find_all),
    // Upstream, what is no expression matches nothing.
    function("regexMatch", &[Str, Str], |c| {
        Ok(compiled(c).is_ok_and(|regex| c.str(1).is_ok_and(|string| regex.is_match(&string))).into())
    }),
    function("regexQuoteMeta", &[Str], |c| Ok(re2::quoted(&c.str(0)?).into())),
    function("regexReplaceAll", &[Str, Str, Str], replace_all),
    function("regexReplaceAllLiteral", &[Str, Str, Str], replace_literally),
    function("regexSplit", &[Str, Str, Int], split),
];

/// The expression is the first argument. The work of matching grows with both lengths.
fn compiled(c: &mut Call<'_>) -> Result<Regex, String> {
    let (expression, string) = (c.str(0)?, c.str(1)?);
    c.heap.spend(expression.len().saturating_mul(16 + string.len() / 8))?;
    re2::compile(&expression)
}

/// A negative number means all.
fn most(count: i64) -> usize {
    usize::try_from(count).unwrap_or(usize::MAX)
}

fn find(c: &mut Call<'_>) -> Result<Value, String> {
    let (regex, string) = (compiled(c)?, c.str(1)?);
    Ok(regex.find(&string).map_or("", |found| found.as_str()).into())
}

fn find_all(c: &mut Call<'_>) -> Result<Value, String> {
    let (regex, string, count) = (compiled(c)?, c.str(1)?, most(c.int(2)?));
    let found = regex.find_iter(&string).take(count).map(|found| Value::from(found.as_str())).collect();
    list_or_nil(found, Element::String)
}

fn replace_all(c: &mut Call<'_>) -> Result<Value, String> {
    let (regex, string, replacement) = (compiled(c)?, c.str(1)?, c.str(2)?);
    let mut out = String::new();
    let mut end = 0;
    for found in regex.captures_iter(&string) {
        let Some(all) = found.get(0) else { continue };
        out.push_str(&string[end..all.start()]);
        found.expand(&replacement, &mut out);
        check_length(out.len())?;
        end = all.end();
    }
    out.push_str(&string[end..]);
    Ok(out.into())
}

fn replace_literally(c: &mut Call<'_>) -> Result<Value, String> {
    let (regex, string, replacement) = (compiled(c)?, c.str(1)?, c.str(2)?);
    let mut out = String::new();
    let mut end = 0;
    for found in regex.find_iter(&string) {
        out.push_str(&string[end..found.start()]);
        out.push_str(&replacement);
        check_length(out.len())?;
        end = found.end();
    }
    out.push_str(&string[end..]);
    Ok(out.into())
}

/// The parts between matches. An empty match at the beginning separates nothing.
fn split(c: &mut Call<'_>) -> Result<Value, String> {
    let (regex, string, count) = (compiled(c)?, c.str(1)?, c.int(2)?);
    if count == 0 {
        return list_or_nil(Vec::new(), Element::String);
    }
    if string.is_empty() && !c.str(0)?.is_empty() {
        return Value::strings([""]);
    }
    let mut parts: Vec<&str> = Vec::new();
    let mut start = 0;
    let mut end = 0;
    for found in regex.find_iter(&string).take(most(count)) {
        if parts.len() + 1 == most(count) {
            break;
        }
        end = found.start();
        if found.end() != 0 {
            parts.push(&string[start..end]);
        }
        start = found.end();
    }
    if end != string.len() {
        parts.push(&string[start..]);
    }
    Value::strings(parts)
}
