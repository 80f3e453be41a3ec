//! Events are forgotten after an hour.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;
use windlass_store::{Expect, Key, Object};

use crate::server::Inner;
use crate::stored::parse;
use crate::time;

/// How long an event is kept after it was last written.
pub(super) const LIFETIME: Duration = Duration::from_secs(3600);

/// When which event is to go, with the revision it had when that was decided.
#[derive(Debug, Default)]
pub(super) struct Expiry {
    due: BTreeMap<(Instant, Key), u64>,
}

impl Expiry {
    /// An event that was there when the server started: as old as it says it is.
    pub(super) fn found(&mut self, server: &Inner, object: &Object) {
        if !is_event(object) {
            return;
        }
        let event = parse(object).unwrap_or_default();
        let times = [
            &event["metadata"]["creationTimestamp"],
            &event["lastTimestamp"],
            &event["eventTime"],
            &event["series"]["lastObservedTime"],
        ];
        let last = times.into_iter().filter_map(Value::as_str).filter_map(time::parse).max();
        let age = last.map(|last| server.clock.now().duration_since(last));
        // An event from the future is new.
        let age = age.and_then(|age| Duration::try_from(age).ok()).unwrap_or(Duration::ZERO);
        self.schedule(object, LIFETIME.saturating_sub(age));
    }

    /// An event that was just written.
    pub(super) fn written(&mut self, object: &Object) {
        if is_event(object) {
            self.schedule(object, LIFETIME);
        }
    }

    fn schedule(&mut self, object: &Object, after: Duration) {
        self.due.insert((Instant::now() + after, object.key().clone()), object.revision());
    }

    /// When the next event goes.
    pub(super) fn next(&self) -> Option<Instant> {
        self.due.keys().next().map(|(due, _)| *due)
    }

    /// Deletes what is due, unless it was written again.
    pub(super) async fn expire(&mut self, server: &Arc<Inner>) {
        let now = Instant::now();
        while let Some(entry) = self.due.first_entry().filter(|entry| entry.key().0 <= now) {
            let ((_, key), revision) = entry.remove_entry();
            // Written again, or gone: both are fine.
            let _ = server.store.delete(key, Expect::Revision(revision)).await;
        }
    }
}

fn is_event(object: &Object) -> bool {
    object.key().resource().as_str() == "core/events"
}
