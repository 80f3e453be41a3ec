//! The control plane's chain of versions: made from a source, or checked where it was given.

use std::cmp::Ordering;

use windlass_version::{Comparison, Distance, StepViolation, Version, check_control_plane_step};

use crate::violation::{MAX_LISTED_VERSIONS, MAX_STEPS, PlanPart, Violation};

/// Whether two versions are the same, however their build numbers are written.
pub(crate) fn same(a: &Version, b: &Version) -> bool {
    a.compare(b) == Comparison::Equal
}

/// The chain if nothing but the two ends is known: one step, to the same or the next minor.
pub(crate) fn one_minor(from: &Version, target: &Version, violations: &mut Vec<Violation>) -> Vec<Version> {
    match from.minor().distance_to(target.minor()) {
        _ if same(from, target) => Vec::new(),
        Distance::Forward(minors @ 2..) => {
            violations.push(Violation::VersionsUnknown {
                control_plane: from.clone(),
                target: target.clone(),
                between: minors - 1,
            });
            Vec::new()
        }
        _ => vec![target.clone()],
    }
}

/// The chain through a list of versions: the last listed version of every minor in between, then the
/// target. The target itself must be listed; the current version need not be.
pub(crate) fn from_list(
    from: &Version,
    target: &Version,
    list: &[String],
    violations: &mut Vec<Violation>,
) -> Vec<Version> {
    let broken_before = violations.len();
    let listed = read_list(list, violations);
    if violations.len() > broken_before || same(from, target) {
        return Vec::new();
    }
    let position = |version: &Version| listed.iter().position(|entry| same(entry, version));
    let Some(target_position) = position(target) else {
        let nearest = listed.iter().rfind(|entry| entry.minor() == target.minor()).cloned();
        violations.push(Violation::TargetNotListed { target: target.clone(), nearest });
        return Vec::new();
    };
    // Builds of one release may have no order of their own; the list then gives them one.
    if from.compare(target) == Comparison::DifferentBuild
        && position(from).is_some_and(|from_position| from_position > target_position)
    {
        violations.push(Violation::TargetListedBeforeCurrent {
            control_plane: from.clone(),
            target: target.clone(),
        });
        return Vec::new();
    }
    let mut chain = Vec::new();
    let mut minor = from.minor();
    while minor < target.minor() {
        minor = minor.next();
        if minor == target.minor() {
            break;
        }
        match listed.iter().rfind(|entry| entry.minor() == minor) {
            Some(last) => chain.push(last.clone()),
            None if violations.len() - broken_before < MAX_STEPS => {
                violations.push(Violation::MinorNotListed { minor });
            }
            // A target of minor 18446744073709551615 must not be answered with as many complaints.
            None => break,
        }
    }
    chain.push(target.clone());
    chain
}

fn read_list(list: &[String], violations: &mut Vec<Violation>) -> Vec<Version> {
    if list.is_empty() {
        violations.push(Violation::ListEmpty);
    }
    if list.len() > MAX_LISTED_VERSIONS {
        violations.push(Violation::ListTooLong { count: list.len() });
        return Vec::new();
    }
    let mut read: Vec<(usize, Version)> = Vec::with_capacity(list.len());
    for (index, text) in list.iter().enumerate() {
        let version = match Version::parse(text) {
            Ok(version) => version,
            Err(error) => {
                violations.push(Violation::ListedNotAVersion { index, text: text.clone(), error });
                continue;
            }
        };
        if let Some((_, previous)) = read.last()
            // What was read goes from old to new, so a newer release stands nowhere before.
            && version.precedence(previous) != Ordering::Greater
        {
            if let Some(&(first, _)) = read.iter().rev().find(|(_, other)| same(other, &version)) {
                violations.push(Violation::ListedTwice { index, version, first });
                continue;
            }
            if !version.compare(previous).is_progress() {
                violations.push(Violation::ListNotSorted { index, version, previous: previous.clone() });
                continue;
            }
        }
        read.push((index, version));
    }
    read.into_iter().map(|(_, version)| version).collect()
}

/// Reads the items of a given plan. Items that are no versions are reported and left out.
pub(crate) fn read_plan(
    part: PlanPart,
    texts: &[String],
    violations: &mut Vec<Violation>,
) -> Vec<(usize, Version)> {
    if texts.len() > MAX_STEPS {
        violations.push(Violation::TooManySteps { part, count: texts.len() });
        return Vec::new();
    }
    let mut read = Vec::with_capacity(texts.len());
    for (index, text) in texts.iter().enumerate() {
        match Version::parse(text) {
            Ok(version) => read.push((index, version)),
            Err(error) => violations.push(Violation::NotAVersion { part, index, text: text.clone(), error }),
        }
    }
    read
}

/// Checks a chain that an extension or a user made against every rule for control plane plans.
pub(crate) fn check_given(
    from: &Version,
    target: &Version,
    chain: &[(usize, Version)],
    unreadable: bool,
    violations: &mut Vec<Violation>,
) {
    const PART: PlanPart = PlanPart::ControlPlane;
    if same(from, target) {
        if let Some((_, version)) = chain.first() {
            violations.push(Violation::PlanNotNeeded {
                part: PART,
                version: version.clone(),
                no_workers: false,
            });
        }
        return;
    }
    let Some((last_index, last)) = chain.last() else {
        if !unreadable {
            violations.push(Violation::ControlPlanePlanEmpty {
                control_plane: from.clone(),
                target: target.clone(),
            });
        }
        return;
    };
    let mut previous = from;
    for (position, (index, version)) in chain.iter().enumerate() {
        let index = *index;
        let is_visited =
            same(version, from) || chain[..position].iter().any(|(_, before)| same(before, version));
        let is_other_build = version.compare(previous) == Comparison::DifferentBuild;
        let step = check_control_plane_step(previous, version);
        let (part, version, previous_version) = (PART, version.clone(), previous.clone());
        violations.extend(match step {
            Ok(()) if is_visited && is_other_build => {
                Some(Violation::VisitedTwice { part, index, version, previous: previous_version })
            }
            Ok(()) => None,
            Err(StepViolation::NotNewer) => {
                Some(Violation::NotNewer { part, index, version, previous: previous_version })
            }
            Err(StepViolation::SkipsMinors { skipped }) => {
                Some(Violation::MinorSkipped { index, version, previous: previous_version, skipped })
            }
            Err(StepViolation::ChangesMajor) => {
                Some(Violation::MajorChanged { part, index, version, previous: previous_version })
            }
        });
        let (_, version) = &chain[position];
        if version.compare(target) == Comparison::Greater {
            violations.push(Violation::AboveTarget {
                part: PART,
                index,
                version: version.clone(),
                target: target.clone(),
            });
        }
        previous = version;
    }
    check_end(PART, (*last_index, last), target, violations);
}

/// The last version of a given plan is the target.
pub(crate) fn check_end(
    part: PlanPart,
    (index, last): (usize, &Version),
    target: &Version,
    violations: &mut Vec<Violation>,
) {
    if !same(last, target) {
        let (version, target) = (last.clone(), target.clone());
        violations.push(Violation::WrongEnd { part, index, version, target });
    }
}
