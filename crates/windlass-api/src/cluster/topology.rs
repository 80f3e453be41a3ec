//! What a ClusterClass makes a Cluster from: `Cluster.spec.topology`.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;

use super::{
    DeletionTimeouts, HealthCheckRemediation, HealthChecks, MachineDeploymentHealthCheckRemediation,
    MachineReadinessGate, MachineTaint, OrderedDeletionSpec, RolloutStrategy, TemplateMeta,
};
use crate::kind::resource_struct;

resource_struct! {
    /// What a ClusterClass makes a Cluster from.
    #[schemars(extend("required" = ["classRef", "version"]))]
    pub struct Topology {
        /// The ClusterClass.
        pub class_ref: ClusterClassRef,
        /// The Kubernetes version. A change of it starts an upgrade.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// The control plane.
        pub control_plane: ControlPlaneTopology,
        /// The workers.
        pub workers: WorkersTopology,
        /// Values of the variables of the ClusterClass.
        #[schemars(
            length(min = 1, max = 1000),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )]
        pub variables: Vec<ClusterVariable>,
    }
}

resource_struct! {
    /// A ClusterClass.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    #[schemars(extend("required" = ["name"]))]
    pub struct ClusterClassRef {
        /// Name of the ClusterClass.
        #[schemars(length(min = 1, max = 253), regex(pattern = crate::crds::DNS_SUBDOMAIN))]
        pub name: String,
        /// Namespace of the ClusterClass, if not that of the Cluster.
        #[schemars(length(min = 1, max = 63), regex(pattern = crate::crds::DNS_LABEL))]
        pub namespace: String,
    }
}

resource_struct! {
    /// A variable with its value.
    #[schemars(extend("required" = ["name", "value"]))]
    pub struct ClusterVariable {
        /// Name of the variable.
        #[schemars(length(min = 1, max = 256))]
        pub name: String,
        /// Any JSON that fits the schema of the variable.
        pub value: Value,
    }
}

resource_struct! {
    /// Values that go before those of the Cluster.
    pub struct VariableOverrides {
        /// The values.
        #[schemars(
            length(min = 1, max = 1000),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )]
        pub overrides: Vec<ClusterVariable>,
    }
}

resource_struct! {
    /// The control plane of a topology.
    pub struct ControlPlaneTopology {
        /// Labels and annotations of the control plane and its Machines.
        pub metadata: TemplateMeta,
        /// How many Machines there shall be. If absent, the control plane decides.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// How changes are rolled out.
        pub rollout: ControlPlaneTopologyRolloutSpec,
        /// When a Machine is replaced.
        pub health_check: Option<ControlPlaneTopologyHealthCheck>,
        /// How Machines are deleted.
        pub deletion: DeletionTimeouts,
        /// Taints of the Nodes.
        #[schemars(
            length(min = 1, max = 64),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
        )]
        pub taints: Vec<MachineTaint>,
        /// Further conditions that readiness depends on.
        #[schemars(
            length(min = 1, max = 32),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
        )]
        pub readiness_gates: Vec<MachineReadinessGate>,
        /// Variables for the control plane only.
        pub variables: VariableOverrides,
    }
}

resource_struct! {
    /// How changes of the control plane are rolled out.
    #[derive(Eq)]
    pub struct ControlPlaneTopologyRolloutSpec {
        /// Machines created before this time are replaced.
        pub after: Option<Time>,
    }
}

resource_struct! {
    /// When a Machine of the control plane is replaced.
    #[derive(Eq)]
    pub struct ControlPlaneTopologyHealthCheck {
        /// Whether there is a health check; if absent, the ClusterClass decides.
        pub enabled: Option<bool>,
        /// What makes a Machine unhealthy.
        pub checks: HealthChecks,
        /// What happens then.
        pub remediation: HealthCheckRemediation,
    }
}

resource_struct! {
    /// The workers of a topology. Upgrades take them in the order of the lists.
    pub struct WorkersTopology {
        /// Workers that are Machines.
        #[schemars(
            length(min = 1, max = 2000),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )]
        pub machine_deployments: Vec<MachineDeploymentTopology>,
        /// Workers that are pools.
        #[schemars(
            length(min = 1, max = 2000),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )]
        pub machine_pools: Vec<MachinePoolTopology>,
    }
}

resource_struct! {
    /// A MachineDeployment of a topology.
    #[schemars(extend("required" = ["class", "name"]))]
    pub struct MachineDeploymentTopology {
        /// Labels and annotations of the MachineDeployment and its Machines.
        pub metadata: TemplateMeta,
        /// Which class of the ClusterClass it is made from.
        #[schemars(length(min = 1, max = 256))]
        pub class: String,
        /// Name within the topology.
        #[schemars(length(min = 1, max = 63), regex(pattern = crate::crds::DNS_SUBDOMAIN))]
        pub name: String,
        /// The version that the workers are kept at: they take no part in upgrades. At most three minors older than the
        /// version of the topology, and never newer than the control plane.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// The failure domain that Machines are created in.
        #[schemars(length(min = 1, max = 256))]
        pub failure_domain: String,
        /// How many Machines there shall be. If absent, an autoscaler decides.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// When a Machine is replaced.
        pub health_check: Option<MachineDeploymentTopologyHealthCheck>,
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
        pub rollout: MachineDeploymentTopologyRolloutSpec,
        /// Variables for this MachineDeployment only.
        pub variables: VariableOverrides,
    }
}

resource_struct! {
    /// How changes of a MachineDeployment of a topology are rolled out. If anything is said here, it replaces all that the
    /// class says.
    #[derive(Eq)]
    pub struct MachineDeploymentTopologyRolloutSpec {
        /// Machines created before this time are replaced.
        pub after: Option<Time>,
        /// How Machines are replaced or updated.
        pub strategy: Option<RolloutStrategy>,
    }
}

resource_struct! {
    /// When a Machine of a MachineDeployment is replaced.
    #[derive(Eq)]
    pub struct MachineDeploymentTopologyHealthCheck {
        /// Whether there is a health check; if absent, the ClusterClass decides.
        pub enabled: Option<bool>,
        /// What makes a Machine unhealthy.
        pub checks: HealthChecks,
        /// What happens then.
        pub remediation: MachineDeploymentHealthCheckRemediation,
    }
}

resource_struct! {
    /// A MachinePool of a topology.
    #[schemars(extend("required" = ["class", "name"]))]
    pub struct MachinePoolTopology {
        /// Labels and annotations of the MachinePool.
        pub metadata: TemplateMeta,
        /// Which class of the ClusterClass it is made from.
        #[schemars(length(min = 1, max = 256))]
        pub class: String,
        /// Name within the topology.
        #[schemars(length(min = 1, max = 63), regex(pattern = crate::crds::DNS_SUBDOMAIN))]
        pub name: String,
        /// The version that the workers are kept at: they take no part in upgrades. At most three minors older than the
        /// version of the topology, and never newer than the control plane.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// Failure domains that Machines are created in.
        #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 256)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub failure_domains: Vec<String>,
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
        /// How many Machines there shall be. If absent, an autoscaler decides.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// Variables for this MachinePool only.
        pub variables: VariableOverrides,
    }
}
