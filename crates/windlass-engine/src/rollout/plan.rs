//! One step of a rollout.

use std::collections::BTreeSet;
use std::fmt;

use super::in_place::InPlaceAnswers;
use super::rolling::Shrink;
use super::sizes::{Member, Sizes};
use super::{
    Limits, MustReplace, NewSet, Note, Observed, Strategy, WhyCreate, in_place, on_delete, paused, roles,
    rolling,
};
use crate::external_update::Refusal;
use crate::in_place::{Effect, WhyNotInPlace};

/// What the MachineSets of a MachineDeployment should be now. Written new first, then old: an old MachineSet hands
/// machines over only to one that says that it receives them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The MachineSet that machines are brought to; none where a paused MachineDeployment has none.
    pub new: Option<SetPlan>,
    /// Why the new MachineSet has to be created, if it has to.
    pub create: Option<WhyCreate>,
    /// The others, in the order in which they shrink.
    pub old: Vec<SetPlan>,
    /// Why the rollout goes no further, if it is stopped for good.
    pub blocked: Option<Blocked>,
    /// What the strategy lets be added and be missing.
    pub limits: Limits,
}

/// What one MachineSet should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetPlan {
    /// The name of the MachineSet.
    pub name: String,
    /// Its size before.
    pub from: u32,
    /// Its size.
    pub replicas: u32,
    /// Whether it must not create machines.
    pub create_disabled: bool,
    /// The MachineSet that it hands machines over to instead of deleting them.
    pub moves_to: Option<String>,
    /// The extensions that update the machines that it hands over, in their order.
    pub extensions: Vec<String>,
    /// What that does to the machines; none if no extension was asked, and what was agreed on stays.
    pub effect: Option<Effect>,
    /// The only machines that it hands over, because they are updated already; any machine if there is none of this.
    pub updated: Option<BTreeSet<String>>,
    /// The MachineSets that may hand machines over to it.
    pub receives_from: BTreeSet<String>,
    /// The machines that arrived, wait to be released and are counted in the size.
    pub acknowledged: BTreeSet<String>,
    /// Its revision, on the new MachineSet. Old ones keep theirs.
    pub revision: Option<u64>,
    /// Why.
    pub notes: Vec<Note>,
}

/// A rollout that may not replace machines and cannot update them in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// The MachineSets whose machines stay as they are.
    pub sets: Vec<BlockedSet>,
    /// The external updaters that were asked, and why they refuse.
    pub refusals: Vec<Refusal>,
}

/// A MachineSet whose machines stay as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedSet {
    /// The name of the MachineSet.
    pub name: String,
    /// How many machines it has.
    pub machines: u32,
    /// Why they cannot be updated in place.
    pub why: WhyBlocked,
}

/// Why machines neither are replaced nor updated in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WhyBlocked {
    /// The change asks for new machines.
    MustReplace(MustReplace),
    /// No extension covers the change.
    NotInPlace(WhyNotInPlace),
}

/// Plans the next step of a rollout. `answers` has what extensions said to the
/// [questions](super::in_place_questions); a question without an answer counts as *cannot*.
pub fn plan(observed: &Observed, answers: &InPlaceAnswers) -> Plan {
    let roles = roles(observed);
    let replicas = observed.replicas;
    let create = match &roles.new {
        NewSet::Missing(why) => Some(why.clone()),
        NewSet::Existing(_) => None,
    };
    let mut sizes = Sizes::new(observed, &roles);
    let mut limits = observed.strategy.limits(replicas);
    let mut blocked = None;
    in_place::acknowledge(&mut sizes, observed);
    match observed.strategy {
        _ if observed.paused => paused::resize(&mut sizes, observed, create.is_none()),
        Strategy::OnDelete => on_delete::resize(&mut sizes, replicas),
        Strategy::RollingUpdate(_) => {
            in_place::mark_moves(&mut sizes, observed, answers);
            roll(&mut sizes, observed, limits, Shrink::All);
        }
        Strategy::External { fallback, .. } => {
            in_place::mark_moves(&mut sizes, observed, answers);
            in_place::hand_over_updated(&mut sizes, observed, answers);
            in_place::release_missing(&mut sizes);
            let stuck = blocked_sets(&sizes, replicas, answers);
            match fallback {
                // Also when the new MachineSet has all its replicas: until they are available, the old machines are needed.
                Some(rolling) if !stuck.is_empty() || sizes.new.spec >= replicas => {
                    limits = rolling.resolve(replicas);
                    roll(&mut sizes, observed, limits, Shrink::All);
                }
                _ => {
                    in_place::take_back_handovers(&mut sizes, observed);
                    roll(&mut sizes, observed, limits, Shrink::MovesOnly);
                    blocked = (!stuck.is_empty()).then_some(Blocked { sets: stuck, refusals: Vec::new() });
                }
            }
        }
    }
    finish(sizes, observed, answers, Outcome { create, blocked, limits })
}

