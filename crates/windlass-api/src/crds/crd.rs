//! A CustomResourceDefinition from what is said of its kind in a table.

use kube_core::Resource;
use schemars::JsonSchema;
use serde_json::{Value, json};

use super::structural::schema_of;
use super::versions::with_older_versions;
use crate::kind::Scope;

/// What a CRD says that a type cannot.
#[derive(Clone, Copy)]
pub(super) struct Extras {
    pub(super) short_names: &'static [&'static str],
    pub(super) columns: &'static [Column],
    /// Whether `kubectl scale` and autoscalers work on it.
    pub(super) scale: Scale,
}

#[derive(Clone, Copy)]
pub(super) enum Scale {
    Fixed,
    /// By `spec.replicas`.
    Replicas,
    /// By `spec.replicas`, and `status.selector` selects the Machines.
    ReplicasAndSelector,
}

/// A column of `kubectl get`.
#[derive(Clone, Copy)]
pub(super) struct Column {
    pub(super) name: &'static str,
    pub(super) type_: &'static str,
    pub(super) path: &'static str,
    pub(super) description: &'static str,
    /// Shown by `-o wide` only.
    pub(super) wide: bool,
}

pub(super) fn manifest<K>(extras: Extras) -> Value
where
    K: Resource<DynamicType = (), Scope: Scope> + JsonSchema,
{
    let schema = schema_of::<K>();
    let with_status = schema["properties"]["status"].is_object();
    let mut version = json!({
        "name": K::version(&()),
        "served": true,
        "storage": true,
        "schema": {"openAPIV3Schema": schema},
    });
    if !extras.columns.is_empty() {
        version["additionalPrinterColumns"] = extras.columns.iter().map(|column| column.to_json()).collect();
    }
    if with_status {
        version["subresources"]["status"] = json!({});
    }
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    match extras.scale {
        Scale::Fixed => {}
        Scale::Replicas => version["subresources"]["scale"] = scale,
        Scale::ReplicasAndSelector => {
            version["subresources"]["scale"] = scale;
            version["subresources"]["scale"]["labelSelectorPath"] = ".status.selector".into();
        }
    }
    frame::<K>(extras.short_names, version)
}

/// What surrounds the versions of a kind.
fn frame<K: Resource<DynamicType = (), Scope: Scope>>(short_names: &[&str], version: Value) -> Value {
    let (group, kind, plural) = (K::group(&()), K::kind(&()), K::plural(&()));
    let mut manifest = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.{group}"),
        },
        "spec": {
            "group": group,
            "names": {
                "categories": ["cluster-api"],
                "kind": kind,
                "listKind": format!("{kind}List"),
                "plural": plural,
                "singular": kind.to_lowercase(),
            },
            "scope": K::Scope::NAME,
            "versions": [version],
        },
    });
    if !short_names.is_empty() {
        manifest["spec"]["names"]["shortNames"] = json!(short_names);
    }
    with_older_versions(manifest)
}

impl Column {
    fn to_json(self) -> Value {
        let mut column = json!({
            "name": self.name,
            "type": self.type_,
            "jsonPath": self.path,
            "description": self.description,
        });
        if self.wide {
            column["priority"] = 10.into();
        }
        column
    }
}
