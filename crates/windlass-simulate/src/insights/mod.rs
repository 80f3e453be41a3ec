//! What stands in the way of an upgrade before it begins: pure functions over a snapshot.
//!
//! A snapshot has what the management cluster has. What is only in the workload cluster (its PodDisruptionBudgets, the APIs that
//! its clients use) is seen where it has left a trace: in a drain that does not end, in files and flags of its machines.

mod health;
mod removed;

use std::fmt;

use jiff::Timestamp;
use serde::Serialize;
use windlass_version::Version;

use crate::snapshot::Snapshot;

/// How bad it is. The order is that of the words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Level {
    /// Worth knowing.
    Note,
    /// It may stop the upgrade, or something of the cluster.
    Warning,
    /// It stops the upgrade, or breaks something of the cluster.
    Error,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// Something that stands in the way. The fields are a contract with scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Insight {
    /// What kind of thing: a word for programs.
    pub id: &'static str,
    /// How bad it is.
    pub level: Level,
    /// The object that it is about.
    pub object: String,
    /// What was seen.
    pub evidence: String,
    /// What to do about it.
    pub remedy: String,
}

/// What stands in the way of an upgrade to a version that takes so many seconds from `now` on, the worst first.
pub fn insights(snapshot: &Snapshot, to: &Version, takes_seconds: u64, now: Timestamp) -> Vec<Insight> {
    let seconds = i64::try_from(takes_seconds).unwrap_or(i64::MAX);
    let end = Timestamp::from_second(now.as_second().saturating_add(seconds)).unwrap_or(Timestamp::MAX);
    let mut all = removed::apis(snapshot, to);
    all.extend(health::machines(snapshot, now));
    all.extend(health::certificates(snapshot, now, end));
    all.extend(health::skew(snapshot));
    all.extend(health::control_planes(snapshot));
    all.extend(health::extensions(snapshot));
    all.sort_by(|a, b| b.level.cmp(&a.level).then_with(|| (a.id, &a.object).cmp(&(b.id, &b.object))));
    all
}
