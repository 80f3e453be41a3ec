//! Faults on purpose: writes that fail, a process that dies, events that come late.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_random::{Generator, Randomness};

use crate::key::{GroupKind, ObjectKey};
use crate::trouble::{Layer, Layers, Trouble};

/// Injects faults into the writes and watches of a manager. Without any, it only counts writes.
///
/// Cheap to clone; all clones are one. May be given to one manager after the other: the count of writes goes on.
#[derive(Clone, Default)]
pub struct Faults {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    plan: Mutex<Plan>,
    watches_changed: Notify,
}

#[derive(Default)]
struct Plan {
    writes: u64,
    faults: BTreeMap<u64, WriteFault>,
    journal: Option<Vec<Write>>,
    delay: Option<(RangeInclusive<Duration>, Randomness)>,
    watches_down: bool,
    /// Until when the API server is away.
    away: Option<Instant>,
    layers: Layers,
}

/// What happens to a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteFault {
    /// It fails, and nothing was written.
    FailBefore,
    /// It was written, but the writer is told that it failed, as when a connection breaks before the answer.
    FailAfter,
    /// Everything stops, and nothing was written.
    CrashBefore,
    /// It was written, and everything stops.
    CrashAfter,
}

/// A write, as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    /// Its number; the first is 1.
    pub number: u64,
    /// Who wrote, if it was a controller: its name, and what it reconciled.
    pub by: Option<(String, ObjectKey)>,
    /// What it did.
    pub verb: Verb,
    /// The kind of what was written.
    pub kind: GroupKind,
    /// What was written. A created object may have been given its name by the server.
    pub key: ObjectKey,
    /// The revision that the object had afterwards: an older one if the write changed nothing, and none if the object is
    /// gone, or the write failed.
    pub revision: Option<u64>,
}

/// What a write does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Creates an object.
    Create,
    /// Applies fields of an object.
    Apply,
    /// Applies fields of the status of an object.
    ApplyStatus,
    /// Patches an object.
    Patch,
    /// Patches the status of an object.
    PatchStatus,
    /// Deletes an object.
    Delete,
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Apply => "apply",
            Self::ApplyStatus => "apply the status of",
            Self::Patch => "patch",
            Self::PatchStatus => "patch the status of",
            Self::Delete => "delete",
        })
    }
}

impl Plan {
    /// Until when the API server is away, if it is.
    fn away_until(&self) -> Option<Instant> {
        self.away.filter(|until| Instant::now() < *until)
    }
}

impl Faults {
    /// No faults, yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Does something to the write with this number. The first write is number 1; dry runs and events are not counted.
    pub fn on_write(&self, number: u64, fault: WriteFault) {
        self.plan().faults.insert(number, fault);
    }

    /// Nothing is done any more to writes that are still to come.
    pub fn forget(&self) {
        self.plan().faults.clear();
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.plan().writes
    }

    /// Keeps a journal of the writes from now on.
    pub fn keep_journal(&self) {
        self.plan().journal.get_or_insert_default();
    }

    /// The journal so far.
    pub fn journal(&self) -> Vec<Write> {
        self.plan().journal.clone().unwrap_or_default()
    }

    /// Holds back every event of every watch from now on, each for a time in this range that comes from the seed.
    /// Events stay in order.
    pub fn delay_watches(&self, range: RangeInclusive<Duration>, seed: u64) {
        self.plan().delay = Some((range, Randomness::seeded(seed)));
    }

    /// No longer holds back events.
    pub fn deliver_at_once(&self) {
        self.plan().delay = None;
    }

    /// Breaks all watches, and keeps them broken until [`Faults::connect_watches`].
    pub fn disconnect_watches(&self) {
        self.plan().watches_down = true;
        self.shared.watches_changed.notify_waiters();
    }

    /// Lets watches be opened again.
    pub fn connect_watches(&self) {
        self.plan().watches_down = false;
        self.shared.watches_changed.notify_waiters();
    }

    /// Lets a trouble strike from now on, beside those that do already.
    pub fn add_layer(&self, layer: Layer) {
        self.plan().layers.add(layer);
    }

    /// No trouble strikes any more.
    pub fn clear_layers(&self) {
        let mut plan = self.plan();
        plan.layers.clear();
        plan.away = None;
        drop(plan);
        self.shared.watches_changed.notify_waiters();
    }

    /// Says what chance decides from whether a trouble strikes.
    pub fn seed_layers(&self, seed: u64) {
        self.plan().layers.seed(seed);
    }

    /// The API server does not answer for so long, and all watches break.
    pub(crate) fn go_away(&self, time: Duration) {
        // A moment at least, or watches that look a moment later would not notice.
        self.plan().away = Some(Instant::now() + time.max(Duration::from_millis(1)));
        self.shared.watches_changed.notify_waiters();
    }

    /// Whether the API server is away.
    pub(crate) fn is_away(&self) -> bool {
        self.plan().away_until().is_some()
    }

    /// Whether a trouble strikes something now; if so, where the details of it are drawn from.
    pub fn strikes(&self, trouble: Trouble, subject: &[&str]) -> Option<Generator> {
        self.plan().layers.strikes(trouble, subject, Instant::now())
    }

    /// Counts a write, and says which one it is and what is to happen to it.
    pub(crate) fn count(&self, mut write: Write) -> (u64, Option<WriteFault>) {
        let mut plan = self.plan();
        plan.writes += 1;
        let number = plan.writes;
        write.number = number;
        let fault = plan.faults.get(&number).copied();
        if let Some(journal) = &mut plan.journal {
            journal.push(write);
        }
        (number, fault)
    }

    /// Notes what a write has led to.
    pub(crate) fn answered(&self, number: u64, revision: Option<u64>) {
        if let Some(journal) = &mut self.plan().journal
            && let Ok(at) = journal.binary_search_by_key(&number, |write| write.number)
        {
            journal[at].revision = revision;
        }
    }

    /// How long an event of this watch is held back, if all are.
    pub(crate) fn delay(&self, watch: &[&str]) -> Option<Duration> {
        let plan = self.plan();
        let (range, randomness) = plan.delay.as_ref()?;
        let owner: Vec<&str> = std::iter::once("watch").chain(watch.iter().copied()).collect();
        let mut random = randomness.generator(&owner);
        let millis = |duration: &Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        Some(Duration::from_millis(random.u64(millis(range.start())..=millis(range.end()))))
    }

    pub(crate) async fn watches_up(&self) {
        self.watches_are(false).await;
    }

    pub(crate) async fn watches_down(&self) {
        self.watches_are(true).await;
    }

    async fn watches_are(&self, down: bool) {
        loop {
            let changed = self.shared.watches_changed.notified();
            let (is_down, back) = {
                let plan = self.plan();
                (plan.watches_down || plan.away_until().is_some(), plan.away_until())
            };
            if is_down == down {
                return;
            }
            match back.filter(|_| !down) {
                // Whichever comes first: it is looked at again.
                Some(back) => {
                    let _ = tokio::time::timeout_at(back, changed).await;
                }
                None => changed.await,
            }
        }
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.shared.plan.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plan = self.plan();
        f.debug_struct("Faults")
            .field("writes", &plan.writes)
            .field("faults", &plan.faults)
            .finish_non_exhaustive()
    }
}
