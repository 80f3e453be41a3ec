//! Which machine goes first.

use std::cmp::Ordering;

use jiff::Timestamp;

use super::{DeletionOrder, Machine};

/// Machines in the order in which they go: those on their way out, marked by a user, least far in an update, unhealthy,
/// and then by the order that the user chose. Machines of equal rank go by name, so that a decision that is taken again
/// is the same.
pub fn deletion_order(machines: &[Machine], order: DeletionOrder, now: Timestamp) -> Vec<&Machine> {
    let mut sorted: Vec<&Machine> = machines.iter().collect();
    sorted.sort_by(|a, b| {
        rank(a).cmp(&rank(b)).then_with(|| by_age(a, b, order, now)).then_with(|| a.name.cmp(&b.name))
    });
    sorted
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Deleting,
    Marked,
    Updating,
    Unhealthy,
    Other,
}

fn rank(machine: &Machine) -> Rank {
    match machine {
        machine if machine.deleting => Rank::Deleting,
        machine if machine.marked => Rank::Marked,
        machine if machine.updating => Rank::Updating,
        machine if machine.is_unhealthy() => Rank::Unhealthy,
        _ => Rank::Other,
    }
}

/// Age decides only between machines that nothing else tells apart. A machine of unknown age, or from the future, goes
/// last.
fn by_age(a: &Machine, b: &Machine, order: DeletionOrder, now: Timestamp) -> Ordering {
    if order == DeletionOrder::Random || rank(a) != Rank::Other {
        return Ordering::Equal;
    }
    let known = |machine: &Machine| machine.created.filter(|created| *created <= now);
    match (known(a), known(b)) {
        (Some(a), Some(b)) if order == DeletionOrder::Oldest => a.cmp(&b),
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => Ordering::Equal,
    }
}
