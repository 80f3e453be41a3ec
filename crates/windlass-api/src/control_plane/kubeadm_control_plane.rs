//! KubeadmControlPlane.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::CONTROL_PLANE;
use crate::bootstrap::KubeadmConfigSpec;
use crate::cluster::{
    ContractVersionedObjectReference, DeletionTimeouts, MachineReadinessGate, MachineTaint, NamingSpec,
    StatusVersion, TemplateMeta,
};
use crate::kind::{AnyObject, choice, kind, resource_struct};

kind! {
    /// A control plane whose Machines are made with kubeadm.
    pub struct KubeadmControlPlane in CONTROL_PLANE, "kubeadmcontrolplanes" {
        spec: KubeadmControlPlaneSpec,
        status: KubeadmControlPlaneStatus,
    }
}

resource_struct! {
    /// The desired state of a KubeadmControlPlane.
    #[schemars(extend("required" = ["version", "machineTemplate"]))]
    pub struct KubeadmControlPlaneSpec {
        /// How many Machines there shall be; odd, unless etcd is elsewhere.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// The Kubernetes version.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// What its Machines are made from.
        pub machine_template: KubeadmControlPlaneMachineTemplate,
        /// How its Machines become Nodes.
        pub kubeadm_config_spec: KubeadmConfigSpec,
        /// How changes are rolled out.
        pub rollout: KubeadmControlPlaneRolloutSpec,
        /// How unhealthy Machines are remediated.
        pub remediation: KubeadmControlPlaneRemediationSpec,
        /// How its Machines are named.
        pub machine_naming: NamingSpec,
    }
}

resource_struct! {
    /// What Machines of a control plane are made from.
    #[derive(Eq)]
    #[schemars(extend("required" = ["spec"]))]
    pub struct KubeadmControlPlaneMachineTemplate {
        /// Labels and annotations of the Machines.
        pub metadata: TemplateMeta,
        /// The desired state of the Machines.
        pub spec: KubeadmControlPlaneMachineTemplateSpec,
    }
}

resource_struct! {
    /// The desired state of Machines of a control plane.
    #[derive(Eq)]
    #[schemars(extend("required" = ["infrastructureRef"]))]
    pub struct KubeadmControlPlaneMachineTemplateSpec {
        /// What the infrastructure of the Machines is made from.
        pub infrastructure_ref: ContractVersionedObjectReference,
        /// Further conditions that readiness depends on.
        #[schemars(
            length(min = 1, max = 32),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
        )]
        pub readiness_gates: Vec<MachineReadinessGate>,
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

resource_struct! {
    /// How changes of a control plane are rolled out.
    #[derive(Eq)]
    pub struct KubeadmControlPlaneRolloutSpec {
        /// Machines are replaced before something happens.
        pub before: KubeadmControlPlaneRolloutBeforeSpec,
        /// Machines created before this time are replaced.
        pub after: Option<Time>,
        /// How Machines are replaced or updated.
        pub strategy: KubeadmControlPlaneRolloutStrategy,
    }
}

resource_struct! {
    /// Before what Machines are replaced.
    #[derive(Eq, Copy)]
    pub struct KubeadmControlPlaneRolloutBeforeSpec {
        /// So many days before their certificates expire.
        #[schemars(range(min = 7))]
        pub certificates_expiry_days: Option<i32>,
    }
}

choice! {
    /// How changes reach the Machines of a control plane.
    pub enum KubeadmControlPlaneRolloutStrategyType {
        /// Machines are replaced one by one, and updated in place where extensions can do that.
        RollingUpdate = "RollingUpdate",
        /// Machines are updated in place by extensions, and replaced only if `fallbackRolling` says so.
        External = "External",
    }
}

resource_struct! {
    /// How Machines of a control plane are replaced or updated.
    #[derive(Eq)]
    #[schemars(extend("required" = ["type"]))]
    pub struct KubeadmControlPlaneRolloutStrategy {
        /// RollingUpdate or External.
        #[serde(rename = "type")]
        pub type_: KubeadmControlPlaneRolloutStrategyType,
        /// Limits of a rolling update.
        pub rolling_update: Option<KubeadmControlPlaneRollingUpdate>,
        /// With External: how Machines are replaced that cannot be updated in place. Without it the rollout stops there,
        /// and no Machine is ever replaced.
        pub fallback_rolling: Option<KubeadmControlPlaneRollingUpdate>,
    }
}

resource_struct! {
    /// Limits of a rolling update of a control plane.
    #[derive(Eq)]
    pub struct KubeadmControlPlaneRollingUpdate {
        /// How many Machines may be too many: 0 or 1. Absent is 1.
        pub max_surge: Option<IntOrString>,
    }
}

resource_struct! {
    /// How unhealthy Machines of a control plane are remediated.
    #[derive(Eq, Copy)]
    pub struct KubeadmControlPlaneRemediationSpec {
        /// How often the same problem is remediated. Absent is without limit.
        #[schemars(range(min = 0))]
        pub max_retry: Option<i32>,
        /// How long to wait before the next retry.
        #[schemars(range(min = 0))]
        pub retry_period_seconds: Option<i32>,
        /// How long the replacement must be healthy for a later failure to count as another problem. Absent is one hour.
        #[schemars(range(min = 0))]
        pub min_healthy_period_seconds: Option<i32>,
    }
}

resource_struct! {
    /// The observed state of a KubeadmControlPlane.
    pub struct KubeadmControlPlaneStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far provisioning has come.
        pub initialization: KubeadmControlPlaneInitializationStatus,
        /// The selector as text, for autoscalers.
        #[schemars(length(min = 1, max = 4096))]
        pub selector: String,
        /// How many Machines there are.
        pub replicas: Option<i32>,
        /// How many Machines are ready.
        pub ready_replicas: Option<i32>,
        /// How many Machines are available.
        pub available_replicas: Option<i32>,
        /// How many Machines are up to date.
        pub up_to_date_replicas: Option<i32>,
        /// The lowest version of its Machines.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// Which versions there are, from old to new.
        #[schemars(
            length(max = 100),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
        )]
        pub versions: Vec<StatusVersion>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// The last remediation.
        pub last_remediation: Option<LastRemediationStatus>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated_of_control_plane")]
        pub deprecated: Option<AnyObject>,
    }
}

resource_struct! {
    /// How far provisioning of a control plane has come. Never goes back.
    #[derive(Eq, Copy)]
    pub struct KubeadmControlPlaneInitializationStatus {
        /// Whether the API server accepts requests.
        pub control_plane_initialized: Option<bool>,
    }
}

resource_struct! {
    /// The last remediation of a control plane.
    #[derive(Eq)]
    #[schemars(extend("required" = ["machine", "time", "retryCount"]))]
    pub struct LastRemediationStatus {
        /// Name of the Machine.
        #[schemars(length(min = 1, max = 253))]
        pub machine: String,
        /// When it was remediated.
        pub time: Option<Time>,
        /// The how manieth remediation of the same problem.
        #[schemars(range(min = 0))]
        pub retry_count: Option<i32>,
    }
}
