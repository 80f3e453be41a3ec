//! What a MachineSet decides, as tables.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeSet;

use jiff::Timestamp;
use windlass_engine::machine_set::{
    Belonging, Candidate, Check, ControlPlane, Controller, Deferred, DeletionOrder, Foreign, Handover,
    HandoverError, Hold, Machine, NameParts, NamedOwner, NamingError, Observed, OwnerRemediated, PassedOver,
    Policy, Preflight, Remediation, Replicas, Target, Topology, WhyPassedOver, arrivals_to_release,
    belonging, deletion_order, machine_name, preflight, remediation, replicas, updates_to_start,
};
use windlass_engine::rollout::Amount;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// A healthy machine, created at a second.
fn machine(name: &str, created: i64) -> Machine {
    Machine {
        name: name.to_owned(),
        created: Some(at(created)),
        deleting: false,
        marked: false,
        remediate_requested: false,
        updating: false,
        pending_acknowledge: false,
        update_started: false,
        available: true,
        has_node: true,
        node_unhealthy: false,
        health_check_failed: false,
        owner_remediated: None,
    }
}

fn sick(name: &str, created: i64) -> Machine {
    let owner_remediated = Some(OwnerRemediated::Waiting);
    Machine { health_check_failed: true, owner_remediated, ..machine(name, created) }
}

fn observed(replicas: u32, machines: Vec<Machine>) -> Observed {
    Observed {
        name: "ms".to_owned(),
        replicas,
        order: DeletionOrder::Random,
        create_disabled: false,
        acknowledged: BTreeSet::new(),
        moves_to: None,
        updated: None,
        machines,
        now: at(1000),
    }
}

fn many(count: usize) -> Vec<Machine> {
    (0..count).map(|index| machine(&format!("m{index}"), 0)).collect()
}

fn names(list: &[&str]) -> BTreeSet<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn of_machines_that_others_update_only_those_that_are_done_are_handed_over() {
    let target = Target { name: "new".to_owned(), receives_from: Some(names(&["ms"])) };
    let machines = || vec![machine("a", 1), machine("b", 2), machine("c", 3)];
    let state = |replicas, updated: &[&str], machines| Observed {
        moves_to: Some(target.clone()),
        updated: Some(names(updated)),
        ..observed(replicas, machines)
    };
    let handed = |state: &Observed| match replicas(state, &[]).unwrap() {
        Replicas::Move(handover) => (handover.machines, handover.delete, handover.passed_over.len()),
        Replicas::Settled => (vec![], vec![], 0),
        other => panic!("{other:?}"),
    };
    assert_eq!(handed(&state(2, &["b"], machines())), (texts(&["b"]), vec![], 1));
    // Nothing else goes in its place, and nothing is deleted.
    assert_eq!(handed(&state(1, &["b"], machines())), (texts(&["b"]), vec![], 2));
    assert_eq!(handed(&state(2, &[], machines())), (vec![], vec![], 3));
    // One that a health check has given up goes.
    let with_sick = vec![sick("a", 1), machine("b", 2), machine("c", 3)];
    assert_eq!(handed(&state(1, &["b"], with_sick)).0, texts(&["b"]));
    // What arrived is released once it is counted.
    let arrived = |name: &str| Machine { pending_acknowledge: true, ..machine(name, 1) };
    let updating = Machine { updating: true, ..arrived("c") };
    let counted = Observed {
        acknowledged: names(&["a", "c"]),
        ..observed(3, vec![arrived("a"), arrived("b"), updating])
    };
    assert_eq!(arrivals_to_release(&counted), ["a"]);
    assert_eq!(updates_to_start(&counted), ["c"]);
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|&name| name.to_owned()).collect()
}

fn failing() -> Vec<windlass_engine::machine_set::Failure> {
    preflight(&Preflight {
        control_plane: Some(ControlPlane { version: "v1.31.0", provisioning: true, upgrading: false }),
        topology: None,
        version: None,
        kubeadm: false,
        skipped: BTreeSet::new(),
    })
}

