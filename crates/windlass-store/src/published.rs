//! What readers see: the objects and the recent events, always of the same revision.

use std::sync::{Arc, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;

use crate::error::SnapshotError;
use crate::key::Scope;
use crate::log::{History, Log};
use crate::pending::Pending;
use crate::state::{Snapshot, State};
use crate::stats::Counters;

/// Shared by the store, its writer and its watchers. Only committed changes get here.
pub(crate) struct Published {
    state: ArcSwap<State>,
    log: RwLock<Log>,
    failure: OnceLock<Arc<str>>,
    pub(crate) counters: Counters,
}

impl Published {
    pub(crate) fn new(state: State, history: History) -> Self {
        let log = RwLock::new(Log::new(history, state.revision));
        let (failure, counters) = (OnceLock::new(), Counters::default());
        Self { state: ArcSwap::from_pointee(state), log, failure, counters }
    }

    /// Why there will be no more commits. The first reason stays.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        self.failure.get().cloned()
    }

    pub(crate) fn fail(&self, reason: &str) {
        let _ = self.failure.set(reason.into());
    }

    pub(crate) fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Makes committed changes visible.
    ///
    /// The state is replaced while the log is locked: a thread that holds the log sees both at the same
    /// revision, and a watcher that was shown an event finds its object in the state.
    pub(crate) fn publish(&self, pending: Pending) {
        let Pending { state, events, .. } = pending;
        if events.is_empty() {
            return;
        }
        self.counters.published(events.len());
        let state = Arc::new(state);
        let appended = {
            let mut log = self.log_mut();
            self.state.store(state);
            log.append(events)
        };
        appended.wake();
    }

    /// The objects of `scope` as they were at `revision`.
    pub(crate) fn snapshot_at(&self, scope: &Scope, revision: u64) -> Result<Snapshot, SnapshotError> {
        let (state, events) = {
            let log = self.log();
            let current = log.revision();
            if revision > current {
                return Err(SnapshotError::Future { requested: revision, current });
            }
            (self.state(), log.backwards(scope, revision)?)
        };
        Ok(Snapshot::new(Arc::new(state.rewound(scope, revision, &events))))
    }

    // A panic while the log is locked can only come from a failed allocation, and leaves at worst an
    // event counted that is not there; refusing all further reads would be worse.

    pub(crate) fn log(&self) -> RwLockReadGuard<'_, Log> {
        self.log.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn log_mut(&self) -> RwLockWriteGuard<'_, Log> {
        self.log.write().unwrap_or_else(PoisonError::into_inner)
    }
}
