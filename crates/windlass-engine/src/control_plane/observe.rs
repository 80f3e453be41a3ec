//! What a decision looks at, from the objects of the API.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube_core::ResourceExt;
use serde_json::Value;
use windlass_api::Hook;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::conditions::{DELETING, HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED};
use windlass_api::control_plane::{
    KubeadmControlPlane, KubeadmControlPlaneRollingUpdate, KubeadmControlPlaneRolloutStrategyType,
};
use windlass_api::names::{
    DELETE_MACHINE_ANNOTATION, KCP_CLEANUP_ANNOTATION, PRE_TERMINATE_DELETE_HOOK_PREFIX,
    REMEDIATE_MACHINE_ANNOTATION, REMEDIATION_FOR_ANNOTATION, REMEDIATION_IN_PROGRESS_ANNOTATION,
    UPDATE_IN_PROGRESS_ANNOTATION, UPGRADE_STEP_ANNOTATION,
};

use super::etcd::{Etcd, EtcdMember};
use super::observed::{
    Component, Health, MachineDeletion, Observed, ObservedMachine, Strategy, TopologyStep,
};
use super::outdated::{Present, Template, Wanted, outdated};
use super::remediation::{RemediationPolicy, RemediationRecord};
use crate::annotated_strategy::Annotated;
use crate::condition;
use crate::external_update::ExternalUpdate;
use crate::in_place::InPlaceAnswer;
use crate::pending_hooks::PendingHooks;

/// The objects that a control plane is observed from.
#[derive(Clone, Debug)]
pub struct Inputs<'a> {
    /// The control plane.
    pub control_plane: &'a KubeadmControlPlane,
    /// Its Cluster.
    pub cluster: &'a Cluster,
    /// Its Machines.
    pub machines: Vec<MachineInputs<'a>>,
    /// All cluster certificates are there.
    pub certificates_available: bool,
    /// The cluster was initialised, as known before or found out just now.
    pub initialized: bool,
    /// The members of etcd, if they could be listed.
    pub etcd_members: Option<Vec<EtcdMember>>,
    /// Machines and pools of the Cluster that are not of this control plane.
    pub workers: Vec<String>,
}

/// What a Machine is observed from.
#[derive(Clone, Debug)]
pub struct MachineInputs<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// `spec` of its KubeadmConfig, if that could be read.
    pub kubeadm_config: Option<Value>,
    /// Name and `<kind>.<group>` of the template that its infrastructure was cloned from, if that could be read.
    pub template: Option<(String, String)>,
    /// Health of its components.
    pub components: BTreeMap<Component, Health>,
    /// Whether it can be updated in place.
    pub in_place: InPlaceAnswer,
}

/// Observes a control plane.
pub fn observe(inputs: Inputs<'_>, now: Timestamp) -> Observed {
    let Inputs { control_plane, cluster, machines, etcd_members, .. } = inputs;
    let spec = &control_plane.spec;
    // A specification that was read always serialises.
    let kubeadm_config = serde_json::to_value(&spec.kubeadm_config_spec).unwrap_or_default();
    let reference = &spec.machine_template.spec.infrastructure_ref;
    let group_kind = reference.group_kind();
    let wanted = Wanted {
        version: &spec.version,
        kubeadm_config: &kubeadm_config,
        template: Template { name: &reference.name, group_kind: &group_kind },
        rollout_after: spec.rollout.after.as_ref().map(|time| time.0),
        certificates_expiry_days: spec.rollout.before.certificates_expiry_days.map(i64::from),
    };
    let annotations = control_plane.metadata.annotations.as_ref();
    Observed {
        version: spec.version.clone(),
        replicas: replicas(control_plane),
        strategy: strategy(control_plane),
        deleting: control_plane.metadata.deletion_timestamp.is_some(),
        infrastructure_provisioned: cluster.status.initialization.infrastructure_provisioned == Some(true),
        endpoint: cluster.spec.control_plane_endpoint.is_set(),
        certificates_available: inputs.certificates_available,
        initialized: inputs.initialized,
        topology: topology(cluster),
        failure_domains: cluster
            .status
            .failure_domains
            .iter()
            .filter(|domain| domain.control_plane == Some(true))
            .map(|domain| domain.name.clone())
            .collect(),
        etcd: if is_etcd_external(control_plane) {
            Etcd::External
        } else {
            Etcd::Managed { members: etcd_members }
        },
        remediation: policy(control_plane),
        remediation_in_progress: annotations
            .and_then(|all| all.get(REMEDIATION_IN_PROGRESS_ANNOTATION))
            .and_then(|value| RemediationRecord::from_annotation(value)),
        external_update: ExternalUpdate::NotAsked,
        machines: machines.into_iter().map(|machine| observe_machine(machine, &wanted, now)).collect(),
        workers: inputs.workers,
    }
}

