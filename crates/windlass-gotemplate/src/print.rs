//! Values as strings, as Go prints them.

use super::value::{Heap, MAX_DEPTH, MAX_STRING, Value, too_deep};

/// A value as Go's `%v` prints it, except that whole numbers of documents are printed in full.
pub(crate) fn print(heap: &mut Heap, value: &Value) -> Result<String, String> {
    let mut out = String::new();
    print_to(heap, value, &mut out, 0)?;
    Ok(out)
}

fn print_to(heap: &mut Heap, value: &Value, out: &mut String, depth: usize) -> Result<(), String> {
    heap.spend(1)?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if out.len() > MAX_STRING {
        return Err(format!("the result is larger than {MAX_STRING} bytes"));
    }
    match value {
        Value::List(list) => {
            out.push('[');
            for (at, item) in list.items.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                print_to(heap, item, out, depth + 1)?;
            }
            out.push(']');
        }
        Value::Map(id) => {
            let entries: Vec<_> =
                heap.map(*id).entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            heap.spend(entries.len())?;
            out.push_str("map[");
            for (at, (key, value)) in entries.iter().enumerate() {
                if at > 0 {
                    out.push(' ');
                }
                out.push_str(key);
                out.push(':');
                print_to(heap, value, out, depth + 1)?;
            }
            out.push(']');
        }
        value => out.push_str(&simple(value)),
    }
    Ok(())
}

/// A value that contains no others.
pub(crate) fn simple(value: &Value) -> String {
    match value {
        Value::Missing | Value::Nil => "<nil>".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Integer(value, _) | Value::Whole(value) => value.to_string(),
        Value::Float(float) => float_string(*float, 'g', None),
        Value::String(string) => string.to_string(),
        Value::Version(version) => version.to_string(),
        Value::Time(time) => time.to_string(),
        Value::List(_) | Value::Map(_) => String::new(),
    }
}

/// A float with one of Go's verbs `e`, `f` and `g`; without a precision, with as many digits as it needs.
pub(crate) fn float_string(float: f64, verb: char, precision: Option<usize>) -> String {
    if float.is_nan() {
        return "NaN".to_owned();
    }
    if float.is_infinite() {
        return if float > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    match (verb, precision) {
        ('e', None) => exponential(&format!("{float:e}")),
        ('e', Some(precision)) => exponential(&format!("{float:.precision$e}")),
        ('f', None) => format!("{float}"),
        ('f', Some(precision)) => format!("{float:.precision$}"),
        (_, precision) => general(float, precision),
    }
}

/// The exponent has a sign and two digits.
fn exponential(shown: &str) -> String {
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((shown, "0"));
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}

/// Exponential for very small and large numbers, otherwise not.
fn general(float: f64, precision: Option<usize>) -> String {
    let scientific = match precision {
        None => format!("{float:e}"),
        Some(precision) => format!("{float:.*e}", precision.max(1) - 1),
    };
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mantissa =
        if mantissa.contains('.') { mantissa.trim_end_matches('0').trim_end_matches('.') } else { mantissa };
    let digits = i32::try_from(mantissa.bytes().filter(u8::is_ascii_digit).count()).unwrap_or(i32::MAX);
    let limit = match precision {
        // Go decides on shortest numbers as if they had six digits.
        None => 6,
        Some(precision) => {
            let precision = i32::try_from(precision.max(1)).unwrap_or(i32::MAX);
            if precision > digits && digits > exponent { digits } else { precision }
        }
    };
    if exponent < -4 || exponent >= limit {
        return exponential(&format!("{mantissa}e{exponent}"));
    }
    let places = usize::try_from((digits - 1 - exponent).max(0)).unwrap_or(0);
    format!("{float:.places$}")
}

/// A float as JSON has it.
pub(crate) fn json_float(float: f64) -> String {
    let size = float.abs();
    if size != 0.0 && !(1e-6..1e21).contains(&size) {
        let shown = exponential(&format!("{float:e}"));
        // e-09 is written e-9.
        return match shown.split_once("e-0") {
            Some((mantissa, digit)) => format!("{mantissa}e-{digit}"),
            None => shown,
        };
    }
    format!("{float}")
}

/// A string in double quotes with Go's escapes.
pub(crate) fn quoted(string: &str) -> String {
    quoted_with(string, '"', false)
}

/// A string in quotes with Go's escapes, also of everything that is not ASCII if that is asked for.
pub(crate) fn quoted_with(string: &str, quote: char, ascii: bool) -> String {
    let mut out = String::with_capacity(string.len() + 2);
    out.push(quote);
    for c in string.chars() {
        push_quoted(&mut out, c, quote, ascii);
    }
    out.push(quote);
    out
}

fn push_quoted(out: &mut String, c: char, quote: char, ascii: bool) {
    match c {
        '\\' => out.push_str("\\\\"),
        c if c == quote => {
            out.push('\\');
            out.push(c);
        }
        '\u{7}' => out.push_str("\\a"),
        '\u{8}' => out.push_str("\\b"),
        '\u{c}' => out.push_str("\\f"),
        '\n' => out.push_str("\\n"),
        '\r' => out.push_str("\\r"),
        '\t' => out.push_str("\\t"),
        '\u{b}' => out.push_str("\\v"),
        '\0'..='\u{1f}' | '\u{7f}' => out.push_str(&format!("\\x{:02x}", u32::from(c))),
        c if is_printable(c) && (c.is_ascii() || !ascii) => out.push(c),
        c if u32::from(c) < 0x10000 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
        c => out.push_str(&format!("\\U{:08x}", u32::from(c))),
    }
}

fn is_printable(c: char) -> bool {
    // Combining marks are printable for Go, and escaped by the standard library here.
    c == ' '
        || matches!(c, '\u{300}'..='\u{36f}')
        || !c.is_whitespace() && c.escape_debug().len() == 1
        || "'\"\\".contains(c)
}
