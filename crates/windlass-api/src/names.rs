//! Names that are the same everywhere: API groups, annotations, labels, finalizers, field managers.
//!
//! Cluster API users, their manifests and their scripts rely on these spellings, so none of them may
//! change. A key that ends in a slash or that is documented as a prefix is compared with `starts_with`.

// API groups and versions.

/// Group of the Runtime SDK hooks. It is not the group of [`ExtensionConfig`](crate::runtime).
pub const HOOKS_GROUP: &str = "hooks.runtime.cluster.x-k8s.io";
/// The only published version of the hooks.
pub const HOOKS_VERSION: &str = "v1alpha1";
/// `apiVersion` of every hook request and response.
pub const HOOKS_API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";
/// Group of the ExtensionConfig resource.
pub const RUNTIME_GROUP: &str = "runtime.cluster.x-k8s.io";
/// `apiVersion` of the ExtensionConfig resource. There has never been a `v1beta1` of it.
pub const RUNTIME_API_VERSION: &str = "runtime.cluster.x-k8s.io/v1beta2";
/// Group of Cluster, ClusterClass, Machine, MachineSet, MachineDeployment and MachinePool.
pub const CLUSTER_GROUP: &str = "cluster.x-k8s.io";
/// `apiVersion` of the objects of [`CLUSTER_GROUP`] in hook requests.
pub const CLUSTER_API_VERSION: &str = "cluster.x-k8s.io/v1beta2";
/// Group of KubeadmControlPlane.
pub const CONTROL_PLANE_GROUP: &str = "controlplane.cluster.x-k8s.io";
/// `apiVersion` of KubeadmControlPlane.
pub const CONTROL_PLANE_API_VERSION: &str = "controlplane.cluster.x-k8s.io/v1beta2";
/// Group of KubeadmConfig and KubeadmConfigTemplate.
pub const BOOTSTRAP_GROUP: &str = "bootstrap.cluster.x-k8s.io";
/// `apiVersion` of KubeadmConfig and KubeadmConfigTemplate.
pub const BOOTSTRAP_API_VERSION: &str = "bootstrap.cluster.x-k8s.io/v1beta2";
/// Group of infrastructure objects.
pub const INFRASTRUCTURE_GROUP: &str = "infrastructure.cluster.x-k8s.io";
/// `apiVersion` of the infrastructure objects for development.
pub const INFRASTRUCTURE_API_VERSION: &str = "infrastructure.cluster.x-k8s.io/v1beta2";
/// Group of what is applied to clusters once they are there.
pub const ADDONS_GROUP: &str = "addons.cluster.x-k8s.io";
/// `apiVersion` of the objects of [`ADDONS_GROUP`].
pub const ADDONS_API_VERSION: &str = "addons.cluster.x-k8s.io/v1beta2";
/// Group of addresses.
pub const IPAM_GROUP: &str = "ipam.cluster.x-k8s.io";
/// `apiVersion` of the objects of [`IPAM_GROUP`].
pub const IPAM_API_VERSION: &str = "ipam.cluster.x-k8s.io/v1beta2";

// Hooks that are under way.

/// On Cluster and Machine: the hooks still to be called, sorted, joined with commas. The key is removed
/// when no hook is left.
pub const PENDING_HOOKS_ANNOTATION: &str = "runtime.cluster.x-k8s.io/pending-hooks";
/// On a Cluster whose BeforeClusterDelete hook has passed. Only presence counts; the value is empty.
pub const OK_TO_DELETE_ANNOTATION: &str = "runtime.cluster.x-k8s.io/ok-to-delete";
/// On an ExtensionConfig: `<namespace>/<name>` of the Secret whose `ca.crt` becomes its `caBundle`.
pub const INJECT_CA_FROM_SECRET_ANNOTATION: &str = "runtime.cluster.x-k8s.io/inject-ca-from-secret";
/// Any Cluster annotation with this prefix holds an upgrade as a blocking BeforeClusterUpgrade would.
pub const BEFORE_CLUSTER_UPGRADE_ANNOTATION_PREFIX: &str = "before-upgrade.hook.cluster.cluster.x-k8s.io";

// Additions of Windlass.

