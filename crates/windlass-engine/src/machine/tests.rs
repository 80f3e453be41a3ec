//! A Machine on its way from nothing to available, and what it says on the way.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::cluster::{
    ContractVersionedObjectReference, Machine, MachineDeployment, MachinePhase, MachineSet,
};
use windlass_api::conditions::ConditionStatus;

use super::deletion::Step;
use super::*;
use crate::condition;
use crate::contract::{self, Contract};
use crate::referenced::Referenced;
use crate::waiting::WaitingOn;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn reference(kind: &str) -> ContractVersionedObjectReference {
    ContractVersionedObjectReference {
        api_group: "g".to_owned(),
        kind: kind.to_owned(),
        name: "m1".to_owned(),
    }
}

fn machine() -> Machine {
    serde_json::from_value(json!({
        "metadata": {"name": "m1", "namespace": "default", "generation": 1},
        "spec": {"clusterName": "c1", "version": "v1.31.0",
            "bootstrap": {"configRef": {"apiGroup": "g", "kind": "KubeadmConfig", "name": "m1"}},
            "infrastructureRef": {"apiGroup": "g", "kind": "DevMachine", "name": "m1"}},
    }))
    .unwrap()
}

fn found<T>(kind: &str, object: T) -> Referenced<T> {
    Referenced::Found { reference: reference(kind), object, deleting: false, updating: false }
}

fn bootstrap(value: Value) -> Referenced<contract::BootstrapConfig> {
    found("KubeadmConfig", contract::bootstrap_config(&value, Contract::V1Beta2))
}

fn infrastructure(value: Value) -> Referenced<contract::InfrastructureMachine> {
    found("DevMachine", contract::infrastructure_machine(&value, Contract::V1Beta2))
}

fn node(ready: &str) -> NodeSeen {
    let conditions = ["MemoryPressure", "DiskPressure", "PIDPressure"]
        .map(|type_| json!({"type": type_, "status": "False"}));
    let mut conditions = conditions.to_vec();
    conditions.push(json!({"type": "Ready", "status": ready, "message": "says the kubelet"}));
    let node: k8s_openapi::api::core::v1::Node = serde_json::from_value(json!({
        "metadata": {"name": "n1"},
        "status": {"conditions": conditions, "nodeInfo": {"kubeletVersion": "v1.31.0", "architecture": "",
            "bootID": "", "containerRuntimeVersion": "", "kernelVersion": "", "kubeProxyVersion": "",
            "machineID": "", "operatingSystem": "", "osImage": "", "systemUUID": ""}},
    }))
    .unwrap();
    NodeSeen::Found(Box::new(Node::of(&node)))
}

fn observed(machine: &Machine) -> Observed<'_> {
    Observed {
        machine,
        bootstrap: bootstrap(json!({})),
        infrastructure: infrastructure(json!({})),
        node: NodeSeen::NotSought { why: "no control plane".to_owned() },
        up_to_date: None,
        updating: None,
        deletion: None,
        waited: None,
    }
}

/// Writes a decision back as the shell does.
fn take_over(machine: &mut Machine, decision: &Decision) {
    machine.status = decision.status.clone();
    if let Some(id) = &decision.spec.provider_id {
        machine.spec.provider_id = id.clone();
    }
    if decision.spec.data_secret_name.is_some() {
        machine.spec.bootstrap.data_secret_name = decision.spec.data_secret_name.clone();
    }
}

#[test]
fn its_own_change_of_the_spec_is_observed_and_nobody_elses() {
    for (after, observed_then) in
        [(Some(8), Some(8)), (Some(9), Some(7)), (Some(7), Some(7)), (None, Some(7))]
    {
        let mut machine = machine();
        machine.metadata.generation = Some(7);
        let mut decision = decide(&observed(&machine), at(0));
        decision.spec_is_written(after);
        assert_eq!(decision.status.observed_generation, observed_then);
        let conditions = &decision.status.conditions;
        assert!(!conditions.is_empty());
        assert!(conditions.iter().all(|condition| condition.observed_generation == observed_then));
    }
}

