//! What a cache must have seen before a key is reconciled again.

use std::fmt;
use std::sync::Arc;

use crate::cache::AnyCache;
use crate::key::ObjectKey;

/// Something that was written and must show in a cache.
#[derive(Clone)]
pub(crate) struct Expectation {
    pub(crate) cache: Arc<dyn AnyCache>,
    pub(crate) what: Expected,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected {
    /// An object was written at this revision.
    Seen(u64),
    /// An object was deleted, and the answer did not say at which revision.
    Gone { key: ObjectKey, uid: String },
    /// It is unknown whether the write happened, so everything must be listed anew, this many times by then.
    Listed(u64),
}

impl Expectation {
    /// Takes in another one, if meeting the later of both means that both are met.
    pub(crate) fn absorb(&mut self, other: &Self) -> bool {
        match (&mut self.what, &other.what) {
            (Expected::Seen(known), Expected::Seen(later)) if Arc::ptr_eq(&self.cache, &other.cache) => {
                *known = (*known).max(*later);
                true
            }
            _ => false,
        }
    }

    pub(crate) fn is_met(&self) -> bool {
        match &self.what {
            Expected::Seen(revision) => self.cache.has_seen(*revision),
            Expected::Gone { key, uid } => self.cache.is_gone(key, uid),
            Expected::Listed(times) => self.cache.lists() >= *times,
        }
    }
}

impl fmt::Debug for Expectation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of {}", self.what, self.cache.kind())
    }
}
