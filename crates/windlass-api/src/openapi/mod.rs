//! The hooks as an OpenAPI document.
//!
//! Paths, operation ids, names of components and lists of required fields are those of the document that
//! Cluster API publishes, so that what was generated from one works with the other. All prose is our own. Two
//! differences are deliberate: a reference with a description is wrapped in `allOf`, because OpenAPI 3.0
//! ignores what stands beside `$ref`, and a default that its own schema does not allow is left out. The fields that
//! only Windlass sends are described as optional ones.

mod cluster;
mod hooks;
mod kubernetes;
mod machine;
mod operations;
mod schema;
mod variables;

use serde_json::{Map, Value, json};

use self::schema::{Component, Package, component_name, reference};
use crate::hooks::Hook;
use crate::names::{HOOKS_GROUP, HOOKS_VERSION};

/// The OpenAPI 3.0 document of all hooks. `version` is that of the product; the version of the hooks is part of
/// their paths.
pub fn document(version: &str) -> Value {
    let paths: Map<String, Value> = Hook::ALL.into_iter().map(|hook| (path(hook), path_item(hook))).collect();
    let schemas: Map<String, Value> = reachable_components()
        .into_iter()
        .map(|component| (component_name(component.package, component.name), component.to_json()))
        .collect();
    let mut document = json!({
        "openapi": "3.0.0",
        "info": {
            "title": "Cluster API - Runtime SDK",
            "description": "Hooks that a runtime extension can implement. An extension is an HTTPS server that \
                answers POST requests with JSON. A call that the extension could not carry out is answered with \
                HTTP status 200 and the status Failure; every other HTTP status means that the call did not get \
                through.",
            "version": version,
            "license": {"name": "Apache 2.0", "url": "http://www.apache.org/licenses/LICENSE-2.0.html"},
        },
        "paths": paths,
        "components": {"schemas": schemas},
    });
    // Maps keep the order of insertion if another crate of the build asks serde_json for that.
    document.sort_all_objects();
    document
}

fn path(hook: Hook) -> String {
    if hook.is_singleton() { hook.base_path() } else { format!("{}/{{name}}", hook.base_path()) }
}

fn path_item(hook: Hook) -> Value {
    let (summary, description) = operations::prose(hook);
    let content = |kind: String| json!({"application/json": {"schema": reference(Package::Hooks, &kind)}});
    let mut operation = json!({
        "tags": [hook.tag().as_str()],
        "summary": summary,
        "description": description,
        "operationId": operation_id(hook),
        "requestBody": {"content": content(hook.request_kind())},
        "responses": {
            "200": {
                "description": "The call got through; the status in the body says whether it succeeded.",
                "content": content(hook.response_kind()),
            },
        },
    });
    if !hook.is_singleton() {
        operation["parameters"] = json!([{
            "name": "name",
            "in": "path",
            "required": true,
            "schema": {"type": "string"},
            "description": "Name of the handler within its extension, as discovery lists it, in lower case.",
        }]);
    }
    json!({"post": operation})
}

/// `hooks.runtime.cluster.x-k8s.io`, `v1alpha1` and `Discovery` become `hooksRuntimeClusterV1alpha1Discovery`.
fn operation_id(hook: Hook) -> String {
    let group = HOOKS_GROUP.strip_suffix(".x-k8s.io").unwrap_or(HOOKS_GROUP);
    let mut words = group.split('.').chain([HOOKS_VERSION]);
    let mut id = words.next().unwrap_or_default().to_owned();
    for word in words {
        let mut letters = word.chars();
        id.extend(letters.next().map(|first| first.to_ascii_uppercase()));
        id.push_str(letters.as_str());
    }
    id + hook.name()
}

/// The components that requests and responses are made of, directly or through others.
fn reachable_components() -> Vec<&'static Component> {
    let mut wanted: Vec<(Package, String)> = Hook::ALL
        .into_iter()
        .flat_map(|hook| [hook.request_kind(), hook.response_kind()])
        .map(|kind| (Package::Hooks, kind))
        .collect();
    let mut found: Vec<&'static Component> = Vec::new();
    while let Some((package, name)) = wanted.pop() {
        if found.iter().any(|component| component.is(package, &name)) {
            continue;
        }
        // A name that no table has would leave a dangling reference; a test makes sure that there is none.
        if let Some(component) = find(package, &name) {
            wanted
                .extend(component.references().into_iter().map(|(package, name)| (package, name.to_owned())));
            found.push(component);
        }
    }
    found
}

fn find(package: Package, name: &str) -> Option<&'static Component> {
    all_components().find(|component| component.is(package, name))
}

fn all_components() -> impl Iterator<Item = &'static Component> {
    [
        hooks::COMPONENTS,
        cluster::COMPONENTS,
        machine::COMPONENTS,
        variables::COMPONENTS,
        kubernetes::COMPONENTS,
    ]
    .into_iter()
    .flatten()
}

#[cfg(test)]
mod tests;
