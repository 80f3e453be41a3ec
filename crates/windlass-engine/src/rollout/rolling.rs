//! The sizes of a rolling update.

use super::sizes::Sizes;
use super::{Limits, Machine, Note};

/// The new MachineSet grows as far as the surge allows, and shrinks to what the MachineDeployment asks for.
pub(super) fn grow_new(sizes: &mut Sizes, replicas: u32, limits: Limits) {
    if sizes.new.spec > replicas {
        sizes.new.resize(replicas, Note::AboveReplicas { replicas });
        return;
    }
    let machines = sizes.sum(|set| set.spec.max(set.status));
    let ceiling = replicas.saturating_add(limits.surge);
    let up = ceiling.saturating_sub(machines).min(replicas - sizes.new.spec);
    if up > 0 {
        sizes.new.resize(sizes.new.spec + up, Note::Room { machines, ceiling });
    }
}

/// What old MachineSets may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shrink {
    /// Every machine, as far as availability allows.
    All,
    /// Machines that can be handed over, as far as availability allows; others only where the MachineDeployment was
    /// scaled down.
    MovesOnly,
}

/// Old MachineSets shrink as far as availability allows: unavailable machines first, then the others.
pub(super) fn shrink_old(sizes: &mut Sizes, replicas: u32, limits: Limits, what: Shrink) {
    if sizes.sum_old(|set| set.spec) == 0 {
        return;
    }
    let floor = limits.floor(replicas);
    // What is on its way down, by this plan or an earlier one, is as good as gone. Machines of the new MachineSet that
    // are not available slow the rollout down: a bad template must not take the old machines with it.
    let pending_down = sizes.sum(|set| set.status.saturating_sub(set.spec.min(set.target())));
    let new_unavailable = sizes.new.spec.saturating_sub(sizes.new.available);
    let budget = sizes
        .sum(|set| set.spec)
        .saturating_sub(pending_down)
        .saturating_sub(floor)
        .saturating_sub(new_unavailable);
    if budget == 0 {
        return;
    }
    sizes.sort_old_by_age();
    // A MachineSet that hands machines over passes over those that are being updated already: what it still owes from an
    // earlier plan are available ones.
    let owed = sizes.sum_old(|set| match set.moves {
        true => set.status.saturating_sub(set.spec).min(set.available),
        false => 0,
    });
    let mut pass = Pass {
        replicas,
        floor,
        what,
        budget,
        available: sizes.sum(|set| set.available).saturating_sub(owed),
        surplus: sizes.sum(|set| set.target()).saturating_sub(replicas),
    };
    pass.run(sizes, true);
    pass.run(sizes, false);
}

struct Pass {
    replicas: u32,
    floor: u32,
    what: Shrink,
    budget: u32,
    available: u32,
    surplus: u32,
}

impl Pass {
    fn run(&mut self, sizes: &mut Sizes, only_unavailable: bool) {
        for set in sizes.old.iter_mut().filter(|set| !set.held && !set.stays_available) {
            let current = set.target();
            let stays = self.what == Shrink::MovesOnly && !set.moves;
            let cap = if only_unavailable { current.saturating_sub(set.available) } else { current };
            let cap = if stays { cap.min(self.surplus) } else { cap };
            let mut down = cap.min(self.budget);
            if down == 0 {
                continue;
            }
            let before = self.available;
            if set.available > 0 {
                // The MachineSet picks its victims itself. The worst case is assumed: available ones go first.
                let mut removed = set.status.saturating_sub(current - down);
                let allowed = before.saturating_sub(self.floor);
                if removed > allowed {
                    let target = set.status.saturating_sub(allowed).min(current);
                    down = current - target;
                    removed = set.status.saturating_sub(target);
                }
                self.available = before.saturating_sub(set.available.min(removed));
            }
            if down == 0 {
                continue;
            }
            self.budget -= down;
            self.surplus = self.surplus.saturating_sub(if stays { down } else { 0 });
            let note = match before {
                _ if stays => Note::ScaledDown { replicas: self.replicas },
                _ if self.available == before => Note::Unavailable,
                available => Note::AboveFloor { available, floor: self.floor },
            };
            set.resize(current - down, note);
        }
    }
}

/// Where nothing can move any more because machines of old MachineSets are unavailable, one of them goes, at the cost of
/// availability: health checks do not replace machines of old MachineSets. A machine that is being
/// updated is not stuck, unless a health check gave it up.
pub(super) fn break_deadlock(sizes: &mut Sizes, machines: &[Machine], what: Shrink) {
    let updating = machines.iter().any(|machine| machine.updating && !machine.needs_remediation);
    let old_machines = sizes.sum_old(|set| set.status);
    let moving = sizes.all().any(|set| set.spec != set.status || set.intent.is_some());
    if old_machines == 0
        || old_machines == sizes.sum_old(|set| set.available)
        || moving
        || updating
        || sizes.new.available != sizes.new.status
    {
        return;
    }
    let stuck = sizes
        .old
        .iter_mut()
        .filter(|set| !set.held)
        .find(|set| set.available != set.status && set.spec != 0 && (what == Shrink::All || set.moves));
    if let Some(set) = stuck {
        let unavailable = set.status.saturating_sub(set.available);
        set.resize(set.spec - 1, Note::Deadlock { unavailable });
    }
}
