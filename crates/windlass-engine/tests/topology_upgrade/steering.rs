//! An upgrade whose owner changes their mind: another target, holds, approvals, pins.

use super::*;
use windlass_engine::topology::{Steering, StepScope};

fn running(control_plane: &str, target: &str, acknowledged: &str, workers: Vec<WorkerGroup>) -> Observed {
    let mut observed = cluster(control_plane, target, workers, &[Hook::AfterClusterUpgrade]);
    observed.upgrade_step = Some(v(control_plane));
    observed.acknowledged_target = Some(v(acknowledged));
    observed
}

fn marks(decision: &Decision) -> (Option<String>, Option<String>, Option<String>) {
    let text = |version: &Option<Version>| version.as_ref().map(Version::to_string);
    let pending = decision.pending_hooks.annotation();
    (pending, text(&decision.upgrade_step), text(&decision.acknowledged_target))
}

fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn a_raised_target_is_told_and_holds_only_what_is_beyond_the_former_one() {
    let observed = running("v1.31.0", "v1.34.0", "v1.33.0", vec![md("a", "v1.31.0")]);
    let (decision, calls) = run(&observed, &[blocked(Hook::BeforeClusterUpgrade)]);
    assert_eq!(
        calls,
        ["BeforeClusterUpgrade v1.31.0 -> v1.34.0", "BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0"]
    );
    assert_eq!(decision.control_plane.version, v("v1.32.0"), "steps up to the former target go on");
    assert_eq!(marks(&decision).2, some("v1.33.0"), "it has not passed for the new one");

    let beyond = running("v1.33.0", "v1.34.0", "v1.33.0", vec![]);
    let (decision, calls) = run(&beyond, &[blocked(Hook::BeforeClusterUpgrade)]);
    assert_eq!(calls, ["BeforeClusterUpgrade v1.33.0 -> v1.34.0"]);
    assert_eq!(decision.control_plane.version, v("v1.33.0"));
    assert_eq!(decision.waiting(&beyond).unwrap().reason(), "WaitingForHook");

    let (decision, calls) = run(&beyond, &[]);
    assert_eq!(
        calls,
        ["BeforeClusterUpgrade v1.33.0 -> v1.34.0", "BeforeControlPlaneUpgrade v1.33.0 -> v1.34.0"]
    );
    assert_eq!(decision.control_plane.version, v("v1.34.0"));
    assert_eq!(marks(&decision).2, some("v1.34.0"));
}

#[test]
fn a_lowered_target_was_let_pass_and_an_upgrade_of_others_keeps_its_own() {
    // Workers that stopped later stop here now, with hooks of their own.
    let lowered = running("v1.31.0", "v1.31.0", "v1.33.0", vec![md("a", "v1.29.0")]);
    let (decision, calls) = run(&lowered, &[]);
    assert_eq!(calls, ["BeforeWorkersUpgrade v1.29.0 -> v1.31.0"]);
    assert_eq!(actions(&decision), ["a v1.29.0 -> v1.31.0"]);
    assert_eq!(
        marks(&decision),
        (some("AfterClusterUpgrade,AfterWorkersUpgrade"), some("v1.31.0"), some("v1.31.0"))
    );

    // Begun by something that keeps no target: taken as it is, without another call.
    let mut taken_over = running("v1.31.0", "v1.33.0", "v1.33.0", vec![]);
    taken_over.acknowledged_target = None;
    let (decision, calls) = run(&taken_over, &[]);
    assert_eq!(calls, ["BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0"]);
    assert_eq!(marks(&decision).2, some("v1.33.0"));
}

#[test]
fn a_target_below_what_was_reached_is_told_with_its_repair_and_a_step_that_was_taken_ends() {
    let mut observed = running("v1.32.0", "v1.31.0", "v1.33.0", vec![md("a", "v1.31.0")]);
    observed.pending_hooks =
        [Hook::AfterClusterUpgrade, Hook::AfterControlPlaneUpgrade].into_iter().collect();
    let (decision, calls) = run(&observed, &[]);
    assert_eq!(calls, ["AfterControlPlaneUpgrade v1.32.0"]);
    let condition = TopologyReconciled::of(&Outcome::Decided { observed: &observed, decision: &decision });
    assert_eq!(condition.reason, "ReconcileFailed");
    assert!(
        condition.message.ends_with("; set spec.topology.version to v1.32.0 or newer"),
        "{}",
        condition.message
    );
}

