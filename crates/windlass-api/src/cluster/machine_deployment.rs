//! MachineDeployment: MachineSets, one of which is current.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{CLUSTER, DeletionOrderSpec, MachineTemplateSpec, NamingSpec, RolloutStrategy, StatusVersion};
use crate::kind::{AnyObject, choice, kind, resource_struct};

kind! {
    /// Workers that are Machines, and how changes of them are rolled out.
    pub struct MachineDeployment in CLUSTER, "machinedeployments" {
        spec: MachineDeploymentSpec,
        status: MachineDeploymentStatus,
    }
}

resource_struct! {
    /// The desired state of a MachineDeployment.
    #[schemars(extend("required" = ["clusterName", "selector", "template"]))]
    pub struct MachineDeploymentSpec {
        /// The Cluster that the MachineDeployment belongs to.
        #[schemars(length(min = 1, max = 63))]
        pub cluster_name: String,
        /// How many Machines there shall be. Admission fills it in; where it is absent, it counts as one.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// How changes are rolled out.
        pub rollout: MachineDeploymentRolloutSpec,
        /// Which Machines belong to the MachineDeployment.
        #[schemars(schema_with = "crate::crds::label_selector")]
        pub selector: LabelSelector,
        /// What its Machines are made from.
        pub template: MachineTemplateSpec,
        /// How its Machines are named.
        pub machine_naming: NamingSpec,
        /// How unhealthy Machines are remediated.
        pub remediation: MachineDeploymentRemediationSpec,
        /// Which Machines go first.
        pub deletion: DeletionOrderSpec,
        /// Whether rollouts are paused.
        pub paused: Option<bool>,
    }
}

resource_struct! {
    /// How changes of a MachineDeployment are rolled out.
    #[derive(Eq)]
    pub struct MachineDeploymentRolloutSpec {
        /// Machines created before this time are replaced.
        pub after: Option<Time>,
        /// How Machines are replaced or updated.
        pub strategy: RolloutStrategy,
    }
}

resource_struct! {
    /// How unhealthy Machines of a MachineDeployment are remediated.
    #[derive(Eq)]
    pub struct MachineDeploymentRemediationSpec {
        /// How many at the same time; a percentage is rounded up.
        pub max_in_flight: Option<IntOrString>,
    }
}

resource_struct! {
    /// The observed state of a MachineDeployment.
    pub struct MachineDeploymentStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
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
        /// Which versions there are, from old to new.
        #[schemars(
            length(max = 100),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
        )]
        pub versions: Vec<StatusVersion>,
        /// A summary for people.
        pub phase: Option<MachineDeploymentPhase>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated_of_machine_deployment")]
        pub deprecated: Option<AnyObject>,
    }
}

choice! {
    /// What a MachineDeployment does, in a word for people.
    pub enum MachineDeploymentPhase {
        /// It creates Machines.
        ScalingUp = "ScalingUp",
        /// It deletes Machines.
        ScalingDown = "ScalingDown",
        /// It has the Machines it wants.
        Running = "Running",
        /// It does not get there by itself.
        Failed = "Failed",
        /// Something could not be found out.
        UnknownPhase = "Unknown",
    }
}
