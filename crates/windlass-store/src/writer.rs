//! The single writer: gives transactions their order, and answers when they are committed.
//!
//! | mode | who applies | answered |
//! | --- | --- | --- |
//! | synced | a thread, which commits what came in during its last commit as one batch | after the batch is on the disk and visible |
//! | relaxed | the caller, under a lock | when visible; a thread writes it to the disk later |
//! | in memory | the caller, under a lock | when visible |
//!
//! A batch is whatever has queued up while the disk was busy. Only where commits take long does it wait,
//! for a fraction of that time, for those who were just answered: see [`Patience`].

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, oneshot, watch};

use crate::backend::{Backend, BackendError};
use crate::error::{CommitError, IoError};
use crate::pending::{Batch, Pending};
use crate::published::Published;
use crate::transaction::{Committed, Transaction};

/// How many changes a relaxed store may have acknowledged without having them on the disk. A quarter
/// of a second's worth for a disk that is keeping up.
pub(crate) const RELAXED_LAG: u32 = 4096;

/// Transactions per batch. More would keep the first of them waiting for the last without saving
/// much: at this size the sync is a small part of what a batch costs.
const BATCH_TRANSACTIONS: usize = 512;

/// Bytes per batch, for the same reason where objects are large.
const BATCH_BYTES: usize = 16 * 1024 * 1024;

pub(crate) struct Writer {
    published: Arc<Published>,
    mode: Mode,
}

enum Mode {
    InMemory(Mutex<Turn>),
    Relaxed {
        turn: Mutex<Turn>,
        unsynced: Mutex<Option<Sender<Unsynced>>>,
        /// How many more changes may be acknowledged before the disk has caught up. Closed when it failed.
        room: Arc<Semaphore>,
        thread: Thread,
    },
    Synced {
        queue: Mutex<Option<Sender<Request>>>,
        thread: Thread,
    },
}

/// Held by the caller that applies a transaction where there is no thread that does.
#[derive(PartialEq)]
enum Turn {
    Open,
    Closed,
}

struct Request {
    transaction: Transaction,
    answer: oneshot::Sender<Result<Committed, CommitError>>,
}

struct Unsynced {
    batch: Batch,
    room: u32,
}

struct Thread {
    /// Ends when the thread has written everything and closed the backend.
    stopped: watch::Receiver<()>,
    handle: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(crate) fn in_memory(published: Arc<Published>) -> Self {
        Self { published, mode: Mode::InMemory(Mutex::new(Turn::Open)) }
    }

    pub(crate) fn synced(
        published: Arc<Published>,
        backend: impl Backend + 'static,
    ) -> Result<Self, IoError> {
        let (queue, requests) = mpsc::channel();
        let shared = Arc::clone(&published);
        let write = move || write_synced(&shared, backend, &requests);
        let thread = Thread::start(&published, write)?;
        Ok(Self { published, mode: Mode::Synced { queue: Mutex::new(Some(queue)), thread } })
    }

    /// The backend must hold a lag of [`RELAXED_LAG`] already.
    pub(crate) fn relaxed(
        published: Arc<Published>,
        backend: impl Backend + 'static,
    ) -> Result<Self, IoError> {
        let (unsynced, batches) = mpsc::channel();
        let room = Arc::new(Semaphore::new(RELAXED_LAG as usize));
        let (shared, shared_room) = (Arc::clone(&published), Arc::clone(&room));
        let write = move || write_relaxed(&shared, &shared_room, backend, &batches);
        let thread = Thread::start(&published, write)?;
        let (turn, unsynced) = (Mutex::new(Turn::Open), Mutex::new(Some(unsynced)));
        Ok(Self { published, mode: Mode::Relaxed { turn, unsynced, room, thread } })
    }

