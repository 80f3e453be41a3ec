//! What clients may take of the server: requests, watches, and answers that they have not read yet.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::api::Failure;
use crate::server::Limits;

/// How long a request waits for its turn when there are too many.
const PLACE_PATIENCE: Duration = Duration::from_secs(10);

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A client in this process: our own controllers.
    Process,
    /// A client that has connected.
    Network,
}

/// A budget for each origin. Whatever clients outside take, controllers have theirs.
#[derive(Debug)]
pub(crate) struct Budgets {
    process: Arc<Budget>,
    network: Arc<Budget>,
}

impl Budgets {
    pub(crate) fn new(limits: &Limits) -> Self {
        // Controllers are one user of this process, and may use all of what there is for it.
        let process = Limits { requests_per_user: limits.requests, ..*limits };
        Self { process: Arc::new(Budget::new(&process)), network: Arc::new(Budget::new(limits)) }
    }

    pub(crate) fn of(&self, origin: Origin) -> &Arc<Budget> {
        match origin {
            Origin::Process => &self.process,
            Origin::Network => &self.network,
        }
    }
}

/// What is left, of all together and of each user.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    requests: Arc<Semaphore>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    answer_bytes: u64,
    /// There are as many as there are users that take something at the moment.
    users: BTreeMap<String, User>,
}

#[derive(Debug)]
struct User {
    places: Arc<Semaphore>,
    /// How many guards refer to this user.
    guards: usize,
    watches: usize,
    answer_bytes: u64,
}

impl Budget {
    fn new(limits: &Limits) -> Self {
        Self {
            limits: *limits,
            requests: Arc::new(Semaphore::new(limits.requests)),
            taken: Mutex::new(Taken::default()),
        }
    }

    /// A place among the requests of one user. It lasts until the answer has been taken.
    pub(crate) async fn place_of(self: &Arc<Self>, user: &str) -> Result<Place, Failure> {
        let share = self.share(user);
        let places = share.with(|user| Arc::clone(&user.places));
        let places = places.ok_or_else(|| Failure::internal("the account of a user is gone"))?;
        Ok(Place { _permit: place(places).await?, _share: share })
    }

    /// A place among the requests that are worked on. A watch lasts long and does little: those are counted apart.
    pub(crate) async fn turn(&self) -> Result<OwnedSemaphorePermit, Failure> {
        place(Arc::clone(&self.requests)).await
    }

    /// One of the watches that a user may have.
    pub(crate) fn watch(self: &Arc<Self>, user: &str) -> Result<WatchSlot, Failure> {
        let share = self.share(user);
        let fits = share.with(|user| {
            let fits = user.watches < self.limits.watches_per_user;
            user.watches += usize::from(fits);
            fits
        });
        match fits.unwrap_or(false) {
            true => Ok(WatchSlot { share }),
            false => Err(Failure::too_many_requests("too many watches, please close some")),
        }
    }

    /// Room for an answer that the client has yet to take.
    pub(crate) fn answer(self: &Arc<Self>, user: &str, bytes: u64) -> Result<Answer, Failure> {
        let mut answer = Answer { share: self.share(user), bytes: 0 };
        if answer.resize(bytes) {
            return Ok(answer);
        }
        let message = "too many answers are waiting to be read, please read them and try again";
        Err(Failure::too_many_requests(message))
    }

    pub(crate) fn answer_bytes(&self) -> u64 {
        self.taken().answer_bytes
    }

    fn share(self: &Arc<Self>, user: &str) -> Share {
        let mut taken = self.taken();
        let entry = taken.users.entry(user.to_owned()).or_insert_with(|| User {
            places: Arc::new(Semaphore::new(self.limits.requests_per_user)),
            guards: 0,
            watches: 0,
            answer_bytes: 0,
        });
        entry.guards += 1;
        Share { budget: Arc::clone(self), user: user.to_owned() }
    }

