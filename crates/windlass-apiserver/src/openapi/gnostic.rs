//! A document of version 2 as the protobuf that older clients read.

use serde_json::Value;

/// Encodes a whole document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    let mut message = Message::default();
    message.text(1, &document["swagger"]);
    message.nested(2, |info| {
        info.text(1, &document["info"]["title"]);
        info.text(2, &document["info"]["version"]);
    });
    message.nested(8, |paths| {
        for (name, item) in entries(&document["paths"]) {
            paths.named(2, name, |message| path_item(message, item));
        }
    });
    message.nested(9, |definitions| {
        for (name, definition) in entries(&document["definitions"]) {
            definitions.named(1, name, |message| schema(message, definition));
        }
    });
    message.0
}

fn path_item(message: &mut Message, item: &Value) {
    for (number, method) in [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (8, "patch")] {
        if let Some(found) = item.get(method) {
            message.nested(number, |message| operation(message, found));
        }
    }
    for item in item["parameters"].as_array().into_iter().flatten() {
        message.nested(9, |message| parameter(message, item));
    }
}

fn operation(message: &mut Message, operation: &Value) {
    for item in operation["parameters"].as_array().into_iter().flatten() {
        message.nested(8, |message| parameter(message, item));
    }
    message.nested(9, |responses| {
        for (code, response) in entries(&operation["responses"]) {
            responses.named(1, code, |value| {
                value.nested(1, |message| {
                    message.text(1, &response["description"]);
                    if let Some(found) = response.get("schema") {
                        message.nested(2, |item| item.nested(1, |message| schema(message, found)));
                    }
                });
            });
        }
    });
    extensions(message, 13, operation);
}

/// A parameter in the body, the query or the path: each is a message of its own.
fn parameter(message: &mut Message, parameter: &Value) {
    message.nested(1, |either| match parameter["in"].as_str() {
        Some("body") => either.nested(1, |body| {
            body.text(2, &parameter["name"]);
            body.text(3, &parameter["in"]);
            body.flag(4, &parameter["required"]);
            body.nested(5, |item| schema(item, &parameter["schema"]));
        }),
        place => either.nested(2, |either| {
            let in_path = place == Some("path");
            either.nested(if in_path { 4 } else { 3 }, |message| {
                message.flag(1, &parameter["required"]);
                message.text(2, &parameter["in"]);
                message.text(4, &parameter["name"]);
                message.text(if in_path { 5 } else { 6 }, &parameter["type"]);
                message.flag(if in_path { 19 } else { 20 }, &parameter["uniqueItems"]);
            });
        }),
    });
}

fn schema(message: &mut Message, schema_value: &Value) {
    const TEXTS: [(u64, &str); 5] =
        [(1, "$ref"), (2, "format"), (3, "title"), (4, "description"), (13, "pattern")];
    const FRACTIONS: [(u64, &str); 3] = [(6, "multipleOf"), (7, "maximum"), (9, "minimum")];
    const FLAGS: [(u64, &str); 3] = [(8, "exclusiveMaximum"), (10, "exclusiveMinimum"), (16, "uniqueItems")];
    const COUNTS: [(u64, &str); 6] = [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ];
    for (number, name) in TEXTS {
        message.text(number, &schema_value[name]);
    }
    for (number, name) in FRACTIONS {
        message.fraction(number, &schema_value[name]);
    }
    for (number, name) in FLAGS {
        message.flag(number, &schema_value[name]);
    }
    for (number, name) in COUNTS {
        message.count(number, &schema_value[name]);
    }
    for name in schema_value["required"].as_array().into_iter().flatten() {
        message.text(19, name);
    }
    for value in schema_value["enum"].as_array().into_iter().flatten() {
        message.nested(20, |message| any(message, value));
    }
    match schema_value.get("additionalProperties") {
        Some(Value::Bool(allowed)) => message.nested(21, |item| item.flag(2, &Value::Bool(*allowed))),
        Some(found) => message.nested(21, |item| item.nested(1, |message| schema(message, found))),
        None => {}
    }
    if schema_value["type"].is_string() {
        message.nested(22, |item| item.text(1, &schema_value["type"]));
    }
    if let Some(found) = schema_value.get("items") {
        message.nested(23, |item| item.nested(1, |message| schema(message, found)));
    }
    if let Some(properties) = schema_value.get("properties") {
        message.nested(25, |message| {
            for (name, property) in entries(properties) {
                message.named(1, name, |message| schema(message, property));
            }
        });
    }
    extensions(message, 31, schema_value);
}

fn extensions(message: &mut Message, number: u64, value: &Value) {
    for (name, extension) in entries(value).filter(|(name, _)| name.starts_with("x-")) {
        message.named(number, name, |message| any(message, extension));
    }
}

/// Any value is carried as YAML, which JSON is.
fn any(message: &mut Message, value: &Value) {
    message.bytes(2, value.to_string().as_bytes());
}

fn entries(value: &Value) -> impl Iterator<Item = (&String, &Value)> {
    value.as_object().into_iter().flatten()
}

/// A message that is being written. What says nothing is left out.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.0.push((number & 0x7f) as u8 | 0x80);
            number >>= 7;
        }
        self.0.push(number as u8);
    }

    fn bytes(&mut self, number: u64, bytes: &[u8]) {
        self.varint(number << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    fn text(&mut self, number: u64, value: &Value) {
        if let Some(text) = value.as_str().filter(|text| !text.is_empty()) {
            self.bytes(number, text.as_bytes());
        }
    }

    fn flag(&mut self, number: u64, value: &Value) {
        if value == &Value::Bool(true) {
            self.varint(number << 3);
            self.varint(1);
        }
    }

    fn count(&mut self, number: u64, value: &Value) {
        if let Some(count) = value.as_i64().filter(|count| *count != 0) {
            self.varint(number << 3);
            self.varint(count.cast_unsigned());
        }
    }

    fn fraction(&mut self, number: u64, value: &Value) {
        if let Some(fraction) = value.as_f64().filter(|fraction| *fraction != 0.0) {
            self.varint(number << 3 | 1);
            self.0.extend_from_slice(&fraction.to_le_bytes());
        }
    }

    fn nested(&mut self, number: u64, write: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        write(&mut inner);
        self.bytes(number, &inner.0);
    }

    /// An entry of a map: a name, and a message.
    fn named(&mut self, number: u64, name: &str, write: impl FnOnce(&mut Self)) {
        self.nested(number, |entry| {
            entry.bytes(1, name.as_bytes());
            entry.nested(2, write);
        });
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_the_bytes_that_clients_read() {
        let document = json!({
            "swagger": "2.0", "info": {"title": "k", "version": "v1"}, "paths": {},
            "definitions": {"A": {"type": "string", "maxLength": 300, "x-y": [1]}},
        });
        let schema = b"\x58\xac\x02\xb2\x01\x08\x0a\x06string\xfa\x01\x0c\x0a\x03x-y\x12\x05\x12\x03[1]";
        let length = |inner: &[u8]| u8::try_from(inner.len()).unwrap();
        let entry = [&b"\x0a\x01A\x12"[..], &[length(schema)], schema].concat();
        let definitions = [&b"\x0a"[..], &[length(&entry)], &entry].concat();
        let expected = [
            &b"\x0a\x032.0\x12\x07\x0a\x01k\x12\x02v1\x42\x00\x4a"[..],
            &[length(&definitions)],
            &definitions,
        ];
        assert_eq!(encode(&document), expected.concat());
    }
}