#[test]
fn who_goes_first() {
    let machines = vec![
        machine("d-middle", 20),
        machine("c-old", 10),
        machine("b-young", 30),
        machine("a-future", 2000),
        Machine { created: None, ..machine("z-ageless", 0) },
        Machine { has_node: false, ..machine("nodeless", 5) },
        Machine { node_unhealthy: true, ..machine("ill", 6) },
        sick("failed-check", 7),
        Machine { updating: true, ..machine("updating", 1) },
        Machine { marked: true, updating: true, ..machine("marked", 2) },
        Machine { deleting: true, ..machine("deleting", 3) },
    ];
    let order = |order| {
        let sorted = deletion_order(&machines, order, at(1000));
        sorted.iter().map(|machine| machine.name.as_str()).collect::<Vec<_>>()
    };
    let first = ["deleting", "marked", "updating", "failed-check", "ill", "nodeless"];
    for (chosen, then) in [
        (DeletionOrder::Random, ["a-future", "b-young", "c-old", "d-middle", "z-ageless"]),
        (DeletionOrder::Oldest, ["c-old", "d-middle", "b-young", "a-future", "z-ageless"]),
        (DeletionOrder::Newest, ["b-young", "d-middle", "c-old", "a-future", "z-ageless"]),
    ] {
        assert_eq!(order(chosen), [&first[..], &then[..]].concat(), "{chosen:?}");
    }
}

#[test]
fn machines_are_created_and_deleted_to_the_number_asked_for() {
    let three = || vec![machine("a", 1), machine("b", 2), machine("c", 3)];
    let with_deleting = || {
        let mut machines = three();
        machines[1].deleting = true;
        machines
    };
    for (state, expected) in [
        (observed(3, three()), Replicas::Settled),
        (observed(5, three()), Replicas::Create { count: 2 }),
        // As many as there are are added at once, and at least 50.
        (observed(5000, three()), Replicas::Create { count: 50 }),
        (observed(5000, many(120)), Replicas::Create { count: 120 }),
        (observed(5000, many(2000)), Replicas::Create { count: 500 }),
        (observed(1, three()), Replicas::Delete { machines: texts(&["a", "b"]) }),
        (
            Observed { order: DeletionOrder::Newest, ..observed(1, three()) },
            Replicas::Delete { machines: texts(&["c", "b"]) },
        ),
        (observed(0, vec![]), Replicas::Settled),
        // What leaves is replaced when it has left, and is counted as one of those that have to go.
        (observed(3, with_deleting()), Replicas::Settled),
        (observed(2, with_deleting()), Replicas::Settled),
        (observed(1, with_deleting()), Replicas::Delete { machines: texts(&["a"]) }),
        (
            Observed { create_disabled: true, ..observed(5, three()) },
            Replicas::Hold { count: 2, why: Hold::CreateDisabled },
        ),
        (
            Observed { create_disabled: true, ..observed(2, three()) },
            Replicas::Delete { machines: texts(&["a"]) },
        ),
    ] {
        assert_eq!(replicas(&state, &[]).unwrap(), expected, "{state:?}");
    }
    // Checks hold creation, not deletion.
    let held = Replicas::Hold { count: 2, why: Hold::Preflight(failing()) };
    assert_eq!(replicas(&observed(5, three()), &failing()).unwrap(), held);
    let deleted = Replicas::Delete { machines: texts(&["a"]) };
    assert_eq!(replicas(&observed(2, three()), &failing()).unwrap(), deleted);
}