    /// Commits a transaction. Dropping the future does not take it back: once this was polled, the
    /// transaction may be committed.
    pub(crate) async fn commit(&self, transaction: Transaction) -> Result<Committed, CommitError> {
        // Without a disk to wait for, a caller in a loop would never let its neighbours run.
        tokio::task::consume_budget().await;
        transaction.validate()?;
        match &self.mode {
            Mode::InMemory(turn) => self.apply(turn, transaction, |_| Ok(())),
            // What is not on the disk yet must not become more while nothing gets there.
            Mode::Relaxed { .. } if self.published.failure().is_some() => Err(self.failed()),
            Mode::Relaxed { turn, unsynced, room, .. } => {
                let changes = transaction.changes() as u32;
                // Room that is not made any more is not waited for.
                let (mut taken, mut failed) =
                    (pin!(room.acquire_many(changes)), pin!(self.published.until_failure()));
                let taken = poll_fn(|context| match taken.as_mut().poll(context) {
                    Poll::Ready(taken) => Poll::Ready(taken.ok()),
                    Poll::Pending => failed.as_mut().poll(context).map(|()| None),
                });
                let Some(taken) = taken.await else { return Err(self.failed()) };
                self.apply(turn, transaction, |batch| {
                    let waiting = &self.published.counters.unsynced;
                    waiting.fetch_add(u64::from(changes), Ordering::Relaxed);
                    let unsynced = locked(unsynced);
                    let sent = unsynced.as_ref().map(|thread| thread.send(Unsynced { batch, room: changes }));
                    let Some(Ok(())) = sent else { return Err(self.failed()) };
                    taken.forget();
                    Ok(())
                })
            }
            Mode::Synced { queue, .. } => {
                let (answer, answered) = oneshot::channel();
                let request = Request { transaction, answer };
                match locked(queue).as_ref().map(|thread| thread.send(request)) {
                    None => return Err(CommitError::Closed),
                    Some(Err(_)) => return Err(self.failed()),
                    Some(Ok(())) => {}
                }
                answered.await.unwrap_or_else(|_| Err(self.failed()))
            }
        }
    }

    /// Why the thread does not answer although it was not told to stop.
    fn failed(&self) -> CommitError {
        let reason = self.published.failure().unwrap_or_else(|| "the writer stopped".into());
        CommitError::Failed { reason }
    }

    fn apply(
        &self,
        turn: &Mutex<Turn>,
        transaction: Transaction,
        persist: impl FnOnce(Batch) -> Result<(), CommitError>,
    ) -> Result<Committed, CommitError> {
        let turn = locked(turn);
        if *turn == Turn::Closed {
            return Err(CommitError::Closed);
        }
        let mut pending = Pending::after((*self.published.state()).clone());
        let outcome = pending.apply(transaction);
        self.published.counters.answered(outcome.is_ok());
        if !pending.is_empty() {
            persist(std::mem::take(&mut pending.batch))?;
            self.published.publish(pending);
        }
        outcome
    }

    /// Takes no more transactions, and returns when those that were taken are on the disk, the backend
    /// is closed and the watchers know.
    pub(crate) async fn close(&self) -> Result<(), CommitError> {
        self.stop();
        if let Some(thread) = self.thread() {
            // Nothing is ever sent: the channel closes when the thread ends.
            while thread.stopped.clone().changed().await.is_ok() {}
        }
        match self.published.failure() {
            Some(reason) => Err(CommitError::Failed { reason }),
            None => Ok(()),
        }
    }

    fn stop(&self) {
        match &self.mode {
            Mode::InMemory(turn) => {
                *locked(turn) = Turn::Closed;
                self.published.log_mut().close();
            }
            Mode::Relaxed { turn, unsynced, .. } => {
                *locked(turn) = Turn::Closed;
                *locked(unsynced) = None;
            }
            Mode::Synced { queue, .. } => *locked(queue) = None,
        }
    }

    fn thread(&self) -> Option<&Thread> {
        match &self.mode {
            Mode::InMemory(_) => None,
            Mode::Relaxed { thread, .. } | Mode::Synced { thread, .. } => Some(thread),
        }
    }
}

impl Drop for Writer {
    /// Waits for the disk, if need be: a relaxed store has acknowledged what is not yet there, and
    /// the process that opens the directory next must find it unlocked.
    fn drop(&mut self) {
        self.stop();
        let handle = self.thread().and_then(|thread| locked(&thread.handle).take());
        if let Some(handle) = handle {
            // A panic of the thread was reported when it happened.
            let _ = handle.join();
        }
    }
}

impl Thread {
    fn start(published: &Arc<Published>, write: impl FnOnce() + Send + 'static) -> Result<Self, IoError> {
        let (stopping, stopped) = watch::channel(());
        let published = Arc::clone(published);
        let run = move || {
            // Whatever happens, every watcher and every caller that waits for the end must hear of it.
            if catch_unwind(AssertUnwindSafe(write)).is_err() {
                published.fail_for_good("the writer panicked");
            }
            published.log_mut().close();
            drop(stopping);
        };
        let handle = std::thread::Builder::new()
            .name("windlass-store".to_owned())
            .spawn(run)
            .map_err(IoError::when("start", "a thread for the store".as_ref()))?;
        Ok(Self { stopped, handle: Mutex::new(Some(handle)) })
    }
}

