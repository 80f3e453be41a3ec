//! The workers' stops: the fewest that the skew policy allows, or the given ones, per group.

use windlass_version::{
    Comparison, Distance, MAX_KUBELET_MINORS_BEHIND, SkewViolation, Version, kubelet_skew,
};

use crate::control_plane::{check_end, same};
use crate::request::WorkerGroup;
use crate::violation::{PlanPart, Violation};

/// Checks where the groups are now: nothing a plan could do makes up for a broken start.
pub(crate) fn check_start(
    control_plane: &Version,
    target: &Version,
    groups: &[WorkerGroup],
    violations: &mut Vec<Violation>,
) {
    for (position, group) in groups.iter().enumerate() {
        if groups[..position].iter().any(|other| other.name == group.name) {
            violations.push(Violation::GroupRepeated { group: group.name.clone() });
        }
        let (name, version) = (group.name.clone(), group.version.clone());
        match kubelet_skew(control_plane, &version) {
            Err(SkewViolation::OtherMajor { control_plane, .. }) => {
                violations.push(Violation::WorkersOfOtherMajor { group: name, version, control_plane });
                continue;
            }
            Err(SkewViolation::KubeletTooOld { control_plane, behind, .. }) => {
                violations.push(Violation::WorkersTooFarBehind {
                    group: name,
                    version,
                    control_plane,
                    behind,
                });
                continue;
            }
            Err(SkewViolation::KubeletNewer { control_plane, .. })
                if version.compare(target) != Comparison::Greater =>
            {
                violations.push(Violation::WorkersAheadOfControlPlane {
                    group: name,
                    version,
                    control_plane,
                });
                continue;
            }
            Ok(_) | Err(SkewViolation::KubeletNewer { .. }) => {}
        }
        if version.compare(target) == Comparison::Greater {
            violations.push(Violation::WorkersAheadOfTarget { group: name, version, target: target.clone() });
        } else if group.pinned
            && let Distance::Forward(behind) = version.minor().distance_to(target.minor())
            && behind > MAX_KUBELET_MINORS_BEHIND
        {
            violations.push(Violation::PinTooOld { group: name, version, target: target.clone(), behind });
        }
    }
}

/// The stops of one group: as late as the policy allows each time, which makes them as few as possible.
///
/// `passed` is what the control plane is at and passes through, in order. A stop is the last of those
/// versions of its minor, so workers wait for the last patch of a minor and are not rolled twice in it.
pub(crate) fn infer_stops(group: &Version, target: &Version, passed: &[&Version]) -> Vec<Version> {
    if same(group, target) {
        return Vec::new();
    }
    let mut stops = Vec::new();
    let mut at = group.minor();
    while let Distance::Forward(remaining) = at.distance_to(target.minor()) {
        if remaining <= MAX_KUBELET_MINORS_BEHIND {
            break;
        }
        at = at.plus(MAX_KUBELET_MINORS_BEHIND);
        let Some(stop) = passed.iter().rfind(|version| version.minor() == at) else {
            // The start was checked and the chain passes every minor, so the minor is there.
            break;
        };
        stops.push((*stop).clone());
    }
    stops.push(target.clone());
    stops
}

/// The items of a given workers plan that a group still has to take.
pub(crate) fn given_stops(group: &Version, target: &Version, plan: &[Version]) -> Vec<Version> {
    if same(group, target) {
        return Vec::new();
    }
    match plan.iter().position(|item| same(item, group)) {
        Some(done) => plan[done + 1..].to_vec(),
        // A version that the plan does not know is before everything of the plan that is not older.
        None => plan.iter().filter(|item| item.compare(group).is_progress()).cloned().collect(),
    }
}

/// The group from which a given workers plan is counted: of those that are not pinned, none is known to be older. Among builds
/// without an order, one that differs from the control plane is behind it.
pub(crate) fn slowest<'a>(control_plane: &Version, groups: &'a [WorkerGroup]) -> Option<&'a Version> {
    let taking_part = groups.iter().filter(|group| !group.pinned);
    taking_part.map(|group| &group.version).reduce(|slowest, candidate| match candidate.compare(slowest) {
        Comparison::Less => candidate,
        Comparison::DifferentBuild if same(slowest, control_plane) => candidate,
        _ => slowest,
    })
}

/// Checks a workers plan that an extension or a user made against every rule for workers plans.
pub(crate) fn check_given(
    control_plane: &Version,
    target: &Version,
    groups: &[WorkerGroup],
    passed: &[&Version],
    plan: &[(usize, Version)],
    violations: &mut Vec<Violation>,
) {
    const PART: PlanPart = PlanPart::Workers;
    let Some((last_index, last)) = plan.last() else {
        return;
    };
    let outstanding = groups.iter().any(|group| !group.pinned && !same(&group.version, target));
    let Some(slowest) = slowest(control_plane, groups).filter(|_| outstanding) else {
        let (_, version) = &plan[0];
        violations.push(Violation::PlanNotNeeded {
            part: PART,
            version: version.clone(),
            no_workers: groups.iter().all(|group| group.pinned),
        });
        return;
    };
    let place = |version: &Version| passed.iter().position(|passed| same(passed, version));
    let mut previous = slowest;
    for (position, (index, version)) in plan.iter().enumerate() {
        let (index, version) = (*index, version.clone());
        let known_place = place(&version);
        if known_place.is_none() {
            violations.push(Violation::NotAControlPlaneVersion {
                index,
                version: version.clone(),
                control_plane: control_plane.clone(),
            });
        }
        let comparison = version.compare(previous);
        let is_visited =
            same(&version, slowest) || plan[..position].iter().any(|(_, before)| same(before, &version));
        if !comparison.is_progress() {
            violations.push(Violation::NotNewer {
                part: PART,
                index,
                version: version.clone(),
                previous: previous.clone(),
            });
        } else if is_visited && comparison == Comparison::DifferentBuild {
            violations.push(Violation::VisitedTwice {
                part: PART,
                index,
                version: version.clone(),
                previous: previous.clone(),
            });
        } else if comparison == Comparison::DifferentBuild
            && matches!((place(previous), known_place), (Some(before), Some(here)) if here < before)
        {
            violations.push(Violation::OrderContradicted {
                index,
                version: version.clone(),
                previous: previous.clone(),
            });
        }
        match previous.minor().distance_to(version.minor()) {
            Distance::Forward(minors) if minors > MAX_KUBELET_MINORS_BEHIND => {
                violations.push(Violation::StopMissing {
                    index,
                    version: version.clone(),
                    previous: previous.clone(),
                    minors,
                });
            }
            Distance::OtherMajor => violations.push(Violation::MajorChanged {
                part: PART,
                index,
                version: version.clone(),
                previous: previous.clone(),
            }),
            _ => {}
        }
        if version.compare(target) == Comparison::Greater {
            violations.push(Violation::AboveTarget { part: PART, index, version, target: target.clone() });
        }
        previous = &plan[position].1;
    }
    check_end(PART, (*last_index, last), target, violations);
}
