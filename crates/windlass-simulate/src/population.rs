//! The machines of a MachineDeployment, counted after every write.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::ResourceExt;
use serde::Serialize;
use windlass_api::cluster::{Machine, MachineSet};
use windlass_api::names::{
    MACHINE_DEPLOYMENT_NAME_LABEL, MACHINE_SET_NAME_LABEL, UPDATE_IN_PROGRESS_ANNOTATION,
};

use crate::recorder::{Observer, Written};

/// Counts the machines of one MachineDeployment. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Population {
    inner: Arc<Mutex<Inner>>,
}

#[derive(Debug)]
struct Inner {
    deployment: String,
    machines: BTreeMap<String, Member>,
    steps: Vec<Step>,
    counts: Counts,
    bounds: Bounds,
    began: Timestamp,
    /// Checked after every write, if set.
    limits: Option<Limits>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Member {
    set: String,
    available: bool,
    deleting: bool,
    updating: bool,
}

/// How many machines there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Counts {
    /// All of them, those being deleted included.
    pub machines: usize,
    /// Those that are available and not being deleted.
    pub available: usize,
    /// Those being deleted.
    pub deleting: usize,
}

/// What was seen over the time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Bounds {
    /// How many were created.
    pub created: usize,
    /// How many are gone.
    pub deleted: usize,
    /// How many were updated in place, to the end.
    pub updated_in_place: usize,
    /// The most there were at a time.
    pub max_machines: usize,
    /// The fewest that were available at a time.
    pub min_available: usize,
}

/// What must hold at every moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// No more machines than these.
    pub max_machines: usize,
    /// No fewer available machines than these.
    pub min_available: usize,
}

/// Something that happened to a machine.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// Its number; the first is 1.
    pub step: usize,
    /// When, in seconds after the beginning.
    pub seconds: f64,
    /// What.
    pub event: StepEvent,
    /// To which machine.
    pub machine: String,
    /// Which MachineSet the machine belongs to.
    pub machine_set: String,
    /// How many machines there are then.
    #[serde(flatten)]
    pub counts: Counts,
}

/// What may happen to a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum StepEvent {
    /// It was created.
    Created,
    /// It became available.
    Available,
    /// It is no longer available.
    Unavailable,
    /// Its update in place began.
    UpdateStarted,
    /// Its update in place is done.
    UpdateDone,
    /// It is to be deleted.
    Deleting,
    /// It is gone.
    Deleted,
}

impl fmt::Display for StepEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Available => "available",
            Self::Unavailable => "unavailable",
            Self::UpdateStarted => "update started",
            Self::UpdateDone => "updated",
            Self::Deleting => "deleting",
            Self::Deleted => "deleted",
        })
    }
}

impl Population {
    /// Counts the machines of a MachineDeployment of this name.
    pub fn of(deployment: &str) -> Self {
        let inner = Inner {
            deployment: deployment.to_owned(),
            machines: BTreeMap::new(),
            steps: Vec::new(),
            counts: Counts::default(),
            bounds: Bounds::default(),
            began: Timestamp::UNIX_EPOCH,
            limits: None,
        };
        Self { inner: Arc::new(Mutex::new(inner)) }
    }

    /// Forgets what was seen so far, but not the machines, and counts seconds from now on.
    pub fn begin(&self, now: Timestamp) {
        let mut inner = self.inner();
        inner.began = now;
        let counts = inner.counts;
        inner.steps.clear();
        inner.bounds =
            Bounds { max_machines: counts.machines, min_available: counts.available, ..Bounds::default() };
    }

    /// What must hold from now on.
    pub fn limit(&self, limits: Option<Limits>) {
        self.inner().limits = limits;
    }

    /// How many machines there are.
    pub fn counts(&self) -> Counts {
        self.inner().counts
    }

    /// What was seen.
    pub fn bounds(&self) -> Bounds {
        self.inner().bounds
    }

    /// What happened, one thing after the other.
    pub fn steps(&self) -> Vec<Step> {
        self.inner().steps.clone()
    }

    /// How many things happened.
    pub fn step_count(&self) -> usize {
        self.inner().steps.len()
    }

