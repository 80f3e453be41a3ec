//! Bringing outdated Machines up to date, one at a time.

use super::decide::{Action, DeleteReason, JoinReason, Step};
use super::etcd;
use super::observed::{Observed, ObservedMachine, Strategy};
use super::placement;
use super::preflight::{Operation, preflight};
use super::remediation;
use crate::external_update::ExternalUpdate;
use crate::in_place::WhyNotInPlace;
use crate::waiting::WaitingOn;

/// The next step of a rollout. At least one Machine needs it.
pub(super) fn roll_out(observed: &Observed) -> Step {
    match observed.strategy {
        Strategy::RollingUpdate { .. } => rolling_update(observed, true),
        Strategy::External { .. } => external(observed),
    }
}

/// Adds a Machine, if it may.
pub(super) fn scale_up(observed: &Observed, reason: JoinReason) -> Step {
    let failures = preflight(observed, Operation::ScaleUp, None);
    if !failures.is_empty() {
        return Step::Wait(WaitingOn::Preflight { operation: Operation::ScaleUp, failures });
    }
    Step::Act(Action::Join {
        failure_domain: placement::failure_domain_for_new(observed).map(str::to_owned),
        reason,
        remediation_for: remediation::pending(observed).cloned(),
    })
}

/// Removes the Machine that should go first, if it may.
pub(super) fn scale_down(observed: &Observed, reason: DeleteReason) -> Step {
    let Some(victim) = placement::victim(observed) else {
        // All are on their way out.
        let failures = preflight(observed, Operation::ScaleDown, None);
        return Step::Wait(WaitingOn::Preflight { operation: Operation::ScaleDown, failures });
    };
    let failures = preflight(observed, Operation::ScaleDown, Some(&victim.name));
    if !failures.is_empty() {
        return Step::Wait(WaitingOn::Preflight { operation: Operation::ScaleDown, failures });
    }
    if let Err(why) = etcd::check_removal(victim, &observed.machines, &observed.etcd) {
        return Step::Wait(WaitingOn::UnsafeRemoval { machine: victim.name.clone(), why });
    }
    Step::Act(Action::Delete { machine: victim.name.clone(), reason })
}

fn rolling_update(observed: &Observed, in_place: bool) -> Step {
    if let Some(step) = remove_stillborn(observed) {
        return step;
    }
    let surge = observed.strategy.surge(observed.replicas).unwrap_or(1);
    // Once enough Machines are up to date the outdated ones are surplus: updating them would be for nothing.
    let up_to_date = observed
        .machines
        .iter()
        .filter(|machine| machine.outdated.is_empty() && machine.deletion.is_none())
        .count();
    let candidate = placement::victim(observed).filter(|victim| {
        in_place
            && up_to_date < observed.replicas as usize
            && victim.needs_rollout()
            && why_not(victim).is_none()
    });
    if observed.machines.len() < (observed.replicas + surge) as usize {
        let alone = candidate.filter(|_| observed.machines.len() >= observed.replicas as usize);
        let step = alone.and_then(|candidate| update_without_surge(candidate, observed));
        return step.unwrap_or_else(|| scale_up(observed, JoinReason::Rollout));
    }
    let step = candidate.and_then(|candidate| update_in_place(candidate, observed));
    step.unwrap_or_else(|| scale_down(observed, DeleteReason::Rollout))
}

/// Removes a Machine that is outdated before it has a Node: the version that it was made for was given up, for want of an
/// image perhaps. Nothing depends on it, and everything else would wait for its Node.
fn remove_stillborn(observed: &Observed) -> Option<Step> {
    let is_stillborn = |machine: &&ObservedMachine| {
        machine.needs_rollout() && machine.node.is_none() && machine.deletion.is_none()
    };
    let machine = observed.machines.iter().find(is_stillborn).filter(|_| observed.machines.len() > 1)?;
    let is_clear = preflight(observed, Operation::ScaleDown, Some(&machine.name)).is_empty();
    is_clear
        .then(|| Step::Act(Action::Delete { machine: machine.name.clone(), reason: DeleteReason::Rollout }))
}