/// On a Cluster, a control plane or a Machine: what it waits on and since when, as JSON. Written when the wait changes, not
/// while it goes on, and on a Machine once it has lasted for a minute; the key is removed when nothing is waited on.
pub const WAITING_ON_ANNOTATION: &str = "upgrade.windlass.dev/waiting-on";
/// On a Cluster: the target for which BeforeClusterUpgrade passed last. Written by the topology controller while an
/// upgrade runs, removed at its end.
pub const ACKNOWLEDGED_TARGET_ANNOTATION: &str = "upgrade.windlass.dev/acknowledged-target";
/// On a Cluster: nothing new of an upgrade starts. The value is shown as the reason.
pub const HOLD_ANNOTATION: &str = "upgrade.windlass.dev/hold";
/// On a Cluster: a version that the control plane does not leave.
pub const HOLD_AT_ANNOTATION: &str = "upgrade.windlass.dev/hold-at";
/// On a Cluster: which starts need an approval, as a list of `cluster`, `control-plane`, `workers`, `groups`, or `all`.
pub const REQUIRE_APPROVAL_ANNOTATION: &str = "upgrade.windlass.dev/require-approval";
/// On a Cluster: names of steps that are approved, such as `control-plane/v1.32.0`, joined with commas.
pub const APPROVED_ANNOTATION: &str = "upgrade.windlass.dev/approved";
/// On a Cluster: entries of the topology, joined with commas, whose rollouts a new upgrade does not wait for.
pub const IGNORE_ROLLOUTS_ANNOTATION: &str = "upgrade.windlass.dev/ignore-rollouts";
/// On a worker topology entry: the version that the group is kept at, for CRDs that do not have the field `version`.
pub const PIN_ANNOTATION: &str = "upgrade.windlass.dev/version";
/// On a MachineDeployment, a control plane or their entry in a topology: `External` is the strategy of rollouts, for CRDs that
/// do not have this type. The field wins where it says another one.
pub const ROLLOUT_STRATEGY_ANNOTATION: &str = "rollout.windlass.dev/strategy";
/// Beside `rollout.windlass.dev/strategy`: `rolling` replaces Machines whose update nothing covers. Without it they stay.
pub const ROLLOUT_FALLBACK_ANNOTATION: &str = "rollout.windlass.dev/fallback";

// Managed topologies.

/// On a Cluster: the version of the upgrade step in progress.
pub const UPGRADE_STEP_ANNOTATION: &str = "topology.internal.cluster.x-k8s.io/upgrade-step";
/// Annotations of a Cluster that only controllers write. Every other annotation is an edit by a user, after which hooks
/// that hold the Cluster or that failed are called again.
pub const WRITTEN_BY_CONTROLLERS: [&str; 5] = [
    PENDING_HOOKS_ANNOTATION,
    UPGRADE_STEP_ANNOTATION,
    ACKNOWLEDGED_TARGET_ANNOTATION,
    WAITING_ON_ANNOTATION,
    OK_TO_DELETE_ANNOTATION,
];
/// On a Cluster: how many MachineDeployments (and MachinePools) may upgrade at the same time.
pub const UPGRADE_CONCURRENCY_ANNOTATION: &str = "topology.cluster.x-k8s.io/upgrade-concurrency";
/// On a worker topology entry: this entry does not take part in the upgrade yet.
pub const DEFER_UPGRADE_ANNOTATION: &str = "topology.cluster.x-k8s.io/defer-upgrade";
/// On a worker topology entry: neither this entry nor any later one upgrades yet.
pub const HOLD_UPGRADE_SEQUENCE_ANNOTATION: &str = "topology.cluster.x-k8s.io/hold-upgrade-sequence";
/// On a Cluster: admission does not check version changes. For emergencies.
pub const DISABLE_UPDATE_VERSION_CHECK_ANNOTATION: &str =
    "unsafe.topology.cluster.x-k8s.io/disable-update-version-check";
/// On a Cluster: admission lets a class be set on a Cluster that had none. For migrations.
pub const DISABLE_UPDATE_CLASS_NAME_CHECK_ANNOTATION: &str =
    "unsafe.topology.cluster.x-k8s.io/disable-update-class-name-check";
/// Marks an object that is only being applied with dry-run.
pub const TOPOLOGY_DRY_RUN_ANNOTATION: &str = "topology.cluster.x-k8s.io/dry-run";
/// On every object that a managed topology owns; the value is empty.
pub const TOPOLOGY_OWNED_LABEL: &str = "topology.cluster.x-k8s.io/owned";
/// Name of the MachineDeployment topology entry that an object belongs to.
pub const TOPOLOGY_DEPLOYMENT_NAME_LABEL: &str = "topology.cluster.x-k8s.io/deployment-name";
/// Name of the MachinePool topology entry that an object belongs to.
pub const TOPOLOGY_POOL_NAME_LABEL: &str = "topology.cluster.x-k8s.io/pool-name";
/// Finalizer that lets templates be cleaned up after their MachineDeployment is gone.
pub const TOPOLOGY_MACHINE_DEPLOYMENT_FINALIZER: &str = "machinedeployment.topology.cluster.x-k8s.io";
/// Finalizer that lets templates be cleaned up after their MachineSet is gone.
pub const TOPOLOGY_MACHINE_SET_FINALIZER: &str = "machineset.topology.cluster.x-k8s.io";