#[test]
fn a_machine_comes_up_step_by_step_and_says_what_is_next() {
    let mut machine = machine();
    machine.spec.min_ready_seconds = Some(30);
    let data = json!({"status": {"initialization": {"dataSecretCreated": true}, "dataSecretName": "s1"}});
    let slow =
        json!({"status": {"conditions": [{"type": "Ready", "status": "False", "message": "booting"}]}});
    let there = json!({"spec": {"providerID": "p://1"}, "status": {"initialization": {"provisioned": true},
        "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
    type Change = Box<dyn Fn(&mut Observed<'_>)>;
    let steps: Vec<(Change, MachinePhase, &str)> = vec![
        (Box::new(|_| ()), MachinePhase::Pending, "waiting for KubeadmConfig m1 to make the bootstrap data"),
        (
            Box::new({
                let (data, slow) = (data.clone(), slow.clone());
                move |observed| {
                    observed.bootstrap = bootstrap(data.clone());
                    observed.infrastructure = infrastructure(slow.clone());
                }
            }),
            MachinePhase::Provisioning,
            "waiting for DevMachine m1 to be provisioned: booting",
        ),
        (
            Box::new({
                let there = there.clone();
                move |observed| {
                    observed.infrastructure = infrastructure(there.clone());
                    observed.node = NodeSeen::Absent;
                }
            }),
            MachinePhase::Provisioned,
            "waiting for a Node with spec.providerID p://1",
        ),
        (
            Box::new({
                let there = there.clone();
                move |observed| {
                    observed.infrastructure = infrastructure(there.clone());
                    observed.node = node("False");
                }
            }),
            MachinePhase::Running,
            "Node n1 is not healthy: says the kubelet",
        ),
        (
            Box::new({
                let (data, there) = (data.clone(), there.clone());
                move |observed| {
                    observed.bootstrap = bootstrap(data.clone());
                    observed.infrastructure = infrastructure(there.clone());
                    observed.node = node("True");
                }
            }),
            MachinePhase::Running,
            "ready, and available in 30s",
        ),
    ];
    for (second, (change, phase, waiting)) in steps.into_iter().enumerate() {
        let snapshot = machine.clone();
        let mut observed = observed(&snapshot);
        change(&mut observed);
        let decision = decide(&observed, at(second as i64));
        assert_eq!(decision.status.phase, Some(phase));
        let says = decision.waiting.as_ref().map(|on| on.sentence().to_string()).unwrap_or_default();
        assert!(says.starts_with(waiting), "{says}");
        take_over(&mut machine, &decision);
    }
    assert_eq!(machine.spec.provider_id, "p://1");
    assert_eq!(machine.spec.bootstrap.data_secret_name.as_deref(), Some("s1"));
    assert_eq!(machine.status.node_ref.as_ref().map(|node| node.name.as_str()), Some("n1"));
    assert!(condition::is_true(&machine.status.conditions, "Ready"));
    assert!(condition::is_false(&machine.status.conditions, "Available"));

    let mut observed = observed(&machine);
    observed.bootstrap = bootstrap(data);
    observed.infrastructure = infrastructure(there);
    observed.node = node("True");
    assert_eq!(decide(&observed, at(10)).again, Some(std::time::Duration::from_secs(24)));
    let decision = decide(&observed, at(34));
    assert!(condition::is_true(&decision.status.conditions, "Available"));
    assert_eq!((decision.waiting, decision.again), (None, None));
}

#[test]
fn deciding_twice_changes_nothing() {
    let mut machine = machine();
    for _ in 0..2 {
        let decision = decide(&observed(&machine.clone()), at(5));
        take_over(&mut machine, &decision);
    }
    let again = decide(&observed(&machine), at(500));
    assert_eq!(again.status, machine.status);
    assert!(again.spec.is_empty());
}

#[test]
fn a_provider_that_breaks_the_contract_is_named() {
    let machine = machine();
    let mut observed = observed(&machine);
    observed.bootstrap = bootstrap(json!({"status": {"initialization": {"dataSecretCreated": true}}}));
    let says = decide(&observed, at(0)).waiting.unwrap().sentence().to_string();
    assert_eq!(says, "KubeadmConfig m1 says it is done but does not set status.dataSecretName");
    observed.bootstrap = Referenced::Missing(reference("KubeadmConfig"));
    let decision = decide(&observed, at(0));
    let ready = condition::find(&decision.status.conditions, "BootstrapConfigReady").unwrap();
    assert_eq!(ready.reason, "ObjectDoesNotExist");
}

#[test]
fn what_others_say_counts_and_is_not_written() {
    let mut machine = machine();
    let unhealthy = condition::Finding::no("HealthCheckSucceeded", "UnhealthyNode").because("no heartbeat");
    condition::set(&mut machine.status.conditions, unhealthy, None, at(0));
    let decision = decide(&observed(&machine), at(0));
    assert!(condition::find(&decision.status.conditions, "HealthCheckSucceeded").is_none());
    let ready = condition::find(&decision.status.conditions, "Ready").unwrap();
    assert!(ready.message.contains("* HealthCheckSucceeded: no heartbeat"), "{}", ready.message);
}

#[test]
fn a_short_silence_of_the_cluster_changes_nothing_about_its_nodes() {
    let mut machine = machine();
    let snapshot = machine.clone();
    let mut seen = observed(&snapshot);
    seen.node = node("True");
    let decision = decide(&seen, at(0));
    take_over(&mut machine, &decision);
    let mut silent = observed(&machine);
    silent.node = NodeSeen::NoAnswer { why: "refused".to_owned(), since: at(10) };
    let status = |decision: &Decision| condition::status(&decision.status.conditions, "NodeHealthy");
    assert_eq!(status(&decide(&silent, at(60))), Some(ConditionStatus::True));
    let late = decide(&silent, at(400));
    assert_eq!(status(&late), Some(ConditionStatus::Unknown));
    let healthy = condition::find(&late.status.conditions, "NodeHealthy").unwrap();
    assert_eq!(healthy.reason, "ConnectionDown");
    assert!(healthy.message.contains("refused"), "{}", healthy.message);
}

#[test]
fn an_update_and_a_deletion_show_in_phase_and_conditions() {
    let mut machine = machine();
    machine.metadata.annotations = Some(
        [(windlass_api::names::UPDATE_IN_PROGRESS_ANNOTATION.to_owned(), String::new())]
            .into_iter()
            .collect(),
    );
    let mut updating = observed(&machine);
    updating.updating = Some(Updating::waiting("rebooting"));
    let decision = decide(&updating, at(0));
    assert_eq!(decision.status.phase, Some(MachinePhase::Updating));
    let condition = condition::find(&decision.status.conditions, "Updating").unwrap();
    assert_eq!(condition.message, "In-place update in progress: rebooting");

    machine.metadata.deletion_timestamp = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(0)));
    let mut deleting = observed(&machine);
    deleting.deletion = Some(Step::Wait(WaitingOn::PreDrainHooks(vec!["hook/a".to_owned()])));
    let decision = decide(&deleting, at(0));
    assert_eq!(decision.status.phase, Some(MachinePhase::Deleting));
    let condition = condition::find(&decision.status.conditions, "Deleting").unwrap();
    assert_eq!(condition.reason, "WaitingForPreDrainHook");
    assert!(condition.message.contains("hook/a"));

    deleting.deletion = Some(Step::BeginDrain);
    let begun = decide(&deleting, at(7)).status.deletion.unwrap();
    assert_eq!(begun.node_drain_start_time.map(|time| time.0), Some(at(7)));
}

#[test]
fn a_worker_is_up_to_date_when_its_node_is_too() {
    let mut machine = machine();
    let template = json!({"spec": {"clusterName": "c1", "version": "v1.31.0",
        "infrastructureRef": {"apiGroup": "g", "kind": "DevMachineTemplate", "name": "t1"}}});
    let set: MachineSet =
        serde_json::from_value(json!({"metadata": {"creationTimestamp": "1970-01-01T00:00:10Z"},
        "spec": {"template": template}}))
        .unwrap();
    let deployment = |version: &str, infrastructure: &str, after: Option<&str>| -> MachineDeployment {
        let mut template = template.clone();
        template["spec"]["version"] = version.into();
        template["spec"]["infrastructureRef"]["name"] = infrastructure.into();
        let spec = json!({"template": template, "rollout": {"after": after}});
        serde_json::from_value(json!({"spec": spec})).unwrap()
    };
    let is = |machine: &Machine, deployment: &MachineDeployment, updating: bool| {
        up_to_date(machine, WorkerRevision { machine_set: &set, deployment }, updating, at(100))
    };
    let same = deployment("v1.31.0", "t1", None);
    assert_eq!(is(&machine, &same, false), UpToDate::Yes);
    assert_eq!(is(&machine, &same, true), UpToDate::Updating(Vec::new()));
    let other = is(&machine, &deployment("v1.32.0", "t2", None), false);
    let lines = ["* Version v1.31.0, v1.32.0 required", "* DevMachine is not up-to-date"].map(str::to_owned);
    assert_eq!(other, UpToDate::No(lines.to_vec()));
    let expired = deployment("v1.31.0", "t1", Some("1970-01-01T00:01:00Z"));
    assert!(matches!(is(&machine, &expired, false), UpToDate::No(_)));
    let later = deployment("v1.31.0", "t1", Some("1970-01-01T00:02:00Z"));
    assert_eq!(is(&machine, &later, false), UpToDate::Yes);
    machine.status.node_info = Some(k8s_openapi::api::core::v1::NodeSystemInfo {
        kubelet_version: "v1.30.0".to_owned(),
        ..Default::default()
    });
    assert!(matches!(is(&machine, &same, false), UpToDate::Updating(lines) if lines[0].contains("v1.30.0")));
}
