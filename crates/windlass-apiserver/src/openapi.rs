//! OpenAPI: enough of version 3 for `kubectl explain`, and a version 2 that says nothing.

use http::StatusCode;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::api::Failure;
use crate::registry::{Registry, Resource, Verbs};
use crate::response::{Body, Reply};

/// `/openapi/v2`: an empty document as protobuf. Older clients only want to see that there is one.
pub(crate) fn v2() -> Reply {
    // swagger: "2.0", info: {title: "k", version: "v1"}, paths: {}
    const EMPTY: &[u8] = b"\x0a\x032.0\x12\x07\x0a\x01k\x12\x02v1\x42\x00";
    Reply {
        content_type: "application/com.github.proto-openapi.spec.v2.v1.0+protobuf",
        body: Body::whole(EMPTY),
        ..Reply::json(StatusCode::OK, "")
    }
}

/// `/openapi/v3`: where the documents are. The hash lets clients keep them.
pub(crate) fn index(registry: &Registry) -> Vec<u8> {
    let mut paths = Map::new();
    for group in registry.groups() {
        for (version, resources) in &group.versions {
            let path = path(group.name, version);
            let document = document(group.name, version, resources.iter().map(AsRef::as_ref));
            let digest = Sha256::digest(document.to_string());
            let hash: String = digest.iter().map(|byte| format!("{byte:02X}")).collect();
            let url = format!("/openapi/v3/{path}?hash={hash}");
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths}).to_string().into_bytes()
}

/// `/openapi/v3/{path}`
pub(crate) fn group(registry: &Registry, wanted: &str) -> Result<Reply, Failure> {
    for group in registry.groups() {
        for (version, resources) in &group.versions {
            if path(group.name, version) == wanted {
                let document = document(group.name, version, resources.iter().map(AsRef::as_ref));
                return Ok(Reply::json(StatusCode::OK, document.to_string()));
            }
        }
    }
    Err(Failure::NoSuchPath)
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn document<'a>(group: &str, version: &str, resources: impl Iterator<Item = &'a Resource>) -> Value {
    let mut paths = Map::new();
    let mut schemas = Map::new();
    schemas.insert(OBJECT_META.to_owned(), object_meta());
    for resource in resources {
        let base = format!("/{}", path(group, version));
        let collection = match resource.namespaced {
            true => format!("{base}/namespaces/{{namespace}}/{}", resource.plural),
            false => format!("{base}/{}", resource.plural),
        };
        let operation = |action: &str| operation(resource, action);
        match resource.verbs {
            Verbs::CreateOnly => {
                paths.insert(collection, json!({"post": operation("post")}));
            }
            Verbs::ReadOnly => {
                paths.insert(collection, json!({"get": operation("list")}));
            }
            Verbs::All => {
                let object = format!("{collection}/{{name}}");
                paths.insert(
                    collection,
                    json!({"get": operation("list"), "post": operation("post"),
                        "delete": operation("deletecollection")}),
                );
                paths.insert(
                    object,
                    json!({"get": operation("get"), "put": operation("put"), "patch": operation("patch"),
                        "delete": operation("delete")}),
                );
            }
        }
        schemas.insert(schema_name(resource), schema(resource));
    }
    json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": paths,
        "components": {"schemas": schemas},
    })
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "kind": resource.kind, "version": resource.version})
}

fn operation(resource: &Resource, action: &str) -> Value {
    let reference = json!({"$ref": format!("#/components/schemas/{}", schema_name(resource))});
    let content = json!({"application/json": {"schema": reference}});
    let parameter =
        |name: &str| json!({"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": true}});
    let mut operation = json!({
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": kind(resource),
    });
    if matches!(action, "post" | "put" | "patch") {
        operation["parameters"] =
            ["dryRun", "fieldManager", "fieldValidation"].map(parameter).to_vec().into();
        operation["requestBody"] = json!({"content": {"application/json": {"schema": reference}}});
    }
    operation
}

/// `test.demo.v1.Widget` for what a definition defines; the name that Kubernetes has for the rest.
fn schema_name(resource: &Resource) -> String {
    let Resource { group, version, kind, .. } = resource;
    if resource.strategy.custom {
        let reversed: Vec<&str> = group.split('.').rev().collect();
        return format!("{}.{version}.{kind}", reversed.join("."));
    }
    let group = match group.split('.').next() {
        None | Some("") => "core",
        Some(first) => first,
    };
    format!("io.k8s.api.{group}.{version}.{kind}")
}

fn schema(resource: &Resource) -> Value {
    let mut schema = resource.openapi.clone().unwrap_or_else(|| json!({"type": "object"}));
    let text = |description: &str| json!({"type": "string", "description": description});
    let is_custom = resource.strategy.custom;
    if let Value::Object(fields) = &mut schema {
        let properties = fields.entry("properties").or_insert_with(|| json!({}));
        properties["apiVersion"] =
            text("APIVersion defines the versioned schema of this representation of an object.");
        properties["kind"] =
            text("Kind is a string value representing the REST resource this object represents.");
        properties["metadata"] = json!({
            "description": "Standard object's metadata.",
            "allOf": [{"$ref": format!("#/components/schemas/{OBJECT_META}")}],
            "default": {},
        });
        if !is_custom {
            // Built-in kinds are kept as they come.
            fields.insert("x-kubernetes-preserve-unknown-fields".to_owned(), true.into());
        }
        fields.insert("x-kubernetes-group-version-kind".to_owned(), json!([kind(resource)]));
    }
    schema
}

fn object_meta() -> Value {
    let text = json!({"type": "string"});
    let texts = json!({"type": "object", "additionalProperties": text});
    let list = json!({"type": "array", "items": text});
    let objects = json!({"type": "array", "items": {"type": "object"}});
    json!({
        "description": "ObjectMeta is metadata that all persisted resources must have.",
        "type": "object",
        "properties": {
            "annotations": texts, "creationTimestamp": text, "deletionGracePeriodSeconds": {"type": "integer"},
            "deletionTimestamp": text, "finalizers": list, "generateName": text,
            "generation": {"type": "integer"}, "labels": texts, "managedFields": objects, "name": text,
            "namespace": text, "ownerReferences": objects, "resourceVersion": text, "selfLink": text, "uid": text,
        },
    })
}
