//! DevMachinePool and DevMachinePoolTemplate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{DevInitializationStatus, DevMachineBackendSpec, INFRASTRUCTURE};
use crate::cluster::{MachineAddress, TemplateMeta};
use crate::kind::{AnyObject, kind, resource_struct};

kind! {
    /// The infrastructure of a MachinePool, for development.
    pub struct DevMachinePool in INFRASTRUCTURE, "devmachinepools" {
        spec: DevMachinePoolSpec,
        status: DevMachinePoolStatus,
    }
}

kind! {
    /// What DevMachinePools are made from.
    pub struct DevMachinePoolTemplate in INFRASTRUCTURE, "devmachinepooltemplates" {
        spec: DevMachinePoolTemplateSpec,
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
    #[schemars(extend("required" = ["template"]))]
    pub struct DevMachinePoolSpec {
        /// The identity of the pool. Filled in by the provider.
        #[serde(rename = "providerID")]
        #[schemars(length(min = 1, max = 512))]
        pub provider_id: String,
        /// The identities of its instances, which their Nodes report too. Filled in by the provider.
        #[serde(rename = "providerIDList")]
        #[schemars(length(max = 10000), inner(length(min = 1, max = 512)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub provider_id_list: Vec<String>,
        /// What its instances are made from.
        pub template: DevMachinePoolMachineTemplate,
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
        /// How many instances there are.
        #[schemars(range(min = 0))]
        pub replicas: Option<i32>,
        /// Instances.
        #[schemars(
            length(max = 10000),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["instanceName"])
        )]
        pub instances: Vec<DevMachinePoolInstanceStatus>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        pub deprecated: Option<AnyObject>,
    }
}

resource_struct! {
    /// An instance of a pool.
    #[schemars(extend("required" = ["instanceName"]))]
    pub struct DevMachinePoolInstanceStatus {
        /// Name of the instance.
        #[schemars(length(min = 1, max = 253))]
        pub instance_name: String,
        /// Its Kubernetes version.
        #[schemars(length(min = 1, max = 256))]
        pub version: String,
        /// Its identity, which its Node reports too.
        #[serde(rename = "providerID")]
        #[schemars(length(min = 1, max = 512))]
        pub provider_id: String,
        /// Whether it is ready.
        pub ready: Option<bool>,
        /// Addresses.
        #[schemars(length(max = 128), extend("x-kubernetes-list-type" = "atomic"))]
        pub addresses: Vec<MachineAddress>,
    }
}
