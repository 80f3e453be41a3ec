//! The objects of a list, read from a snapshot when they are needed.

use std::collections::VecDeque;
use std::sync::Arc;

use windlass_store::{Key, Object, Scope, Snapshot};

/// How many objects are looked up at once. Each lookup walks down the tree of the store again.
const BATCH: usize = 64;

/// Goes through the objects of a scope as they were at one revision.
///
/// It has references to a few objects at a time, so that a list or a watch whose client does not read costs the
/// same however many objects there are.
pub(crate) struct Listing {
    snapshot: Snapshot,
    scope: Scope,
    after: Option<Key>,
    batch: VecDeque<Arc<Object>>,
    ended: bool,
}

impl Listing {
    /// The objects that come after a key, or all.
    pub(crate) fn new(snapshot: Snapshot, scope: Scope, after: Option<Key>) -> Self {
        Self { snapshot, scope, after, batch: VecDeque::new(), ended: false }
    }
}

impl Iterator for Listing {
    type Item = Arc<Object>;

    fn next(&mut self) -> Option<Arc<Object>> {
        if self.batch.is_empty() && !self.ended {
            let read = match &self.after {
                Some(after) => self.snapshot.list_after(&self.scope, after).take(BATCH).cloned().collect(),
                None => self.snapshot.list(&self.scope).take(BATCH).cloned().collect(),
            };
            self.batch = read;
            self.ended = self.batch.len() < BATCH;
            if let Some(last) = self.batch.back() {
                self.after = Some(last.key().clone());
            }
        }
        self.batch.pop_front()
    }
}
