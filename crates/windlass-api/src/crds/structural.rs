//! From the JSON schema of a Rust type to what a CustomResourceDefinition may have.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The structural schema of a type, without references.
pub(super) fn schema_of<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft07().with(|settings| {
        settings.inline_subschemas = true;
        settings.meta_schema = None;
    });
    structural(settings.into_generator().into_root_schema_for::<T>().to_value())
}

/// Rewrites what Kubernetes does not take: an optional field is one that may be absent, never one that may be null.
fn structural(schema: Value) -> Value {
    let Value::Object(mut schema) = schema else {
        return json!({"x-kubernetes-preserve-unknown-fields": true});
    };
    schema.remove("title");
    if let Some(Value::String(description)) = schema.get_mut("description") {
        *description = description.replace('\n', " ");
    }
    hoist_optional(&mut schema);
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|type_| type_ != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".into(), only);
        }
    }
    if let Some(Value::Array(allowed)) = schema.get_mut("enum") {
        allowed.retain(|value| !value.is_null());
    }
    if schema.get("required").is_some_and(|required| required.as_array().is_some_and(Vec::is_empty)) {
        schema.remove("required");
    }
    match schema.remove("additionalProperties") {
        None | Some(Value::Bool(false)) => {}
        // The fields that a partial type does not know.
        Some(Value::Bool(true)) => {
            schema.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
        }
        Some(values) => {
            schema.insert("additionalProperties".into(), structural(values));
        }
    }
    if let Some(items) = schema.remove("items") {
        schema.insert("items".into(), structural(items));
    }
    if let Some(Value::Object(properties)) = schema.remove("properties") {
        let properties: Map<String, Value> =
            properties.into_iter().map(|(name, property)| (name, structural(property))).collect();
        schema.insert("properties".into(), properties.into());
    }
    if !schema.contains_key("type") && !schema.contains_key("x-kubernetes-int-or-string") {
        schema.insert("x-kubernetes-preserve-unknown-fields".into(), true.into());
    }
    Value::Object(schema)
}

/// `anyOf` a schema and null is that schema; what stands beside it, such as the description, goes first.
fn hoist_optional(schema: &mut Map<String, Value>) {
    let Some(Value::Array(choices)) = schema.remove("anyOf") else { return };
    for choice in choices.into_iter().filter(|choice| choice["type"] != "null") {
        let Value::Object(choice) = choice else { continue };
        for (key, value) in choice {
            schema.entry(key).or_insert(value);
        }
    }
}
