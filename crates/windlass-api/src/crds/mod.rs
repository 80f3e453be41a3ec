//! The CustomResourceDefinitions of all kinds.
//!
//! Schemas are made from the types, so that neither can say what the other does not; what a type cannot say (defaults,
//! limits, how lists merge) stands beside its fields.

mod crd;
mod kinds;
mod structural;
mod versions;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

pub use versions::older_versions;

pub(crate) use crate::kubernetes::{CONDITION_TYPE, conditions, label_selector, object_references, taints};

/// What names of objects look like.
pub(crate) const DNS_SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// What names of namespaces look like.
pub(crate) const DNS_LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// What kinds look like.
pub(crate) const KIND: &str = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";

/// The CRDs as manifests, in the order of their names.
pub fn manifests() -> Vec<Value> {
    let mut manifests = kinds::manifests();
    manifests.sort_by(|a, b| name(a).cmp(name(b)));
    manifests
}

/// The CRDs for a real API server: those with more than one version say that Windlass's webhook converts. The embedded API
/// converts by itself.
pub fn for_a_cluster() -> Vec<Value> {
    let mut manifests = manifests();
    for manifest in &mut manifests {
        if manifest["spec"]["versions"].as_array().is_none_or(|versions| versions.len() < 2) {
            continue;
        }
        manifest["metadata"]["annotations"] = json!({"cert-manager.io/inject-ca-from": CERTIFICATE});
        let service = json!({"namespace": NAMESPACE, "name": SERVICE, "path": "/convert", "port": 443});
        manifest["spec"]["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": {"service": service}},
        });
    }
    manifests
}

/// Where `deploy/` puts the webhooks, and the certificate that cert-manager makes for them.
const NAMESPACE: &str = "windlass-system";
const SERVICE: &str = "windlass";
const CERTIFICATE: &str = "windlass-system/windlass-webhook";

/// The CRDs as objects of Kubernetes' own type, in the order of their names.
pub fn all() -> Vec<CustomResourceDefinition> {
    let typed = |manifest: Value| {
        #[expect(clippy::expect_used, reason = "a test decodes all of them, and nothing else goes in")]
        serde_json::from_value(manifest).expect("a manifest of this crate")
    };
    manifests().into_iter().map(typed).collect()
}

fn name(manifest: &Value) -> &str {
    manifest["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_kinds_are_there_once_and_in_order() {
        let crds = all();
        let names: Vec<&str> = crds.iter().filter_map(|crd| crd.metadata.name.as_deref()).collect();
        assert_eq!(
            names,
            [
                "clusterclasses.cluster.x-k8s.io",
                "clusterresourcesetbindings.addons.cluster.x-k8s.io",
                "clusterresourcesets.addons.cluster.x-k8s.io",
                "clusters.cluster.x-k8s.io",
                "devclusters.infrastructure.cluster.x-k8s.io",
                "devclustertemplates.infrastructure.cluster.x-k8s.io",
                "devmachinepools.infrastructure.cluster.x-k8s.io",
                "devmachinepooltemplates.infrastructure.cluster.x-k8s.io",
                "devmachines.infrastructure.cluster.x-k8s.io",
                "devmachinetemplates.infrastructure.cluster.x-k8s.io",
                "extensionconfigs.runtime.cluster.x-k8s.io",
                "ipaddressclaims.ipam.cluster.x-k8s.io",
                "ipaddresses.ipam.cluster.x-k8s.io",
                "kubeadmconfigs.bootstrap.cluster.x-k8s.io",
                "kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io",
                "kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
                "kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io",
                "machinedeployments.cluster.x-k8s.io",
                "machinedrainrules.cluster.x-k8s.io",
                "machinehealthchecks.cluster.x-k8s.io",
                "machinepools.cluster.x-k8s.io",
                "machines.cluster.x-k8s.io",
                "machinesets.cluster.x-k8s.io",
            ]
        );
        for crd in &crds {
            assert_eq!(crd.spec.names.categories.as_deref().unwrap(), ["cluster-api"]);
        }
    }

    #[test]
    fn short_names_are_unique() {
        let mut seen = BTreeSet::new();
        for crd in all() {
            for short in crd.spec.names.short_names.unwrap_or_default() {
                assert!(seen.insert(short.clone()), "{short}");
            }
        }
        assert!(
            seen.is_superset(&["cl", "cc", "md", "ms", "ma", "mp", "mhc", "kcp"].map(str::to_owned).into())
        );
    }

    /// Every node of every schema, with its path.
    fn nodes(schema: &Value, path: String, visit: &mut impl FnMut(&str, &Value)) {
        visit(&path, schema);
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            nodes(property, format!("{path}.{name}"), visit);
        }
        for (key, suffix) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[key].is_object() {
                nodes(&schema[key], format!("{path}{suffix}"), visit);
            }
        }
    }

    #[test]
    fn schemas_are_structural_and_explain_every_field() {
        for manifest in manifests() {
            let versions = manifest["spec"]["versions"].as_array().unwrap();
            let stored = versions.iter().find(|version| version["storage"] == true).unwrap();
            let schema = &stored["schema"]["openAPIV3Schema"];
            nodes(schema, name(&manifest).to_owned(), &mut |path, node| {
                let anything = node["x-kubernetes-preserve-unknown-fields"] == true
                    || node["x-kubernetes-int-or-string"] == true;
                assert!(node["type"].is_string() || anything, "{path} has no type: {node}");
                for key in ["$ref", "anyOf", "oneOf", "allOf", "nullable", "title", "const"] {
                    assert!(node.get(key).is_none(), "{path} has {key}");
                }
                let required = node["required"].as_array().into_iter().flatten();
                for field in required.filter_map(Value::as_str) {
                    assert!(
                        node["properties"][field].is_object(),
                        "{path} requires {field}, which it does not have"
                    );
                }
                for key in node["x-kubernetes-list-map-keys"].as_array().into_iter().flatten() {
                    let key = key.as_str().unwrap();
                    let required = node["items"]["required"].as_array().unwrap();
                    assert!(
                        required.iter().any(|field| field == key),
                        "{path} merges by {key}, which may be absent"
                    );
                }
                let is_list = node["type"] == "array";
                let merges = node["x-kubernetes-list-type"].is_string() || path.ends_with("mounts[]");
                assert!(!is_list || merges, "{path} does not say how it merges");
                let own =
                    !path.contains("nodeRefs") && !path.ends_with(['}', ']']) && path.contains(".spec.");
                assert!(!own || node["description"].is_string() || path.contains("Expressions[]"), "{path}");
            });
        }
    }
}