#[test]
fn machines_that_arrived_are_not_too_many_while_they_wait_to_be_counted() {
    let pending = Machine { pending_acknowledge: true, updating: true, ..machine("b", 2) };
    let state = |spec, counted: &[&str]| Observed {
        acknowledged: names(counted),
        ..observed(spec, vec![machine("a", 1), pending.clone()])
    };
    for (spec, counted, expected) in [
        (1, &[] as &[&str], Replicas::Settled),
        (0, &[], Replicas::Delete { machines: texts(&["b"]) }),
        (2, &["b"], Replicas::Settled),
        // Counted once: now it is one too many.
        (1, &["b"], Replicas::Delete { machines: texts(&["b"]) }),
        (1, &["gone"], Replicas::Settled),
    ] {
        assert_eq!(replicas(&state(spec, counted), &[]).unwrap(), expected, "{spec} {counted:?}");
    }
}

#[test]
fn updates_start_once_the_machine_is_counted() {
    let updating = |name| Machine { updating: true, ..machine(name, 1) };
    let pending = |name| Machine { pending_acknowledge: true, ..updating(name) };
    let machines = vec![
        machine("idle", 1),
        pending("uncounted"),
        pending("counted"),
        // The annotation was removed and then the controller stopped: it goes on.
        updating("half-started"),
        Machine { update_started: true, ..updating("started") },
        Machine { deleting: true, ..pending("leaving") },
    ];
    let state = Observed { acknowledged: names(&["counted", "leaving"]), ..observed(6, machines) };
    assert_eq!(updates_to_start(&state), ["counted", "half-started"]);
}

#[test]
fn machines_are_handed_over_instead_of_deleted() {
    let machines = vec![
        machine("a", 1),
        machine("b", 2),
        Machine { marked: true, ..machine("c", 3) },
        Machine { deleting: true, ..machine("d", 4) },
        sick("e", 5),
        Machine { updating: true, ..machine("f", 6) },
        Machine { has_node: false, ..machine("g", 7) },
    ];
    let target = |receives_from| Some(Target { name: "next".to_owned(), receives_from });
    let giving =
        |spec| Observed { moves_to: target(Some(names(&["ms"]))), ..observed(spec, machines.clone()) };
    let passed = |list: &[(&str, WhyPassedOver)]| {
        list.iter().map(|&(name, why)| PassedOver { name: name.to_owned(), why }).collect()
    };
    let (updating, node) = (("f", WhyPassedOver::Updating), ("g", WhyPassedOver::NoNode));
    let moved = |machines: &[&str], delete: &[&str], passed_over| {
        let (machines, delete) = (texts(machines), texts(delete));
        Replicas::Move(Handover { to: "next".to_owned(), machines, delete, passed_over })
    };
    for (spec, expected) in [
        (7, Replicas::Settled),
        // The one that is on its way out is enough.
        (6, Replicas::Settled),
        // A marked one is handed over: the next MachineSet honours the wish.
        (5, moved(&["c"], &[], passed(&[]))),
        // Who is updating waits for the next time; who is sick is deleted instead.
        (4, moved(&["c"], &["e"], passed(&[updating]))),
        (3, moved(&["c", "a"], &["e"], passed(&[updating, node]))),
        (0, moved(&["c", "a", "b"], &["e"], passed(&[updating, node]))),
    ] {
        assert_eq!(replicas(&giving(spec), &[]).unwrap(), expected, "{spec}");
    }
    let held = Replicas::Hold { count: 2, why: Hold::Preflight(failing()) };
    assert_eq!(
        replicas(&giving(5), &failing()).unwrap(),
        held,
        "a version that may not be created may not be reached"
    );

    let told: Vec<String> = match replicas(&giving(3), &[]).unwrap() {
        Replicas::Move(handover) => handover.passed_over.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    };
    assert_eq!(
        told,
        [
            "Machine f is being updated and cannot be handed over",
            "Machine g has no Node yet and cannot be handed over"
        ]
    );

    let refused = |receives_from| {
        let state = Observed { moves_to: target(receives_from), ..observed(5, machines.clone()) };
        replicas(&state, &[]).unwrap_err()
    };
    let (from, to) = ("ms".to_owned(), "next".to_owned());
    assert_eq!(refused(None), HandoverError::TargetMissing { from: from.clone(), to: to.clone() });
    assert_eq!(refused(Some(names(&["other"]))), HandoverError::NotAccepted { from, to });
}

