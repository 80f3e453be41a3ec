use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use windlass_api::cluster::{ContractVersionedObjectReference, MachinePool, MachinePoolPhase};
use windlass_api::conditions as types;

use super::*;
use crate::condition;
use crate::contract::{
    BootstrapConfig, Contract, InfrastructureMachinePool, bootstrap_config, infrastructure_machine_pool,
};
use crate::machine::Referenced;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_767_268_800 + second).unwrap()
}

fn reference(kind: &str) -> ContractVersionedObjectReference {
    ContractVersionedObjectReference { api_group: "g".into(), kind: kind.into(), name: "x".into() }
}

fn found<T>(kind: &str, object: T) -> Referenced<T> {
    Referenced::Found { reference: reference(kind), object, deleting: false, updating: false }
}

fn pool(extra: Value) -> MachinePool {
    let mut value = json!({
        "metadata": {"name": "mp", "generation": 2},
        "spec": {"clusterName": "c", "replicas": 2, "template": {"spec": {
            "version": "v1.33.0",
            "bootstrap": {"configRef": {"apiGroup": "g", "kind": "Config", "name": "x"}},
        }}},
    });
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn node(name: &str, id: &str, version: &str, ready: &str) -> Node {
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name},
        "spec": {"providerID": id},
        "status": {
            "nodeInfo": {
                "kubeletVersion": version, "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": "",
            },
            "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(0)}],
        },
    }))
    .unwrap()
}

fn config(value: Value) -> Referenced<BootstrapConfig> {
    found("Config", bootstrap_config(&value, Contract::V1Beta2))
}

fn infrastructure(value: Value) -> Referenced<InfrastructureMachinePool> {
    found("Pool", infrastructure_machine_pool(&value, Contract::V1Beta2))
}

fn created() -> Value {
    json!({"status": {"initialization": {"dataSecretCreated": true}, "dataSecretName": "data-2"}})
}

fn provisioned() -> Value {
    json!({
        "spec": {"providerIDList": ["id://a", "id://b"]},
        "status": {"initialization": {"provisioned": true}, "replicas": 2},
    })
}

#[test]
fn a_pool_comes_up_step_by_step() {
    let mut pool = pool(json!({}));
    let mut seen = Observed {
        pool: &pool,
        bootstrap: Referenced::Missing(reference("Config")),
        infrastructure: Referenced::Missing(reference("Pool")),
        nodes: NodesSeen::NotSought,
    };
    let decision = decide(&seen, at(0));
    assert_eq!(decision.status.phase, Some(MachinePoolPhase::Pending));
    let ready = condition::find(&decision.status.conditions, types::INFRASTRUCTURE_READY).unwrap();
    assert_eq!(
        (ready.reason.as_str(), ready.message.as_str()),
        ("ObjectDoesNotExist", "Pool x does not exist")
    );

    seen.bootstrap = config(created());
    let decision = decide(&seen, at(0));
    assert_eq!(decision.spec.data_secret_name.as_deref(), Some("data-2"));
    assert_eq!(decision.status.phase, Some(MachinePoolPhase::Provisioning));

    seen.infrastructure = infrastructure(provisioned());
    let decision = decide(&seen, at(0));
    assert_eq!(
        decision.spec.provider_ids.as_deref(),
        Some(["id://a".to_owned(), "id://b".to_owned()].as_slice())
    );
    assert_eq!(
        (decision.status.phase, decision.status.replicas),
        (Some(MachinePoolPhase::Provisioned), Some(2))
    );

    let (a, b, foreign) = (
        node("a", "id://a", "v1.33.0", "True"),
        node("b", "id://b", "v1.32.0", "False"),
        node("f", "id://f", "v1.33.0", "True"),
    );
    let nodes = [&foreign, &b, &a];
    seen.nodes = NodesSeen::Found(&nodes);
    let decision = decide(&seen, at(0));
    let names: Vec<_> = decision.status.node_refs.iter().map(|node| node.name.as_deref().unwrap()).collect();
    assert_eq!(names, ["a", "b"], "what is not the pool's is not counted");
    assert_eq!((decision.status.ready_replicas, decision.status.up_to_date_replicas), (Some(1), Some(1)));
    assert_eq!(decision.status.phase, Some(MachinePoolPhase::ScalingUp));
    let versions: Vec<_> = decision.status.versions.iter().map(|entry| entry.version.as_str()).collect();
    assert_eq!(versions, ["v1.32.0", "v1.33.0"]);
    let rolling = condition::find(&decision.status.conditions, types::ROLLING_OUT).unwrap();
    assert_eq!(rolling.message, "1 of 2 instances are not at v1.33.0");
    let available = condition::find(&decision.status.conditions, types::AVAILABLE).unwrap();
    assert_eq!(available.message, "1 of 2 instances are available");

    let b = node("b", "id://b", "v1.33.0", "True");
    let nodes = [&a, &b];
    seen.nodes = NodesSeen::Found(&nodes);
    let decision = decide(&seen, at(0));
    assert_eq!(decision.status.phase, Some(MachinePoolPhase::Running));
    assert!(condition::is_true(&decision.status.conditions, types::AVAILABLE));

    pool.status = decision.status.clone();
    pool.spec.provider_id_list = decision.spec.provider_ids.unwrap();
    pool.spec.template.spec.bootstrap.data_secret_name = decision.spec.data_secret_name;
    let again = Observed {
        pool: &pool,
        bootstrap: config(created()),
        infrastructure: infrastructure(provisioned()),
        nodes: NodesSeen::Found(&nodes),
    };
    let again = decide(&again, at(500));
    assert!(again.spec.is_empty());
    assert_eq!(again.status, pool.status, "deciding again changes nothing");
}

