//! Connections from when they are accepted: those of clients that have not said who they are yet are guests.
//!
//! There is room for a number of guests, and a new one takes the place of the oldest. So clients that connect and
//! say nothing cannot keep out those that authenticate themselves, nor probes, which are done at once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, sleep};

use crate::response::{Body, Waiting};

/// How often, at most, it is said that guests are sent away.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// All connections of a listener.
#[derive(Debug)]
pub(super) struct Visits {
    guests: Mutex<Guests>,
    most_guests: usize,
    /// Places of clients that have said who they are.
    known: Arc<Semaphore>,
}

#[derive(Debug, Default)]
struct Guests {
    visits: VecDeque<Arc<Visit>>,
    sent_away: u64,
    said: Option<Instant>,
}

impl Visits {
    /// Room for so many connections, a quarter of it for guests.
    pub(super) fn new(connections: usize) -> Arc<Self> {
        let most_guests = (connections / 4).max(1);
        let known = Arc::new(Semaphore::new(connections.saturating_sub(most_guests).max(1)));
        Arc::new(Self { guests: Mutex::new(Guests::default()), most_guests, known })
    }

    /// A connection that was accepted.
    pub(super) fn enter(self: &Arc<Self>) -> Arc<Visit> {
        let visit = Arc::new(Visit {
            visits: Arc::clone(self),
            is_known: AtomicBool::new(false),
            place: Mutex::new(None),
            end: Notify::new(),
            open: AtomicU64::new(0),
            activity: Mutex::new(Activity { idle_since: Instant::now(), answers: Vec::new() }),
        });
        let mut guests = self.guests();
        guests.visits.push_back(Arc::clone(&visit));
        while guests.visits.len() > self.most_guests
            && let Some(oldest) = guests.visits.pop_front()
        {
            oldest.end.notify_one();
            guests.sent_away += 1;
            if guests.said.is_none_or(|said| said.elapsed() > SAY_EVERY) {
                tracing::warn!(
                    guests = self.most_guests,
                    sent_away = guests.sent_away,
                    "more connections of clients that have not authenticated themselves than there is room for; \
                     the oldest are closed"
                );
                guests.said = Some(Instant::now());
                guests.sent_away = 0;
            }
        }
        visit
    }

    fn leave(&self, visit: &Visit) {
        self.guests().visits.retain(|guest| !std::ptr::eq(guest.as_ref(), visit));
    }

    fn guests(&self) -> std::sync::MutexGuard<'_, Guests> {
        self.guests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection.
#[derive(Debug)]
pub(super) struct Visit {
    visits: Arc<Visits>,
    is_known: AtomicBool,
    place: Mutex<Option<OwnedSemaphorePermit>>,
    end: Notify,
    /// How many requests are worked on.
    open: AtomicU64,
    activity: Mutex<Activity>,
}

#[derive(Debug)]
struct Activity {
    /// When the last request ended.
    idle_since: Instant,
    /// Answers that may not have been taken yet.
    answers: Vec<Weak<Waiting>>,
}

impl Visit {
    /// The client has said who it is. Whether there is room for it.
    pub(super) fn is_known(&self) -> bool {
        if self.is_known.load(Ordering::Acquire) {
            return true;
        }
        let Ok(permit) = Arc::clone(&self.visits.known).try_acquire_owned() else {
            self.end.notify_one();
            return false;
        };
        *self.place.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        self.is_known.store(true, Ordering::Release);
        self.visits.leave(self);
        true
    }

    /// A request begins. It lasts as long as the guard.
    pub(super) fn request(self: &Arc<Self>) -> Request {
        self.open.fetch_add(1, Ordering::AcqRel);
        Request(Arc::clone(self))
    }

    /// Follows whether the client takes an answer.
    pub(super) fn answer(&self, body: &mut Body) {
        let waiting = Arc::new(Waiting::default());
        let mut activity = self.activity();
        activity.answers.retain(|answer| answer.strong_count() > 0);
        activity.answers.push(Arc::downgrade(&waiting));
        drop(activity);
        body.watched(waiting);
    }

    /// Ends when the connection has to: there is no room for it, a guest asks for nothing, or the client does not
    /// take an answer.
    pub(super) async fn end(&self, patience: Duration, stall: Duration) -> End {
        loop {
            tokio::select! {
                () = self.end.notified() => return End::NoRoom,
                () = sleep(patience.min(stall) / 4) => {}
            }
            let activity = self.activity();
            let idle = self.open.load(Ordering::Acquire) == 0 && activity.idle_since.elapsed() > patience;
            if idle && !self.is_known.load(Ordering::Acquire) {
                return End::Idle;
            }
            let mut answers = activity.answers.iter().filter_map(Weak::upgrade);
            if answers.any(|answer| answer.longer_than(stall)) {
                return End::Stalled;
            }
        }
    }

    fn activity(&self) -> std::sync::MutexGuard<'_, Activity> {
        self.activity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why we end a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// A guest has to make room for another, or there are too many clients.
    NoRoom,
    /// A guest asks for nothing.
    Idle,
    /// The client does not take an answer.
    Stalled,
}

/// Leaves when the connection is over.
#[derive(Debug)]
pub(super) struct Leave(pub(super) Arc<Visit>);

impl Drop for Leave {
    fn drop(&mut self) {
        self.0.visits.leave(&self.0);
    }
}

/// A request that is worked on.
#[derive(Debug)]
pub(super) struct Request(Arc<Visit>);

impl Drop for Request {
    fn drop(&mut self) {
        self.0.activity().idle_since = Instant::now();
        self.0.open.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);
    const STALL: Duration = Duration::from_secs(60);

    #[tokio::test(start_paused = true)]
    async fn a_guest_that_asks_for_nothing_has_to_leave() {
        let visits = Visits::new(8);
        let guest = visits.enter();
        assert_eq!(guest.end(PATIENCE, STALL).await, End::Idle);
        let busy = visits.enter();
        let request = busy.request();
        let end = tokio::time::timeout(PATIENCE * 4, busy.end(PATIENCE, STALL)).await;
        assert!(end.is_err(), "a request is worked on");
        drop(request);
        assert_eq!(busy.end(PATIENCE, STALL).await, End::Idle);
        let known = visits.enter();
        assert!(known.is_known());
        assert!(tokio::time::timeout(PATIENCE * 4, known.end(PATIENCE, STALL)).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_guest_makes_room_and_known_clients_stay() {
        let visits = Visits::new(8);
        let known: Vec<_> = (0..6).map(|_| visits.enter()).collect();
        assert!(known.iter().all(|visit| visit.is_known()));
        let oldest = visits.enter();
        let newer = visits.enter();
        let newest = visits.enter();
        assert_eq!(oldest.end(PATIENCE, STALL).await, End::NoRoom);
        assert!(!newest.is_known(), "all places of known clients are taken");
        drop(known);
        assert!(newer.is_known());
        assert_eq!(visits.guests().visits.len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_take_its_answer_has_to_leave() {
        let visits = Visits::new(8);
        let visit = visits.enter();
        visit.is_known();
        let mut body = Body::whole("x");
        visit.answer(&mut body);
        assert_eq!(visit.end(PATIENCE, STALL).await, End::Stalled);
        drop(body);
        assert!(tokio::time::timeout(STALL * 4, visit.end(PATIENCE, STALL)).await.is_err());
    }
}
