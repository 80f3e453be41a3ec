//! The manager: caches, controllers, and how they run.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{ApiResource, DynamicObject};
use tokio::task::JoinHandle;
use windlass_clock::Clock;

use crate::Kind;
use crate::cache::{Cache, WatchHealth};
use crate::controller::ControllerBuilder;
use crate::dispatch::{self, QUANTUM};
use crate::faults::Faults;
use crate::metrics::{ControllerMetrics, Failing};
use crate::shared::{Idle, Phase, Shared};
use crate::writer::Writer;

/// How a manager runs.
#[derive(Debug, Clone)]
pub struct Options {
    clock: Clock,
    seed: Option<u64>,
    faults: Faults,
    longest_pace: Option<Duration>,
    only: Option<Label>,
}

/// A label that objects must have: key and value.
pub(crate) type Label = (String, String);

impl Options {
    /// In real time, without faults.
    pub fn new() -> Self {
        Self { clock: Clock::real(), seed: None, faults: Faults::new(), longest_pace: None, only: None }
    }

    /// Where the time comes from. With a virtual clock, reconciles run in an order that depends on the seed alone.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// What all randomness comes from. Without a seed it is another in every process.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Injects faults, and counts writes.
    #[must_use]
    pub fn faults(mut self, faults: Faults) -> Self {
        self.faults = faults;
        self
    }

    /// No controller takes a slower pace than this: for those who watch and would rather not wait.
    #[must_use]
    pub fn longest_pace(mut self, interval: Duration) -> Self {
        self.longest_pace = Some(interval);
        self
    }

    /// Objects without this label are reconciled by no controller, as if they were not there. They are read all the same:
    /// others may refer to them.
    #[must_use]
    pub fn only_labelled(mut self, key: &str, value: &str) -> Self {
        self.only = Some((key.to_owned(), value.to_owned()));
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// How a manager ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was told to stop, and what was being reconciled is done.
    Stopped,
    /// The fault injector stopped it in the middle of something.
    Crashed,
}

/// Runs controllers on one API. Cheap to clone; all clones are one manager, which runs once.
#[derive(Clone)]
pub struct Manager {
    pub(crate) shared: Arc<Shared>,
    pub(crate) longest_pace: Option<Duration>,
    pub(crate) only: Option<Label>,
}

impl Manager {
    /// A manager that does nothing yet.
    pub fn new(client: Client, options: Options) -> Self {
        let shared = Shared::new(client, options.clock, options.faults, options.seed);
        Self { shared: Arc::new(shared), longest_pace: options.longest_pace, only: options.only }
    }

    /// The cache of a kind known at compile time.
    pub fn cache<K: Kind>(&self) -> Cache<K>
    where
        K::DynamicType: Default,
    {
        self.shared.cache(K::DynamicType::default())
    }

    /// The cache of a kind known at run time.
    pub fn cache_of(&self, resource: &ApiResource) -> Cache<DynamicObject> {
        self.shared.cache(resource.clone())
    }

    /// Begins a controller that reconciles the objects of a cache.
    pub fn controller<K: Kind>(&self, name: &str, primary: &Cache<K>) -> ControllerBuilder {
        ControllerBuilder::new(self.clone(), name, primary)
    }

    /// Writes for no key: no reconcile waits for the caches to see it.
    pub fn writer<K: Kind>(&self) -> Writer<K>
    where
        K::DynamicType: Default,
    {
        Writer::new(Arc::clone(&self.shared), &K::DynamicType::default(), None)
    }

    /// Writes objects of a kind known at run time for no key.
    pub fn writer_of(&self, resource: &ApiResource) -> Writer<DynamicObject> {
        Writer::new(Arc::clone(&self.shared), resource, None)
    }

    /// Runs until it is stopped. Dropping the future is like killing the process.
    pub async fn run(&self) -> Ended {
        dispatch::run(&self.shared).await
    }

    /// Runs in a task of its own.
    pub fn start(&self) -> Running {
        let manager = self.clone();
        Running { manager: self.clone(), task: tokio::spawn(async move { manager.run().await }) }
    }

