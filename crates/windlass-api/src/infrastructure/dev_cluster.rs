//! DevCluster and DevClusterTemplate.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::{DevInitializationStatus, INFRASTRUCTURE};
use crate::cluster::{ApiEndpoint, FailureDomain, TemplateMeta};
use crate::kind::{AnyObject, kind, resource_struct};

kind! {
    /// The infrastructure of a cluster, for development.
    pub struct DevCluster in INFRASTRUCTURE, "devclusters" { #[optional] spec: DevClusterSpec, status: DevClusterStatus }
}

kind! {
    /// What DevClusters are made from.
    pub struct DevClusterTemplate in INFRASTRUCTURE, "devclustertemplates" { #[optional] spec: DevClusterTemplateSpec }
}

resource_struct! {
    /// What DevClusters are made from.
    #[schemars(extend("required" = ["template"]))]
    pub struct DevClusterTemplateSpec {
        /// The template.
        pub template: DevClusterTemplateResource,
    }
}

resource_struct! {
    /// A DevCluster to be.
    #[schemars(extend("required" = ["spec"]))]
    pub struct DevClusterTemplateResource {
        /// Labels and annotations.
        pub metadata: TemplateMeta,
        /// The desired state.
        pub spec: DevClusterSpec,
    }
}

resource_struct! {
    /// The desired state of a DevCluster.
    #[schemars(extend("required" = ["backend"]))]
    pub struct DevClusterSpec {
        /// Where the control plane is reached. Filled in by the provider.
        pub control_plane_endpoint: ApiEndpoint,
        /// What the cluster runs on.
        pub backend: DevClusterBackendSpec,
    }
}

resource_struct! {
    /// What a cluster runs on. Here everything runs in memory: containers are taken for it.
    pub struct DevClusterBackendSpec {
        /// Containers. Kept as it came: this provider has none.
        #[schemars(schema_with = "super::described::docker_cluster")]
        pub docker: Option<AnyObject>,
        /// The memory of this process.
        pub in_memory: Option<InMemoryClusterBackendSpec>,
    }
}

resource_struct! {
    /// A cluster in memory. There is nothing to set.
    #[derive(Eq, Copy)]
    pub struct InMemoryClusterBackendSpec {}
}

resource_struct! {
    /// The observed state of a DevCluster.
    pub struct DevClusterStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How far provisioning has come.
        pub initialization: DevInitializationStatus,
        /// Failure domains.
        #[schemars(
            length(min = 1, max = 100),
            extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"])
        )]
        pub failure_domains: Vec<FailureDomain>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated")]
        pub deprecated: Option<AnyObject>,
    }
}
