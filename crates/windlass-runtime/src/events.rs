//! Kubernetes Events: what happened, for people.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;
use windlass_random::Randomness;

use crate::key::ObjectKey;

/// Whether an event is good news.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// Something was done.
    Normal,
    /// Something is wrong.
    Warning,
}

impl EventType {
    fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// How long a repeated event is counted up instead of being written anew, as Kubernetes' own recorder does it.
const SERIES: Duration = Duration::from_secs(600);

/// How many events may wait to be written. More than these say the same thing over and over.
const WAITING: usize = 1000;

/// How many series are remembered: those that were counted up last.
const REMEMBERED: usize = 4096;

#[derive(Debug, Clone)]
pub(crate) struct Event {
    pub(crate) about: ObjectReference,
    pub(crate) event: EventType,
    pub(crate) reason: String,
    pub(crate) message: String,
    pub(crate) component: String,
    pub(crate) at: Timestamp,
}

/// Takes events, and writes them when it is run.
#[derive(Default)]
pub(crate) struct Recorder {
    waiting: Mutex<Waiting>,
    bell: Notify,
}

/// The events that wait to be written, and what became of those for which there was no room.
#[derive(Default)]
struct Waiting {
    events: VecDeque<Event>,
    dropped: u64,
    /// How many had been dropped when there was room for the last time.
    dropped_before: u64,
}

impl Waiting {
    /// Takes an event in, if there is room. Whether it is the first one for which there is none.
    fn push(&mut self, event: Event) -> bool {
        if self.events.len() < WAITING {
            self.events.push_back(event);
            return false;
        }
        self.dropped += 1;
        self.dropped == self.dropped_before + 1
    }

    /// The next event, or how many were dropped since this was asked last with none waiting.
    fn pop(&mut self) -> Result<Event, u64> {
        self.events.pop_front().ok_or_else(|| {
            let dropped = self.dropped - self.dropped_before;
            self.dropped_before = self.dropped;
            dropped
        })
    }
}

/// An event that was written, and may be counted up.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Series {
    key: ObjectKey,
    count: i32,
    last: Timestamp,
}

/// The series that were counted up last, so many of them.
struct Remembered {
    room: usize,
    turn: u64,
    series: BTreeMap<Arc<Same>, (u64, Series)>,
    by_turn: BTreeMap<u64, Arc<Same>>,
}

impl Remembered {
    fn new(room: usize) -> Self {
        Self { room, turn: 0, series: BTreeMap::new(), by_turn: BTreeMap::new() }
    }

    fn get(&self, same: &Same) -> Option<&Series> {
        self.series.get(same).map(|(_, series)| series)
    }

    /// Puts a series before all others, and forgets the last one if there is no room.
    fn put(&mut self, same: Same, series: Series) {
        let same = Arc::new(same);
        self.turn += 1;
        if let Some((before, _)) = self.series.insert(Arc::clone(&same), (self.turn, series)) {
            self.by_turn.remove(&before);
        }
        self.by_turn.insert(self.turn, same);
        while self.series.len() > self.room
            && let Some((_, oldest)) = self.by_turn.pop_first()
        {
            self.series.remove(&oldest);
        }
    }
}

/// What makes two events the same: the object, good or bad, the reason, the message.
type Same = (String, EventType, String, String);

impl Recorder {
    pub(crate) fn record(&self, event: Event) {
        if self.waiting().push(event) {
            tracing::warn!(waiting = WAITING, "too many Events wait to be written: further ones are dropped");
        }
        self.bell.notify_one();
    }

    /// How many events were dropped, because too many waited to be written.
    pub(crate) fn dropped(&self) -> u64 {
        self.waiting().dropped
    }

