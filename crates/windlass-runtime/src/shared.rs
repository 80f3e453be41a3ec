//! What the parts of a manager have in common.

use std::any::TypeId;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use kube::Client;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use windlass_clock::Clock;
use windlass_random::Randomness;

use crate::Kind;
use crate::applied::Memory;
use crate::cache::{AnyCache, Cache, Fed, Feed, Shared as SharedCache};
use crate::controller::Controller;
use crate::events::Recorder;
use crate::faults::Faults;
use crate::key::GroupKind;
use crate::queue::Limits;
use crate::queues::Queues;

pub(crate) struct Shared {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) faults: Faults,
    pub(crate) randomness: Randomness,
    pub(crate) queues: Arc<Queues>,
    pub(crate) events: Recorder,
    pub(crate) memory: Arc<Memory>,
    controllers: Mutex<Vec<Arc<Controller>>>,
    caches: Mutex<Vec<CacheEntry>>,
    state: Mutex<State>,
    /// Rings when the state changes.
    changed: Notify,
}

struct CacheEntry {
    version: String,
    ty: TypeId,
    cache: Arc<dyn AnyCache>,
    /// Its reflector, once it runs.
    task: Option<AbortHandle>,
    /// The same cache, as its reflector feeds it.
    fed: Arc<dyn Fed>,
}

#[derive(Default)]
struct State {
    phase: Phase,
    idle: Option<Idle>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    #[default]
    New,
    Running,
    Stopping,
    Crashed,
    Ended,
}

/// There is nothing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    /// Since when.
    pub since: Timestamp,
    /// When something will be done, if nothing happens before. Never, if there is no time.
    pub until: Option<Timestamp>,
    /// The same with matters of routine, which are done over and over and of which nothing is expected to come: an
    /// extension is asked whether it is still there.
    pub routine: Option<Timestamp>,
}

impl Shared {
    pub(crate) fn new(client: Client, clock: Clock, faults: Faults, seed: Option<u64>) -> Self {
        let randomness = Randomness::new(seed);
        let order =
            clock.is_virtual().then(|| seed.unwrap_or_else(|| randomness.generator(&["order"]).u64(..)));
        Self {
            client,
            clock,
            faults,
            randomness,
            queues: Arc::new(Queues::new(order)),
            events: Recorder::default(),
            memory: Arc::default(),
            controllers: Mutex::default(),
            caches: Mutex::default(),
            state: Mutex::default(),
            changed: Notify::new(),
        }
    }

    /// The cache of a kind, which is made and, if the manager runs, filled.
    pub(crate) fn cache<K: Kind>(&self, dynamic: K::DynamicType) -> Cache<K> {
        let (kind, version) = (GroupKind::of::<K>(&dynamic), K::version(&dynamic).into_owned());
        let mut caches = self.caches();
        let known = caches.iter().find(|entry| {
            entry.ty == TypeId::of::<K>() && entry.version == version && *entry.cache.kind() == kind
        });
        if let Some(entry) = known
            && let Ok(shared) = Arc::clone(&entry.cache).as_any().downcast::<SharedCache<K>>()
        {
            return Cache { shared };
        }
        let cache = Cache::<K>::new(dynamic, Arc::clone(&self.queues), Arc::clone(&self.memory));
        let mut entry = CacheEntry {
            version,
            ty: TypeId::of::<K>(),
            cache: Arc::clone(&cache.shared) as Arc<dyn AnyCache>,
            task: None,
            fed: Arc::clone(&cache.shared) as Arc<dyn Fed>,
        };
        if self.phase() == Phase::Running {
            entry.task = Some(crate::cache::start(Arc::clone(&entry.fed), self.feed()));
        }
        caches.push(entry);
        cache
    }

    /// Starts to fill the caches.
    pub(crate) fn start_caches(&self) {
        for entry in self.caches().iter_mut().filter(|entry| entry.task.is_none()) {
            entry.task = Some(crate::cache::start(Arc::clone(&entry.fed), self.feed()));
        }
    }

    pub(crate) fn stop_caches(&self) {
        for task in self.caches().iter().filter_map(|entry| entry.task.as_ref()) {
            task.abort();
        }
    }

    fn feed(&self) -> Feed {
        Feed { client: self.client.clone(), clock: self.clock.clone(), faults: self.faults.clone() }
    }

    pub(crate) fn all_caches(&self) -> Vec<Arc<dyn AnyCache>> {
        self.caches().iter().map(|entry| Arc::clone(&entry.cache)).collect()
    }

    /// The caches of a kind: one for each type and version it is read as.
    pub(crate) fn caches_of(&self, kind: &GroupKind) -> Vec<Arc<dyn AnyCache>> {
        let caches = self.caches();
        let of_kind = caches.iter().filter(|entry| entry.cache.kind() == kind);
        of_kind.map(|entry| Arc::clone(&entry.cache)).collect()
    }

    pub(crate) fn add_controller(&self, controller: Controller, limits: Limits) -> usize {
        let mut controllers = self.controllers.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.queues.push(&controller.name, limits);
        controllers.push(Arc::new(controller));
        number
    }

    pub(crate) fn controllers(&self) -> Vec<Arc<Controller>> {
        self.controllers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn controller(&self, number: usize) -> Arc<Controller> {
        Arc::clone(&self.controllers.lock().unwrap_or_else(PoisonError::into_inner)[number])
    }

    pub(crate) fn controller_name(&self, number: usize) -> String {
        self.controller(number).name.clone()
    }

    pub(crate) fn phase(&self) -> Phase {
        self.state().phase
    }

    /// Moves on to a later phase; there is no way back.
    pub(crate) fn enter(&self, phase: Phase) {
        let mut state = self.state();
        if phase as u8 > state.phase as u8 {
            state.phase = phase;
            state.idle = None;
        }
        drop(state);
        self.changed.notify_waiters();
        self.queues.wake();
    }

    pub(crate) fn has_crashed(&self) -> bool {
        self.phase() == Phase::Crashed
    }

    /// Stops everything. The caller does not get any further, like all other tasks.
    pub(crate) async fn crash(&self) {
        self.enter(Phase::Crashed);
        std::future::pending().await
    }

    pub(crate) fn set_idle(&self, idle: Option<Idle>) {
        let mut state = self.state();
        if state.idle != idle {
            state.idle = idle;
            drop(state);
            self.changed.notify_waiters();
        }
    }

    /// Waits until there is something to say about the state.
    pub(crate) async fn wait_for<T>(&self, mut what: impl FnMut(Phase, Option<Idle>) -> Option<T>) -> T {
        loop {
            let changed = self.changed.notified();
            let (phase, idle) = {
                let state = self.state();
                (state.phase, state.idle)
            };
            if let Some(answer) = what(phase, idle) {
                return answer;
            }
            changed.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn caches(&self) -> MutexGuard<'_, Vec<CacheEntry>> {
        self.caches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