#[test]
fn new_bootstrap_data_are_taken_over() {
    let mut pool = pool(json!({}));
    pool.spec.template.spec.bootstrap.data_secret_name = Some("data-1".into());
    let seen = Observed {
        pool: &pool,
        bootstrap: config(created()),
        infrastructure: Referenced::Missing(reference("Pool")),
        nodes: NodesSeen::NotSought,
    };
    assert_eq!(decide(&seen, at(0)).spec.data_secret_name.as_deref(), Some("data-2"));
}

#[test]
fn an_instance_is_available_when_it_has_been_ready_for_long_enough() {
    let (a, b) = (node("a", "id://a", "v1.33.0", "True"), node("b", "id://b", "v1.33.0", "False"));
    let ids = ["id://a".to_owned(), "id://b".to_owned()];
    let counted = |now: i64| count(&[&a, &b], &ids, "v1.33.0", SignedDuration::from_secs(30), at(now));
    let early = counted(29);
    assert_eq!((early.ready, early.available, early.look_again), (1, 0, Some(at(30))));
    let late = counted(30);
    assert_eq!((late.ready, late.available, late.look_again), (1, 1, None));
}

#[test]
fn when_nobody_answers_the_counts_stay_and_availability_is_unknown() {
    let mut pool = pool(json!({}));
    pool.status.ready_replicas = Some(2);
    let seen = Observed {
        pool: &pool,
        bootstrap: config(created()),
        infrastructure: infrastructure(provisioned()),
        nodes: NodesSeen::NoAnswer("connection refused"),
    };
    let decision = decide(&seen, at(0));
    assert_eq!(decision.status.ready_replicas, Some(2));
    let available = condition::find(&decision.status.conditions, types::AVAILABLE).unwrap();
    assert_eq!((available.status.as_str(), available.reason.as_str()), ("Unknown", "ConnectionDown"));
}

#[test]
fn the_infrastructure_goes_before_the_bootstrap_config() {
    let (infrastructure, bootstrap) = (found("Pool", ()), found("Config", ()));
    let gone: Referenced<()> = Referenced::Missing(reference("Pool"));
    assert_eq!(
        deletion(&infrastructure, &bootstrap),
        Deletion::Infrastructure { what: "Pool x".into(), delete: true }
    );
    assert_eq!(deletion(&gone, &bootstrap), Deletion::Bootstrap { what: "Config x".into(), delete: true });
    assert_eq!(deletion::<(), ()>(&gone, &Referenced::None), Deletion::Release);
    let unreadable: Referenced<()> = Referenced::Unreadable { reference: reference("Pool"), why: "x".into() };
    assert!(matches!(deletion(&unreadable, &bootstrap), Deletion::Unknown { .. }));
}
