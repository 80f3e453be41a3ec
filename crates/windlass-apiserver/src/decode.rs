//! Bodies of requests: bytes to values, with everything that was written twice.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Number, Value};
use windlass_apimachinery::schema::Place;

/// A document, and the fields that it gives more than once: the last one counts.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    pub(crate) duplicates: Vec<String>,
}

/// Reads JSON.
pub(crate) fn json(bytes: &[u8]) -> Result<Document, serde_json::Error> {
    let mut duplicates = BTreeSet::new();
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Seed { place: Place::Root, duplicates: &mut duplicates }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Document { value, duplicates: duplicates.into_iter().collect() })
}

/// Reads JSON, or else YAML.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Document, String> {
    if let Ok(document) = json(bytes) {
        return Ok(document);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    Ok(Document { value, duplicates: Vec::new() })
}

/// What is wrong with JSON, in the words that the API server's parser has for it.
pub(crate) fn describe(error: &serde_json::Error, bytes: &[u8]) -> String {
    let line = bytes.split(|byte| *byte == b'\n').nth(error.line().saturating_sub(1)).unwrap_or_default();
    let found = line.get(error.column().saturating_sub(1)).map_or(' ', |byte| char::from(*byte));
    let text = error.to_string();
    match () {
        () if error.is_eof() => "unexpected end of JSON input".to_owned(),
        () if text.starts_with("key must be a string") => {
            format!("invalid character {found:?} looking for beginning of object key string")
        }
        () if text.starts_with("expected value") => {
            format!("invalid character {found:?} looking for beginning of value")
        }
        () if text.starts_with("trailing characters") => {
            format!("invalid character {found:?} after top-level value")
        }
        () => text,
    }
}

struct Seed<'a> {
    place: Place<'a>,
    duplicates: &'a mut BTreeSet<String>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Value, E> {
        Ok(Value::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Value, E> {
        Number::from_f64(number).map(Value::Number).ok_or_else(|| E::custom("a number that is not finite"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let place = Place::Item(&self.place, items.len());
            match sequence.next_element_seed(Seed { place, duplicates: self.duplicates })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let place = Place::Field(&self.place, &name);
            let value = map.next_value_seed(Seed { place, duplicates: self.duplicates })?;
            match fields.entry(name) {
                Entry::Vacant(field) => {
                    field.insert(value);
                }
                Entry::Occupied(mut field) => {
                    let path = Place::Field(&self.place, field.key()).to_string();
                    self.duplicates.insert(path);
                    field.insert(value);
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_given_twice_are_reported_and_the_last_one_counts() {
        let document = json(br#"{"a":1,"b":[{"c":1,"c":2}],"a":3,"a":4}"#).unwrap();
        assert_eq!(document.value, json!({"a": 4, "b": [{"c": 2}]}));
        assert_eq!(document.duplicates, ["a", "b[0].c"]);
    }

    #[test]
    fn malformed_json_is_described_as_the_api_server_does() {
        let cases = [
            ("{bad json", "invalid character 'b' looking for beginning of object key string"),
            ("xx", "invalid character 'x' looking for beginning of value"),
            ("{", "unexpected end of JSON input"),
            ("{} x", "invalid character 'x' after top-level value"),
        ];
        for (text, expected) in cases {
            assert_eq!(describe(&json(text.as_bytes()).unwrap_err(), text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn nesting_without_end_is_refused() {
        assert!(json("[".repeat(10_000).as_bytes()).is_err());
        assert!(yaml("[".repeat(10_000).as_bytes()).is_err());
    }

    #[test]
    fn yaml_is_read_where_it_is_not_json() {
        let document = yaml(b"a: 1\nb:\n- x\n- {c: true}\n").unwrap();
        assert_eq!(document.value, json!({"a": 1, "b": ["x", {"c": true}]}));
    }
}