fn roll(sizes: &mut Sizes, observed: &Observed, limits: Limits, what: Shrink) {
    rolling::grow_new(sizes, observed.replicas, limits);
    rolling::shrink_old(sizes, observed.replicas, limits, what);
    in_place::hand_over_available(sizes, observed, limits);
    in_place::drop_surge(sizes, observed, limits);
    rolling::break_deadlock(sizes, &observed.machines, what);
}

/// The old MachineSets that keep the rollout from finishing in place. Once the new MachineSet has all the replicas, what
/// is left on old ones is too many and goes without being replaced.
fn blocked_sets(sizes: &Sizes, replicas: u32, answers: &InPlaceAnswers) -> Vec<BlockedSet> {
    if sizes.new.spec >= replicas {
        return Vec::new();
    }
    // What is handed over because it is updated says nothing of the machines that are left.
    let left = |set: &Member| {
        let updated = set.updated.as_ref().map_or(0, BTreeSet::len);
        set.status.saturating_sub(u32::try_from(updated).unwrap_or(u32::MAX))
    };
    let stays =
        |set: &&Member| !set.deleting && !set.externally_updated && (!set.moves || set.updated.is_some());
    let stuck = sizes.old.iter().filter(stays).filter(|set| left(set) > 0);
    let blocked = stuck.map(|set| BlockedSet {
        name: set.name.clone(),
        machines: left(set),
        why: match (set.must_replace, answers.get(&set.name)) {
            (Some(why), _) => WhyBlocked::MustReplace(why),
            (None, Some(Err(why))) => WhyBlocked::NotInPlace(why.clone()),
            (None, _) => WhyBlocked::NotInPlace(WhyNotInPlace::NotAsked),
        },
    });
    let mut blocked: Vec<BlockedSet> = blocked.collect();
    blocked.sort_by(|a, b| a.name.cmp(&b.name));
    blocked
}

struct Outcome {
    create: Option<WhyCreate>,
    blocked: Option<Blocked>,
    limits: Limits,
}

fn finish(sizes: Sizes, observed: &Observed, answers: &InPlaceAnswers, outcome: Outcome) -> Plan {
    let Outcome { create, blocked, limits } = outcome;
    let find = |name: &str| observed.sets.iter().find(|set| set.name == name);
    let givers: BTreeSet<String> =
        sizes.old.iter().filter(|set| set.moves).map(|set| set.name.clone()).collect();
    let Sizes { mut new, old } = sizes;

    let highest = old.iter().filter_map(|set| find(&set.name)).map(|set| set.revision).max().unwrap_or(0);
    let current = find(&new.name);
    let revision = current.map_or(0, |set| set.revision).max(highest + 1);
    if current.is_none_or(|set| set.revision != revision) {
        new.notes.insert(0, Note::BecameCurrent { revision });
    }

    let new_name = new.name.clone();
    let old = old.into_iter().map(|set| {
        let before = find(&set.name);
        // While paused nothing starts to be handed over, but what was agreed on stays: otherwise a MachineSet that was
        // shrunk to hand machines over would delete them.
        let moves_to = match observed.paused {
            true => before.and_then(|set| set.moves_to.clone()),
            false => set.moves.then(|| new_name.clone()),
        };
        let updated = match observed.paused {
            true => before.and_then(|set| set.updated.clone()),
            false => set.updated.clone(),
        };
        let (extensions, effect) = match answers.get(&set.name) {
            Some(Ok(verdict)) if set.moves => {
                (verdict.extensions(), Some(in_place::effect(observed.strategy, verdict)))
            }
            _ => (Vec::new(), None),
        };
        let create_disabled = observed.strategy == Strategy::OnDelete || set.externally_updated;
        SetPlan {
            moves_to,
            extensions,
            effect,
            updated,
            create_disabled,
            ..SetPlan::of(set, before.map_or(0, |set| set.spec))
        }
    });
    let old = old.collect();
    let receives_from = match observed.paused {
        true => current.map(|set| set.receives_from.clone()).unwrap_or_default(),
        false => givers,
    };
    let from = current.map_or(0, |set| set.spec);
    let new = SetPlan { receives_from, revision: Some(revision), ..SetPlan::of(new, from) };
    let skipped = observed.paused && create.is_some();
    Plan { new: (!skipped).then_some(new), create: create.filter(|_| !skipped), old, blocked, limits }
}

