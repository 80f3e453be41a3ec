//! What differs between the versions of each kind, as tables of rules.

mod class;
mod cluster;
mod control_plane;
mod dev;
mod extension_config;
mod health_check;
mod kubeadm;
mod machine;
mod status;
mod topology;

use crate::rule::Rule;

/// A kind with more than one version.
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) name: &'static str,
    /// The versions before the one that is stored.
    pub(crate) older: &'static [&'static str],
    /// Whether older versions carry the whole object in an annotation.
    pub(crate) keeps_data: bool,
    /// Empty where the versions have the same fields.
    pub(crate) rules: &'static [Rule],
}

impl Kind {
    pub(crate) fn has(&self, version: &str) -> bool {
        version == "v1beta2" || self.older.contains(&version)
    }

    const fn without_data(self) -> Self {
        Self { keeps_data: false, ..self }
    }

    const fn since(self, older: &'static [&'static str]) -> Self {
        Self { older, ..self }
    }
}

pub(crate) fn find(group: &str, name: &str) -> Option<&'static Kind> {
    KINDS.iter().find(|kind| kind.group == group && kind.name == name)
}

const fn kind(group: &'static str, name: &'static str, rules: &'static [Rule]) -> Kind {
    Kind { group, name, older: &["v1beta1"], keeps_data: true, rules }
}

const CORE: &str = "cluster.x-k8s.io";
const ADDONS: &str = "addons.cluster.x-k8s.io";
const BOOTSTRAP: &str = "bootstrap.cluster.x-k8s.io";
const CONTROL_PLANE: &str = "controlplane.cluster.x-k8s.io";
const INFRASTRUCTURE: &str = "infrastructure.cluster.x-k8s.io";
const IPAM: &str = "ipam.cluster.x-k8s.io";
const RUNTIME: &str = "runtime.cluster.x-k8s.io";

pub(crate) static KINDS: &[Kind] = &[
    kind(CORE, "Cluster", cluster::CLUSTER),
    kind(CORE, "ClusterClass", class::CLUSTER_CLASS),
    kind(CORE, "MachineDeployment", machine::MACHINE_DEPLOYMENT),
    kind(CORE, "MachineSet", machine::MACHINE_SET).without_data(),
    kind(CORE, "Machine", machine::MACHINE),
    kind(CORE, "MachinePool", machine::MACHINE_POOL),
    kind(CORE, "MachineHealthCheck", health_check::MACHINE_HEALTH_CHECK),
    kind(CORE, "MachineDrainRule", &[]).without_data(),
    kind(ADDONS, "ClusterResourceSet", status::CONDITIONS_ONLY).without_data(),
    kind(ADDONS, "ClusterResourceSetBinding", &[]).without_data(),
    kind(BOOTSTRAP, "KubeadmConfig", kubeadm::KUBEADM_CONFIG),
    kind(BOOTSTRAP, "KubeadmConfigTemplate", kubeadm::KUBEADM_CONFIG_TEMPLATE),
    kind(CONTROL_PLANE, "KubeadmControlPlane", control_plane::KUBEADM_CONTROL_PLANE),
    kind(CONTROL_PLANE, "KubeadmControlPlaneTemplate", control_plane::KUBEADM_CONTROL_PLANE_TEMPLATE),
    kind(RUNTIME, "ExtensionConfig", extension_config::EXTENSION_CONFIG).without_data().since(&["v1alpha1"]),
    kind(INFRASTRUCTURE, "DevCluster", dev::DEV_CLUSTER),
    kind(INFRASTRUCTURE, "DevClusterTemplate", dev::DEV_CLUSTER_TEMPLATE).without_data(),
    kind(INFRASTRUCTURE, "DevMachine", dev::DEV_MACHINE),
    kind(INFRASTRUCTURE, "DevMachineTemplate", &[]).without_data(),
    kind(IPAM, "IPAddress", &[]).without_data().since(&["v1alpha1", "v1beta1"]),
    kind(IPAM, "IPAddressClaim", status::CONDITIONS_ONLY).without_data().since(&["v1alpha1", "v1beta1"]),
];
