use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, Taint};
use serde_json::{Value, json};
use windlass_api::cluster::{ContractVersionedObjectReference, MachinePool, MachinePoolPhase};
use windlass_api::conditions as types;

use super::*;
use crate::condition;
use crate::contract::{
    BootstrapConfig, Contract, InfrastructureMachinePool, bootstrap_config, infrastructure_machine_pool,
};
use crate::referenced::{Leaving, Referenced};

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
        Deletion::Infrastructure(Leaving { what: "Pool x".into(), delete: true })
    );
    assert_eq!(
        deletion(&gone, &bootstrap),
        Deletion::Bootstrap(Leaving { what: "Config x".into(), delete: true })
    );
    assert_eq!(deletion::<(), ()>(&gone, &Referenced::None), Deletion::Release);
    let unreadable: Referenced<()> = Referenced::Unreadable { reference: reference("Pool"), why: "x".into() };
    assert!(matches!(deletion(&unreadable, &bootstrap), Deletion::Unknown(_)));
}

fn instance(provider_id: Option<&str>, deleting: bool) -> Instance {
    let infrastructure = ContractVersionedObjectReference {
        api_group: "g".into(),
        kind: "InfraMachine".into(),
        name: "mp-7".into(),
    };
    Instance { infrastructure, provider_id: provider_id.map(str::to_owned), deleting }
}

#[test]
fn an_instance_is_shown_by_a_machine_that_its_pool_controls() {
    let mut pool = pool(json!({"metadata": {"name": "mp", "namespace": "ns", "uid": "u"}}));
    pool.spec.template.metadata.labels.insert("team".to_owned(), "blue".to_owned());
    let node = node("n", "id://7", "v1.32.1", "True");
    let shown = machine_of(&pool, &instance(Some("id://7"), false), None, &[&node]).unwrap();
    let expected = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {
            "name": "mp-7", "namespace": "ns",
            "labels": {"team": "blue", "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/pool-name": "mp"},
            "annotations": {},
            "ownerReferences": [{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "mp", "uid": "u",
                "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {
            "clusterName": "c", "version": "v1.32.1", "bootstrap": {"dataSecretName": ""},
            "infrastructureRef": {"apiGroup": "g", "kind": "InfraMachine", "name": "mp-7"},
        },
    });
    assert_eq!(serde_json::to_value(&shown).unwrap(), expected);
    assert!(is_machine_of(&pool, shown.metadata.labels.as_ref().unwrap()));
}

#[test]
fn the_version_of_a_machine_of_a_pool_is_that_of_its_kubelet() {
    let pool = pool(json!({}));
    let node = node("n", "id://7", "v1.32.1", "True");
    let mut known = machine_of(&pool, &instance(None, false), None, &[&node]).unwrap();
    assert_eq!(known.spec.version, "", "which Node it is has not been said");
    known.spec.version = "v1.31.0".to_owned();
    let cases = [
        (Some("id://7"), &[&node][..], "v1.32.1"),
        (Some("id://8"), &[&node][..], "v1.31.0"),
        (Some("id://7"), &[][..], "v1.31.0"),
        (Some(""), &[&node][..], "v1.31.0"),
    ];
    for (id, nodes, version) in cases {
        let shown = machine_of(&pool, &instance(id, false), Some(&known), nodes).unwrap();
        assert_eq!(shown.spec.version, version, "{id:?}");
    }
    assert_eq!(machine_of(&pool, &instance(Some("id://7"), true), None, &[&node]), None, "it goes");
    assert!(
        machine_of(&pool, &instance(None, true), Some(&known), &[]).is_some(),
        "it stays until it is gone"
    );
}

#[test]
fn nodes_go_with_the_instances_that_their_provider_gave_up() {
    let references = json!([{"name": "a"}, {"name": "b"}, {"name": "unknown"}]);
    let pool = pool(json!({"status": {"nodeRefs": references}}));
    let nodes = [
        node("a", "id://a", "v1.33.0", "True"),
        node("b", "id://b", "v1.33.0", "True"),
        node("unknown", "", "v1.33.0", "True"),
        node("of-another", "id://c", "v1.33.0", "True"),
    ];
    let all: Vec<&Node> = nodes.iter().collect();
    let names = |ids: &[&str]| -> Vec<String> {
        let ids: Vec<String> = ids.iter().map(|&id| id.to_owned()).collect();
        retired(&pool, &all, &ids).into_iter().filter_map(|node| node.metadata.name.clone()).collect()
    };
    assert_eq!(names(&["id://a", "id://b"]), [""; 0]);
    assert_eq!(names(&["id://b"]), ["a"]);
    assert_eq!(names(&[]), ["a", "b"]);
}

#[test]
fn a_node_of_a_pool_says_whose_it_is_and_takes_pods() {
    let pool = pool(json!({"metadata": {"name": "mp", "namespace": "ns"}}));
    let mut node = node("a", "id://a", "v1.33.0", "True");
    let taint =
        |key: &str| Taint { effect: "NoSchedule".into(), key: key.into(), time_added: None, value: None };
    node.spec.as_mut().unwrap().taints =
        Some(vec![taint("mine"), taint("node.cluster.x-k8s.io/uninitialized")]);
    let patch = changes(&pool, &node).unwrap();
    let annotations = json!({
        "cluster.x-k8s.io/cluster-name": "c", "cluster.x-k8s.io/cluster-namespace": "ns",
        "cluster.x-k8s.io/owner-kind": "MachinePool", "cluster.x-k8s.io/owner-name": "mp",
    });
    let taints = json!([{"effect": "NoSchedule", "key": "mine"}]);
    assert_eq!(patch, json!({"metadata": {"annotations": annotations.clone()}, "spec": {"taints": taints}}));
    node.metadata.annotations = serde_json::from_value(annotations).unwrap();
    node.spec.as_mut().unwrap().taints = Some(vec![taint("mine")]);
    assert_eq!(changes(&pool, &node), None);
}

#[test]
fn instances_without_identities_are_no_reason_to_forget_those_that_are_known() {
    let known = pool(json!({}));
    let known = MachinePool {
        spec: windlass_api::cluster::MachinePoolSpec {
            provider_id_list: vec!["id://a".to_owned()],
            ..known.spec.clone()
        },
        ..known
    };
    for (replicas, forgets) in [(json!(1), false), (json!(0), true)] {
        let told =
            json!({"spec": {}, "status": {"initialization": {"provisioned": true}, "replicas": replicas}});
        let observed = Observed {
            pool: &known,
            bootstrap: config(json!({})),
            infrastructure: infrastructure(told),
            nodes: NodesSeen::NotSought,
        };
        let decision = decide(&observed, at(0));
        assert_eq!(decision.spec.provider_ids.is_some(), forgets, "{replicas}");
    }
}
