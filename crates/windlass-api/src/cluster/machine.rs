//! Machine.

use k8s_openapi::api::core::v1::NodeSystemInfo;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};

use super::{
    CLUSTER, ContractVersionedObjectReference, MachineDeletionSpec, MachineReadinessGate, MachineTaint,
};
use crate::kind::{AnyObject, choice, kind, resource_struct};

kind! {
    /// A machine that hosts a Node.
    pub struct Machine in CLUSTER, "machines" { spec: MachineSpec, status: MachineStatus }
}

resource_struct! {
    /// The desired state of a Machine.
    #[derive(Eq)]
    #[schemars(extend("required" = ["clusterName", "bootstrap", "infrastructureRef"]))]
    pub struct MachineSpec {
        /// The Cluster that the Machine belongs to.
        #[schemars(length(min = 1, max = 63))]
        pub cluster_name: String,
        /// How the Machine becomes a Node.
        pub bootstrap: Bootstrap,
        /// The infrastructure.
        pub infrastructure_ref: ContractVersionedObjectReference,
        /// The Kubernetes version.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// The identity that the infrastructure and the Node both report.
        #[serde(rename = "providerID")]
        #[schemars(length(min = 1, max = 512))]
        pub provider_id: String,
        /// The failure domain that the Machine is created in.
        #[schemars(length(min = 1, max = 256))]
        pub failure_domain: String,
        /// How long the Machine must be ready to count as available.
        #[schemars(range(min = 0))]
        pub min_ready_seconds: Option<i32>,
        /// Further conditions that readiness depends on.
        #[schemars(
            length(min = 1, max = 32),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
        )]
        pub readiness_gates: Vec<MachineReadinessGate>,
        /// How the Machine is deleted.
        pub deletion: MachineDeletionSpec,
        /// Taints of the Node that are managed here. The Node may have others.
        #[schemars(
            length(min = 1, max = 64),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"])
        )]
        pub taints: Vec<MachineTaint>,
    }
}

resource_struct! {
    /// How a Machine becomes a Node.
    #[derive(Eq)]
    pub struct Bootstrap {
        /// The bootstrap config, if there is one.
        pub config_ref: Option<ContractVersionedObjectReference>,
        /// The Secret with the bootstrap data. Until it is set, the Machine waits.
        #[schemars(length(min = 0, max = 253))]
        pub data_secret_name: Option<String>,
    }
}

resource_struct! {
    /// The observed state of a Machine.
    pub struct MachineStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far provisioning has come.
        pub initialization: MachineInitializationStatus,
        /// The Node, once there is one.
        pub node_ref: Option<MachineNodeReference>,
        /// What the Node reports about itself.
        #[schemars(schema_with = "crate::described::node_info")]
        pub node_info: Option<NodeSystemInfo>,
        /// When the phase last changed.
        pub last_updated: Option<Time>,
        /// The failure domain that the Machine is in.
        #[schemars(length(min = 1, max = 256))]
        pub failure_domain: String,
        /// Addresses of the Machine.
        #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "atomic"))]
        pub addresses: Vec<MachineAddress>,
        /// A summary for people.
        pub phase: Option<MachinePhase>,
        /// When certificates of a control plane Machine expire.
        pub certificates_expiry_date: Option<Time>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// How far deletion has come.
        pub deletion: Option<MachineDeletionStatus>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated_with_failure")]
        pub deprecated: Option<AnyObject>,
    }
}

choice! {
    /// How far a Machine is, in a word for people.
    pub enum MachinePhase {
        /// It waits for its bootstrap data.
        Pending = "Pending",
        /// Its infrastructure is being made.
        Provisioning = "Provisioning",
        /// Its infrastructure is there, its Node is not.
        Provisioned = "Provisioned",
        /// It is a Node.
        Running = "Running",
        /// It is updated in place.
        Updating = "Updating",
        /// It goes.
        Deleting = "Deleting",
        /// It is gone.
        Deleted = "Deleted",
        /// It does not get there by itself.
        Failed = "Failed",
        /// Something could not be found out.
        UnknownPhase = "Unknown",
    }
}

resource_struct! {
    /// How far provisioning of a Machine has come. Never goes back.
    #[derive(Eq, Copy)]
    pub struct MachineInitializationStatus {
        /// Whether the infrastructure is there.
        pub infrastructure_provisioned: Option<bool>,
        /// Whether the bootstrap data are there.
        pub bootstrap_data_secret_created: Option<bool>,
    }
}

resource_struct! {
    /// The Node of a Machine.
    #[derive(Eq)]
    #[schemars(extend("required" = ["name"]))]
    pub struct MachineNodeReference {
        /// Name of the Node.
        #[schemars(length(min = 1, max = 253))]
        pub name: String,
    }
}

choice! {
    /// What an address is.
    pub enum MachineAddressType {
        /// A name.
        Hostname = "Hostname",
        /// An address that is reached from outside.
        ExternalIp = "ExternalIP",
        /// An address that is reached from inside.
        InternalIp = "InternalIP",
        /// A name that is resolved outside.
        ExternalDns = "ExternalDNS",
        /// A name that is resolved inside.
        InternalDns = "InternalDNS",
    }
}

resource_struct! {
    /// An address of a Machine.
    #[derive(Eq)]
    #[schemars(extend("required" = ["type", "address"]))]
    pub struct MachineAddress {
        /// What it is.
        #[serde(rename = "type")]
        pub type_: MachineAddressType,
        /// The address.
        #[schemars(length(min = 1, max = 256))]
        pub address: String,
    }
}

resource_struct! {
    /// How far deletion of a Machine has come.
    #[derive(Eq)]
    pub struct MachineDeletionStatus {
        /// When draining began.
        pub node_drain_start_time: Option<Time>,
        /// When waiting for volumes began.
        pub wait_for_node_volume_detach_start_time: Option<Time>,
        /// When waiting for hooks before the drain began.
        pub wait_for_pre_drain_hook_start_time: Option<Time>,
        /// When waiting for hooks before the end of the infrastructure began.
        pub wait_for_pre_terminate_hook_start_time: Option<Time>,
    }
}