// Ownership and selection.

/// Name of the Cluster that an object belongs to.
pub const CLUSTER_NAME_LABEL: &str = "cluster.x-k8s.io/cluster-name";
/// Name of the MachineDeployment that a MachineSet or Machine belongs to.
pub const MACHINE_DEPLOYMENT_NAME_LABEL: &str = "cluster.x-k8s.io/deployment-name";
/// Name of the MachineSet that a Machine belongs to.
pub const MACHINE_SET_NAME_LABEL: &str = "cluster.x-k8s.io/set-name";
/// On control plane Machines; the value is empty.
pub const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";
/// Name of the control plane object that a Machine belongs to.
pub const CONTROL_PLANE_NAME_LABEL: &str = "cluster.x-k8s.io/control-plane-name";
/// Ties Machines to the MachineSet revision they came from. Never changes on a living MachineSet.
pub const MACHINE_TEMPLATE_HASH_LABEL: &str = "machine-template-hash";
/// Name of the template that an object was cloned from.
pub const CLONED_FROM_NAME_ANNOTATION: &str = "cluster.x-k8s.io/cloned-from-name";
/// `<kind>.<group>` of the template that an object was cloned from.
pub const CLONED_FROM_GROUP_KIND_ANNOTATION: &str = "cluster.x-k8s.io/cloned-from-groupkind";
/// Name of the MachinePool that a Machine belongs to.
pub const MACHINE_POOL_NAME_LABEL: &str = "cluster.x-k8s.io/pool-name";
/// Finalizer of a Cluster.
pub const CLUSTER_FINALIZER: &str = "cluster.cluster.x-k8s.io";
/// Finalizer of a Machine.
pub const MACHINE_FINALIZER: &str = "machine.cluster.x-k8s.io";
/// Finalizer of a MachineSet.
pub const MACHINE_SET_FINALIZER: &str = "cluster.x-k8s.io/machineset";
/// Finalizer of a MachinePool.
pub const MACHINE_POOL_FINALIZER: &str = "machinepool.cluster.x-k8s.io";
/// Finalizer of a KubeadmControlPlane.
pub const KUBEADM_CONTROL_PLANE_FINALIZER: &str = "kubeadm.controlplane.cluster.x-k8s.io";
/// Finalizer of a MachineDeployment.
pub const MACHINE_DEPLOYMENT_FINALIZER: &str = "cluster.x-k8s.io/machinedeployment";

// Rollouts.

/// Revision of a MachineSet and of its MachineDeployment. The group really is `clusters` with an s.
pub const REVISION_ANNOTATION: &str = "machinedeployment.clusters.x-k8s.io/revision";
/// Former revisions of a MachineSet, joined with commas.
pub const REVISION_HISTORY_ANNOTATION: &str = "machinedeployment.clusters.x-k8s.io/revision-history";
/// On a MachineSet: `spec.replicas` of its MachineDeployment.
pub const DESIRED_REPLICAS_ANNOTATION: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";
/// On a MachineSet: `spec.replicas` of its MachineDeployment plus the resolved surge.
pub const MAX_REPLICAS_ANNOTATION: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";
/// On a MachineSet: `true` stops it from creating Machines (old MachineSets of an OnDelete rollout).
pub const DISABLE_MACHINE_CREATE_ANNOTATION: &str = "cluster.x-k8s.io/disable-machine-create";
/// On a Machine: the preferred victim of the next scale down.
pub const DELETE_MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/delete-machine";
/// On a Machine: asks for remediation regardless of health checks.
pub const REMEDIATE_MACHINE_ANNOTATION: &str = "cluster.x-k8s.io/remediate-machine";
/// On a Machine: health checks leave it alone.
pub const SKIP_REMEDIATION_ANNOTATION: &str = "cluster.x-k8s.io/skip-remediation";
/// On a MachineSet or bootstrap template: preflight checks to skip, joined with commas, or `All`.
pub const SKIP_PREFLIGHT_CHECKS_ANNOTATION: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";
/// On a KubeadmControlPlane: which Machine is being remediated.
pub const REMEDIATION_IN_PROGRESS_ANNOTATION: &str = "controlplane.cluster.x-k8s.io/remediation-in-progress";
/// On a Machine: which Machine it was created to replace.
pub const REMEDIATION_FOR_ANNOTATION: &str = "controlplane.cluster.x-k8s.io/remediation-for";
/// Prefix of Machine annotations that hold deletion before the Node is drained.
pub const PRE_DRAIN_DELETE_HOOK_PREFIX: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io";
/// Prefix of Machine annotations that hold deletion before the infrastructure is deleted.
pub const PRE_TERMINATE_DELETE_HOOK_PREFIX: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io";
/// On every Machine of a KubeadmControlPlane: etcd membership is cleaned up before it goes.
pub const KCP_CLEANUP_ANNOTATION: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup";
/// On a Machine: its Node is not drained before deletion.
pub const EXCLUDE_NODE_DRAINING_ANNOTATION: &str = "machine.cluster.x-k8s.io/exclude-node-draining";
/// Taint of Nodes whose Machine belongs to an old revision; its effect is `PreferNoSchedule`.
pub const OUTDATED_REVISION_TAINT: &str = "node.cluster.x-k8s.io/outdated-revision";

