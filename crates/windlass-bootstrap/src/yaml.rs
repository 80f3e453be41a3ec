//! YAML that every reader takes for the same: PyYAML in cloud-init, Go's in kubeadm, and whatever comes next.
//!
//! The readers follow different versions of YAML. So nothing is left to them that only one of them understands: a string is
//! written without quotes only if no version could take it for anything else. Text of several lines, and text with
//! apostrophes, is written as a literal block, which has no escapes: cloud-init renders the document as a Jinja template before it
//! reads it as YAML, and an expression such as `{{ v1["region"] }}` would not survive the escapes of a quoted string.

use std::fmt::{self, Write as _};

use serde_json::{Number, Value};

/// A YAML document, with the keys of its maps in the order in which they are written.
#[derive(Clone, Debug, PartialEq)]
pub enum Yaml {
    /// Nothing.
    Null,
    /// True or false.
    Bool(bool),
    /// A number.
    Number(Number),
    /// A string.
    Text(String),
    /// A list.
    List(Vec<Self>),
    /// A map.
    Map(Vec<(String, Self)>),
}

impl Yaml {
    /// A map of those entries that there is something to say about.
    pub fn map<const N: usize>(entries: [(&str, Option<Self>); N]) -> Self {
        let said = entries.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?)));
        Self::Map(said.collect())
    }

    /// A list of strings.
    pub fn texts<'a>(texts: impl IntoIterator<Item = &'a String>) -> Self {
        Self::List(texts.into_iter().map(Self::from).collect())
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }
}

impl From<&str> for Yaml {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&String> for Yaml {
    fn from(text: &String) -> Self {
        Self::Text(text.clone())
    }
}

impl From<bool> for Yaml {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for Yaml {
    fn from(value: i64) -> Self {
        Self::Number(value.into())
    }
}

impl From<Value> for Yaml {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(value) => Self::Number(value),
            Value::String(text) => Self::Text(text),
            Value::Array(items) => Self::List(items.into_iter().map(Self::from).collect()),
            Value::Object(entries) => {
                Self::Map(entries.into_iter().map(|(key, value)| (key, Self::from(value))).collect())
            }
        }
    }
}

impl fmt::Display for Yaml {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        write_block(&mut out, self, 0)?;
        f.write_str(&out)
    }
}

/// Spaces of one level.
const STEP: usize = 2;

/// Writes a value on lines of its own, indented by so many spaces.
fn write_block(out: &mut String, yaml: &Yaml, indent: usize) -> fmt::Result {
    match yaml {
        Yaml::Map(entries) if !entries.is_empty() => {
            for (key, value) in entries {
                write!(out, "{:indent$}{}:", "", quoted(key))?;
                write_value(out, value, indent)?;
            }
            Ok(())
        }
        Yaml::List(items) if !items.is_empty() => {
            for item in items {
                write!(out, "{:indent$}-", "")?;
                match item {
                    Yaml::Map(_) | Yaml::List(_) if !item.is_empty() => {
                        let mut nested = String::new();
                        write_block(&mut nested, item, indent + STEP)?;
                        // The first line goes behind the dash.
                        write!(out, " {}", nested.trim_start_matches(' '))?;
                    }
                    item => write_value(out, item, indent)?,
                }
            }
            Ok(())
        }
        scalar => {
            write!(out, "{:indent$}", "")?;
            let mut line = String::new();
            write_value(&mut line, scalar, indent)?;
            out.push_str(line.trim_start_matches(' '));
            Ok(())
        }
    }
}

/// Writes a value behind a key or a dash that is indented by so many spaces.
fn write_value(out: &mut String, yaml: &Yaml, indent: usize) -> fmt::Result {
    match yaml {
        Yaml::Null => out.write_str(" null\n"),
        Yaml::Bool(value) => writeln!(out, " {value}"),
        Yaml::Number(value) => writeln!(out, " {value}"),
        Yaml::Text(text) => write_text(out, text, indent),
        Yaml::List(items) if items.is_empty() => out.write_str(" []\n"),
        Yaml::Map(entries) if entries.is_empty() => out.write_str(" {}\n"),
        Yaml::List(_) | Yaml::Map(_) => {
            out.push('\n');
            write_block(out, yaml, indent + STEP)
        }
    }
}

fn write_text(out: &mut String, text: &str, indent: usize) -> fmt::Result {
    if is_plain(text) {
        return writeln!(out, " {text}");
    }
    if text.chars().all(is_printable) && !text.contains('\'') {
        return writeln!(out, " '{text}'");
    }
    if !fits_literal(text) {
        return writeln!(out, " {}", escaped(text));
    }
    // Where the first line is indented itself, the reader has to be told how far the block is.
    let indicator = if text.starts_with([' ', '\n']) { "2" } else { "" };
    let body = text.strip_suffix('\n');
    let chomping = match body {
        None => "-",
        Some(body) if body.ends_with('\n') => "+",
        Some(_) => "",
    };
    writeln!(out, " |{indicator}{chomping}")?;
    for line in body.unwrap_or(text).split('\n') {
        if line.is_empty() {
            out.push('\n');
        } else {
            writeln!(out, "{:width$}{line}", "", width = indent + STEP)?;
        }
    }
    Ok(())
}