#[test]
fn preflight_checks() {
    let stable = ControlPlane { version: "v1.31.2", provisioning: false, upgrading: false };
    let base = Preflight {
        control_plane: Some(stable),
        topology: None,
        version: Some("v1.31.2"),
        kubeadm: true,
        skipped: BTreeSet::new(),
    };
    let topology =
        |version, upgrade_step| Some(Topology { version, upgrade_step, waits_for_rollouts: false });
    let waiting = Some(Topology { version: "v1.32.0", upgrade_step: None, waits_for_rollouts: true });
    let at = |version| Some(ControlPlane { version, ..stable });
    let cases: Vec<(Preflight<'_>, &[&str])> = vec![
        (base.clone(), &[]),
        (Preflight { control_plane: None, version: Some("nonsense"), ..base.clone() }, &[]),
        (Preflight { version: None, ..base.clone() }, &[]),
        (
            Preflight { control_plane: Some(ControlPlane { provisioning: true, ..stable }), ..base.clone() },
            &["control plane is being provisioned (ControlPlaneIsStable preflight check)"],
        ),
        (
            Preflight { control_plane: Some(ControlPlane { upgrading: true, ..stable }), ..base.clone() },
            &["control plane is being upgraded to v1.31.2 (ControlPlaneIsStable preflight check)"],
        ),
        (Preflight { topology: topology("v1.31.2", None), ..base.clone() }, &[]),
        (
            Preflight { topology: topology("v1.32.0", None), ..base.clone() },
            &[
                "control plane v1.31.2 was not told of version v1.32.0 yet (ControlPlaneIsStable preflight check)",
            ],
        ),
        // The upgrade has not begun, and waits for these very machines.
        (Preflight { topology: waiting, ..base.clone() }, &[]),
        (Preflight { topology: topology("v1.33.0", Some("v1.31.2")), ..base.clone() }, &[]),
        (
            Preflight { topology: topology("v1.33.0", Some("v1.32.0")), ..base.clone() },
            &[
                "control plane v1.31.2 was not told of version v1.32.0 yet (ControlPlaneIsStable preflight check)",
            ],
        ),
        (
            Preflight { version: Some("v1.32.0"), kubeadm: false, ..base.clone() },
            &["kubelet v1.32.0 is newer than control plane v1.31.2 (KubernetesVersionSkew preflight check)"],
        ),
        (Preflight { version: Some("v1.28.0"), kubeadm: false, ..base.clone() }, &[]),
        (
            Preflight { version: Some("v1.27.0"), kubeadm: false, ..base.clone() },
            &["kubelet v1.27.0 is 4 minors behind control plane v1.31.2, 3 are allowed \
               (KubernetesVersionSkew preflight check)"],
        ),
        (
            Preflight { version: Some("v1.30.0"), ..base.clone() },
            &["kubeadm v1.30.0 and control plane v1.31.2 are of different minors \
               (KubeadmVersionSkew preflight check)"],
        ),
        (
            Preflight { version: Some("v1.31.1"), topology: topology("v1.31.2", None), ..base.clone() },
            &["MachineSet version v1.31.1 and control plane version v1.31.2 differ \
               (ControlPlaneVersionSkew preflight check)"],
        ),
        (
            Preflight { version: Some("new"), kubeadm: false, ..base.clone() },
            &[
                "MachineSet: \"new\" is not a version: expected a digit, found 'n' at offset 0 (KubernetesVersionSkew preflight check)",
            ],
        ),
        (
            Preflight { control_plane: at("old"), kubeadm: false, ..base.clone() },
            &[
                "control plane: \"old\" is not a version: expected a digit, found 'o' at offset 0 (KubernetesVersionSkew preflight check)",
            ],
        ),
    ];
    for (facts, expected) in cases {
        let found: Vec<String> = preflight(&facts).iter().map(ToString::to_string).collect();
        assert_eq!(found, expected, "{facts:?}");
    }
}

