//! What happens while time passes, as a user would be told: versions, machines, hooks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use windlass_api::cluster::Machine;
use windlass_api::names::{CLUSTER_NAME_LABEL, UPDATE_IN_PROGRESS_ANNOTATION};

use crate::chronicle::{Chronicle, Fact};
use crate::extension::HookRecord;
use crate::recorder::{Observer, Written};

/// Something that happened.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Happening {
    /// When, in seconds after the beginning of the story.
    pub at_seconds: u64,
    /// What.
    pub what: String,
    /// How often in a row, and when it happened last, if it was more than once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Repeated>,
}

/// The same thing again and again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Repeated {
    /// How often.
    pub times: u32,
    /// When it happened last, in seconds after the beginning of the story.
    pub last_seconds: u64,
}

impl Happening {
    fn once(at_seconds: u64, what: String) -> Self {
        Self { at_seconds, what, repeated: None }
    }

    /// Takes in another one, if it is the same again.
    fn absorb(&mut self, other: &Self) -> bool {
        let is_same = self.what == other.what;
        if is_same {
            let times = self.repeated.map_or(1, |repeated| repeated.times) + 1;
            self.repeated = Some(Repeated { times, last_seconds: other.at_seconds });
        }
        is_same
    }
}

/// A machine that takes longer than this to go is told of twice: when it is deleted, and when it is gone.
const LEAVES_WITHIN: u64 = 10;

/// Follows a world. Cheap to clone; all clones are one. The rules of a [`Chronicle`] hold in every story.
#[derive(Clone)]
pub(super) struct Witness {
    chronicle: Chronicle,
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    begun: Timestamp,
    machines: BTreeMap<String, Seen>,
    /// Parts of clusters that are on their way from one version to another.
    moving: BTreeSet<(String, Option<String>)>,
    /// With the revision of the store that each belongs to.
    happenings: Vec<(u64, Happening)>,
}

/// A machine as it was last seen.
#[derive(Clone, Default, PartialEq, Eq)]
struct Seen {
    version: String,
    is_updating: bool,
    is_unhealthy: bool,
    deleted_at: Option<u64>,
}

impl Witness {
    pub(super) fn new(begun: Timestamp) -> Self {
        let inner =
            Inner { begun, machines: BTreeMap::new(), moving: BTreeSet::new(), happenings: Vec::new() };
        Self { chronicle: Chronicle::of_any_change(), inner: Arc::new(Mutex::new(inner)) }
    }

    /// What happened since the last time, with these calls of hooks in between.
    pub(super) fn take(&self, calls: &[HookRecord]) -> Vec<Happening> {
        let mut all: Vec<(u64, bool, Happening)> = std::mem::take(&mut self.lock().happenings)
            .into_iter()
            .map(|(revision, happening)| (revision, false, happening))
            .collect();
        // A call that was made at a revision came after the write of that revision.
        all.extend(calls.iter().map(|call| {
            let what = format!("hook {call}: {}", answer(call));
            (call.revision, true, Happening::once(call.at_seconds, what))
        }));
        all.sort_by_key(|(revision, is_call, _)| (*revision, *is_call));
        let mut told: Vec<Happening> = Vec::new();
        for (_, _, happening) in all {
            if !told.last_mut().is_some_and(|last| last.absorb(&happening)) {
                told.push(happening);
            }
        }
        told
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a hook answered, in a few words.
pub fn answer(call: &HookRecord) -> String {
    match (call.status, call.retry_after_seconds) {
        ("Success", 0) => "success".to_owned(),
        ("Success", seconds) => format!("asks to wait {seconds} s"),
        ("Failure", _) => "failure".to_owned(),
        _ => "no answer".to_owned(),
    }
}

impl Observer for Witness {
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String> {
        if let Some(machine) = written.object::<Machine>() {
            self.lock().machine(&machine, written);
        }
        let outcome = self.chronicle.observe(written);
        let facts = self.chronicle.take_facts();
        let mut inner = self.lock();
        for (cluster, Fact { part, from, to }) in facts {
            let key = (cluster.clone(), part.clone());
            // What is new has its version from the beginning.
            match from {
                Some(_) => drop(inner.moving.insert(key)),
                None if !inner.moving.remove(&key) => continue,
                None => {}
            }
            let part = match part {
                None => "control plane".to_owned(),
                Some(group) => format!("workers {group}"),
            };
            inner.tell(
                written,
                match from {
                    Some(from) => format!("{cluster}: {part} {from} -> {to}"),
                    None => format!("{cluster}: {part} at {to}"),
                },
            );
        }
        outcome
    }
}

impl Inner {
    fn seconds(&self, written: &Written<'_>) -> u64 {
        u64::try_from(written.at.duration_since(self.begun).as_secs()).unwrap_or_default()
    }

    fn tell(&mut self, written: &Written<'_>, what: String) {
        let happening = Happening::once(self.seconds(written), what);
        self.happenings.push((written.revision(), happening));
    }

    fn machine(&mut self, machine: &Machine, written: &Written<'_>) {
        let name = machine.name_any();
        let cluster = machine.labels().get(CLUSTER_NAME_LABEL).cloned().unwrap_or_default();
        if written.is_deletion() {
            let deleted_at = self.machines.remove(&name).and_then(|seen| seen.deleted_at);
            let took = deleted_at.map(|at| self.seconds(written).saturating_sub(at));
            if took.is_none_or(|took| took > LEAVES_WITHIN) {
                self.tell(written, format!("{cluster}: machine {name} is gone"));
            }
            return;
        }
        let is = |type_: &str, status: &str| {
            machine.status.conditions.iter().any(|found| found.type_ == type_ && found.status == status)
        };
        let now = Seen {
            version: machine.spec.version.clone(),
            is_updating: machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION),
            is_unhealthy: is("HealthCheckSucceeded", "False"),
            deleted_at: match (&machine.metadata.deletion_timestamp, self.machines.get(&name)) {
                (None, _) => None,
                (Some(_), Some(Seen { deleted_at: Some(at), .. })) => Some(*at),
                (Some(_), _) => Some(self.seconds(written)),
            },
        };
        let version = now.version.clone();
        let mut lines = Vec::new();
        match self.machines.insert(name.clone(), now.clone()) {
            None => lines.push(format!("machine {name} is created at {version}")),
            Some(before) => {
                if now.is_updating && !before.is_updating {
                    lines.push(format!("machine {name} is updated in place"));
                }
                if before.is_updating && !now.is_updating {
                    lines.push(format!("machine {name} was updated in place, and is at {version}"));
                } else if before.version != version && !now.is_updating {
                    lines.push(format!("machine {name} {} -> {version}", before.version));
                }
                if now.is_unhealthy && !before.is_unhealthy {
                    lines.push(format!("machine {name} is unhealthy"));
                }
                if now.deleted_at.is_some() && before.deleted_at.is_none() {
                    lines.push(format!("machine {name} is deleted"));
                }
            }
        }
        for line in lines {
            self.tell(written, format!("{cluster}: {line}"));
        }
    }
}
