//! Types of conditions, and the reasons that controllers give in them.
//!
//! Users, alerts and scripts match these words, so none of them may change.

use serde::{Deserialize, Serialize};

/// Whether a condition holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum ConditionStatus {
    /// It holds.
    True,
    /// It does not hold.
    False,
    /// It is not known whether it holds.
    #[default]
    Unknown,
}

/// The object does what it is for.
pub const AVAILABLE: &str = "Available";
/// A summary of everything that must be good.
pub const READY: &str = "Ready";
/// The object matches the spec of its owner.
pub const UP_TO_DATE: &str = "UpToDate";
/// The Machine is being updated in place.
pub const UPDATING: &str = "Updating";
/// Nothing is done with the object.
pub const PAUSED: &str = "Paused";
/// The object goes.
pub const DELETING: &str = "Deleting";
/// An unhealthy Machine is being remediated by its owner.
pub const REMEDIATING: &str = "Remediating";
/// Machines are brought to what is wanted.
pub const ROLLING_OUT: &str = "RollingOut";
/// Machines are created.
pub const SCALING_UP: &str = "ScalingUp";
/// Machines are deleted.
pub const SCALING_DOWN: &str = "ScalingDown";
/// All Machines are ready.
pub const MACHINES_READY: &str = "MachinesReady";
/// All Machines are up to date.
pub const MACHINES_UP_TO_DATE: &str = "MachinesUpToDate";

/// Cluster: what the topology says has been applied.
pub const TOPOLOGY_RECONCILED: &str = "TopologyReconciled";
/// Cluster, Machine: the infrastructure is there.
pub const INFRASTRUCTURE_READY: &str = "InfrastructureReady";
/// Cluster: the control plane is available.
pub const CONTROL_PLANE_AVAILABLE: &str = "ControlPlaneAvailable";
/// Cluster: the API server accepts requests. Never goes back.
pub const CONTROL_PLANE_INITIALIZED: &str = "ControlPlaneInitialized";
/// Cluster: the Machines of the control plane are ready.
pub const CONTROL_PLANE_MACHINES_READY: &str = "ControlPlaneMachinesReady";
/// Cluster: the Machines of the control plane are up to date.
pub const CONTROL_PLANE_MACHINES_UP_TO_DATE: &str = "ControlPlaneMachinesUpToDate";
/// Cluster: all groups of workers are available.
pub const WORKERS_AVAILABLE: &str = "WorkersAvailable";
/// Cluster: the Machines of the workers are ready.
pub const WORKER_MACHINES_READY: &str = "WorkerMachinesReady";
/// Cluster: the Machines of the workers are up to date.
pub const WORKER_MACHINES_UP_TO_DATE: &str = "WorkerMachinesUpToDate";
/// Cluster: the API server of the cluster answers.
pub const REMOTE_CONNECTION_PROBE: &str = "RemoteConnectionProbe";

/// ClusterClass: its variables are known and agree.
pub const VARIABLES_READY: &str = "VariablesReady";
/// ClusterClass: its references are of the newest version.
pub const REF_VERSIONS_UP_TO_DATE: &str = "RefVersionsUpToDate";

/// Machine: its bootstrap data are there.
pub const BOOTSTRAP_CONFIG_READY: &str = "BootstrapConfigReady";
/// Machine: its Node is ready.
pub const NODE_READY: &str = "NodeReady";
/// Machine: its Node is ready and under no pressure.
pub const NODE_HEALTHY: &str = "NodeHealthy";
/// Machine: no health check found it unhealthy.
pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
/// Machine: its owner remediated it, or is to.
pub const OWNER_REMEDIATED: &str = "OwnerRemediated";
/// Machine: an external remediation controller remediated it, or is to.
pub const EXTERNALLY_REMEDIATED: &str = "ExternallyRemediated";
/// Machine of a control plane: its Node has the labels and taints of one.
pub const NODE_KUBEADM_LABELS_AND_TAINTS_SET: &str = "NodeKubeadmLabelsAndTaintsSet";
/// Machine of a control plane: its API server runs.
pub const API_SERVER_POD_HEALTHY: &str = "APIServerPodHealthy";
/// Machine of a control plane: its controller manager runs.
pub const CONTROLLER_MANAGER_POD_HEALTHY: &str = "ControllerManagerPodHealthy";
/// Machine of a control plane: its scheduler runs.
pub const SCHEDULER_POD_HEALTHY: &str = "SchedulerPodHealthy";
/// Machine of a control plane: its etcd runs.
pub const ETCD_POD_HEALTHY: &str = "EtcdPodHealthy";
/// Machine of a control plane: its member of etcd is one, and is well.
pub const ETCD_MEMBER_HEALTHY: &str = "EtcdMemberHealthy";

