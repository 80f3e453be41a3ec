//! How long machines take, from the times in their own objects, and what that says about what is left.

use jiff::Timestamp;
use kube_core::ResourceExt;
use serde::Serialize;
use windlass_api::cluster::Machine;
use windlass_api::conditions::{BOOTSTRAP_CONFIG_READY, NODE_READY};

use super::machines::Part;
use crate::condition;

/// So many machines tell enough about a group; with fewer, all machines of the cluster are taken.
pub const ENOUGH: usize = 3;
/// A condition changes again when a Node is not ready for a moment. What took longer than this tells of such a moment.
const LONGEST_SECONDS: i64 = 4 * 3600;
/// Where no machine tells: a virtual machine takes minutes, and one of twenty a quarter of an hour and more.
const ASSUMED_SECONDS: [u64; 2] = [300, 1200];

/// How long a machine took from its bootstrap data to a Node that is ready.
pub fn seconds(machine: &Machine) -> Option<u64> {
    let since = |type_: &str| -> Option<Timestamp> {
        let found = condition::find(&machine.status.conditions, type_)?;
        (found.status == "True").then_some(found.last_transition_time.0)
    };
    let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0)?;
    let began = since(BOOTSTRAP_CONFIG_READY).unwrap_or(created).max(created);
    let seconds = since(NODE_READY)?.duration_since(began).as_secs();
    (1..=LONGEST_SECONDS).contains(&seconds).then_some(seconds.unsigned_abs())
}

/// How long something takes, in seconds: in half of all cases, and in 19 of 20.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Estimate {
    /// In half of all cases it takes no longer.
    pub p50_seconds: u64,
    /// In 19 of 20 cases it takes no longer.
    pub p95_seconds: u64,
}

impl Estimate {
    /// The same so many times, one after the other. That each of many is as slow as one of twenty is cautious.
    pub fn times(self, count: u64) -> Self {
        let Self { p50_seconds, p95_seconds } = self;
        Self { p50_seconds: p50_seconds * count, p95_seconds: p95_seconds * count }
    }

    /// One after the other.
    pub fn and(self, next: Self) -> Self {
        Self {
            p50_seconds: self.p50_seconds + next.p50_seconds,
            p95_seconds: self.p95_seconds + next.p95_seconds,
        }
    }
}

/// How long machines of a cluster took, shortest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    all: Vec<u64>,
    of_parts: Vec<(Part, Vec<u64>)>,
}

impl Samples {
    /// Of machines that are there.
    pub fn of<'a>(machines: impl IntoIterator<Item = &'a Machine>) -> Self {
        let mut samples = Self::default();
        for machine in machines {
            let Some(seconds) = seconds(machine) else { continue };
            samples.all.push(seconds);
            let Some(part) = Part::of(machine.labels()) else { continue };
            match samples.of_parts.iter_mut().find(|(of, _)| *of == part) {
                Some((_, all)) => all.push(seconds),
                None => samples.of_parts.push((part, vec![seconds])),
            }
        }
        samples.all.sort_unstable();
        samples.of_parts.iter_mut().for_each(|(_, all)| all.sort_unstable());
        samples
    }

    /// How many machines tell.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// What is known about a part, else about all parts, else what is assumed.
    fn known(&self, part: &Part) -> &[u64] {
        let own = self.of_parts.iter().find(|(of, all)| of == part && all.len() >= ENOUGH);
        match own {
            Some((_, own)) => own,
            None if self.all.is_empty() => &ASSUMED_SECONDS,
            None => &self.all,
        }
    }

    /// How long a machine of a part takes.
    pub fn machine(&self, part: &Part) -> Estimate {
        let known = self.known(part);
        Estimate { p50_seconds: rank(known, 50), p95_seconds: rank(known, 95) }
    }

    /// How much longer a machine takes that has taken so long already: the longer draws are what is left to choose from. One
    /// that takes longer than all others is given half as long again.
    pub fn left(&self, part: &Part, passed: u64) -> Estimate {
        let longer: Vec<u64> = self.known(part).iter().copied().filter(|seconds| *seconds > passed).collect();
        if longer.is_empty() {
            let half = (passed / 2).max(1);
            return Estimate { p50_seconds: half, p95_seconds: passed.max(2) };
        }
        Estimate { p50_seconds: rank(&longer, 50) - passed, p95_seconds: rank(&longer, 95) - passed }
    }
}

/// The smallest value that so many percent do not exceed. Of nothing it is zero.
pub fn rank(sorted: &[u64], percent: usize) -> u64 {
    let place = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(place).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        let values: Vec<u64> = (1..=20).collect();
        assert_eq!((rank(&values, 50), rank(&values, 95), rank(&values, 100)), (10, 19, 20));
        assert_eq!((rank(&[7], 50), rank(&[7], 95), rank(&[], 50)), (7, 7, 0));
    }

    #[test]
    fn what_is_left_never_goes_below_zero_and_grows_when_it_is_late() {
        let samples = Samples { all: vec![60, 100, 300], of_parts: Vec::new() };
        let left = |passed| {
            let Estimate { p50_seconds, p95_seconds } = samples.left(&Part::ControlPlane, passed);
            (p50_seconds, p95_seconds)
        };
        assert_eq!(left(0), (100, 300));
        assert_eq!(left(70), (30, 230));
        assert_eq!(left(299), (1, 1));
        assert_eq!(left(600), (300, 600), "later than any: not zero");
        assert_eq!(
            Samples::default().machine(&Part::ControlPlane),
            Estimate { p50_seconds: 300, p95_seconds: 1200 }
        );
    }
}
