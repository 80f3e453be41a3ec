//! DevMachinePool and DevMachinePoolTemplate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{DevInitializationStatus, DevMachineBackendSpec, INFRASTRUCTURE, InMemoryMachineBackendSpec};
use crate::cluster::{MachineAddress, TemplateMeta};
use crate::kind::{AnyObject, kind, resource_struct};

kind! {
    /// The infrastructure of a MachinePool, for development.
    pub struct DevMachinePool in INFRASTRUCTURE, "devmachinepools" {
        #[optional] spec: DevMachinePoolSpec,
        status: DevMachinePoolStatus,
    }
}

kind! {
    /// What DevMachinePools are made from.
    pub struct DevMachinePoolTemplate in INFRASTRUCTURE, "devmachinepooltemplates" {
        #[optional] spec: DevMachinePoolTemplateSpec,
    }
}

resource_struct! {
    /// What DevMachinePools are made from.
    #[schemars(extend("required" = ["template"]))]
    pub struct DevMachinePoolTemplateSpec {
        /// The template.
        pub template: DevMachinePoolTemplateResource,
    }
}

resource_struct! {
    /// A DevMachinePool to be.
    #[schemars(extend("required" = ["spec"]))]
    pub struct DevMachinePoolTemplateResource {
        /// Labels and annotations.
        pub metadata: TemplateMeta,
        /// The desired state.
        pub spec: DevMachinePoolSpec,
    }
}

resource_struct! {
    /// The desired state of a DevMachinePool.
    pub struct DevMachinePoolSpec {
        /// The identity of the pool. Filled in by the provider.
        #[serde(rename = "providerID")]
        pub provider_id: String,
        /// The identities of its instances, which their Nodes report too. Filled in by the provider.
        #[serde(rename = "providerIDList")]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub provider_id_list: Vec<String>,
        /// What an instance runs on.
        pub backend: Option<DevMachineBackendSpec>,
        /// The form that the backend had in earlier releases; counts where `backend` is absent.
        pub template: Option<DevMachinePoolMachineTemplate>,
    }
}

impl DevMachinePoolSpec {
    /// Whether it says how an instance starts in memory.
    pub fn has_in_memory(&self) -> bool {
        let earlier = || self.template.as_ref().map(|template| &template.backend);
        self.backend.as_ref().or_else(earlier).is_some_and(|backend| backend.in_memory.is_some())
    }

    /// How an instance starts in memory.
    pub fn in_memory(&self) -> InMemoryMachineBackendSpec {
        let earlier = || self.template.as_ref().map(|template| &template.backend);
        self.backend.as_ref().or_else(earlier).map(DevMachineBackendSpec::in_memory).unwrap_or_default()
    }
}

resource_struct! {
    /// What instances of a pool are made from.
    #[schemars(extend("required" = ["backend"]))]
    pub struct DevMachinePoolMachineTemplate {
        /// What an instance runs on.
        pub backend: DevMachineBackendSpec,
    }
}

resource_struct! {
    /// The observed state of a DevMachinePool.
    pub struct DevMachinePoolStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far provisioning has come.
        pub initialization: DevInitializationStatus,
        /// Whether it is there, in the form that Cluster API's own provider says it.
        pub ready: Option<bool>,
        /// The kind of the Machines of its instances, if they have some.
        pub infrastructure_machine_kind: String,
        /// How many instances there are.
        pub replicas: Option<i32>,
        /// Instances.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub instances: Vec<DevMachinePoolInstanceStatus>,
        /// Generation of the object that was observed.
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        pub deprecated: Option<AnyObject>,
    }
}

resource_struct! {
    /// An instance of a pool.
    pub struct DevMachinePoolInstanceStatus {
        /// Name of the instance.
        pub instance_name: String,
        /// Its Kubernetes version.
        pub version: String,
        /// Its identity, which its Node reports too.
        #[serde(rename = "providerID")]
        pub provider_id: String,
        /// Whether it is ready.
        pub ready: Option<bool>,
        /// Addresses.
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub addresses: Vec<MachineAddress>,
    }
}