// In-place updates.

/// On Machine, infrastructure Machine and bootstrap config: an in-place update is under way. The value is
/// empty. On a Machine it is set before [`PENDING_HOOKS_ANNOTATION`] and removed before it, so both must
/// be looked at.
pub const UPDATE_IN_PROGRESS_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
/// On an old MachineSet: the MachineSet that takes over its Machines instead of having them deleted.
pub const MOVE_MACHINES_TO_MACHINE_SET_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/move-machines-to-machineset";
/// On a new MachineSet: the MachineSets that may hand Machines over, sorted, joined with commas.
pub const RECEIVE_MACHINES_FROM_MACHINE_SETS_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/receive-machines-from-machinesets";
/// On a new MachineSet: Machines that arrived and are already counted, sorted, joined with commas.
pub const ACKNOWLEDGED_MOVE_ANNOTATION: &str = "in-place-updates.internal.cluster.x-k8s.io/acknowledged-move";
/// On a Machine that was moved and not yet released for its update; the value is empty.
pub const PENDING_ACKNOWLEDGE_MOVE_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/pending-acknowledge-move";
/// Who updates a Machine in place: names of ExtensionConfigs in their order, joined with commas. On a MachineSet for the
/// Machines that it hands over, on a Machine for those that are not done yet. Without it, all extensions are called.
pub const IN_PLACE_EXTENSIONS_ANNOTATION: &str = "in-place-updates.internal.cluster.x-k8s.io/extensions";
/// On a Machine whose update in place does not affect its availability, with the value `false`; on an old MachineSet for
/// the Machines that it hands over. Set with the mark that starts the update, removed with it.
pub const IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/affects-availability";
/// On a Machine whose Node is drained before its update in place, with an empty value; on an old MachineSet for the
/// Machines that it hands over.
pub const IN_PLACE_DRAIN_ANNOTATION: &str = "in-place-updates.internal.cluster.x-k8s.io/drain";
/// On a Machine whose volumes are detached before its update in place, with an empty value; on an old MachineSet for the
/// Machines that it hands over.
pub const IN_PLACE_VOLUME_DETACH_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/volume-detach";
/// On an old MachineSet: the only Machines that it hands over, joined with commas. An external updater has updated
/// them already, so that no extension is called for them.
pub const HAND_OVER_UPDATED_MACHINES_ANNOTATION: &str =
    "in-place-updates.internal.cluster.x-k8s.io/hand-over-updated-machines";
/// On a MachineDeployment or a control plane: what external updaters said, as JSON.
pub const EXTERNAL_UPDATE_ANNOTATION: &str = "in-place-updates.internal.cluster.x-k8s.io/external-update";
/// How long an update in place of a Machine may take, such as `90m`; set by users, usually in the template of Machines.
pub const IN_PLACE_DEADLINE_ANNOTATION: &str = "in-place-updates.cluster.x-k8s.io/deadline";
/// What becomes of a Machine whose update in place takes longer: `KeepTrying`, `Stop` or `Replace`.
pub const IN_PLACE_AFTER_DEADLINE_ANNOTATION: &str = "in-place-updates.cluster.x-k8s.io/after-deadline";

// General.