/// `spec.replicas`, with its default.
pub fn replicas(control_plane: &KubeadmControlPlane) -> u32 {
    control_plane.spec.replicas.map_or(1, |replicas| u32::try_from(replicas).unwrap_or(0))
}

/// Whether etcd is not on the Machines of the control plane.
pub fn is_etcd_external(control_plane: &KubeadmControlPlane) -> bool {
    let configuration = control_plane.spec.kubeadm_config_spec.cluster_configuration.as_ref();
    configuration
        .and_then(|configuration| configuration.etcd.as_ref())
        .is_some_and(|etcd| etcd.external.is_some())
}

fn strategy(control_plane: &KubeadmControlPlane) -> Strategy {
    let strategy = &control_plane.spec.rollout.strategy;
    let annotated = Annotated::of(control_plane.metadata.annotations.as_ref());
    match strategy.type_ {
        KubeadmControlPlaneRolloutStrategyType::External => {
            Strategy::External { fallback_surge: strategy.fallback_rolling.as_ref().map(max_surge) }
        }
        _ if annotated.external => Strategy::External {
            fallback_surge: annotated
                .falls_back
                .then(|| strategy.rolling_update.as_ref().map_or(1, max_surge)),
        },
        _ => Strategy::RollingUpdate { max_surge: strategy.rolling_update.as_ref().map_or(1, max_surge) },
    }
}

fn max_surge(limits: &KubeadmControlPlaneRollingUpdate) -> u32 {
    let number = match &limits.max_surge {
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(text)) => text.parse().ok(),
        None => None,
    };
    // What admission would have refused is read as the default, which is the safer of the two values.
    number.and_then(|number| u32::try_from(number).ok()).unwrap_or(1)
}

fn topology(cluster: &Cluster) -> Option<TopologyStep> {
    let topology = cluster.spec.topology.as_ref()?;
    let annotations = cluster.metadata.annotations.as_ref();
    Some(TopologyStep {
        version: topology.version.clone(),
        // Upstream leaves it empty when there is no step.
        upgrade_step: annotations
            .and_then(|all| all.get(UPGRADE_STEP_ANNOTATION))
            .filter(|step| !step.is_empty())
            .cloned(),
    })
}

fn policy(control_plane: &KubeadmControlPlane) -> RemediationPolicy {
    let spec = &control_plane.spec.remediation;
    let default = RemediationPolicy::default();
    let seconds = |seconds: i32| SignedDuration::from_secs(seconds.into());
    RemediationPolicy {
        max_retry: spec.max_retry.and_then(|retries| u32::try_from(retries).ok()),
        retry_period: spec.retry_period_seconds.map_or(default.retry_period, seconds),
        min_healthy_period: spec.min_healthy_period_seconds.map_or(default.min_healthy_period, seconds),
    }
}

