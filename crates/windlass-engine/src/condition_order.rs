//! The order of conditions in a list.

use windlass_api::conditions as types;

/// Cluster API's order: what an object is good for comes first, then what is done to it, then what is counted over its
/// Machines. Conditions of others stand before the last two.
const ORDER: [&str; 35] = [
    types::AVAILABLE,
    types::READY,
    types::UP_TO_DATE,
    types::REMOTE_CONNECTION_PROBE,
    types::BOOTSTRAP_CONFIG_READY,
    types::INFRASTRUCTURE_READY,
    types::CONTROL_PLANE_INITIALIZED,
    types::CONTROL_PLANE_AVAILABLE,
    types::WORKERS_AVAILABLE,
    types::CERTIFICATES_AVAILABLE,
    types::INITIALIZED,
    types::ETCD_CLUSTER_HEALTHY,
    types::CONTROL_PLANE_COMPONENTS_HEALTHY,
    types::NODE_HEALTHY,
    types::NODE_READY,
    types::NODE_KUBEADM_LABELS_AND_TAINTS_SET,
    types::ETCD_POD_HEALTHY,
    types::ETCD_MEMBER_HEALTHY,
    types::API_SERVER_POD_HEALTHY,
    types::CONTROLLER_MANAGER_POD_HEALTHY,
    types::SCHEDULER_POD_HEALTHY,
    types::HEALTH_CHECK_SUCCEEDED,
    types::OWNER_REMEDIATED,
    types::TOPOLOGY_RECONCILED,
    types::UPDATING,
    types::ROLLING_OUT,
    types::REMEDIATING,
    types::SCALING_DOWN,
    types::SCALING_UP,
    types::MACHINES_READY,
    types::CONTROL_PLANE_MACHINES_READY,
    types::WORKER_MACHINES_READY,
    types::MACHINES_UP_TO_DATE,
    types::CONTROL_PLANE_MACHINES_UP_TO_DATE,
    types::WORKER_MACHINES_UP_TO_DATE,
];

/// What comes after conditions of all other types.
const LAST: [&str; 2] = [types::PAUSED, types::DELETING];

/// Where a condition stands among others; types without a place of their own go by name.
pub(crate) fn place(type_: &str) -> (usize, &str) {
    let first = ORDER.iter().position(|known| *known == type_);
    let last = || LAST.iter().position(|known| *known == type_).map(|last| ORDER.len() + 1 + last);
    (first.or_else(last).unwrap_or(ORDER.len()), type_)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use crate::condition::{self, Finding};

    fn sorted(types: &str) -> String {
        let mut list = Vec::new();
        for type_ in types.split(' ') {
            condition::set(&mut list, Finding::yes(type_, "R"), None, Timestamp::UNIX_EPOCH);
        }
        let types: Vec<&str> = list.iter().map(|condition| condition.type_.as_str()).collect();
        types.join(" ")
    }

    #[test]
    fn every_kind_has_its_conditions_in_the_order_of_cluster_api() {
        for (kind, order) in [
            (
                "Cluster",
                "Available RemoteConnectionProbe InfrastructureReady ControlPlaneInitialized \
                 ControlPlaneAvailable WorkersAvailable TopologyReconciled RollingOut Remediating ScalingDown \
                 ScalingUp ControlPlaneMachinesReady WorkerMachinesReady ControlPlaneMachinesUpToDate \
                 WorkerMachinesUpToDate MyGate Paused Deleting",
            ),
            (
                "KubeadmControlPlane",
                "Available CertificatesAvailable Initialized EtcdClusterHealthy ControlPlaneComponentsHealthy \
                 RollingOut Remediating ScalingDown ScalingUp MachinesReady MachinesUpToDate CanUpdateInPlace \
                 Paused Deleting",
            ),
            (
                "MachineDeployment",
                "Available RollingOut Remediating ScalingDown ScalingUp MachinesReady MachinesUpToDate \
                 CanUpdateInPlace ExternalUpdate Paused Deleting",
            ),
            (
                "MachinePool",
                "Available BootstrapConfigReady InfrastructureReady RollingOut ScalingDown ScalingUp Paused \
                 Deleting",
            ),
            (
                "Machine",
                "Available Ready UpToDate BootstrapConfigReady InfrastructureReady NodeHealthy NodeReady \
                 NodeKubeadmLabelsAndTaintsSet EtcdPodHealthy EtcdMemberHealthy APIServerPodHealthy \
                 ControllerManagerPodHealthy SchedulerPodHealthy HealthCheckSucceeded OwnerRemediated Updating \
                 MyGate Paused Deleting",
            ),
        ] {
            let backwards: Vec<&str> = order.split(' ').rev().collect();
            assert_eq!(sorted(&backwards.join(" ")), order, "{kind}");
        }
    }
}