/// A control plane on its way from v1.30.0 to a patch of v1.31, with a list that has a later one.
fn moving_to(step: &str, running_at: &[&str], target: &str, listed: &[&str]) -> Observed {
    let mut observed = running(step, target, target, vec![]);
    observed.source = PlanSource::Known(Source::versions(listed.iter().copied()));
    observed.pending_hooks =
        [Hook::AfterClusterUpgrade, Hook::AfterControlPlaneUpgrade].into_iter().collect();
    observed.control_plane.as_mut().unwrap().running = running_at.iter().map(|text| v(text)).collect();
    observed
}

/// A group that is done waits for the control plane, which waits for the group that needs an approval.
#[test]
fn an_approval_that_a_later_group_needs_is_what_the_upgrade_waits_on() {
    let workers = vec![md("a", "v1.32.0"), md("b", "v1.29.0")];
    let mut observed = running("v1.32.0", "v1.33.0", "v1.33.0", workers);
    observed.pending_hooks = [Hook::AfterClusterUpgrade, Hook::AfterWorkersUpgrade].into_iter().collect();
    observed.steering.require_approval = [StepScope::Groups].into();
    let (decision, _) = run(&observed, &[]);
    let step = "MachineDeployment/b/v1.32.0".parse().unwrap();
    assert_eq!(decision.waiting(&observed), Some(WaitingOn::Approval { step }));
    let condition = TopologyReconciled::of(&Outcome::Decided { observed: &observed, decision: &decision });
    assert_eq!(condition.reason, "UpgradeApprovalNeeded");
}

#[test]
fn a_step_that_no_machine_came_up_with_goes_back_to_a_lower_target() {
    let listed = ["v1.30.0", "v1.31.0", "v1.31.1", "v1.32.0"];
    let unborn = |target: &str| {
        let mut observed = moving_to("v1.31.1", &["v1.30.0"], target, &listed);
        observed.control_plane.as_mut().unwrap().unborn = true;
        observed
    };
    for (name, observed, expected, told) in [
        ("given up", unborn("v1.30.0"), "v1.30.0", None),
        (
            "an earlier patch",
            unborn("v1.31.0"),
            "v1.31.0",
            Some("BeforeControlPlaneUpgrade v1.30.0 -> v1.31.0"),
        ),
        ("below what runs", unborn("v1.29.0"), "v1.31.1", None),
        ("machines run it", moving_to("v1.31.1", &["v1.30.0"], "v1.30.0", &listed), "v1.31.1", None),
    ] {
        let (decision, calls) = run(&observed, &[]);
        assert_eq!(decision.control_plane.version, v(expected), "{name}");
        assert_eq!(calls, told.map(str::to_owned).into_iter().collect::<Vec<_>>(), "{name}");
        let pending = decision.pending_hooks.annotation().unwrap_or_default();
        assert_eq!(pending.contains("AfterControlPlaneUpgrade"), expected != "v1.30.0", "{name}: {pending}");
        assert!(pending.contains("AfterClusterUpgrade"), "{name}: {pending}");
    }
}

#[test]
fn the_end_of_an_upgrade_is_told_when_the_machine_of_a_step_that_was_given_up_is_gone() {
    let mut observed = moving_to("v1.30.0", &["v1.30.0"], "v1.30.0", &["v1.30.0", "v1.31.0"]);
    observed.pending_hooks = PendingHooks::default().with(Hook::AfterClusterUpgrade);
    for (leaves_step, told) in [(true, vec![]), (false, vec!["AfterClusterUpgrade v1.30.0"])] {
        observed.control_plane.as_mut().unwrap().leaves_step = leaves_step;
        let (decision, calls) = run(&observed, &[]);
        assert_eq!(calls, told);
        assert_eq!(decision.waiting(&observed).is_some(), leaves_step);
    }
}

