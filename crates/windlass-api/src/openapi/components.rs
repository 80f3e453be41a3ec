//! From the JSON schemas of the types to the components of the document.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::NodeSystemInfo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use super::described::{
    ClusterDeprecatedStatus, JSONSchemaProps, MachineDeprecatedStatus, MachineSetDeprecatedStatus,
};
use super::names::{ComponentName, LISTS, Package, Place};
use crate::cluster::{Cluster, Machine, MachineSet};
use crate::hooks::*;

/// Any JSON value has a name of its own in Kubernetes.
const JSON: &str = "k8s.io.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON";
const HOOKS: Place<'_> = Place { package: Package::Hooks, component: "", field: "" };

/// The components that were referred to, and all that they refer to.
pub(super) struct Components {
    /// Schemas of all types, by the names that they have in Rust.
    types: Map<String, Value>,
    /// By the names that they have in the document. Null while a component is being made: some contain themselves.
    made: BTreeMap<String, Value>,
}

impl Components {
    pub(super) fn new() -> Self {
        // As they are written: what is always written is required.
        let mut generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
        add_hooks(&mut generator);
        add::<Cluster>(&mut generator);
        add::<Machine>(&mut generator);
        add::<MachineSet>(&mut generator);
        add::<ObjectMeta>(&mut generator);
        add::<NodeSystemInfo>(&mut generator);
        add::<JSONSchemaProps>(&mut generator);
        add::<ClusterDeprecatedStatus>(&mut generator);
        add::<MachineDeprecatedStatus>(&mut generator);
        add::<MachineSetDeprecatedStatus>(&mut generator);
        Self { types: generator.take_definitions(false), made: BTreeMap::new() }
    }

    /// A reference to the component of a request or a response.
    pub(super) fn of_hook(&mut self, kind: &str) -> Value {
        self.reference(kind, HOOKS)
    }

    pub(super) fn into_schemas(self) -> Map<String, Value> {
        self.made.into_iter().collect()
    }

    fn reference(&mut self, type_: &str, place: Place<'_>) -> Value {
        let name = ComponentName::of(type_, place);
        if !self.made.contains_key(&name.full) {
            self.made.insert(name.full.clone(), Value::Null);
            let schema = self.types.get(type_).cloned().unwrap_or(Value::Null);
            let place = Place { package: name.package, component: &name.short, field: "" };
            let schema = self.schema(&schema, place);
            self.made.insert(name.full.clone(), schema.into());
        }
        json!({"$ref": format!("#/components/schemas/{}", name.full)})
    }

    /// The schema of a component, or of something inside.
    fn schema(&mut self, schema: &Value, place: Place<'_>) -> Map<String, Value> {
        let mut made = Map::new();
        for (key, value) in schema.as_object().into_iter().flatten() {
            match (key.as_str(), value) {
                // A property says what its default is; nothing here may be null.
                ("title" | "default" | "anyOf", _) => {}
                ("required", Value::Array(fields)) if fields.is_empty() => {}
                ("additionalProperties", Value::Bool(_)) => {}
                ("description", Value::String(description)) => {
                    made.insert(key.clone(), first_paragraph(description).into());
                }
                ("$ref", Value::String(target)) => {
                    let reference = self.reference(type_of(target), place);
                    made.extend(reference.as_object().cloned().unwrap_or_default());
                }
                ("type", Value::Array(types)) => {
                    let other = types.iter().find(|type_| *type_ != "null");
                    made.extend(other.map(|other| (key.clone(), other.clone())));
                }
                ("enum", Value::Array(values)) => {
                    let mut values: Vec<Value> =
                        values.iter().filter(|value| !value.is_null()).cloned().collect();
                    values.sort_by(|one, other| one.as_str().cmp(&other.as_str()));
                    made.insert(key.clone(), values.into());
                }
                ("properties", Value::Object(fields)) => {
                    let required = schema["required"].as_array();
                    let property = |(field, schema): (&String, &Value)| {
                        let required =
                            required.is_some_and(|required| required.iter().any(|name| name == field));
                        (field.clone(), self.property(schema, required, Place { field, ..place }))
                    };
                    let fields: Map<String, Value> = fields.iter().map(property).collect();
                    made.insert(key.clone(), fields.into());
                }
                ("items" | "additionalProperties", element) => {
                    let element = self.element(element, place);
                    made.insert(key.clone(), element);
                }
                ("x-kubernetes-int-or-string", _) => {
                    made.insert("oneOf".to_owned(), json!([{"type": "integer"}, {"type": "string"}]));
                }
                _ => {
                    made.insert(key.clone(), value.clone());
                }
            }
        }
        if let Some(choice) = not_null(schema) {
            for (key, value) in self.schema(choice, place) {
                made.entry(key).or_insert(value);
            }
        }
        made
    }

    /// The schema of a field.
    fn property(&mut self, schema: &Value, required: bool, place: Place<'_>) -> Value {
        let mut made = self.schema(schema, place);
        if let Some(known) = place.known_object() {
            let reference = self.reference(known, place);
            if made.contains_key("items") {
                made.insert("items".to_owned(), reference);
            } else {
                made.retain(|key, _| key == "description");
                made.extend(reference.as_object().cloned().unwrap_or_default());
            }
        } else {
            self.name_if_anything(&mut made);
        }
        if let Some((_, list, key)) = LISTS.iter().find(|(at, ..)| place.is(at)) {
            made.insert("x-kubernetes-list-type".to_owned(), (*list).into());
            made.extend(key.map(|key| ("x-kubernetes-list-map-keys".to_owned(), json!([key]))));
        }
        if let Some(description) = place.description().filter(|_| !made.contains_key("description")) {
            made.insert("description".to_owned(), description.into());
        }
        let given = schema.get("default").filter(|default| is_scalar(default)).cloned();
        let default = match place.known_object().or(target(schema)) {
            Some(target) if given.is_none() => {
                let is_empty =
                    || !is_optional(schema) && !made.contains_key("items") && self.may_be_empty(target);
                is_empty().then(|| json!({}))
            }
            // Go writes what Kubernetes requires also if it is empty.
            _ => given.or_else(|| zero(&made).filter(|_| required && place.package == Package::Kubernetes)),
        };
        with_default(made, default)
    }