    /// The steps after the first `from`.
    pub fn steps_from(&self, from: usize) -> Vec<Step> {
        self.inner().steps.get(from..).unwrap_or_default().to_vec()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Population {
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String> {
        let Some(machine) = written.object::<Machine>() else { return Ok(()) };
        self.inner().take(written, &machine)
    }
}

impl Inner {
    fn take(&mut self, written: &Written<'_>, machine: &Machine) -> Result<(), String> {
        let labels = machine.labels();
        if labels.get(MACHINE_DEPLOYMENT_NAME_LABEL) != Some(&self.deployment) {
            return Ok(());
        }
        let name = machine.name_any();
        let before = self.machines.get(&name).cloned();
        let after = (!written.is_deletion()).then(|| Member {
            set: set_of(machine),
            available: is_true(machine, "Available"),
            deleting: machine.metadata.deletion_timestamp.is_some(),
            updating: machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION),
        });
        match &after {
            Some(member) => drop(self.machines.insert(name.clone(), member.clone())),
            None => drop(self.machines.remove(&name)),
        }
        self.count(before.as_ref(), after.as_ref());
        for event in events(before.as_ref(), after.as_ref()) {
            self.happened(event, written.at, &name, after.as_ref().or(before.as_ref()));
        }
        self.check()
    }

    /// Counts from scratch would cost a thousand times more in a large deployment.
    fn count(&mut self, before: Option<&Member>, after: Option<&Member>) {
        let counts = &mut self.counts;
        let is_available = |member: &&Member| member.available && !member.deleting;
        counts.machines = self.machines.len();
        counts.available += usize::from(after.filter(is_available).is_some());
        counts.available -= usize::from(before.filter(is_available).is_some());
        counts.deleting += usize::from(after.is_some_and(|member| member.deleting));
        counts.deleting -= usize::from(before.is_some_and(|member| member.deleting));
        self.bounds.max_machines = self.bounds.max_machines.max(counts.machines);
        self.bounds.min_available = self.bounds.min_available.min(counts.available);
    }

    fn happened(&mut self, event: StepEvent, at: Timestamp, machine: &str, member: Option<&Member>) {
        match event {
            StepEvent::Created => self.bounds.created += 1,
            StepEvent::Deleted => self.bounds.deleted += 1,
            StepEvent::UpdateDone => self.bounds.updated_in_place += 1,
            _ => {}
        }
        self.steps.push(Step {
            step: self.steps.len() + 1,
            seconds: seconds_between(self.began, at),
            event,
            machine: machine.to_owned(),
            machine_set: member.map(|member| member.set.clone()).unwrap_or_default(),
            counts: self.counts,
        });
    }

    fn check(&self) -> Result<(), String> {
        let Some(limits) = self.limits else { return Ok(()) };
        let Counts { machines, available, .. } = self.counts;
        if machines > limits.max_machines {
            return Err(format!("{machines} machines, more than {}", limits.max_machines));
        }
        if available < limits.min_available {
            return Err(format!("{available} machines are available, fewer than {}", limits.min_available));
        }
        Ok(())
    }
}

/// Seconds to the millisecond, which is as exact as virtual time is.
pub(crate) fn seconds_between(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_millis() as f64 / 1000.0
}

fn set_of(machine: &Machine) -> String {
    let owner = machine.owner_references().iter().find(|owner| owner.kind == MachineSet::KIND);
    let label = || machine.labels().get(MACHINE_SET_NAME_LABEL).cloned();
    owner.map(|owner| owner.name.clone()).or_else(label).unwrap_or_default()
}

fn is_true(machine: &Machine, condition: &str) -> bool {
    machine.status.conditions.iter().any(|has| has.type_ == condition && has.status == "True")
}

fn events(before: Option<&Member>, after: Option<&Member>) -> Vec<StepEvent> {
    let was = |of: fn(&Member) -> bool| before.is_some_and(of);
    let is = |of: fn(&Member) -> bool| after.is_some_and(of);
    let began = |of: fn(&Member) -> bool| !was(of) && is(of);
    let ended = |of: fn(&Member) -> bool| was(of) && !is(of) && after.is_some();
    let table = [
        (StepEvent::Created, before.is_none() && after.is_some()),
        (StepEvent::UpdateStarted, began(|member| member.updating)),
        (StepEvent::Deleting, began(|member| member.deleting)),
        (StepEvent::Unavailable, ended(|member| member.available) && !is(|member| member.deleting)),
        (StepEvent::UpdateDone, ended(|member| member.updating)),
        (StepEvent::Available, began(|member| member.available)),
        (StepEvent::Deleted, after.is_none()),
    ];
    table.into_iter().filter(|(_, happened)| *happened).map(|(event, _)| event).collect()
}