#[test]
fn a_step_goes_to_a_later_patch_where_no_machine_is_rolled_twice() {
    let both = ["v1.30.0", "v1.31.0", "v1.31.1", "v1.32.0"];
    for (name, observed, expected) in [
        ("asked for", moving_to("v1.31.0", &["v1.30.0", "v1.31.0"], "v1.31.1", &both), "v1.31.1"),
        ("unborn", moving_to("v1.31.0", &["v1.30.0"], "v1.32.0", &both), "v1.31.1"),
        (
            "no longer listed",
            moving_to("v1.31.0", &["v1.30.0", "v1.31.0"], "v1.32.0", &["v1.30.0", "v1.31.1", "v1.32.0"]),
            "v1.31.1",
        ),
        ("machines run it", moving_to("v1.31.0", &["v1.30.0", "v1.31.0"], "v1.32.0", &both), "v1.31.0"),
        ("none is later", moving_to("v1.31.1", &["v1.30.0"], "v1.32.0", &both), "v1.31.1"),
        (
            "in place",
            {
                let mut observed = moving_to("v1.31.0", &["v1.30.0"], "v1.31.1", &both);
                observed.control_plane.as_mut().unwrap().updating_in_place = true;
                observed
            },
            "v1.31.0",
        ),
    ] {
        let (decision, calls) = run(&observed, &[]);
        assert_eq!(decision.control_plane.version, v(expected), "{name}");
        let step = observed.control_plane.as_ref().unwrap().version.to_string();
        let told: &[String] = &[format!("BeforeControlPlaneUpgrade {step} -> {expected}")];
        assert_eq!(calls, if step == expected { &[] } else { told }, "{name}");
        assert_eq!(marks(&decision).1, some(expected), "{name}");
    }
    let held = moving_to("v1.31.0", &["v1.30.0"], "v1.31.1", &both);
    let (decision, _) = run(&held, &[blocked(Hook::BeforeControlPlaneUpgrade)]);
    assert_eq!(
        (decision.control_plane.version, decision.control_plane.phase),
        (v("v1.31.0"), ControlPlanePhase::Upgrading)
    );
}

