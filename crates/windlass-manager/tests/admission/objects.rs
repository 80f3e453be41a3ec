//! Objects that keep all rules, and ways to break one.

use serde_json::{Value, json};

pub(crate) const CLUSTER_API: &str = "cluster.x-k8s.io/v1beta2";

fn reference(kind: &str) -> Value {
    let group = match kind {
        "KubeadmConfigTemplate" => "bootstrap",
        "KubeadmControlPlaneTemplate" => "controlplane",
        _ => "infrastructure",
    };
    json!({"templateRef": {"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "name": "t"}})
}

/// A class that has been looked at, with the versions v1.29.0 to v1.34.0.
pub(crate) fn class() -> Value {
    let versions: Vec<String> = (29..=34).map(|minor| format!("v1.{minor}.0")).collect();
    let mut control_plane = reference("KubeadmControlPlaneTemplate");
    control_plane["machineInfrastructure"] = reference("DevMachineTemplate");
    let (bootstrap, machines) = (reference("KubeadmConfigTemplate"), reference("DevMachineTemplate"));
    let pool = reference("DevMachinePoolTemplate");
    json!({"apiVersion": CLUSTER_API, "kind": "ClusterClass", "metadata": {"name": "quick"},
        "spec": {
            "infrastructure": reference("DevClusterTemplate"),
            "controlPlane": control_plane,
            "workers": {
                "machineDeployments": [{"class": "default", "bootstrap": bootstrap, "infrastructure": machines}],
                "machinePools": [{"class": "default", "bootstrap": bootstrap, "infrastructure": pool}],
            },
            "variables": [
                {"name": "image", "required": false, "schema": {"openAPIV3Schema":
                    {"type": "string", "enum": ["small", "large"], "default": "small"}}},
                {"name": "zone", "required": false, "schema": {"openAPIV3Schema": {"type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "zone is forever"}]}}},
            ],
            "kubernetesVersions": versions,
        },
        "status": {"observedGeneration": 1},
    })
}

/// A class that lists no versions.
pub(crate) fn class_without_versions() -> Value {
    without(&class(), "/spec", "kubernetesVersions")
}

pub(crate) fn cluster(version: &str) -> Value {
    json!({"apiVersion": CLUSTER_API, "kind": "Cluster", "metadata": {"name": "c1"},
    "spec": {"topology": {
        "classRef": {"name": "quick"}, "version": version,
        "controlPlane": {"replicas": 1},
        "workers": {
            "machineDeployments": [{"class": "default", "name": "web", "replicas": 1}],
            "machinePools": [{"class": "default", "name": "batch", "replicas": 1}],
        },
    }}})
}

/// A Cluster whose control plane exists.
pub(crate) fn cluster_with_control_plane(version: &str) -> Value {
    let mut cluster = cluster(version);
    cluster["spec"]["controlPlaneRef"] =
        json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp"});
    cluster["spec"]["infrastructureRef"] =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c1"});
    cluster
}

/// A control plane whose machines run these versions.
pub(crate) fn control_plane(version: &str, running: &[&str]) -> Value {
    let infrastructure =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t"});
    let versions: Vec<Value> =
        running.iter().map(|version| json!({"version": version, "replicas": 1})).collect();
    let mut object = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
        "metadata": {"name": "cp"},
        "spec": {"version": version, "replicas": 1, "kubeadmConfigSpec": {},
            "machineTemplate": {"spec": {"infrastructureRef": infrastructure}}}});
    if !versions.is_empty() {
        object["status"] = json!({"versions": versions});
    }
    object
}

pub(crate) fn machine_deployment(version: &str) -> Value {
    let infrastructure =
        json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t"});
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c1", "topology.cluster.x-k8s.io/owned": "",
        "topology.cluster.x-k8s.io/deployment-name": "web"});
    json!({"apiVersion": CLUSTER_API, "kind": "MachineDeployment", "metadata": {"name": "c1-web", "labels": labels},
        "spec": {"clusterName": "c1", "replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"clusterName": "c1", "version": version, "bootstrap": {"dataSecretName": "none"},
                "infrastructureRef": infrastructure}}}})
}

/// A machine of the MachineDeployment.
pub(crate) fn machine(version: &str) -> Value {
    let deployment = machine_deployment(version);
    json!({"apiVersion": CLUSTER_API, "kind": "Machine",
        "metadata": {"name": "m1", "labels": deployment["spec"]["template"]["metadata"]["labels"]},
        "spec": deployment["spec"]["template"]["spec"]})
}

pub(crate) fn extension_config() -> Value {
    json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": "ext1"},
        "spec": {"clientConfig": {"url": "https://extension.example"}, "namespaceSelector": {}}})
}

/// The object with one field set; what is missing on the way there is made.
pub(crate) fn with(object: &Value, pointer: &str, value: Value) -> Value {
    let mut object = object.clone();
    let mut at = &mut object;
    for part in pointer.split('/').skip(1) {
        let part = part.replace("~1", "/");
        at = match part.parse::<usize>() {
            Ok(index) if at.is_array() => &mut at[index],
            _ => &mut at[part],
        };
    }
    *at = value;
    object
}

/// The object without a field.
pub(crate) fn without(object: &Value, pointer: &str, field: &str) -> Value {
    let mut object = object.clone();
    object.pointer_mut(pointer).unwrap().as_object_mut().unwrap().remove(field).unwrap();
    object
}
