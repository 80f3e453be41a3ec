//! What readers see: the objects and the recent events, always of the same revision.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use arc_swap::ArcSwap;
use tokio::sync::Notify;

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
    failure: RwLock<Option<Failure>>,
    failed: Notify,
    pub(crate) counters: Counters,
}

/// Why nothing is written.
struct Failure {
    reason: Arc<str>,
    for_good: bool,
}

impl Published {
    pub(crate) fn new(state: State, history: History) -> Self {
        let log = RwLock::new(Log::new(history, state.revision));
        let (failure, counters) = (RwLock::new(None), Counters::default());
        Self { state: ArcSwap::from_pointee(state), log, failure, failed: Notify::new(), counters }
    }

    /// Why nothing can be written at the moment.
    pub(crate) fn failure(&self) -> Option<Arc<str>> {
        let failure = self.failure.read().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().map(|failure| Arc::clone(&failure.reason))
    }

    /// Whether nothing can be written until the store is opened again.
    pub(crate) fn has_failed_for_good(&self) -> bool {
        let failure = self.failure.read().unwrap_or_else(PoisonError::into_inner);
        failure.as_ref().is_some_and(|failure| failure.for_good)
    }

    /// Nothing can be written until the disk is better.
    pub(crate) fn fail(&self, reason: &str) {
        self.fail_with(reason, false);
    }

    /// Nothing can be written until the store is opened again. The first reason stays.
    pub(crate) fn fail_for_good(&self, reason: &str) {
        self.fail_with(reason, true);
    }

    fn fail_with(&self, reason: &str, for_good: bool) {
        let mut failure = self.failure.write().unwrap_or_else(PoisonError::into_inner);
        if failure.as_ref().is_some_and(|failure| failure.for_good) {
            return;
        }
        if failure.as_ref().is_none_or(|failure| for_good || *failure.reason != *reason) {
            tracing::error!(reason, for_good, "the store cannot write");
        }
        *failure = Some(Failure { reason: reason.into(), for_good });
        drop(failure);
        self.failed.notify_waiters();
    }

    /// Ends when nothing can be written.
    pub(crate) async fn until_failure(&self) {
        loop {
            let failed = self.failed.notified();
            if self.failure().is_some() {
                return;
            }
            failed.await;
        }
    }

    /// Something can be written again.
    pub(crate) fn recover(&self) {
        tracing::info!("the store can write again");
        *self.failure.write().unwrap_or_else(PoisonError::into_inner) = None;
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