/// Stops the reconciliation of an object; on a Cluster `spec.paused` does the same for all it owns.
pub const PAUSED_ANNOTATION: &str = "cluster.x-k8s.io/paused";
/// On a CustomResourceDefinition of a provider: the versions of the kind that keep this contract, joined with underscores.
pub const CONTRACT_V1BETA2_LABEL: &str = "cluster.x-k8s.io/v1beta2";
/// The same for the contract before.
pub const CONTRACT_V1BETA1_LABEL: &str = "cluster.x-k8s.io/v1beta1";
/// On a CustomResourceDefinition whose objects clusterctl knows of.
pub const CLUSTERCTL_LABEL: &str = "clusterctl.cluster.x-k8s.io";
/// Type of the Secrets with the kubeconfig and the certificates of a Cluster.
pub const CLUSTER_SECRET_TYPE: &str = "cluster.x-k8s.io/secret";
/// The fewest machines of a group that an autoscaler sizes.
pub const AUTOSCALER_MIN_ANNOTATION: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size";
/// The most machines of a group that an autoscaler sizes.
pub const AUTOSCALER_MAX_ANNOTATION: &str = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size";
/// On a MachinePool whose size its provider, or an autoscaler of the provider, decides.
pub const REPLICAS_MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/replicas-managed-by";
/// Label that tells instances of Cluster API apart on one management cluster: each reconciles objects with its value.
pub const WATCH_FILTER_LABEL: &str = "cluster.x-k8s.io/watch-filter";
/// On an infrastructure object that is managed externally.
pub const MANAGED_BY_ANNOTATION: &str = "cluster.x-k8s.io/managed-by";
/// Left behind by API conversion. Never sent to extensions.
pub const CONVERSION_DATA_ANNOTATION: &str = "cluster.x-k8s.io/conversion-data";
/// Left behind by `kubectl apply`. Never sent to extensions: it repeats the whole object.
pub const LAST_APPLIED_CONFIGURATION_ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// Annotations that repeat the object that they are on: they are in no request to an extension.
pub const REPEATS_THE_OBJECT: [&str; 2] = [LAST_APPLIED_CONFIGURATION_ANNOTATION, CONVERSION_DATA_ANNOTATION];
/// Label that Kubernetes puts on every Namespace; the usual key of a namespace selector.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";
/// Label of Cluster API providers, for example `runtime-extension-<name>`.
pub const PROVIDER_LABEL: &str = "cluster.x-k8s.io/provider";

// Field managers of server-side apply.

/// Of the topology controller.
pub const TOPOLOGY_FIELD_MANAGER: &str = "capi-topology";
/// Of the MachineDeployment controller: MachineSets.
pub const MACHINE_DEPLOYMENT_FIELD_MANAGER: &str = "capi-machinedeployment";
/// Of the MachineSet controller: Machines, and `spec` of what they refer to.
pub const MACHINE_SET_FIELD_MANAGER: &str = "capi-machineset";
/// Of the MachineSet controller: labels and annotations of what Machines refer to. They change at any time, `spec` only
/// when an in-place update starts.
pub const MACHINE_SET_METADATA_FIELD_MANAGER: &str = "capi-machineset-metadata";
/// Of the MachinePool controller: Machines of pools.
pub const MACHINE_POOL_FIELD_MANAGER: &str = "machinepool-controller";
/// Of the KubeadmControlPlane controller: Machines, and `spec` of what they refer to.
pub const KUBEADM_CONTROL_PLANE_FIELD_MANAGER: &str = "capi-kubeadmcontrolplane";
/// Of the KubeadmControlPlane controller: labels and annotations of what Machines refer to.
pub const KUBEADM_CONTROL_PLANE_METADATA_FIELD_MANAGER: &str = "capi-kubeadmcontrolplane-metadata";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_versions_are_made_of_group_and_version() {
        assert_eq!(HOOKS_API_VERSION, format!("{HOOKS_GROUP}/{HOOKS_VERSION}"));
        assert_eq!(RUNTIME_API_VERSION, format!("{RUNTIME_GROUP}/v1beta2"));
        assert_eq!(CLUSTER_API_VERSION, format!("{CLUSTER_GROUP}/v1beta2"));
        assert_eq!(CONTROL_PLANE_API_VERSION, format!("{CONTROL_PLANE_GROUP}/v1beta2"));
        assert_eq!(BOOTSTRAP_API_VERSION, format!("{BOOTSTRAP_GROUP}/v1beta2"));
        assert_eq!(INFRASTRUCTURE_API_VERSION, format!("{INFRASTRUCTURE_GROUP}/v1beta2"));
        assert_eq!(ADDONS_API_VERSION, format!("{ADDONS_GROUP}/v1beta2"));
        assert_eq!(IPAM_API_VERSION, format!("{IPAM_GROUP}/v1beta2"));
    }

    #[test]
    fn the_cleanup_annotation_is_a_pre_terminate_hook() {
        assert_eq!(KCP_CLEANUP_ANNOTATION, format!("{PRE_TERMINATE_DELETE_HOOK_PREFIX}/kcp-cleanup"));
    }
}
