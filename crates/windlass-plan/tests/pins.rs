//! Pinned worker groups, every combination of eight minors: the planner against a search of all ways.

use std::collections::{BTreeSet, VecDeque};

use windlass_plan::{PlanRequest, Source, Step, UpgradePlan, Violation, WorkerGroup, plan};
use windlass_version::{Version, kubelet_skew};

const MINORS: std::ops::Range<u64> = 28..36;

fn v(minor: u64) -> Version {
    Version::new(1, minor, 0)
}

fn request(from: u64, to: u64, group: u64, pin: Option<u64>) -> PlanRequest {
    let pinned = pin.map(|pin| WorkerGroup::new("pinned", v(pin)).pinned());
    PlanRequest::new(v(from), v(to))
        .with_workers(std::iter::once(WorkerGroup::new("free", v(group))).chain(pinned))
        .with_source(Source::versions(MINORS.map(|minor| v(minor).to_string())))
}

/// The fewest rollouts of the free group with which everything but the pinned group reaches the target, if there is a
/// way: all orders of single steps are tried.
fn fewest_rollouts(from: u64, to: u64, group: u64, pin: u64) -> Option<usize> {
    let is_safe = |control_plane: u64, group: u64| {
        let skew = |minor| kubelet_skew(&v(control_plane), &v(minor)).is_ok();
        skew(group) && skew(pin)
    };
    if !is_safe(from, group) {
        return None;
    }
    let (mut queue, mut seen) = (VecDeque::from([(from, group, 0)]), BTreeSet::new());
    while let Some((control_plane, group, rollouts)) = queue.pop_front() {
        if control_plane == to && group == to {
            return Some(rollouts);
        }
        if !seen.insert((control_plane, group)) {
            continue;
        }
        // Steps of the control plane cost nothing, so they come first.
        if control_plane < to && is_safe(control_plane + 1, group) {
            queue.push_front((control_plane + 1, group, rollouts));
        }
        if group < control_plane && is_safe(control_plane, control_plane) {
            queue.push_back((control_plane, control_plane, rollouts + 1));
        }
    }
    None
}

fn control_plane_part(plan: &UpgradePlan) -> Vec<(Step, Vec<&'static str>)> {
    let operations = plan.operations.iter();
    operations
        .map(|operation| (operation.step.clone(), operation.hooks.iter().map(|hook| hook.name()).collect()))
        .collect()
}

#[test]
fn a_plan_with_a_pin_is_the_plan_without_that_group_or_is_refused() {
    let (mut planned, mut refused) = (0, 0);
    for from in MINORS {
        for to in from..MINORS.end {
            for group in from.saturating_sub(3).max(MINORS.start)..=from {
                for pin in MINORS.start..=from {
                    let answer = plan(&request(from, to, group, Some(pin)));
                    let about = format!("v1.{from} to v1.{to}, free v1.{group}, pinned v1.{pin}");
                    let found = fewest_rollouts(from, to, group, pin);
                    assert_eq!(answer.is_ok(), found.is_some(), "{about}: {answer:?}");
                    match answer {
                        Ok(with_pin) => {
                            planned += 1;
                            let alone = plan(&request(from, to, group, None)).unwrap();
                            assert_eq!(control_plane_part(&with_pin), control_plane_part(&alone), "{about}");
                            let rollouts = with_pin.workers.iter().map(|row| row.stops.len()).sum::<usize>();
                            assert_eq!(Some(rollouts), found, "{about}");
                            assert!(with_pin.worst_skew <= 3, "{about}");
                        }
                        Err(refusal) => {
                            refused += 1;
                            let names_it = |violation: &Violation| {
                                violation.to_string().contains("pinned") || from - pin > 3
                            };
                            assert!(refusal.violations.iter().all(names_it), "{about}: {refusal}");
                        }
                    }
                }
            }
        }
    }
    assert!(planned > 100 && refused > 100, "{planned} planned, {refused} refused");
}

#[test]
fn a_pin_that_is_too_old_is_named_with_what_it_allows() {
    let refusal = plan(&request(31, 33, 31, Some(29))).unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "worker group pinned is pinned to v1.29.0 and would be 4 minors behind target v1.33.0, 3 are allowed: it allows a \
         control plane up to v1.32.x; raise the pin to v1.30.0 or newer, or choose an older target"
    );
}

#[test]
fn all_groups_may_be_pinned() {
    let request = PlanRequest::new(v(30), v(31)).with_workers([WorkerGroup::new("p", v(30)).pinned()]);
    let plan = plan(&request).unwrap();
    assert_eq!(plan.operations.len(), 1);
    assert_eq!(plan.operations[0].reason.to_string(), "1 worker group is pinned");
    assert_eq!(plan.operations[0].skew, 1);
}
