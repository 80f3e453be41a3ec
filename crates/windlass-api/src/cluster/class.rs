//! ClusterClass: what Clusters are made from.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    CLUSTER, ClusterAvailabilityGate, ClusterClassPatch, ClusterClassTemplateReference, ClusterClassVariable,
    DeletionTimeouts, HealthCheckRemediation, HealthChecks, MachineDeploymentHealthCheckRemediation,
    MachineReadinessGate, MachineTaint, NamingSpec, OrderedDeletionSpec, RolloutStrategy, TemplateMeta,
    VariableSchema,
};
use crate::kind::{AnyObject, kind, resource_struct};

kind! {
    /// What Clusters are made from.
    pub struct ClusterClass in CLUSTER, "clusterclasses" { spec: ClusterClassSpec, status: ClusterClassStatus }
}

resource_struct! {
    /// What Clusters are made from.
    #[schemars(extend("required" = ["infrastructure", "controlPlane"]))]
    pub struct ClusterClassSpec {
        /// Further conditions that availability of a Cluster depends on.
        #[schemars(
            length(min = 1, max = 32),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
        )]
        pub availability_gates: Vec<ClusterAvailabilityGate>,
        /// The infrastructure.
        pub infrastructure: InfrastructureClass,
        /// The control plane.
        pub control_plane: ControlPlaneClass,
        /// The workers.
        pub workers: WorkersClass,
        /// Variables that Clusters give values to.
        #[schemars(
            length(min = 1, max = 1000),
            extend("x-kubernetes-list-type" = "atomic")
        )]
        pub variables: Vec<ClusterClassVariable>,
        /// Changes to the templates, in this order.
        #[schemars(
            length(min = 1, max = 1000),
            extend("x-kubernetes-list-type" = "atomic")
        )]
        pub patches: Vec<ClusterClassPatch>,
        /// How upgrades are planned.
        pub upgrade: ClusterClassUpgrade,
        /// Versions that Clusters may have, from old to new. Upgrades go through them.
        #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub kubernetes_versions: Vec<String>,
    }
}

resource_struct! {
    /// How upgrades are planned.
    #[derive(Eq)]
    pub struct ClusterClassUpgrade {
        /// An extension plans them.
        pub external: Option<ClusterClassUpgradeExternal>,
    }
}

resource_struct! {
    /// Who plans upgrades.
    #[derive(Eq)]
    pub struct ClusterClassUpgradeExternal {
        /// `<handler>.<ExtensionConfig>` of the GenerateUpgradePlan hook to ask.
        #[schemars(length(min = 1, max = 512))]
        pub generate_upgrade_plan_extension: String,
    }
}

resource_struct! {
    /// A template.
    #[derive(Eq)]
    #[schemars(extend("required" = ["templateRef"]))]
    pub struct ClassTemplate {
        /// The template.
        pub template_ref: ClusterClassTemplateReference,
    }
}

resource_struct! {
    /// What the infrastructure is made from.
    #[derive(Eq)]
    #[schemars(extend("required" = ["templateRef"]))]
    pub struct InfrastructureClass {
        /// The template.
        pub template_ref: ClusterClassTemplateReference,
        /// How the object is named.
        pub naming: NamingSpec,
    }
}

resource_struct! {
    /// What the control plane is made from.
    #[derive(Eq)]
    #[schemars(extend("required" = ["templateRef"]))]
    pub struct ControlPlaneClass {
        /// Labels and annotations of the control plane and its Machines.
        pub metadata: TemplateMeta,
        /// The template.
        pub template_ref: ClusterClassTemplateReference,
        /// What the infrastructure of its Machines is made from, if it has Machines.
        pub machine_infrastructure: Option<ClassTemplate>,
        /// When a Machine is replaced.
        pub health_check: Option<ControlPlaneClassHealthCheck>,
        /// How the object is named.
        pub naming: NamingSpec,
        /// How Machines are deleted.
        pub deletion: DeletionTimeouts,
        /// Taints of the Nodes.
        #[schemars(
            length(min = 1, max = 64),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
        )]
        pub taints: Vec<MachineTaint>,
        /// Further conditions that readiness of a Machine depends on.
        #[schemars(
            length(min = 1, max = 32),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
        )]
        pub readiness_gates: Vec<MachineReadinessGate>,
    }
}

resource_struct! {
    /// When a Machine of the control plane is replaced.
    #[derive(Eq)]
    pub struct ControlPlaneClassHealthCheck {
        /// What makes a Machine unhealthy.
        pub checks: HealthChecks,
        /// What happens then.
        pub remediation: HealthCheckRemediation,
    }
}

resource_struct! {
    /// What workers are made from.
    #[derive(Eq)]
    pub struct WorkersClass {
        /// Workers that are Machines.
        #[schemars(
            length(min = 1, max = 100),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"])
        )]
        pub machine_deployments: Vec<MachineDeploymentClass>,
        /// Workers that are pools.
        #[schemars(
            length(min = 1, max = 100),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["class"])
        )]
        pub machine_pools: Vec<MachinePoolClass>,
    }
}

