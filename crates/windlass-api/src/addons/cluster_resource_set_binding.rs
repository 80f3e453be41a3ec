//! ClusterResourceSetBinding: what was applied to one Cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{ADDONS, ResourceKind};
use crate::kind::{kind, resource_struct};

kind! {
    /// What was applied to one Cluster. Has the name of the Cluster.
    pub struct ClusterResourceSetBinding in ADDONS, "clusterresourcesetbindings" {
        spec: ClusterResourceSetBindingSpec,
    }
}

resource_struct! {
    /// What was applied to one Cluster.
    #[derive(Eq)]
    #[schemars(extend("required" = ["clusterName"]))]
    pub struct ClusterResourceSetBindingSpec {
        /// The Cluster.
        #[schemars(length(min = 1, max = 63))]
        pub cluster_name: String,
        /// ClusterResourceSets that select it.
        #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub bindings: Vec<ResourceSetBinding>,
    }
}

resource_struct! {
    /// What was applied of one ClusterResourceSet.
    #[derive(Eq)]
    #[schemars(extend("required" = ["clusterResourceSetName"]))]
    pub struct ResourceSetBinding {
        /// The ClusterResourceSet.
        #[schemars(length(min = 1, max = 253))]
        pub cluster_resource_set_name: String,
        /// What was applied of it.
        #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub resources: Vec<ResourceBinding>,
    }
}

resource_struct! {
    /// What was applied of one ConfigMap or Secret.
    #[derive(Eq)]
    #[schemars(extend("required" = ["applied", "kind", "name"]))]
    pub struct ResourceBinding {
        /// ConfigMap or Secret.
        pub kind: ResourceKind,
        /// Name of the ConfigMap or Secret, in the namespace of the Cluster.
        #[schemars(length(min = 1, max = 253))]
        pub name: String,
        /// Hash of what was applied.
        #[schemars(length(min = 1, max = 256))]
        pub hash: String,
        /// When it was last applied.
        pub last_applied_time: Option<Time>,
        /// Whether everything in it was applied.
        pub applied: Option<bool>,
    }
}
