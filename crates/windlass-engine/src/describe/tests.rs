use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool};

use super::*;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

struct World {
    cluster: Cluster,
    infrastructure: Value,
    control_plane: Value,
    machine_deployments: Vec<MachineDeployment>,
    machine_pools: Vec<MachinePool>,
    machines: Vec<Machine>,
    version_changes: Vec<VersionChange>,
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": type_, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn machine(name: &str, labels: &Value, version: &str, ready: &str) -> Machine {
    read(
        json!({"metadata": {"name": name, "labels": labels}, "spec": {"clusterName": "c1", "version": version},
        "status": {"nodeInfo": {"kubeletVersion": version}, "conditions": [condition("Ready", ready, "R", if ready == "True" { "" } else { "* no Node" })]}}),
    )
}

/// In the middle of an upgrade from v1.29 to v1.33: the control plane is at v1.32, the workers are on their way there.
fn world(topology_message: &str) -> World {
    let web =
        json!({"cluster.x-k8s.io/cluster-name": "c1", "topology.cluster.x-k8s.io/deployment-name": "web"});
    let control_plane = json!({"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/control-plane": ""});
    World {
        cluster: read(json!({
            "metadata": {"name": "c1", "namespace": "ns", "annotations": {
                "runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade,AfterWorkersUpgrade",
                "topology.internal.cluster.x-k8s.io/upgrade-step": "v1.32.0"}},
            "spec": {"topology": {"classRef": {"name": "quick"}, "version": "v1.33.0"},
                "infrastructureRef": {"apiGroup": "x.y", "kind": "DevCluster", "name": "c1-i"},
                "controlPlaneRef": {"apiGroup": "x.y", "kind": "KubeadmControlPlane", "name": "c1-cp"}},
            "status": {
                "controlPlane": {"upgradePlan": [{"version": "v1.33.0"}]},
                "workers": {"upgradePlan": [{"version": "v1.32.0"}, {"version": "v1.33.0"}]},
                "conditions": [condition("TopologyReconciled", "False", "ClusterUpgrading", topology_message),
                    condition("Available", "True", "Available", "")],
            },
        })),
        infrastructure: json!({"status": {"conditions": [condition("Ready", "True", "Provisioned", "")]}}),
        control_plane: json!({"spec": {"version": "v1.32.0", "replicas": 1}, "status": {"replicas": 1,
            "readyReplicas": 1, "availableReplicas": 1, "upToDateReplicas": 1,
            "conditions": [condition("Available", "True", "Available", "")]}}),
        machine_deployments: vec![read(json!({
            "metadata": {"name": "c1-web-x", "labels": web},
            "spec": {"clusterName": "c1", "replicas": 2, "selector": {"matchLabels": web},
                "template": {"spec": {"version": "v1.32.0"}}},
            "status": {"replicas": 3, "readyReplicas": 2, "availableReplicas": 2, "upToDateReplicas": 1}}))],
        machine_pools: vec![read(json!({
            "metadata": {"name": "c1-batch-y", "labels": {"topology.cluster.x-k8s.io/pool-name": "batch"}},
            "spec": {"clusterName": "c1", "replicas": 3, "template": {"spec": {"version": "v1.29.0"}}},
            "status": {"replicas": 3, "readyReplicas": 3, "versions": [{"version": "v1.29.0", "replicas": 3}]}}))],
        machines: vec![
            machine("c1-cp-1", &control_plane, "v1.32.0", "True"),
            machine("c1-web-2", &web, "v1.32.0", "False"),
            machine("c1-web-1", &web, "v1.29.0", "True"),
            read(json!({"metadata": {"name": "other"}, "spec": {"clusterName": "c2"}})),
        ],
        version_changes: Vec::new(),
    }
}

