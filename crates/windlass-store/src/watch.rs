//! A reader of events, which holds a place in the history and nothing else.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use crate::error::{Expired, WatchError};
use crate::event::Event;
use crate::key::Scope;
use crate::published::Published;

/// How many events are taken from the log at a time: enough that the lock is not what costs, few
/// enough that a reader who never comes back does not hold much.
const READ_AHEAD: usize = 64;

/// Reads the events of a scope in the order of their revisions, each exactly once.
///
/// A watcher costs the store nothing while it is not read, and nothing after it is dropped. If it is
/// read too slowly it ends with [`WatchError::Expired`], and the writers never know.
pub struct Watcher {
    published: Arc<Published>,
    scope: Scope,
    bell: watch::Receiver<bool>,
    /// Events that were read from the log and not yet handed out.
    ahead: VecDeque<Arc<Event>>,
    /// Up to which revision `ahead` reaches.
    read: u64,
    position: u64,
}

impl Watcher {
    pub(crate) fn new(published: Arc<Published>, scope: Scope, after: u64) -> Result<Self, Expired> {
        let bell = {
            let mut log = published.log_mut();
            log.check(&scope, after)?;
            log.bell(&scope)
        };
        published.counters.watchers.fetch_add(1, Ordering::Relaxed);
        Ok(Self { published, scope, bell, ahead: VecDeque::new(), read: after, position: after })
    }

    /// Waits for the next event. Dropping the future loses nothing: the event comes with the next call.
    pub async fn next(&mut self) -> Result<Arc<Event>, WatchError> {
        // A reader that always finds an event would otherwise never let its neighbours run.
        tokio::task::consume_budget().await;
        loop {
            // Marked as heard before the log is read: an event that is appended in between rings again.
            let closed = *self.bell.borrow_and_update();
            if let Some(event) = self.try_next()? {
                return Ok(event);
            }
            if closed || self.bell.changed().await.is_err() {
                return Err(WatchError::Closed);
            }
        }
    }

    /// The next event if there is one now. If there is none, [`Watcher::position`] moves up to the
    /// revision of the store, which is what a bookmark says.
    pub fn try_next(&mut self) -> Result<Option<Arc<Event>>, Expired> {
        if self.ahead.is_empty() {
            self.read = self.published.log().read(&self.scope, self.read, READ_AHEAD, &mut self.ahead)?;
        }
        let event = self.ahead.pop_front();
        self.position = match &event {
            Some(event) => event.revision(),
            None => self.read,
        };
        Ok(event)
    }

    /// Every event of the scope up to this revision has been handed out: a watch may resume from here.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// What is being watched.
    pub fn scope(&self) -> &Scope {
        &self.scope
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.published.counters.watchers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "watcher of {:?} at revision {}", self.scope, self.position)
    }
}
