//! The Machines that are made, and what of them is kept in step without a rollout.
//!
//! Intents have only what the control plane has an opinion on. They are applied, so that what is taken out of an intent
//! is taken off the object, and what others wrote stays.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::ResourceExt;
use serde_json::{Value, json};
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{
    Bootstrap, ConditionGate, ContractVersionedObjectReference, Machine, MachineSpec,
};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    BOOTSTRAP_GROUP, CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, CONTROL_PLANE_NAME_LABEL,
    KCP_CLEANUP_ANNOTATION, REMEDIATION_FOR_ANNOTATION,
};

use super::kubeadm_config::{self, Form};
use super::observe::is_etcd_external;
use super::observed::Component;
use crate::hash::label_value;

/// A Machine that is to be made.
#[derive(Clone, Debug)]
pub struct NewMachine<'a> {
    /// Its name, which its KubeadmConfig and its infrastructure have too.
    pub name: &'a str,
    /// Where it goes.
    pub failure_domain: Option<&'a str>,
    /// Value of its annotation `remediation-for`.
    pub remediation_for: Option<String>,
}

/// Labels of everything that belongs to a Machine of this control plane.
pub fn labels(control_plane: &KubeadmControlPlane, cluster: &str) -> BTreeMap<String, String> {
    let mut labels = control_plane.spec.machine_template.metadata.labels.clone();
    labels.insert(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned());
    labels.insert(CONTROL_PLANE_LABEL.to_owned(), String::new());
    labels.insert(CONTROL_PLANE_NAME_LABEL.to_owned(), label_value(&control_plane.name_any()));
    labels
}

/// `status.selector`: what finds the Machines of this control plane.
pub fn selector(control_plane: &KubeadmControlPlane, cluster: &str) -> String {
    format!(
        "{CLUSTER_NAME_LABEL}={cluster},{CONTROL_PLANE_LABEL}=,{CONTROL_PLANE_NAME_LABEL}={}",
        label_value(&control_plane.name_any())
    )
}

/// The intent for a Machine that does not exist yet.
pub fn new_machine(
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    owner: OwnerReference,
    new: &NewMachine<'_>,
) -> Machine {
    let infrastructure = &control_plane.spec.machine_template.spec.infrastructure_ref;
    let kind = infrastructure.kind.strip_suffix("Template").unwrap_or(&infrastructure.kind);
    let reference = |api_group: &str, kind: &str| ContractVersionedObjectReference {
        api_group: api_group.to_owned(),
        kind: kind.to_owned(),
        name: new.name.to_owned(),
    };
    let mut machine = Machine::new(
        new.name,
        MachineSpec {
            cluster_name: cluster.to_owned(),
            bootstrap: Bootstrap {
                config_ref: Some(reference(BOOTSTRAP_GROUP, KubeadmConfig::KIND)),
                ..Bootstrap::default()
            },
            infrastructure_ref: reference(&infrastructure.api_group, kind),
            version: control_plane.spec.version.clone(),
            failure_domain: new.failure_domain.unwrap_or_default().to_owned(),
            ..MachineSpec::default()
        },
    );
    machine.metadata.namespace.clone_from(&control_plane.metadata.namespace);
    in_step(&mut machine, control_plane, cluster, owner);
    if let Some(record) = &new.remediation_for {
        annotate(&mut machine, REMEDIATION_FOR_ANNOTATION, record.clone());
    }
    machine
}

/// The intent for a Machine that exists: what needs no rollout is as the control plane wants it now, everything else as
/// it is. Its UID is in it, so that a Machine that goes meanwhile is not made anew.
pub fn existing_machine(
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    owner: OwnerReference,
    existing: &Machine,
) -> Machine {
    let name = existing.name_any();
    let mut machine = Machine::new(
        name,
        MachineSpec {
            cluster_name: existing.spec.cluster_name.clone(),
            bootstrap: Bootstrap {
                config_ref: existing.spec.bootstrap.config_ref.clone(),
                ..Bootstrap::default()
            },
            infrastructure_ref: existing.spec.infrastructure_ref.clone(),
            version: existing.spec.version.clone(),
            failure_domain: existing.spec.failure_domain.clone(),
            ..MachineSpec::default()
        },
    );
    machine.metadata.namespace.clone_from(&existing.metadata.namespace);
    machine.metadata.uid.clone_from(&existing.metadata.uid);
    in_step(&mut machine, control_plane, cluster, owner);
    let gates = existing.spec.readiness_gates.iter();
    let wanted = std::mem::take(&mut machine.spec.readiness_gates);
    let is_wanted = |gate: &ConditionGate| wanted.iter().any(|one| one.condition_type == gate.condition_type);
    let kept =
        gates.filter(|gate| UPSTREAMS_GATES.contains(&gate.condition_type.as_str()) && !is_wanted(gate));
    machine.spec.readiness_gates = kept.cloned().chain(wanted.iter().cloned()).collect();
    let record = existing.metadata.annotations.as_ref().and_then(|all| all.get(REMEDIATION_FOR_ANNOTATION));
    if let Some(record) = record {
        annotate(&mut machine, REMEDIATION_FOR_ANNOTATION, record.clone());
    }
    machine
}

