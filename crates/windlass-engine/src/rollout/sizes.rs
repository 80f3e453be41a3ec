//! The MachineSets of a plan while it is made.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{MustReplace, Note, Observed, Roles, Set, roles::NewSet};

/// The new MachineSet and the old ones, with what the plan intends so far.
#[derive(Debug)]
pub(super) struct Sizes {
    /// The MachineSet that machines are brought to, also if it does not exist yet.
    pub(super) new: Member,
    /// The others, in the order of [`roles`](super::roles()).
    pub(super) old: Vec<Member>,
}

/// One MachineSet of a plan.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) created: Timestamp,
    pub(super) deleting: bool,
    /// What `spec.replicas` is; moved machines that arrived are added to it before anything else is decided.
    pub(super) spec: u32,
    /// How many machines there are: by its status, or by the machines seen where those are more.
    pub(super) status: u32,
    pub(super) available: u32,
    pub(super) up_to_date: u32,
    /// What `spec.replicas` is to become, if the plan changes it.
    pub(super) intent: Option<u32>,
    pub(super) must_replace: Option<MustReplace>,
    /// The machines that were handed over to it, wait to be released, and are counted in `spec`.
    pub(super) acknowledged: BTreeSet<String>,
    /// Whether the plan lets its machines be handed over to the new MachineSet.
    pub(super) moves: bool,
    /// Whether the machines that are handed over stay available while they are updated.
    pub(super) stays_available: bool,
    /// Whether an external updater updates its machines, so that it creates none from its own template.
    pub(super) externally_updated: bool,
    /// Whether its size is settled, and nothing else may change it in this plan.
    pub(super) held: bool,
    /// The only machines that are handed over, because they are updated already; any machine if there is none of this.
    pub(super) updated: Option<BTreeSet<String>>,
    pub(super) notes: Vec<Note>,
}

impl Sizes {
    pub(super) fn new(observed: &Observed, roles: &Roles) -> Self {
        let find = |name: &str| observed.sets.iter().find(|set| set.name == name);
        let new = match &roles.new {
            NewSet::Existing(name) => find(name).map(|set| Member::new(set, observed)),
            NewSet::Missing(_) => None,
        };
        let old = roles.old.iter().filter_map(|old| {
            let member = find(&old.name).map(|set| Member::new(set, observed))?;
            Some(Member { must_replace: old.must_replace, ..member })
        });
        Self { new: new.unwrap_or_else(|| Member::fresh(observed)), old: old.collect() }
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Member> {
        std::iter::once(&self.new).chain(&self.old)
    }

    pub(super) fn all_mut(&mut self) -> impl Iterator<Item = &mut Member> {
        std::iter::once(&mut self.new).chain(&mut self.old)
    }

    pub(super) fn sum(&self, value: impl Fn(&Member) -> u32) -> u32 {
        self.all().map(value).fold(0, u32::saturating_add)
    }

    pub(super) fn sum_old(&self, value: impl Fn(&Member) -> u32) -> u32 {
        self.old.iter().map(value).fold(0, u32::saturating_add)
    }

    /// Oldest first: the order in which old MachineSets shrink.
    pub(super) fn sort_old_by_age(&mut self) {
        self.old.sort_by(|a, b| a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name)));
    }
}

impl Member {
    fn new(set: &Set, observed: &Observed) -> Self {
        // The two caches are filled by different watches: while a machine is handed over, its old MachineSet may already
        // not count it and its new one not yet. Who looks at the machines too never misses one.
        let seen = observed.machines.iter().filter(|machine| machine.set.as_ref() == Some(&set.name)).count();
        let seen = u32::try_from(seen).unwrap_or(u32::MAX);
        Self {
            name: set.name.clone(),
            created: set.created,
            deleting: set.deleting,
            // A MachineSet that is being deleted takes all its machines along, whatever its spec says.
            spec: if set.deleting { 0 } else { set.spec },
            status: set.status.max(seen),
            available: if set.deleting { 0 } else { set.available },
            up_to_date: set.up_to_date,
            ..Self::fresh(observed)
        }
    }

    fn fresh(observed: &Observed) -> Self {
        Self {
            name: observed.fresh_name.clone(),
            created: observed.now,
            deleting: false,
            spec: 0,
            status: 0,
            available: 0,
            up_to_date: 0,
            intent: None,
            must_replace: None,
            acknowledged: BTreeSet::new(),
            moves: false,
            stays_available: false,
            externally_updated: false,
            held: false,
            updated: None,
            notes: Vec::new(),
        }
    }

    /// The size that it has after the plan.
    pub(super) fn target(&self) -> u32 {
        self.intent.unwrap_or(self.spec)
    }

    pub(super) fn resize(&mut self, to: u32, note: Note) {
        self.intent = Some(to);
        self.notes.push(note);
    }
}