fn observe_machine(inputs: MachineInputs<'_>, wanted: &Wanted<'_>, now: Timestamp) -> ObservedMachine {
    let MachineInputs { machine, kubeadm_config, template, components, in_place } = inputs;
    let (metadata, spec, status) = (&machine.metadata, &machine.spec, &machine.status);
    let created = metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
    let given = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let version = given(&spec.version);
    let present = Present {
        created,
        version: version.as_deref(),
        certificates_expire: status.certificates_expiry_date.as_ref().map(|time| time.0),
        kubeadm_config: kubeadm_config.as_ref(),
        template: template.as_ref().map(|(name, group_kind)| Template { name, group_kind }),
    };
    ObservedMachine {
        name: machine.name_any(),
        created,
        outdated: outdated(&present, wanted, now),
        version: version.clone(),
        failure_domain: given(&spec.failure_domain).or_else(|| given(&status.failure_domain)),
        node: status.node_ref.as_ref().map(|node| node.name.clone()).filter(|name| !name.is_empty()),
        deletion: metadata.deletion_timestamp.as_ref().map(|since| MachineDeletion {
            since: since.0,
            has_cleanup_hook: annotation(KCP_CLEANUP_ANNOTATION).is_some(),
            at_pre_terminate: waits_for_pre_terminate_hook(&status.conditions),
            other_hooks: metadata
                .annotations
                .iter()
                .flat_map(|all| all.keys())
                .filter(|key| key.starts_with(PRE_TERMINATE_DELETE_HOOK_PREFIX))
                .filter(|key| *key != KCP_CLEANUP_ANNOTATION)
                .cloned()
                .collect(),
        }),
        marked_for_deletion: annotation(DELETE_MACHINE_ANNOTATION).is_some(),
        marked_for_remediation: annotation(REMEDIATE_MACHINE_ANNOTATION).is_some(),
        remediation_requested: condition::is_false(&status.conditions, HEALTH_CHECK_SUCCEEDED)
            && condition::is_false(&status.conditions, OWNER_REMEDIATED),
        remediation_for: annotation(REMEDIATION_FOR_ANNOTATION)
            .and_then(|value| RemediationRecord::from_annotation(value)),
        update_in_progress: annotation(UPDATE_IN_PROGRESS_ANNOTATION).is_some(),
        update_hook_pending: PendingHooks::of(metadata).contains(Hook::UpdateMachine),
        in_place,
        components,
    }
}

