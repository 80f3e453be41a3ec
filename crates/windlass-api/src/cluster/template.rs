//! What objects that are made from a template have in common.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{MachineSpec, TemplateReference};
use crate::kind::{choice, resource_struct};

resource_struct! {
    /// Labels and annotations of objects that are made from a template.
    #[derive(Eq)]
    pub struct TemplateMeta {
        /// Labels.
        pub labels: BTreeMap<String, String>,
        /// Annotations.
        pub annotations: BTreeMap<String, String>,
    }
}

resource_struct! {
    /// What Machines are made from.
    #[schemars(extend("required" = ["spec"]))]
    pub struct MachineTemplateSpec {
        /// Labels and annotations of the Machines.
        pub metadata: TemplateMeta,
        /// The desired state of the Machines.
        pub spec: MachineSpec,
    }
}

resource_struct! {
    /// How objects are named.
    #[derive(Eq)]
    pub struct NamingSpec {
        /// A Go template that must contain a random part.
        #[schemars(length(min = 1, max = 1024))]
        pub template: String,
    }
}

choice! {
    /// Which Machines go first when there are too many.
    pub enum DeletionOrder {
        /// Any.
        Random = "Random",
        /// The youngest.
        Newest = "Newest",
        /// The oldest.
        Oldest = "Oldest",
    }
}

choice! {
    /// Which status of a condition is the good one.
    pub enum Polarity {
        /// True is.
        Positive = "Positive",
        /// False is.
        Negative = "Negative",
    }
}

resource_struct! {
    /// A further condition that readiness or availability depends on.
    #[derive(Eq)]
    #[schemars(extend("required" = ["conditionType"]))]
    pub struct ConditionGate {
        /// Type of the condition.
        #[schemars(length(min = 1, max = 316), regex(pattern = crate::crds::CONDITION_TYPE))]
        pub condition_type: String,
        /// Positive (the default) if True is good, Negative if False is.
        pub polarity: Option<Polarity>,
    }
}

/// A condition of a Machine that its readiness depends on.
pub type MachineReadinessGate = ConditionGate;
/// A condition of a Cluster that its availability depends on.
pub type ClusterAvailabilityGate = ConditionGate;

choice! {
    /// What a taint does to Pods.
    pub enum TaintEffect {
        /// New ones stay away.
        NoSchedule = "NoSchedule",
        /// New ones stay away if they can.
        PreferNoSchedule = "PreferNoSchedule",
        /// All have to go.
        NoExecute = "NoExecute",
    }
}

choice! {
    /// For how long a taint is kept on a Node.
    pub enum TaintPropagation {
        /// For ever: removed ones come back.
        Always = "Always",
        /// It is put there once.
        OnInitialization = "OnInitialization",
    }
}

resource_struct! {
    /// A taint of a Node that is managed here.
    #[derive(Eq)]
    #[schemars(extend("required" = ["key", "effect", "propagation"]))]
    pub struct MachineTaint {
        /// Key of the taint.
        #[schemars(length(min = 1, max = 317))]
        pub key: String,
        /// Value of the taint.
        #[schemars(length(max = 63))]
        pub value: String,
        /// What it does.
        pub effect: TaintEffect,
        /// How long it is kept.
        pub propagation: TaintPropagation,
    }
}

resource_struct! {
    /// How long the steps of deleting a Machine may take.
    #[derive(Eq, Copy)]
    pub struct DeletionTimeouts {
        /// How long draining the Node may take; 0 is forever.
        #[schemars(range(min = 0))]
        pub node_drain_timeout_seconds: Option<i32>,
        /// How long detaching the volumes of the Node may take; 0 is forever.
        #[schemars(range(min = 0))]
        pub node_volume_detach_timeout_seconds: Option<i32>,
        /// How long deleting the Node is tried; 0 is forever, absent is 10 seconds.
        #[schemars(range(min = 0))]
        pub node_deletion_timeout_seconds: Option<i32>,
    }
}

/// How a Machine is deleted.
pub type MachineDeletionSpec = DeletionTimeouts;

resource_struct! {
    /// Which Machines go first, and how.
    #[derive(Eq)]
    pub struct OrderedDeletionSpec {
        /// Which go first: Random (the default), Newest or Oldest.
        pub order: Option<DeletionOrder>,
        /// How long draining the Node may take; 0 is forever.
        #[schemars(range(min = 0))]
        pub node_drain_timeout_seconds: Option<i32>,
        /// How long detaching the volumes of the Node may take; 0 is forever.
        #[schemars(range(min = 0))]
        pub node_volume_detach_timeout_seconds: Option<i32>,
        /// How long deleting the Node is tried; 0 is forever, absent is 10 seconds.
        #[schemars(range(min = 0))]
        pub node_deletion_timeout_seconds: Option<i32>,
    }
}

resource_struct! {
    /// Which Machines of a group go first when it shrinks.
    #[derive(Eq)]
    pub struct DeletionOrderSpec {
        /// Random (the default), Newest or Oldest.
        pub order: Option<DeletionOrder>,
    }
}

choice! {
    /// How changes reach the Machines.
    pub enum RolloutStrategyType {
        /// Machines are replaced within limits, and updated in place where extensions can do that.
        RollingUpdate = "RollingUpdate",
        /// Machines are replaced when they are deleted.
        OnDelete = "OnDelete",
        /// Machines are updated in place by extensions, and replaced only if `fallbackRolling` says so.
        External = "External",
    }
}

