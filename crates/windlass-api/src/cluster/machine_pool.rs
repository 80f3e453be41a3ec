//! MachinePool: workers whose infrastructure looks after its instances.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{CLUSTER, MachineInitializationStatus, MachineTemplateSpec, StatusVersion};
use crate::kind::{AnyObject, choice, kind, resource_struct};

kind! {
    /// Workers whose infrastructure looks after its instances.
    pub struct MachinePool in CLUSTER, "machinepools" { spec: MachinePoolSpec, status: MachinePoolStatus }
}

resource_struct! {
    /// The desired state of a MachinePool.
    #[schemars(extend("required" = ["clusterName", "template"]))]
    pub struct MachinePoolSpec {
        /// The Cluster that the MachinePool belongs to.
        #[schemars(length(min = 1, max = 63))]
        pub cluster_name: String,
        /// How many instances there shall be. Admission fills it in; where it is absent, it counts as one.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// What its instances are made from.
        pub template: MachineTemplateSpec,
        /// The identities that the infrastructure and the Nodes both report.
        #[serde(rename = "providerIDList")]
        #[schemars(length(max = 10000), inner(length(min = 1, max = 512)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub provider_id_list: Vec<String>,
        /// Failure domains that instances are created in.
        #[schemars(length(max = 100), inner(length(min = 1, max = 256)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub failure_domains: Vec<String>,
    }
}

resource_struct! {
    /// The observed state of a MachinePool.
    pub struct MachinePoolStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far provisioning has come.
        pub initialization: MachineInitializationStatus,
        /// The Nodes of its instances.
        #[schemars(schema_with = "crate::crds::object_references")]
        pub node_refs: Vec<ObjectReference>,
        /// How many instances there are.
        pub replicas: Option<i32>,
        /// How many instances are ready.
        pub ready_replicas: Option<i32>,
        /// How many instances are available.
        pub available_replicas: Option<i32>,
        /// How many instances are up to date.
        pub up_to_date_replicas: Option<i32>,
        /// Which versions there are, from old to new.
        #[schemars(
            length(max = 100),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["version"])
        )]
        pub versions: Vec<StatusVersion>,
        /// A summary for people.
        pub phase: Option<MachinePoolPhase>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated_of_machine_pool")]
        pub deprecated: Option<AnyObject>,
    }
}

choice! {
    /// How far a MachinePool is, in a word for people.
    pub enum MachinePoolPhase {
        /// It waits for its bootstrap data.
        Pending = "Pending",
        /// Its infrastructure is being made.
        Provisioning = "Provisioning",
        /// Its infrastructure is there, not all of its Nodes are.
        Provisioned = "Provisioned",
        /// It has the Nodes it wants.
        Running = "Running",
        /// It gets more instances.
        ScalingUp = "ScalingUp",
        /// It gets fewer instances.
        ScalingDown = "ScalingDown",
        /// An instance count was set elsewhere.
        Scaling = "Scaling",
        /// It goes.
        Deleting = "Deleting",
        /// It does not get there by itself.
        Failed = "Failed",
        /// Something could not be found out.
        UnknownPhase = "Unknown",
    }
}