#[test]
fn checks_can_be_skipped() {
    let broken = |skipped| Preflight {
        control_plane: Some(ControlPlane { version: "v1.31.0", provisioning: true, upgrading: false }),
        topology: Some(Topology { version: "v1.31.0", upgrade_step: None, waits_for_rollouts: false }),
        version: Some("v1.35.0"),
        kubeadm: true,
        skipped,
    };
    let failed = |annotation: &str| {
        let facts = broken(Check::skipped(annotation));
        preflight(&facts).into_iter().map(|failure| failure.check.name()).collect::<Vec<_>>()
    };
    let all =
        ["ControlPlaneIsStable", "KubernetesVersionSkew", "KubeadmVersionSkew", "ControlPlaneVersionSkew"];
    assert_eq!(failed(""), all);
    assert_eq!(failed("Nonsense"), all);
    assert_eq!(failed("All"), [] as [&str; 0]);
    assert_eq!(failed(" KubeadmVersionSkew ,ControlPlaneVersionSkew"), all[..2]);
    assert_eq!(failed("ControlPlaneIsStable,KubernetesVersionSkew"), all[2..]);
}

#[test]
fn unhealthy_machines_are_remediated_within_limits() {
    let under_way = Machine {
        deleting: true,
        owner_remediated: Some(OwnerRemediated::MachineDeleting),
        ..sick("under-way", 9)
    };
    let machines = vec![
        machine("healthy", 1),
        sick("old", 2),
        sick("young", 3),
        Machine { remediate_requested: true, ..sick("asked", 1) },
        Machine { health_check_failed: true, ..machine("not-ours", 1) },
        under_way,
    ];
    let state = observed(10, machines);
    let policy = |max_in_flight, preflight| Policy { current: true, max_in_flight, preflight };
    let result = |delete: &[&str], deferred: Vec<(&str, Deferred)>| Remediation {
        delete: texts(delete),
        deferred: deferred.into_iter().map(|(name, why)| (name.to_owned(), why)).collect(),
        cannot: Vec::new(),
    };
    let max = |max| Deferred::MaxInFlight(max);
    for (max_in_flight, expected) in [
        (None, result(&["asked", "young", "old"], vec![])),
        (Some(Amount::Count(3)), result(&["asked", "young"], vec![("old", max(3))])),
        (Some(Amount::Count(1)), result(&[], vec![("asked", max(1)), ("young", max(1)), ("old", max(1))])),
        // 15% of 10 are rounded up to 2, one is under way.
        (Some(Amount::Percent(15)), result(&["asked"], vec![("young", max(2)), ("old", max(2))])),
    ] {
        assert_eq!(remediation(&state, &policy(max_in_flight, vec![])), expected, "{max_in_flight:?}");
    }
    let held = remediation(&state, &policy(None, failing()));
    assert_eq!(held.delete, [] as [&str; 0]);
    assert_eq!(held.deferred.len(), 3);
    assert!(
        held.deferred[0].1.to_string().starts_with("Waiting for preflight checks to pass:\n* control plane")
    );
    let old = remediation(&state, &Policy { current: false, max_in_flight: None, preflight: vec![] });
    assert_eq!(old, Remediation { cannot: texts(&["asked", "young", "old"]), ..Remediation::default() });
}

