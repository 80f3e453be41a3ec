//! Cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{
    CLUSTER, ClusterAvailabilityGate, ContractVersionedObjectReference, StatusVersion, Topology,
    UpgradePlanVersion,
};
use crate::kind::{AnyObject, choice, kind, resource_struct};

kind! {
    /// A Kubernetes cluster.
    pub struct Cluster in CLUSTER, "clusters" { spec: ClusterSpec, status: ClusterStatus }
}

resource_struct! {
    /// The desired state of a Cluster.
    pub struct ClusterSpec {
        /// Whether nothing that belongs to the Cluster is reconciled.
        pub paused: Option<bool>,
        /// The network.
        pub cluster_network: ClusterNetwork,
        /// Where the control plane is reached. Filled in from the infrastructure, if the user does not.
        pub control_plane_endpoint: ApiEndpoint,
        /// The control plane.
        pub control_plane_ref: Option<ContractVersionedObjectReference>,
        /// The infrastructure.
        pub infrastructure_ref: Option<ContractVersionedObjectReference>,
        /// What a ClusterClass makes the Cluster from. Absent: its parts are made by their own manifests.
        pub topology: Option<Topology>,
        /// Further conditions that availability depends on.
        #[schemars(
            length(min = 1, max = 32),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"])
        )]
        pub availability_gates: Vec<ClusterAvailabilityGate>,
    }
}

resource_struct! {
    /// The network of a Cluster.
    #[derive(Eq)]
    pub struct ClusterNetwork {
        /// Port of the API server.
        #[schemars(range(min = 1, max = 65535))]
        pub api_server_port: Option<i32>,
        /// Addresses of Services.
        pub services: Option<NetworkRanges>,
        /// Addresses of Pods.
        pub pods: Option<NetworkRanges>,
        /// Domain of Services.
        #[schemars(length(min = 1, max = 253))]
        pub service_domain: String,
    }
}

resource_struct! {
    /// Ranges of addresses.
    #[derive(Eq)]
    #[schemars(extend("required" = ["cidrBlocks"]))]
    pub struct NetworkRanges {
        /// CIDR blocks.
        #[schemars(length(min = 1, max = 100), inner(length(min = 1, max = 43)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub cidr_blocks: Vec<String>,
    }
}

resource_struct! {
    /// Where a control plane is reached.
    #[derive(Eq, PartialOrd, Ord, Hash)]
    pub struct ApiEndpoint {
        /// Name or address.
        #[schemars(length(min = 1, max = 512))]
        pub host: String,
        /// Port.
        #[schemars(range(min = 1, max = 65535))]
        pub port: Option<i32>,
    }
}

impl ApiEndpoint {
    /// Whether both parts are known.
    pub fn is_set(&self) -> bool {
        self.address().is_some()
    }

    /// `host:port`, with an IPv6 address in brackets; nothing unless both parts are known.
    pub fn address(&self) -> Option<String> {
        let (host, port) = (self.host.as_str(), self.port.filter(|port| *port != 0)?);
        match host {
            "" => None,
            host if host.contains(':') && !host.starts_with('[') => Some(format!("[{host}]:{port}")),
            host => Some(format!("{host}:{port}")),
        }
    }
}

resource_struct! {
    /// The observed state of a Cluster.
    pub struct ClusterStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far provisioning has come.
        pub initialization: ClusterInitializationStatus,
        /// The control plane.
        pub control_plane: Option<MachinesStatus>,
        /// The workers.
        pub workers: Option<MachinesStatus>,
        /// Failure domains of the infrastructure.
        #[schemars(
            length(min = 1, max = 100),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )]
        pub failure_domains: Vec<FailureDomain>,
        /// A summary for people.
        pub phase: Option<ClusterPhase>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated_with_failure")]
        pub deprecated: Option<AnyObject>,
    }
}

choice! {
    /// How far a Cluster is, in a word for people.
    pub enum ClusterPhase {
        /// Nothing is known yet.
        Pending = "Pending",
        /// The infrastructure is being made.
        Provisioning = "Provisioning",
        /// The infrastructure is there and the control plane can be reached.
        Provisioned = "Provisioned",
        /// It goes.
        Deleting = "Deleting",
        /// It does not get there by itself.
        Failed = "Failed",
        /// Something could not be found out.
        UnknownPhase = "Unknown",
    }
}

resource_struct! {
    /// How far provisioning of a Cluster has come. Never goes back.
    #[derive(Eq, Copy)]
    pub struct ClusterInitializationStatus {
        /// Whether the infrastructure is there.
        pub infrastructure_provisioned: Option<bool>,
        /// Whether the API server accepts requests.
        pub control_plane_initialized: Option<bool>,
    }
}

resource_struct! {
    /// The Machines of the control plane, or of the workers.
    #[derive(Eq)]
    pub struct MachinesStatus {
        /// How many Machines there shall be.
        pub desired_replicas: Option<i32>,
        /// How many Machines there are.
        pub replicas: Option<i32>,
        /// How many Machines are up to date.
        pub up_to_date_replicas: Option<i32>,
        /// How many Machines are ready.
        pub ready_replicas: Option<i32>,
        /// How many Machines are available.
        pub available_replicas: Option<i32>,
        /// Which versions there are, from old to new.
        #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
        pub versions: Vec<StatusVersion>,
        /// The versions that remain on the way to the target, the target included.
        #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
        pub upgrade_plan: Vec<UpgradePlanVersion>,
    }
}

resource_struct! {
    /// A part of the infrastructure that fails as a whole.
    #[derive(Eq)]
    #[schemars(extend("required" = ["name"]))]
    pub struct FailureDomain {
        /// Name of the failure domain.
        #[schemars(length(min = 1, max = 256))]
        pub name: String,
        /// Whether it is suitable for the control plane.
        pub control_plane: Option<bool>,
        /// What else the infrastructure says about it.
        pub attributes: BTreeMap<String, String>,
    }
}