/// Told at so many seconds after the upgrade began.
fn change(object: &str, from: &str, to: &str, seconds: i64) -> VersionChange {
    let begun: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let at = jiff::Timestamp::from_second(begun.as_second() + seconds).unwrap();
    VersionChange::read(&format!("Updated {object} with version change from {from} to {to}"), at).unwrap()
}

fn described(world: &World) -> ClusterDescription {
    let objects = Described {
        cluster: &world.cluster,
        infrastructure: Some(&world.infrastructure),
        control_plane: Some(&world.control_plane),
        machine_deployments: &world.machine_deployments,
        machine_pools: &world.machine_pools,
        machines: &world.machines,
        version_changes: &world.version_changes,
    };
    ClusterDescription::of(objects, "2026-01-01T01:00:00Z".parse().unwrap())
}

const ROLLING: &str = "The Cluster is upgrading to v1.33.0\n  * KubeadmControlPlane will upgrade to v1.33.0\n  \
    * MachineDeployment c1-web-x is upgrading to v1.32.0 (v1.33.0 to follow)";

#[test]
fn the_tree_has_the_parts_of_the_cluster_and_nothing_of_others() {
    fn lines(object: &ObjectDescription, depth: usize, out: &mut Vec<String>) {
        let role = object.role.unwrap_or_default();
        let version = object.version.as_deref().unwrap_or_default();
        out.push(format!("{depth} {role} {} {} {version}", object.kind, object.name));
        object.objects.iter().for_each(|below| lines(below, depth + 1, out));
    }
    let described = described(&world(ROLLING));
    let mut out = Vec::new();
    lines(&described.tree, 0, &mut out);
    assert_eq!(
        out,
        [
            "0  Cluster c1 v1.33.0",
            "1 ClusterInfrastructure DevCluster c1-i ",
            "1 ControlPlane KubeadmControlPlane c1-cp v1.32.0",
            "2  Machine c1-cp-1 v1.32.0",
            "1 Workers   ",
            "2  MachineDeployment c1-web-x v1.32.0",
            "3  Machine c1-web-1 v1.29.0",
            "3  Machine c1-web-2 v1.32.0",
            "2  MachinePool c1-batch-y v1.29.0",
        ]
    );
    let web = &described.tree.objects[2].objects[0].replicas.unwrap();
    assert_eq!((web.desired, web.current, web.ready, web.up_to_date), (2, 3, 2, 1));
}

/// Two replicas, and a third machine that makes room for the rollout.
#[test]
fn a_running_step_counts_in_the_machines_that_are_wanted() {
    let mut world = world(ROLLING);
    let labels = json!(world.machines[1].metadata.labels);
    world.machines.push(machine("c1-web-3", &labels, "v1.29.0", "True"));
    let upgrade = described(&world).upgrade.unwrap();
    let web = upgrade.steps.iter().find(|step| step.machines_done.is_some()).unwrap();
    assert_eq!((web.machines_done, web.machines), (Some(1), Some(2)), "{web:?}");
}

#[test]
fn a_machine_counts_when_its_node_is_there() {
    let mut world = world(ROLLING);
    let count = |world: &World| {
        let upgrade = described(world).upgrade.unwrap();
        let web = upgrade.steps.into_iter().find(|step| step.part == "MachineDeployment web").unwrap();
        (web.state, web.machines_done)
    };
    assert_eq!(count(&world), (StepState::Running, Some(1)));
    world.machines[1].status.node_info = None;
    assert_eq!(count(&world), (StepState::Running, Some(0)));
    world.machines.remove(2);
    assert_eq!(count(&world), (StepState::Running, Some(0)), "nor when it is the only one");
}