    /// The schema of what a list or a map holds, which always has a value and so has a default.
    fn element(&mut self, schema: &Value, place: Place<'_>) -> Value {
        let mut made = self.schema(schema, place);
        self.name_if_anything(&mut made);
        let default = match target(schema) {
            Some(target) => self.may_be_empty(target).then(|| json!({})),
            None => zero(&made),
        };
        with_default(made, default)
    }

    fn name_if_anything(&mut self, made: &mut Map<String, Value>) {
        if !made.keys().any(|key| ["type", "$ref", "oneOf"].contains(&key.as_str())) {
            self.made.insert(JSON.to_owned(), json!({"description": "Any JSON value."}));
            made.insert("$ref".to_owned(), format!("#/components/schemas/{JSON}").into());
        }
    }

    /// Whether `{}` is a valid value of a type. If not, it cannot be a default either, although generated schemas of Go types
    /// say so.
    fn may_be_empty(&self, type_: &str) -> bool {
        let schema = &self.types[type_];
        schema["properties"].is_object() && schema["required"].as_array().is_none_or(Vec::is_empty)
    }
}

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

fn add_hooks(generator: &mut SchemaGenerator) {
    fn add_hook<H: HookType<Request: JsonSchema, Response: JsonSchema>>(generator: &mut SchemaGenerator) {
        add::<H::Request>(generator);
        add::<H::Response>(generator);
    }
    add_hook::<Discovery>(generator);
    add_hook::<BeforeClusterCreate>(generator);
    add_hook::<AfterControlPlaneInitialized>(generator);
    add_hook::<BeforeClusterUpgrade>(generator);
    add_hook::<BeforeControlPlaneUpgrade>(generator);
    add_hook::<AfterControlPlaneUpgrade>(generator);
    add_hook::<BeforeWorkersUpgrade>(generator);
    add_hook::<AfterWorkersUpgrade>(generator);
    add_hook::<AfterClusterUpgrade>(generator);
    add_hook::<BeforeClusterDelete>(generator);
    add_hook::<GeneratePatches>(generator);
    add_hook::<ValidateTopology>(generator);
    add_hook::<DiscoverVariables>(generator);
    add_hook::<GenerateUpgradePlan>(generator);
    add_hook::<CanUpdateMachine>(generator);
    add_hook::<CanUpdateMachineSet>(generator);
    add_hook::<UpdateMachine>(generator);
    add_hook::<ExternalUpdate>(generator);
}

/// The type that a schema refers to.
fn target(schema: &Value) -> Option<&str> {
    let reference = schema.get("$ref").or_else(|| not_null(schema)?.get("$ref"));
    reference?.as_str().map(type_of)
}

fn type_of(reference: &str) -> &str {
    reference.rsplit('/').next().unwrap_or(reference)
}

/// What an optional value is if it is there, where schemars says so with `anyOf`.
fn not_null(schema: &Value) -> Option<&Value> {
    schema.get("anyOf")?.as_array()?.iter().find(|choice| choice["type"] != "null")
}

/// Whether a value may be absent in Rust; in Go it is a pointer then.
fn is_optional(schema: &Value) -> bool {
    not_null(schema).is_some() || schema["type"].is_array()
}

fn is_scalar(value: &Value) -> bool {
    value.is_string() || value.is_number() || value.is_boolean()
}

/// What Go has in a field that was not set.
fn zero(schema: &Map<String, Value>) -> Option<Value> {
    match schema.get("type")?.as_str()? {
        "string" => Some("".into()),
        "boolean" => Some(false.into()),
        "integer" => Some(0.into()),
        _ => None,
    }
}

/// A default that its own schema does not allow is left out, although generated schemas of Go types have it.
fn with_default(mut schema: Map<String, Value>, default: Option<Value>) -> Value {
    let number = |key: &str| schema.get(key).and_then(Value::as_i64);
    let allows = |default: &Value| match default {
        Value::String(text) => {
            let free = !["enum", "format", "pattern"].iter().any(|limit| schema.contains_key(*limit));
            free && number("minLength").is_none_or(|least| text.len() as i64 >= least)
        }
        Value::Number(value) => {
            let value = value.as_i64();
            number("minimum").is_none_or(|least| value >= Some(least))
                && number("maximum").is_none_or(|most| value <= Some(most))
        }
        _ => true,
    };
    if let Some(default) = default.filter(allows) {
        schema.insert("default".to_owned(), default);
    }
    // Siblings of `$ref` are ignored in OpenAPI 3.0; inside `allOf` it has none.
    if schema.len() > 1
        && let Some(reference) = schema.remove("$ref")
    {
        schema.insert("allOf".to_owned(), json!([{"$ref": reference}]));
    }
    schema.into()
}

/// What comes after the first paragraph is for users of the crate.
fn first_paragraph(documentation: &str) -> String {
    documentation.split("\n\n").next().unwrap_or(documentation).replace('\n', " ").trim().to_owned()
}
