//! Machines that stay: handed over to the new MachineSet and updated there.

use std::collections::{BTreeMap, BTreeSet};

use super::sizes::{Member, Sizes};
use super::{Limits, Machine, Note, Observed, Set, Strategy, roles};
use crate::in_place::{Effect, InPlaceAnswer, Verdict, WhyNotInPlace};

/// The answers by name of the old MachineSet.
pub type InPlaceAnswers = BTreeMap<String, InPlaceAnswer>;

/// The old MachineSets for which [`plan`](super::plan()) needs an answer. Extensions are asked for no others.
pub fn in_place_questions(observed: &Observed) -> Vec<String> {
    if observed.paused || observed.strategy == Strategy::OnDelete {
        return Vec::new();
    }
    let mut sizes = Sizes::new(observed, &roles(observed));
    acknowledge(&mut sizes, observed);
    if sizes.new.spec >= observed.replicas {
        return Vec::new();
    }
    let asked = sizes.old.iter().filter(|set| set.status > 0 && set.must_replace.is_none() && !set.deleting);
    asked.map(|set| set.name.clone()).collect()
}

/// The old MachineSets that external updaters can be asked to update: those that extensions leave open. While an external
/// updater has accepted, extensions are not asked, and what has no answer is its.
pub fn left_to_external_updaters(
    questions: &[String],
    answers: &InPlaceAnswers,
    is_held: bool,
) -> Vec<String> {
    let is_left = |name: &&String| match answers.get(*name) {
        Some(Err(why)) => why.allows_external_update(),
        Some(Ok(_)) => false,
        None => is_held,
    };
    questions.iter().filter(is_left).cloned().collect()
}

/// Counts the machines that arrived on a MachineSet since the last plan, each exactly once whatever the order in which
/// controllers run. Also on old ones: a MachineSet that was the new one when machines were handed over to it may not be
/// any more, and would take them for too many.
pub(super) fn acknowledge(sizes: &mut Sizes, observed: &Observed) {
    for member in sizes.all_mut() {
        let arrived =
            |machine: &&Machine| machine.pending_acknowledge && machine.set.as_ref() == Some(&member.name);
        let pending: BTreeSet<String> =
            observed.machines.iter().filter(arrived).map(|machine| machine.name.clone()).collect();
        let before = observed.sets.iter().find(|set| set.name == member.name).map(|set| &set.acknowledged);
        let is_fresh = |name: &&String| before.is_none_or(|before| !before.contains(*name));
        let fresh: Vec<String> = pending.iter().filter(is_fresh).cloned().collect();
        if !fresh.is_empty() && !member.deleting {
            member.spec = member.spec.saturating_add(u32::try_from(fresh.len()).unwrap_or(u32::MAX));
            member.notes.push(Note::Acknowledged { machines: fresh });
        }
        member.acknowledged = pending;
    }
}

/// Marks the old MachineSets whose machines are handed over; none if the new one has all its machines.
pub(super) fn mark_moves(sizes: &mut Sizes, observed: &Observed, answers: &InPlaceAnswers) {
    if sizes.new.spec >= observed.replicas {
        return;
    }
    for set in &mut sizes.old {
        let Some(Ok(verdict)) = answers.get(&set.name) else { continue };
        set.moves = set.status > 0 && set.must_replace.is_none() && !set.deleting;
        set.stays_available = set.moves && !effect(observed.strategy, verdict).takes_out_of_service();
    }
}

/// What the update does to machines. With `External` a machine that is updated always counts as unavailable.
pub(super) fn effect(strategy: Strategy, verdict: &Verdict) -> Effect {
    let effect = verdict.effect();
    let external = matches!(strategy, Strategy::External { .. });
    Effect { affects_availability: effect.affects_availability || external, ..effect }
}

/// Machines that stay available while they are updated cost no availability, so that none is added for them. The limits
/// are the pace all the same: never are more handed over than may be under way at a time. A machine that is not available,
/// for whatever reason, counts as if it were under way: an update that does affect availability stops itself.
pub(super) fn hand_over_available(sizes: &mut Sizes, observed: &Observed, limits: Limits) {
    if !sizes.old.iter().any(|set| set.stays_available) {
        return;
    }
    let pace = limits.pace();
    let updating = count(observed.machines.iter().filter(|machine| machine.updating).count());
    let on_their_way = sizes.sum_old(|set| set.status.saturating_sub(set.target()));
    let unavailable = observed.replicas.saturating_sub(sizes.sum(|set| set.available));
    let missing = observed.replicas.saturating_sub(sizes.new.spec).saturating_sub(on_their_way);
    let under_way = updating.saturating_add(on_their_way).saturating_add(unavailable);
    let mut left = pace.saturating_sub(under_way).min(missing);
    sizes.sort_old_by_age();
    for set in sizes.old.iter_mut().filter(|set| set.stays_available && !set.held) {
        let down = set.target().min(left);
        if down > 0 {
            left -= down;
            set.resize(set.target() - down, Note::StaysAvailable { pace });
        }
    }
}

