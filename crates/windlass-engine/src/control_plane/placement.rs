//! Where the next Machine goes, and which one goes first.

use std::collections::{BTreeMap, BTreeSet};

use super::observed::{Observed, ObservedMachine};

/// The failure domain of the next Machine: that with the fewest up-to-date Machines, then with the fewest Machines at
/// all, then the first by name. None if the Cluster has no failure domains.
///
/// Up-to-date Machines count first, so that the Machines that remain after a rollout are spread, also if those that
/// it removes were not.
pub fn failure_domain_for_new(observed: &Observed) -> Option<&str> {
    let count = |domain: &str, counts: &dyn Fn(&ObservedMachine) -> bool| {
        observed
            .machines
            .iter()
            .filter(|machine| machine.failure_domain.as_deref() == Some(domain) && counts(machine))
            .count()
    };
    observed
        .failure_domains
        .iter()
        .min_by_key(|domain| {
            let up_to_date =
                count(domain, &|machine| machine.outdated.is_empty() && machine.deletion.is_none());
            (up_to_date, count(domain, &|_| true))
        })
        .map(String::as_str)
}

/// The Machine that is removed, or updated in place, next. None if there is none that is not being deleted already.
///
/// What the user marked goes first, then what is outdated and broken, then what is outdated. Within that set the
/// fullest failure domain gives up its oldest Machine.
pub fn victim(observed: &Observed) -> Option<&ObservedMachine> {
    let present = || observed.machines.iter().filter(|machine| machine.deletion.is_none());
    let sets: [&dyn Fn(&ObservedMachine) -> bool; 5] = [
        &|machine| machine.needs_rollout() && machine.marked_for_deletion,
        &|machine| machine.marked_for_deletion,
        &|machine| machine.needs_rollout() && machine.has_broken_component(&observed.etcd),
        &ObservedMachine::needs_rollout,
        &|_| true,
    ];
    let set = sets
        .into_iter()
        .map(|belongs| present().filter(|machine| belongs(machine)).collect::<Vec<_>>())
        .find(|set| !set.is_empty())?;
    oldest_of_fullest_domain(&set, observed)
}

/// The outdated Machine that an in-place update takes next: as [`victim`], without those that are up to date.
pub fn next_outdated(observed: &Observed) -> Option<&ObservedMachine> {
    let outdated = || observed.machines.iter().filter(|machine| machine.needs_rollout());
    let broken: Vec<_> = outdated().filter(|machine| machine.has_broken_component(&observed.etcd)).collect();
    let set = if broken.is_empty() { outdated().collect() } else { broken };
    oldest_of_fullest_domain(&set, observed)
}

fn oldest_of_fullest_domain<'a>(
    set: &[&'a ObservedMachine],
    observed: &'a Observed,
) -> Option<&'a ObservedMachine> {
    let oldest = |machines: &mut dyn Iterator<Item = &'a ObservedMachine>| {
        machines.min_by(|left, right| (left.created, &left.name).cmp(&(right.created, &right.name)))
    };
    let listed = |machine: &ObservedMachine| {
        machine.failure_domain.as_ref().is_some_and(|domain| observed.failure_domains.contains(domain))
    };
    // A Machine in a domain that the Cluster no longer has is misplaced: those go before all spreading.
    let domain: Option<&str> = match oldest(&mut set.iter().copied().filter(|machine| !listed(machine))) {
        Some(misplaced) => misplaced.failure_domain.as_deref(),
        None => fullest_domain(set, observed),
    };
    oldest(&mut set.iter().copied().filter(|machine| machine.failure_domain.as_deref() == domain))
}

