//! Inline patches of a class: which templates they change, and how.
//!
//! Patches are applied in the order of the class, each on the result of the one before, whether it is inline or an
//! extension's. Whatever the topology itself decides is set afterwards and wins.

mod builtin;
mod variables;

use serde_json::{Map, Value};
use windlass_api::cluster::{ClusterClassPatch, JsonPatchOperation, PatchDefinition, PatchSelectorMatch};
use windlass_gotemplate::{MissingKey, TemplateError};
use windlass_patch::{Dialect, JsonPatch, JsonPatchError, Operation};

pub use builtin::{Builtins, GroupBuiltins};
pub use variables::{VariableError, lookup, values_for};

/// Where in a class a template stands. Decides which patches are for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateRole<'a> {
    /// It makes the infrastructure of the cluster.
    InfrastructureCluster,
    /// It makes the control plane, or the infrastructure of its machines.
    ControlPlane,
    /// It belongs to a class of MachineDeployments.
    MachineDeployment {
        /// Name of the class.
        class: &'a str,
    },
    /// It belongs to a class of MachinePools.
    MachinePool {
        /// Name of the class.
        class: &'a str,
    },
}

/// A patch that could not be applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The condition of a patch cannot be evaluated.
    #[error("patch {patch:?}: enabledIf: {error}")]
    EnabledIf {
        /// Name of the patch.
        patch: String,
        /// What is wrong.
        error: TemplateError,
    },
    /// A value cannot be computed.
    #[error("patch {patch:?}: {path}: {error}")]
    Value {
        /// Name of the patch.
        patch: String,
        /// Where the value was to go.
        path: String,
        /// What is wrong.
        error: ValueError,
    },
    /// A template cannot be changed like that.
    #[error("patch {patch:?} of {kind} {name}: {error}")]
    Apply {
        /// Name of the patch.
        patch: String,
        /// Kind of the template.
        kind: String,
        /// Name of the template.
        name: String,
        /// What is wrong.
        error: JsonPatchError,
    },
}

/// A value of a patch that could not be computed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    /// It comes from a variable.
    #[error(transparent)]
    Variable(#[from] VariableError),
    /// It comes from a template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// What a template renders is not YAML.
    #[error("the template does not render YAML: {0}")]
    Yaml(String),
    /// Neither value nor valueFrom is set.
    #[error("value, valueFrom.variable or valueFrom.template must be set")]
    Missing,
}

/// Applies an inline patch to a template, if it is for that. Patches may change nothing but `spec`.
///
/// # Errors
///
/// When a patch that is for the template cannot be evaluated or applied.
pub fn apply_inline_patch(
    patch: &ClusterClassPatch,
    role: TemplateRole<'_>,
    template: &Value,
    variables: &Map<String, Value>,
) -> Result<Value, Box<PatchError>> {
    let data = Value::Object(variables.clone());
    let selected: Vec<&PatchDefinition> =
        patch.definitions.iter().filter(|definition| is_for(definition, role, template)).collect();
    // What is not for this template may ask for variables that only others have.
    if selected.is_empty() || !is_enabled(patch, &data)? {
        return Ok(template.clone());
    }
    let mut patched = template.clone();
    for definition in selected {
        let operations = operations(patch, definition, variables, &data)?;
        let operations = JsonPatch::new(Dialect::ClusterApi, operations);
        patched = operations.apply(&patched).map_err(|error| {
            Box::new(PatchError::Apply {
                patch: patch.name.clone(),
                kind: text(template, "/kind").to_owned(),
                name: text(template, "/metadata/name").to_owned(),
                error,
            })
        })?;
    }
    let mut result = template.clone();
    if let (Some(result), Some(spec)) = (result.as_object_mut(), patched.get("spec")) {
        result.insert("spec".to_owned(), spec.clone());
    }
    Ok(result)
}

fn is_enabled(patch: &ClusterClassPatch, data: &Value) -> Result<bool, Box<PatchError>> {
    if patch.enabled_if.is_empty() {
        return Ok(true);
    }
    let rendered = windlass_gotemplate::render(&patch.enabled_if, data, MissingKey::NoValue)
        .map_err(|error| Box::new(PatchError::EnabledIf { patch: patch.name.clone(), error }))?;
    Ok(rendered.trim() == "true")
}

