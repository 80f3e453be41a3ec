//! Whether machines can be updated in place, with the evidence.

use std::fmt;

use super::Verdict;
use crate::control_plane::OutdatedReason;

/// Whether one Machine, or the machines of one MachineSet, can be updated in place: who covers every field of the change, or
/// why not.
pub type InPlaceAnswer = Result<Verdict, WhyNotInPlace>;

/// Why machines are not updated in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyNotInPlace {
    /// Extensions were not asked.
    NotAsked,
    /// No extension is registered that updates machines.
    NoExtension,
    /// Extensions answered, and fields remain that none of them covers.
    NotCovered(Verdict),
    /// No update leads there, whichever extension is asked.
    Impossible(String),
    /// An extension could not be asked, or its answer cannot be used.
    NoAnswer(String),
    /// An external updater has accepted the update.
    ExternalUpdate,
    /// The Machine is to be deleted.
    MarkedForDeletion,
    /// The Machine is to be remediated.
    MarkedForRemediation,
    /// What is asked for is a new Machine: its certificates expire, or `rollout.after` has passed.
    WantsNewMachine(OutdatedReason),
}

impl WhyNotInPlace {
    /// Whether external updaters can be asked to update the machines: the trouble is that extensions do not cover the change.
    pub fn allows_external_update(&self) -> bool {
        matches!(self, Self::NoExtension | Self::NotCovered(_))
    }
}

impl Verdict {
    /// What the verdict means for the machines.
    ///
    /// # Errors
    ///
    /// A field is covered by no extension.
    pub fn into_answer(self) -> InPlaceAnswer {
        if self.is_covered() { Ok(self) } else { Err(WhyNotInPlace::NotCovered(self)) }
    }
}

impl fmt::Display for WhyNotInPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAsked => f.write_str("no extension was asked"),
            Self::NoExtension => f.write_str("no extension updates Machines in place"),
            Self::NotCovered(verdict) => write!(f, "no extension covers {}", verdict.open().join(", ")),
            Self::Impossible(why) | Self::NoAnswer(why) => f.write_str(why),
            Self::ExternalUpdate => f.write_str("an external updater has accepted the update"),
            Self::MarkedForDeletion => f.write_str("it is marked for deletion"),
            Self::MarkedForRemediation => f.write_str("it is marked for remediation"),
            Self::WantsNewMachine(reason) => write!(f, "only a new Machine helps: {reason}"),
        }
    }
}
