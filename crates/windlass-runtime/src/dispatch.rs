//! The loop that starts reconciles.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep, sleep_until};

use crate::context::Context;
use crate::elsewhere::Slot;
use crate::key::ObjectKey;
use crate::manager::Ended;
use crate::queue::Finished;
use crate::shared::{Idle, Phase, Shared};
use crate::write_error::is_conflict;

/// The time between two starts in virtual time, and the least that tokio's clock knows.
///
/// The paused clock moves only when no task can run, so after this time everything that was set off by the last
/// reconcile has happened: its writes are in the caches, and in the queues. That makes the order of reconciles depend
/// on the seed alone, and not on which task tokio happened to wake first.
pub(crate) const QUANTUM: Duration = Duration::from_millis(1);

/// How long running reconciles are given when the manager stops.
const GRACE: Duration = Duration::from_secs(30);

/// Ends what was started, also if the future is dropped.
struct Guard<'a> {
    shared: &'a Shared,
    events: AbortHandle,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.events.abort();
        self.shared.enter(Phase::Ended);
        self.shared.stop_caches();
    }
}

pub(crate) async fn run(shared: &Arc<Shared>) -> Ended {
    shared.enter(Phase::Running);
    let recorder = Arc::clone(shared);
    let events =
        tokio::spawn(async move { recorder.events.run(&recorder.client, &recorder.randomness).await });
    let _guard = Guard { shared, events: events.abort_handle() };
    shared.start_caches();
    let mut running = JoinSet::new();
    dispatch(shared, &mut running).await;
    if shared.has_crashed() {
        // At once: no reconcile that is under way gets any further.
        running.abort_all();
        while running.join_next().await.is_some() {}
        return Ended::Crashed;
    }
    let all_done = async { while running.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(GRACE, all_done).await;
    Ended::Stopped
}

/// Starts reconciles until the manager stops.
async fn dispatch(shared: &Arc<Shared>, running: &mut JoinSet<()>) {
    let is_virtual = shared.clock.is_virtual();
    let mut synced = false;
    loop {
        if shared.phase() != Phase::Running {
            return;
        }
        while running.try_join_next().is_some() {}
        synced = synced || shared.all_caches().iter().all(|cache| cache.is_synced());
        let agenda = shared.queues.agenda();
        if synced && agenda.can_start {
            shared.set_idle(None);
            if is_virtual {
                settle(shared).await;
                // What is due by now is in the choice.
                shared.queues.agenda();
            }
            if let Some((controller, key)) = shared.queues.start() {
                let shared = Arc::clone(shared);
                running.spawn(reconcile(shared, controller, key));
            }
            continue;
        }
        if synced && agenda.is_quiet && is_current(shared) {
            if is_virtual {
                settle(shared).await;
                let still = shared.queues.agenda();
                if still.can_start || !still.is_quiet || !is_current(shared) {
                    continue;
                }
            }
            let until = agenda.next_expected.map(|at| shared.clock.at(at));
            let routine = agenda.next_timer.map(|at| shared.clock.at(at));
            shared.set_idle(Some(Idle { since: shared.clock.now(), until, routine }));
        } else {
            shared.set_idle(None);
        }
        tokio::select! {
            biased;
            () = shared.queues.woken() => {}
            () = until(agenda.next_timer) => {}
            Some(_) = running.join_next(), if !running.is_empty() => {}
        }
    }
}

fn is_current(shared: &Shared) -> bool {
    shared.all_caches().iter().all(|cache| cache.is_current())
}

/// Lets all other tasks run until there is nothing left to do at this time.
async fn settle(shared: &Shared) {
    let crashed = shared.wait_for(|phase, _| (phase == Phase::Crashed).then_some(()));
    tokio::select! {
        biased;
        () = crashed => {}
        () = sleep(QUANTUM) => {}
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

async fn reconcile(shared: Arc<Shared>, number: usize, key: ObjectKey) {
    let controller = shared.controller(number);
    let context = Context {
        shared: Arc::clone(&shared),
        number,
        controller: Arc::clone(&controller),
        key: key.clone(),
        drawn: Mutex::default(),
    };
    let started = Instant::now();
    let work = async {
        match controller.admits(&key) {
            true => Arc::clone(&controller.reconciler).reconcile(key.clone(), context).await,
            false => Ok(crate::Outcome::done()),
        }
    };
    let work = Slot::hold(Arc::clone(&shared.queues), number, work);
    let result = AssertUnwindSafe(work).catch_unwind().await;
    let took = started.elapsed();
    let rest = result.as_ref().ok().and_then(|result| result.as_ref().ok()).map(|outcome| outcome.rest);
    let (finished, problem) = match result {
        Ok(Ok(outcome)) if outcome.is_routine => {
            (outcome.after.map_or(Finished::Done, Finished::Routinely), None)
        }
        Ok(Ok(outcome)) => (outcome.after.map_or(Finished::Done, Finished::After), None),
        Ok(Err(error)) => (Finished::Failed, Some((is_conflict(error.as_ref()), error.to_string()))),
        Err(_panic) => (Finished::Failed, Some((false, "the reconcile panicked".to_owned()))),
    };
    controller.counters.count(
        &key,
        took,
        matches!(finished, Finished::After(_) | Finished::Routinely(_)),
        problem.clone(),
    );
    let (failures, wait) = shared.queues.finish(number, &key, finished, rest.unwrap_or_default());
    let (name, kind) = (&controller.name, &controller.kind.kind);
    let retry = wait.map(|wait| wait.as_secs_f64());
    match problem {
        None => {
            tracing::trace!(controller = %name, %kind, namespace = %key.namespace, name = %key.name, "reconciled");
        }
        Some((true, conflict)) => {
            tracing::debug!(controller = %name, %kind, namespace = %key.namespace, name = %key.name, %conflict, "trying again");
        }
        Some((false, error)) => {
            tracing::warn!(controller = %name, %kind, namespace = %key.namespace, name = %key.name, failures, retry, %error, "reconcile failed");
        }
    }
}
