//! What is in a workload cluster: Nodes, the pods of a control plane, and what kubeadm leaves behind.

use kube::api::ApiResource;
use serde_json::{Value, json};

use super::hash;

/// What a kubelet reports about its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kubelet {
    /// Name of the Node.
    pub name: String,
    /// The identity of the machine.
    pub provider_id: String,
    /// The version of the kubelet and of everything else on the machine.
    pub version: String,
    /// Whether this is a control plane machine.
    pub control_plane: bool,
    /// Where the machine is.
    pub failure_domain: String,
    /// Why the Node is not ready, if it is not.
    pub not_ready: Option<String>,
}

const CONTROL_PLANE: &str = "node-role.kubernetes.io/control-plane";

pub(super) fn node(kubelet: &Kubelet) -> Value {
    let mut labels = json!({
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": kubelet.name,
        "kubernetes.io/os": "linux",
    });
    // As kubeadm does on Cluster API machines: nothing is scheduled before the labels of the Machine are there.
    let mut taints = vec![json!({"key": "node.cluster.x-k8s.io/uninitialized", "effect": "NoSchedule"})];
    if kubelet.control_plane {
        labels[CONTROL_PLANE] = "".into();
        taints.push(json!({"key": CONTROL_PLANE, "effect": "NoSchedule"}));
    }
    if !kubelet.failure_domain.is_empty() {
        labels["topology.kubernetes.io/zone"] = kubelet.failure_domain.as_str().into();
    }
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": kubelet.name, "labels": labels},
        "spec": {"providerID": kubelet.provider_id, "taints": taints},
    })
}

pub(super) fn node_status(kubelet: &Kubelet) -> Value {
    let condition = |type_: &str, status: &str, reason: &str, message: &str| json!({"type": type_, "status": status, "reason": reason, "message": message});
    let ready = match &kubelet.not_ready {
        None => condition("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
        Some(why) => condition("Ready", "False", "KubeletNotReady", why),
    };
    let conditions = json!([
        ready,
        condition("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory"),
        condition("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
        condition("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ]);
    let id = format!("{:016x}", hash(&[&kubelet.provider_id]));
    json!({"status": {
        "addresses": [{"type": "InternalIP", "address": address(&kubelet.name)},
            {"type": "Hostname", "address": kubelet.name}],
        "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
        "conditions": conditions,
        "nodeInfo": {
            "architecture": "amd64", "operatingSystem": "linux", "osImage": "in memory",
            "kernelVersion": "6.12.0", "containerRuntimeVersion": "containerd://2.1.0",
            "machineID": id, "systemUUID": id, "bootID": id, "kubeProxyVersion": "",
            "kubeletVersion": kubelet.version,
        },
    }})
}

/// An address of the range for benchmarks, which is never routed.
pub(crate) fn address(name: &str) -> String {
    let [a, b, c, ..] = hash(&[name]).to_be_bytes();
    format!("198.{}.{b}.{c}", 18 + (a & 1))
}

pub(super) fn static_pod(component: &str, kubelet: &Kubelet) -> Value {
    let image = format!("registry.k8s.io/{component}:{}", kubelet.version);
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{component}-{}", kubelet.name), "namespace": "kube-system",
            "labels": {"component": component, "tier": "control-plane"},
            "annotations": {"kubernetes.io/config.mirror": format!("{:016x}", hash(&[component, &kubelet.name])),
                "kubernetes.io/config.source": "file"},
        },
        "spec": {"nodeName": kubelet.name, "hostNetwork": true, "priorityClassName": "system-node-critical",
            "containers": [{"name": component, "image": image}]},
    })
}

pub(super) fn running() -> Value {
    let types = ["Initialized", "Ready", "ContainersReady", "PodScheduled"];
    let conditions: Vec<Value> = types.iter().map(|type_| json!({"type": type_, "status": "True"})).collect();
    json!({"status": {"phase": "Running", "conditions": conditions}})
}

pub(super) fn stubborn_pod(name: &str, node: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "default",
            "finalizers": ["inmemory.infrastructure.cluster.x-k8s.io/stubborn"]},
        "spec": {"nodeName": node, "containers": [{"name": "stubborn", "image": "stubborn"}]},
    })
}

/// What kubeadm leaves in a cluster: kind, namespace, object.
pub(super) fn addons(version: &str) -> Vec<(ApiResource, Option<&'static str>, Value)> {
    let resource = |group: &str, kind: &str, plural: &str| {
        let gvk = kube::api::GroupVersionKind::gvk(group, "v1", kind);
        ApiResource::from_gvk_with_plural(&gvk, plural)
    };
    const RBAC: &str = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "kubeadm:get-nodes"},
        "rules": [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["get"]}]});
    let binding = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "kubeadm:get-nodes"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "kubeadm:get-nodes"},
        "subjects": [{"apiGroup": RBAC, "kind": "Group", "name": "system:bootstrappers:kubeadm:default-node-token"}]});
    let configuration = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: {version}\n"
    );
    let kubeadm = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "kubeadm-config", "namespace": "kube-system"},
        "data": {"ClusterConfiguration": configuration}});
    let app = |name: &str, image: &str| {
        json!({"selector": {"matchLabels": {"k8s-app": name}},
            "template": {"metadata": {"labels": {"k8s-app": name}},
                "spec": {"containers": [{"name": name, "image": image}]}}})
    };
    let proxy = json!({"apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "kube-proxy", "namespace": "kube-system", "labels": {"k8s-app": "kube-proxy"}},
        "spec": app("kube-proxy", &format!("registry.k8s.io/kube-proxy:{version}"))});
    let core_file = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "coredns", "namespace": "kube-system"},
        "data": {"Corefile": ".:53 {\n    errors\n    kubernetes cluster.local\n}\n"}});
    let dns = json!({"apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "coredns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
        "spec": app("kube-dns", "registry.k8s.io/coredns/coredns:v1.12.0")});
    let system = Some("kube-system");
    vec![
        (resource(RBAC, "ClusterRole", "clusterroles"), None, role),
        (resource(RBAC, "ClusterRoleBinding", "clusterrolebindings"), None, binding),
        (resource("", "ConfigMap", "configmaps"), system, kubeadm),
        (resource("apps", "DaemonSet", "daemonsets"), system, proxy),
        (resource("", "ConfigMap", "configmaps"), system, core_file),
        (resource("apps", "Deployment", "deployments"), system, dns),
    ]
}