/// MachineHealthCheck: unhealthy Machines are remediated.
pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";

/// KubeadmControlPlane: the API server accepts requests. Never goes back.
pub const INITIALIZED: &str = "Initialized";
/// KubeadmControlPlane: its certificates are there.
pub const CERTIFICATES_AVAILABLE: &str = "CertificatesAvailable";
/// KubeadmControlPlane: etcd is well.
pub const ETCD_CLUSTER_HEALTHY: &str = "EtcdClusterHealthy";
/// KubeadmControlPlane: the components on its Machines are well.
pub const CONTROL_PLANE_COMPONENTS_HEALTHY: &str = "ControlPlaneComponentsHealthy";

/// KubeadmConfig: the bootstrap data are there.
pub const DATA_SECRET_AVAILABLE: &str = "DataSecretAvailable";

/// On a ClusterResourceSet: everything is in all Clusters that it selects.
pub const RESOURCES_APPLIED: &str = "ResourcesApplied";

/// DevMachine: the virtual machine is there.
pub const VM_PROVISIONED: &str = "VMProvisioned";
/// DevMachine: the Node is there.
pub const NODE_PROVISIONED: &str = "NodeProvisioned";
/// DevMachine of a control plane: the member of etcd is there.
pub const ETCD_PROVISIONED: &str = "EtcdProvisioned";
/// DevMachine of a control plane: the API server is there.
pub const API_SERVER_PROVISIONED: &str = "APIServerProvisioned";

/// Words for programs that say why.
pub mod reason {
    // Of many conditions.

    /// Everything was applied.
    pub const APPLIED: &str = "Applied";
    /// Something was not applied.
    pub const NOT_APPLIED: &str = "NotApplied";
    /// A Secret is not of the type whose content may be applied.
    pub const WRONG_SECRET_TYPE: &str = "WrongSecretType";
    /// Something went wrong that is not the object's fault.
    pub const INTERNAL_ERROR: &str = "InternalError";
    /// An object that is referred to is not there.
    pub const OBJECT_DOES_NOT_EXIST: &str = "ObjectDoesNotExist";
    /// An object that is referred to is gone, and was there before.
    pub const OBJECT_DELETED: &str = "ObjectDeleted";
    /// A provider says something that is no condition.
    pub const INVALID_CONDITION_REPORTED: &str = "InvalidConditionReported";
    /// The API server of the cluster does not answer.
    pub const CONNECTION_DOWN: &str = "ConnectionDown";
    /// Looking at the cluster failed.
    pub const INSPECTION_FAILED: &str = "InspectionFailed";
    /// A word for a condition that carries none.
    pub const NO_REASON_REPORTED: &str = "NoReasonReported";
    /// See [`READY`](super::READY).
    pub const READY: &str = "Ready";
    /// Something is not good.
    pub const NOT_READY: &str = "NotReady";
    /// Something is not known.
    pub const READY_UNKNOWN: &str = "ReadyUnknown";
    /// See [`AVAILABLE`](super::AVAILABLE).
    pub const AVAILABLE: &str = "Available";
    /// Something is not good.
    pub const NOT_AVAILABLE: &str = "NotAvailable";
    /// Something is not known.
    pub const AVAILABLE_UNKNOWN: &str = "AvailableUnknown";
    /// Nothing is done.
    pub const PAUSED: &str = "Paused";
    /// Everything goes its way.
    pub const NOT_PAUSED: &str = "NotPaused";
    /// There are no Machines.
    pub const NO_REPLICAS: &str = "NoReplicas";
    /// See [`UP_TO_DATE`](super::UP_TO_DATE).
    pub const UP_TO_DATE: &str = "UpToDate";
    /// Something is to change.
    pub const NOT_UP_TO_DATE: &str = "NotUpToDate";
    /// Something is not known.
    pub const UP_TO_DATE_UNKNOWN: &str = "UpToDateUnknown";
    /// See [`ROLLING_OUT`](super::ROLLING_OUT).
    pub const ROLLING_OUT: &str = "RollingOut";
    /// All Machines are up to date.
    pub const NOT_ROLLING_OUT: &str = "NotRollingOut";
    /// See [`SCALING_UP`](super::SCALING_UP).
    pub const SCALING_UP: &str = "ScalingUp";
    /// There are enough Machines.
    pub const NOT_SCALING_UP: &str = "NotScalingUp";
    /// See [`SCALING_DOWN`](super::SCALING_DOWN).
    pub const SCALING_DOWN: &str = "ScalingDown";
    /// There are not too many Machines.
    pub const NOT_SCALING_DOWN: &str = "NotScalingDown";
    /// `spec.replicas` is not set yet.
    pub const WAITING_FOR_REPLICAS_SET: &str = "WaitingForReplicasSet";
    /// `status.availableReplicas` is not set yet.
    pub const WAITING_FOR_AVAILABLE_REPLICAS_SET: &str = "WaitingForAvailableReplicasSet";
    /// See [`REMEDIATING`](super::REMEDIATING).
    pub const REMEDIATING: &str = "Remediating";
    /// No Machine is remediated.
    pub const NOT_REMEDIATING: &str = "NotRemediating";
    /// The object goes.
    pub const DELETING: &str = "Deleting";
    /// The object stays.
    pub const NOT_DELETING: &str = "NotDeleting";
    /// Everything that was to be deleted is gone.
    pub const DELETION_COMPLETED: &str = "DeletionCompleted";

