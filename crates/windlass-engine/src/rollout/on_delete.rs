//! The sizes of an OnDelete rollout: users delete machines, the new MachineSet brings them back.

use super::Note;
use super::sizes::Sizes;

/// The new MachineSet grows to what is missing; old ones never get machines again. Creation is disabled on old
/// MachineSets, so that first their size follows what the user deleted, and then the new one grows.
pub(super) fn resize(sizes: &mut Sizes, replicas: u32) {
    let machines = sizes.sum(|set| set.spec.max(set.status));
    if sizes.new.spec > replicas {
        sizes.new.resize(replicas, Note::AboveReplicas { replicas });
    } else if machines < replicas {
        let up = (replicas - machines).min(replicas - sizes.new.spec);
        sizes.new.resize(sizes.new.spec + up, Note::Room { machines, ceiling: replicas });
    }

    let old_spec = sizes.sum_old(|set| set.spec);
    if old_spec == 0 {
        return;
    }
    let mut budget = old_spec.saturating_add(sizes.new.target()).saturating_sub(replicas);
    sizes.sort_old_by_age();
    for set in &mut sizes.old {
        let deleted = set.spec.saturating_sub(set.status);
        if deleted > 0 {
            set.resize(set.status, Note::DeletedByUser { machines: deleted });
            budget = budget.saturating_sub(deleted);
        }
    }
    for set in &mut sizes.old {
        let down = set.target().min(budget);
        if down > 0 {
            set.resize(set.target() - down, Note::ScaledDown { replicas });
            budget -= down;
        }
    }
}