/// Old MachineSets whose machines an external updater updates keep them, except those that are done: these are handed over as they
/// are. No availability is spent on that. What is missing is not created anew from the old template.
pub(super) fn hand_over_updated(sizes: &mut Sizes, observed: &Observed, answers: &InPlaceAnswers) {
    if sizes.new.spec >= observed.replicas {
        return;
    }
    // Machines alone are counted: what a status says may be older or newer than they are.
    let new = sizes.new.name.clone();
    let elsewhere = observed.machines.iter().filter(|machine| machine.set.as_ref() != Some(&new)).count();
    let here = observed.machines.len() - elsewhere;
    let there = count(elsewhere).saturating_add(sizes.new.spec.max(count(here)));
    let mut surplus = there.saturating_sub(observed.replicas);
    for set in sizes.old.iter_mut().filter(|set| !set.deleting && set.must_replace.is_none()) {
        let members = || observed.machines.iter().filter(|machine| machine.set.as_ref() == Some(&set.name));
        let updated: BTreeSet<String> = members()
            .filter(|machine| machine.reached && !machine.needs_remediation)
            .map(|machine| machine.name.clone())
            .collect();
        set.externally_updated = matches!(answers.get(&set.name), Some(Err(WhyNotInPlace::ExternalUpdate)));
        if !set.externally_updated && updated.is_empty() {
            continue;
        }
        let all = count(members().count());
        let healthy = count(members().filter(|machine| !machine.needs_remediation).count());
        let updated_count = count(updated.len());
        let cut = surplus.min(all);
        set.held = true;
        if cut > 0 && set.externally_updated {
            // The user asked for fewer: machines go before any is handed over.
            surplus -= cut;
            set.resize(all - cut, Note::ScaledDown { replicas: observed.replicas });
            continue;
        }
        let stay = match set.externally_updated {
            // One that a health check has given up is replaced on the new MachineSet.
            true => healthy.saturating_sub(updated_count),
            false => all.saturating_sub(updated_count),
        };
        set.moves = true;
        if stay != set.spec {
            set.resize(stay, Note::ExternallyUpdated { machines: updated.iter().cloned().collect() });
        }
        set.updated = Some(updated);
    }
}

/// An old MachineSet without machines has nothing that could be updated, and what it misses must not come back from the old
/// template: it may not even be able to, beside a control plane of another version. The new MachineSet creates it.
pub(super) fn release_missing(sizes: &mut Sizes) {
    let is_empty =
        |set: &&mut Member| !set.deleting && set.intent.is_none() && set.status == 0 && set.spec > 0;
    for set in sizes.old.iter_mut().filter(is_empty) {
        (set.held, set.externally_updated) = (true, true);
        set.resize(0, Note::ExternallyUpdated { machines: Vec::new() });
    }
}

fn count(machines: usize) -> u32 {
    u32::try_from(machines).unwrap_or(u32::MAX)
}

/// No machine is added for one that is updated in place: what the new MachineSet would grow by beyond the replicas is
/// taken back, except for one machine where nothing else could make room.
pub(super) fn drop_surge(sizes: &mut Sizes, observed: &Observed, limits: Limits) {
    let up = sizes.new.target().saturating_sub(sizes.new.spec);
    if up == 0 || !sizes.old.iter().any(|set| set.moves) {
        return;
    }
    let machines = sizes.sum(|set| set.target().max(set.status));
    let surge = up.min(machines.saturating_sub(observed.replicas));
    if surge == 0 {
        // The replicas are really missing: no machine could be moved in their place.
        return;
    }
    sizes.new.notes.retain(|note| !matches!(note, Note::Room { .. }));
    let mut keep = up - surge;
    if keep == 0 && !makes_room(sizes, limits) && !in_motion(sizes, observed) {
        keep = 1;
        sizes.new.notes.push(Note::SurgeKept);
    } else {
        sizes.new.notes.push(Note::SurgeDropped { machines: surge });
    }
    sizes.new.intent = (keep > 0).then_some(sizes.new.spec + keep);
}

/// Whether all machines can be updated within what may be unavailable, or stay available. If none moves now, one of an old
/// MachineSet is not available yet; it is waited for, or updated as it is.
fn makes_room(sizes: &Sizes, limits: Limits) -> bool {
    let mut old = sizes.old.iter().filter(|set| set.status > 0);
    old.all(|set| set.moves && (limits.unavailable > 0 || set.stays_available))
}

/// Whether something is under way that will make room by itself.
fn in_motion(sizes: &Sizes, observed: &Observed) -> bool {
    let new = &sizes.new;
    new.spec != new.status
        || new.spec != new.up_to_date
        || new.spec != new.available
        || sizes.old.iter().any(|set| set.spec < set.status || set.target() < set.spec)
        || observed.machines.iter().any(|machine| machine.updating)
}

/// Old MachineSets whose machines must not be replaced, and that were shrunk to hand machines over, get their size back:
/// without the handover they would delete machines.
pub(super) fn take_back_handovers(sizes: &mut Sizes, observed: &Observed) {
    let was_moving =
        |name: &str| observed.sets.iter().any(|set: &Set| set.name == name && set.moves_to.is_some());
    let mut missing = observed.replicas.saturating_sub(sizes.sum(|set| set.target()));
    for set in &mut sizes.old {
        let back = set.status.saturating_sub(set.spec).min(missing);
        if back > 0 && !set.moves && !set.deleting && was_moving(&set.name) {
            missing -= back;
            set.resize(set.spec + back, Note::HandoverTakenBack);
        }
    }
}
