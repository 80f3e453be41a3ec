//! `printf`, with Go's verbs and flags. What does not fit a verb is said in the result, as in Go.

use super::print::{float_string, print, quoted, quoted_with, simple};
use super::value::{Heap, Integer, MAX_DEPTH, MAX_STRING, Value, too_deep};

/// Widths and precisions above this are not numbers, as in Go.
const MAX_WIDTH: i64 = 1_000_000;

#[derive(Clone, Copy, Default)]
struct Flags {
    plus: bool,
    minus: bool,
    sharp: bool,
    space: bool,
    zero: bool,
    width: Option<usize>,
    precision: Option<usize>,
}

/// Formats values.
pub(crate) fn printf(heap: &mut Heap, format: &str, values: &[Value]) -> Result<String, String> {
    let mut printer = Printer { out: String::new(), values, next: 0, reordered: false, bad_index: false };
    let mut rest = format;
    while let Some(at) = rest.find('%') {
        printer.out.push_str(&rest[..at]);
        rest = printer.verb(heap, &rest[at + 1..])?;
        if printer.out.len() > MAX_STRING {
            return Err(format!("the result is larger than {MAX_STRING} bytes"));
        }
    }
    printer.out.push_str(rest);
    printer.extra(heap)?;
    Ok(printer.out)
}

struct Printer<'a> {
    out: String,
    values: &'a [Value],
    next: usize,
    /// An argument was chosen by its number: then others may be left over.
    reordered: bool,
    bad_index: bool,
}

impl Printer<'_> {
    /// Reads what follows a percent sign and writes the value; returns what is behind the verb.
    fn verb<'f>(&mut self, heap: &mut Heap, format: &'f str) -> Result<&'f str, String> {
        let mut flags = Flags::default();
        let mut rest = format;
        self.bad_index = false;
        loop {
            match rest.chars().next() {
                Some('+') => flags.plus = true,
                Some('-') => (flags.minus, flags.zero) = (true, false),
                Some('#') => flags.sharp = true,
                Some(' ') => flags.space = true,
                Some('0') => flags.zero = true,
                _ => break,
            }
            rest = &rest[1..];
        }
        rest = self.index(rest);
        if let Some(after) = rest.strip_prefix('*') {
            match self.star() {
                Some(width) => {
                    flags.minus |= width < 0;
                    flags.width = usize::try_from(width.unsigned_abs()).ok();
                }
                None => self.out.push_str("%!(BADWIDTH)"),
            }
            rest = after;
        } else {
            (flags.width, rest) = number(rest);
        }
        if let Some(after) = rest.strip_prefix('.') {
            rest = self.index(after);
            if let Some(after) = rest.strip_prefix('*') {
                match self.star().and_then(|precision| usize::try_from(precision).ok()) {
                    Some(precision) => flags.precision = Some(precision),
                    None => self.out.push_str("%!(BADPREC)"),
                }
                rest = after;
            } else {
                let (precision, after) = number(rest);
                flags.precision = Some(precision.unwrap_or(0));
                rest = after;
            }
        }
        rest = self.index(rest);
        flags.zero &= !flags.minus;
        let Some(verb) = rest.chars().next() else {
            self.out.push_str("%!(NOVERB)");
            return Ok("");
        };
        let behind = &rest[verb.len_utf8()..];
        if verb == '%' {
            self.out.push('%');
        } else if self.bad_index {
            self.out.push_str(&format!("%!{verb}(BADINDEX)"));
        } else if let Some(value) = self.values.get(self.next) {
            self.next += 1;
            let shown = formatted(heap, value, verb, flags, 0)?;
            self.out.push_str(&shown);
        } else {
            self.out.push_str(&format!("%!{verb}(MISSING)"));
        }
        Ok(behind)
    }

    /// `[2]`: the number of an argument.
    fn index<'f>(&mut self, rest: &'f str) -> &'f str {
        let Some(inside) = rest.strip_prefix('[') else { return rest };
        self.reordered = true;
        let Some((digits, after)) = inside.split_once(']') else {
            self.bad_index = true;
            return inside;
        };
        match digits.parse::<usize>().ok().filter(|at| (1..=self.values.len()).contains(at)) {
            Some(at) => self.next = at - 1,
            None => self.bad_index = true,
        }
        after
    }

    fn star(&mut self) -> Option<i64> {
        let value = self.values.get(self.next);
        self.next += usize::from(value.is_some());
        match value {
            Some(Value::Integer(value, _) | Value::Whole(value)) if value.abs() <= MAX_WIDTH => Some(*value),
            _ => None,
        }
    }

    fn extra(&mut self, heap: &mut Heap) -> Result<(), String> {
        if self.reordered || self.next >= self.values.len() {
            return Ok(());
        }
        let mut parts = Vec::new();
        for value in &self.values[self.next..] {
            parts.push(typed(heap, value)?);
        }
        self.out.push_str(&format!("%!(EXTRA {})", parts.join(", ")));
        Ok(())
    }
}

