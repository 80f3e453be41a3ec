//! KubeadmControlPlaneTemplate: what KubeadmControlPlanes of a managed topology are made from.

use super::{CONTROL_PLANE, KubeadmControlPlaneRemediationSpec, KubeadmControlPlaneRolloutSpec};
use crate::bootstrap::KubeadmConfigSpec;
use crate::cluster::{DeletionTimeouts, MachineTaint, NamingSpec, TemplateMeta};
use crate::kind::{kind, resource_struct};

kind! {
    /// What KubeadmControlPlanes of a managed topology are made from.
    pub struct KubeadmControlPlaneTemplate in CONTROL_PLANE, "kubeadmcontrolplanetemplates" {
        #[optional] spec: KubeadmControlPlaneTemplateSpec,
    }
}

resource_struct! {
    /// What KubeadmControlPlanes are made from.
    pub struct KubeadmControlPlaneTemplateSpec {
        /// The template.
        pub template: KubeadmControlPlaneTemplateResource,
    }
}

resource_struct! {
    /// A KubeadmControlPlane without what a topology fills in.
    pub struct KubeadmControlPlaneTemplateResource {
        /// Labels and annotations.
        pub metadata: TemplateMeta,
        /// The desired state.
        pub spec: KubeadmControlPlaneTemplateResourceSpec,
    }
}

resource_struct! {
    /// The desired state of a KubeadmControlPlane, without replicas, version and infrastructure.
    pub struct KubeadmControlPlaneTemplateResourceSpec {
        /// What its Machines are made from.
        pub machine_template: KubeadmControlPlaneTemplateMachineTemplate,
        /// How its Machines become Nodes.
        pub kubeadm_config_spec: KubeadmConfigSpec,
        /// How changes are rolled out.
        pub rollout: Option<KubeadmControlPlaneRolloutSpec>,
        /// How unhealthy Machines are remediated.
        pub remediation: KubeadmControlPlaneRemediationSpec,
        /// How its Machines are named.
        pub machine_naming: NamingSpec,
    }
}

resource_struct! {
    /// What Machines of a control plane are made from, without their infrastructure.
    #[derive(Eq)]
    pub struct KubeadmControlPlaneTemplateMachineTemplate {
        /// Labels and annotations of the Machines.
        pub metadata: TemplateMeta,
        /// The desired state of the Machines.
        pub spec: KubeadmControlPlaneTemplateMachineTemplateSpec,
    }
}

resource_struct! {
    /// The desired state of Machines of a control plane, without their infrastructure.
    #[derive(Eq)]
    pub struct KubeadmControlPlaneTemplateMachineTemplateSpec {
        /// How the Machines are deleted.
        pub deletion: DeletionTimeouts,
        /// Taints of the Nodes that are managed here.
        #[schemars(
            length(min = 1, max = 64),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
        )]
        pub taints: Vec<MachineTaint>,
    }
}
