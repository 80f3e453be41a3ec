//! Which MachineSet is the new one.

use std::fmt;

use jiff::Timestamp;

use super::{Observed, Set};

/// The MachineSets of a MachineDeployment by their role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roles {
    /// The MachineSet that machines are brought to.
    pub new: NewSet,
    /// All others, largest first, then oldest, then by name.
    pub old: Vec<OldSet>,
}

/// The MachineSet that machines are brought to. One that is being deleted never is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NewSet {
    /// It is there.
    Existing(String),
    /// It has to be created.
    Missing(WhyCreate),
}

/// Why a new MachineSet is created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyCreate {
    /// There is no MachineSet at all.
    First,
    /// None has the template of the MachineDeployment.
    NoMatch,
    /// Some have, but they are older than `spec.rollout.after`, which has passed.
    RolloutAfter(Timestamp),
}

/// A MachineSet that machines leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSet {
    /// The name of the MachineSet.
    pub name: String,
    /// Why its machines have to be replaced whatever extensions could do, if so.
    pub must_replace: Option<MustReplace>,
}

/// Why machines are replaced and never updated in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MustReplace {
    /// The template did not change: there is nothing to update.
    SameTemplate,
    /// `spec.rollout.after` asks for new machines.
    RolloutAfter(Timestamp),
}

/// Tells the new MachineSet from the old ones. Of several with the template of the MachineDeployment the largest is the
/// new one, then the oldest, so that as few machines as possible move.
pub fn roles(observed: &Observed) -> Roles {
    let expired = observed.after.filter(|after| observed.now >= *after);
    let too_old = |set: &Set| expired.is_some_and(|after| set.created < after);
    let mut sorted: Vec<&Set> = observed.sets.iter().collect();
    sorted.sort_by(|a, b| {
        b.spec.cmp(&a.spec).then(a.created.cmp(&b.created)).then_with(|| a.name.cmp(&b.name))
    });

    let new = sorted.iter().position(|set| set.matches && !set.deleting && !too_old(set));
    let why = match expired {
        _ if sorted.is_empty() => WhyCreate::First,
        Some(after) if sorted.iter().any(|set| set.matches && too_old(set)) => WhyCreate::RolloutAfter(after),
        _ => WhyCreate::NoMatch,
    };
    let old = sorted.iter().enumerate().filter(|(at, _)| Some(*at) != new).map(|(_, set)| OldSet {
        name: set.name.clone(),
        must_replace: match expired {
            Some(after) if too_old(set) => Some(MustReplace::RolloutAfter(after)),
            _ if set.matches => Some(MustReplace::SameTemplate),
            _ => None,
        },
    });
    Roles {
        old: old.collect(),
        new: new.map_or(NewSet::Missing(why), |at| NewSet::Existing(sorted[at].name.clone())),
    }
}

impl fmt::Display for WhyCreate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::First => f.write_str("there is no MachineSet yet"),
            Self::NoMatch => f.write_str("no MachineSet has the current template"),
            Self::RolloutAfter(after) => write!(f, "spec.rollout.after {after} has passed"),
        }
    }
}

impl fmt::Display for MustReplace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SameTemplate => {
                f.write_str("it has the current template but is not the current MachineSet")
            }
            Self::RolloutAfter(after) => write!(f, "spec.rollout.after {after} asks for new Machines"),
        }
    }
}