fn is_for(definition: &PatchDefinition, role: TemplateRole<'_>, template: &Value) -> bool {
    let selector = &definition.selector;
    text(template, "/apiVersion") == selector.api_version
        && text(template, "/kind") == selector.kind
        && matches_role(&selector.match_resources, role)
}

fn matches_role(selector: &PatchSelectorMatch, role: TemplateRole<'_>) -> bool {
    let named = |names: &[String], class: &str| names.iter().any(|pattern| matches_name(pattern, class));
    match role {
        TemplateRole::InfrastructureCluster => selector.infrastructure_cluster == Some(true),
        TemplateRole::ControlPlane => selector.control_plane == Some(true),
        TemplateRole::MachineDeployment { class } => {
            selector.machine_deployment_class.as_ref().is_some_and(|classes| named(&classes.names, class))
        }
        TemplateRole::MachinePool { class } => {
            selector.machine_pool_class.as_ref().is_some_and(|classes| named(&classes.names, class))
        }
    }
}

/// A `*` may stand alone, first or last.
fn matches_name(pattern: &str, name: &str) -> bool {
    match (pattern.strip_prefix('*'), pattern.strip_suffix('*')) {
        (Some(""), _) => true,
        (Some(suffix), _) => name.ends_with(suffix),
        (None, Some(prefix)) => name.starts_with(prefix),
        (None, None) => pattern == name,
    }
}

fn operations(
    patch: &ClusterClassPatch,
    definition: &PatchDefinition,
    variables: &Map<String, Value>,
    data: &Value,
) -> Result<Vec<Operation>, Box<PatchError>> {
    let mut operations = Vec::with_capacity(definition.json_patches.len());
    for step in &definition.json_patches {
        let value = || {
            let computed = match (&step.value, &step.value_from) {
                (Some(value), _) => Ok(value.clone()),
                (None, Some(from)) if !from.variable.is_empty() => {
                    lookup(variables, &from.variable).cloned().map_err(ValueError::from)
                }
                (None, Some(from)) if !from.template.is_empty() => rendered(&from.template, data),
                (None, _) => Err(ValueError::Missing),
            };
            let (patch, path) = (patch.name.clone(), step.path.clone());
            computed.map_err(|error| Box::new(PatchError::Value { patch, path, error }))
        };
        let path = step.path.clone();
        operations.push(match &step.op {
            JsonPatchOperation::Add => Operation::Add { path, value: value()? },
            JsonPatchOperation::Replace => Operation::Replace { path, value: value()? },
            JsonPatchOperation::Remove => Operation::Remove { path },
            // The schema knows no others; whatever got past it changes nothing.
            _ => continue,
        });
    }
    Ok(operations)
}

