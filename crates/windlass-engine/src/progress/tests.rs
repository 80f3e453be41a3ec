//! A Cluster in the middle of an upgrade, as views see it.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment};

use super::*;
use crate::describe::{ClusterDescription, VersionChange};

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// So many seconds after the upgrade began.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

fn condition(type_: &str, status: &str, since: i64) -> Value {
    json!({"type": type_, "status": status, "reason": "R", "message": "", "lastTransitionTime": at(since).to_string()})
}

/// A machine that was created then, and became available so many seconds later, if it has.
fn machine(name: &str, group: Option<&str>, version: &str, created: i64, took: Option<i64>) -> Machine {
    let labels = match group {
        None => json!({"cluster.x-k8s.io/control-plane": ""}),
        Some(group) => json!({"topology.cluster.x-k8s.io/deployment-name": group}),
    };
    let conditions: Vec<Value> = match took {
        Some(took) => {
            ["NodeReady", "Available"].map(|type_| condition(type_, "True", created + took)).to_vec()
        }
        None => vec![condition("Available", "False", created)],
    };
    let info = took.map(|_| json!({"kubeletVersion": version}));
    read(json!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": at(created).to_string()},
        "spec": {"clusterName": "c1", "version": version},
        "status": {"conditions": conditions, "nodeInfo": info},
    }))
}

struct World {
    cluster: Cluster,
    control_plane: Value,
    groups: Vec<MachineDeployment>,
    machines: Vec<Machine>,
    changes: Vec<VersionChange>,
}

fn change(object: &str, from: &str, to: &str, seconds: i64) -> VersionChange {
    let text = format!("Updated {object} with version change from {from} to {to}");
    VersionChange::read(&text, at(seconds)).unwrap()
}

/// From v1.29 to v1.31: the control plane has taken a step and takes the next, workers are still at v1.29.
fn world(wait: Option<Value>) -> World {
    let reason = wait.as_ref().map_or("WaitingForControlPlaneUpgrade".to_owned(), |wait| {
        wait["reason"].as_str().unwrap_or_default().to_owned()
    });
    let wait = wait.unwrap_or_else(|| {
        json!({"reason": reason, "what": "KubeadmControlPlane c1-cp to upgrade", "since": at(200).to_string()})
    });
    let topology = json!({"type": "TopologyReconciled", "status": "False", "reason": "ClusterUpgrading",
        "message": format!("The Cluster is upgrading\n  * The upgrade waits for {}", wait["what"].as_str().unwrap()),
        "lastTransitionTime": at(0).to_string()});
    World {
        cluster: read(json!({
            "metadata": {"name": "c1", "namespace": "ns", "annotations": {
                "upgrade.windlass.dev/waiting-on": wait.to_string(),
                "topology.internal.cluster.x-k8s.io/upgrade-step": "v1.31.0"}},
            "spec": {"topology": {"classRef": {"name": "q"}, "version": "v1.31.0", "workers": {"machineDeployments":
                    [{"class": "w", "name": "web"}]}},
                "controlPlaneRef": {"apiGroup": "x.y", "kind": "KubeadmControlPlane", "name": "c1-cp"}},
            "status": {"controlPlane": {"upgradePlan": [{"version": "v1.31.0"}]},
                "workers": {"upgradePlan": [{"version": "v1.31.0"}]}, "conditions": [topology]},
        })),
        control_plane: json!({"spec": {"version": "v1.31.0", "replicas": 2}}),
        groups: vec![read(json!({
            "metadata": {"name": "c1-web", "labels": {"topology.cluster.x-k8s.io/deployment-name": "web"}},
            "spec": {"clusterName": "c1", "replicas": 4,
                "selector": {"matchLabels": {"topology.cluster.x-k8s.io/deployment-name": "web"}},
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 2}}},
                "template": {"spec": {"version": "v1.29.0"}}}}))],
        machines: vec![
            machine("cp-1", None, "v1.31.0", 200, Some(40)),
            machine("cp-2", None, "v1.30.0", 100, Some(60)),
            machine("web-1", Some("web"), "v1.29.0", -900, Some(100)),
            machine("web-2", Some("web"), "v1.29.0", -900, Some(100)),
            machine("web-3", Some("web"), "v1.29.0", -900, Some(100)),
            machine("web-4", Some("web"), "v1.29.0", -900, Some(100)),
        ],
        changes: vec![
            change("KubeadmControlPlane c1-cp", "v1.29.0", "v1.30.0", 5),
            change("KubeadmControlPlane c1-cp", "v1.30.0", "v1.31.0", 200),
        ],
    }
}

