//! ClusterResourceSet: objects for all Clusters that a selector selects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};

use super::ADDONS;
use crate::kind::{AnyObject, choice, kind, resource_struct};

kind! {
    /// Objects for all Clusters that a selector selects.
    pub struct ClusterResourceSet in ADDONS, "clusterresourcesets" {
        spec: ClusterResourceSetSpec,
        status: ClusterResourceSetStatus,
    }
}

resource_struct! {
    /// What is applied to which Clusters.
    #[schemars(extend("required" = ["clusterSelector", "resources"]))]
    pub struct ClusterResourceSetSpec {
        /// Which Clusters. Cannot be changed, and must not be empty.
        #[schemars(schema_with = "cluster_selector")]
        pub cluster_selector: LabelSelector,
        /// ConfigMaps and Secrets in the same namespace, with the objects in them.
        #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
        pub resources: Vec<ResourceRef>,
        /// Whether objects are applied again when they change. Absent is ApplyOnce. Cannot be changed.
        #[schemars(extend(
            "x-kubernetes-validations" = [{"rule": UNCHANGED, "message": "cannot be changed"}],
        ))]
        pub strategy: Option<ClusterResourceSetStrategy>,
    }
}

const UNCHANGED: &str = "self == oldSelf";

fn cluster_selector(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
    let mut schema = crate::crds::label_selector(generator);
    let rules = serde_json::json!([
        {"rule": UNCHANGED, "message": "cannot be changed"},
        {
            "rule": "(has(self.matchLabels) && size(self.matchLabels) > 0) || \
                     (has(self.matchExpressions) && size(self.matchExpressions) > 0)",
            "message": "must not be empty",
        },
    ]);
    schema.insert("x-kubernetes-validations".to_owned(), rules);
    schema
}

choice! {
    /// Whether objects are applied again when they change.
    pub enum ClusterResourceSetStrategy {
        /// Once.
        ApplyOnce = "ApplyOnce",
        /// Again when they change here.
        Reconcile = "Reconcile",
    }
}

choice! {
    /// What objects can be in.
    pub enum ResourceKind {
        /// A ConfigMap.
        ConfigMap = "ConfigMap",
        /// A Secret of type `addons.cluster.x-k8s.io/resource-set`.
        Secret = "Secret",
    }
}

resource_struct! {
    /// A ConfigMap or a Secret with objects in it.
    #[derive(Eq)]
    #[schemars(extend("required" = ["kind", "name"]))]
    pub struct ResourceRef {
        /// ConfigMap or Secret.
        pub kind: ResourceKind,
        /// Name of the ConfigMap or Secret, in the namespace of the set.
        #[schemars(length(min = 1, max = 253))]
        pub name: String,
    }
}

resource_struct! {
    /// The observed state of a ClusterResourceSet.
    pub struct ClusterResourceSetStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 1))]
        pub observed_generation: Option<i64>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated")]
        pub deprecated: Option<AnyObject>,
    }
}