#[test]
fn pins_that_have_no_effect_are_not_shown_as_pins() {
    let pinned = |message: &str| {
        let mut world = world(ROLLING);
        let topology = world.cluster.spec.topology.as_mut().unwrap();
        topology.workers.machine_deployments =
            vec![read(json!({"class": "default", "name": "web", "version": "v1.32.0"}))];
        let told = condition("TopologyReconciled", "True", "ReconcileSucceeded", message);
        world.cluster.status.conditions = vec![read(told)];
        let described = described(&world);
        (described.tree.objects[2].objects[0].pinned.clone(), described.notes)
    };
    assert_eq!(pinned(""), (Some("v1.32.0".to_owned()), Vec::new()));
    let said = "Pins have no effect, because feature gate X is off: MachineDeployment web v1.32.0";
    assert_eq!(pinned(said), (None, vec![said.to_owned()]));
}

#[test]
fn steps_are_done_running_and_to_come() {
    let upgrade = described(&world(ROLLING)).upgrade.unwrap();
    let steps: Vec<String> = upgrade
        .steps
        .iter()
        .map(|step| format!("{:?} {} {} {:?}", step.state, step.part, step.version, step.machines_done))
        .collect();
    assert_eq!(
        steps,
        [
            "Done control plane v1.32.0 None",
            "Running MachineDeployment web v1.32.0 Some(1)",
            "ToCome MachinePool batch v1.32.0 None",
            "ToCome control plane v1.33.0 None",
            "ToCome workers v1.33.0 None",
        ]
    );
    assert_eq!((upgrade.to.as_str(), upgrade.step.as_deref()), ("v1.33.0", Some("v1.32.0")));
}

#[test]
fn steps_that_are_over_are_known_from_events() {
    let mut world = world(ROLLING);
    let control_plane = "KubeadmControlPlane c1-cp";
    world.version_changes = vec![
        change(control_plane, "v1.31.0", "v1.32.0", 90),
        // Of the upgrade before.
        change(control_plane, "v1.28.0", "v1.29.0", -600),
        change("MachineDeployment c1-gone", "v1.29.0", "v1.30.0", 40),
        change(control_plane, "v1.29.0", "v1.30.0", 0),
        change(control_plane, "v1.30.0", "v1.31.0", 60),
        change("MachineDeployment c1-web-x", "v1.29.0", "v1.32.0", 120),
    ];
    let upgrade = described(&world).upgrade.unwrap();
    assert_eq!(upgrade.from.as_deref(), Some("v1.29.0"));
    let steps: Vec<String> =
        upgrade.steps.iter().map(|step| format!("{:?} {} {}", step.state, step.part, step.version)).collect();
    assert_eq!(
        steps,
        [
            "Done control plane v1.30.0",
            "Done MachineDeployment c1-gone v1.30.0",
            "Done control plane v1.31.0",
            "Done control plane v1.32.0",
            "Running MachineDeployment web v1.32.0",
            "ToCome MachinePool batch v1.32.0",
            "ToCome control plane v1.33.0",
            "ToCome workers v1.33.0",
        ]
    );
}

/// Lets an object keep a wait that began an hour after the condition.
fn keep(
    annotations: &mut Option<std::collections::BTreeMap<String, String>>,
    reason: &str,
    what: &str,
) -> Value {
    let wait = json!({"reason": reason, "what": what, "since": "2026-01-01T01:00:00Z"});
    let key = windlass_api::names::WAITING_ON_ANNOTATION.to_owned();
    annotations.get_or_insert_default().insert(key, wait.to_string());
    wait
}

