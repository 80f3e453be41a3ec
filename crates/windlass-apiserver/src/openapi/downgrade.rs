//! Schemas of CRDs as version 2 can say them.

use serde_json::{Map, Value};

/// What version 2 has no word for is left out, so that its clients do not refuse what the server accepts.
pub(super) fn downgrade(schema: &Value) -> Value {
    let Value::Object(fields) = schema else { return schema.clone() };
    let is_true = |name: &str| fields.get(name) == Some(&Value::Bool(true));
    let opaque = is_true("x-kubernetes-preserve-unknown-fields");
    let nullable = is_true("nullable");
    let mut result = Map::new();
    for (name, value) in fields {
        let value = match name.as_str() {
            "nullable" | "oneOf" | "anyOf" | "allOf" | "not" | "x-kubernetes-validations" | "default" => {
                continue;
            }
            // Something that may also be null has no type there.
            "type" if nullable => continue,
            // Clients refuse fields that are not among those named.
            "items" | "properties" | "additionalProperties" | "required" if opaque || nullable => continue,
            "items" | "additionalProperties" => downgrade(value),
            "properties" => {
                let properties = value.as_object().into_iter().flatten();
                properties.map(|(name, schema)| (name.clone(), downgrade(schema))).collect()
            }
            _ => value.clone(),
        };
        result.insert(name.clone(), value);
    }
    Value::Object(result)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_version_2_cannot_say_is_left_open() {
        let schema = json!({
            "type": "object",
            "properties": {
                "a": {"type": "string", "nullable": true, "description": "d"},
                "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"c": {}}},
                "d": {"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]},
                "e": {"type": "array", "items": {"type": "integer", "default": 1, "maximum": 3}},
            },
        });
        let expected = json!({
            "type": "object",
            "properties": {
                "a": {"description": "d"},
                "b": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                "d": {"x-kubernetes-int-or-string": true},
                "e": {"type": "array", "items": {"type": "integer", "maximum": 3}},
            },
        });
        assert_eq!(downgrade(&schema), expected);
    }
}