/// Commits a batch, and remembers if that failed: then [`Repair`] has to be tried first.
fn commit(published: &Published, backend: &mut impl Backend, batch: &Batch) -> bool {
    if published.failure().is_some() {
        return false;
    }
    match catch_unwind(AssertUnwindSafe(|| backend.commit(batch))) {
        Ok(Ok(())) => return true,
        Ok(Err(error)) => published.fail(&error.to_string()),
        Err(_) => published.fail_for_good("the storage engine panicked"),
    }
    false
}

/// Getting back to work after a failure of the disk.
struct Repair {
    tried: Instant,
}

impl Repair {
    /// How long it waits before it tries again: opening the file again reads some of it.
    const EVERY: Duration = if cfg!(test) { Duration::ZERO } else { Duration::from_secs(1) };

    /// The revision that is on the disk, if it can be written to again and there is one that may be. What is there otherwise is
    /// replaced by what is in memory, which is all that was ever acknowledged.
    fn attempt(
        &mut self,
        published: &Published,
        backend: &mut impl Backend,
        lag: u64,
        may_be: impl Fn(u64) -> bool,
    ) -> Option<u64> {
        if published.has_failed_for_good() || self.tried.elapsed() < Self::EVERY {
            return None;
        }
        let recover = || {
            let reason = match backend.recover() {
                Ok(found) if may_be(found) => return Ok(found),
                Ok(found) => format!("it has revision {found}"),
                Err(BackendError::Damaged(reason)) => reason,
                Err(error) => return Err(error),
            };
            let state = published.state();
            tracing::warn!(reason, revision = state.revision, "the store is written anew from memory");
            backend.rewrite(&state, lag).map(|()| state.revision)
        };
        let recovered = catch_unwind(AssertUnwindSafe(recover));
        self.tried = Instant::now();
        match recovered {
            Ok(Ok(revision)) => return Some(revision),
            Ok(Err(error)) => published.fail(&error.to_string()),
            Err(_) => published.fail_for_good("the storage engine panicked"),
        }
        None
    }
}

/// Gets back to work. What was in doubt is published if it turns out to be on the disk.
fn recover(
    published: &Published,
    backend: &mut impl Backend,
    repair: &mut Repair,
    doubtful: &mut Option<Pending>,
) {
    let (known, in_doubt) = (published.state().revision, doubtful.as_ref().map(|it| it.batch.revision));
    let may_be = |found| found == known || Some(found) == in_doubt;
    let Some(found) = repair.attempt(published, backend, 0, may_be) else { return };
    if let Some(pending) = doubtful.take().filter(|pending| found == pending.batch.revision) {
        published.publish(pending);
    }
    published.recover();
}

/// Runs until the queue is closed and empty.
fn write_synced(published: &Published, mut backend: impl Backend, requests: &Receiver<Request>) {
    let mut queued = Vec::new();
    let mut patience = Patience::default();
    let mut trust = Trust::default();
    let mut repair = Repair { tried: Instant::now() };
    // What a failed commit may have written nevertheless.
    let mut doubtful = None;
    loop {
        let waiting = queued.len();
        let is_broken = published.failure().is_some() && !published.has_failed_for_good();
        let idle = is_broken.then_some(Repair::EVERY.max(Duration::from_millis(10)));
        let Some(batch) = gather(std::mem::take(&mut queued), requests, patience, idle) else { return };
        if is_broken {
            recover(published, &mut backend, &mut repair, &mut doubtful);
        }
        let transactions = batch.len();
        trust.learn(patience, waiting, transactions);
        let mut pending = Pending::after((*published.state()).clone());
        let answers: Vec<_> =
            batch.into_iter().map(|request| (request.answer, pending.apply(request.transaction))).collect();
        let began = Instant::now();
        if !pending.is_empty() {
            if commit(published, &mut backend, &pending.batch) {
                published.counters.synced(transactions);
                published.publish(pending);
            } else if doubtful.is_none() {
                doubtful = Some(pending);
            }
        }
        let took = began.elapsed();
        // Taken before any caller is answered: these are other callers than those that are about to ask again.
        queued.extend(requests.try_iter().take(BATCH_TRANSACTIONS));
        patience = trust.grant(Patience::after(took, transactions, queued.len()));
        for (answer, outcome) in answers {
            // Even a conflict may be with a write that was not committed.
            let outcome = match published.failure() {
                Some(reason) => Err(CommitError::Failed { reason }),
                None => outcome,
            };
            published.counters.answered(outcome.is_ok());
            // The caller may have gone away.
            let _ = answer.send(outcome);
        }
    }
}

