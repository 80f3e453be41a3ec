//! The operations on kinds.

use serde_json::{Map, Value, json};

use super::definitions::{Flavour, kind, schema_name};
use crate::registry::{Resource, Subresource, Verbs};

/// Adds the paths of a resource, as far as clients look for them: whether a kind is served, and whether its
/// writes can be tried without being done.
pub(super) fn add(resource: &Resource, flavour: Flavour, paths: &mut Map<String, Value>) {
    let base = format!("/{}", super::path(&resource.group, &resource.version));
    let collection = match resource.namespaced {
        true => format!("{base}/namespaces/{{namespace}}/{}", resource.plural),
        false => format!("{base}/{}", resource.plural),
    };
    let object = format!("{collection}/{{name}}");
    let operations = Operations { resource, flavour };
    let collection_operations: &[_] = match resource.verbs {
        Verbs::CreateOnly => &[("post", "post")],
        Verbs::ReadOnly => &[("get", "list")],
        Verbs::All => &[("get", "list"), ("post", "post"), ("delete", "deletecollection")],
    };
    paths.insert(collection, operations.path(collection_operations, false));
    match resource.verbs {
        Verbs::CreateOnly => return,
        Verbs::ReadOnly => {
            paths.insert(object, operations.path(&[("get", "get")], true));
            return;
        }
        Verbs::All => {}
    }
    let writes = [("get", "get"), ("put", "put"), ("patch", "patch")];
    for subresource in &resource.subresources {
        if matches!(subresource, Subresource::Status | Subresource::Approval) {
            paths.insert(format!("{object}/{}", subresource.name()), operations.path(&writes, true));
        }
    }
    let all: Vec<_> = writes.into_iter().chain([("delete", "delete")]).collect();
    paths.insert(object, operations.path(&all, true));
}

/// What every failure is answered with.
const STATUS: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Status";

struct Operations<'a> {
    resource: &'a Resource,
    flavour: Flavour,
}

impl Operations<'_> {
    fn path(&self, operations: &[(&str, &str)], named: bool) -> Value {
        let mut path = Map::new();
        for (method, action) in operations {
            path.insert((*method).to_owned(), self.operation(action));
        }
        let in_path = |name: &str| {
            let mut parameter = json!({"name": name, "in": "path", "required": true});
            self.typed(&mut parameter, &json!({"type": "string", "uniqueItems": true}));
            parameter
        };
        let names =
            named.then_some("name").into_iter().chain(self.resource.namespaced.then_some("namespace"));
        path.insert("parameters".to_owned(), names.map(in_path).collect());
        path.into()
    }

    fn operation(&self, action: &str) -> Value {
        let Resource { group, version, kind: name, .. } = self.resource;
        let reference = self.flavour.reference(&schema_name(self.resource));
        let mut operation = json!({
            "responses": self.responses(action),
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": kind(group, version, name),
        });
        let writes = matches!(action, "post" | "put" | "patch");
        let mut parameters: Vec<Value> = Vec::new();
        if writes || action == "delete" {
            let names = ["dryRun", "fieldManager", "fieldValidation"];
            parameters.extend(names.iter().take(if writes { 3 } else { 1 }).map(|name| self.in_query(name)));
        }
        if writes && self.flavour == Flavour::V2 {
            parameters.push(json!({"name": "body", "in": "body", "required": true, "schema": reference}));
        }
        if writes && self.flavour == Flavour::V3 {
            operation["requestBody"] = json!({"content": self.request(action)});
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
    }

    /// What an operation answers: the object, or what else there is to say.
    fn responses(&self, action: &str) -> Value {
        let name = schema_name(self.resource);
        let object = self.flavour.reference(&name);
        let status = self.flavour.reference(STATUS);
        let schema = match (action, self.flavour) {
            ("list" | "deletecollection", _) => self.flavour.reference(&format!("{name}List")),
            ("delete", Flavour::V2) => status.clone(),
            // The object, if it waits for something before it goes.
            ("delete", Flavour::V3) => json!({"anyOf": [status, object]}),
            _ => object,
        };
        let response = |description: &str, schema: &Value| match self.flavour {
            Flavour::V2 => json!({"description": description, "schema": schema}),
            Flavour::V3 => {
                json!({"description": description, "content": {"application/json": {"schema": schema}}})
            }
        };
        let mut responses = json!({"200": response("OK", &schema)});
        if matches!(action, "post" | "put" | "patch") {
            responses["201"] = response("Created", &schema);
        }
        if self.flavour == Flavour::V3 {
            responses["default"] = response("Why it was not done", &status);
        }
        responses
    }

    /// What a write may send, by media type.
    fn request(&self, action: &str) -> Value {
        let object = json!({"schema": self.flavour.reference(&schema_name(self.resource))});
        if action != "patch" {
            return json!({"application/json": object, "application/yaml": object});
        }
        let patch = json!({"schema": {"type": "object"}});
        let mut content = json!({
            "application/apply-patch+yaml": object,
            "application/json-patch+json": {"schema": {"type": "array", "items": {"type": "object"}}},
            "application/merge-patch+json": patch,
        });
        if !self.resource.strategy.custom {
            content["application/strategic-merge-patch+json"] = patch;
        }
        content
    }

    fn in_query(&self, name: &str) -> Value {
        let mut parameter = json!({"name": name, "in": "query"});
        self.typed(&mut parameter, &json!({"type": "string", "uniqueItems": true}));
        parameter
    }

    /// Version 2 has the type of a parameter beside its name, version 3 in a schema.
    fn typed(&self, parameter: &mut Value, schema: &Value) {
        match (self.flavour, schema) {
            (Flavour::V2, Value::Object(fields)) => {
                for (name, value) in fields {
                    parameter[name] = value.clone();
                }
            }
            _ => parameter["schema"] = schema.clone(),
        }
    }
}