    /// Writes events as they come. Failures are logged; nothing depends on events.
    pub(crate) async fn run(&self, client: &Client, randomness: &Randomness) {
        let mut remembered = Remembered::new(REMEMBERED);
        loop {
            let next = self.waiting().pop();
            let event = match next {
                Ok(event) => event,
                Err(dropped) => {
                    if dropped > 0 {
                        tracing::warn!(
                            dropped,
                            "all Events that waited are written, but for those that were dropped"
                        );
                    }
                    self.bell.notified().await;
                    continue;
                }
            };
            let uid = event.about.uid.clone().unwrap_or_default();
            let same = (uid, event.event, event.reason.clone(), event.message.clone());
            let known = remembered.get(&same).filter(|known| event.at <= known.last + SERIES).cloned();
            if known.is_none() {
                log(&event);
            }
            match write(client, known, &event, randomness).await {
                Ok(series) => remembered.put(same, series),
                Err(error) => {
                    let (kind, name) = (event.about.kind.as_deref(), event.about.name.as_deref());
                    tracing::debug!(kind, name, reason = %event.reason, %error, "cannot write an event");
                }
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What happens is in the log too, once.
fn log(event: &Event) {
    let Event { about, reason, message, component: controller, .. } = event;
    let (kind, name) = (about.kind.as_deref(), about.name.as_deref());
    let namespace = about.namespace.as_deref();
    match event.event {
        EventType::Normal => tracing::info!(controller, kind, namespace, name, reason, "{message}"),
        EventType::Warning => tracing::warn!(controller, kind, namespace, name, reason, "{message}"),
    }
}

/// Counts up an event that is known, or writes it anew.
async fn write(
    client: &Client,
    known: Option<Series>,
    event: &Event,
    randomness: &Randomness,
) -> Result<Series, kube::Error> {
    let namespace = event.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let api: Api<CoreEvent> = Api::namespaced(client.clone(), &namespace);
    if let Some(known) = known {
        let series = Series { count: known.count + 1, last: event.at, key: known.key };
        let patch = json!({"count": series.count, "lastTimestamp": Time(event.at)});
        match api.patch(&series.key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => return result.map(|_| series),
        }
    }
    let about = event.about.name.as_deref().unwrap_or_default();
    let kind = event.about.kind.as_deref().unwrap_or_default();
    let unique = randomness.generator(&["event", kind, &namespace, about]).u64(..);
    let object = CoreEvent {
        metadata: ObjectMeta {
            name: Some(format!("{about}.{unique:016x}")),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: event.about.clone(),
        type_: Some(event.event.as_str().to_owned()),
        reason: Some(event.reason.clone()),
        message: Some(event.message.clone()),
        count: Some(1),
        first_timestamp: Some(Time(event.at)),
        last_timestamp: Some(Time(event.at)),
        source: Some(EventSource { component: Some(event.component.clone()), host: None }),
        reporting_component: Some(event.component.clone()),
        ..CoreEvent::default()
    };
    let written = api.create(&PostParams::default(), &object).await?;
    let key = ObjectKey::new(namespace, written.name_any());
    Ok(Series { key, count: 1, last: event.at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_without_room_are_counted_and_told_of_once() {
        let event = || Event {
            about: ObjectReference::default(),
            event: EventType::Normal,
            reason: "R".to_owned(),
            message: String::new(),
            component: "c".to_owned(),
            at: Timestamp::UNIX_EPOCH,
        };
        let mut waiting = Waiting::default();
        for _ in 0..2 {
            let told: Vec<bool> = (0..WAITING + 3).map(|_| waiting.push(event())).collect();
            assert_eq!(told.iter().filter(|told| **told).count(), 1);
            assert!(told[WAITING], "the first for which there is no room");
            let written = std::iter::from_fn(|| waiting.pop().ok()).count();
            assert_eq!(written, WAITING);
        }
        assert_eq!(waiting.dropped, 6);
    }

    #[test]
    fn those_that_were_counted_up_last_are_remembered() {
        let same = |name: &str| (name.to_owned(), EventType::Normal, String::new(), String::new());
        let series = |count| Series { key: ObjectKey::new("n", "e"), count, last: Timestamp::UNIX_EPOCH };
        let mut remembered = Remembered::new(2);
        for (name, count) in [("a", 1), ("b", 1), ("a", 2), ("c", 1)] {
            remembered.put(same(name), series(count));
        }
        let known = ["a", "b", "c"].map(|name| remembered.get(&same(name)).cloned());
        assert_eq!(known, [Some(series(2)), None, Some(series(1))]);
        assert_eq!((remembered.series.len(), remembered.by_turn.len()), (2, 2));
    }
}
