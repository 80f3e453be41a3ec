//! In-place updates, and the strategy that allows nothing else.

use super::fixture::*;
use super::*;
use crate::external_update::{ExternalUpdate, Refusal};
use crate::in_place::{Effect, Field, FieldVerdict, Requirement, Verdict, WhyNotInPlace};
use crate::waiting::WaitingOn;

fn ask(machine: &str) -> Step {
    Step::Act(Action::AskInPlace { machine: machine.to_owned() })
}

fn trigger(machine: &str) -> Step {
    Step::Act(Action::TriggerInPlace { machine: machine.to_owned() })
}

fn no_surge() -> Observed {
    let mut observed = upgrading();
    observed.strategy = Strategy::RollingUpdate { max_surge: 0 };
    for machine in &mut observed.machines {
        machine.in_place = Err(WhyNotInPlace::NotAsked);
    }
    observed
}

#[test]
fn extensions_are_asked_about_the_victim_alone_and_decide() {
    let mut observed = no_surge();
    assert_eq!(decided(&observed), ask("m1"));
    observed.machines[0].in_place = Ok(Verdict::default());
    assert_eq!(decided(&observed), trigger("m1"));
    observed.machines[0].in_place = Err(WhyNotInPlace::NoExtension);
    assert_eq!(
        decided(&observed),
        Step::Act(Action::Delete { machine: "m1".to_owned(), reason: DeleteReason::Rollout })
    );
}

/// A verdict of one extension that covers the change.
fn covered(effect: Effect) -> Verdict {
    let handler = windlass_api::HandlerName::new("update").unwrap();
    let handler = windlass_api::RegisteredName::new(&handler, "ext").unwrap();
    let field = Field { kind: "Machine".to_owned(), path: "spec.version".to_owned() };
    Verdict {
        fields: vec![FieldVerdict { field, by: Some(handler.clone()) }],
        asked: vec![handler.clone()],
        effects: std::collections::BTreeMap::from([(handler, effect)]),
        ..Verdict::default()
    }
}

#[test]
fn with_a_surge_a_machine_is_added_first_unless_the_update_leaves_it_available() {
    let mut observed = no_surge();
    observed.strategy = Strategy::RollingUpdate { max_surge: 1 };
    assert_eq!(decided(&observed), ask("m1"));
    let harmless = Effect { affects_availability: false, ..Effect::default() };
    let drained = Effect { requirements: [Requirement::Drain].into(), ..harmless.clone() };
    for effect in [Effect::default(), drained] {
        observed.machines[0].in_place = Ok(covered(effect));
        assert!(matches!(decided(&observed), Step::Act(Action::Join { reason: JoinReason::Rollout, .. })));
    }
    observed.machines[0].in_place = Ok(covered(harmless.clone()));
    assert_eq!(decided(&observed), trigger("m1"));
    let external = Strategy::External { fallback_surge: None };
    assert!(external.effect(&covered(harmless)).takes_out_of_service(), "External ignores what is said");
}

#[test]
fn machines_that_should_be_new_are_not_updated_in_place() {
    let after = OutdatedReason::RolloutAfter { after: at(500) };
    let expire = OutdatedReason::CertificatesExpire { at: at(2000) };
    for change in [
        (|machine| machine.marked_for_deletion = true) as fn(&mut ObservedMachine),
        |machine| machine.marked_for_remediation = true,
        |machine| machine.outdated.push(OutdatedReason::RolloutAfter { after: at(500) }),
        |machine| machine.outdated.push(OutdatedReason::CertificatesExpire { at: at(2000) }),
    ] {
        let mut observed = no_surge();
        change(&mut observed.machines[0]);
        let step = decided(&observed);
        assert!(matches!(step, Step::Act(Action::Delete { .. })), "{step:?}");
    }
    assert!(after.wants_new_machine() && expire.wants_new_machine());
}