/// The next batch: what has queued up, and what joins it in time. `None` if there will be no more. With `idle`, an
/// empty one if nothing comes for so long.
fn gather(
    mut batch: Vec<Request>,
    requests: &Receiver<Request>,
    patience: Patience,
    idle: Option<Duration>,
) -> Option<Vec<Request>> {
    if batch.is_empty() {
        batch.push(match idle {
            None => requests.recv().ok()?,
            Some(idle) => match requests.recv_timeout(idle) {
                Ok(request) => request,
                Err(RecvTimeoutError::Timeout) => return Some(batch),
                Err(RecvTimeoutError::Disconnected) => return None,
            },
        });
    }
    let mut bytes: usize = batch.iter().map(|request| request.transaction.bytes()).sum();
    let end = Instant::now() + patience.wait;
    while batch.len() < BATCH_TRANSACTIONS && bytes < BATCH_BYTES {
        let next = requests.try_recv().ok().or_else(|| {
            let left = end.saturating_duration_since(Instant::now());
            let waits = batch.len() < patience.expected && !left.is_zero();
            if waits { requests.recv_timeout(left).ok() } else { None }
        });
        let Some(next) = next else { break };
        bytes += next.transaction.bytes();
        batch.push(next);
    }
    Some(batch)
}

/// How long the next batch waits for transactions, and for how many.
///
/// Where writers wait for their answers, a commit finds half of them queued and answers the other half,
/// which then misses the next commit. On a fast disk that is no loss. On a slow one, those who were just
/// answered are waited for a little, so that all of them share a commit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Patience {
    wait: Duration,
    expected: usize,
}

impl Patience {
    /// A commit that takes less is not worth waiting for.
    const SLOW: Duration = Duration::from_millis(2);

    /// What a batch may wait at most, however slow the disk is.
    const MOST: Duration = Duration::from_millis(25);

    /// After a commit that took this long, answered so many and left so many in the queue.
    fn after(took: Duration, answered: usize, queued: usize) -> Self {
        if took < Self::SLOW || queued == 0 {
            return Self::default();
        }
        // A quarter: what is lost if no write comes is little against what is won if one does.
        Self { wait: (took / 4).min(Self::MOST), expected: answered + queued }
    }
}

/// Whether waiting is worth it: those who were answered may have more to do than there is time.
#[derive(Debug, Default)]
struct Trust {
    /// How many batches do not wait before it is tried again.
    pause: u32,
}

impl Trust {
    /// Trying costs a fraction of a commit: once in a while that is next to nothing.
    const PAUSE: u32 = 32;

    /// What became of a batch that had `waiting` in the queue when it began to wait.
    fn learn(&mut self, patience: Patience, waiting: usize, came: usize) {
        let awaited = patience.expected.saturating_sub(waiting);
        if awaited == 0 {
            self.pause = self.pause.saturating_sub(1);
        } else if came.saturating_sub(waiting) * 2 < awaited {
            self.pause = Self::PAUSE;
        }
    }

    fn grant(&self, patience: Patience) -> Patience {
        if self.pause == 0 { patience } else { Patience::default() }
    }
}

/// Runs until everything acknowledged is on the disk and there will be no more.
fn write_relaxed(
    published: &Published,
    room: &Semaphore,
    mut backend: impl Backend,
    batches: &Receiver<Unsynced>,
) {
    let mut repair = Repair { tried: Instant::now() };
    // Up to where everything is on the disk because it was written anew: older batches must not be written over that.
    let mut rewritten = 0;
    while let Ok(mut next) = batches.recv() {
        let mut transactions = 1;
        while next.batch.objects.len() < BATCH_TRANSACTIONS {
            let Ok(more) = batches.try_recv() else { break };
            next.batch.merge(more.batch);
            next.room += more.room;
            transactions += 1;
        }
        next.batch.lag = u64::from(RELAXED_LAG);
        while next.batch.revision > rewritten && !commit(published, &mut backend, &next.batch) {
            if published.has_failed_for_good() {
                break;
            }
            // What was acknowledged is kept until there is room for it, or the store is closed.
            match batches.recv_timeout(Repair::EVERY.max(Duration::from_millis(10))) {
                Ok(more) => {
                    next.batch.merge(more.batch);
                    next.room += more.room;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
            if let Some(found) = repair.attempt(published, &mut backend, u64::from(RELAXED_LAG), |_| true) {
                rewritten = found;
                published.recover();
            }
        }
        if published.failure().is_some() {
            room.close();
            continue;
        }
        published.counters.synced(transactions);
        published.counters.unsynced.fetch_sub(u64::from(next.room), Ordering::Relaxed);
        room.add_permits(next.room as usize);
    }
    // Closed in order: no revision was acknowledged beyond what is on the disk.
    let closing = Batch { revision: published.state().revision, ..Batch::default() };
    commit(published, &mut backend, &closing);
}

/// A lock whose holders only ever replace what is in it, so that a panic leaves nothing half done.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
