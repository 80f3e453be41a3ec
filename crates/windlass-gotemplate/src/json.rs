//! Values as JSON, written as Go writes it.

use super::print::json_float;
use super::value::{Heap, MAX_DEPTH, MAX_STRING, Value, too_deep};

/// Which characters are escaped besides those that have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Escapes {
    None,
    /// `<`, `>` and `&`
    Html,
}

/// Encodes a value, on one line or indented.
pub(crate) fn encode(
    heap: &mut Heap,
    value: &Value,
    escapes: Escapes,
    indent: Option<&str>,
) -> Result<String, String> {
    let mut encoder = Encoder { out: String::new(), escapes, indent };
    encoder.value(heap, value, 0)?;
    Ok(encoder.out)
}

struct Encoder<'a> {
    out: String,
    escapes: Escapes,
    indent: Option<&'a str>,
}

impl Encoder<'_> {
    fn value(&mut self, heap: &mut Heap, value: &Value, depth: usize) -> Result<(), String> {
        heap.spend(1)?;
        if depth > MAX_DEPTH {
            return Err(too_deep());
        }
        if self.out.len() > MAX_STRING {
            return Err(format!("the result is larger than {MAX_STRING} bytes"));
        }
        match value {
            Value::Missing | Value::Nil => self.out.push_str("null"),
            Value::Bool(value) => self.out.push_str(if *value { "true" } else { "false" }),
            Value::Integer(value, _) | Value::Whole(value) => self.out.push_str(&value.to_string()),
            Value::Float(float) if !float.is_finite() => return Err(format!("{float} has no form in JSON")),
            Value::Float(float) => self.out.push_str(&json_float(*float)),
            Value::String(string) => self.string(string),
            Value::Version(version) => self.string(&version.to_string()),
            Value::Time(time) => self.string(&time.rfc3339()),
            Value::List(list) if list.nil => self.out.push_str("null"),
            Value::List(list) => {
                self.out.push('[');
                for (at, item) in list.items.iter().enumerate() {
                    self.separate(at, depth + 1);
                    self.value(heap, item, depth + 1)?;
                }
                self.end(list.items.len(), depth, ']');
            }
            Value::Map(id) => {
                let entries: Vec<_> =
                    heap.map(*id).entries.iter().map(|(key, value)| (key.clone(), value.clone())).collect();
                heap.spend(entries.len())?;
                self.out.push('{');
                for (at, (key, value)) in entries.iter().enumerate() {
                    self.separate(at, depth + 1);
                    self.string(key);
                    self.out.push_str(if self.indent.is_some() { ": " } else { ":" });
                    self.value(heap, value, depth + 1)?;
                }
                self.end(entries.len(), depth, '}');
            }
        }
        Ok(())
    }

    fn separate(&mut self, at: usize, depth: usize) {
        if at > 0 {
            self.out.push(',');
        }
        self.line(depth);
    }

    fn end(&mut self, count: usize, depth: usize, close: char) {
        if count > 0 {
            self.line(depth);
        }
        self.out.push(close);
    }

    fn line(&mut self, depth: usize) {
        if let Some(indent) = self.indent {
            self.out.push('\n');
            for _ in 0..depth {
                self.out.push_str(indent);
            }
        }
    }

    fn string(&mut self, string: &str) {
        self.out.push('"');
        for c in string.chars() {
            match c {
                '"' => self.out.push_str("\\\""),
                '\\' => self.out.push_str("\\\\"),
                '\n' => self.out.push_str("\\n"),
                '\r' => self.out.push_str("\\r"),
                '\t' => self.out.push_str("\\t"),
                '\u{8}' => self.out.push_str("\\b"),
                '\u{c}' => self.out.push_str("\\f"),
                c @ ('\0'..='\u{1f}' | '\u{2028}' | '\u{2029}') => self.code(c),
                c @ ('<' | '>' | '&') if self.escapes == Escapes::Html => self.code(c),
                c => self.out.push(c),
            }
        }
        self.out.push('"');
    }

    fn code(&mut self, c: char) {
        self.out.push_str(&format!("\\u{:04x}", u32::from(c)));
    }
}
