//! What there is to measure.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::key::ObjectKey;

/// What a controller has done, and what it has to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ControllerMetrics {
    /// Reconciles that have ended, however they ended.
    pub reconciles: u64,
    /// Those that failed.
    pub errors: u64,
    /// Those that met a conflict, and were tried again.
    pub conflicts: u64,
    /// Those that asked to be called again after a time.
    pub requeues: u64,
    /// How long all of them took together.
    pub duration: Duration,
    /// How long the longest took.
    pub longest: Duration,
    /// How many keys wait for their turn.
    pub queued: usize,
    /// How many keys are being reconciled.
    pub running: usize,
}

/// A key whose last reconcile failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failing {
    /// The controller.
    pub controller: String,
    /// The key.
    pub key: ObjectKey,
    /// How often in a row.
    pub failures: u32,
    /// Why the last time.
    pub error: String,
}

#[derive(Default)]
pub(crate) struct Counters {
    inner: Mutex<(ControllerMetrics, BTreeMap<ObjectKey, String>)>,
}

impl Counters {
    pub(crate) fn metrics(&self) -> ControllerMetrics {
        self.inner().0.clone()
    }

    /// Why the last reconcile of a key failed.
    pub(crate) fn error(&self, key: &ObjectKey) -> Option<String> {
        self.inner().1.get(key).cloned()
    }

    /// Counts a reconcile. `problem` says what was wrong, and whether it was only a conflict.
    pub(crate) fn count(
        &self,
        key: &ObjectKey,
        took: Duration,
        again: bool,
        problem: Option<(bool, String)>,
    ) {
        let mut inner = self.inner();
        let (metrics, errors) = &mut *inner;
        metrics.reconciles += 1;
        metrics.duration += took;
        metrics.longest = metrics.longest.max(took);
        metrics.requeues += u64::from(again);
        match problem {
            None => drop(errors.remove(key)),
            Some((is_conflict, error)) => {
                metrics.conflicts += u64::from(is_conflict);
                metrics.errors += u64::from(!is_conflict);
                errors.insert(key.clone(), error);
            }
        }
    }

    fn inner(&self) -> MutexGuard<'_, (ControllerMetrics, BTreeMap<ObjectKey, String>)> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
