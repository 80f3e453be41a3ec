//! The queues of all controllers, and the bell that wakes the one who serves them.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use windlass_random::mix;

use crate::cause::Cause;
use crate::key::ObjectKey;
use crate::queue::{Finished, Limits, Place, Queue};

/// In virtual time a key may be overtaken by those that become ready up to this much later, as the seed has it: then
/// seeds try orders that really happen on a machine with many cores.
const SHUFFLE_MILLIS: u64 = 8;

pub(crate) struct Queues {
    inner: Mutex<Inner>,
    bell: Notify,
    order: Order,
}

/// What decides who is next.
#[derive(Clone, Copy)]
enum Order {
    /// First come, first served.
    Arrival,
    /// In virtual time, the seed decides among those that are ready within a few milliseconds.
    Seed { seed: u64, started: Instant },
}

struct Inner {
    queues: Vec<(String, Queue)>,
    count: u64,
}

/// What there is to do, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Agenda {
    pub(crate) can_start: bool,
    pub(crate) is_quiet: bool,
    pub(crate) next_timer: Option<Instant>,
    pub(crate) next_expected: Option<Instant>,
}

impl Queues {
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let inner = Inner { queues: Vec::new(), count: 0 };
        let order = seed.map_or(Order::Arrival, |seed| Order::Seed { seed, started: Instant::now() });
        Self { inner: Mutex::new(inner), bell: Notify::new(), order }
    }

    /// Adds a queue and returns its number.
    pub(crate) fn push(&self, name: &str, limits: Limits) -> usize {
        let mut inner = self.inner();
        inner.queues.push((name.to_owned(), Queue::new(limits)));
        inner.queues.len() - 1
    }

    pub(crate) fn wake(&self) {
        self.bell.notify_one();
    }

    pub(crate) async fn woken(&self) {
        self.bell.notified().await;
    }

    pub(crate) fn add(&self, controller: usize, key: ObjectKey, cause: Cause) {
        let now = Instant::now();
        let mut inner = self.inner();
        let place = inner.place(self.order, controller, &key, now);
        inner.queues[controller].1.add(key, cause, now, place);
        drop(inner);
        self.wake();
    }

    /// Makes ready what is due, and says what there is to do.
    pub(crate) fn agenda(&self) -> Agenda {
        let now = Instant::now();
        let mut inner = self.inner();
        for controller in 0..inner.queues.len() {
            let Inner { queues, count } = &mut *inner;
            let (name, queue) = &mut queues[controller];
            let mut place = |key: &ObjectKey| place(self.order, count, name, key, now);
            queue.release(now, &mut place);
            queue.unpark(&mut place);
        }
        let queues = || inner.queues.iter().map(|(_, queue)| queue);
        Agenda {
            can_start: queues().any(|queue| queue.front().is_some()),
            is_quiet: queues().all(Queue::is_quiet),
            next_timer: queues().filter_map(Queue::next_timer).min(),
            next_expected: queues().filter_map(Queue::next_expected).min(),
        }
    }

    /// Starts the key that is next among all controllers. `None` if there is none now; look at the agenda again,
    /// because those that must wait for the caches have been put aside.
    pub(crate) fn start(&self) -> Option<(usize, ObjectKey)> {
        let now = Instant::now();
        let mut inner = self.inner();
        let fronts = inner.queues.iter().enumerate();
        let first = fronts.filter_map(|(at, (_, queue))| Some((queue.front()?, at))).min();
        let (_, controller) = first?;
        let key = inner.queues[controller].1.start(now)?;
        Some((controller, key))
    }

    pub(crate) fn finish(
        &self,
        controller: usize,
        key: &ObjectKey,
        finished: Finished,
        rest: Duration,
    ) -> (u32, Option<Duration>) {
        let now = Instant::now();
        let mut inner = self.inner();
        let place = inner.place(self.order, controller, key, now);
        let queue = &mut inner.queues[controller].1;
        queue.rest(key, rest);
        let result = queue.finish(key, finished, now, place);
        drop(inner);
        self.wake();
        result
    }

    /// Looks into a queue, or changes it.
    pub(crate) fn with<T>(&self, controller: usize, work: impl FnOnce(&mut Queue) -> T) -> T {
        work(&mut self.inner().queues[controller].1)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn place(&mut self, order: Order, controller: usize, key: &ObjectKey, now: Instant) -> Place {
        let name = &self.queues[controller].0;
        place(order, &mut self.count, name, key, now)
    }
}

/// No order of arrival in virtual time: that of tasks which wake up at the same moment is not promised.
fn place(order: Order, count: &mut u64, controller: &str, key: &ObjectKey, now: Instant) -> Place {
    match order {
        Order::Arrival => {
            *count += 1;
            (now, *count)
        }
        Order::Seed { seed, started } => {
            let millis = u64::try_from(now.duration_since(started).as_millis()).unwrap_or(u64::MAX);
            let hash = mix(seed, &[controller, &key.namespace, &key.name], millis);
            (now + Duration::from_millis(hash % SHUFFLE_MILLIS), hash)
        }
    }
}