    /// Starts no reconcile any more, and ends when the running ones are done.
    pub fn stop(&self) {
        self.shared.enter(Phase::Stopping);
    }

    /// Waits until there is nothing to do: no key is ready, running or waiting for a cache, every cache has what has
    /// arrived, and only times are waited for. In virtual time, what was written before the call has arrived. A
    /// manager that has ended is idle.
    pub async fn idle(&self) -> Idle {
        if self.shared.clock.is_virtual() {
            // Time passes only when nothing else can: so all other tasks have had their turn by then.
            tokio::time::sleep(QUANTUM * 2).await;
        }
        self.shared
            .wait_for(|phase, idle| match phase {
                Phase::Crashed | Phase::Ended => {
                    Some(Idle { since: self.shared.clock.now(), until: None, routine: None })
                }
                _ => idle,
            })
            .await
    }

    /// Waits until something has been done since, or is to be done. Returns at once if the manager is not idle.
    pub async fn busy(&self) {
        self.shared.wait_for(|phase, idle| (idle.is_none() || phase == Phase::Ended).then_some(())).await;
    }

    /// The clock.
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// What the controllers have done, by their names.
    pub fn metrics(&self) -> BTreeMap<String, ControllerMetrics> {
        let controllers = self.shared.controllers();
        let each = controllers.iter().enumerate().map(|(number, controller)| {
            let (queued, running) = self.shared.queues.with(number, |queue| (queue.depth(), queue.running()));
            (controller.name.clone(), ControllerMetrics { queued, running, ..controller.counters.metrics() })
        });
        each.collect()
    }

    /// The keys whose last reconcile failed.
    pub fn failing(&self) -> Vec<Failing> {
        let controllers = self.shared.controllers();
        let each = controllers.iter().enumerate().flat_map(|(number, controller)| {
            let keys: Vec<_> = self.shared.queues.with(number, |queue| {
                queue.failing().map(|(key, failures)| (key.clone(), failures)).collect()
            });
            keys.into_iter().map(|(key, failures)| Failing {
                controller: controller.name.clone(),
                error: controller.counters.error(&key).unwrap_or_else(|| "unknown".to_owned()),
                key,
                failures,
            })
        });
        each.collect()
    }

    /// How the watches are.
    pub fn watches(&self) -> Vec<WatchHealth> {
        self.shared.all_caches().iter().map(|cache| cache.health()).collect()
    }

    /// How many Events were dropped, because too many waited to be written.
    pub fn dropped_events(&self) -> u64 {
        self.shared.events.dropped()
    }

    /// How many writes there were.
    pub fn writes(&self) -> u64 {
        self.shared.faults.writes()
    }
}

impl fmt::Debug for Manager {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let controllers = self.shared.controllers();
        let names: Vec<&str> = controllers.iter().map(|controller| controller.name.as_str()).collect();
        f.debug_struct("Manager").field("controllers", &names).finish_non_exhaustive()
    }
}

/// A manager that runs in a task. Dropping it kills the task, as if the process had been killed.
#[derive(Debug)]
pub struct Running {
    manager: Manager,
    task: JoinHandle<Ended>,
}

impl Running {
    /// Stops the manager and waits until it has ended, for at most this time.
    pub async fn stop(mut self, patience: Duration) -> Ended {
        self.manager.stop();
        match tokio::time::timeout(patience, &mut self.task).await {
            Ok(Ok(ended)) => ended,
            Ok(Err(_)) | Err(_) => Ended::Crashed,
        }
    }

    /// Waits until the manager has ended by itself.
    pub async fn ended(&mut self) -> Ended {
        (&mut self.task).await.unwrap_or(Ended::Crashed)
    }

    /// Whether the manager has ended, or is about to because of a fault: nothing is written any more.
    pub fn has_ended(&self) -> bool {
        self.task.is_finished() || self.manager.shared.has_crashed()
    }

    /// The manager.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}
