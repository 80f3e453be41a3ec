//! Every row of the control plane's and the workers' tables, and the messages that come of them.
#![expect(clippy::unwrap_used, reason = "test helpers")]

mod steering;

use std::time::Duration;

use windlass_api::hooks::Hook;
use windlass_engine::pause::Pause;
use windlass_engine::topology::{
    ControlPlane, ControlPlanePhase, Decision, GroupAction, GroupObject, HookAnswer, HookAnswers, Next,
    Observed, Outcome, PendingHooks, PlanSource, TopologyReconciled, WorkerGroup, WorkerKind, decide,
};
use windlass_engine::waiting::{Retry, WaitingOn};
use windlass_plan::Source;
use windlass_version::Version;

fn v(text: &str) -> Version {
    text.parse().unwrap()
}

fn catalogue() -> PlanSource {
    PlanSource::Known(Source::versions((29..=36).map(|minor| format!("v1.{minor}.0"))))
}

fn group(kind: WorkerKind, name: &str, version: &str) -> WorkerGroup {
    let object = GroupObject {
        name: format!("c-{name}"),
        version: Some(v(version)),
        upgrading: false,
        rolling_out: false,
        blocked: None,
    };
    WorkerGroup::of(kind, name, Some(object))
}

fn md(name: &str, version: &str) -> WorkerGroup {
    group(WorkerKind::MachineDeployment, name, version)
}

fn mp(name: &str, version: &str) -> WorkerGroup {
    group(WorkerKind::MachinePool, name, version)
}

fn rolling(mut group: WorkerGroup) -> WorkerGroup {
    group.object.as_mut().unwrap().upgrading = true;
    group
}

/// A running cluster on its way from one version to another.
fn cluster(control_plane: &str, target: &str, workers: Vec<WorkerGroup>, pending: &[Hook]) -> Observed {
    Observed {
        source: catalogue(),
        control_plane: Some(ControlPlane {
            kind: "KubeadmControlPlane".to_owned(),
            name: "c-cp".to_owned(),
            version: v(control_plane),
            running: vec![v(control_plane)],
            unborn: false,
            leaves_step: false,
            updating_in_place: false,
            blocked: None,
        }),
        workers,
        pending_hooks: pending.iter().copied().collect(),
        created: true,
        control_plane_initialized: true,
        ..Observed::new(v(target))
    }
}

/// Decides with the answers given, and everything else passed; also tells the calls that were made.
fn run(observed: &Observed, given: &[(Hook, HookAnswer)]) -> (Decision, Vec<String>) {
    let (mut answers, mut calls) = (HookAnswers::new(), Vec::new());
    loop {
        match decide(observed, &answers) {
            Next::Act(decision) => return (*decision, calls),
            Next::Call(call) => {
                calls.push(call.to_string());
                let answer = given.iter().find(|(hook, _)| *hook == call.hook);
                answers.insert(&call, answer.map_or(HookAnswer::Passed, |(_, answer)| answer.clone()));
            }
        }
    }
}

fn blocked(hook: Hook) -> (Hook, HookAnswer) {
    (
        hook,
        HookAnswer::Blocked {
            retry: Retry { left: Duration::from_secs(30), interval: Duration::from_secs(30) },
            asked_seconds: 30,
            handlers: vec!["gate.e".to_owned()],
            message: "busy".to_owned(),
        },
    )
}

fn failed(hook: Hook) -> (Hook, HookAnswer) {
    (hook, HookAnswer::Failed { error: "down".to_owned(), retry: None })
}

const ALL_OF_A_STEP: [Hook; 4] = [
    Hook::AfterClusterUpgrade,
    Hook::AfterControlPlaneUpgrade,
    Hook::AfterWorkersUpgrade,
    Hook::BeforeWorkersUpgrade,
];

