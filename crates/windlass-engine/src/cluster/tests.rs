use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::cluster::{
    Cluster, ClusterPhase, ContractVersionedObjectReference, Machine, MachineDeployment, MachinePool,
    MachineSet,
};
use windlass_api::conditions as types;

use super::deletion::{Deletion, DescendantKind, awaits_hook, next};
use super::*;
use crate::condition;
use crate::contract::{Contract, InfrastructureCluster, control_plane, infrastructure_cluster};
use crate::referenced::{Leaving, Referenced};

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

fn reference(kind: &str) -> ContractVersionedObjectReference {
    ContractVersionedObjectReference { api_group: "g".into(), kind: kind.into(), name: "x".into() }
}

fn cluster(spec: Value) -> Cluster {
    serde_json::from_value(json!({
        "metadata": {"name": "c1", "namespace": "ns", "uid": "cluster-uid", "generation": 3}, "spec": spec,
    }))
    .unwrap()
}

fn found<T>(kind: &str, object: T) -> Referenced<T> {
    Referenced::Found { reference: reference(kind), object, deleting: false, updating: false }
}

fn infrastructure(value: Value) -> Referenced<InfrastructureCluster> {
    found("DevCluster", infrastructure_cluster(&value, Contract::V1Beta2))
}

fn plane(value: Value) -> Referenced<ControlPlaneSeen> {
    found("KubeadmControlPlane", ControlPlaneSeen::of(&value, control_plane(&value, Contract::V1Beta2)))
}

fn observed(cluster: &Cluster) -> Observed<'_> {
    Observed {
        cluster,
        infrastructure: Referenced::None,
        connection: Connection::NotSought,
        control_plane: Referenced::None,
        descendants: Descendants::default(),
        deletion: None,
    }
}

