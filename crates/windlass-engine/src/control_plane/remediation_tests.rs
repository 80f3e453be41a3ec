//! Remediation: whom, when, and when not.

use jiff::SignedDuration;

use super::fixture::*;
use super::*;

fn unhealthy(index: usize) -> Observed {
    let mut observed = healthy(3);
    observed.machines[index].remediation_requested = true;
    observed
}

fn record(machine: &str, timestamp: i64, retry_count: u32) -> RemediationRecord {
    RemediationRecord { machine: machine.to_owned(), timestamp: at(timestamp), retry_count }
}

fn blocked(observed: &Observed) -> String {
    match decide(observed, at(1000)).remediation {
        Some(RemediationOutcome::Blocked { why, .. }) => format!("{}: {why}", why.reason()),
        other => format!("{other:?}"),
    }
}

#[test]
fn an_unhealthy_machine_is_deleted_with_a_record() {
    let decision = decide(&unhealthy(1), at(1000));
    assert_eq!(decision.step, Step::Act(Action::Remediate(record("m2", 1000, 0))));
}

fn break_component(machine: &mut ObservedMachine, component: Component) {
    machine.components.insert(component, Health::Unhealthy);
}

#[test]
fn the_worst_off_comes_first() {
    let mut observed = healthy(5);
    for machine in &mut observed.machines {
        machine.remediation_requested = true;
    }
    // From the least to the most urgent: each change makes its Machine the next.
    type Change = fn(&mut ObservedMachine);
    let changes: [(&str, Change); 4] = [
        ("m2", |machine| break_component(machine, Component::Scheduler)),
        ("m3", |machine| break_component(machine, Component::EtcdMember)),
        ("m4", |machine| machine.node = None),
        ("m5", |machine| machine.marked_for_remediation = true),
    ];
    let next = |observed: &Observed| match remediation::remediate(observed, at(1000)) {
        Some(RemediationOutcome::Start(record)) => record.machine,
        Some(RemediationOutcome::Blocked { machine, .. }) => machine,
        None => String::new(),
    };
    assert_eq!(next(&observed), "m1");
    for (name, change) in changes {
        change(observed.machines.iter_mut().find(|machine| machine.name == name).unwrap());
        assert_eq!(next(&observed), name);
    }
}

#[test]
fn remediation_waits_for_what_else_is_under_way() {
    let mut observed = unhealthy(0);
    observed.machines[1].deletion = deletion(900);
    assert_eq!(blocked(&observed), "RemediationDeferred: Machine m2 is being deleted");

    let mut observed = unhealthy(0);
    observed.machines[1].node = None;
    assert_eq!(blocked(&observed), "RemediationDeferred: Machine m2 is still coming up");

    let mut observed = unhealthy(0);
    observed.remediation_in_progress = Some(record("m9", 900, 0));
    observed.replicas = 4;
    assert_eq!(blocked(&observed), "RemediationDeferred: the replacement of Machine m9 comes first");

    let mut observed = unhealthy(0);
    observed.topology = Some(TopologyStep { version: V2.to_owned(), upgrade_step: None });
    assert_eq!(blocked(&observed), "RemediationDeferred: version v1.33.0 is to be propagated first");
}

#[test]
fn remediation_never_costs_the_quorum() {
    let mut observed = unhealthy(0);
    observed.machines[0].components.insert(Component::EtcdMember, Health::Unhealthy);
    assert!(matches!(decided(&observed), Step::Act(Action::Remediate(_))));
    observed.machines[1].components.insert(Component::EtcdMember, Health::Unhealthy);
    assert_eq!(blocked(&observed), "CannotBeRemediated: etcd would keep 1 healthy of 2 members, and needs 2");

    let mut observed = unhealthy(0);
    for machine in &mut observed.machines[1..] {
        machine.components.insert(Component::ApiServer, Health::Unhealthy);
    }
    assert_eq!(
        blocked(&observed),
        "CannotBeRemediated: no other Machine has all its control plane components healthy"
    );
}

