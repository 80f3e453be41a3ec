//! Schemas of types that are Kubernetes' own, with the limits that its API server keeps.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// What types of conditions look like.
pub(crate) const CONDITION_TYPE: &str = concat!(
    r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?",
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"
);

/// A list of conditions, at most one of each type.
pub(crate) fn conditions(generator: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": generator.subschema_for::<Condition>(),
    })
}

/// A selector of labels.
pub(crate) fn label_selector(generator: &mut SchemaGenerator) -> Schema {
    generator.subschema_for::<LabelSelector>()
}

/// Declares the schema of a type under the name that Kubernetes gives it.
macro_rules! schema {
    ($Name:ident, $name:literal, |$generator:ident| $schema:expr) => {
        struct $Name;

        impl JsonSchema for $Name {
            fn schema_name() -> Cow<'static, str> {
                $name.into()
            }

            fn json_schema($generator: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

schema!(Condition, "io.k8s.apimachinery.pkg.apis.meta.v1.Condition", |generator| {
    let mut last_transition_time = generator.subschema_for::<Time>();
    last_transition_time.insert("description".to_owned(), "When the status last changed.".into());
    json_schema!({
        "type": "object",
        "description": "One aspect of the state of the object.",
        "required": ["type", "status", "lastTransitionTime", "reason", "message"],
        "properties": {
            "type": {
                "type": "string",
                "description": "Which aspect.",
                "maxLength": 316,
                "pattern": CONDITION_TYPE,
            },
            "status": {
                "type": "string",
                "description": "Whether it holds.",
                "enum": ["True", "False", "Unknown"],
            },
            "observedGeneration": {
                "type": "integer",
                "format": "int64",
                "description": "Generation of the object that was observed.",
                "minimum": 0,
            },
            "lastTransitionTime": last_transition_time,
            "reason": {
                "type": "string",
                "description": "A word for programs that says why.",
                "minLength": 1,
                "maxLength": 1024,
                "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
            },
            "message": {
                "type": "string",
                "description": "A sentence for people that says why.",
                "maxLength": 32768,
            },
        },
    })
});

schema!(LabelSelector, "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", |generator| json_schema!({
    "type": "object",
    "description": "Which labels an object must have. All parts must hold; an empty selector selects everything.",
    "x-kubernetes-map-type": "atomic",
    "properties": {
        "matchLabels": {
            "type": "object",
            "description": "Labels with the value they must have.",
            "additionalProperties": {"type": "string"},
        },
        "matchExpressions": {
            "type": "array",
            "description": "Further requirements.",
            "x-kubernetes-list-type": "atomic",
            "items": generator.subschema_for::<LabelSelectorRequirement>(),
        },
    },
}));

schema!(
    LabelSelectorRequirement,
    "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelectorRequirement",
    |_generator| json_schema!({
        "type": "object",
        "description": "What must hold for one label.",
        "required": ["key", "operator"],
        "properties": {
            "key": {"type": "string", "description": "Key of the label."},
            "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist."},
            "values": {
                "type": "array",
                "description": "What the label is compared with, for In and NotIn.",
                "x-kubernetes-list-type": "atomic",
                "items": {"type": "string"},
            },
        },
    })
);

/// References to Nodes.
pub(crate) fn object_references(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 10000,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "x-kubernetes-map-type": "atomic",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "namespace": {"type": "string"},
                "name": {"type": "string"},
                "uid": {"type": "string"},
                "resourceVersion": {"type": "string"},
                "fieldPath": {"type": "string"},
            },
        },
    })
}

/// Taints of a Node.
pub(crate) fn taints(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 100,
        "x-kubernetes-list-type": "atomic",
        "items": {
            "type": "object",
            "required": ["key", "effect"],
            "properties": {
                "key": {"type": "string", "description": "Key of the taint."},
                "value": {"type": "string", "description": "Value of the taint."},
                "effect": {"type": "string", "description": "What it does."},
                "timeAdded": {"type": "string", "format": "date-time", "description": "When it was added."},
            },
        },
    })
}
