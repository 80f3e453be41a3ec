//! Waiting for others without taking the place of a reconcile that could run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::queues::Queues;

tokio::task_local! {
    static SLOT: Slot;
}

/// The place that a reconcile takes among those of its controller that run at the same time.
pub(crate) struct Slot {
    queues: Arc<Queues>,
    controller: usize,
    is_away: AtomicBool,
}

impl Slot {
    /// Runs a reconcile in a place of its controller.
    pub(crate) async fn hold<F: Future>(queues: Arc<Queues>, controller: usize, reconcile: F) -> F::Output {
        SLOT.scope(Self { queues, controller, is_away: AtomicBool::new(false) }, reconcile).await
    }
}

/// Waits for something that is not up to this process, such as the answer of an extension. Meanwhile another key of the
/// controller may be reconciled: the objects of one that is slow do not hold up all others. How many wait is not limited
/// here, so that the one who is waited for needs a limit of its own.
///
/// Outside a reconcile, and within itself, it only waits.
pub async fn elsewhere<F: Future>(work: F) -> F::Output {
    let _away = Away::of_this_task();
    work.await
}

/// Takes the place back, also if the reconcile is dropped while it waits.
struct Away {
    queues: Arc<Queues>,
    controller: usize,
}

impl Away {
    fn of_this_task() -> Option<Self> {
        let leave = |slot: &Slot| {
            let left = !slot.is_away.swap(true, Ordering::Relaxed);
            left.then(|| Self { queues: Arc::clone(&slot.queues), controller: slot.controller })
        };
        let away = SLOT.try_with(leave).ok().flatten()?;
        away.queues.with(away.controller, |queue| queue.leave());
        away.queues.wake();
        Some(away)
    }
}

impl Drop for Away {
    fn drop(&mut self) {
        self.queues.with(self.controller, |queue| queue.come_back());
        // A task that is dropped has no slot any more.
        let _ = SLOT.try_with(|slot| slot.is_away.store(false, Ordering::Relaxed));
    }
}
