//! The sizes of a paused MachineDeployment: no rollout, but scaling is followed, each MachineSet by its share.

use super::sizes::{Member, Sizes};
use super::{Note, Observed};

/// Scales without rolling out.
pub(super) fn resize(sizes: &mut Sizes, observed: &Observed, has_new: bool) {
    let replicas = observed.replicas;
    if let Some(only) = only_active(sizes, has_new) {
        if only.spec != replicas {
            only.resize(replicas, Note::Proportional);
        }
        return;
    }
    if has_new && is_saturated(sizes, observed) {
        for set in sizes.old.iter_mut().filter(|set| set.spec > 0) {
            set.resize(0, Note::AboveReplicas { replicas });
        }
        return;
    }
    let surge = observed.strategy.limits(replicas).surge;
    let allowed = if replicas == 0 { 0 } else { i64::from(replicas) + i64::from(surge) };
    let change = allowed - i64::from(sizes.sum(|set| set.spec));
    if change != 0 {
        distribute(sizes, observed, allowed, change);
    }
}

/// The only MachineSet with replicas; where none has any, the new one, or else the youngest.
fn only_active(sizes: &mut Sizes, has_new: bool) -> Option<&mut Member> {
    let active = sizes.all().filter(|set| set.spec > 0).count();
    match active {
        0 if has_new => Some(&mut sizes.new),
        0 => {
            let living = sizes.old.iter_mut().filter(|set| !set.deleting);
            living.max_by(|a, b| a.created.cmp(&b.created).then_with(|| b.name.cmp(&a.name)))
        }
        1 => std::iter::once(&mut sizes.new).chain(&mut sizes.old).find(|set| set.spec > 0),
        _ => None,
    }
}

/// Whether the new MachineSet already has all the replicas that it was last told of, available.
fn is_saturated(sizes: &Sizes, observed: &Observed) -> bool {
    let desired =
        observed.sets.iter().find(|set| set.name == sizes.new.name).and_then(|set| set.desired_replicas);
    sizes.new.spec == observed.replicas
        && desired == Some(observed.replicas)
        && sizes.new.available == observed.replicas
}

/// Largest first; of two of one size the younger grows and the older shrinks. What rounding leaves goes to the largest.
fn distribute(sizes: &mut Sizes, observed: &Observed, allowed: i64, change: i64) {
    let mut order: Vec<&mut Member> =
        std::iter::once(&mut sizes.new).chain(&mut sizes.old).filter(|set| set.spec > 0).collect();
    order.sort_by(|a, b| {
        let by_age = if change > 0 { b.created.cmp(&a.created) } else { a.created.cmp(&b.created) };
        b.spec.cmp(&a.spec).then(by_age).then_with(|| a.name.cmp(&b.name))
    });
    let status: u32 = order.iter().map(|set| set.status).sum();
    let mut left = change;
    let mut targets: Vec<i64> = Vec::with_capacity(order.len());
    for set in &order {
        let former =
            observed.sets.iter().find(|other| other.name == set.name).and_then(|set| set.max_replicas);
        let fraction = share(i64::from(set.spec), allowed, i64::from(former.unwrap_or(status)));
        // A share never goes the other way, nor beyond what is left.
        let part = if change > 0 { fraction.clamp(0, left) } else { fraction.clamp(left, 0) };
        left -= part;
        targets.push(i64::from(set.spec) + part);
    }
    if let Some(first) = targets.first_mut() {
        *first += left;
    }
    for (set, target) in order.into_iter().zip(targets) {
        let target = u32::try_from(target.max(0)).unwrap_or(u32::MAX);
        if target != set.spec {
            set.resize(target, Note::Proportional);
        }
    }
}

/// By how much a MachineSet changes when all of them go from `former` machines to `allowed`, rounded half up.
fn share(spec: i64, allowed: i64, former: i64) -> i64 {
    if allowed == 0 || former <= 0 {
        return -spec;
    }
    (2 * spec * allowed + former) / (2 * former) - spec
}
