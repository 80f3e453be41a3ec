//! MachineSet: Machines made from one template.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};

use super::{CLUSTER, DeletionOrderSpec, MachineTemplateSpec, NamingSpec, StatusVersion};
use crate::kind::{AnyObject, kind, resource_struct};

kind! {
    /// Machines made from one template.
    pub struct MachineSet in CLUSTER, "machinesets" { spec: MachineSetSpec, status: MachineSetStatus }
}

resource_struct! {
    /// The desired state of a MachineSet.
    #[schemars(extend("required" = ["clusterName", "selector", "template"]))]
    pub struct MachineSetSpec {
        /// The Cluster that the MachineSet belongs to.
        #[schemars(length(min = 1, max = 63))]
        pub cluster_name: String,
        /// How many Machines there shall be. Admission fills it in; where it is absent, it counts as one.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// Which Machines belong to the MachineSet.
        #[schemars(schema_with = "crate::crds::label_selector")]
        pub selector: LabelSelector,
        /// What its Machines are made from.
        pub template: MachineTemplateSpec,
        /// How its Machines are named.
        pub machine_naming: NamingSpec,
        /// Which Machines go first.
        pub deletion: DeletionOrderSpec,
    }
}

resource_struct! {
    /// The observed state of a MachineSet.
    pub struct MachineSetStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// The selector as a string, for autoscalers.
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
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated_of_machine_set")]
        pub deprecated: Option<AnyObject>,
    }
}