/// A string on one line, in quotes if need be.
fn quoted(text: &str) -> String {
    if is_plain(text) {
        text.to_owned()
    } else if text.chars().all(is_printable) && !text.contains('\'') {
        format!("'{text}'")
    } else {
        escaped(text)
    }
}

/// Whether no version of YAML takes a string without quotes for anything else.
fn is_plain(text: &str) -> bool {
    /// What YAML 1.1 takes for a boolean, in any case, and what some readers take for null.
    const WORDS: [&str; 9] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null"];
    text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "_-./".contains(c))
        && !WORDS.iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// Whether a character is itself in every version of YAML, inside of a line.
fn is_printable(c: char) -> bool {
    // U+2028 and U+2029 end a line in YAML 1.1, U+FEFF is a mark of the byte order.
    matches!(c, ' '..='~' | '\u{a0}'..)
        && !matches!(c, '\u{2028}' | '\u{2029}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}')
}

/// Whether a literal block can hold a string. Lines of nothing but spaces are left out: readers disagree about them at the
/// beginning and at the end of a block.
fn fits_literal(text: &str) -> bool {
    let has_content = |line: &str| line.chars().any(|c| c != ' ' && c != '\t');
    text.chars().all(|c| c == '\n' || c == '\t' || is_printable(c))
        && text.split('\n').all(|line| line.is_empty() || has_content(line))
        && text.split('\n').any(has_content)
}

/// A string in double quotes.
fn escaped(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                out.push_str(&match code {
                    0..=0xff => format!("\\x{code:02x}"),
                    0x100..=0xffff => format!("\\u{code:04x}"),
                    _ => format!("\\U{code:08x}"),
                });
            }
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Value {
        serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
    }

    #[test]
    fn strings_are_written_in_the_plainest_form_that_keeps_them() {
        for (text, written) in [
            ("kube-system", " kube-system\n"),
            ("/etc/kubernetes", " /etc/kubernetes\n"),
            ("yes", " 'yes'\n"),
            ("Off", " 'Off'\n"),
            ("0640", " '0640'\n"),
            ("12:30:45", " '12:30:45'\n"),
            ("root:root", " 'root:root'\n"),
            ("", " ''\n"),
            ("~", " '~'\n"),
            ("a # b", " 'a # b'\n"),
            ("{{ ds.meta_data.local_hostname }}", " '{{ ds.meta_data.local_hostname }}'\n"),
            ("echo 'it is'", " |-\n  echo 'it is'\n"),
            ("a\nb\n", " |\n  a\n  b\n"),
            ("a\n\nb", " |-\n  a\n\n  b\n"),
            ("a\n\n", " |+\n  a\n\n"),
            ("  a\nb", " |2-\n    a\n  b\n"),
            ("\n", " \"\\n\"\n"),
            ("a\r\nb", " \"a\\r\\nb\"\n"),
            ("\u{85}\u{2028}\u{7f}\u{1f600}", " \"\\x85\\u2028\\x7f\u{1f600}\"\n"),
        ] {
            let mut out = String::new();
            write_text(&mut out, text, 0).unwrap();
            assert_eq!(out, written, "{text:?}");
        }
    }

    #[test]
    fn maps_and_lists_are_nested() {
        let document = json!({
            "empty": {"list": [], "map": {}},
            "nested": [[["a"], []], {"x": 1, "z": [true, null]}, "b\nc\n"],
        });
        let text = Yaml::from(document.clone()).to_string();
        assert_eq!(
            text,
            "empty:\n  list: []\n  map: {}\nnested:\n  - - - a\n    - []\n  - x: 1\n    z:\n      - true\n      - null\n  - |\n    b\n    c\n"
        );
        assert_eq!(read(&text), document);
    }

    /// Strings with what breaks templates and parsers.
    pub(crate) fn hostile() -> impl Strategy<Value = String> {
        let pieces = prop_oneof![
            Just("\n"),
            Just("  "),
            Just("\t"),
            Just("'"),
            Just("\""),
            Just("\\"),
            Just(": "),
            Just(" #"),
            Just("- "),
            Just("---"),
            Just("..."),
            Just("{{ x }}"),
            Just("{% y %}"),
            Just("&a"),
            Just("*a"),
            Just("!!b"),
            Just("|"),
            Just(">"),
            Just("%"),
            Just("@"),
            Just("`"),
            Just("yes"),
            Just("0x1"),
            Just("1_0"),
            Just("1e3"),
            Just("null"),
            Just("\u{85}"),
            Just("\u{2028}"),
            Just("\u{feff}"),
            Just("\u{7f}"),
            Just("\u{0}"),
            Just("é"),
            Just("a"),
            Just("/"),
            Just("\r"),
            Just("$(rm -rf /)"),
            Just("\u{1f600}"),
        ];
        prop_oneof![prop::collection::vec(pieces, 0..8).prop_map(|pieces| pieces.concat()), any::<String>(),]
    }

    fn documents() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            hostile().prop_map(Value::from),
        ];
        let nested = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(hostile(), inner, 0..4).prop_map(|map| map.into_iter().collect()),
            ]
        });
        prop::collection::btree_map(hostile(), nested, 1..4).prop_map(|map| map.into_iter().collect())
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_it_was(document in documents()) {
            let text = Yaml::from(document.clone()).to_string();
            prop_assert_eq!(read(&text), document, "{}", text);
        }
    }
}
