//! DevMachine and DevMachineTemplate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{DevInitializationStatus, INFRASTRUCTURE};
use crate::GoDuration;
use crate::cluster::{MachineAddress, TemplateMeta};
use crate::kind::{AnyObject, kind, resource_struct};

kind! {
    /// The infrastructure of a Machine, for development.
    pub struct DevMachine in INFRASTRUCTURE, "devmachines" { #[optional] spec: DevMachineSpec, status: DevMachineStatus }
}

kind! {
    /// What DevMachines are made from.
    pub struct DevMachineTemplate in INFRASTRUCTURE, "devmachinetemplates" {
        #[optional] spec: DevMachineTemplateSpec,
        status: DevMachineTemplateStatus,
    }
}

resource_struct! {
    /// What DevMachines are made from.
    #[schemars(extend("required" = ["template"]))]
    pub struct DevMachineTemplateSpec {
        /// The template.
        pub template: DevMachineTemplateResource,
    }
}

resource_struct! {
    /// A DevMachine to be.
    #[schemars(extend("required" = ["spec"]))]
    pub struct DevMachineTemplateResource {
        /// Labels and annotations.
        pub metadata: TemplateMeta,
        /// The desired state.
        pub spec: DevMachineSpec,
    }
}

resource_struct! {
    /// The observed state of a DevMachineTemplate.
    pub struct DevMachineTemplateStatus {
        /// What a Machine made from it offers, for autoscalers that start from nothing. Kept as it came.
        #[schemars(schema_with = "super::described::capacity")]
        pub capacity: Option<AnyObject>,
    }
}

resource_struct! {
    /// The desired state of a DevMachine.
    #[schemars(extend("required" = ["backend"]))]
    pub struct DevMachineSpec {
        /// The identity that the Node reports too. Filled in by the provider.
        #[serde(rename = "providerID")]
        #[schemars(length(min = 1, max = 512))]
        pub provider_id: String,
        /// What the Machine runs on.
        pub backend: DevMachineBackendSpec,
    }
}

resource_struct! {
    /// What a Machine runs on. Here everything runs in memory: containers are taken for it.
    pub struct DevMachineBackendSpec {
        /// Containers. Kept as it came: this provider has none.
        #[schemars(schema_with = "super::described::docker_machine")]
        pub docker: Option<AnyObject>,
        /// The memory of this process.
        pub in_memory: Option<InMemoryMachineBackendSpec>,
    }
}

impl DevMachineBackendSpec {
    /// How the Machine starts in memory. Containers start at once.
    pub fn in_memory(&self) -> InMemoryMachineBackendSpec {
        self.in_memory.clone().unwrap_or_default()
    }
}

resource_struct! {
    /// A Machine in memory: how long its parts take to start.
    pub struct InMemoryMachineBackendSpec {
        /// The virtual machine.
        #[serde(rename = "vm")]
        pub vm: Option<InMemoryPart>,
        /// The Node.
        pub node: Option<InMemoryPart>,
        /// The API server, on control planes.
        pub api_server: Option<InMemoryPart>,
        /// The member of etcd, on control planes.
        pub etcd: Option<InMemoryPart>,
    }
}

resource_struct! {
    /// A part of a Machine in memory.
    pub struct InMemoryPart {
        /// How it is started.
        pub provisioning: InMemoryProvisioning,
    }
}

resource_struct! {
    /// How long a part takes to start.
    pub struct InMemoryProvisioning {
        /// At least so long, such as `10s`.
        #[schemars(with = "Option<String>")]
        pub startup_duration: Option<GoDuration>,
        /// Up to this fraction longer, such as `0.2`.
        pub startup_jitter: String,
    }
}

resource_struct! {
    /// The observed state of a DevMachine.
    pub struct DevMachineStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far provisioning has come.
        pub initialization: DevInitializationStatus,
        /// Addresses.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub addresses: Vec<MachineAddress>,
        /// The failure domain that the Machine is in.
        #[schemars(length(min = 1, max = 256))]
        pub failure_domain: String,
        /// What the backend says. Kept as it came.
        pub backend: Option<AnyObject>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated")]
        pub deprecated: Option<AnyObject>,
    }
}