/// The intent for a Machine that is updated in place: as [`existing_machine`], with the version that is wanted.
pub fn updated_machine(
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    owner: OwnerReference,
    existing: &Machine,
) -> Machine {
    let mut machine = existing_machine(control_plane, cluster, owner, existing);
    machine.spec.version.clone_from(&control_plane.spec.version);
    machine
}

/// The KubeadmConfig of a new Machine, for the manager of its specification.
pub fn kubeadm_config(
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    owner: OwnerReference,
    name: &str,
    form: Form,
) -> Value {
    // A specification that was read always serialises.
    let spec = serde_json::to_value(&control_plane.spec.kubeadm_config_spec).unwrap_or_default();
    json!({
        "apiVersion": KubeadmConfig::API_VERSION,
        "kind": KubeadmConfig::KIND,
        "metadata": {
            "name": name,
            "namespace": control_plane.metadata.namespace,
            "labels": {CLUSTER_NAME_LABEL: cluster},
            "ownerReferences": [owner],
        },
        "spec": kubeadm_config::for_machine(&spec, form, &control_plane.spec.version),
    })
}

/// Gates that upstream's releases give to Machines of control planes, in addition to ours. They stay where they are: a Machine
/// that is taken over is not written for them, and is ready as long as upstream has found it so.
const UPSTREAMS_GATES: [&str; 1] = ["NodeKubeadmLabelsAndTaintsSet"];

/// What needs no rollout.
fn in_step(machine: &mut Machine, control_plane: &KubeadmControlPlane, cluster: &str, owner: OwnerReference) {
    let template = &control_plane.spec.machine_template;
    let gates = Component::ALL
        .into_iter()
        .filter(|component| !component.is_etcd() || !is_etcd_external(control_plane))
        .map(|component| ConditionGate { condition_type: component.condition().to_owned(), polarity: None });
    let mut readiness_gates: Vec<ConditionGate> = gates.collect();
    for gate in &template.spec.readiness_gates {
        if !readiness_gates.iter().any(|known| known.condition_type == gate.condition_type) {
            readiness_gates.push(gate.clone());
        }
    }
    machine.spec.readiness_gates = readiness_gates;
    machine.spec.deletion = template.spec.deletion;
    machine.spec.taints.clone_from(&template.spec.taints);
    machine.metadata = ObjectMeta {
        labels: Some(labels(control_plane, cluster)),
        annotations: Some(template.metadata.annotations.clone()),
        owner_references: Some(vec![owner]),
        ..std::mem::take(&mut machine.metadata)
    };
    annotate(machine, KCP_CLEANUP_ANNOTATION, String::new());
}

