//! Feeds a cache: lists once, then watches, and lists again only when the server has forgotten where we were.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ListMeta;
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_api::identity::Incomplete;
use windlass_clock::Clock;

use super::WatchState;
use crate::faults::Faults;
use crate::trouble::{Trouble, up_to};

/// Objects per page. The API server's own clients ask for as many.
const PAGE: u32 = 500;

/// How long to wait after a failed list or watch: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

/// How old a stale list is, at most.
const STALE: Duration = Duration::from_secs(5);

/// How long an event that comes late is held back, at most.
const LATE: Duration = Duration::from_secs(3);

/// What a reflector needs besides its cache.
#[derive(Clone)]
pub(crate) struct Feed {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
}

/// Why a watch ended.
enum End {
    /// It may go on from where it was.
    Resume,
    /// Where it was is forgotten, or a new list is wanted.
    Relist,
    Failed(kube::Error),
}

/// An object as it came: the cache decodes it. Lists and watches are the same for all kinds then, and are compiled once.
#[derive(Clone, Deserialize)]
pub(crate) struct Undecoded(Box<RawValue>);

impl Undecoded {
    /// The object.
    pub(crate) fn decode<K: serde::de::DeserializeOwned>(&self) -> Result<K, serde_json::Error> {
        serde_json::from_str(self.0.get())
    }
}

/// A list of objects as it came.
#[derive(Deserialize)]
struct Page {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Undecoded>,
}

/// What a reflector feeds: a cache of any kind.
pub(crate) trait Fed: Send + Sync {
    /// What is known of the watch.
    fn watch_state(&self) -> &WatchState;
    /// Takes a list in. Nothing is taken if one object cannot be decoded.
    fn replace(&self, objects: &[Undecoded], version: &str) -> Result<(), serde_json::Error>;
    /// Takes an object in that was added or modified, and returns its resource version.
    fn put(&self, object: &Undecoded) -> Result<String, serde_json::Error>;
    /// Removes an object that was deleted, and returns its last resource version.
    fn remove(&self, object: &Undecoded) -> Result<String, serde_json::Error>;
}

/// Feeds a cache until the task is aborted.
pub(crate) fn start(cache: Arc<dyn Fed>, feed: Feed) -> AbortHandle {
    tokio::spawn(reflect(cache, feed)).abort_handle()
}

async fn reflect(cache: Arc<dyn Fed>, feed: Feed) {
    let reflector = Reflector { cache, feed };
    let mut wait = RETRY.0;
    loop {
        reflector.feed.faults.watches_up().await;
        match reflector.list().await {
            Ok(version) => {
                wait = RETRY.0;
                reflector.follow(version).await;
            }
            Err(error) => {
                reflector.failed(&error, "cannot list");
                sleep(wait).await;
                wait = (wait * 2).min(RETRY.1);
            }
        }
    }
}

struct Reflector {
    cache: Arc<dyn Fed>,
    feed: Feed,
}

impl Reflector {
    fn state(&self) -> &WatchState {
        self.cache.watch_state()
    }

    /// Lists everything, in pages that are all of one moment.
    async fn list(&self) -> Result<String, kube::Error> {
        let mut objects = Vec::new();
        let mut parameters = ListParams::default().limit(PAGE);
        self.state().progress().is_listing = true;
        loop {
            let request = self.request().list(&parameters).map_err(kube::Error::BuildRequest)?;
            let page: Page = match self.feed.client.request(request).await {
                Err(error) if is_expired(&error) && parameters.continue_token.is_some() => {
                    // The moment of the first page is forgotten already: take another.
                    objects.clear();
                    parameters.continue_token = None;
                    continue;
                }
                page => page?,
            };
            objects.extend(page.items);
            parameters.continue_token = page.metadata.continue_.filter(|token| !token.is_empty());
            if parameters.continue_token.is_none() {
                let version = page.metadata.resource_version.filter(|version| !version.is_empty());
                let version = version.ok_or_else(|| {
                    let kind = format!("{}List", self.state().kind.kind);
                    let object = "of all".to_owned();
                    let field = "metadata.resourceVersion";
                    kube::Error::Service(Box::new(Incomplete { kind, object, field }))
                })?;
                if let Some(mut random) = self.strikes(Trouble::StaleLists) {
                    sleep(up_to(&mut random, STALE)).await;
                }
                self.cache.replace(&objects, &version).map_err(kube::Error::SerdeError)?;
                return Ok(version);
            }
        }
    }

    /// Watches from a version on, until that is no longer possible.
    async fn follow(&self, mut version: String) {
        let mut wait = RETRY.0;
        loop {
            let from = version.clone();
            let end = self.watch(&mut version).await;
            self.state().progress().connected = false;
            match end {
                End::Resume => wait = RETRY.0,
                End::Relist => return,
                End::Failed(error) => {
                    self.failed(&error, "the watch failed");
                    if version != from {
                        wait = RETRY.0;
                    }
                    sleep(wait).await;
                    wait = (wait * 2).min(RETRY.1);
                }
            }
            self.feed.faults.watches_up().await;
        }
    }

