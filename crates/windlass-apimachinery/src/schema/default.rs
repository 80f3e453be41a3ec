//! Defaulting: absent fields take the value their schema names.

use serde_json::Value;

use super::structural::Schema;
use windlass_patch::depth::{self, TooDeep};

impl Schema {
    /// Drops nulls that mean "not given" and fills in defaults, in place.
    ///
    /// A `null` stays only where the schema says `nullable`; elsewhere it gives way to the default,
    /// or goes away. Defaults are applied inside what is there, never to create an absent object.
    pub fn apply_defaults(&self, object: &mut Value) -> Result<(), TooDeep> {
        depth::check(object)?;
        self.apply_defaults_checked(object);
        Ok(())
    }

    /// As [`apply_defaults`](Self::apply_defaults), for an object that [`depth::check`] accepts or that was
    /// just read. Defaults can make it deeper.
    pub fn apply_defaults_checked(&self, object: &mut Value) {
        drop_nulls(object, self);
        fill(object, self);
    }
}

fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            let goes = |name: &str, field: &Value| {
                field.is_null()
                    && schema.field(name).is_some_and(|schema| !schema.nullable && schema.default.is_none())
            };
            let mut has_nulls = false;
            for (name, field) in fields.iter_mut() {
                match field {
                    Value::Null => has_nulls = true,
                    Value::Object(_) | Value::Array(_) => {
                        if let Some(schema) = schema.field(name) {
                            drop_nulls(field, schema);
                        }
                    }
                    _ => {}
                }
            }
            // Seldom, and taking fields out of a map costs more than looking at them.
            if has_nulls {
                fields.retain(|name, field| !goes(name, field));
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| drop_nulls(item, schema));
            }
        }
        _ => {}
    }
}

fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, schema) in &schema.properties {
                if let Some(default) = &schema.default
                    && fields.get(name).is_none_or(|field| field.is_null() && !schema.nullable)
                {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, field) in fields.iter_mut() {
                let is_open = field.is_null() || field.is_object() || field.is_array();
                if let Some(schema) = schema.field(name).filter(|_| is_open) {
                    fill_element(field, schema);
                }
            }
        }
        Value::Array(items) => {
            if let Some(schema) = &schema.items {
                items.iter_mut().for_each(|item| fill_element(item, schema));
            }
        }
        _ => {}
    }
}

fn fill_element(value: &mut Value, schema: &Schema) {
    if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
        *value = default.clone();
    }
    fill(value, schema);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn defaulted(properties: Value, mut value: Value) -> Value {
        let schema = Schema::parse(&json!({"type": "object", "properties": properties})).unwrap();
        schema.apply_defaults(&mut value).unwrap();
        let once = value.clone();
        schema.apply_defaults(&mut value).unwrap();
        assert_eq!(value, once, "defaulting twice changes nothing");
        value
    }

    #[test]
    fn absent_fields_take_their_default() {
        let ten = json!({"type": "integer", "default": 10});
        let nullable = json!({"type": "integer", "default": 10, "nullable": true});
        let plain = json!({"type": "integer"});
        let object = json!({"type": "object", "properties": {"a": ten}});
        let cases = [
            ("absent", json!({"a": ten}), json!({}), json!({"a": 10})),
            ("present", json!({"a": ten}), json!({"a": 1}), json!({"a": 1})),
            ("null", json!({"a": ten}), json!({"a": null}), json!({"a": 10})),
            ("nullable null stays", json!({"a": nullable}), json!({"a": null}), json!({"a": null})),
            ("nullable absent", json!({"a": nullable}), json!({}), json!({"a": 10})),
            ("null without a default goes", json!({"a": plain}), json!({"a": null}), json!({})),
            ("unknown null stays", json!({"a": plain}), json!({"b": null}), json!({"b": null})),
            (
                "inside an object that is there",
                json!({"o": object}),
                json!({"o": {}}),
                json!({"o": {"a": 10}}),
            ),
            ("not to create an object", json!({"o": object}), json!({}), json!({})),
            (
                "inside a default",
                json!({"o": {"type": "object", "default": {}, "properties": {"a": ten}}}),
                json!({}),
                json!({"o": {"a": 10}}),
            ),
            (
                "in list items",
                json!({"l": {"type": "array", "items": object}}),
                json!({"l": [{}, {"a": 1}]}),
                json!({"l": [{"a": 10}, {"a": 1}]}),
            ),
            (
                "null items",
                json!({"l": {"type": "array", "items": ten}}),
                json!({"l": [null, 1]}),
                json!({"l": [10, 1]}),
            ),
            (
                "in map values",
                json!({"m": {"type": "object", "additionalProperties": object}}),
                json!({"m": {"x": {}}}),
                json!({"m": {"x": {"a": 10}}}),
            ),
            (
                "null map values",
                json!({"m": {"type": "object", "additionalProperties": ten}}),
                json!({"m": {"x": null}}),
                json!({"m": {"x": 10}}),
            ),
        ];
        for (name, properties, value, expected) in cases {
            assert_eq!(defaulted(properties, value), expected, "{name}");
        }
    }

    #[test]
    fn too_deep_a_document_is_refused() {
        let mut document = depth::hostile::nested(10_000);
        assert_eq!(Schema::default().apply_defaults(&mut document), Err(TooDeep));
        depth::hostile::dismantle(document);
    }
}
