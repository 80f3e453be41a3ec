//! Watches: what is there, then every change of it, as long as the client listens.

mod frame;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use tokio::time::{Instant, sleep_until};
use windlass_store::{WatchError, Watcher};

use crate::api::{Failure, View};
use crate::budget::WatchSlot;
use crate::listing::Listing;
use crate::response::Reply;
use crate::selection::Selection;
use crate::table::Include;
use crate::verbs::{Call, elsewhere};
use frame::Frames;

/// How often a quiet watch says how far it is.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);

/// How long before its end a watch says how far it is, so that the next one starts from there.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);

/// How long a watch lasts that does not say how long, at least; at most twice as long, so that not all
/// clients come back at once.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30 * 60);

/// Starts a watch. Errors that a client can only learn from the stream are in the stream.
pub(crate) fn start(call: Call) -> Result<Reply, Failure> {
    let selection = Selection::parse(&call.resource, &call.query, call.name.as_deref())?;
    let include = Include::parse(&call.query.include_object)?;
    let slot = call.server.budgets.of(call.client.origin).watch(&call.client.user)?;
    let namespace =
        call.resource.namespaced.then_some(call.namespace.as_str()).filter(|name| !name.is_empty());
    let scope = call.resource.scope(namespace);
    let from = call.query.revision()?;
    let bookmarks = call.query.allow_watch_bookmarks;
    // Without a revision, or with one that means any, a watch starts with what is there.
    let starts_full = call.query.send_initial_events.unwrap_or(from.is_none());
    let frames = Frames::new(Arc::clone(&call.resource), call.view, include, call.server.clock.clone());
    let mut ready = VecDeque::new();
    let after = if starts_full {
        let snapshot = call.server.store.snapshot();
        if let Some(wanted) = from.filter(|wanted| *wanted > snapshot.revision()) {
            return Err(Failure::version_too_large(wanted, snapshot.revision()));
        }
        let initial = Listing::new(snapshot.clone(), scope.clone(), None);
        ready.push_back(Pending::Initial(initial));
        if bookmarks && call.view != View::Table {
            ready.push_back(Pending::Frame(frames.bookmark(snapshot.revision(), true)));
        }
        snapshot.revision()
    } else {
        from.unwrap_or_else(|| call.server.store.revision())
    };
    let watcher = match call.server.store.watch(scope, after) {
        Ok(watcher) => Some(watcher),
        Err(expired) => {
            let failure = Failure::version_too_old(expired.requested, expired.oldest);
            ready.push_back(Pending::Frame(frame::error(&failure)));
            None
        }
    };
    let now = Instant::now();
    let timeout = match call.query.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.min(24 * 3600)),
        _ => {
            let owner = ["watch", &call.resource.group, &call.resource.plural, &call.namespace];
            DEFAULT_TIMEOUT + DEFAULT_TIMEOUT.mul_f64(call.server.randomness.generator(&owner).f64())
        }
    };
    let end = now + timeout;
    let last_bookmark = end.checked_sub(BOOKMARK_BEFORE_END).filter(|at| *at > now).unwrap_or(end);
    let watch = Watch {
        stopped: call.server.stopped.subscribe(),
        ready,
        watcher,
        bookmarks: bookmarks && call.view != View::Table,
        next_bookmark: (now + BOOKMARK_EVERY).min(last_bookmark),
        last_bookmark,
        end,
        view: Some(Box::new(Seen { call, selection, frames })),
        _slot: slot,
    };
    let events = stream::unfold(watch, |mut watch| async move {
        let frame = watch.next().await?;
        Some((Ok(frame), watch))
    });
    Ok(Reply::stream(events, 0))
}

/// What is to be sent before anything is read from the store.
enum Pending {
    Frame(Bytes),
    /// Objects that are there already; read and encoded one by one, because there may be many.
    Initial(Listing),
}

/// What a watch is about, and how it is shown.
struct Seen {
    call: Call,
    selection: Selection,
    frames: Frames,
}

struct Watch {
    ready: VecDeque<Pending>,
    /// Absent once there is nothing more to come.
    watcher: Option<Watcher>,
    /// Absent only while it is on another thread.
    view: Option<Box<Seen>>,
    stopped: tokio::sync::watch::Receiver<bool>,
    bookmarks: bool,
    next_bookmark: Instant,
    last_bookmark: Instant,
    end: Instant,
    _slot: WatchSlot,
}

impl Watch {
    /// The next piece of the stream, or its end.
    async fn next(&mut self) -> Option<Bytes> {
        if let Some(frame) = self.next_ready().await {
            return Some(frame);
        }
        loop {
            let watcher = self.watcher.as_mut()?;
            let event = tokio::select! {
                biased;
                () = stopped(&mut self.stopped) => return None,
                () = sleep_until(self.end) => return None,
                // Before events: a watch that selects nothing of many changes must learn how far it is, too.
                () = sleep_until(self.next_bookmark), if self.bookmarks => {
                    self.next_bookmark = if self.next_bookmark >= self.last_bookmark {
                        self.end + BOOKMARK_EVERY
                    } else {
                        (self.next_bookmark + BOOKMARK_EVERY).min(self.last_bookmark)
                    };
                    let position = watcher.position();
                    return self.view.as_ref().map(|view| view.frames.bookmark(position, false));
                }
                event = watcher.next() => event,
            };
            match event {
                Ok(event) => {
                    let shown = self
                        .show(move |Seen { frames, selection, call }| frames.event(&event, selection, call));
                    match shown.await {
                        Ok(Some(frame)) => return Some(frame),
                        Ok(None) => {}
                        Err(failure) => return self.last(&failure),
                    }
                }
                Err(WatchError::Expired(expired)) => {
                    return self.last(&Failure::version_too_old(expired.requested, expired.oldest));
                }
                Err(WatchError::Closed) => return None,
            }
        }
    }

    /// Encodes something, on another thread if that may take a call over the network.
    async fn show<T: Send + 'static>(
        &mut self,
        show: impl FnOnce(&mut Seen) -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        let gone = || Failure::internal("the watch was given up");
        let view = self.view.as_mut().ok_or_else(gone)?;
        if !view.call.resource.waits_to_convert() {
            return show(view);
        }
        let mut view = self.view.take().ok_or_else(gone)?;
        let (view, shown) = elsewhere(async move {
            let shown = show(&mut view);
            (view, shown)
        })
        .await?;
        self.view = Some(view);
        shown
    }

    async fn next_ready(&mut self) -> Option<Bytes> {
        loop {
            match self.ready.front_mut()? {
                Pending::Initial(objects) => match self.view.as_ref().and_then(|view| {
                    objects.find(|object| view.selection.contains(&view.call.resource, object))
                }) {
                    Some(object) => match self.show(move |view| view.frames.added(&object)).await {
                        Ok(frame) => return Some(frame),
                        Err(failure) => return self.last(&failure),
                    },
                    None => drop(self.ready.pop_front()),
                },
                Pending::Frame(_) => match self.ready.pop_front() {
                    Some(Pending::Frame(frame)) => return Some(frame),
                    _ => return None,
                },
            }
        }
    }

    /// An error is the last thing a client reads: some go on listening after one forever.
    fn last(&mut self, failure: &Failure) -> Option<Bytes> {
        self.ready.clear();
        self.watcher = None;
        Some(frame::error(failure))
    }
}

async fn stopped(signal: &mut tokio::sync::watch::Receiver<bool>) {
    // If the sender is gone, so is the server.
    let _ = signal.wait_for(|stopped| *stopped).await;
}