impl World {
    fn objects(&self) -> Described<'_> {
        Described {
            cluster: &self.cluster,
            infrastructure: None,
            control_plane: Some(&self.control_plane),
            machine_deployments: &self.groups,
            machine_pools: &[],
            machines: &self.machines,
            version_changes: &self.changes,
        }
    }

    fn described(&self, now: i64) -> ClusterDescription {
        ClusterDescription::of(self.objects(), at(now))
    }
}

#[test]
fn a_moment_has_its_step_its_times_its_skew_and_its_lanes() {
    let described = world(None).described(260);
    let progress = &described.progress;
    assert_eq!((progress.verdict, progress.step, progress.steps), (Verdict::Progressing, 2, 3));
    assert_eq!((progress.machines_done, progress.machines), (1, 6));
    assert_eq!((progress.elapsed_seconds, progress.samples), (Some(260), 6));
    assert_eq!((progress.skew, progress.worst_skew), (2, 2));
    let lanes: Vec<(&str, usize)> =
        progress.lanes.iter().map(|lane| (lane.name.as_str(), lane.machines.len())).collect();
    assert_eq!(lanes, [("control plane", 2), ("web", 4)]);
    let steps = &described.upgrade.as_ref().unwrap().steps;
    let shown: Vec<(&str, StepState, Option<u64>, Option<u64>)> = steps
        .iter()
        .map(|step| {
            (step.version.as_str(), step.state, step.elapsed_seconds, step.left.map(|left| left.p50_seconds))
        })
        .collect();
    assert_eq!(
        shown,
        [
            // Until its last machine was ready.
            ("v1.30.0", StepState::Done, Some(155), None),
            // One machine is left, and nothing happened for 20 seconds: of 40, 60 and 100, 100 is the middle one.
            ("v1.31.0", StepState::Running, Some(60), Some(80)),
            // Four machines, two at a time, of which each took 100 s.
            ("v1.31.0", StepState::ToCome, None, Some(200)),
        ]
    );
    assert_eq!(progress.left.map(|left| left.p50_seconds), Some(280));
}

#[test]
fn an_upgrade_waits_on_hooks_and_people_and_stalls_when_machines_do_nothing() {
    let hook =
        json!({"reason": "WaitingForHook", "what": "BeforeWorkersUpgrade", "since": at(250).to_string()});
    let no_wait = world(None);
    for (world, now, expected) in [
        (world(Some(hook.clone())), 260, Verdict::Waiting),
        (world(Some(hook)), 26_000, Verdict::Waiting),
        (world(None), 240 + 100, Verdict::Progressing),
        (world(None), 240 + 101, Verdict::Stalled),
    ] {
        let verdict = world.described(now).progress.verdict;
        assert_eq!(verdict, expected, "after {now} s");
    }
    let mut over = no_wait.cluster.clone();
    over.metadata.annotations = None;
    over.status = Default::default();
    let over = World { cluster: over, ..world(None) };
    assert_eq!(over.described(260).progress.verdict, Verdict::UpToDate);
    let mut created = world(None);
    created.cluster.metadata.annotations = None;
    created.cluster.status.control_plane = None;
    created.cluster.status.workers = None;
    created.cluster.status.conditions[0].reason = "ClusterUpgrading".to_owned();
    assert_eq!(created.described(260).progress.verdict, Verdict::Progressing, "a cluster that is created");
    created.cluster.spec.paused = Some(true);
    assert_eq!(created.described(260).progress.verdict, Verdict::Waiting, "one that is paused");
    let codes =
        [Verdict::UpToDate, Verdict::Progressing, Verdict::Waiting, Verdict::Stalled].map(Verdict::exit_code);
    assert_eq!(codes, [0, 10, 11, 12]);
}