#[test]
fn foreign_machines_are_left_alone_and_orphans_adopted() {
    let controller = |uid, name| Some(Controller { uid, kind: "MachineSet", name });
    let candidate = |name, selected, controller| Candidate { name, selected, controller, deleting: false };
    let machines = [
        candidate("own", true, controller("1", "ms")),
        // Labels may change; what is controlled stays.
        candidate("own-unselected", false, controller("1", "ms")),
        candidate("orphan", true, None),
        Candidate { deleting: true, ..candidate("leaving", true, None) },
        candidate("stranger", false, None),
        candidate("foreign", true, controller("2", "other")),
        // The controller is gone, and one of the same name came after it.
        candidate("of-the-former", true, controller("0", "ms")),
        candidate("elsewhere", false, controller("2", "other")),
    ];
    let foreign = |machine: &str, controller: &str| Foreign {
        machine: machine.to_owned(),
        controller: format!("MachineSet {controller}"),
    };
    let found = belonging("1", machines);
    assert_eq!(
        found,
        Belonging {
            owned: texts(&["own", "own-unselected"]),
            orphans: texts(&["orphan"]),
            foreign: vec![foreign("foreign", "other"), foreign("of-the-former", "ms")],
        }
    );
    assert_eq!(
        found.foreign[0].to_string(),
        "Machine foreign matches the selector but belongs to MachineSet other, it is left alone"
    );
}

#[test]
fn machines_are_named_by_template() {
    let parts = NameParts { cluster: "c1", owner: NamedOwner::MachineSet("md-0-abc"), random: "x7z2q" };
    let long = "m".repeat(80);
    let cut = |keep: usize, text: &str| format!("{}{text}", &long[..keep]);
    for (template, expected) in [
        (None, "md-0-abc-x7z2q"),
        (Some(""), "md-0-abc-x7z2q"),
        (Some("{{ .machineSet.name }}-{{ .random }}"), "md-0-abc-x7z2q"),
        (Some("{{.cluster.name}}-w.{{ .random }}"), "c1-w.x7z2q"),
        (Some("node-{{- .random -}}-z"), "node-x7z2q-z"),
        (Some("{{ .machineSet.name | trunc 4 }}-{{ .random | upper | lower }}"), "md-0-x7z2q"),
    ] {
        assert_eq!(machine_name(template, parts).unwrap(), expected, "{template:?}");
    }
    let of_long = NameParts { owner: NamedOwner::MachineSet(&long), ..parts };
    assert_eq!(machine_name(None, of_long).unwrap(), cut(57, "-x7z2q"));
    assert_eq!(machine_name(Some("{{ .random }}-{{ .machineSet.name }}"), of_long).unwrap().len(), 63);
    assert!(machine_name(Some("{{ .machineSet.name }}-{{ .random }}"), of_long).unwrap().ends_with("x7z2q"));
    let text = |text: &str| text.to_owned();
    for (template, expected) in [
        ("{{ .cluster.name }}", NamingError::NotRandom(text("{{ .cluster.name }}"))),
        ("Node-{{ .random }}", NamingError::NotAName(text("Node-x7z2q"))),
        ("-{{ .random }}", NamingError::NotAName(text("-x7z2q"))),
    ] {
        assert_eq!(machine_name(Some(template), parts).unwrap_err(), expected);
    }
    for (template, expected) in [
        (
            "{{ .random }",
            "machine naming template, line 1: unexpected character '}'; .cluster.name, .machineSet.name and .random can \
             be used",
        ),
        (
            "{{ .node }}-{{ .random }}",
            "machine naming template, line 1: there is no key \"node\"; .cluster.name, .machineSet.name and .random can \
             be used",
        ),
    ] {
        assert_eq!(machine_name(Some(template), parts).unwrap_err().to_string(), expected);
    }
    let control_plane = NameParts { owner: NamedOwner::KubeadmControlPlane("cp"), ..parts };
    assert_eq!(
        machine_name(Some("{{ .kubeadmControlPlane.name }}.{{ .random }}"), control_plane).unwrap(),
        "cp.x7z2q"
    );
    assert_eq!(machine_name(None, control_plane).unwrap(), "cp-x7z2q");
}
