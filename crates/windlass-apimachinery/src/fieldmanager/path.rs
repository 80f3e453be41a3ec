//! Paths to fields: how the API names a field, an element of a list by its keys, by its value or by
//! its position.

use std::fmt::{self, Write};

use serde_json::Value;

use crate::json::Ordered;

/// A path from the root of an object to a field.
pub type Path = Vec<PathElement>;

/// One step of a path. Ordered as the API orders them: fields, keys, values, positions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of an object, or a key of a map.
    Field(String),
    /// The element of a list that has these values in its key fields, which are sorted by name.
    Key(Vec<(String, Ordered<Value>)>),
    /// The element of a set that is this value.
    Value(Ordered<Value>),
    /// The element at this position.
    Index(i64),
}

/// A key of `fieldsV1` that names no path element.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a path element: {0:?}")]
pub struct MalformedElement(pub String);

impl PathElement {
    /// A field by its name.
    pub fn field(name: impl Into<String>) -> Self {
        PathElement::Field(name.into())
    }

    /// A list element by its keys, in any order.
    pub fn key<K: Into<String>>(keys: impl IntoIterator<Item = (K, Value)>) -> Self {
        let mut keys: Vec<_> = keys.into_iter().map(|(name, value)| (name.into(), Ordered(value))).collect();
        keys.sort();
        PathElement::Key(keys)
    }

    /// A set element by its value.
    pub fn value(value: impl Into<Value>) -> Self {
        PathElement::Value(Ordered(value.into()))
    }

    /// The key in `fieldsV1`: `f:spec`, `k:{"port":80}`, `v:"a"`, `i:0`.
    pub fn encode(&self) -> String {
        let mut key = String::with_capacity(32);
        self.encode_into(&mut key);
        key
    }

    /// Appends the key in `fieldsV1`.
    pub(super) fn encode_into(&self, key: &mut String) {
        match self {
            PathElement::Field(name) => {
                key.push_str("f:");
                key.push_str(name);
            }
            PathElement::Key(keys) => {
                key.push_str("k:{");
                for (index, (name, Ordered(value))) in keys.iter().enumerate() {
                    key.push_str(if index > 0 { ",\"" } else { "\"" });
                    push_escaped(name, key);
                    key.push_str("\":");
                    push_json(value, key);
                }
                key.push('}');
            }
            PathElement::Value(Ordered(value)) => {
                key.push_str("v:");
                push_json(value, key);
            }
            // Writing to a string cannot fail.
            PathElement::Index(index) => drop(write!(key, "i:{index}")),
        }
    }

    /// Reads a key of `fieldsV1`; `None` for kinds of elements that are not known, which newer
    /// servers may write and which are ignored.
    pub fn decode(text: &str) -> Result<Option<Self>, MalformedElement> {
        let malformed = || MalformedElement(text.to_owned());
        let (kind, rest) = text.split_once(':').ok_or_else(malformed)?;
        Ok(match kind {
            "f" => Some(PathElement::field(rest)),
            "k" => match serde_json::from_str(rest) {
                Ok(Value::Object(keys)) if !keys.is_empty() => Some(PathElement::key(keys)),
                _ => return Err(malformed()),
            },
            "v" => Some(PathElement::Value(Ordered(serde_json::from_str(rest).map_err(|_| malformed())?))),
            "i" => Some(PathElement::Index(rest.parse().map_err(|_| malformed())?)),
            _ => None,
        })
    }
}

fn push_json(value: &Value, text: &mut String) {
    match value {
        Value::String(plain) => {
            text.push('"');
            push_escaped(plain, text);
            text.push('"');
        }
        // Writing to a string cannot fail.
        other => drop(write!(text, "{other}")),
    }
}

/// Appends the inside of a JSON string.
fn push_escaped(plain: &str, text: &mut String) {
    let needs_escape = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    if plain.bytes().any(needs_escape) {
        let quoted = Value::from(plain).to_string();
        text.push_str(&quoted[1..quoted.len() - 1]);
    } else {
        text.push_str(plain);
    }
}

/// As conflicts name it: `.spec`, `[port=80,protocol="TCP"]`, `[="a"]`, `[0]`.
impl fmt::Display for PathElement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(f, ".{name}"),
            PathElement::Key(keys) => {
                write!(f, "[")?;
                for (index, (name, Ordered(value))) in keys.iter().enumerate() {
                    let comma = if index > 0 { "," } else { "" };
                    write!(f, "{comma}{name}={value}")?;
                }
                write!(f, "]")
            }
            PathElement::Value(Ordered(value)) => write!(f, "[={value}]"),
            PathElement::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A whole path as conflicts name it: `.spec.ports[port=80].name`.
pub fn display(path: &[PathElement]) -> String {
    path.iter().map(ToString::to_string).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn elements_are_written_and_read_as_the_api_writes_them() {
        let cases = [
            (PathElement::field("spec"), "f:spec", ".spec"),
            (PathElement::field("a:b/c"), "f:a:b/c", ".a:b/c"),
            (
                PathElement::key([("protocol", json!("TCP")), ("port", json!(80))]),
                r#"k:{"port":80,"protocol":"TCP"}"#,
                r#"[port=80,protocol="TCP"]"#,
            ),
            (PathElement::value("a"), r#"v:"a""#, r#"[="a"]"#),
            (PathElement::value(1), "v:1", "[=1]"),
            (PathElement::value(true), "v:true", "[=true]"),
            (PathElement::Index(3), "i:3", "[3]"),
        ];
        for (element, encoded, shown) in cases {
            assert_eq!(element.encode(), encoded);
            assert_eq!(PathElement::decode(encoded), Ok(Some(element.clone())));
            assert_eq!(element.to_string(), shown);
        }
    }

    #[test]
    fn malformed_elements_are_refused_and_unknown_kinds_ignored() {
        for text in ["", ".", "spec", "k:{}", "k:[1]", "k:{", "v:", "i:x"] {
            assert_eq!(PathElement::decode(text), Err(MalformedElement(text.to_owned())), "{text}");
        }
        assert_eq!(PathElement::decode("z:future"), Ok(None));
    }

    #[test]
    fn numbers_name_the_same_element_however_written() {
        assert_eq!(PathElement::value(1), PathElement::value(1.0));
        assert_eq!(PathElement::key([("port", json!(80))]), PathElement::key([("port", json!(80.0))]));
    }
}
