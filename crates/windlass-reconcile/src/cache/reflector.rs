//! Feeds a cache: lists once, then watches, and lists again only when the server has forgotten where we were.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use kube::Client;
use kube::api::{ListParams, ObjectList, WatchEvent, WatchParams};
use kube::core::{Request, Status};
use tokio::time::{Instant, sleep, sleep_until};

use super::Shared;
use crate::Kind;
use crate::clock::Clock;
use crate::faults::Faults;

/// Objects per page. The API server's own clients ask for as many.
const PAGE: u32 = 500;

/// How long to wait after a failed list or watch: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(30));

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
    /// Where it was is forgotten, or somebody wants a new list.
    Relist,
    Failed(kube::Error),
}

/// Runs until its task is aborted.
pub(crate) async fn reflect<K: Kind>(cache: Arc<Shared<K>>, feed: Feed) {
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

struct Reflector<K: Kind> {
    cache: Arc<Shared<K>>,
    feed: Feed,
}

impl<K: Kind> Reflector<K> {
    /// Lists everything, in pages that are all of one moment.
    async fn list(&self) -> Result<String, kube::Error> {
        let mut objects = Vec::new();
        let mut parameters = ListParams::default().limit(PAGE);
        loop {
            let request = self.request().list(&parameters).map_err(kube::Error::BuildRequest)?;
            let page: ObjectList<K> = match self.feed.client.request(request).await {
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
                let version = page.metadata.resource_version.unwrap_or_default();
                self.cache.replace(objects, Some(&version));
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
            self.cache.progress().connected = false;
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
        let events = match self.feed.client.request_events::<K>(request).await {
            Ok(events) => events,
            Err(error) if is_expired(&error) => return End::Relist,
            Err(error) => return End::Failed(error),
        };
        let mut events = pin!(events);
        {
            let mut progress = self.cache.progress();
            progress.connected = true;
            progress.last_error = None;
        }
        self.cache.queues.wake();
        // Events that have arrived and are held back, each with the time at which it is let through.
        let mut held: VecDeque<(Instant, WatchEvent<K>)> = VecDeque::new();
        let mut ended = false;
        loop {
            let next = held.front().map(|(due, _)| *due);
            tokio::select! {
                biased;
                () = self.feed.faults.watches_down() => {
                    self.cache.progress().held_back = 0;
                    return End::Resume;
                }
                () = self.cache.relist.notified() => {
                    self.cache.progress().held_back = 0;
                    return End::Relist;
                }
                () = until(next), if next.is_some() => {
                    let Some((_, event)) = held.pop_front() else { continue };
                    self.cache.progress().held_back = held.len();
                    if let Some(end) = self.take(event, version) {
                        return end;
                    }
                }
                event = events.next(), if !ended => match event {
                    None => ended = true,
                    Some(Err(error)) => return End::Failed(error),
                    Some(Ok(event)) => match self.feed.faults.delay() {
                        None if held.is_empty() => {
                            if let Some(end) = self.take(event, version) {
                                return end;
                            }
                        }
                        delay => {
                            // In order: no event overtakes one that is held back for longer.
                            let due = Instant::now() + delay.unwrap_or_default();
                            let due = held.back().map_or(due, |(last, _)| due.max(*last));
                            held.push_back((due, event));
                            self.cache.progress().held_back = held.len();
                            self.cache.queues.wake();
                        }
                    },
                },
            }
            if ended && held.is_empty() {
                return End::Resume;
            }
        }
    }

    fn take(&self, event: WatchEvent<K>, version: &mut String) -> Option<End> {
        let now = self.feed.clock.now();
        let of = |object: &K| object.meta().resource_version.clone().unwrap_or_default();
        match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                *version = of(&object);
                self.cache.note_event(now);
                self.cache.put(object);
            }
            WatchEvent::Deleted(object) => {
                *version = of(&object);
                self.cache.note_event(now);
                self.cache.remove(&object);
            }
            WatchEvent::Bookmark(bookmark) => {
                *version = bookmark.metadata.resource_version;
                self.cache.advance(super::parse_revision(Some(version)));
                self.cache.queues.wake();
            }
            WatchEvent::Error(status) if is_gone(&status) => return Some(End::Relist),
            WatchEvent::Error(status) => return Some(End::Failed(kube::Error::Api(status))),
        }
        None
    }

    fn failed(&self, error: &kube::Error, what: &str) {
        tracing::warn!(kind = %self.cache.kind, error = describe(error), "{what}");
        let mut progress = self.cache.progress();
        progress.connected = false;
        progress.failures += 1;
        progress.last_error = Some(describe(error));
        drop(progress);
        self.cache.attempted.notify_waiters();
        self.cache.queues.wake();
    }

    fn request(&self) -> Request {
        Request::new(K::url_path(&self.cache.dynamic, None))
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
        return status.message.clone();
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