fn rendered(template: &str, data: &Value) -> Result<Value, ValueError> {
    let text = windlass_gotemplate::render(template, data, MissingKey::NoValue)?;
    serde_saphyr::from_str(&text).map_err(|error| ValueError::Yaml(error.to_string()))
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_api::cluster::ClusterClass;

    use super::*;

    fn apply_inline(
        class: &ClusterClass,
        role: TemplateRole<'_>,
        template: &Value,
        variables: &Map<String, Value>,
    ) -> Result<Value, Box<PatchError>> {
        let patches = class.spec.patches.iter();
        patches.into_iter().try_fold(template.clone(), |template, patch| {
            apply_inline_patch(patch, role, &template, variables)
        })
    }

    fn class(patches: Value) -> ClusterClass {
        serde_json::from_value(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
            "metadata": {"name": "quick"},
            "spec": {"patches": patches},
        }))
        .unwrap()
    }

    fn template() -> Value {
        json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachineTemplate",
            "metadata": {"name": "worker"},
            "spec": {"template": {"spec": {"image": "old", "args": ["a"], "labels": {"a/b": "1"}}}},
        })
    }

    fn patch(json_patches: Value, extra: Value) -> Value {
        let mut patch = json!({
            "name": "p",
            "definitions": [{
                "selector": {
                    "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2",
                    "kind": "DevMachineTemplate",
                    "matchResources": {"machineDeploymentClass": {"names": ["default-*"]}},
                },
                "jsonPatches": json_patches,
            }],
        });
        patch.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
        patch
    }

    const WORKER: TemplateRole<'_> = TemplateRole::MachineDeployment { class: "default-worker" };

    fn variables() -> Map<String, Value> {
        let value = json!({
            "image": "new",
            "proxy": {"urls": ["http://a", "http://b"]},
            "count": 3,
            "builtin": {"machineDeployment": {"version": "v1.31.0"}, "cluster": {"name": "c1"}},
        });
        value.as_object().unwrap().clone()
    }

    #[test]
    fn values_are_given_or_come_from_variables_and_templates() {
        let steps = json!([
            {"op": "replace", "path": "/spec/template/spec/image", "valueFrom": {"variable": "image"}},
            {"op": "add", "path": "/spec/template/spec/args/-", "value": "b"},
            {"op": "add", "path": "/spec/template/spec/args/0", "valueFrom": {"variable": "proxy.urls[1]"}},
            {"op": "remove", "path": "/spec/template/spec/labels/a~1b"},
            {"op": "add", "path": "/spec/template/spec/extra", "valueFrom": {"template":
                "name: {{ .builtin.cluster.name }}-{{ .builtin.machineDeployment.version }}\ncount: {{ .count }}"}},
        ]);
        let class = class(json!([patch(steps, json!({}))]));
        let patched = apply_inline(&class, WORKER, &template(), &variables()).unwrap();
        assert_eq!(
            patched["spec"]["template"]["spec"],
            json!({
                "image": "new", "args": ["http://b", "a", "b"], "labels": {},
                "extra": {"name": "c1-v1.31.0", "count": 3},
            })
        );
    }

    #[test]
    fn patches_apply_to_what_they_select_and_while_they_are_enabled() {
        let steps = json!([{"op": "replace", "path": "/spec/template/spec/image", "value": "x"}]);
        let image = |patch: Value, role| {
            let patched = apply_inline(&class(json!([patch])), role, &template(), &variables()).unwrap();
            patched["spec"]["template"]["spec"]["image"].as_str().unwrap().to_owned()
        };
        assert_eq!(image(patch(steps.clone(), json!({})), WORKER), "x");
        let other = TemplateRole::MachineDeployment { class: "gpu" };
        assert_eq!(image(patch(steps.clone(), json!({})), other), "old");
        assert_eq!(image(patch(steps.clone(), json!({})), TemplateRole::ControlPlane), "old");
        for (condition, expected) in [
            ("{{ eq .count 3 }}", "x"),
            ("{{ gt .count 3 }}", "old"),
            ("{{ if .image }}true{{end}}", "x"),
            ("false", "old"),
        ] {
            assert_eq!(image(patch(steps.clone(), json!({"enabledIf": condition})), WORKER), expected);
        }
    }

    #[test]
    fn names_match_with_a_star_at_one_end() {
        for (pattern, name, expected) in [
            ("*", "a", true),
            ("a", "a", true),
            ("a-*", "a-b", true),
            ("*-b", "a-b", true),
            ("a-*", "b-a", false),
            ("a", "ab", false),
        ] {
            assert_eq!(matches_name(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn mistakes_name_the_patch_and_the_place() {
        for (steps, extra, message) in [
            (
                json!([{"op": "add", "path": "/spec/none/x", "value": 1}]),
                json!({}),
                "patch \"p\" of DevMachineTemplate worker: operation at index 0 (add \"/spec/none/x\"): there is no field \"none\"",
            ),
            (
                json!([{"op": "add", "path": "/spec/x", "valueFrom": {"variable": "cidr"}}]),
                json!({}),
                "patch \"p\": /spec/x: variable \"cidr\" has no value",
            ),
            (
                json!([{"op": "add", "path": "/spec/x", "value": 1}]),
                json!({"enabledIf": "{{ boom }}"}),
                "patch \"p\": enabledIf: template, line 1: function \"boom\" does not exist",
            ),
        ] {
            let class = class(json!([patch(steps, extra)]));
            let error = apply_inline(&class, WORKER, &template(), &variables()).unwrap_err();
            assert_eq!(error.to_string(), message);
        }
    }
}