fn typed(heap: &mut Heap, value: &Value) -> Result<String, String> {
    match value {
        Value::Missing | Value::Nil => Ok("<nil>".to_owned()),
        value => Ok(format!("{}={}", value.go_type(heap), print(heap, value)?)),
    }
}

fn number(rest: &str) -> (Option<usize>, &str) {
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let read = rest[..end].parse().ok().filter(|number: &i64| *number <= MAX_WIDTH);
    (read.and_then(|number| usize::try_from(number).ok()), &rest[end..])
}

fn formatted(
    heap: &mut Heap,
    value: &Value,
    verb: char,
    flags: Flags,
    depth: usize,
) -> Result<String, String> {
    heap.spend(1 + flags.width.unwrap_or(0) / 8 + flags.precision.unwrap_or(0) / 8)?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    if flags.width.is_some_and(|width| width > MAX_STRING) {
        return Err(format!("the result is larger than {MAX_STRING} bytes"));
    }
    let bad = |heap: &mut Heap| Ok(format!("%!{verb}({})", typed(heap, value)?));
    if verb == 'T' {
        return Ok(padded(value.go_type(heap).to_owned(), flags));
    }
    if verb == 'v' && flags.sharp {
        return go_syntax(heap, value, depth);
    }
    match value {
        Value::Missing | Value::Nil if verb == 'v' => Ok(padded("<nil>".to_owned(), flags)),
        Value::Missing | Value::Nil => Ok(format!("%!{verb}(<nil>)")),
        Value::Bool(value) if matches!(verb, 't' | 'v') => Ok(padded(value.to_string(), flags)),
        Value::Integer(number, _) => match integer_string(*number, verb, flags) {
            Some(shown) => Ok(shown),
            None => bad(heap),
        },
        Value::Whole(number) if matches!(verb, 'v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' | 'c' | 'U') => {
            match integer_string(*number, verb, flags) {
                Some(shown) => Ok(shown),
                None => bad(heap),
            }
        }
        Value::Whole(number) if "eEfFgG".contains(verb) => Ok(float(*number as f64, verb, flags)),
        Value::Float(number) if "veEfFgG".contains(verb) => Ok(float(*number, verb, flags)),
        Value::String(_) | Value::Version(_) | Value::Time(_) => match string(&simple(value), verb, flags) {
            Some(shown) => Ok(shown),
            None => bad(heap),
        },
        Value::List(list) => {
            let mut parts = Vec::with_capacity(list.items.len());
            for item in list.items.iter() {
                parts.push(formatted(heap, item, verb, flags, depth + 1)?);
            }
            Ok(format!("[{}]", parts.join(" ")))
        }
        Value::Map(id) => {
            let entries: Vec<_> =
                heap.map(*id).entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let mut parts = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                let key = formatted(heap, &Value::String(key), verb, flags, depth + 1)?;
                parts.push(format!("{key}:{}", formatted(heap, &value, verb, flags, depth + 1)?));
            }
            Ok(format!("map[{}]", parts.join(" ")))
        }
        _ => bad(heap),
    }
}

fn padded(shown: String, flags: Flags) -> String {
    let Some(width) = flags.width else { return shown };
    if flags.minus {
        let missing = width.saturating_sub(shown.chars().count());
        return shown + &" ".repeat(missing);
    }
    filled(shown, if flags.zero { "0" } else { " " }, width)
}

/// At least as many characters as the width, which may be more than the standard library formats with.
fn filled(shown: String, with: &str, width: usize) -> String {
    with.repeat(width.saturating_sub(shown.chars().count())) + &shown
}

/// Digits with a sign: zeros stand behind the sign.
fn signed(negative: bool, digits: String, flags: Flags, zero: bool) -> String {
    let sign = match negative {
        true => "-",
        false if flags.plus => "+",
        false if flags.space => " ",
        false => "",
    };
    match flags.width {
        Some(width) if zero && flags.zero => {
            let width = width.saturating_sub(sign.len());
            format!("{sign}{}", filled(digits, "0", width))
        }
        _ => padded(format!("{sign}{digits}"), Flags { zero: false, ..flags }),
    }
}