#[test]
fn a_new_cluster_gets_the_target_at_once() {
    let mut observed = Observed::new(v("v1.33.0"));
    observed.workers.push(WorkerGroup { object: None, ..md("a", "v1.33.0") });
    let (decision, calls) = run(&observed, &[]);
    assert_eq!(calls, ["BeforeClusterCreate"]);
    assert_eq!(decision.control_plane.version, v("v1.33.0"));
    assert_eq!(decision.control_plane.phase, ControlPlanePhase::Creating);
    assert_eq!(decision.workers[0].action, GroupAction::Create);
    assert_eq!(decision.pending_hooks.annotation().as_deref(), Some("AfterControlPlaneInitialized"));

    let (held, _) = run(&observed, &[blocked(Hook::BeforeClusterCreate)]);
    assert!(matches!(held.creation, Some(WaitingOn::Hook(_))));
    assert_eq!(held.pending_hooks, PendingHooks::default());
    let condition = TopologyReconciled::of(&Outcome::Decided { observed: &observed, decision: &held });
    assert_eq!(condition.reason, "ClusterCreating");
    assert_eq!(
        condition.message,
        "Creation of the topology waits for BeforeClusterCreate (gate.e): busy; asked again after 30s"
    );
}

#[test]
fn the_control_plane_is_told_of_once_when_it_can_be_reached() {
    let pending = [Hook::AfterControlPlaneInitialized];
    let mut observed = cluster("v1.33.0", "v1.33.0", vec![], &pending);
    let (decision, calls) = run(&observed, &[]);
    assert_eq!(
        (calls.as_slice(), decision.pending_hooks),
        (&["AfterControlPlaneInitialized".to_owned()][..], PendingHooks::default())
    );
    let (decision, _) = run(&observed, &[failed(Hook::AfterControlPlaneInitialized)]);
    assert_eq!(decision.pending_hooks, pending.into_iter().collect());
    assert_eq!(decision.failures().len(), 1);
    observed.control_plane_initialized = false;
    assert_eq!(run(&observed, &[]).1, Vec::<String>::new());
}

/// Name, what is observed, the answers, then the version, the calls and the pending hooks.
type Row = (&'static str, Observed, Vec<(Hook, HookAnswer)>, &'static str, Vec<&'static str>, &'static str);

