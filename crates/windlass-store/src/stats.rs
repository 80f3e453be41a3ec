//! Figures about a store, for metrics.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::published::Published;

/// Figures about a store at one moment. Those about writes count from when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stats {
    /// The revision.
    pub revision: u64,
    /// How many objects there are.
    pub objects: usize,
    /// How many bytes their values have.
    pub value_bytes: u64,
    /// How many transactions were committed, including those that changed nothing.
    pub transactions: u64,
    /// How many puts and deletes were committed.
    pub changes: u64,
    /// How many transactions were refused, nearly always because an expectation did not hold.
    pub refused: u64,
    /// How many times the disk was written and synced. None in memory.
    pub batches: u64,
    /// How many transactions the largest batch had.
    pub largest_batch: u64,
    /// How many watchers there are.
    pub watchers: usize,
    /// How many events the history has.
    pub events: usize,
    /// How many bytes the history is counted as.
    pub event_bytes: usize,
    /// How many changes were acknowledged but are not yet on the disk. None unless relaxed.
    pub unsynced: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) watchers: AtomicUsize,
    pub(crate) unsynced: AtomicU64,
    transactions: AtomicU64,
    refused: AtomicU64,
    changes: AtomicU64,
    batches: AtomicU64,
    largest_batch: AtomicU64,
}

impl Counters {
    pub(crate) fn answered(&self, committed: bool) {
        let counter = if committed { &self.transactions } else { &self.refused };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn published(&self, changes: usize) {
        self.changes.fetch_add(changes as u64, Ordering::Relaxed);
    }

    pub(crate) fn synced(&self, transactions: usize) {
        self.batches.fetch_add(1, Ordering::Relaxed);
        self.largest_batch.fetch_max(transactions as u64, Ordering::Relaxed);
    }
}

impl Stats {
    pub(crate) fn of(published: &Published) -> Self {
        let (events, event_bytes) = {
            let log = published.log();
            (log.events(), log.bytes())
        };
        let state = published.state();
        let counters = &published.counters;
        Self {
            revision: state.revision,
            objects: state.len(),
            value_bytes: state.value_bytes,
            transactions: counters.transactions.load(Ordering::Relaxed),
            changes: counters.changes.load(Ordering::Relaxed),
            refused: counters.refused.load(Ordering::Relaxed),
            batches: counters.batches.load(Ordering::Relaxed),
            largest_batch: counters.largest_batch.load(Ordering::Relaxed),
            watchers: counters.watchers.load(Ordering::Relaxed),
            events,
            event_bytes,
            unsynced: counters.unsynced.load(Ordering::Relaxed),
        }
    }
}