fn integer_string(number: i64, verb: char, flags: Flags) -> Option<String> {
    let size = number.unsigned_abs();
    let digits = match verb {
        'v' | 'd' => size.to_string(),
        'b' => format!("{}{size:b}", if flags.sharp { "0b" } else { "" }),
        'o' => format!("{}{size:o}", if flags.sharp { "0" } else { "" }),
        'O' => format!("0o{size:o}"),
        'x' => format!("{}{size:x}", if flags.sharp { "0x" } else { "" }),
        'X' => format!("{}{size:X}", if flags.sharp { "0X" } else { "" }),
        'c' => return Some(padded(character(number).to_string(), flags)),
        'q' => {
            let shown = quoted_with(&character(number).to_string(), '\'', flags.plus);
            return Some(padded(shown, flags));
        }
        'U' => return Some(padded(format!("U+{size:04X}"), Flags { zero: false, ..flags })),
        _ => return None,
    };
    let digits = match flags.precision {
        Some(0) if number == 0 => String::new(),
        Some(precision) => filled(digits, "0", precision),
        None => digits,
    };
    Some(signed(number < 0, digits, flags, flags.precision.is_none()))
}

fn character(number: i64) -> char {
    u32::try_from(number).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn float(number: f64, verb: char, flags: Flags) -> String {
    let lower = match verb {
        'v' => 'g',
        'F' => 'f',
        verb => verb.to_ascii_lowercase(),
    };
    let precision = match (lower, flags.precision) {
        ('e' | 'f', None) => Some(6),
        (_, precision) => precision,
    };
    // No float has more digits than this; further ones are zeros, which only %f and %e would show.
    let most = precision.map(|precision| precision.min(1100));
    let mut shown = float_string(number, lower, most);
    if verb.is_ascii_uppercase() && verb != 'F' {
        shown = shown.to_uppercase();
    }
    let finite = number.is_finite();
    match shown.strip_prefix('-') {
        Some(digits) => signed(true, digits.to_owned(), flags, finite),
        None => signed(
            false,
            shown.trim_start_matches('+').to_owned(),
            Flags { plus: flags.plus || number == f64::INFINITY, ..flags },
            finite,
        ),
    }
}

fn string(string: &str, verb: char, flags: Flags) -> Option<String> {
    let cut: String = match flags.precision {
        Some(precision) => string.chars().take(precision).collect(),
        None => string.to_owned(),
    };
    Some(match verb {
        's' | 'v' => padded(cut, flags),
        'q' if flags.sharp && !cut.contains('`') && !cut.contains(char::is_control) => {
            padded(format!("`{cut}`"), flags)
        }
        'q' => padded(quoted_with(&cut, '"', flags.plus), flags),
        'x' | 'X' => {
            let bytes = string.as_bytes();
            let bytes = &bytes[..flags.precision.unwrap_or(bytes.len()).min(bytes.len())];
            let separator = if flags.space { " " } else { "" };
            let shown: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            let shown = shown.join(separator);
            padded(if verb == 'X' { shown.to_uppercase() } else { shown }, flags)
        }
        _ => return None,
    })
}

/// `%#v`: a value as it is written in Go.
fn go_syntax(heap: &mut Heap, value: &Value, depth: usize) -> Result<String, String> {
    heap.spend(1)?;
    if depth > MAX_DEPTH {
        return Err(too_deep());
    }
    Ok(match value {
        Value::Missing | Value::Nil => "<nil>".to_owned(),
        Value::Integer(number, Integer::Uint64 | Integer::Uint8) => format!("{number:#x}"),
        Value::String(string) => quoted(string),
        Value::List(list) if list.nil => format!("{}(nil)", value.go_type(heap)),
        Value::List(list) => {
            let mut parts = Vec::with_capacity(list.items.len());
            for item in list.items.iter() {
                parts.push(inner_syntax(heap, item, depth)?);
            }
            format!("{}{{{}}}", value.go_type(heap), parts.join(", "))
        }
        Value::Map(id) => {
            let entries: Vec<_> =
                heap.map(*id).entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
            let mut parts = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                parts.push(format!("{}:{}", quoted(&key), inner_syntax(heap, &value, depth)?));
            }
            format!("{}{{{}}}", value.go_type(heap), parts.join(", "))
        }
        value => simple(value),
    })
}

/// A nil inside of something has its type.
fn inner_syntax(heap: &mut Heap, value: &Value, depth: usize) -> Result<String, String> {
    if value.is_nil() {
        return Ok("interface {}(nil)".to_owned());
    }
    go_syntax(heap, value, depth + 1)
}