fn annotate(machine: &mut Machine, key: &str, value: String) {
    machine.metadata.annotations.get_or_insert_default().insert(key.to_owned(), value);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control_plane() -> KubeadmControlPlane {
        serde_json::from_value(json!({
            "metadata": {"name": "cp", "namespace": "ns", "uid": "u1"},
            "spec": {
                "version": "v1.33.0",
                "machineTemplate": {
                    "metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
                    "spec": {
                        "infrastructureRef": {"apiGroup": "infra.io", "kind": "DevMachineTemplate", "name": "t1"},
                        "deletion": {"nodeDrainTimeoutSeconds": 30},
                        "readinessGates": [{"conditionType": "Mine"}, {"conditionType": "APIServerPodHealthy"}],
                    },
                },
            },
        }))
        .unwrap()
    }

    fn owner() -> OwnerReference {
        OwnerReference {
            api_version: KubeadmControlPlane::API_VERSION.to_owned(),
            kind: KubeadmControlPlane::KIND.to_owned(),
            name: "cp".to_owned(),
            uid: "u1".to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    #[test]
    fn a_new_machine_points_to_what_is_made_with_it() {
        let new = NewMachine {
            name: "cp-abcde",
            failure_domain: Some("a"),
            remediation_for: Some("{}".to_owned()),
        };
        let machine = new_machine(&control_plane(), "c1", owner(), &new);
        let written = serde_json::to_value(&machine).unwrap();
        assert_eq!(
            written,
            json!({
                "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
                "metadata": {
                    "name": "cp-abcde", "namespace": "ns",
                    "labels": {"team": "a", "cluster.x-k8s.io/cluster-name": "c1",
                        "cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/control-plane-name": "cp"},
                    "annotations": {"note": "b", "controlplane.cluster.x-k8s.io/remediation-for": "{}",
                        "pre-terminate.delete.hook.machine.cluster.x-k8s.io/kcp-cleanup": ""},
                    "ownerReferences": [{"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2",
                        "kind": "KubeadmControlPlane", "name": "cp", "uid": "u1", "controller": true,
                        "blockOwnerDeletion": true}],
                },
                "spec": {
                    "clusterName": "c1", "version": "v1.33.0", "failureDomain": "a",
                    "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig",
                        "name": "cp-abcde"}},
                    "infrastructureRef": {"apiGroup": "infra.io", "kind": "DevMachine", "name": "cp-abcde"},
                    "deletion": {"nodeDrainTimeoutSeconds": 30},
                    "readinessGates": [{"conditionType": "APIServerPodHealthy"},
                        {"conditionType": "ControllerManagerPodHealthy"}, {"conditionType": "SchedulerPodHealthy"},
                        {"conditionType": "EtcdPodHealthy"}, {"conditionType": "EtcdMemberHealthy"},
                        {"conditionType": "Mine"}],
                },
            })
        );
    }

    #[test]
    fn an_existing_machine_keeps_what_only_a_rollout_changes() {
        let mut control_plane = control_plane();
        let new =
            NewMachine { name: "m1", failure_domain: Some("a"), remediation_for: Some("{}".to_owned()) };
        let mut existing = new_machine(&control_plane, "c1", owner(), &new);
        existing.metadata.uid = Some("u2".to_owned());
        existing.spec.provider_id = "set by somebody else".to_owned();
        control_plane.spec.version = "v1.34.0".to_owned();
        control_plane.spec.machine_template.spec.infrastructure_ref.name = "t2".to_owned();
        control_plane.spec.machine_template.spec.deletion.node_drain_timeout_seconds = Some(60);
        control_plane.spec.machine_template.metadata.labels.insert("team".to_owned(), "z".to_owned());

        let intent = existing_machine(&control_plane, "c1", owner(), &existing);
        assert_eq!(intent.metadata.uid.as_deref(), Some("u2"));
        assert_eq!(intent.spec.version, "v1.33.0");
        assert_eq!(intent.spec.infrastructure_ref, existing.spec.infrastructure_ref);
        assert_eq!(intent.spec.provider_id, "", "no opinion on it");
        assert_eq!(intent.spec.deletion.node_drain_timeout_seconds, Some(60));
        let metadata = intent.metadata;
        assert_eq!(metadata.labels.unwrap()["team"], "z");
        assert_eq!(metadata.annotations.unwrap()[REMEDIATION_FOR_ANNOTATION], "{}");
    }

    #[test]
    fn a_gate_of_upstream_stays_on_its_machine_and_any_other_goes() {
        let control_plane = control_plane();
        let new = NewMachine { name: "m1", failure_domain: None, remediation_for: None };
        let ours = new_machine(&control_plane, "c1", owner(), &new);
        let mut existing = ours.clone();
        let gate = |name: &str| ConditionGate { condition_type: name.to_owned(), polarity: None };
        let theirs = [gate("NodeKubeadmLabelsAndTaintsSet"), gate("TakenOutOfTheControlPlane")];
        existing.spec.readiness_gates.splice(0..0, theirs.clone());
        let intent = existing_machine(&control_plane, "c1", owner(), &existing);
        let expected: Vec<ConditionGate> =
            theirs[..1].iter().chain(&ours.spec.readiness_gates).cloned().collect();
        assert_eq!(intent.spec.readiness_gates, expected);
    }

    #[test]
    fn an_external_etcd_has_no_gates() {
        let mut control_plane = control_plane();
        control_plane.spec.kubeadm_config_spec = serde_json::from_value(
            json!({"clusterConfiguration": {"etcd": {"external": {"endpoints": ["e"]}}}}),
        )
        .unwrap();
        let new = NewMachine { name: "m1", failure_domain: None, remediation_for: None };
        let machine = new_machine(&control_plane, "c1", owner(), &new);
        let gates: Vec<_> =
            machine.spec.readiness_gates.iter().map(|gate| gate.condition_type.as_str()).collect();
        assert_eq!(
            gates,
            ["APIServerPodHealthy", "ControllerManagerPodHealthy", "SchedulerPodHealthy", "Mine"]
        );
    }

    #[test]
    fn a_kubeadm_config_is_made_for_its_machine() {
        let config = kubeadm_config(&control_plane(), "c1", owner(), "m1", Form::Join);
        assert_eq!(config["metadata"]["name"], "m1");
        assert_eq!(config["spec"]["joinConfiguration"], json!({"controlPlane": {}}));
        assert_eq!(
            config["spec"]["clusterConfiguration"]["featureGates"]["ControlPlaneKubeletLocalMode"],
            json!(true)
        );
    }

    #[test]
    fn long_names_still_make_labels() {
        let mut control_plane = control_plane();
        control_plane.metadata.name = Some("x".repeat(80));
        let value = &labels(&control_plane, "c1")[CONTROL_PLANE_NAME_LABEL];
        assert!(value.starts_with("hash_") && value.len() <= 63, "{value}");
        assert!(selector(&control_plane, "c1").ends_with(value.as_str()));
    }
}
