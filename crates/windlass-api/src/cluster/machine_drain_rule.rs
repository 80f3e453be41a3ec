//! MachineDrainRule: what a drain does with some Pods of some Machines.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::CLUSTER;
use crate::kind::{choice, kind, resource_struct};

kind! {
    /// What a drain does with some Pods of some Machines.
    pub struct MachineDrainRule in CLUSTER, "machinedrainrules" { spec: MachineDrainRuleSpec }
}

resource_struct! {
    /// What a drain does with which Pods of which Machines.
    #[schemars(extend("required" = ["drain"]))]
    pub struct MachineDrainRuleSpec {
        /// What a drain does with the Pods.
        pub drain: MachineDrainRuleDrainConfig,
        /// Which Machines: those that one of these selects, or all in the namespace.
        #[schemars(length(min = 1, max = 32), extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = [{"rule": UNIQUE, "message": "entries must be unique"}],
        ))]
        pub machines: Vec<MachineDrainRuleMachineSelector>,
        /// Which Pods: those that one of these selects, or all.
        #[schemars(length(min = 1, max = 32), extend(
            "x-kubernetes-list-type" = "atomic",
            "x-kubernetes-validations" = [{"rule": UNIQUE, "message": "entries must be unique"}],
        ))]
        pub pods: Vec<MachineDrainRulePodSelector>,
    }
}

/// What is not evicted has no place in the order of evictions.
const ORDERED: &str = "self.behavior == 'Drain' || !has(self.order)";

const UNIQUE: &str = "self.all(x, self.exists_one(y, x == y))";

choice! {
    /// What a drain does with a Pod.
    pub enum MachineDrainRuleDrainBehavior {
        /// It is evicted.
        Drain = "Drain",
        /// It stays, and nothing waits for it.
        Skip = "Skip",
        /// It is not evicted, and the drain waits until it is done.
        WaitCompleted = "WaitCompleted",
    }
}

resource_struct! {
    /// What a drain does with Pods.
    #[derive(Eq)]
    #[schemars(extend(
        "required" = ["behavior"],
        "x-kubernetes-validations" = [{"rule": ORDERED, "message": "order is accepted with behavior Drain only"}],
    ))]
    pub struct MachineDrainRuleDrainConfig {
        /// Drain, Skip or WaitCompleted.
        pub behavior: MachineDrainRuleDrainBehavior,
        /// With Drain: Pods of a lower order are gone before those of a higher one are evicted. Absent is 0.
        pub order: Option<i32>,
    }
}

resource_struct! {
    /// Machines by their labels and those of their Clusters; both must fit.
    #[schemars(extend("minProperties" = 1))]
    pub struct MachineDrainRuleMachineSelector {
        /// Labels of the Machine.
        #[schemars(schema_with = "crate::crds::label_selector")]
        pub selector: Option<LabelSelector>,
        /// Labels of its Cluster.
        #[schemars(schema_with = "crate::crds::label_selector")]
        pub cluster_selector: Option<LabelSelector>,
    }
}

resource_struct! {
    /// Pods by their labels and those of their Namespaces; both must fit.
    #[schemars(extend("minProperties" = 1))]
    pub struct MachineDrainRulePodSelector {
        /// Labels of the Pod.
        #[schemars(schema_with = "crate::crds::label_selector")]
        pub selector: Option<LabelSelector>,
        /// Labels of its Namespace.
        #[schemars(schema_with = "crate::crds::label_selector")]
        pub namespace_selector: Option<LabelSelector>,
    }
}
