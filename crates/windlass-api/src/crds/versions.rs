//! The versions of a kind before the one that is stored, and what they are called in labels.

use serde_json::{Value, json};

use crate::names::{CLUSTERCTL_LABEL, CONTRACT_V1BETA1_LABEL, CONTRACT_V1BETA2_LABEL};

/// The versions that are served beside v1beta2, oldest first. They are converted, and never stored.
pub fn older_versions(group: &str, kind: &str) -> &'static [&'static str] {
    match (group, kind) {
        ("runtime.cluster.x-k8s.io", _) => &["v1alpha1"],
        ("ipam.cluster.x-k8s.io", _) => &["v1alpha1", "v1beta1"],
        // Cluster API has had these only since v1beta2.
        (_, "DevMachinePool" | "DevMachinePoolTemplate") => &[],
        _ => &["v1beta1"],
    }
}

/// Adds the older versions of a kind to its CRD, before the one that is there, and the labels that say which version keeps
/// which contract: references leave the version out.
///
/// Objects of the older versions are validated after they have been converted, so the schemas say nothing of fields.
pub(super) fn with_older_versions(mut manifest: Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&manifest["spec"]["group"]), text(&manifest["spec"]["names"]["kind"]));
    let newest = manifest["spec"]["versions"][0].clone();
    let older = older_versions(&group, &kind);
    manifest["spec"]["versions"] =
        older.iter().map(|name| older_version(name, &newest)).chain([newest.clone()]).collect();
    // Core kinds keep no contract upstream; here they have said since the first release that they keep the newest.
    // clusterctl looks for objects to move among the kinds that have its label, whatever it says.
    let mut labels = json!({CONTRACT_V1BETA2_LABEL: "v1beta2", CLUSTERCTL_LABEL: ""});
    if is_of_a_provider(&group) && older.contains(&"v1beta1") {
        labels[CONTRACT_V1BETA1_LABEL] = "v1beta1".into();
    }
    manifest["metadata"]["labels"] = labels;
    manifest
}

/// Whether kinds of a group are referred to by their contract.
fn is_of_a_provider(group: &str) -> bool {
    ["bootstrap.", "controlplane.", "infrastructure."].iter().any(|prefix| group.starts_with(prefix))
}

fn older_version(name: &str, newest: &Value) -> Value {
    let open = |description: &str| json!({"type": "object", "description": description, "x-kubernetes-preserve-unknown-fields": true});
    let mut properties = newest["schema"]["openAPIV3Schema"]["properties"].clone();
    for (part, description) in [("spec", "What is wanted."), ("status", "What was found.")] {
        if properties[part].is_object() {
            properties[part] = open(description);
        }
    }
    let mut version = json!({
        "name": name,
        "served": true,
        "storage": false,
        "deprecated": true,
        "schema": {"openAPIV3Schema": {
            "type": "object",
            "description": "Converted to v1beta2, which is stored and says what its fields are.",
            "properties": properties,
        }},
    });
    if let Some(columns) = newest["additionalPrinterColumns"].as_array() {
        version["additionalPrinterColumns"] = columns.iter().map(older_column).collect();
    }
    if newest["subresources"].is_object() {
        version["subresources"] = newest["subresources"].clone();
    }
    version
}

/// Where the fields that columns show are in older versions.
const OLDER_PATHS: &[(&str, &str)] = &[
    (".spec.topology.classRef.name", ".spec.topology.class"),
    (".status.conditions[", ".status.v1beta2.conditions["),
    (".status.readyReplicas", ".status.v1beta2.readyReplicas"),
    (".status.availableReplicas", ".status.v1beta2.availableReplicas"),
    (".status.upToDateReplicas", ".status.v1beta2.upToDateReplicas"),
    (".status.controlPlane.", ".status.v1beta2.controlPlane."),
    (".status.workers.", ".status.v1beta2.workers."),
    (".status.initialization.controlPlaneInitialized", ".status.initialized"),
    (".status.initialization.dataSecretCreated", ".status.ready"),
    (".status.initialization.provisioned", ".status.ready"),
];

fn older_column(column: &Value) -> Value {
    let mut column = column.clone();
    let path = column["jsonPath"].as_str().unwrap_or_default();
    if let Some((newer, older)) = OLDER_PATHS.iter().find(|(newer, _)| path.starts_with(newer)) {
        column["jsonPath"] = path.replacen(newer, older, 1).into();
    }
    column
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds::{for_a_cluster, manifests};

    #[test]
    fn older_versions_are_served_deprecated_and_never_stored() {
        for manifest in manifests() {
            let (group, kind) = (&manifest["spec"]["group"], &manifest["spec"]["names"]["kind"]);
            let older = older_versions(group.as_str().unwrap(), kind.as_str().unwrap());
            let versions = manifest["spec"]["versions"].as_array().unwrap();
            let (newest, others) = versions.split_last().unwrap();
            assert_eq!(
                (&newest["name"], &newest["storage"], newest.get("deprecated")),
                (&json!("v1beta2"), &json!(true), None)
            );
            assert_eq!(others.iter().map(|version| &version["name"]).collect::<Vec<_>>(), older);
            for version in others {
                assert_eq!(
                    (&version["served"], &version["storage"], &version["deprecated"]),
                    (&json!(true), &json!(false), &json!(true))
                );
                assert_eq!(version.get("subresources"), newest.get("subresources"));
                let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
                assert_eq!(spec["x-kubernetes-preserve-unknown-fields"], true);
            }
        }
    }

    #[test]
    fn columns_are_found_where_the_older_version_has_them() {
        let paths = |name: &str| -> Vec<String> {
            let crd = manifests().into_iter().find(|crd| crd["metadata"]["name"] == name).unwrap();
            let columns = crd["spec"]["versions"][0]["additionalPrinterColumns"].as_array().unwrap().clone();
            columns.iter().map(|column| column["jsonPath"].as_str().unwrap().to_owned()).collect()
        };
        let cluster = paths("clusters.cluster.x-k8s.io");
        assert_eq!(cluster[0], ".spec.topology.class");
        assert_eq!(cluster[1], r#".status.v1beta2.conditions[?(@.type=="Available")].status"#);
        assert!(paths("devclusters.infrastructure.cluster.x-k8s.io").contains(&".status.ready".to_owned()));
    }

    #[test]
    fn providers_kinds_keep_both_contracts() {
        for manifest in manifests() {
            let name = manifest["metadata"]["name"].as_str().unwrap();
            let older = ["kubeadm", "devcluster", "devmachines", "devmachinetemplates"]
                .iter()
                .any(|of| name.starts_with(of));
            let labels = &manifest["metadata"]["labels"];
            assert_eq!(labels.get("cluster.x-k8s.io/v1beta1").is_some(), older, "{name}");
            assert_eq!(labels["cluster.x-k8s.io/v1beta2"], "v1beta2");
        }
    }

    #[test]
    fn a_real_api_server_asks_the_webhook_for_kinds_with_two_versions() {
        for manifest in for_a_cluster() {
            let versions = manifest["spec"]["versions"].as_array().unwrap().len();
            let conversion = &manifest["spec"]["conversion"];
            assert_eq!(conversion["strategy"] == "Webhook", versions > 1);
            if versions > 1 {
                assert_eq!(conversion["webhook"]["clientConfig"]["service"]["path"], "/convert");
            }
        }
    }
}
