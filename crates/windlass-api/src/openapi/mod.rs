//! The hooks as an OpenAPI document, made from the types.
//!
//! Paths, operation ids, names of components and lists of required fields are those of the document that
//! Cluster API publishes, so that what was generated from one works with the other. Prose is what the types' own
//! documentation says in its first paragraph; that of Kubernetes' types is Kubernetes'. Two differences are deliberate: a
//! reference with a description is wrapped in `allOf`, because OpenAPI 3.0 ignores what stands beside `$ref`, and a default
//! that its own schema does not allow is left out. Limits are those of the CRDs. The fields that only Windlass sends are
//! described as optional ones.

mod components;
mod described;
mod names;
mod operations;

use serde_json::{Map, Value, json};

use self::components::Components;
use crate::hooks::Hook;
use crate::names::{HOOKS_GROUP, HOOKS_VERSION};

/// The OpenAPI 3.0 document of all hooks. `version` is that of the product; the version of the hooks is part of
/// their paths.
pub fn document(version: &str) -> Value {
    let mut components = Components::new();
    let paths: Map<String, Value> =
        Hook::ALL.into_iter().map(|hook| (path(hook), path_item(hook, &mut components))).collect();
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
        "components": {"schemas": components.into_schemas()},
    });
    // Maps keep the order of insertion if another crate of the build asks serde_json for that.
    document.sort_all_objects();
    document
}

fn path(hook: Hook) -> String {
    if hook.is_singleton() { hook.base_path() } else { format!("{}/{{name}}", hook.base_path()) }
}

fn path_item(hook: Hook, components: &mut Components) -> Value {
    let (summary, description) = operations::prose(hook);
    let mut content = |kind: String| json!({"application/json": {"schema": components.of_hook(&kind)}});
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

#[cfg(test)]
mod tests;
