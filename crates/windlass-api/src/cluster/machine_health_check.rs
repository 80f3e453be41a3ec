//! MachineHealthCheck: when Machines are remediated.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector};

use super::{CLUSTER, HealthCheckRemediation, HealthChecks};
use crate::kind::{AnyObject, kind, resource_struct};

kind! {
    /// When Machines are remediated.
    pub struct MachineHealthCheck in CLUSTER, "machinehealthchecks" {
        spec: MachineHealthCheckSpec,
        status: MachineHealthCheckStatus,
    }
}

resource_struct! {
    /// When which Machines are remediated.
    #[schemars(extend("required" = ["clusterName", "selector"]))]
    pub struct MachineHealthCheckSpec {
        /// The Cluster that the Machines belong to.
        #[schemars(length(min = 1, max = 63))]
        pub cluster_name: String,
        /// Which Machines.
        #[schemars(schema_with = "crate::crds::label_selector")]
        pub selector: LabelSelector,
        /// What makes a Machine unhealthy.
        #[schemars(extend("default" = {"nodeStartupTimeoutSeconds": 600}))]
        pub checks: HealthChecks,
        /// What happens then.
        pub remediation: HealthCheckRemediation,
    }
}

resource_struct! {
    /// The observed state of a MachineHealthCheck.
    pub struct MachineHealthCheckStatus {
        /// Conditions.
        #[schemars(schema_with = "crate::crds::conditions")]
        pub conditions: Vec<Condition>,
        /// How many Machines it looks at.
        #[schemars(range(min = 0))]
        pub expected_machines: Option<i32>,
        /// How many of them are healthy.
        #[schemars(range(min = 0))]
        pub current_healthy: Option<i32>,
        /// How many more may become unhealthy before remediation stops.
        #[schemars(range(min = 0))]
        pub remediations_allowed: Option<i32>,
        /// Generation of the object that was observed.
        #[schemars(range(min = 0))]
        pub observed_generation: Option<i64>,
        /// Names of the Machines it looks at.
        #[schemars(length(max = 10000), inner(length(min = 1, max = 253)))]
        #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
        pub targets: Vec<String>,
        /// What a later version removes. Kept as it came.
        #[schemars(schema_with = "crate::described::deprecated")]
        pub deprecated: Option<AnyObject>,
    }
}