/// Updates a Machine that stays available meanwhile: no Machine is added for it. None if it does not, or may not be
/// updated now; a Machine is added first then.
fn update_without_surge(machine: &ObservedMachine, observed: &Observed) -> Option<Step> {
    if !preflight(observed, Operation::UpdateInPlace, None).is_empty() {
        return None;
    }
    match &machine.in_place {
        Ok(verdict) if observed.strategy.effect(verdict).takes_out_of_service() => None,
        _ => update_in_place(machine, observed),
    }
}

/// Only in-place updates, unless there is a fallback. The number of Machines is put right first: that replaces none.
fn external(observed: &Observed) -> Step {
    let (present, replicas) = (observed.machines.len(), observed.replicas as usize);
    if present < replicas {
        return scale_up(observed, JoinReason::ScaleUp);
    }
    if present > replicas {
        return scale_down(observed, DeleteReason::ScaleDown);
    }
    let Some(next) = placement::next_outdated(observed) else { return Step::Settled };
    // The external updater that has accepted is at work: nothing else touches a Machine.
    if let ExternalUpdate::Accepted { handler, .. } = &observed.external_update {
        return Step::Wait(WaitingOn::ExternalUpdate { handler: handler.clone() });
    }
    let fallback = observed.strategy.surge(observed.replicas).is_some();
    match why_not(next) {
        Some(why) if why.allows_external_update() && observed.external_update == ExternalUpdate::NotAsked => {
            // As for an update in place: never from a control plane that is not sound.
            let failures = preflight(observed, Operation::UpdateInPlace, None);
            match failures.is_empty() {
                true => Step::Act(Action::AskExternal),
                false => Step::Wait(WaitingOn::Preflight { operation: Operation::UpdateInPlace, failures }),
            }
        }
        Some(why)
            if why.allows_external_update()
                && matches!(observed.external_update, ExternalUpdate::NoAnswer(_)) =>
        {
            Step::Wait(WaitingOn::ExternalAnswer)
        }
        None => match update_in_place(next, observed) {
            Some(step) => step,
            None if fallback => rolling_update(observed, false),
            None => {
                let failures = preflight(observed, Operation::UpdateInPlace, None);
                Step::Wait(WaitingOn::Preflight { operation: Operation::UpdateInPlace, failures })
            }
        },
        Some(_) if fallback => rolling_update(observed, false),
        Some(why) => {
            let refusals = match &observed.external_update {
                ExternalUpdate::Refused(refusals) => refusals.clone(),
                _ => Vec::new(),
            };
            Step::Wait(WaitingOn::InPlaceRefused { machine: next.name.clone(), why: Box::new(why), refusals })
        }
    }
}

/// Starts or prepares an in-place update. None if the trouble is in this Machine alone: an update would not start
/// from a sound state, and a replacement ends the trouble.
fn update_in_place(machine: &ObservedMachine, observed: &Observed) -> Option<Step> {
    let failures = preflight(observed, Operation::UpdateInPlace, None);
    if !failures.is_empty() {
        let without = preflight(observed, Operation::UpdateInPlace, Some(&machine.name));
        return (!without.is_empty())
            .then_some(Step::Wait(WaitingOn::Preflight { operation: Operation::UpdateInPlace, failures }));
    }
    let name = machine.name.clone();
    Some(match &machine.in_place {
        Ok(_) => Step::Act(Action::TriggerInPlace { machine: name }),
        Err(WhyNotInPlace::NoAnswer(why)) => {
            Step::Wait(WaitingOn::InPlaceAnswer { machine: name, why: why.clone() })
        }
        Err(_) => Step::Act(Action::AskInPlace { machine: name }),
    })
}

/// Why this Machine is not updated in place, as far as is known before extensions are asked.
fn why_not(machine: &ObservedMachine) -> Option<WhyNotInPlace> {
    if machine.marked_for_deletion {
        return Some(WhyNotInPlace::MarkedForDeletion);
    }
    if machine.marked_for_remediation {
        return Some(WhyNotInPlace::MarkedForRemediation);
    }
    if let Some(reason) = machine.outdated.iter().find(|reason| reason.wants_new_machine()) {
        return Some(WhyNotInPlace::WantsNewMachine(reason.clone()));
    }
    match &machine.in_place {
        Ok(_) | Err(WhyNotInPlace::NotAsked | WhyNotInPlace::NoAnswer(_)) => None,
        Err(why) => Some(why.clone()),
    }
}
