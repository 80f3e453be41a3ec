//! Which versions a group's machines are at.
//!
//! `status.versions` of MachineSets, MachineDeployments and control planes is made here, from machines or from the
//! lists of the groups below, always in the same order: oldest first.

use std::cmp::Ordering;

use windlass_version::{Comparison, Version};

/// How many machines run one version, as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionCount {
    /// The version as the kubelet reports it, or as it is asked for.
    pub version: String,
    /// How many machines.
    pub replicas: u32,
}

/// Counts the versions of machines, given oldest machine first: what the kubelet reports, or else what was asked for.
/// Machines without either are left out.
pub fn of_machines<'a>(
    machines: impl IntoIterator<Item = (Option<&'a str>, Option<&'a str>)>,
) -> Vec<VersionCount> {
    let counted = machines.into_iter().filter_map(|(kubelet, spec)| {
        let given = |version: &&str| !version.is_empty();
        kubelet.filter(given).or(spec.filter(given)).map(|version| (version, 1))
    });
    sum(counted)
}

/// Adds up the versions of several groups, in the order of the groups.
pub fn of_groups<'a>(groups: impl IntoIterator<Item = (&'a str, u32)>) -> Vec<VersionCount> {
    sum(groups)
}

fn sum<'a>(counted: impl IntoIterator<Item = (&'a str, u32)>) -> Vec<VersionCount> {
    let mut counts: Vec<VersionCount> = Vec::new();
    for (version, replicas) in counted {
        match counts.iter_mut().find(|count| count.version == version) {
            Some(count) => count.replicas = count.replicas.saturating_add(replicas),
            None => counts.push(VersionCount { version: version.to_owned(), replicas }),
        }
    }
    oldest_first(counts)
}

/// Two builds of one release may have no order, so no sort by comparison is possible: such builds stay in the order in
/// which they were first seen, by insertion. The lists have a handful of entries.
fn oldest_first(counts: Vec<VersionCount>) -> Vec<VersionCount> {
    let mut sorted: Vec<VersionCount> = Vec::with_capacity(counts.len());
    for count in counts {
        let at = sorted.iter().rposition(|before| !is_older(&count.version, &before.version));
        sorted.insert(at.map_or(0, |at| at + 1), count);
    }
    sorted
}

fn is_older(left: &str, right: &str) -> bool {
    match (Version::parse(left), Version::parse(right)) {
        (Ok(l), Ok(r)) => match l.compare(&r) {
            Comparison::Less => true,
            Comparison::Greater | Comparison::DifferentBuild => false,
            Comparison::Equal => left < right,
        },
        (Ok(_), Err(_)) => true,
        (Err(_), Ok(_)) => false,
        (Err(_), Err(_)) => left.cmp(right) == Ordering::Less,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(counts: &[VersionCount]) -> Vec<(&str, u32)> {
        counts.iter().map(|count| (count.version.as_str(), count.replicas)).collect()
    }

    #[test]
    fn the_kubelet_is_believed_before_the_spec_and_machines_without_a_version_are_left_out() {
        let counts = of_machines([
            (Some("v1.31.0"), Some("v1.32.0")),
            (None, Some("v1.32.0")),
            (Some(""), Some("v1.31.0")),
            (None, None),
            (Some(""), Some("")),
        ]);
        assert_eq!(listed(&counts), [("v1.31.0", 2), ("v1.32.0", 1)]);
    }

    #[test]
    fn versions_are_listed_oldest_first() {
        for (seen, expected) in [
            (vec!["v1.32.0", "v1.31.9", "v1.31.10"], vec!["v1.31.9", "v1.31.10", "v1.32.0"]),
            // Texts that are no version come last, by their text.
            (vec!["z", "a", "v1.30.0"], vec!["v1.30.0", "a", "z"]),
            // The same version written differently: by text.
            (vec!["v1.30.0", "1.30.0"], vec!["1.30.0", "v1.30.0"]),
            // Builds that have no order stay as first seen.
            (vec!["v1.30.0+b", "v1.30.0+a", "v1.29.0"], vec!["v1.29.0", "v1.30.0+b", "v1.30.0+a"]),
            (vec!["v1.30.0+b.2", "v1.30.0+b.1"], vec!["v1.30.0+b.1", "v1.30.0+b.2"]),
        ] {
            let counts = of_machines(seen.iter().map(|version| (Some(*version), None)));
            assert_eq!(listed(&counts).iter().map(|(v, _)| *v).collect::<Vec<_>>(), expected, "{seen:?}");
        }
    }

    #[test]
    fn groups_add_up() {
        let counts = of_groups([("v1.32.0", 2), ("v1.31.0", 1), ("v1.32.0", 3)]);
        assert_eq!(listed(&counts), [("v1.31.0", 1), ("v1.32.0", 5)]);
    }
}