fn fullest_domain<'a>(set: &[&'a ObservedMachine], observed: &Observed) -> Option<&'a str> {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for domain in observed.machines.iter().filter_map(|machine| machine.failure_domain.as_deref()) {
        *all.entry(domain).or_default() += 1;
    }
    let domains: BTreeSet<&str> =
        set.iter().filter_map(|machine| machine.failure_domain.as_deref()).collect();
    // Reversed, so that the first name wins among equals: `max_by_key` keeps the last.
    domains.into_iter().rev().max_by_key(|domain| {
        let members = set.iter().filter(|machine| machine.failure_domain.as_deref() == Some(domain)).count();
        (members, all.get(domain).copied().unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixture::*;
    use super::super::{Component, Health};
    use super::*;

    /// Machines `m1`, `m2`, ... in these failure domains; those with a star are outdated.
    fn spread(domains: &[&str], machines: &[&str]) -> Observed {
        let mut observed = healthy(machines.len() as i64);
        observed.failure_domains = domains.iter().map(|&domain| domain.to_owned()).collect();
        for (machine, domain) in observed.machines.iter_mut().zip(machines) {
            let (domain, outdated) =
                domain.strip_suffix('*').map_or((*domain, false), |domain| (domain, true));
            machine.failure_domain = Some(domain.to_owned()).filter(|domain| !domain.is_empty());
            if outdated {
                outdate(machine);
            }
        }
        observed
    }

    #[test]
    fn new_machines_spread_over_failure_domains() {
        for (domains, machines, expected) in [
            (&[][..], &["", ""][..], None),
            (&["a", "b"], &[], Some("a")),
            (&["a", "b"], &["a"], Some("b")),
            (&["a", "b", "c"], &["a", "b"], Some("c")),
            // Outdated Machines count only among equals: the up-to-date ones are to be spread.
            (&["a", "b"], &["a*", "b"], Some("a")),
            (&["a", "b"], &["a*", "a*", "b*"], Some("b")),
            (&["a", "b"], &["a", "b", "gone"], Some("a")),
        ] {
            let observed = spread(domains, machines);
            assert_eq!(failure_domain_for_new(&observed), expected, "{domains:?} {machines:?}");
        }
    }

    #[test]
    fn the_fullest_failure_domain_gives_up_its_oldest_machine() {
        for (domains, machines, expected) in [
            (&[][..], &["", "", ""][..], Some("m1")),
            (&["a", "b"], &["a", "b", "b"], Some("m2")),
            (&["a", "b"], &["a", "b"], Some("m1")),
            // The set decides, then all Machines.
            (&["a", "b"], &["a*", "b*", "b"], Some("m2")),
            (&["a", "b"], &["b", "a*", "b"], Some("m2")),
            // A domain that the Cluster does not have, or none at all.
            (&["a", "b"], &["a", "a", "gone"], Some("m3")),
            (&["a", "b"], &["a", "a", ""], Some("m3")),
            (&["a"], &[], None),
        ] {
            let observed = spread(domains, machines);
            let victim = victim(&observed).map(|machine| machine.name.as_str());
            assert_eq!(victim, expected, "{domains:?} {machines:?}");
        }
    }

    #[test]
    fn marks_come_before_breakage_and_breakage_before_age() {
        let mut observed = spread(&[], &["", "*", "*", "*", ""]);
        let name = |observed: &Observed| victim(observed).map(|machine| machine.name.clone());
        assert_eq!(name(&observed).as_deref(), Some("m2"));
        observed.machines[0].components.insert(Component::ApiServer, Health::Unhealthy);
        assert_eq!(name(&observed).as_deref(), Some("m2"), "m1 is broken, and up to date");
        observed.machines[2].components.insert(Component::EtcdMember, Health::Unhealthy);
        assert_eq!(name(&observed).as_deref(), Some("m3"));
        observed.machines[4].marked_for_deletion = true;
        assert_eq!(name(&observed).as_deref(), Some("m5"));
        observed.machines[3].marked_for_deletion = true;
        assert_eq!(name(&observed).as_deref(), Some("m4"));
        assert_eq!(next_outdated(&observed).map(|machine| machine.name.as_str()), Some("m3"));
        observed.machines[3].deletion = deletion(1);
        assert_eq!(name(&observed).as_deref(), Some("m5"));
    }
}
