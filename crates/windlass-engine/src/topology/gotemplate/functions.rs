//! The functions of Go and Sprig that depend on nothing but their arguments.

use std::cmp::Ordering;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Map, Number, Value, json};
use sha2::{Digest, Sha256};

use super::print::{kind, printf, quoted, text};
use super::{MAX_OUTPUT, TemplateError, evaluation, semver};

/// Whether a condition takes a value for true.
pub(super) fn is_true(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Bool(value) => *value,
        Value::Number(value) => value.as_f64() != Some(0.0),
        Value::String(value) => !value.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
    }
}

/// Calls a function. The value of a pipeline is the last argument.
pub(super) fn call(name: &str, arguments: Vec<Value>) -> Result<Value, TemplateError> {
    let a = Arguments { function: name, values: arguments };
    Ok(match name {
        "not" => Value::Bool(!is_true(a.get(0)?)),
        "eq" => {
            let first = a.get(0)?;
            let mut any = false;
            for other in a.values.get(1..).unwrap_or_default() {
                any |= a.equal(first, other)?;
            }
            Value::Bool(any)
        }
        "ne" => Value::Bool(!a.equal(a.get(0)?, a.get(1)?)?),
        "lt" => Value::Bool(a.order()? == Ordering::Less),
        "le" => Value::Bool(a.order()? != Ordering::Greater),
        "gt" => Value::Bool(a.order()? == Ordering::Greater),
        "ge" => Value::Bool(a.order()? != Ordering::Less),
        "len" => match a.get(0)? {
            Value::String(text) => json!(text.len()),
            Value::Array(items) => json!(items.len()),
            Value::Object(map) => json!(map.len()),
            other => return a.fail(format!("{} has no length", kind(other))),
        },
        "index" => a.index()?,
        "print" => Value::String(a.values.iter().map(text).collect::<Vec<_>>().join(" ")),
        "println" => Value::String(a.values.iter().map(text).collect::<Vec<_>>().join(" ") + "\n"),
        "printf" => Value::String(printf(&a.values)?),
        "fail" => return evaluation(text(a.get(0)?)),
        _ => match a.strings()? {
            Some(value) => value,
            None => match a.collections()? {
                Some(value) => value,
                None => match a.numbers()? {
                    Some(value) => value,
                    None => return evaluation(format!("function {name:?} does not exist")),
                },
            },
        },
    })
}

struct Arguments<'a> {
    function: &'a str,
    values: Vec<Value>,
}