#[test]
fn what_other_controllers_say_in_a_condition_is_work_of_machines_unless_a_hook_is_named() {
    for (message, expected) in [
        ("Cluster is upgrading\n  * KubeadmControlPlane upgrading to version v1.31.0", Verdict::Progressing),
        (
            "Cluster is upgrading\n  * Following hooks are blocking upgrade: BeforeClusterUpgrade",
            Verdict::Waiting,
        ),
    ] {
        let mut world = world(None);
        if let Some(annotations) = &mut world.cluster.metadata.annotations {
            annotations.remove("upgrade.windlass.dev/waiting-on");
        }
        world.cluster.status.conditions[0].message = message.to_owned();
        assert_eq!(world.described(260).progress.verdict, expected, "{message}");
    }
}

#[test]
fn a_record_begins_with_what_events_tell_and_goes_on_look_by_look() {
    let mut world = world(None);
    let mut record = LiveRecord::begin(world.objects(), &world.described(260), at(260));
    let first = record.describe(at(260));
    assert_eq!((first.began.0, first.now_seconds), (at(0), 260));
    let control_plane = &first.lanes[0];
    let points: Vec<(u64, &str, &str)> = control_plane
        .points
        .iter()
        .map(|point| (point.at_seconds, point.oldest.as_str(), point.newest.as_str()))
        .collect();
    assert_eq!(
        points,
        [
            (0, "v1.29.0", "v1.29.0"),
            (5, "v1.29.0", "v1.30.0"),
            (200, "v1.30.0", "v1.31.0"),
            (260, "v1.30.0", "v1.31.0")
        ]
    );
    let bars: Vec<(&str, &str, u64, u64)> = first
        .operations
        .iter()
        .flat_map(|operation| operation.machines.iter().map(move |machine| (operation.to.as_str(), machine)))
        .map(|(to, machine)| (to, machine.name.as_str(), machine.start_seconds, machine.end_seconds))
        .collect();
    assert_eq!(bars, [("v1.30.0", "cp-2", 100, 160), ("v1.31.0", "cp-1", 200, 240)]);

    // The last old machine goes, and its successor is on its way.
    world.machines.retain(|machine| machine.metadata.name.as_deref() != Some("cp-2"));
    world.machines.push(machine("cp-3", None, "v1.31.0", 300, None));
    record.look(world.objects(), &world.described(310), at(310));
    let second = record.describe(at(330));
    let last = second.operations.last().unwrap();
    let bars: Vec<(&str, &str, u64, u64)> = last
        .machines
        .iter()
        .map(|machine| (machine.name.as_str(), machine.action, machine.start_seconds, machine.end_seconds))
        .collect();
    assert_eq!(
        bars,
        [("cp-1", "create", 200, 240), ("cp-2", "delete", 310, 310), ("cp-3", "create", 310, 330)]
    );
    assert_eq!(record.worst_skew(), 2);
    assert_eq!((second.machines.created, second.machines.deleted), (3, 1));

    // Another upgrade is another record.
    let mut rest = world.cluster.clone();
    rest.metadata.annotations = None;
    rest.status = Default::default();
    let busy = std::mem::replace(&mut world.cluster, rest);
    record.look(world.objects(), &world.described(400), at(400));
    assert_eq!(record.describe(at(400)).operations.len(), 2, "what was done stays to be seen");
    world.cluster = busy;
    world.changes.clear();
    record.look(world.objects(), &world.described(500), at(500));
    assert!(record.describe(at(500)).operations.is_empty());
}