#[test]
fn holds_and_approvals_come_before_hooks_and_stop_between_steps() {
    let hold = || Steering { hold: some("lunch"), ..Steering::default() };
    let at = |version: &str| Steering { hold_at: Some(v(version)), ..Steering::default() };
    let approve = |scopes: &[StepScope], given: &[&str]| Steering {
        require_approval: scopes.iter().copied().collect(),
        approved: given.iter().map(|name| (*name).to_owned()).collect(),
        ..Steering::default()
    };
    let steered = |observed: Observed, steering| Observed { steering, ..observed };
    let idle = || cluster("v1.31.0", "v1.33.0", vec![md("a", "v1.31.0")], &[]);
    let workers_next = || {
        let mut observed =
            running("v1.33.0", "v1.33.0", "v1.33.0", vec![md("a", "v1.32.0"), md("b", "v1.32.0")]);
        observed.pending_hooks =
            ALL_OF_A_STEP.into_iter().filter(|hook| *hook != Hook::AfterControlPlaneUpgrade).collect();
        observed
    };
    let held = "removal of annotation upgrade.windlass.dev/hold: lunch";
    for (name, observed, reason, waits, called) in [
        ("an upgrade does not begin", steered(idle(), hold()), "UpgradeHeld", held, 0),
        (
            "nor is it asked for",
            steered(idle(), approve(&[StepScope::Cluster], &["control-plane/v1.32.0"])),
            "UpgradeApprovalNeeded",
            "approval of cluster/v1.33.0 in annotation upgrade.windlass.dev/approved",
            0,
        ),
        (
            "an approval of the upgrade is none of its step",
            steered(
                idle(),
                approve(&[StepScope::ControlPlane], &["cluster/v1.33.0", "control-plane/v1.31.0"]),
            ),
            "UpgradeApprovalNeeded",
            "approval of control-plane/v1.32.0 in annotation upgrade.windlass.dev/approved",
            0,
        ),
        (
            "the control plane stays at a version",
            steered(running("v1.32.0", "v1.33.0", "v1.33.0", vec![]), at("v1.32.0")),
            "UpgradeHeld",
            "removal of annotation upgrade.windlass.dev/hold-at, which keeps the control plane at v1.32.0 before v1.33.0",
            0,
        ),
        ("workers do not begin", steered(workers_next(), hold()), "UpgradeHeld", held, 0),
        (
            "workers need an approval",
            steered(workers_next(), approve(&[StepScope::Workers], &["workers/v1.32.0"])),
            "UpgradeApprovalNeeded",
            "approval of workers/v1.33.0 in annotation upgrade.windlass.dev/approved",
            0,
        ),
        (
            "a group needs an approval",
            steered(workers_next(), approve(&[StepScope::Groups], &[])),
            "UpgradeApprovalNeeded",
            "approval of MachineDeployment/a/v1.33.0 in annotation upgrade.windlass.dev/approved",
            1,
        ),
    ] {
        let (decision, calls) = run(&observed, &[]);
        let condition =
            TopologyReconciled::of(&Outcome::Decided { observed: &observed, decision: &decision });
        assert_eq!(calls.len(), called, "{name}: {calls:?}");
        assert_eq!(condition.reason, reason, "{name}: {}", condition.message);
        assert_eq!(decision.waiting(&observed).unwrap().to_string(), waits, "{name}");
        assert!(actions(&decision).iter().all(|action| action.contains("waits")), "{name}");
    }
    let approved = steered(workers_next(), approve(&[StepScope::Groups], &["MachineDeployment/b/v1.33.0"]));
    assert_eq!(
        actions(&run(&approved, &[]).0),
        [
            "a waits: approval of MachineDeployment/a/v1.33.0 in annotation upgrade.windlass.dev/approved",
            "b v1.32.0 -> v1.33.0"
        ],
        "those that are approved go"
    );
    // What moves is finished, and what comes after it is told.
    let mut moving = steered(running("v1.32.0", "v1.33.0", "v1.33.0", vec![]), hold());
    moving.pending_hooks = [Hook::AfterClusterUpgrade, Hook::AfterControlPlaneUpgrade].into_iter().collect();
    assert_eq!(run(&moving, &[]).1, ["AfterControlPlaneUpgrade v1.32.0"]);
}

#[test]
fn a_new_upgrade_waits_for_rollouts_and_names_the_way_out() {
    let mut group = md("a", "v1.31.0");
    group.object.as_mut().unwrap().rolling_out = true;
    let mut observed = cluster("v1.31.0", "v1.33.0", vec![group], &[]);
    let (decision, calls) = run(&observed, &[]);
    assert_eq!(calls, [] as [&str; 0]);
    assert_eq!(
        decision.waiting(&observed).unwrap().to_string(),
        "the rollout of MachineDeployment c-a to finish before the upgrade begins; annotation \
         upgrade.windlass.dev/ignore-rollouts=a begins it at once"
    );
    observed.steering.ignored_rollouts = ["a".to_owned()].into();
    let (decision, _) = run(&observed, &[]);
    assert_eq!(decision.control_plane.version, v("v1.32.0"));
    // An upgrade that runs goes on: its own rollouts are counted by versions.
    let mut group = md("a", "v1.32.0");
    group.object.as_mut().unwrap().rolling_out = true;
    let (decision, _) = run(&running("v1.32.0", "v1.33.0", "v1.33.0", vec![group]), &[]);
    assert_eq!(decision.control_plane.version, v("v1.33.0"));
}