resource_struct! {
    /// Limits of a rolling update of workers.
    #[derive(Eq)]
    pub struct RollingUpdate {
        /// How many Machines may be missing; a percentage is rounded down. Absent is 0.
        pub max_unavailable: Option<IntOrString>,
        /// How many Machines may be too many; a percentage is rounded up. Absent is 1.
        pub max_surge: Option<IntOrString>,
    }
}

resource_struct! {
    /// How Machines of workers are replaced or updated.
    #[derive(Eq)]
    #[schemars(extend("required" = ["type"]))]
    pub struct RolloutStrategy {
        /// RollingUpdate, OnDelete or External.
        #[serde(rename = "type")]
        pub type_: RolloutStrategyType,
        /// Limits of a rolling update; also how many Machines may be updated in place at the same time.
        pub rolling_update: Option<RollingUpdate>,
        /// With External: how Machines are replaced that cannot be updated in place. Without it the rollout stops there,
        /// and no Machine is ever replaced.
        pub fallback_rolling: Option<RollingUpdate>,
    }
}

resource_struct! {
    /// A condition that makes a Machine unhealthy after a while.
    #[derive(Eq)]
    #[schemars(extend("required" = ["type", "status", "timeoutSeconds"]))]
    pub struct UnhealthyCondition {
        /// Type of the condition.
        #[serde(rename = "type")]
        #[schemars(length(min = 1))]
        pub type_: String,
        /// Status that makes it unhealthy: True, False or Unknown.
        #[schemars(length(min = 1))]
        pub status: String,
        /// How long the condition must have had the status.
        #[schemars(range(min = 0))]
        pub timeout_seconds: Option<i32>,
    }
}

/// A condition of a Node that makes its Machine unhealthy.
pub type UnhealthyNodeCondition = UnhealthyCondition;
/// A condition of a Machine that makes it unhealthy.
pub type UnhealthyMachineCondition = UnhealthyCondition;

/// What the schema says of conditions of Machines and not of those of Nodes.
mod described {
    #![expect(dead_code, reason = "only its schema is used")]

    use schemars::JsonSchema;

    /// A condition that makes a Machine unhealthy after a while.
    #[derive(JsonSchema)]
    #[schemars(rename_all = "camelCase", extend("required" = ["type", "status", "timeoutSeconds"]))]
    pub(super) struct UnhealthyMachineCondition {
        /// Type of the condition.
        #[schemars(rename = "type", length(min = 1, max = 316), regex(pattern = crate::crds::CONDITION_TYPE))]
        type_: String,
        /// Status that makes it unhealthy: True, False or Unknown.
        #[schemars(extend("enum" = ["True", "False", "Unknown"]))]
        status: String,
        /// How long the condition must have had the status.
        #[schemars(range(min = 0))]
        timeout_seconds: Option<i32>,
    }
}

resource_struct! {
    /// What makes a Machine unhealthy.
    #[derive(Eq)]
    pub struct HealthChecks {
        /// How long a Machine may take to become a Node; 0 is forever, absent is 10 minutes.
        #[schemars(range(min = 0))]
        pub node_startup_timeout_seconds: Option<i32>,
        /// Conditions of the Node.
        #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub unhealthy_node_conditions: Vec<UnhealthyNodeCondition>,
        /// Conditions of the Machine.
        #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        #[schemars(with = "Vec<described::UnhealthyMachineCondition>")]
        pub unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
    }
}

resource_struct! {
    /// How many Machines may be unhealthy for remediation to happen.
    #[derive(Eq)]
    pub struct RemediationTriggerIf {
        /// At most this many; a percentage is of all Machines that the health check looks at. Absent is 100%.
        pub unhealthy_less_than_or_equal_to: Option<IntOrString>,
        /// A range such as `[3-5]`; goes before the other field.
        #[schemars(length(min = 1, max = 32), regex(pattern = r"^\[[0-9]+-[0-9]+\]$"))]
        pub unhealthy_in_range: Option<String>,
    }
}

resource_struct! {
    /// What happens with an unhealthy Machine.
    #[derive(Eq)]
    pub struct HealthCheckRemediation {
        /// When anything happens at all.
        pub trigger_if: RemediationTriggerIf,
        /// From what the object is made that remediates. If absent, the owner of the Machine does.
        pub template_ref: Option<TemplateReference>,
    }
}

resource_struct! {
    /// What happens with an unhealthy Machine of a MachineDeployment.
    #[derive(Eq)]
    pub struct MachineDeploymentHealthCheckRemediation {
        /// How many Machines are remediated at the same time.
        pub max_in_flight: Option<IntOrString>,
        /// When anything happens at all.
        pub trigger_if: RemediationTriggerIf,
        /// From what the object is made that remediates. If absent, the owner of the Machine does.
        pub template_ref: Option<TemplateReference>,
    }
}

resource_struct! {
    /// A version, and how many Machines have it.
    #[derive(Eq)]
    #[schemars(extend("required" = ["version"]))]
    pub struct StatusVersion {
        /// A Kubernetes version.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// How many Machines have it.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
    }
}

resource_struct! {
    /// A version on the way to the target.
    #[derive(Eq)]
    #[schemars(extend("required" = ["version"]))]
    pub struct UpgradePlanVersion {
        /// A Kubernetes version.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
    }
}