#[test]
fn a_surplus_machine_is_removed_rather_than_updated() {
    let mut observed = no_surge();
    observed.strategy = Strategy::RollingUpdate { max_surge: 1 };
    for machine in &mut observed.machines {
        machine.in_place = Ok(Verdict::default());
    }
    assert!(matches!(decided(&observed), Step::Act(Action::Join { .. })), "surge comes first");
    observed.machines.push(machine(4));
    observed.etcd = control_plane(observed.machines.clone()).etcd;
    assert_eq!(decided(&observed), trigger("m1"));
    // Three are up to date: the fourth has no place any more.
    observed.machines[0].outdated.clear();
    observed.machines[1].outdated.clear();
    assert_eq!(
        decided(&observed),
        Step::Act(Action::Delete { machine: "m3".to_owned(), reason: DeleteReason::Rollout })
    );
}

#[test]
fn a_machine_that_is_itself_the_trouble_is_replaced() {
    let mut observed = no_surge();
    observed.machines[1].components.insert(Component::ApiServer, Health::Unhealthy);
    observed.machines[1].in_place = Ok(Verdict::default());
    assert_eq!(
        decided(&observed),
        Step::Act(Action::Delete { machine: "m2".to_owned(), reason: DeleteReason::Rollout })
    );
    // Trouble elsewhere holds everything.
    observed.machines[0].node = None;
    assert!(matches!(
        decided(&observed),
        Step::Wait(WaitingOn::Preflight { operation: Operation::UpdateInPlace, .. })
    ));
}

#[test]
fn one_update_at_a_time_and_a_half_triggered_one_is_completed() {
    let mut observed = no_surge();
    observed.machines[2].update_in_progress = true;
    assert_eq!(decided(&observed), trigger("m3"));
    observed.machines[2].update_hook_pending = true;
    assert_eq!(waits(&decided(&observed)), "waiting for the in-place update of Machine m3");
    // Completion removes the annotation first and the hook last.
    observed.machines[2].update_in_progress = false;
    assert_eq!(waits(&decided(&observed)), "waiting for the in-place update of Machine m3");
    observed.machines[2].update_in_progress = true;
    observed.machines[2].update_hook_pending = false;
    observed.machines[2].deletion = deletion(900);
    assert_eq!(waits(&decided(&observed)), "waiting for the deletion of Machine m3");
}

fn external(replicas: usize, fallback_surge: Option<u32>) -> Observed {
    let mut observed = no_surge();
    observed.machines.truncate(replicas);
    observed.replicas = replicas as u32;
    observed.strategy = Strategy::External { fallback_surge };
    observed.external_update = ExternalUpdate::Refused(Vec::new());
    observed.etcd = control_plane(observed.machines.clone()).etcd;
    observed
}

#[test]
fn the_external_strategy_updates_in_place_also_a_single_machine() {
    for replicas in [1, 3] {
        let mut observed = external(replicas, None);
        assert_eq!(decided(&observed), ask("m1"));
        observed.machines[0].in_place = Ok(Verdict::default());
        assert_eq!(decided(&observed), trigger("m1"));
    }
}

#[test]
fn the_external_strategy_without_fallback_replaces_nothing_and_says_why() {
    let mut observed = external(3, None);
    observed.machines[0].in_place = Err(WhyNotInPlace::NotCovered(Verdict {
        fields: vec![FieldVerdict {
            field: Field { kind: "KubeadmConfig".to_owned(), path: "spec.files".to_owned() },
            by: None,
        }],
        ..Verdict::default()
    }));
    assert_eq!(
        waits(&decided(&observed)),
        "the rollout stops: Machine m1 cannot be updated in place, and the strategy has no fallback: \
         no extension covers KubeadmConfig spec.files"
    );
    observed.machines[0].marked_for_deletion = true;
    assert_eq!(
        waits(&decided(&observed)),
        "the rollout stops: Machine m1 cannot be updated in place, and the strategy has no fallback: \
         it is marked for deletion"
    );
    let mut broken = external(3, None);
    broken.machines[0].components.insert(Component::ApiServer, Health::Unhealthy);
    assert_eq!(
        waits(&decided(&broken)),
        "updating a Machine waits: kube-apiserver of Machine m1 is not healthy"
    );
}