#[test]
fn a_pinned_group_takes_no_part_and_goes_to_its_pin_alone() {
    let pinned = |name: &str, at: &str, pin: &str| WorkerGroup { pin: Some(v(pin)), ..md(name, at) };
    let free = || md("a", "v1.31.0");
    // It neither stops the control plane nor is told of.
    let with = running("v1.31.0", "v1.33.0", "v1.33.0", vec![free(), pinned("p", "v1.30.0", "v1.30.0")]);
    let without = running("v1.31.0", "v1.33.0", "v1.33.0", vec![free()]);
    let ((with_pin, calls), (alone, expected)) = (run(&with, &[]), run(&without, &[]));
    assert_eq!(calls, expected);
    assert_eq!(with_pin.control_plane, alone.control_plane);
    assert_eq!(actions(&with_pin)[1], "p kept");
    assert!(with_pin.workers[1].may_be_written(), "scaling goes on");

    // The upgrade ends without it.
    let done = running("v1.33.0", "v1.33.0", "v1.33.0", vec![pinned("p", "v1.30.0", "v1.30.0")]);
    let (decision, calls) = run(&done, &[]);
    assert_eq!(calls, ["AfterClusterUpgrade v1.33.0"]);
    assert!(decision.ends_upgrade);
    assert_eq!(marks(&decision), (None, None, None));

    // A pin that is raised rolls the group at once, without hooks, unless it is held.
    let mut raised = cluster("v1.33.0", "v1.33.0", vec![pinned("p", "v1.30.0", "v1.32.0")], &[]);
    let (decision, calls) = run(&raised, &[]);
    assert_eq!((actions(&decision), calls.len()), (vec!["p v1.30.0 -> v1.32.0".to_owned()], 0));
    raised.steering.hold = some("");
    let (decision, _) = run(&raised, &[]);
    assert_eq!(actions(&decision), ["p waits: removal of annotation upgrade.windlass.dev/hold"]);
    let condition = TopologyReconciled::of(&Outcome::Decided { observed: &raised, decision: &decision });
    assert_eq!(
        condition.message,
        "Pinned worker groups are not at their versions\n  * The upgrade waits for removal of annotation \
         upgrade.windlass.dev/hold\n  * MachineDeployment c-p will upgrade to v1.32.0"
    );

    // A control plane that would leave it behind has no path, and the pin is named.
    let stuck = cluster("v1.33.0", "v1.34.0", vec![pinned("p", "v1.30.0", "v1.30.0")], &[]);
    let (decision, _) = run(&stuck, &[]);
    let told = decision.failures()[0].to_string();
    assert!(told.contains("MachineDeployment/c-p is pinned to v1.30.0"), "{told}");
    assert!(told.contains("raise the pin to v1.31.0 or newer"), "{told}");
}

#[test]
fn groups_are_told_with_their_own_stops() {
    let observed = running(
        "v1.32.0",
        "v1.34.0",
        "v1.34.0",
        vec![rolling(md("a", "v1.32.0")), md("b", "v1.32.0"), md("c", "v1.29.0")],
    );
    let (decision, _) = run(&observed, &[]);
    let message =
        TopologyReconciled::of(&Outcome::Decided { observed: &observed, decision: &decision }).message;
    for line in [
        "MachineDeployment c-a is upgrading to v1.32.0 (v1.34.0 to follow)",
        "MachineDeployment c-b will upgrade to v1.34.0",
        "MachineDeployment c-c will upgrade to v1.32.0, v1.34.0",
    ] {
        assert!(message.contains(line), "{line}\nnot in\n{message}");
    }
}

#[test]
fn a_rollout_that_cannot_go_on_by_itself_says_so_here_too() {
    let mut observed = running("v1.33.0", "v1.33.0", "v1.33.0", vec![rolling(md("a", "v1.33.0"))]);
    observed.workers[0].object.as_mut().unwrap().blocked = some("no extension can");
    let (decision, _) = run(&observed, &[]);
    assert_eq!(
        decision.waiting(&observed).unwrap().to_string(),
        "MachineDeployment c-a to reach v1.33.0: no extension can"
    );
    let mut observed = moving_to("v1.31.0", &["v1.30.0"], "v1.31.0", &["v1.30.0", "v1.31.0"]);
    observed.control_plane.as_mut().unwrap().blocked = some("Machine m cannot be updated in place");
    let (decision, _) = run(&observed, &[]);
    assert_eq!(
        decision.waiting(&observed).unwrap().to_string(),
        "KubeadmControlPlane c-cp to reach v1.31.0, it runs v1.30.0: Machine m cannot be updated in place"
    );
}
