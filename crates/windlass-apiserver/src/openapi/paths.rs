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
        let schema = match action {
            "list" => format!("{}List", schema_name(self.resource)),
            _ => schema_name(self.resource),
        };
        let reference = self.flavour.reference(&schema);
        let content = json!({"application/json": {"schema": reference}});
        let response = match self.flavour {
            Flavour::V2 => json!({"description": "OK", "schema": reference}),
            Flavour::V3 => json!({"description": "OK", "content": content}),
        };
        let mut operation = json!({
            "responses": {"200": response},
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
            operation["requestBody"] = json!({"content": content});
        }
        if !parameters.is_empty() {
            operation["parameters"] = parameters.into();
        }
        operation
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
