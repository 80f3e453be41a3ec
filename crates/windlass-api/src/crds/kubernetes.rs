//! Schemas of types that are Kubernetes' own.

use schemars::{Schema, SchemaGenerator, json_schema};

/// A list of conditions, at most one of each type.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 32,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["type"],
        "items": {
            "type": "object",
            "description": "One aspect of the state of the object.",
            "required": ["lastTransitionTime", "message", "reason", "status", "type"],
            "properties": {
                "type": {
                    "type": "string",
                    "description": "Which aspect.",
                    "maxLength": 316,
                    "pattern": super::CONDITION_TYPE,
                },
                "status": {
                    "type": "string",
                    "description": "Whether it holds.",
                    "enum": ["True", "False", "Unknown"],
                },
                "observedGeneration": {
                    "type": "integer",
                    "format": "int64",
                    "description": "Generation that was looked at.",
                    "minimum": 0,
                },
                "lastTransitionTime": {
                    "type": "string",
                    "format": "date-time",
                    "description": "When the status last changed.",
                },
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
        },
    })
}

/// A selector of labels.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "x-kubernetes-map-type": "atomic",
        "properties": {
            "matchLabels": {
                "type": "object",
                "description": "Labels with their values.",
                "additionalProperties": {"type": "string"},
            },
            "matchExpressions": {
                "type": "array",
                "description": "Requirements of labels.",
                "x-kubernetes-list-type": "atomic",
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": {"type": "string", "description": "The label."},
                        "operator": {"type": "string", "description": "In, NotIn, Exists or DoesNotExist."},
                        "values": {
                            "type": "array",
                            "description": "Values to compare with.",
                            "x-kubernetes-list-type": "atomic",
                            "items": {"type": "string"},
                        },
                    },
                },
            },
        },
    })
}

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
