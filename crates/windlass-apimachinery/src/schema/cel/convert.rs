//! JSON as the values that rules work on. The schema decides: a number declared `number` is a
//! double even when it is written `1`, and a `date-time` is a timestamp.

use std::collections::HashMap;
use std::sync::Arc;

use kube_cel::cel;
use kube_cel::cel::objects::{Key, Map};
use serde_json::{Number, Value};

use crate::schema::format;
use crate::schema::structural::{Schema, Type};

/// A JSON value as a CEL value.
pub(super) fn to_cel(value: &Value, schema: Option<&Schema>) -> cel::Value {
    match value {
        Value::Null => cel::Value::Null,
        Value::Bool(flag) => cel::Value::Bool(*flag),
        Value::Number(number) => number_to_cel(number, schema),
        Value::String(text) => string_to_cel(text, schema),
        Value::Array(items) => {
            let schema = schema.and_then(|schema| schema.items.as_deref());
            cel::Value::List(Arc::new(items.iter().map(|item| to_cel(item, schema)).collect()))
        }
        Value::Object(fields) => {
            let convert = |(name, field): (&String, &Value)| {
                let field_schema = schema.and_then(|schema| schema.field(name));
                // Names of fields must be identifiers in a rule; keys of a map are strings anyway.
                let is_key = schema.is_some_and(|schema| schema.additional.is_some());
                let name = if is_key { name.clone() } else { escape(name) };
                (Key::String(Arc::new(name)), to_cel(field, field_schema))
            };
            let map: HashMap<Key, cel::Value> = fields.iter().map(convert).collect();
            cel::Value::Map(Map { map: Arc::new(map) })
        }
    }
}

/// A JSON value as a CEL value, with names as they are: for expressions that no schema stands behind.
pub(super) fn plain_to_cel(value: &Value) -> cel::Value {
    match value {
        Value::Array(items) => cel::Value::List(Arc::new(items.iter().map(plain_to_cel).collect())),
        Value::Object(fields) => {
            let entries =
                fields.iter().map(|(name, field)| (Key::String(Arc::new(name.clone())), plain_to_cel(field)));
            cel::Value::Map(Map { map: Arc::new(entries.collect()) })
        }
        scalar => to_cel(scalar, None),
    }
}

/// A field name as an identifier: Kubernetes' escapes for reserved words and for characters that
/// identifiers do not have.
pub(super) fn escape(name: &str) -> String {
    const RESERVED: [&str; 21] = [
        "true",
        "false",
        "null",
        "in",
        "as",
        "break",
        "const",
        "continue",
        "else",
        "for",
        "function",
        "if",
        "import",
        "let",
        "loop",
        "package",
        "namespace",
        "return",
        "var",
        "void",
        "while",
    ];
    if RESERVED.contains(&name) {
        return format!("__{name}__");
    }
    let mut escaped = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (text, length) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            _ => (&rest[..c.len_utf8()], c.len_utf8()),
        };
        escaped.push_str(text);
        rest = &rest[length..];
    }
    escaped
}

fn number_to_cel(number: &Number, schema: Option<&Schema>) -> cel::Value {
    let float = || cel::Value::Float(number.as_f64().unwrap_or_default());
    match schema.and_then(|schema| schema.ty) {
        Some(Type::Number) => float(),
        // `3.0` is an integer to the schema, so it is one to the rule.
        Some(Type::Integer) if number.is_f64() => cel::Value::Int(number.as_f64().unwrap_or_default() as i64),
        _ => number.as_i64().map(cel::Value::Int).unwrap_or_else(float),
    }
}

fn string_to_cel(text: &str, schema: Option<&Schema>) -> cel::Value {
    let plain = || cel::Value::String(Arc::new(text.to_owned()));
    let Some(schema) = schema.filter(|schema| schema.ty == Some(Type::String)) else { return plain() };
    match schema.checks.format.as_deref() {
        Some("date-time" | "datetime") => {
            chrono::DateTime::parse_from_rfc3339(text).map_or_else(|_| plain(), cel::Value::Timestamp)
        }
        Some("date") => chrono::DateTime::parse_from_rfc3339(&format!("{text}T00:00:00Z"))
            .map_or_else(|_| plain(), cel::Value::Timestamp),
        Some("duration") => format::duration_nanos(text)
            .map_or_else(plain, |nanos| cel::Value::Duration(chrono::Duration::nanoseconds(nanos))),
        Some("byte") => format::base64(text).map_or_else(plain, |bytes| cel::Value::Bytes(Arc::new(bytes))),
        _ => plain(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers() {
        let cases = [
            ("plain", "plain"),
            ("namespace", "__namespace__"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a_b", "a_b"),
            ("a__b", "a__underscores__b"),
            ("é-", "é__dash__"),
        ];
        for (name, escaped) in cases {
            assert_eq!(escape(name), escaped);
        }
    }
}