impl SetPlan {
    /// A MachineSet that stays as it is.
    pub(super) fn unchanged(name: &str, replicas: i32) -> Self {
        let replicas = u32::try_from(replicas).unwrap_or(0);
        Self {
            name: name.to_owned(),
            from: replicas,
            replicas,
            create_disabled: false,
            moves_to: None,
            extensions: Vec::new(),
            effect: None,
            updated: None,
            receives_from: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            revision: None,
            notes: Vec::new(),
        }
    }

    fn of(set: Member, from: u32) -> Self {
        Self {
            // One that is being deleted is not written: its size is what it was.
            replicas: if set.deleting { from } else { set.target() },
            name: set.name,
            from,
            create_disabled: false,
            moves_to: None,
            extensions: Vec::new(),
            effect: None,
            updated: set.updated,
            receives_from: BTreeSet::new(),
            acknowledged: set.acknowledged,
            revision: None,
            notes: set.notes,
        }
    }
}

/// What of a MachineDeployment says whether its rollout is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// `spec.replicas`.
    pub desired: u32,
    /// `status.replicas`.
    pub replicas: u32,
    /// `status.upToDateReplicas`.
    pub up_to_date: u32,
    /// `status.availableReplicas`.
    pub available: u32,
    /// Whether the status is of the current generation.
    pub observed: bool,
}

/// Whether all replicas are up to date and available, and no others are there.
pub fn is_complete(progress: Progress) -> bool {
    let Progress { desired, replicas, up_to_date, available, observed } = progress;
    observed && replicas == desired && up_to_date == desired && available == desired
}

/// An old MachineSet that might be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leftover {
    /// The name of the MachineSet.
    pub name: String,
    /// `spec.replicas`.
    pub spec: u32,
    /// `status.replicas`.
    pub status: u32,
    /// Whether its status is of its current generation.
    pub observed: bool,
    /// Whether it is being deleted already.
    pub deleting: bool,
}

/// The old MachineSets that are deleted after a rollout: those without machines, once all is complete. Nothing rolls
/// back to an old MachineSet by itself, so that none is kept.
pub fn finished_sets(progress: Progress, old: &[Leftover]) -> Vec<String> {
    if !is_complete(progress) {
        return Vec::new();
    }
    let empty = old.iter().filter(|set| set.spec == 0 && set.status == 0 && set.observed && !set.deleting);
    empty.map(|set| set.name.clone()).collect()
}

impl fmt::Display for Blocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rollout is blocked, strategy External has no fallbackRolling")?;
        for BlockedSet { name, machines, why } in &self.sets {
            let s = if *machines == 1 { "" } else { "s" };
            write!(f, "\n* {machines} Machine{s} of MachineSet {name} cannot be updated in place: {why}")?;
        }
        for refusal in &self.refusals {
            write!(f, "\n* {refusal}")?;
        }
        Ok(())
    }
}

impl fmt::Display for WhyBlocked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MustReplace(why) => why.fmt(f),
            Self::NotInPlace(why) => why.fmt(f),
        }
    }
}