impl Arguments<'_> {
    fn fail<T>(&self, problem: impl AsRef<str>) -> Result<T, TemplateError> {
        evaluation(format!("{}: {}", self.function, problem.as_ref()))
    }

    fn get(&self, at: usize) -> Result<&Value, TemplateError> {
        match self.values.get(at) {
            Some(value) => Ok(value),
            None => self.fail(format!("argument {} is missing", at + 1)),
        }
    }

    fn text(&self, at: usize) -> Result<String, TemplateError> {
        Ok(match self.get(at)? {
            Value::Null => String::new(),
            value => text(value),
        })
    }

    fn whole(&self, at: usize) -> Result<i64, TemplateError> {
        let value = self.get(at)?;
        let read = match value {
            Value::Number(number) => number.as_i64().or_else(|| number.as_f64().map(|float| float as i64)),
            Value::String(text) => text.trim().parse().ok(),
            Value::Bool(value) => Some(i64::from(*value)),
            Value::Null => Some(0),
            Value::Array(_) | Value::Object(_) => None,
        };
        match read {
            Some(read) => Ok(read),
            None => self.fail(format!("{} is not a number", kind(value))),
        }
    }

    fn count(&self, at: usize) -> Result<usize, TemplateError> {
        usize::try_from(self.whole(at)?).or_else(|_| self.fail("a number must not be negative"))
    }

    fn list(&self, at: usize) -> Result<&[Value], TemplateError> {
        match self.get(at)? {
            Value::Array(items) => Ok(items),
            Value::Null => Ok(&[]),
            other => self.fail(format!("{} is not a list", kind(other))),
        }
    }

    fn map(&self, at: usize) -> Result<&Map<String, Value>, TemplateError> {
        match self.get(at)? {
            Value::Object(map) => Ok(map),
            other => self.fail(format!("{} is not a map", kind(other))),
        }
    }

    fn equal(&self, left: &Value, right: &Value) -> Result<bool, TemplateError> {
        match (left, right) {
            (Value::Number(l), Value::Number(r)) => Ok(l == r || l.as_f64() == r.as_f64()),
            (l, r) if kind(l) == kind(r) => Ok(l == r),
            (Value::Null, _) | (_, Value::Null) => Ok(false),
            (l, r) => self.fail(format!("{} and {} cannot be compared", kind(l), kind(r))),
        }
    }

    fn order(&self) -> Result<Ordering, TemplateError> {
        let (left, right) = (self.get(0)?, self.get(1)?);
        let order = match (left, right) {
            (Value::Number(l), Value::Number(r)) => match (l.as_i64(), r.as_i64()) {
                (Some(l), Some(r)) => Some(l.cmp(&r)),
                _ => l.as_f64().partial_cmp(&r.as_f64()),
            },
            (Value::String(l), Value::String(r)) => Some(l.cmp(r)),
            _ => None,
        };
        match order {
            Some(order) => Ok(order),
            None => self.fail(format!("{} and {} have no order", kind(left), kind(right))),
        }
    }

    fn index(&self) -> Result<Value, TemplateError> {
        let mut value = self.get(0)?;
        for (at, key) in self.values.iter().enumerate().skip(1) {
            value = match (value, key) {
                (Value::Object(map), Value::String(key)) => map.get(key).unwrap_or(&Value::Null),
                (Value::Array(items), Value::Number(_)) => {
                    let position = self.count(at)?;
                    match items.get(position) {
                        Some(item) => item,
                        None => {
                            let count = items.len();
                            return self.fail(format!("{position} is out of range, there are {count} items"));
                        }
                    }
                }
                (value, key) => {
                    return self.fail(format!("{} cannot be indexed with {}", kind(value), kind(key)));
                }
            };
        }
        Ok(value.clone())
    }

    fn strings(&self) -> Result<Option<Value>, TemplateError> {
        let indented = |count: usize, text: &str| {
            let pad = " ".repeat(count.min(1024));
            pad.clone() + &text.replace('\n', &format!("\n{pad}"))
        };
        let shown = match self.function {
            "toString" => self.text(0)?,
            "quote" | "squote" => {
                let quote = |value: &Value| match self.function {
                    "quote" => quoted(&text(value)),
                    _ => format!("'{}'", text(value)),
                };
                let given = self.values.iter().filter(|value| !value.is_null());
                given.map(quote).collect::<Vec<_>>().join(" ")
            }
            "lower" => self.text(0)?.to_lowercase(),
            "upper" => self.text(0)?.to_uppercase(),
            "title" => title(&self.text(0)?),
            "trim" => self.text(0)?.trim().to_owned(),
            "trimAll" => self.text(1)?.trim_matches(|c| self.cutset(c)).to_owned(),
            "trimPrefix" => {
                without(self.text(1)?, |text| text.strip_prefix(&self.text(0).unwrap_or_default()))
            }
            "trimSuffix" => {
                without(self.text(1)?, |text| text.strip_suffix(&self.text(0).unwrap_or_default()))
            }
            "nospace" => self.text(0)?.split_whitespace().collect(),
            "replace" => self.text(2)?.replace(&self.text(0)?, &self.text(1)?),
            "repeat" => {
                let (count, text) = (self.count(0)?, self.text(1)?);
                if count.saturating_mul(text.len()) > MAX_OUTPUT {
                    return evaluation(format!("the output is larger than {MAX_OUTPUT} bytes"));
                }
                text.repeat(count)
            }
            "trunc" => {
                let (count, text) = (self.whole(0)?, self.text(1)?);
                let length = text.chars().count();
                let keep = usize::try_from(count.unsigned_abs()).unwrap_or(length).min(length);
                let skip = if count < 0 { length - keep } else { 0 };
                text.chars().skip(skip).take(keep).collect()
            }
            "substr" => {
                let (start, end, text) = (self.count(0)?, self.whole(1)?, self.text(2)?);
                let end = usize::try_from(end).unwrap_or(usize::MAX);
                text.chars().take(end).skip(start).collect()
            }
            "indent" => indented(self.count(0)?, &self.text(1)?),
            "nindent" => format!("\n{}", indented(self.count(0)?, &self.text(1)?)),
            "join" => {
                let items: Vec<String> = self.list(1)?.iter().map(text).collect();
                items.join(&self.text(0)?)
            }
            "b64enc" => BASE64_STANDARD.encode(self.text(0)?),
            "b64dec" => {
                let decoded = BASE64_STANDARD.decode(self.text(0)?).ok();
                match decoded.and_then(|bytes| String::from_utf8(bytes).ok()) {
                    Some(text) => text,
                    None => return self.fail("the text is not base64"),
                }
            }
            "sha256sum" => hexadecimal(&Sha256::digest(self.text(0)?)),
            "toJson" => self.get(0)?.to_string(),
            "toPrettyJson" => serde_json::to_string_pretty(self.get(0)?).unwrap_or_default(),
            "toYaml" => match serde_saphyr::to_string(self.get(0)?) {
                Ok(yaml) => yaml.trim_end_matches('\n').to_owned(),
                Err(error) => return self.fail(error.to_string()),
            },
            "contains" => return Ok(Some(Value::Bool(self.text(1)?.contains(&self.text(0)?)))),
            "hasPrefix" => return Ok(Some(Value::Bool(self.text(1)?.starts_with(&self.text(0)?)))),
            "hasSuffix" => return Ok(Some(Value::Bool(self.text(1)?.ends_with(&self.text(0)?)))),
            "splitList" => {
                let (text, separator) = (self.text(1)?, self.text(0)?);
                return Ok(Some(text.split(&separator).map(str::to_owned).map(Value::String).collect()));
            }
            "semverCompare" => {
                return Ok(Some(Value::Bool(semver::satisfies(&self.text(0)?, &self.text(1)?)?)));
            }
            "semver" => {
                let original = self.text(0)?;
                let version = semver::read(&original)?;
                return Ok(Some(json!({
                    "Major": version.minor().major,
                    "Minor": version.minor().minor,
                    "Patch": version.patch(),
                    "Prerelease": version.pre_release(),
                    "Metadata": version.build(),
                    "Original": original,
                })));
            }
            _ => return Ok(None),
        };
        Ok(Some(Value::String(shown)))
    }

    fn cutset(&self, c: char) -> bool {
        self.text(0).is_ok_and(|cutset| cutset.contains(c))
    }

    fn collections(&self) -> Result<Option<Value>, TemplateError> {
        Ok(Some(match self.function {
            "default" => match self.values.get(1) {
                Some(given) if is_true(given) => given.clone(),
                _ => self.get(0)?.clone(),
            },
            "empty" => Value::Bool(!is_true(self.get(0)?)),
            "coalesce" => self.values.iter().find(|value| is_true(value)).cloned().unwrap_or(Value::Null),
            "ternary" => self.get(usize::from(!is_true(self.get(2)?)))?.clone(),
            "all" => Value::Bool(self.values.iter().all(is_true)),
            "any" => Value::Bool(self.values.iter().any(is_true)),
            "list" | "tuple" => Value::Array(self.values.clone()),
            "dict" => {
                let mut map = Map::new();
                for pair in self.values.chunks(2) {
                    map.insert(text(&pair[0]), pair.get(1).cloned().unwrap_or_else(|| json!("")));
                }
                Value::Object(map)
            }
            "get" => self.map(0)?.get(&self.text(1)?).cloned().unwrap_or_else(|| json!("")),
            "hasKey" => Value::Bool(self.map(0)?.contains_key(&self.text(1)?)),
            "keys" => self.map(0)?.keys().cloned().map(Value::String).collect(),
            "values" => self.map(0)?.values().cloned().collect(),
            "merge" => {
                let mut merged = Map::new();
                for at in 0..self.values.len() {
                    for (key, value) in self.map(at)? {
                        merged.entry(key.clone()).or_insert_with(|| value.clone());
                    }
                }
                Value::Object(merged)
            }
            "has" => Value::Bool(self.list(1)?.contains(self.get(0)?)),
            "first" => self.list(0)?.first().cloned().unwrap_or(Value::Null),
            "last" => self.list(0)?.last().cloned().unwrap_or(Value::Null),
            "rest" => self.list(0)?.iter().skip(1).cloned().collect(),
            "initial" => {
                let items = self.list(0)?;
                items.iter().take(items.len().saturating_sub(1)).cloned().collect()
            }
            "append" | "push" => self.list(0)?.iter().chain([self.get(1)?]).cloned().collect(),
            "prepend" => [self.get(1)?].into_iter().chain(self.list(0)?).cloned().collect(),
            "concat" => {
                let mut all = Vec::new();
                for at in 0..self.values.len() {
                    all.extend_from_slice(self.list(at)?);
                }
                Value::Array(all)
            }
            "uniq" => {
                let mut seen: Vec<Value> = Vec::new();
                for item in self.list(0)? {
                    if !seen.contains(item) {
                        seen.push(item.clone());
                    }
                }
                Value::Array(seen)
            }
            "compact" => self.list(0)?.iter().filter(|item| is_true(item)).cloned().collect(),
            "reverse" => self.list(0)?.iter().rev().cloned().collect(),
            "sortAlpha" => {
                let mut items: Vec<String> = self.list(0)?.iter().map(text).collect();
                items.sort_unstable();
                items.into_iter().map(Value::String).collect()
            }
            "fromJson" => match serde_json::from_str(&self.text(0)?) {
                Ok(value) => value,
                Err(_) => return self.fail("the text is not JSON"),
            },
            "kindOf" => Value::String(self.go_kind(0)?.to_owned()),
            "kindIs" => Value::Bool(self.text(0)? == self.go_kind(1)?),
            _ => return Ok(None),
        }))
    }

    fn go_kind(&self, at: usize) -> Result<&'static str, TemplateError> {
        Ok(match self.get(at)? {
            Value::Null => "invalid",
            Value::Bool(_) => "bool",
            Value::Number(number) if number.is_f64() => "float64",
            Value::Number(_) => "int",
            Value::String(_) => "string",
            Value::Array(_) => "slice",
            Value::Object(_) => "map",
        })
    }

    fn numbers(&self) -> Result<Option<Value>, TemplateError> {
        let fold = |step: fn(i64, i64) -> i64| -> Result<i64, TemplateError> {
            let mut result = self.whole(0)?;
            for at in 1..self.values.len() {
                result = step(result, self.whole(at)?);
            }
            Ok(result)
        };
        let divisor = || match self.whole(1)? {
            0 => self.fail("division by zero"),
            divisor => Ok(divisor),
        };
        Ok(Some(Value::from(match self.function {
            "add" => fold(i64::wrapping_add)?,
            "add1" => self.whole(0)?.wrapping_add(1),
            "sub" => self.whole(0)?.wrapping_sub(self.whole(1)?),
            "mul" => fold(i64::wrapping_mul)?,
            "div" => self.whole(0)?.wrapping_div(divisor()?),
            "mod" => self.whole(0)?.wrapping_rem(divisor()?),
            "max" => fold(i64::max)?,
            "min" => fold(i64::min)?,
            "int" | "int64" | "atoi" => self.whole(0)?,
            "float64" => {
                let float = match self.get(0)? {
                    Value::String(text) => text.trim().parse().ok(),
                    value => value.as_f64(),
                };
                return Ok(Some(float.and_then(Number::from_f64).map_or(json!(0), Value::Number)));
            }
            "until" => {
                let count = self.count(0)?.min(MAX_OUTPUT);
                return Ok(Some((0..count).map(Value::from).collect()));
            }
            _ => return Ok(None),
        })))
    }
}

fn without(text: String, strip: impl Fn(&str) -> Option<&str>) -> String {
    strip(&text).unwrap_or(&text).to_owned()
}

fn title(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut start = true;
    for c in text.chars() {
        if start {
            out.extend(c.to_uppercase())
        } else {
            out.push(c)
        }
        start = !c.is_alphanumeric();
    }
    out
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, byte| {
        // Writing to a String does not fail.
        let _ = write!(out, "{byte:02x}");
        out
    })
}