#[test]
fn the_only_machine_is_remediated_only_before_the_cluster_exists() {
    let mut observed = healthy(1);
    observed.machines[0].remediation_requested = true;
    assert_eq!(blocked(&observed), "CannotBeRemediated: it is the only Machine of the control plane");
    observed.initialized = false;
    assert!(matches!(decided(&observed), Step::Act(Action::Remediate(_))));
}

#[test]
fn retries_are_counted_spaced_and_limited() {
    let retry = |last: RemediationRecord, policy: RemediationPolicy| {
        let mut observed = unhealthy(2);
        observed.machines[2].remediation_for = Some(last);
        observed.remediation = policy;
        match decide(&observed, at(1000)).remediation {
            Some(RemediationOutcome::Start(record)) => format!("retry {}", record.retry_count),
            Some(RemediationOutcome::Blocked { why, .. }) => format!("{}: {why}", why.reason()),
            None => String::new(),
        }
    };
    let policy = RemediationPolicy {
        max_retry: Some(3),
        retry_period: SignedDuration::from_secs(60),
        min_healthy_period: SignedDuration::from_secs(600),
    };
    assert_eq!(retry(record("m0", 900, 0), policy), "retry 1");
    assert_eq!(retry(record("m0", 900, 2), policy), "retry 3");
    assert_eq!(
        retry(record("m0", 900, 3), policy),
        "CannotBeRemediated: it failed already after 3 retries, which is the limit"
    );
    assert_eq!(
        retry(record("m0", 950, 0), policy),
        "RemediationDeferred: the next try may be at 1970-01-01T00:16:50Z"
    );
    assert_eq!(retry(record("m0", 400, 3), policy), "retry 0", "it lived long enough");
    assert_eq!(
        retry(record("m0", 900, 99), RemediationPolicy::default()),
        "retry 100",
        "no limit by default"
    );
}

#[test]
fn the_replacement_carries_the_record_and_comes_although_others_are_unhealthy() {
    let mut observed = healthy(4);
    observed.replicas = 5;
    observed.remediation_in_progress = Some(record("m5", 900, 1));
    observed.machines[0].components.insert(Component::Scheduler, Health::Unhealthy);
    assert_eq!(
        decided(&observed),
        Step::Act(Action::Join {
            failure_domain: None,
            reason: JoinReason::ScaleUp,
            remediation_for: Some(record("m5", 900, 1)),
        })
    );
    for machine in &mut observed.machines[..2] {
        machine.components.insert(Component::EtcdMember, Health::Unhealthy);
    }
    assert_eq!(
        waits(&decided(&observed)),
        "adding a Machine waits: etcd would lose its quorum if the new member failed"
    );
}

#[test]
fn a_crash_between_record_and_deletion_or_after_the_replacement_is_healed() {
    // Recorded, not deleted.
    let mut observed = healthy(3);
    observed.remediation_in_progress = Some(record("m2", 900, 1));
    assert_eq!(decided(&observed), Step::Act(Action::Remediate(record("m2", 900, 1))));

    // Replaced, and still recorded.
    let mut observed = healthy(3);
    observed.replicas = 4;
    observed.remediation_in_progress = Some(record("m0", 900, 1));
    observed.machines[2].remediation_for = Some(record("m0", 900, 1));
    let decision = decide(&observed, at(1000));
    assert!(decision.remediation_done);
    assert!(matches!(decision.step, Step::Act(Action::Join { remediation_for: None, .. })));

    // Nothing to replace any more: the group was scaled down.
    observed.machines[2].remediation_for = None;
    observed.replicas = 3;
    let decision = decide(&observed, at(1000));
    assert!(decision.remediation_done);
    assert_eq!(decision.step, Step::Settled);
}

#[test]
fn records_are_read_and_written_as_annotations() {
    let text = r#"{"machine":"m1","timestamp":"2026-01-02T03:04:05Z","retryCount":2}"#;
    let record = RemediationRecord::from_annotation(text).unwrap();
    assert_eq!((record.machine.as_str(), record.retry_count), ("m1", 2));
    assert_eq!(record.to_annotation(), text);
    assert_eq!(RemediationRecord::from_annotation("somebody else's text"), None);
}