fn says(decision: &Decision, type_: &str) -> (String, String, String) {
    let found = condition::find(&decision.status.conditions, type_).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

fn machine(name: &str, owners: Value, extra: Value) -> Machine {
    let mut value = json!({
        "metadata": {"name": name, "namespace": "ns", "ownerReferences": owners},
        "spec": {"clusterName": "c1", "version": "v1.32.0"},
    });
    value.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
    serde_json::from_value(value).unwrap()
}

fn owner(uid: &str, controller: bool) -> Value {
    json!([{"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "X", "name": "o", "uid": uid, "controller": controller}])
}

#[test]
fn a_cluster_waits_for_the_infrastructure_that_its_topology_brings() {
    let managed = cluster(json!({"topology": {"classRef": {"name": "k"}, "version": "v1.33.0"}}));
    let decision = decide(&observed(&managed), now());
    assert_eq!(decision.status.initialization.infrastructure_provisioned, None);
    assert_eq!(decision.status.phase, Some(ClusterPhase::Pending));
    assert_eq!(says(&decision, types::INFRASTRUCTURE_READY).0, "False");

    let bare = cluster(json!({"paused": false}));
    let decision = decide(&observed(&bare), now());
    assert_eq!(decision.status.initialization.infrastructure_provisioned, Some(true), "nothing to wait for");
}

#[test]
fn the_endpoint_is_taken_over_once_and_provisioned_is_never_taken_back() {
    let mut cluster =
        cluster(json!({"infrastructureRef": {"apiGroup": "g", "kind": "DevCluster", "name": "x"}}));
    let waiting = json!({"spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}}});
    let mut seen = observed(&cluster);
    seen.infrastructure = infrastructure(waiting);
    let decision = decide(&seen, now());
    assert_eq!((decision.endpoint, decision.status.phase), (None, Some(ClusterPhase::Provisioning)));

    let done = json!({
        "spec": {"controlPlaneEndpoint": {"host": "h", "port": 6443}},
        "status": {
            "initialization": {"provisioned": true},
            "failureDomains": [{"name": "b"}, {"name": "a", "controlPlane": true}],
        },
    });
    let mut seen = observed(&cluster);
    seen.infrastructure = infrastructure(done.clone());
    let decision = decide(&seen, now());
    let endpoint = decision.endpoint.clone().unwrap();
    assert_eq!((endpoint.host.as_str(), endpoint.port), ("h", Some(6443)));
    assert_eq!(decision.status.phase, Some(ClusterPhase::Provisioned));
    let domains: Vec<_> = decision
        .status
        .failure_domains
        .iter()
        .map(|domain| (domain.name.as_str(), domain.control_plane))
        .collect();
    assert_eq!(domains, [("a", Some(true)), ("b", Some(false))]);

    cluster.spec.control_plane_endpoint.host = "mine".into();
    cluster.spec.control_plane_endpoint.port = Some(1);
    cluster.status = decision.status;
    let mut seen = observed(&cluster);
    seen.infrastructure = infrastructure(done);
    assert_eq!(decide(&seen, now()).endpoint, None, "what is set stays");
    seen.infrastructure = Referenced::Missing(reference("DevCluster"));
    let decision = decide(&seen, now());
    assert_eq!(decision.status.initialization.infrastructure_provisioned, Some(true));
    let (status, reason, message) = says(&decision, types::INFRASTRUCTURE_READY);
    assert_eq!((status.as_str(), reason.as_str()), ("False", "ObjectDeleted"));
    assert_eq!(message, "DevCluster x has been deleted");
}

#[test]
fn the_control_plane_is_initialized_when_it_or_its_first_node_says_so() {
    let cluster = cluster(json!({}));
    let node = json!({
        "metadata": {"name": "m", "labels": {"cluster.x-k8s.io/control-plane": ""}},
        "status": {"nodeRef": {"name": "n"}},
    });
    let first = machine("m", json!([]), node);
    let mut seen = observed(&cluster);
    assert_eq!(decide(&seen, now()).status.initialization.control_plane_initialized, None);
    seen.descendants.machines = vec![&first];
    assert_eq!(decide(&seen, now()).status.initialization.control_plane_initialized, Some(true));

    seen.control_plane = plane(json!({"status": {"initialization": {"controlPlaneInitialized": false}}}));
    let decision = decide(&seen, now());
    assert_eq!(
        decision.status.initialization.control_plane_initialized, None,
        "the control plane knows better"
    );
    assert_eq!(
        says(&decision, types::CONTROL_PLANE_INITIALIZED).2,
        "Waiting for KubeadmControlPlane x to accept requests"
    );
    seen.control_plane = plane(json!({"status": {"initialization": {"controlPlaneInitialized": true}}}));
    let decision = decide(&seen, now());
    assert_eq!(decision.status.initialization.control_plane_initialized, Some(true));
    assert_eq!(says(&decision, types::CONTROL_PLANE_AVAILABLE).0, "True", "in the absence of a condition");
}

#[test]
fn versions_and_counts_are_summed_over_groups_and_the_plan_stays() {
    let mut cluster = cluster(json!({}));
    cluster.status = serde_json::from_value(json!({
        "controlPlane": {"upgradePlan": [{"version": "v1.33.0"}]}, "workers": {"upgradePlan": [{"version": "v1.33.0"}]},
    }))
    .unwrap();
    let deployment: MachineDeployment = serde_json::from_value(json!({
        "metadata": {"name": "md"}, "spec": {"replicas": 3},
        "status": {
            "replicas": 4, "readyReplicas": 2, "availableReplicas": 1, "upToDateReplicas": 3,
            "versions": [{"version": "v1.32.0", "replicas": 3}, {"version": "v1.31.0", "replicas": 1}],
            "conditions": [
                {"type": "Available", "status": "False", "reason": "NotAvailable", "message": "1 of 3", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "RollingOut", "status": "True", "reason": "RollingOut", "message": "Rolling out 1", "lastTransitionTime": "2026-01-01T00:00:00Z"},
            ],
        },
    }))
    .unwrap();
    let pool: MachinePool = serde_json::from_value(json!({
        "metadata": {"name": "mp"}, "spec": {"replicas": 2},
        "status": {"replicas": 2, "versions": [{"version": "v1.31.0", "replicas": 2}]},
    }))
    .unwrap();
    let set = |name: &str, owners: Value| -> MachineSet {
        serde_json::from_value(json!({
            "metadata": {"name": name, "ownerReferences": owners}, "spec": {"replicas": 1}, "status": {"replicas": 1},
        }))
        .unwrap()
    };
    let (owned, alone) = (set("owned", owner("md", true)), set("alone", owner("cluster-uid", false)));
    let stray = machine("stray", json!([]), json!({}));
    let mut seen = observed(&cluster);
    seen.control_plane = plane(json!({
        "spec": {"replicas": 3, "version": "v1.33.0"},
        "status": {"replicas": 3, "versions": [{"version": "v1.32.0", "replicas": 3}]},
    }));
    seen.descendants = Descendants {
        machine_deployments: vec![&deployment],
        machine_sets: vec![&owned, &alone],
        machine_pools: vec![&pool],
        machines: vec![&stray],
    };
    let decision = decide(&seen, now());
    let workers = decision.status.workers.as_ref().unwrap();
    assert_eq!((workers.desired_replicas, workers.replicas), (Some(7), Some(8)));
    assert_eq!((workers.ready_replicas, workers.up_to_date_replicas), (Some(2), Some(3)));
    let versions: Vec<_> =
        workers.versions.iter().map(|entry| (entry.version.as_str(), entry.replicas.unwrap())).collect();
    assert_eq!(versions, [("v1.31.0", 3), ("v1.32.0", 4)]);
    assert_eq!(workers.upgrade_plan[0].version, "v1.33.0");
    let control_plane = decision.status.control_plane.as_ref().unwrap();
    assert_eq!((control_plane.desired_replicas, control_plane.versions.len()), (Some(3), 1));
    assert_eq!(control_plane.upgrade_plan.len(), 1);

    let (status, _, message) = says(&decision, types::WORKERS_AVAILABLE);
    assert_eq!(status, "False");
    assert!(message.contains("MachineDeployment md: 1 of 3"), "{message}");
    assert_eq!(says(&decision, types::ROLLING_OUT).2, "* MachineDeployment md: Rolling out 1");
    assert_eq!(says(&decision, types::REMEDIATING).0, "False");
}

#[test]
fn a_topology_that_upgrades_does_not_make_a_cluster_unavailable_and_one_that_failed_does() {
    let ready = json!({"status": {
        "initialization": {"provisioned": true, "controlPlaneInitialized": true},
        "conditions": [{"type": "Available", "status": "True", "reason": "Available"}],
    }});
    for (reason, status) in [("ClusterUpgrading", "True"), ("ReconcileFailed", "False")] {
        let mut cluster = cluster(json!({"topology": {"classRef": {"name": "k"}, "version": "v1.33.0"}}));
        cluster.status = serde_json::from_value(json!({"conditions": [{
            "type": "TopologyReconciled", "status": "False", "reason": reason, "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]}))
        .unwrap();
        let mut seen = observed(&cluster);
        seen.infrastructure = infrastructure(ready.clone());
        seen.control_plane = plane(ready.clone());
        assert_eq!(says(&decide(&seen, now()), types::AVAILABLE).0, status, "{reason}");
    }
}

#[test]
fn deciding_again_changes_nothing() {
    let mut cluster =
        cluster(json!({"infrastructureRef": {"apiGroup": "g", "kind": "DevCluster", "name": "x"}}));
    let value = json!({"spec": {}, "status": {"initialization": {"provisioned": true}}});
    let mut seen = observed(&cluster);
    seen.infrastructure = infrastructure(value.clone());
    let first = decide(&seen, now()).status;
    cluster.status = first.clone();
    let mut seen = observed(&cluster);
    seen.infrastructure = infrastructure(value);
    let later = Timestamp::from_second(1_700_009_999).unwrap();
    assert_eq!(decide(&seen, later).status, first);
}

#[test]
fn workers_go_before_the_control_plane_and_that_before_the_infrastructure() {
    let cluster = cluster(json!({}));
    let ours = machine("ours", owner("cluster-uid", false), json!({}));
    let theirs = machine("theirs", owner("set-uid", true), json!({}));
    let label = json!({"metadata": {"name": "cp", "labels": {"cluster.x-k8s.io/control-plane": ""}}});
    let control_plane_machine = machine("cp", json!([]), label);
    let everything =
        Descendants { machines: vec![&ours, &theirs, &control_plane_machine], ..Descendants::default() };
    let plane = found("Kcp", ());
    let infra = found("Infra", ());
    assert_eq!(next(&cluster, &everything, &plane, &infra, true).unwrap(), Deletion::Hook);

    let Deletion::Workers(workers) = next(&cluster, &everything, &plane, &infra, false).unwrap() else {
        panic!()
    };
    let workers: Vec<_> =
        workers.iter().map(|worker| (worker.kind, worker.name.as_str(), worker.delete)).collect();
    let kind = DescendantKind::Machine;
    assert_eq!(workers, [(kind, "ours", true), (kind, "theirs", false)], "what another owns is waited for");

    let only_control_plane = Descendants { machines: vec![&control_plane_machine], ..Descendants::default() };
    assert_eq!(
        next(&cluster, &only_control_plane, &plane, &infra, false).unwrap(),
        Deletion::ControlPlane(Leaving { what: "Kcp x".into(), delete: true })
    );
    let gone: Referenced<()> = Referenced::Missing(reference("Kcp"));
    assert!(matches!(
        next(&cluster, &only_control_plane, &gone, &infra, false).unwrap(),
        Deletion::ControlPlaneMachines(machines) if !machines[0].delete
    ));
    let nothing = Descendants::default();
    let going =
        Referenced::Found { reference: reference("Infra"), object: (), deleting: true, updating: false };
    assert_eq!(
        next(&cluster, &nothing, &gone, &going, false).unwrap(),
        Deletion::Infrastructure(Leaving { what: "Infra x".into(), delete: false })
    );
    let unreadable: Referenced<()> =
        Referenced::Unreadable { reference: reference("Infra"), why: "no CRD".into() };
    let stuck = next(&cluster, &nothing, &gone, &unreadable, false).unwrap();
    assert_eq!(stuck.to_string(), "cannot tell whether Infra x is gone: no CRD");
    assert_eq!(next(&cluster, &nothing, &gone, &gone, false).unwrap(), Deletion::Release);

    let mut unknown = cluster;
    unknown.metadata.uid = None;
    let incomplete = next(&unknown, &everything, &plane, &infra, false).unwrap_err();
    assert_eq!(incomplete.field, "metadata.uid", "what it owns cannot be told");
}

#[test]
fn only_a_managed_cluster_without_the_mark_awaits_the_hook() {
    let bare = cluster(json!({}));
    let mut managed = cluster(json!({"topology": {"classRef": {"name": "k"}, "version": "v1.33.0"}}));
    assert!(!awaits_hook(&bare, true));
    assert!(awaits_hook(&managed, true));
    assert!(
        !awaits_hook(&managed, false),
        "the topology controller does not run, and nothing else sets the mark"
    );
    managed.metadata.annotations =
        Some([("runtime.cluster.x-k8s.io/ok-to-delete".to_owned(), String::new())].into());
    assert!(!awaits_hook(&managed, true));
}

#[test]
fn deletion_says_what_it_waits_for() {
    let names: Vec<String> = (0..5).map(|number| format!("m{number}")).collect();
    let machines: Vec<Machine> = names.iter().map(|name| machine(name, json!([]), json!({}))).collect();
    let cluster = cluster(json!({}));
    let none: Referenced<()> = Referenced::None;
    let descendants = Descendants { machines: machines.iter().collect(), ..Descendants::default() };
    let deletion = next(&cluster, &descendants, &none, &none, false).unwrap();
    assert_eq!(deletion.to_string(), "* Machines: m0, m1, m2 and 2 more");
    let mut seen = observed(&cluster);
    seen.deletion = Some(deletion);
    assert_eq!(says(&decide(&seen, now()), types::DELETING).1, "WaitingForWorkersDeletion");
}

#[test]
fn a_silent_api_server_is_said_to_be_so_after_a_while() {
    let at = |second: i64| Timestamp::from_second(second).unwrap();
    let mut cluster: Cluster =
        serde_json::from_value(json!({"metadata": {"name": "c1"}, "spec": {}})).unwrap();
    let silent = Connection::Silent { since: at(100), why: "timed out".to_owned() };
    let cases = [
        (
            Connection::NotSought,
            0,
            "False",
            "ProbeFailed",
            "There is no API server yet that accepts requests",
        ),
        (Connection::Answers, 90, "True", "ProbeSucceeded", ""),
        (silent.clone(), 110, "True", "ProbeSucceeded", ""),
        (
            silent.clone(),
            150,
            "False",
            "ProbeFailed",
            "The API server of the cluster has not answered since 1970-01-01T00:01:40Z: timed out",
        ),
        // Once it was said, it stays so until there is an answer.
        (
            Connection::Silent { since: at(155), why: "timed out".to_owned() },
            160,
            "False",
            "ProbeFailed",
            "The API server of the cluster has not answered since 1970-01-01T00:02:35Z: timed out",
        ),
        (Connection::Answers, 170, "True", "ProbeSucceeded", ""),
    ];
    for (connection, second, status, reason, message) in cases {
        let decision = decide(&Observed { connection, ..observed(&cluster) }, at(second));
        let expected = (status.to_owned(), reason.to_owned(), message.to_owned());
        assert_eq!(says(&decision, "RemoteConnectionProbe"), expected, "at {second}");
        cluster.status = decision.status;
    }
    assert_eq!(silent.look_again(at(110)).map(|wait| wait.as_secs()), Some(40));
    assert_eq!(silent.look_again(at(150)), None);
}
