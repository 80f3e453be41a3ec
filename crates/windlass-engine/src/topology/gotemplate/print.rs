//! Values as texts: as Go prints them, and with `printf`.

use serde_json::Value;

use super::{TemplateError, evaluation};

/// What a value is, in a message.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "a map",
    }
}

/// A value as Go's `%v` prints it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::String(value) => value.clone(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(text).collect::<Vec<_>>().join(" "))
        }
        Value::Object(map) => {
            let entries: Vec<String> =
                map.iter().map(|(key, value)| format!("{key}:{}", text(value))).collect();
            format!("map[{}]", entries.join(" "))
        }
    }
}

pub(super) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// `printf` with the verbs `%s %v %d %q %t %f %x %%`, widths, precisions, `-` and `0`.
pub(super) fn printf(arguments: &[Value]) -> Result<String, TemplateError> {
    let Some(Value::String(format)) = arguments.first() else {
        return evaluation("printf: the first argument must be a string");
    };
    let mut values = arguments[1..].iter();
    let mut out = String::new();
    let mut chars = format.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut flags = String::new();
        while let Some(&c) = chars.peek()
            && (c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | '#' | ' '))
        {
            flags.push(c);
            chars.next();
        }
        let Some(verb) = chars.next() else { return evaluation("printf: the format ends with %") };
        if verb == '%' {
            out.push('%');
            continue;
        }
        let Some(value) = values.next() else {
            return evaluation(format!("printf: there is no argument for %{verb}"));
        };
        out.push_str(&padded(&flags, verb, value)?);
    }
    if values.next().is_some() {
        return evaluation("printf: there are more arguments than verbs");
    }
    Ok(out)
}

fn padded(flags: &str, verb: char, value: &Value) -> Result<String, TemplateError> {
    let left = flags.contains('-');
    let digits = flags.trim_start_matches(['-', '+', '#', ' ']);
    let zero = digits.starts_with('0') && !left;
    let (width, precision) = match digits.split_once('.') {
        Some((width, precision)) => (width, precision.parse().ok()),
        None => (digits, None),
    };
    let width: usize = width.parse().unwrap_or(0).min(1024);
    let shown = match verb {
        's' | 'v' => {
            let all = text(value);
            match precision {
                Some(precision) => all.chars().take(precision).collect(),
                None => all,
            }
        }
        'q' => quoted(&text(value)),
        't' if value.is_boolean() => text(value),
        'd' if value.is_i64() || value.is_u64() => text(value),
        'f' if value.is_number() => {
            let precision: usize = precision.unwrap_or(6).min(64);
            format!("{:.*}", precision, value.as_f64().unwrap_or_default())
        }
        'x' => match value {
            Value::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            value => match value.as_i64() {
                Some(number) => format!("{number:x}"),
                None => return evaluation(format!("printf: {} cannot be printed with %x", kind(value))),
            },
        },
        verb => return evaluation(format!("printf: {} cannot be printed with %{verb}", kind(value))),
    };
    Ok(match (left, zero && verb == 'd') {
        (true, _) => format!("{shown:<width$}"),
        (false, true) => format!("{shown:0>width$}"),
        (false, false) => format!("{shown:>width$}"),
    })
}
