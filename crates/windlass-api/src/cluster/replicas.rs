//! How many machines a group shall have, also where admission has not filled it in.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{MachineDeployment, MachinePool, MachineSet};
use crate::names::{AUTOSCALER_MAX_ANNOTATION, AUTOSCALER_MIN_ANNOTATION, REPLICAS_MANAGED_BY_ANNOTATION};

/// How many machines a group has whose owner says nothing.
pub const DEFAULT_REPLICAS: i32 = 1;

impl MachineDeployment {
    /// `spec.replicas`, or one machine; nothing while an autoscaler has still to decide.
    pub fn replicas(&self) -> Option<i32> {
        replicas(&self.metadata, self.spec.replicas)
    }
}

impl MachineSet {
    /// `spec.replicas`, or one machine; nothing while an autoscaler has still to decide.
    pub fn replicas(&self) -> Option<i32> {
        replicas(&self.metadata, self.spec.replicas)
    }
}

impl MachinePool {
    /// `spec.replicas`, or one instance; nothing while an autoscaler or the provider has still to decide.
    pub fn replicas(&self) -> Option<i32> {
        if self.are_replicas_managed_externally() {
            return self.spec.replicas;
        }
        replicas(&self.metadata, self.spec.replicas)
    }

    /// Whether the provider, or an autoscaler of it, decides how many instances there are.
    pub fn are_replicas_managed_externally(&self) -> bool {
        let annotations = self.metadata.annotations.as_ref();
        annotations.and_then(|all| all.get(REPLICAS_MANAGED_BY_ANNOTATION)).is_some_and(|by| by != "false")
    }
}

/// Whether annotations hand a group to the cluster autoscaler: both limits have to be there.
pub fn is_autoscaled(metadata: &ObjectMeta) -> bool {
    let has = |key| metadata.annotations.as_ref().is_some_and(|all| all.contains_key(key));
    has(AUTOSCALER_MIN_ANNOTATION) && has(AUTOSCALER_MAX_ANNOTATION)
}

/// Without admission nothing remembers what an autoscaled group had before its size was taken out of the topology: one
/// machine would be wrong for a group of fifty, so nothing is known until the autoscaler says it.
fn replicas(metadata: &ObjectMeta, given: Option<i32>) -> Option<i32> {
    given.or_else(|| (!is_autoscaled(metadata)).then_some(DEFAULT_REPLICAS))
}
