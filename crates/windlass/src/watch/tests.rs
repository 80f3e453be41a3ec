//! Screens of two sizes, compared with those that are committed. `cargo xtask bless` writes them anew.

use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment};
use windlass_controllers::fleet::{ClusterView, EventView};
use windlass_engine::describe::{ClusterDescription, Described, VersionChange};
use windlass_engine::progress::LiveRecord;

use super::keys::Key;
use super::screen::picture;
use super::state::State;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// So many seconds after the upgrade began.
fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_767_225_600 + seconds).unwrap()
}

const NOW: i64 = 1500;

fn machine(
    cluster: &str,
    name: &str,
    group: Option<&str>,
    version: &str,
    created: i64,
    took: Option<i64>,
) -> Machine {
    let labels = match group {
        None => json!({"cluster.x-k8s.io/control-plane": ""}),
        Some(group) => json!({"topology.cluster.x-k8s.io/deployment-name": group}),
    };
    let condition = |type_: &str, status: &str, since: i64| {
        json!({"type": type_, "status": status, "reason": "R", "message": "* no Node yet",
            "lastTransitionTime": at(since).to_string()})
    };
    let conditions = match took {
        Some(took) => {
            ["Ready", "NodeReady", "Available"].map(|type_| condition(type_, "True", created + took)).to_vec()
        }
        None => ["Ready", "Available"].map(|type_| condition(type_, "False", created)).to_vec(),
    };
    read(json!({
        "metadata": {"name": name, "labels": labels, "creationTimestamp": at(created).to_string()},
        "spec": {"clusterName": cluster, "version": version},
        "status": {"conditions": conditions, "nodeInfo": took.map(|_| json!({"kubeletVersion": version}))},
    }))
}

/// A cluster whose workers are on their way to v1.32, or that waits, or that has nothing to do.
fn view(name: &str, wait: Option<(&str, &str)>, moved: i64) -> ClusterView {
    let is_upgrading = wait.is_some();
    let (reason, what) = wait.unwrap_or_default();
    let annotations = match is_upgrading {
        true => json!({
            "upgrade.windlass.dev/waiting-on":
                json!({"reason": reason, "what": what, "since": at(1200).to_string()}).to_string(),
            "topology.internal.cluster.x-k8s.io/upgrade-step": "v1.32.0"}),
        false => json!({}),
    };
    let (status, message) = match is_upgrading {
        true => ("False", format!("Upgrading\n  * The upgrade waits for {what}")),
        false => ("True", String::new()),
    };
    let plan = if is_upgrading { json!([{"version": "v1.33.0"}]) } else { json!([]) };
    let workers =
        if is_upgrading { json!([{"version": "v1.32.0"}, {"version": "v1.33.0"}]) } else { json!([]) };
    let cluster: Cluster = read(json!({
        "metadata": {"name": name, "namespace": "team-a", "annotations": annotations},
        "spec": {"topology": {"classRef": {"name": "q"}, "version": "v1.33.0", "workers": {"machineDeployments":
                [{"class": "w", "name": "web"}, {"class": "w", "name": "batch"}]}},
            "controlPlaneRef": {"apiGroup": "x.y", "kind": "KubeadmControlPlane", "name": format!("{name}-cp")}},
        "status": {"controlPlane": {"upgradePlan": plan}, "workers": {"upgradePlan": workers},
            "conditions": [{"type": "TopologyReconciled", "status": status, "reason": "ClusterUpgrading",
                "message": message, "lastTransitionTime": at(0).to_string()}]},
    }));
    let (control_plane, new, old) =
        if is_upgrading { ("v1.32.0", "v1.32.0", "v1.29.0") } else { ("v1.33.0", "v1.33.0", "v1.33.0") };
    let group = |entry: &str, replicas: i32, version: &str| -> MachineDeployment {
        let labels = json!({"topology.cluster.x-k8s.io/deployment-name": entry});
        read(json!({"metadata": {"name": format!("{name}-{entry}"), "labels": labels},
            "spec": {"clusterName": name, "replicas": replicas, "selector": {"matchLabels": labels},
                "template": {"spec": {"version": version}}}}))
    };
    let groups = [group("web", 3, new), group("batch", 2, old)];
    let mut machines = vec![
        machine(name, "cp-1", None, control_plane, 900, Some(110)),
        machine(name, "web-1", Some("web"), new, 1210, Some(120)),
        machine(name, "web-3", Some("web"), old, -9000, Some(130)),
        machine(name, "web-4", Some("web"), old, -9000, Some(140)),
        machine(name, "batch-1", Some("batch"), old, -9000, Some(150)),
        machine(name, "batch-2", Some("batch"), old, -9000, Some(160)),
    ];
    if is_upgrading {
        machines.push(machine(name, "web-2", Some("web"), new, moved, None));
    }
    let change = |object: String, from: &str, to: &str, seconds: i64| {
        let text = format!("Updated {object} with version change from {from} to {to}");
        VersionChange::read(&text, at(seconds)).unwrap()
    };
    let changes = vec![
        change(format!("KubeadmControlPlane {name}-cp"), "v1.29.0", "v1.30.0", 5),
        change(format!("KubeadmControlPlane {name}-cp"), "v1.30.0", "v1.31.0", 400),
        change(format!("KubeadmControlPlane {name}-cp"), "v1.31.0", "v1.32.0", 800),
        change(format!("MachineDeployment {name}-web"), "v1.29.0", "v1.32.0", 1200),
    ];
    let control_plane = json!({"spec": {"version": control_plane, "replicas": 1}});
    let objects = Described {
        cluster: &cluster,
        infrastructure: None,
        control_plane: Some(&control_plane),
        machine_deployments: &groups,
        machine_pools: &[],
        machines: &machines,
        version_changes: if is_upgrading { &changes } else { &[] },
    };
    let described = ClusterDescription::of(objects, at(NOW));
    let record = LiveRecord::begin(objects, &described, at(NOW)).describe(at(NOW));
    let events = changes.iter().rev().map(|change| EventView {
        at: Time(change.at),
        level: "Normal".to_owned(),
        reason: "TopologyUpdate".to_owned(),
        message: format!(
            "Updated {} {} with version change from {} to {}",
            change.kind, change.name, change.from, change.to
        ),
        count: 1,
    });
    let events = if is_upgrading { events.collect() } else { Vec::new() };
    ClusterView { described, record, events, targets: Vec::new() }
}