#[test]
fn what_is_waited_on_is_what_the_topology_keeps() {
    let what = "MachineDeployment c1-web-x to reach v1.32.0";
    let message = format!("{ROLLING}\n  * The upgrade waits for {what}");
    let mut world = world(&message);
    let kept = keep(&mut world.cluster.metadata.annotations, "WaitingForWorkersUpgrade", what);
    let mut annotations = None;
    keep(
        &mut annotations,
        "WaitingForPreflightChecks",
        "adding a Machine waits: Machine c1-cp-1 has no Node yet",
    );
    world.control_plane["metadata"] = json!({"annotations": annotations});
    let waiting = described(&world).waiting_on.unwrap();
    assert_eq!(serde_json::to_value(&waiting.wait).unwrap(), kept);
    assert_eq!(
        waiting.evidence,
        [
            "condition TopologyReconciled of the Cluster is False: ClusterUpgrading",
            "KubeadmControlPlane will upgrade to v1.33.0",
            "MachineDeployment c1-web-x is upgrading to v1.32.0 (v1.33.0 to follow)",
            "KubeadmControlPlane c1-cp, WaitingForPreflightChecks since 2026-01-01T01:00:00Z: \
             adding a Machine waits: Machine c1-cp-1 has no Node yet",
            "Machine c1-web-2 at v1.32.0 is not ready: no Node",
        ]
    );
    for machine in
        world.machines.iter_mut().filter(|found| found.metadata.name.as_deref() == Some("c1-web-2"))
    {
        keep(&mut machine.metadata.annotations, "WaitingForNode", "a Node with\n  spec.providerID p://1");
    }
    assert_eq!(
        described(&world).waiting_on.unwrap().evidence.last().unwrap(),
        "Machine c1-web-2 at v1.32.0 is not ready, WaitingForNode since 2026-01-01T01:00:00Z: \
         a Node with spec.providerID p://1"
    );
}

#[test]
fn without_a_wait_that_is_kept_the_condition_tells() {
    let held = format!("{ROLLING}\n  * The upgrade waits for BeforeWorkersUpgrade: not before noon");
    let mut stale = world(&held);
    // Of a wait that is over, or of a controller that is not in charge any more.
    keep(&mut stale.cluster.metadata.annotations, "WaitingForHook", "BeforeClusterUpgrade: no window");
    let wait = described(&stale).waiting_on.unwrap().wait;
    assert_eq!(
        (wait.reason.as_str(), wait.what.as_str()),
        ("ClusterUpgrading", "BeforeWorkersUpgrade: not before noon")
    );
    assert_eq!(wait.since.0.to_string(), "2026-01-01T00:00:00Z", "that is all that is known");
    let mut failed = world("");
    failed.cluster.status.conditions =
        vec![read(condition("TopologyReconciled", "False", "ReconcileFailed", "no upgrade path to v1.33.0"))];
    assert_eq!(described(&failed).waiting_on.unwrap().wait.what, "no upgrade path to v1.33.0");
}

#[test]
fn a_cluster_at_rest_waits_on_nothing() {
    let mut world = world("");
    world.cluster.metadata.annotations = None;
    world.cluster.status.control_plane = None;
    world.cluster.status.workers = None;
    world.cluster.status.conditions = vec![read(condition("Available", "True", "Available", ""))];
    let described = described(&world);
    assert_eq!((described.upgrade, described.waiting_on), (None, None));
    assert!(described.pending_hooks.is_empty());
}

#[test]
fn an_upgrade_has_arrived_when_the_controller_says_so_about_the_target_of_now() {
    let at_rest = |status: &str, observed: Option<i64>| {
        let mut world = world("");
        world.cluster.metadata.annotations = None;
        world.cluster.metadata.generation = Some(7);
        world.cluster.status.control_plane = None;
        world.cluster.status.workers = None;
        let mut told = condition("TopologyReconciled", status, "R", "");
        told["observedGeneration"] = json!(observed);
        world.cluster.status.conditions = vec![read(told)];
        described(&world).has_arrived()
    };
    assert!(at_rest("True", Some(7)));
    assert!(at_rest("True", None), "a controller that names no generation is taken at its word");
    assert!(!at_rest("True", Some(6)), "that was before the target was changed");
    assert!(!at_rest("False", Some(7)));
    let mut without = world("");
    without.cluster.status.conditions = Vec::new();
    assert!(!described(&without).has_arrived());
    let mut upgrading = world("");
    upgrading.cluster.status.conditions = vec![read(condition("TopologyReconciled", "True", "R", ""))];
    assert!(!described(&upgrading).has_arrived(), "steps are left");
}