    // Of the topology.

    /// The topology was applied.
    pub const RECONCILE_SUCCEEDED: &str = "ReconcileSucceeded";
    /// The topology could not be applied.
    pub const RECONCILE_FAILED: &str = "ReconcileFailed";
    /// The ClusterClass was not reconciled yet.
    pub const CLUSTER_CLASS_NOT_RECONCILED: &str = "ClusterClassNotReconciled";
    /// A hook holds the creation of the Cluster.
    pub const CLUSTER_CREATING: &str = "ClusterCreating";
    /// An upgrade is under way.
    pub const CLUSTER_UPGRADING: &str = "ClusterUpgrading";
    /// Only MachineDeployments that the user deferred are left to upgrade.
    pub const MACHINE_DEPLOYMENTS_UPGRADE_DEFERRED: &str = "MachineDeploymentsUpgradeDeferred";
    /// Only MachinePools that the user deferred are left to upgrade.
    pub const MACHINE_POOLS_UPGRADE_DEFERRED: &str = "MachinePoolsUpgradeDeferred";

    // Of a Cluster.

    /// There is no topology, nor a reference to a control plane or infrastructure.
    pub const INFRASTRUCTURE_DOES_NOT_EXIST: &str = "DoesNotExist";
    /// The infrastructure is being made, or the control plane is.
    pub const NOT_INITIALIZED: &str = "NotInitialized";
    /// The API server accepts requests.
    pub const INITIALIZED: &str = "Initialized";
    /// There is no group of workers.
    pub const NO_WORKERS: &str = "NoWorkers";
    /// A hook holds the deletion.
    pub const WAITING_FOR_BEFORE_DELETE_HOOK: &str = "WaitingForBeforeDeleteHook";
    /// Groups of workers are not gone yet.
    pub const WAITING_FOR_WORKERS_DELETION: &str = "WaitingForWorkersDeletion";
    /// The control plane is not gone yet.
    pub const WAITING_FOR_CONTROL_PLANE_DELETION: &str = "WaitingForControlPlaneDeletion";
    /// The infrastructure is not gone yet.
    pub const WAITING_FOR_INFRASTRUCTURE_DELETION: &str = "WaitingForInfrastructureDeletion";
    /// The API server of the cluster answers.
    pub const PROBE_SUCCEEDED: &str = "ProbeSucceeded";
    /// The API server of the cluster does not answer.
    pub const PROBE_FAILED: &str = "ProbeFailed";

    // Of a Machine.