fn state() -> State {
    let mut state = State::new(None);
    let machines = ("WaitingForWorkersUpgrade", "MachineDeployment prod-web to upgrade to v1.32.0");
    let hook = ("WaitingForHook", "BeforeWorkersUpgrade: change\u{1b}[2J window opens at 22:00");
    let views = vec![
        view("idle", None, 0),
        view("prod", Some(machines), 1440),
        view("stuck", Some(machines), 1300),
        view("stage", Some(hook), 1440),
    ];
    state.update(views, None);
    state
}

/// Compares a screen with a file.
fn check(name: &str, state: &State, width: u16, height: u16) {
    let picture = picture(state, width, height, at(NOW));
    let lines: Vec<String> = (0..height)
        .map(|y| {
            let cells = (0..width).filter_map(|x| picture.cell((x, y)).map(|cell| cell.symbol()));
            cells.collect::<String>().trim_end().to_owned()
        })
        .collect();
    let text = lines.join("\n") + "\n";
    assert!(!text.contains('\u{1b}'), "what comes from objects does nothing to a terminal");
    let file =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("src/watch/screens/{name}-{width}x{height}.txt"));
    if std::env::var("TRYCMD").is_ok_and(|value| value == "overwrite") {
        std::fs::write(&file, &text).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(text, expected, "{}", file.display());
}

#[test]
fn screens_are_those_that_are_committed() {
    for (width, height) in [(80, 24), (200, 50)] {
        let mut state = state();
        check("fleet", &state, width, height);
        // Stalled and waiting clusters come first.
        for key in [Key::Down, Key::Down, Key::Enter] {
            assert!(state.press(key));
        }
        check("cluster", &state, width, height);
        assert!(state.press(Key::Letter('?')));
        check("help", &state, width, height);
    }
}

#[test]
fn keys_move_open_filter_and_end() {
    let mut state = state();
    let names = |state: &State| -> Vec<String> {
        state.shown().iter().map(|view| view.described.name.clone()).collect()
    };
    assert_eq!(names(&state), ["stuck", "stage", "prod", "idle"]);
    let press = |state: &mut State, keys: &[Key]| keys.iter().all(|key| state.press(*key));
    assert!(press(&mut state, &[Key::Down, Key::Down, Key::Down, Key::Down, Key::Up]));
    assert_eq!(state.row(), 2, "it does not go below the last row");
    assert!(press(&mut state, &[Key::Enter]));
    assert_eq!(state.open().map(|(key, view)| (key.1.as_str(), view.is_some())), Some(("prod", true)));
    assert!(press(&mut state, &[Key::Down]));
    assert_eq!(state.open().map(|(key, _)| key.1.as_str()), Some("idle"), "the next cluster");
    assert!(press(&mut state, &[Key::Back]) && state.open().is_none());
    let letters: Vec<Key> = "/STAq".chars().map(Key::Letter).collect();
    assert!(press(&mut state, &letters), "letters go into the filter");
    assert!(press(&mut state, &[Key::Erase, Key::Enter]));
    assert_eq!(names(&state), ["stuck", "stage"], "stalled is a word too");
    assert!(press(&mut state, &[Key::Back]));
    assert_eq!(names(&state).len(), 4);
    assert!(press(&mut state, &[Key::Letter('?'), Key::Letter('q')]), "any key ends the help");
    assert!(!state.press(Key::Letter('q')) && !state.press(Key::Interrupt));
}

#[test]
fn a_cluster_that_is_not_there_yet_is_waited_for() {
    let mut state = State::new(Some(("team-a".to_owned(), "new".to_owned())));
    assert!(matches!(state.open(), Some((_, None))));
    state.update(vec![view("new", None, 0)], None);
    assert!(matches!(state.open(), Some((_, Some(_)))));
}
