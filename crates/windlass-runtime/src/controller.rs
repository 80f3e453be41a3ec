//! A controller: a queue, a reconciler, and what fills the queue.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;

use crate::Kind;
use crate::cache::Cache;
use crate::cause::Cause;
use crate::key::{GroupKind, ObjectKey};
use crate::manager::Manager;
use crate::metrics::Counters;
use crate::queue::{Backoff, Limits};
use crate::reconciler::{AnyReconciler, Reconciler};
use crate::shared::Shared;

/// How many keys a controller reconciles at the same time, if it does not say. Enough to hide the time that one waits
/// for an extension or a workload cluster.
const CONCURRENCY: usize = 10;

type MapDynamic = Arc<dyn Fn(&DynamicObject) -> Vec<ObjectKey> + Send + Sync>;
/// Whether an object is one that this process looks after.
type Admits = Arc<dyn Fn(&ObjectKey) -> bool + Send + Sync>;
/// Sets up a trigger once the controller has its number.
type Trigger = Box<dyn FnOnce(usize) + Send>;

pub(crate) struct Controller {
    pub(crate) name: String,
    pub(crate) kind: GroupKind,
    pub(crate) reconciler: Arc<dyn AnyReconciler>,
    pub(crate) counters: Counters,
    admits: Option<Admits>,
    map_dynamic: MapDynamic,
    dynamic: Mutex<BTreeSet<GroupKind>>,
}

impl Controller {
    /// Whether an object is one that this process looks after. One that is gone is: what is remembered of it goes, too.
    pub(crate) fn admits(&self, key: &ObjectKey) -> bool {
        self.admits.as_ref().is_none_or(|admits| admits(key))
    }

    /// Lets events of a cache that was found at run time fill the queue, once.
    pub(crate) fn subscribe_dynamic(&self, shared: &Shared, number: usize, cache: &Cache<DynamicObject>) {
        let mut known = self.dynamic.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.insert(cache.kind().clone()) {
            return;
        }
        drop(known);
        let (map, queues) = (Arc::clone(&self.map_dynamic), Arc::clone(&shared.queues));
        cache.subscribe(Arc::new(move |before, after| {
            let cause = Cause::of(before.map(AsRef::as_ref), after.map(AsRef::as_ref));
            for key in before.into_iter().chain(after).flat_map(|object| map(object)) {
                queues.add(number, key, cause.clone());
            }
        }));
    }
}

/// Says what a controller reacts to.
#[must_use = "a controller does nothing before it is registered"]
pub struct ControllerBuilder {
    manager: Manager,
    name: String,
    kind: GroupKind,
    limits: Limits,
    triggers: Vec<Trigger>,
    map_dynamic: Option<MapDynamic>,
    admits: Option<Admits>,
}

impl ControllerBuilder {
    pub(crate) fn new<K: Kind>(manager: Manager, name: &str, primary: &Cache<K>) -> Self {
        let limits = Limits { concurrency: CONCURRENCY, pace: Duration::ZERO, backoff: Backoff::default() };
        let kind = primary.kind().clone();
        let admits = manager.only.clone().map(|(key, value)| {
            let objects = primary.clone();
            let admits = move |object: &ObjectKey| {
                let has = |found: &K| found.labels().get(&key) == Some(&value);
                objects.get(object).is_none_or(|found| has(&found))
            };
            Arc::new(admits) as Admits
        });
        let (name, triggers) = (name.to_owned(), Vec::new());
        let builder = Self { manager, name, kind, limits, triggers, map_dynamic: None, admits };
        builder.watches(primary, |object| vec![ObjectKey::of(object)])
    }

    /// Also reacts to objects that are controlled by one of the reconciled kind: the key is that of the controller.
    pub fn owns<K: Kind>(self, cache: &Cache<K>) -> Self {
        let kind = self.kind.clone();
        self.watches(cache, move |object| kind.controller_of(object).into_iter().collect())
    }

    /// Also reacts to objects of another kind: `map` says which keys one is about. It is asked for what the object was
    /// and for what it is, so that the former owner hears of it, too.
    pub fn watches<K: Kind>(
        self,
        cache: &Cache<K>,
        map: impl Fn(&K) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.watches_changes(cache, move |before, after| {
            let mut keys = before.map(&map).unwrap_or_default();
            for key in after.map(&map).unwrap_or_default() {
                if !keys.contains(&key) {
                    keys.push(key);
                }
            }
            keys
        })
    }

    /// Also reacts to changes of another kind. `map` is given what the object was and what it is, and returns no keys
    /// for changes that do not matter.
    pub fn watches_changes<K: Kind>(
        mut self,
        cache: &Cache<K>,
        map: impl Fn(Option<&K>, Option<&K>) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        let (cache, queues) = (cache.clone(), Arc::clone(&self.manager.shared.queues));
        self.triggers.push(Box::new(move |number| {
            cache.subscribe(Arc::new(move |before, after| {
                let (before, after) = (before.map(AsRef::as_ref), after.map(AsRef::as_ref));
                for key in map(before, after) {
                    queues.add(number, key, Cause::of(before, after));
                }
            }));
        }));
        self
    }

    /// Also reacts to what a trigger asks for.
    pub fn triggered_by(mut self, trigger: &crate::trigger::Trigger) -> Self {
        let (trigger, queues) = (trigger.clone(), Arc::clone(&self.manager.shared.queues));
        self.triggers.push(Box::new(move |number| trigger.target(queues, number)));
        self
    }

    /// How objects of kinds that are found at run time map to keys; see [`Context::watch`](crate::Context::watch).
    pub fn on_dynamic(
        mut self,
        map: impl Fn(&DynamicObject) -> Vec<ObjectKey> + Send + Sync + 'static,
    ) -> Self {
        self.map_dynamic = Some(Arc::new(map));
        self
    }

    /// How many keys are reconciled at the same time.
    pub fn concurrency(mut self, keys: usize) -> Self {
        self.limits.concurrency = keys.max(1);
        self
    }

    /// How much time must be between two starts for the same key. What happens in between is reconciled at once at
    /// the end of it, which saves work where an object has thousands of others below it.
    pub fn pace(mut self, interval: Duration) -> Self {
        self.limits.pace = interval;
        self
    }

    /// How long a key waits after its reconcile failed.
    pub fn backoff(mut self, backoff: Backoff) -> Self {
        self.limits.backoff = backoff;
        self
    }

    /// Registers the controller. It runs when the manager does.
    pub fn register<R: Reconciler>(mut self, reconciler: R) {
        let shared = &self.manager.shared;
        if let Some(longest) = self.manager.longest_pace {
            self.limits.pace = self.limits.pace.min(longest);
        }
        let kind = self.kind.clone();
        let by_owner = move |object: &DynamicObject| kind.owners_of(object);
        let controller = Controller {
            counters: Counters::default(),
            name: self.name,
            kind: self.kind,
            reconciler: Arc::new(reconciler),
            map_dynamic: self.map_dynamic.unwrap_or_else(|| Arc::new(by_owner)),
            dynamic: Mutex::default(),
            admits: self.admits,
        };
        let number = shared.add_controller(controller, self.limits);
        for trigger in self.triggers {
            trigger(number);
        }
    }
}