#[test]
fn the_external_strategy_falls_back_to_replacing_where_it_may() {
    let mut observed = external(3, Some(1));
    observed.machines[0].in_place = Err(WhyNotInPlace::NoExtension);
    assert_eq!(
        decided(&observed),
        Step::Act(Action::Join { failure_domain: None, reason: JoinReason::Rollout, remediation_for: None })
    );
    observed.strategy = Strategy::External { fallback_surge: Some(0) };
    assert_eq!(
        decided(&observed),
        Step::Act(Action::Delete { machine: "m1".to_owned(), reason: DeleteReason::Rollout })
    );
}

#[test]
fn external_updaters_are_asked_about_what_extensions_do_not_cover() {
    let cannot = || Err(WhyNotInPlace::NoExtension);
    let taken = ExternalUpdate::Accepted { handler: "a.x".to_owned(), reason: "on it".to_owned() };
    let refusal = Refusal {
        by: "a.x".to_owned(),
        reason: "not mine".to_owned(),
        at: at(1),
        registration: String::new(),
    };
    for fallback in [None, Some(1)] {
        let mut observed = external(3, fallback);
        observed.external_update = ExternalUpdate::NotAsked;
        assert_eq!(decided(&observed), ask("m1"), "extensions come first");
        observed.machines[0].in_place = cannot();
        assert_eq!(decided(&observed), Step::Act(Action::AskExternal));
        // The one that has accepted is alone with the Machines, whatever extensions could do.
        observed.external_update = taken.clone();
        assert_eq!(waits(&decided(&observed)), "waiting for a.x, which updates the Machines");
        observed.machines[0].in_place = Ok(Verdict::default());
        assert_eq!(waits(&decided(&observed)), "waiting for a.x, which updates the Machines");
        // The number of Machines is still put right, and the sick are replaced.
        observed.replicas = 5;
        assert!(matches!(decided(&observed), Step::Act(Action::Join { reason: JoinReason::ScaleUp, .. })));
        observed.replicas = 3;
        observed.machines[1].remediation_requested = true;
        observed.machines[1].components.insert(Component::ApiServer, Health::Unhealthy);
        assert!(matches!(decided(&observed), Step::Act(Action::Remediate(_))), "{:?}", decided(&observed));

        let mut observed = external(3, fallback);
        observed.machines[0].in_place = cannot();
        observed.external_update = ExternalUpdate::NoAnswer("down".to_owned());
        assert_eq!(
            waits(&decided(&observed)),
            "waiting for an answer whether an external updater accepts the update"
        );
    }
    let mut observed = external(3, None);
    observed.machines[0].in_place = cannot();
    observed.external_update = ExternalUpdate::Refused(vec![refusal]);
    assert_eq!(
        waits(&decided(&observed)),
        "the rollout stops: Machine m1 cannot be updated in place, and the strategy has no fallback: \
         no extension updates Machines in place; a.x refuses: not mine"
    );
    // No external updater is asked about a control plane that is not sound, nor what only a new Machine helps.
    observed.external_update = ExternalUpdate::NotAsked;
    observed.machines[2].components.insert(Component::ApiServer, Health::Unhealthy);
    observed.machines[2].outdated.clear();
    assert!(waits(&decided(&observed)).starts_with("updating a Machine waits"));
    let mut observed = external(3, None);
    observed.external_update = ExternalUpdate::NotAsked;
    observed.machines[0].marked_for_deletion = true;
    assert!(waits(&decided(&observed)).contains("it is marked for deletion"));
}

#[test]
fn the_external_strategy_still_scales() {
    let mut observed = external(3, None);
    for machine in &mut observed.machines {
        machine.in_place = Err(WhyNotInPlace::NoExtension);
    }
    observed.replicas = 5;
    assert!(matches!(decided(&observed), Step::Act(Action::Join { reason: JoinReason::ScaleUp, .. })));
    observed.replicas = 1;
    assert!(matches!(decided(&observed), Step::Act(Action::Delete { reason: DeleteReason::ScaleDown, .. })));
}