fn waits_for_pre_terminate_hook(conditions: &[Condition]) -> bool {
    condition::find(conditions, DELETING)
        .is_some_and(|deleting| deleting.status == "True" && deleting.reason == "WaitingForPreTerminateHook")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::fixture::at;
    use super::*;

    fn control_plane(spec: Value) -> KubeadmControlPlane {
        serde_json::from_value(json!({"metadata": {"name": "cp"}, "spec": spec})).unwrap()
    }

    fn seen(spec: Value, cluster: Value, machines: &[Machine]) -> Observed {
        let (control_plane, cluster) = (control_plane(spec), serde_json::from_value(cluster).unwrap());
        let machines = machines.iter().map(|machine| MachineInputs {
            machine,
            kubeadm_config: None,
            template: None,
            components: BTreeMap::new(),
            in_place: Err(crate::in_place::WhyNotInPlace::NotAsked),
        });
        let inputs = Inputs {
            control_plane: &control_plane,
            cluster: &cluster,
            machines: machines.collect(),
            certificates_available: true,
            initialized: true,
            etcd_members: None,
            workers: Vec::new(),
        };
        observe(inputs, at(1000))
    }

    #[test]
    fn strategies_are_read_with_their_defaults() {
        let strategy =
            |strategy: Value| seen(json!({"rollout": {"strategy": strategy}}), json!({}), &[]).strategy;
        for (written, expected) in [
            (json!({}), Strategy::RollingUpdate { max_surge: 1 }),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}}),
                Strategy::RollingUpdate { max_surge: 0 },
            ),
            (
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "0"}}),
                Strategy::RollingUpdate { max_surge: 0 },
            ),
            (json!({"type": "External"}), Strategy::External { fallback_surge: None }),
            (
                json!({"type": "External", "fallbackRolling": {}}),
                Strategy::External { fallback_surge: Some(1) },
            ),
            (
                json!({"type": "External", "fallbackRolling": {"maxSurge": 0}}),
                Strategy::External { fallback_surge: Some(0) },
            ),
        ] {
            assert_eq!(strategy(written.clone()), expected, "{written}");
        }
    }

    #[test]
    fn the_cluster_says_where_and_which_version() {
        let cluster = json!({
            "metadata": {"annotations": {"topology.internal.cluster.x-k8s.io/upgrade-step": "v1.32.0"}},
            "spec": {"topology": {"version": "v1.33.0"}, "controlPlaneEndpoint": {"host": "h", "port": 6443}},
            "status": {"initialization": {"infrastructureProvisioned": true}, "failureDomains": [
                {"name": "a", "controlPlane": true}, {"name": "b", "controlPlane": false}, {"name": "c"}]},
        });
        let observed = seen(json!({"replicas": 3, "version": "v1.32.0"}), cluster, &[]);
        assert!(observed.infrastructure_provisioned && observed.endpoint);
        assert_eq!(observed.failure_domains, ["a".to_owned()].into());
        assert_eq!(
            observed.topology,
            Some(TopologyStep { version: "v1.33.0".to_owned(), upgrade_step: Some("v1.32.0".to_owned()) })
        );
        assert_eq!(observed.replicas, 3);
        assert_eq!(seen(json!({}), json!({}), &[]).replicas, 1);
    }

    #[test]
    fn an_external_etcd_is_not_on_the_machines() {
        let external = json!({"kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"external": {"endpoints": ["e"]}}}}});
        assert_eq!(seen(external, json!({}), &[]).etcd, Etcd::External);
        assert!(seen(json!({}), json!({}), &[]).etcd.is_managed());
    }

    #[test]
    fn marks_and_conditions_of_a_machine_are_read() {
        let condition = |type_: &str, status: &str, reason: &str| {
            json!({"type": type_, "status": status, "reason": reason, "message": "",
                   "lastTransitionTime": "1970-01-01T00:00:00Z"})
        };
        let machine: Machine = serde_json::from_value(json!({
            "metadata": {
                "name": "m1", "creationTimestamp": "1970-01-01T00:00:10Z", "deletionTimestamp": "1970-01-01T00:00:20Z",
                "annotations": {
                    "cluster.x-k8s.io/delete-machine": "",
                    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": "",
                    "pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup": "me",
                    "runtime.cluster.x-k8s.io/pending-hooks": "AfterX,UpdateMachine",
                },
            },
            "spec": {"version": "v1.32.0"},
            "status": {
                "nodeRef": {"name": "n1"}, "failureDomain": "a",
                "conditions": [condition("Deleting", "True", "WaitingForPreTerminateHook"),
                    condition("HealthCheckSucceeded", "False", "UnhealthyNode"),
                    condition("OwnerRemediated", "False", "WaitingForRemediation")],
            },
        }))
        .unwrap();
        let observed = seen(json!({"version": "v1.32.0"}), json!({}), &[machine]);
        let machine = &observed.machines[0];
        assert_eq!((machine.created, machine.node.as_deref()), (at(10), Some("n1")));
        assert_eq!(machine.failure_domain.as_deref(), Some("a"));
        assert!(machine.marked_for_deletion && machine.remediation_requested && machine.update_hook_pending);
        assert!(!machine.marked_for_remediation && !machine.update_in_progress);
        assert_eq!(
            machine.deletion,
            Some(MachineDeletion {
                since: at(20),
                has_cleanup_hook: true,
                at_pre_terminate: true,
                other_hooks: vec!["pre-terminate.delete.hook.machine.cluster.x-k8s.io/backup".to_owned()],
            })
        );
        assert_eq!(machine.outdated, []);
    }
}