    fn taken(&self) -> std::sync::MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a place, but not long.
async fn place(places: Arc<Semaphore>) -> Result<OwnedSemaphorePermit, Failure> {
    match timeout(PLACE_PATIENCE, places.acquire_owned()).await {
        Ok(Ok(place)) => Ok(place),
        _ => Err(Failure::too_many_requests("too many requests, please try again later")),
    }
}

/// Keeps the account of a user as long as the user takes something.
#[derive(Debug)]
struct Share {
    budget: Arc<Budget>,
    user: String,
}

impl Share {
    /// The account is there as long as a share of it is.
    fn with<T>(&self, change: impl FnOnce(&mut User) -> T) -> Option<T> {
        self.budget.taken().users.get_mut(&self.user).map(change)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.budget.taken();
        if let Some(user) = taken.users.get_mut(&self.user) {
            user.guards -= 1;
            if user.guards == 0 {
                taken.users.remove(&self.user);
            }
        }
    }
}

/// A request under way, until its answer has been taken.
#[derive(Debug)]
pub(crate) struct Place {
    _permit: OwnedSemaphorePermit,
    _share: Share,
}

/// A watch under way.
#[derive(Debug)]
pub(crate) struct WatchSlot {
    share: Share,
}

impl Drop for WatchSlot {
    fn drop(&mut self) {
        self.share.with(|user| user.watches -= 1);
    }
}

/// Bytes that are kept for a client.
#[derive(Debug)]
pub(crate) struct Answer {
    share: Share,
    bytes: u64,
}

impl Answer {
    /// Keeps more or less. Whether there is room; if not, nothing has changed. One answer alone always fits, however
    /// large an object is.
    pub(crate) fn resize(&mut self, bytes: u64) -> bool {
        let limits = &self.share.budget.limits;
        let mut taken = self.share.budget.taken();
        let more = bytes.saturating_sub(self.bytes);
        let own = taken.users.get(&self.share.user).map_or(0, |user| user.answer_bytes);
        let fits = |kept: u64, limit: u64| more == 0 || kept == 0 || kept + more <= limit;
        if !fits(taken.answer_bytes, limits.answer_bytes) || !fits(own, limits.answer_bytes_per_user) {
            return false;
        }
        taken.answer_bytes = taken.answer_bytes - self.bytes + bytes;
        if let Some(user) = taken.users.get_mut(&self.share.user) {
            user.answer_bytes = user.answer_bytes - self.bytes + bytes;
        }
        self.bytes = bytes;
        true
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits() -> Limits {
        Limits { answer_bytes: 100, answer_bytes_per_user: 60, watches_per_user: 1, ..Limits::default() }
    }

    #[test]
    fn answers_are_bounded_for_each_user_and_in_all() {
        let budgets = Budgets::new(&limits());
        let budget = budgets.of(Origin::Network);
        let first = budget.answer("eve", 50).unwrap();
        assert_eq!(budget.answer("eve", 20).unwrap_err().code(), 429);
        let other = budget.answer("bob", 40).unwrap();
        assert_eq!(budget.answer("bob", 15).unwrap_err().code(), 429, "all together");
        assert_eq!(budget.answer_bytes(), 90);
        drop(first);
        assert_eq!(budget.answer_bytes(), 40);
        assert_eq!(budget.taken().users.len(), 1, "who takes nothing is forgotten");
        drop(other);
        assert!(budget.answer("ann", 1_000).is_ok(), "one alone always fits");
    }

    #[tokio::test(start_paused = true)]
    async fn clients_outside_take_nothing_from_those_in_the_process() {
        let budgets = Budgets::new(&Limits { requests: 2, requests_per_user: 2, ..limits() });
        let (outside, inside) = (budgets.of(Origin::Network), budgets.of(Origin::Process));
        let _taken = (outside.turn().await.unwrap(), outside.turn().await.unwrap());
        let _places = (outside.place_of("admin").await.unwrap(), outside.place_of("admin").await.unwrap());
        let _watch = outside.watch("admin").unwrap();
        assert_eq!(outside.turn().await.unwrap_err().code(), 429);
        assert_eq!(outside.place_of("admin").await.unwrap_err().code(), 429);
        assert_eq!(outside.watch("admin").unwrap_err().code(), 429);
        assert!(inside.turn().await.is_ok());
        assert!(inside.place_of("admin").await.is_ok());
        assert!(inside.watch("admin").is_ok());
    }
}
