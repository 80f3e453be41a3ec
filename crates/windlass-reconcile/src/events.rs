//! Kubernetes Events: what happened, for people.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event as CoreEvent, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;

use crate::key::ObjectKey;
use crate::random::mix;

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

/// How many series are remembered.
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
    waiting: Mutex<VecDeque<Event>>,
    bell: Notify,
}

/// An event that was written, and may be counted up.
struct Series {
    key: ObjectKey,
    count: i32,
    last: Timestamp,
}

/// What makes two events the same: the object, good or bad, the reason, the message.
type Same = (String, EventType, String, String);

impl Recorder {
    pub(crate) fn record(&self, event: Event) {
        let mut waiting = self.waiting();
        if waiting.len() < WAITING {
            waiting.push_back(event);
        }
        drop(waiting);
        self.bell.notify_one();
    }

    /// Writes events as they come. Failures are logged; nothing depends on events.
    pub(crate) async fn run(&self, client: &Client, seed: u64) {
        let mut series: BTreeMap<Same, Series> = BTreeMap::new();
        let mut number = 0;
        loop {
            let next = self.waiting().pop_front();
            let Some(event) = next else {
                self.bell.notified().await;
                continue;
            };
            number += 1;
            let uid = event.about.uid.clone().unwrap_or_default();
            let same = (uid, event.event, event.reason.clone(), event.message.clone());
            if !series.contains_key(&same) {
                log(&event);
            }
            if let Err(error) = write(client, &mut series, same, &event, mix(seed, &["event"], number)).await
            {
                let (kind, name) = (event.about.kind.as_deref(), event.about.name.as_deref());
                tracing::debug!(kind, name, reason = %event.reason, %error, "cannot write an event");
            }
            if series.len() > REMEMBERED {
                let oldest = event.at - SERIES;
                series.retain(|_, series| series.last > oldest);
            }
        }
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<Event>> {
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

async fn write(
    client: &Client,
    series: &mut BTreeMap<Same, Series>,
    same: Same,
    event: &Event,
    unique: u64,
) -> Result<(), kube::Error> {
    let namespace = event.about.namespace.clone().unwrap_or_else(|| "default".to_owned());
    let api: Api<CoreEvent> = Api::namespaced(client.clone(), &namespace);
    if let Some(known) = series.get_mut(&same).filter(|known| event.at <= known.last + SERIES) {
        known.count += 1;
        known.last = event.at;
        let patch = json!({"count": known.count, "lastTimestamp": Time(event.at)});
        match api.patch(&known.key.name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            result => return result.map(|_| ()),
        }
    }
    let about = event.about.name.as_deref().unwrap_or_default();
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
    series.insert(same, Series { key, count: 1, last: event.at });
    Ok(())
}