resource_struct! {
    /// What MachineDeployments are made from.
    #[derive(Eq)]
    #[schemars(extend("required" = ["class", "bootstrap", "infrastructure"]))]
    pub struct MachineDeploymentClass {
        /// Labels and annotations of the MachineDeployment and its Machines.
        pub metadata: TemplateMeta,
        /// Name of the class.
        #[schemars(length(min = 1, max = 256))]
        pub class: String,
        /// What bootstrap configs are made from.
        pub bootstrap: ClassTemplate,
        /// What infrastructure Machines are made from.
        pub infrastructure: ClassTemplate,
        /// When a Machine is replaced.
        pub health_check: Option<MachineDeploymentClassHealthCheck>,
        /// The failure domain that Machines are created in.
        #[schemars(length(min = 1, max = 256))]
        pub failure_domain: String,
        /// How MachineDeployments are named.
        pub naming: NamingSpec,
        /// How Machines are deleted, and which first.
        pub deletion: OrderedDeletionSpec,
        /// Taints of the Nodes.
        #[schemars(
            length(min = 1, max = 64),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
        )]
        pub taints: Vec<MachineTaint>,
        /// How long a Machine must be ready to count as available.
        #[schemars(range(min = 0))]
        pub min_ready_seconds: Option<i32>,
        /// Further conditions that readiness depends on.
        #[schemars(
            length(min = 1, max = 32),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
        )]
        pub readiness_gates: Vec<MachineReadinessGate>,
        /// How changes are rolled out.
        pub rollout: MachineDeploymentClassRolloutSpec,
    }
}

resource_struct! {
    /// How changes of a MachineDeployment are rolled out.
    #[derive(Eq)]
    pub struct MachineDeploymentClassRolloutSpec {
        /// How Machines are replaced or updated.
        pub strategy: Option<RolloutStrategy>,
    }
}

resource_struct! {
    /// When a Machine of a MachineDeployment is replaced.
    #[derive(Eq)]
    pub struct MachineDeploymentClassHealthCheck {
        /// What makes a Machine unhealthy.
        pub checks: HealthChecks,
        /// What happens then.
        pub remediation: MachineDeploymentHealthCheckRemediation,
    }
}

resource_struct! {
    /// What MachinePools are made from.
    #[derive(Eq)]
    #[schemars(extend("required" = ["class", "bootstrap", "infrastructure"]))]
    pub struct MachinePoolClass {
        /// Labels and annotations of the MachinePool.
        pub metadata: TemplateMeta,
        /// Name of the class.
        #[schemars(length(min = 1, max = 256))]
        pub class: String,
        /// What the bootstrap config is made from.
        pub bootstrap: ClassTemplate,
        /// What the infrastructure machine pool is made from.
        pub infrastructure: ClassTemplate,
        /// Failure domains that Machines are created in.
        #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub failure_domains: Vec<String>,
        /// How MachinePools are named.
        pub naming: NamingSpec,
        /// How Machines are deleted.
        pub deletion: DeletionTimeouts,
        /// Taints of the Nodes.
        #[schemars(
            length(min = 1, max = 64),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
        )]
        pub taints: Vec<MachineTaint>,
        /// How long a Machine must be ready to count as available.
        #[schemars(range(min = 0))]
        pub min_ready_seconds: Option<i32>,
    }
}

resource_struct! {
    /// The observed state of a ClusterClass.
    pub struct ClusterClassStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// Variables with all their definitions, also those of extensions.
        #[schemars(
            length(max = 1000),
            extend("x-kubernetes-list-type" = "atomic")
        )]
        pub variables: Vec<ClusterClassStatusVariable>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated")]
        pub deprecated: Option<AnyObject>,
    }
}

resource_struct! {
    /// A variable with all its definitions.
    #[schemars(extend("required" = ["name", "definitions"]))]
    pub struct ClusterClassStatusVariable {
        /// Name of the variable.
        #[schemars(length(min = 1, max = 256))]
        pub name: String,
        /// Whether two definitions of it differ.
        pub definitions_conflict: Option<bool>,
        /// What the class itself and each extension say about the variable.
        #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub definitions: Vec<ClusterClassStatusVariableDefinition>,
    }
}

resource_struct! {
    /// A definition of a variable.
    #[schemars(extend("required" = ["from", "required", "schema"]))]
    pub struct ClusterClassStatusVariableDefinition {
        /// `inline`, or the name of the external patch that defines it.
        #[schemars(length(min = 1, max = 256))]
        pub from: String,
        /// Whether a value must be given.
        pub required: Option<bool>,
        /// Labels and annotations in their form before v1beta2. Kept as they came.
        #[serde(rename = "deprecatedV1Beta1Metadata")]
        #[schemars(schema_with = "crate::described::labels_and_annotations")]
        pub deprecated_v1beta1_metadata: Option<AnyObject>,
        /// What its value must look like.
        pub schema: VariableSchema,
    }
}
