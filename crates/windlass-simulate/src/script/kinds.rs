//! The kinds that stories have words for.

use windlass_api::names::{
    BOOTSTRAP_API_VERSION, CLUSTER_API_VERSION, CONTROL_PLANE_API_VERSION, INFRASTRUCTURE_API_VERSION,
    RUNTIME_API_VERSION,
};

use super::statement::ObjectKind;

const fn namespaced(
    words: &'static [&'static str],
    api_version: &'static str,
    kind: &'static str,
) -> ObjectKind {
    ObjectKind { words, api_version, kind, is_namespaced: true }
}

/// All of them, those that are used most first.
pub(super) const KINDS: &[ObjectKind] = &[
    namespaced(&["cluster"], CLUSTER_API_VERSION, "Cluster"),
    namespaced(&["clusterclass", "cc"], CLUSTER_API_VERSION, "ClusterClass"),
    namespaced(&["machinedeployment", "md"], CLUSTER_API_VERSION, "MachineDeployment"),
    namespaced(&["machineset", "ms"], CLUSTER_API_VERSION, "MachineSet"),
    namespaced(&["machinepool", "mp"], CLUSTER_API_VERSION, "MachinePool"),
    namespaced(&["machine", "ma"], CLUSTER_API_VERSION, "Machine"),
    namespaced(&["machinehealthcheck", "mhc"], CLUSTER_API_VERSION, "MachineHealthCheck"),
    namespaced(&["kubeadmcontrolplane", "kcp"], CONTROL_PLANE_API_VERSION, "KubeadmControlPlane"),
    namespaced(&["kubeadmcontrolplanetemplate"], CONTROL_PLANE_API_VERSION, "KubeadmControlPlaneTemplate"),
    namespaced(&["kubeadmconfigtemplate"], BOOTSTRAP_API_VERSION, "KubeadmConfigTemplate"),
    namespaced(&["devcluster"], INFRASTRUCTURE_API_VERSION, "DevCluster"),
    namespaced(&["devmachine"], INFRASTRUCTURE_API_VERSION, "DevMachine"),
    namespaced(&["devmachinetemplate"], INFRASTRUCTURE_API_VERSION, "DevMachineTemplate"),
    namespaced(&["devmachinepool"], INFRASTRUCTURE_API_VERSION, "DevMachinePool"),
    ObjectKind {
        words: &["extensionconfig", "ext"],
        api_version: RUNTIME_API_VERSION,
        kind: "ExtensionConfig",
        is_namespaced: false,
    },
];

/// The kind that a word stands for.
pub(super) fn kind(word: &str) -> Option<&'static ObjectKind> {
    let word = word.to_ascii_lowercase();
    KINDS.iter().find(|kind| kind.words.contains(&word.as_str()))
}