    /// The Machine is ready, but not for long enough.
    pub const WAITING_FOR_MIN_READY_SECONDS: &str = "WaitingForMinReadySeconds";
    /// The Machine is updated in place, or its Node does not say yet that it was.
    pub const UPDATING: &str = "Updating";
    /// The Machine is not updated.
    pub const NOT_UPDATING: &str = "NotUpdating";
    /// The Machine is updated in place.
    pub const IN_PLACE_UPDATING: &str = "InPlaceUpdating";
    /// The update in place went wrong. It is tried again.
    pub const IN_PLACE_UPDATE_FAILED: &str = "InPlaceUpdateFailed";
    /// The user brought the bootstrap data.
    pub const DATA_SECRET_PROVIDED: &str = "DataSecretProvided";
    /// The Node is ready.
    pub const NODE_READY: &str = "NodeReady";
    /// The Node is not ready.
    pub const NODE_NOT_READY: &str = "NodeNotReady";
    /// The Node does not say.
    pub const NODE_READY_UNKNOWN: &str = "NodeReadyUnknown";
    /// The Node is well.
    pub const NODE_HEALTHY: &str = "NodeHealthy";
    /// The Node is not well.
    pub const NODE_NOT_HEALTHY: &str = "NodeNotHealthy";
    /// The Node does not say.
    pub const NODE_HEALTH_UNKNOWN: &str = "NodeHealthyUnknown";
    /// There is no Node yet.
    pub const NODE_DOES_NOT_EXIST: &str = "NodeDoesNotExist";
    /// The Node is gone, and was there before.
    pub const NODE_DELETED: &str = "NodeDeleted";
    /// The Machine is healthy.
    pub const HEALTH_CHECK_SUCCEEDED: &str = "HealthCheckSucceeded";
    /// A condition of the Node has been bad for too long.
    pub const UNHEALTHY_NODE: &str = "UnhealthyNode";
    /// A condition of the Machine has been bad for too long.
    pub const UNHEALTHY_MACHINE: &str = "UnhealthyMachine";
    /// The Machine took too long to become a Node.
    pub const NODE_STARTUP_TIMEOUT: &str = "NodeStartupTimeout";
    /// The user asked for remediation.
    pub const HAS_REMEDIATE_ANNOTATION: &str = "HasRemediateAnnotation";
    /// The owner is to remediate.
    pub const WAITING_FOR_REMEDIATION: &str = "WaitingForRemediation";
    /// The owner does not remediate.
    pub const CANNOT_BE_REMEDIATED: &str = "CannotBeRemediated";
    /// The owner remediates later.
    pub const REMEDIATION_DEFERRED: &str = "RemediationDeferred";
    /// The owner has deleted the Machine.
    pub const MACHINE_DELETING: &str = "MachineDeleting";
    /// The template of the object that remediates is not there.
    pub const REMEDIATION_TEMPLATE_NOT_FOUND: &str = "RemediationTemplateNotFound";
    /// The object that remediates could not be created.
    pub const REMEDIATION_REQUEST_CREATION_FAILED: &str = "RemediationRequestCreationFailed";
    /// An annotation holds the deletion before the Node is drained.
    pub const WAITING_FOR_PRE_DRAIN_HOOK: &str = "WaitingForPreDrainHook";
    /// The Node is being drained.
    pub const DRAINING_NODE: &str = "DrainingNode";
    /// Volumes are being detached.
    pub const WAITING_FOR_VOLUME_DETACH: &str = "WaitingForVolumeDetach";
    /// An annotation holds the deletion before the infrastructure is deleted.
    pub const WAITING_FOR_PRE_TERMINATE_HOOK: &str = "WaitingForPreTerminateHook";
    /// The bootstrap config is not gone yet.
    pub const WAITING_FOR_BOOTSTRAP_DELETION: &str = "WaitingForBootstrapDeletion";
    /// The Node is being deleted.
    pub const DELETING_NODE: &str = "DeletingNode";
    /// Machines are not gone yet.
    pub const WAITING_FOR_MACHINE_DELETION: &str = "WaitingForMachineDeletion";

    // Of a MachineHealthCheck.

    /// Few enough Machines are unhealthy.
    pub const REMEDIATION_ALLOWED: &str = "RemediationAllowed";
    /// Too many Machines are unhealthy: something else is wrong.
    pub const TOO_MANY_UNHEALTHY: &str = "TooManyUnhealthy";

    // Of a KubeadmControlPlane.

    /// Everything is well.
    pub const HEALTHY: &str = "Healthy";
    /// Something is not well.
    pub const NOT_HEALTHY: &str = "NotHealthy";
    /// Something is not known.
    pub const HEALTH_UNKNOWN: &str = "HealthUnknown";

    // Of the provider for development.

    /// The infrastructure of the Cluster is not there yet.
    pub const WAITING_FOR_CLUSTER_INFRASTRUCTURE_READY: &str = "WaitingForClusterInfrastructureReady";
    /// The control plane does not accept requests yet.
    pub const WAITING_FOR_CONTROL_PLANE_INITIALIZED: &str = "WaitingForControlPlaneInitialized";
    /// The bootstrap data are not there yet.
    pub const WAITING_FOR_BOOTSTRAP_DATA: &str = "WaitingForBootstrapData";
    /// It is there.
    pub const PROVISIONED: &str = "Provisioned";
    /// It is not there yet.
    pub const NOT_PROVISIONED: &str = "NotProvisioned";
    /// It is being made.
    pub const PROVISIONING: &str = "Provisioning";
}