#[test]
fn rows_of_the_control_plane() {
    use Hook::*;
    let behind = |mut observed: Observed, running: &[&str]| {
        observed.control_plane.as_mut().unwrap().running = running.iter().map(|text| v(text)).collect();
        observed
    };
    let held = |mut observed: Observed| {
        observed.upgrade_holds.insert("before-upgrade.hook.cluster.cluster.x-k8s.io/backup".to_owned());
        observed
    };
    let recorded = |mut observed: Observed, step: &str| {
        observed.upgrade_step = Some(v(step));
        observed
    };
    let rows: Vec<Row> = vec![
        (
            "2: provisioning",
            behind(cluster("v1.29.0", "v1.33.0", vec![], &[]), &[]),
            vec![],
            "v1.29.0",
            vec![],
            "",
        ),
        (
            "3: upgrading",
            behind(
                cluster("v1.30.0", "v1.33.0", vec![], &[AfterClusterUpgrade, AfterControlPlaneUpgrade]),
                &["v1.29.0", "v1.30.0"],
            ),
            vec![],
            "v1.30.0",
            vec![],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "4: AfterControlPlaneUpgrade blocks",
            cluster(
                "v1.30.0",
                "v1.33.0",
                vec![md("a", "v1.29.0")],
                &[AfterClusterUpgrade, AfterControlPlaneUpgrade],
            ),
            vec![blocked(AfterControlPlaneUpgrade)],
            "v1.30.0",
            vec!["AfterControlPlaneUpgrade v1.30.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "4: AfterControlPlaneUpgrade fails",
            cluster(
                "v1.30.0",
                "v1.33.0",
                vec![md("a", "v1.29.0")],
                &[AfterClusterUpgrade, AfterControlPlaneUpgrade],
            ),
            vec![failed(AfterControlPlaneUpgrade)],
            "v1.30.0",
            vec!["AfterControlPlaneUpgrade v1.30.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "4, 13: the next step follows in the same reconcile when workers can stay",
            cluster(
                "v1.30.0",
                "v1.33.0",
                vec![md("a", "v1.29.0")],
                &[AfterClusterUpgrade, AfterControlPlaneUpgrade],
            ),
            vec![],
            "v1.31.0",
            vec!["AfterControlPlaneUpgrade v1.30.0", "BeforeControlPlaneUpgrade v1.30.0 -> v1.31.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "5: BeforeWorkersUpgrade blocks",
            cluster("v1.32.0", "v1.33.0", vec![md("a", "v1.29.0")], &ALL_OF_A_STEP),
            vec![blocked(BeforeWorkersUpgrade)],
            "v1.32.0",
            vec!["AfterControlPlaneUpgrade v1.32.0", "BeforeWorkersUpgrade v1.29.0 -> v1.32.0"],
            "AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade",
        ),
        (
            "6: workers must reach this version",
            cluster("v1.32.0", "v1.33.0", vec![md("a", "v1.29.0")], &ALL_OF_A_STEP),
            vec![],
            "v1.32.0",
            vec!["AfterControlPlaneUpgrade v1.32.0", "BeforeWorkersUpgrade v1.29.0 -> v1.32.0"],
            "AfterClusterUpgrade,AfterWorkersUpgrade",
        ),
        (
            "7: workers are on their way",
            cluster(
                "v1.32.0",
                "v1.33.0",
                vec![rolling(md("a", "v1.32.0"))],
                &[AfterClusterUpgrade, AfterWorkersUpgrade],
            ),
            vec![],
            "v1.32.0",
            vec![],
            "AfterClusterUpgrade,AfterWorkersUpgrade",
        ),
        (
            "8: AfterWorkersUpgrade blocks the next step",
            cluster(
                "v1.32.0",
                "v1.33.0",
                vec![md("a", "v1.32.0")],
                &[AfterClusterUpgrade, AfterWorkersUpgrade],
            ),
            vec![blocked(AfterWorkersUpgrade)],
            "v1.32.0",
            vec!["AfterWorkersUpgrade v1.32.0"],
            "AfterClusterUpgrade,AfterWorkersUpgrade",
        ),
        (
            "8: at the target its wait is ignored",
            cluster(
                "v1.33.0",
                "v1.33.0",
                vec![md("a", "v1.33.0")],
                &[AfterClusterUpgrade, AfterWorkersUpgrade],
            ),
            vec![blocked(AfterWorkersUpgrade)],
            "v1.33.0",
            vec!["AfterWorkersUpgrade v1.33.0", "AfterClusterUpgrade v1.33.0"],
            "",
        ),
        (
            "8: at the target its failure is not",
            cluster(
                "v1.33.0",
                "v1.33.0",
                vec![md("a", "v1.33.0")],
                &[AfterClusterUpgrade, AfterWorkersUpgrade],
            ),
            vec![failed(AfterWorkersUpgrade)],
            "v1.33.0",
            vec!["AfterWorkersUpgrade v1.33.0"],
            "AfterClusterUpgrade,AfterWorkersUpgrade",
        ),
        (
            "9: nothing to do",
            cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.33.0")], &[]),
            vec![],
            "v1.33.0",
            vec![],
            "",
        ),
        (
            "10: an annotation holds the upgrade",
            held(cluster("v1.29.0", "v1.33.0", vec![md("a", "v1.29.0")], &[])),
            vec![],
            "v1.29.0",
            vec![],
            "",
        ),
        (
            "10: the annotation has no effect once the upgrade has begun",
            held(cluster("v1.30.0", "v1.33.0", vec![md("a", "v1.29.0")], &[AfterClusterUpgrade])),
            vec![],
            "v1.31.0",
            vec!["BeforeControlPlaneUpgrade v1.30.0 -> v1.31.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "10: BeforeClusterUpgrade blocks",
            cluster("v1.29.0", "v1.33.0", vec![md("a", "v1.29.0")], &[]),
            vec![blocked(BeforeClusterUpgrade)],
            "v1.29.0",
            vec!["BeforeClusterUpgrade v1.29.0 -> v1.33.0"],
            "",
        ),
        (
            "11, 13: BeforeControlPlaneUpgrade blocks, the upgrade has begun",
            cluster("v1.29.0", "v1.33.0", vec![md("a", "v1.29.0")], &[]),
            vec![blocked(BeforeControlPlaneUpgrade)],
            "v1.29.0",
            vec!["BeforeClusterUpgrade v1.29.0 -> v1.33.0", "BeforeControlPlaneUpgrade v1.29.0 -> v1.30.0"],
            "AfterClusterUpgrade",
        ),
        (
            "14: the step starts",
            cluster("v1.29.0", "v1.33.0", vec![md("a", "v1.29.0")], &[]),
            vec![],
            "v1.30.0",
            vec!["BeforeClusterUpgrade v1.29.0 -> v1.33.0", "BeforeControlPlaneUpgrade v1.29.0 -> v1.30.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "14: with the hooks of the workers, if any group stops there",
            cluster(
                "v1.31.0",
                "v1.33.0",
                vec![md("b", "v1.31.0"), md("a", "v1.29.0")],
                &[AfterClusterUpgrade],
            ),
            vec![],
            "v1.32.0",
            vec!["BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade",
        ),
        (
            "a step that was recorded before a crash is taken without its hooks",
            recorded(
                cluster("v1.29.0", "v1.33.0", vec![], &[AfterClusterUpgrade, AfterControlPlaneUpgrade]),
                "v1.30.0",
            ),
            vec![],
            "v1.30.0",
            vec![],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "a recorded step that is no longer the next one is forgotten with its hooks",
            recorded(
                cluster("v1.29.0", "v1.33.0", vec![], &[AfterClusterUpgrade, AfterControlPlaneUpgrade]),
                "v1.30.7",
            ),
            vec![],
            "v1.30.0",
            vec!["BeforeControlPlaneUpgrade v1.29.0 -> v1.30.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "a recorded step waits if the plan has workers go before it by now",
            recorded(
                cluster(
                    "v1.32.0",
                    "v1.33.0",
                    vec![md("a", "v1.29.0")],
                    &[AfterClusterUpgrade, AfterControlPlaneUpgrade],
                ),
                "v1.33.0",
            ),
            vec![],
            "v1.32.0",
            vec!["BeforeWorkersUpgrade v1.29.0 -> v1.32.0"],
            "AfterClusterUpgrade,AfterWorkersUpgrade",
        ),
        (
            "W1: workers that no step of the control plane has promised have their hooks too",
            cluster("v1.32.0", "v1.33.0", vec![md("a", "v1.29.0")], &[]),
            vec![],
            "v1.32.0",
            vec!["BeforeWorkersUpgrade v1.29.0 -> v1.32.0"],
            "AfterWorkersUpgrade",
        ),
        (
            "W1: and wait for them",
            cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.32.0")], &[AfterClusterUpgrade]),
            vec![blocked(BeforeWorkersUpgrade)],
            "v1.33.0",
            vec!["BeforeWorkersUpgrade v1.32.0 -> v1.33.0"],
            "AfterClusterUpgrade,AfterWorkersUpgrade,BeforeWorkersUpgrade",
        ),
        (
            "W1: the hook after them is called, that of an upgrade which never began is not",
            cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.33.0")], &[AfterWorkersUpgrade]),
            vec![],
            "v1.33.0",
            vec!["AfterWorkersUpgrade v1.33.0"],
            "",
        ),
        (
            "W1: not while no group may go",
            cluster(
                "v1.32.0",
                "v1.33.0",
                vec![WorkerGroup { in_topology: false, ..md("a", "v1.29.0") }],
                &[],
            ),
            vec![],
            "v1.32.0",
            vec![],
            "",
        ),
        (
            "W2: a step of workers that the plan has lost is dropped with its hooks",
            cluster("v1.31.0", "v1.33.0", vec![md("a", "v1.30.0")], &ALL_OF_A_STEP),
            vec![],
            "v1.32.0",
            vec!["AfterControlPlaneUpgrade v1.31.0", "BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0"],
            "AfterClusterUpgrade,AfterControlPlaneUpgrade",
        ),
        (
            "AfterClusterUpgrade waits and stays pending",
            cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.33.0")], &[AfterClusterUpgrade]),
            vec![blocked(AfterClusterUpgrade)],
            "v1.33.0",
            vec!["AfterClusterUpgrade v1.33.0"],
            "AfterClusterUpgrade",
        ),
    ];
    for (name, observed, answers, version, calls, pending) in rows {
        let (decision, called) = run(&observed, &answers);
        assert_eq!(decision.control_plane.version, v(version), "{name}");
        assert_eq!(called, calls, "{name}");
        assert_eq!(decision.pending_hooks.annotation().unwrap_or_default(), pending, "{name}");
        let under_way = decision.pending_hooks.contains(AfterClusterUpgrade);
        assert_eq!(decision.upgrade_step, under_way.then(|| v(version)), "{name}");
    }
}

#[test]
fn without_a_path_everything_keeps_its_version_and_says_why() {
    let mut observed = cluster("v1.29.0", "v1.38.0", vec![md("a", "v1.29.0")], &[]);
    let (decision, calls) = run(&observed, &[]);
    assert_eq!(calls, Vec::<String>::new());
    assert_eq!(decision.control_plane.version, v("v1.29.0"));
    assert!(matches!(decision.workers[0].action, GroupAction::Later(WaitingOn::Path(_))));
    let condition = TopologyReconciled::of(&Outcome::Decided { observed: &observed, decision: &decision });
    assert_eq!(condition.reason, "ReconcileFailed");
    assert!(condition.message.starts_with("no upgrade path: target v1.38.0"), "{}", condition.message);

    observed.source = PlanSource::Unavailable("handler plan.ext is not ready".to_owned());
    let (decision, _) = run(&observed, &[]);
    let condition = TopologyReconciled::of(&Outcome::Decided { observed: &observed, decision: &decision });
    assert_eq!(condition.message, "no upgrade plan: handler plan.ext is not ready");
}

fn actions(decision: &Decision) -> Vec<String> {
    decision
        .workers
        .iter()
        .map(|group| match &group.action {
            GroupAction::Upgrade { from } => format!("{} {from} -> {}", group.topology_name, group.version),
            GroupAction::Later(waiting) => format!("{} waits: {waiting}", group.topology_name),
            GroupAction::CreateLater(waiting) => format!("{} later: {waiting}", group.topology_name),
            GroupAction::Create => format!("{} created", group.topology_name),
            GroupAction::Keep => format!("{} kept", group.topology_name),
        })
        .collect()
}

/// Name, what is observed, the answers, then what happens to each group.
type WorkersRow = (&'static str, Observed, Vec<(Hook, HookAnswer)>, Vec<String>);

#[test]
fn rows_of_the_workers() {
    use Hook::*;
    let deferred = |mut group: WorkerGroup| {
        group.defer = true;
        group
    };
    let holding = |mut group: WorkerGroup| {
        group.hold = true;
        group
    };
    let absent = |mut group: WorkerGroup| {
        group.object = None;
        group
    };
    let at_step = [AfterClusterUpgrade, AfterWorkersUpgrade];
    let two_at_a_time = |mut observed: Observed| {
        observed.concurrency = 2;
        observed
    };
    let defer = "topology.cluster.x-k8s.io/defer-upgrade";
    let hold = "topology.cluster.x-k8s.io/hold-upgrade-sequence";
    let rows: Vec<WorkersRow> = vec![
        (
            "1: created when the control plane is stable",
            cluster("v1.33.0", "v1.33.0", vec![absent(md("a", "v1.33.0"))], &[]),
            vec![],
            vec!["a created".into()],
        ),
        (
            "1: not while the control plane has steps to go",
            cluster("v1.29.0", "v1.33.0", vec![absent(md("a", "v1.33.0"))], &[]),
            vec![],
            vec!["a later: the control plane to be stable at v1.33.0".into()],
        ),
        (
            "1: not while a hook holds workers",
            cluster(
                "v1.33.0",
                "v1.33.0",
                vec![absent(md("a", "v1.33.0"))],
                &[AfterClusterUpgrade, AfterControlPlaneUpgrade],
            ),
            vec![blocked(AfterControlPlaneUpgrade)],
            vec!["a later: AfterControlPlaneUpgrade (gate.e): busy; asked again after 30s".into()],
        ),
        (
            "2: at the target",
            cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.33.0")], &[]),
            vec![],
            vec!["a kept".into()],
        ),
        (
            "3: deferred, and the next one goes",
            cluster("v1.33.0", "v1.33.0", vec![deferred(md("a", "v1.32.0")), md("b", "v1.32.0")], &at_step),
            vec![],
            vec![format!("a waits: removal of annotation {defer}"), "b v1.32.0 -> v1.33.0".into()],
        ),
        (
            "3: the sequence is held from there on, MachinePools included",
            cluster(
                "v1.33.0",
                "v1.33.0",
                vec![md("a", "v1.33.0"), holding(md("b", "v1.32.0")), md("c", "v1.32.0"), mp("d", "v1.32.0")],
                &at_step,
            ),
            vec![],
            vec![
                "a kept".into(),
                format!("b waits: removal of annotation {hold} of b"),
                format!("c waits: removal of annotation {hold} of b"),
                "d waits: removal of annotation topology.cluster.x-k8s.io/hold-upgrade-sequence of b".into(),
            ],
        ),
        (
            "4, 5: a hook holds workers",
            cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.32.0")], &ALL_OF_A_STEP),
            vec![failed(BeforeWorkersUpgrade)],
            vec!["a waits: BeforeWorkersUpgrade failed: down".into()],
        ),
        (
            "6: one after the other",
            cluster("v1.33.0", "v1.33.0", vec![rolling(md("a", "v1.33.0")), md("b", "v1.32.0")], &at_step),
            vec![],
            vec!["a kept".into(), "b waits: MachineDeployment c-a to finish, 1 may upgrade at a time".into()],
        ),
        (
            "6: or as many as allowed, and MachinePools after them",
            two_at_a_time(cluster(
                "v1.33.0",
                "v1.33.0",
                vec![md("a", "v1.32.0"), md("b", "v1.32.0"), md("c", "v1.32.0"), mp("d", "v1.32.0")],
                &at_step,
            )),
            vec![],
            vec![
                "a v1.32.0 -> v1.33.0".into(),
                "b v1.32.0 -> v1.33.0".into(),
                "c waits: MachineDeployment c-a, MachineDeployment c-b to finish, 2 may upgrade at a time"
                    .into(),
                "d waits: MachineDeployment c-a, MachineDeployment c-b, MachineDeployment c-c to finish, \
                 MachinePools come after MachineDeployments"
                    .into(),
            ],
        ),
        (
            "7: the control plane is on its way",
            {
                let mut observed = cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.32.0")], &ALL_OF_A_STEP);
                observed.control_plane.as_mut().unwrap().running = vec![v("v1.32.0"), v("v1.33.0")];
                observed
            },
            vec![],
            vec!["a waits: KubeadmControlPlane c-cp to reach v1.33.0, it runs v1.32.0, v1.33.0".into()],
        ),
        (
            "9: this group did the step already, another one has not",
            cluster("v1.32.0", "v1.33.0", vec![md("a", "v1.32.0"), md("b", "v1.29.0")], &at_step),
            vec![],
            vec!["a waits: the control plane to reach v1.33.0".into(), "b v1.29.0 -> v1.32.0".into()],
        ),
        (
            "a group that may skip a version is left alone",
            cluster("v1.32.0", "v1.34.0", vec![md("a", "v1.31.0"), md("b", "v1.29.0")], &at_step),
            vec![],
            vec!["a waits: the control plane to reach v1.34.0".into(), "b v1.29.0 -> v1.32.0".into()],
        ),
    ];
    for (name, observed, answers, expected) in rows {
        let (decision, _) = run(&observed, &answers);
        assert_eq!(actions(&decision), expected, "{name}");
    }
}

#[test]
fn a_group_that_left_the_topology_still_holds_the_control_plane() {
    let leaving = WorkerGroup { in_topology: false, ..md("old", "v1.29.0") };
    let observed = cluster("v1.32.0", "v1.33.0", vec![leaving], &[Hook::AfterClusterUpgrade]);
    let (decision, _) = run(&observed, &[]);
    assert_eq!(decision.control_plane.version, v("v1.32.0"));
    assert_eq!(decision.workers, []);
    assert_eq!(
        decision.control_plane.waiting.unwrap().to_string(),
        "MachineDeployment c-old to reach v1.32.0"
    );
}

#[test]
fn hooks_are_told_what_remains() {
    let observed = cluster("v1.29.0", "v1.33.0", vec![md("a", "v1.29.0")], &[]);
    let Next::Call(call) = decide(&observed, &HookAnswers::new()) else { unreachable!("no hook was called") };
    let text = |versions: &[Version]| versions.iter().map(Version::to_string).collect::<Vec<_>>().join(" ");
    assert_eq!(text(&call.control_plane_plan), "v1.30.0 v1.31.0 v1.32.0 v1.33.0");
    assert_eq!(text(&call.workers_plan), "v1.32.0 v1.33.0");
}

fn condition(observed: &Observed, answers: &[(Hook, HookAnswer)]) -> (&'static str, String) {
    let (decision, _) = run(observed, answers);
    let TopologyReconciled { reason, message, .. } =
        TopologyReconciled::of(&Outcome::Decided { observed, decision: &decision });
    (reason, message)
}

#[test]
fn the_condition_says_who_goes_where_and_what_holds_it() {
    let observed = cluster("v1.29.0", "v1.33.0", vec![md("a", "v1.29.0")], &[]);
    assert_eq!(
        condition(&observed, &[blocked(Hook::BeforeClusterUpgrade)]),
        (
            "ClusterUpgrading",
            "The Cluster is upgrading to v1.33.0\n  \
             * The upgrade waits for BeforeClusterUpgrade (gate.e): busy; asked again after 30s\n  \
             * KubeadmControlPlane will upgrade to v1.30.0, v1.31.0, v1.32.0, v1.33.0\n  \
             * MachineDeployment c-a will upgrade to v1.32.0, v1.33.0"
                .to_owned()
        )
    );
    assert_eq!(
        condition(&observed, &[]).1,
        "The Cluster is upgrading to v1.33.0\n  \
         * The upgrade waits for KubeadmControlPlane c-cp to reach v1.30.0, it runs v1.29.0\n  \
         * KubeadmControlPlane is upgrading to v1.30.0 (v1.31.0, v1.32.0, v1.33.0 to follow)\n  \
         * MachineDeployment c-a will upgrade to v1.32.0, v1.33.0"
    );
    let many = ["a", "b", "c", "d", "e"].map(|name| md(name, "v1.32.0")).to_vec();
    let observed = cluster("v1.33.0", "v1.33.0", many, &[Hook::AfterClusterUpgrade]);
    assert_eq!(
        condition(&observed, &[]).1,
        "The Cluster is upgrading to v1.33.0\n  \
         * The upgrade waits for MachineDeployment c-a to reach v1.33.0\n  \
         * MachineDeployment c-a is upgrading to v1.33.0\n  \
         * MachineDeployments c-b, c-c, c-d, ... (1 more) will upgrade to v1.33.0"
    );
    let mut deferred = md("a", "v1.32.0");
    deferred.defer = true;
    let observed = cluster("v1.33.0", "v1.33.0", vec![deferred], &[Hook::AfterClusterUpgrade]);
    assert_eq!(condition(&observed, &[]).0, "MachineDeploymentsUpgradeDeferred");
    let mut pool = mp("p", "v1.32.0");
    pool.hold = true;
    let observed = cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.33.0"), pool], &[]);
    assert_eq!(condition(&observed, &[]).0, "MachinePoolsUpgradeDeferred");
    let observed = cluster("v1.33.0", "v1.33.0", vec![md("a", "v1.33.0")], &[]);
    assert_eq!(condition(&observed, &[]), ("ReconcileSucceeded", String::new()));
    assert_eq!(condition(&observed, &[failed(Hook::AfterClusterUpgrade)]).0, "ReconcileSucceeded");
}

#[test]
fn other_outcomes_have_their_reasons() {
    for (outcome, reason) in [
        (Outcome::Paused(Pause { by_cluster: true, by_annotation: false }), "Paused"),
        (Outcome::Failed("no template".to_owned()), "ReconcileFailed"),
        (Outcome::Deleting { waiting: None }, "Deleting"),
        (Outcome::ClassNotReconciled { class: "quick".to_owned() }, "ClusterClassNotReconciled"),
    ] {
        let condition = TopologyReconciled::of(&outcome);
        assert_eq!((condition.status, condition.reason), (false, reason));
        assert!(!condition.message.is_empty());
    }
}

/// Name, what is observed, the answers, and reason and words of the one thing that is waited on.
type Waits = (&'static str, Observed, Vec<(Hook, HookAnswer)>, Option<(&'static str, &'static str)>);

#[test]
fn the_whole_upgrade_waits_on_one_thing() {
    let start = || cluster("v1.29.0", "v1.33.0", vec![md("a", "v1.29.0")], &[]);
    let at_target = |groups| cluster("v1.33.0", "v1.33.0", groups, &[Hook::AfterClusterUpgrade]);
    let mut rolling = md("b", "v1.33.0");
    rolling.object.as_mut().unwrap().upgrading = true;
    let deferred = WorkerGroup { defer: true, ..md("a", "v1.32.0") };
    let rows: Vec<Waits> = vec![
        (
            "what has to be repaired comes first",
            start(),
            vec![failed(Hook::BeforeClusterUpgrade)],
            Some(("HookFailed", "BeforeClusterUpgrade failed: down")),
        ),
        (
            "then extensions",
            start(),
            vec![blocked(Hook::BeforeClusterUpgrade)],
            Some(("WaitingForHook", "BeforeClusterUpgrade (gate.e): busy; asked again after 30s")),
        ),
        (
            "then the control plane",
            start(),
            vec![],
            Some((
                "WaitingForControlPlaneUpgrade",
                "KubeadmControlPlane c-cp to reach v1.30.0, it runs v1.29.0",
            )),
        ),
        (
            "then the groups that are on their way",
            at_target(vec![deferred.clone(), rolling]),
            vec![],
            Some(("WaitingForWorkersUpgrade", "MachineDeployment c-b to reach v1.33.0")),
        ),
        (
            "then what keeps a group back",
            at_target(vec![deferred]),
            vec![],
            Some(("UpgradeDeferred", "removal of annotation topology.cluster.x-k8s.io/defer-upgrade")),
        ),
        ("nothing at the end", at_target(vec![md("a", "v1.33.0")]), vec![], None),
    ];
    for (name, observed, answers, expected) in rows {
        let (decision, _) = run(&observed, &answers);
        let outcome = Outcome::Decided { observed: &observed, decision: &decision };
        let waiting = outcome.waiting();
        let said = waiting.as_ref().map(|on| (on.reason(), on.to_string()));
        let expected = expected.map(|(reason, words)| (reason, words.to_owned()));
        assert_eq!(said, expected, "{name}");
        let message = TopologyReconciled::of(&outcome).message;
        assert!(said.is_none_or(|(_, words)| message.contains(&words)), "{name}: {message}");
    }
    let paused = Outcome::Paused(Pause { by_cluster: true, by_annotation: false });
    assert!(!paused.tells_waiting() && paused.waiting().is_none(), "a pause does not end a wait");
}