    /// One watch. `version` says up to where events were taken in.
    async fn watch(&self, version: &mut String) -> End {
        let request = match self.request().watch(&WatchParams::default(), version) {
            Ok(request) => request,
            Err(error) => return End::Failed(kube::Error::BuildRequest(error)),
        };
        let events = match self.feed.client.request_events::<Undecoded>(request).await {
            Ok(events) => events,
            Err(error) if is_expired(&error) => return End::Relist,
            Err(error) => return End::Failed(error),
        };
        let mut events = pin!(events);
        {
            let mut progress = self.state().progress();
            progress.connected = true;
            progress.last_error = None;
        }
        self.state().queues.wake();
        // Events that have arrived and are held back, each with the time at which it is let through.
        let mut held: VecDeque<(Instant, WatchEvent<Undecoded>)> = VecDeque::new();
        let mut ended = false;
        loop {
            let next = held.front().map(|(due, _)| *due);
            tokio::select! {
                biased;
                () = self.feed.faults.watches_down() => {
                    self.state().progress().held_back = 0;
                    return End::Resume;
                }
                () = self.state().relist.notified() => {
                    self.state().progress().held_back = 0;
                    return End::Relist;
                }
                () = until(next), if next.is_some() => {
                    let Some((_, event)) = held.pop_front() else { continue };
                    self.state().progress().held_back = held.len();
                    if let Some(end) = self.take(event, version) {
                        return end;
                    }
                }
                event = events.next(), if !ended => match event {
                    None => ended = true,
                    Some(Err(error)) => return End::Failed(error),
                    Some(Ok(_)) if self.strikes(Trouble::LostEvents).is_some() => {
                        self.state().progress().held_back = 0;
                        return End::Relist;
                    }
                    Some(Ok(event)) => match self.delay() {
                        None if held.is_empty() => {
                            let again = self.strikes(Trouble::RepeatedEvents).map(|_| event.clone());
                            for event in [Some(event), again].into_iter().flatten() {
                                if let Some(end) = self.take(event, version) {
                                    return end;
                                }
                            }
                        }
                        delay => {
                            // In order: no event overtakes one that is held back for longer.
                            let due = Instant::now() + delay.unwrap_or_default();
                            let due = held.back().map_or(due, |(last, _)| due.max(*last));
                            held.push_back((due, event));
                            self.state().progress().held_back = held.len();
                            self.state().queues.wake();
                        }
                    },
                },
            }
            if ended && held.is_empty() {
                return End::Resume;
            }
        }
    }

    fn take(&self, event: WatchEvent<Undecoded>, version: &mut String) -> Option<End> {
        let taken = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => self.cache.put(&object),
            WatchEvent::Deleted(object) => self.cache.remove(&object),
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                self.state().advance(super::parse_revision(Some(version)));
                self.state().queues.wake();
                return None;
            }
            WatchEvent::Error(status) if is_gone(&status) => return Some(End::Relist),
            WatchEvent::Error(status) => return Some(End::Failed(kube::Error::Api(status))),
        };
        match taken {
            Ok(taken) => {
                // An object that does not say its version leaves the watch where it was.
                if !taken.is_empty() {
                    *version = taken;
                }
                self.state().note_event(self.feed.clock.now());
                None
            }
            Err(error) => Some(End::Failed(kube::Error::SerdeError(error))),
        }
    }

    /// Each cache has draws of its own, also where two are of one kind: which of them asks first is up to the scheduler.
    fn strikes(&self, trouble: Trouble) -> Option<windlass_random::Generator> {
        let state = self.state();
        self.feed.faults.strikes(trouble, &[&state.kind.to_string(), state.reader])
    }

    /// How long an event is held back.
    fn delay(&self) -> Option<Duration> {
        let late = self.strikes(Trouble::LateEvents).map(|mut random| up_to(&mut random, LATE));
        let state = self.state();
        late.or_else(|| self.feed.faults.delay(&[&state.kind.to_string(), state.reader]))
    }

    fn failed(&self, error: &kube::Error, what: &str) {
        tracing::warn!(kind = %self.state().kind, error = describe(error), "{what}");
        let mut progress = self.state().progress();
        progress.connected = false;
        progress.is_listing = false;
        progress.failures += 1;
        progress.last_error = Some(describe(error));
        drop(progress);
        self.state().attempted.notify_waiters();
        self.state().queues.wake();
    }

    fn request(&self) -> Request {
        Request::new(self.state().path.clone())
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

fn is_gone(status: &Status) -> bool {
    status.code == 410 || status.reason == "Expired" || status.reason == "Gone"
}

fn is_expired(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if is_gone(status))
}

/// What the server said, without the structure around it; or why it could not be asked, down to the cause.
pub(crate) fn describe(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        // A proxy in between may answer with anything. An empty message would say that there is no problem.
        return match (status.message.trim(), status.reason.as_str(), status.code) {
            ("", "", 0) => "an error without a message".to_owned(),
            ("", "", code) => format!("status {code} without a message"),
            ("", reason, _) => reason.to_owned(),
            (message, _, _) => message.to_owned(),
        };
    }
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}
