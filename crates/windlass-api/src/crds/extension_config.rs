//! The definition of ExtensionConfig. Its type decodes what extensions send, and has no schema of its own.

use schemars::SchemaGenerator;
use serde_json::{Value, json};

use super::definition::{Names, frame};
use super::kinds::{AGE, PAUSED};
use super::kubernetes::{conditions, label_selector};
use crate::names::RUNTIME_GROUP;

pub(super) fn manifest() -> Value {
    let mut generator = SchemaGenerator::default();
    let mut namespace_selector = label_selector(&mut generator).to_value();
    namespace_selector["description"] =
        "Namespaces whose objects the extension gets to see; an empty selector selects all.".into();
    namespace_selector["default"] = json!({});
    let mut conditions = conditions(&mut generator).to_value();
    conditions["description"] = "Conditions.".into();
    let text = |description: &str, max: u32| json!({"type": "string", "description": description, "minLength": 1, "maxLength": max});
    let service = json!({
        "type": "object",
        "description": "A Service in the cluster.",
        "required": ["name", "namespace"],
        "properties": {
            "namespace": text("Namespace of the Service.", 63),
            "name": text("Name of the Service.", 63),
            "path": text("Goes before the path of every hook.", 512),
            "port": {
                "type": "integer",
                "format": "int32",
                "description": "Port of the Service.",
                "minimum": 1,
                "maximum": 65535,
                "default": 443,
            },
        },
    });
    let spec = json!({
        "type": "object",
        "description": "Where the extension is and for whom.",
        "required": ["clientConfig"],
        "properties": {
            "clientConfig": {
                "type": "object",
                "description": "Where the extension is: one of url and service.",
                "minProperties": 1,
                "properties": {
                    "url": text("An address outside the cluster.", 512),
                    "service": service,
                    "caBundle": {
                        "type": "string",
                        "format": "byte",
                        "description": "Certificates to trust, and no others. If absent, those of the operating system.",
                        "minLength": 1,
                        "maxLength": 51200,
                    },
                },
            },
            "namespaceSelector": namespace_selector,
            "settings": {
                "type": "object",
                "description": "Sent with every call; those of a ClusterClass patch win.",
                "additionalProperties": {"type": "string"},
            },
        },
    });
    let handler = json!({
        "type": "object",
        "description": "A handler under its registered name.",
        "required": ["name", "requestHook"],
        "properties": {
            "name": text("Handler and ExtensionConfig, joined by a dot.", 512),
            "requestHook": {
                "type": "object",
                "description": "Which hook it handles.",
                "required": ["apiVersion", "hook"],
                "properties": {
                    "apiVersion": text("Group and version of the hook.", 512),
                    "hook": text("Name of the hook.", 256),
                },
            },
            "timeoutSeconds": {
                "type": "integer",
                "format": "int32",
                "description": "How long a caller waits for an answer; absent is the default.",
                "minimum": 1,
            },
            "failurePolicy": {
                "type": "string",
                "description": "What a caller does when a call does not get through; absent is Fail.",
                "enum": ["Ignore", "Fail"],
            },
        },
    });
    let status = json!({
        "type": "object",
        "description": "What was discovered.",
        "properties": {
            "conditions": conditions,
            "handlers": {
                "type": "array",
                "description": "Handlers of the last discovery that worked.",
                "maxItems": 512,
                "items": handler,
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["name"],
            },
            "deprecated": {
                "type": "object",
                "description": "What a later version removes. Kept as it came.",
                "x-kubernetes-preserve-unknown-fields": true,
            },
        },
    });
    let schema = json!({
        "type": "object",
        "description": "Registers an extension.",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
            "spec": spec,
            "status": status,
        },
    });
    let discovered = json!({
        "name": "Discovered",
        "type": "string",
        "jsonPath": r#".status.conditions[?(@.type=="Discovered")].status"#,
        "description": "Whether its handlers are known",
    });
    let version = json!({
        "name": "v1beta2",
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": schema},
        "additionalPrinterColumns": [PAUSED.to_json(), discovered, AGE.to_json()],
        "subresources": {"status": {}},
    });
    let names = Names {
        group: RUNTIME_GROUP.to_owned(),
        kind: "ExtensionConfig".to_owned(),
        plural: "extensionconfigs".to_owned(),
    };
    frame(&names, "Cluster", &["ext"], version)
}
