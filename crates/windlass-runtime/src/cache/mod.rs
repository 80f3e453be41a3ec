//! Caches: all objects of a kind as the last events showed them.

mod index;
mod reflector;

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::ResourceExt;
use tokio::sync::Notify;
use windlass_api::identity::complete;
use windlass_api::label_selector::Selector;

use crate::Kind;
use crate::applied::Memory;
use crate::key::{GroupKind, ObjectKey, parse_revision, revision};
use crate::queues::Queues;
use index::{Change, Index};
use reflector::Undecoded;
pub(crate) use reflector::{Fed, Feed, describe, start};

/// All objects of a kind, as far as their events have arrived.
///
/// Reading never waits and never fails. What is read may be old, but never older than what the reconciles of the same
/// key wrote: see [`Context`](crate::Context). `managedFields` say of those fields only whose they are that were applied
/// outside of the status. Cheap to clone; all clones are one cache.
pub struct Cache<K: Kind> {
    pub(crate) shared: Arc<Shared<K>>,
}

/// Called with what an object was and what it is.
type Handler<K> = Arc<dyn Fn(Option<&Arc<K>>, Option<&Arc<K>>) + Send + Sync>;

pub(crate) struct Shared<K: Kind> {
    dynamic: K::DynamicType,
    index: RwLock<Index<K>>,
    handlers: Mutex<Vec<Handler<K>>>,
    state: WatchState,
}

/// The watch of a kind.
pub(crate) struct WatchState {
    kind: GroupKind,
    /// The Rust type that objects are read as: what tells two caches of one kind apart.
    reader: &'static str,
    /// Path of all objects of the kind.
    path: String,
    progress: Mutex<Progress>,
    /// The tasks that wait for the first list, or for its failure.
    attempted: Notify,
    /// Asks the reflector for a new list.
    relist: Notify,
    queues: Arc<Queues>,
    /// Forgets what was applied to objects that go.
    memory: Arc<Memory>,
}

impl WatchState {
    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn listed(&self, version: &str) {
        let mut progress = self.progress();
        progress.seen = progress.seen.max(parse_revision(Some(version)));
        progress.lists += 1;
        progress.is_listing = false;
        progress.last_error = None;
        drop(progress);
        self.attempted.notify_waiters();
    }

    fn note_event(&self, now: Timestamp) {
        let mut progress = self.progress();
        progress.last_event = Some(now);
        progress.events += 1;
    }

    fn advance(&self, seen: u64) {
        let mut progress = self.progress();
        progress.seen = progress.seen.max(seen);
    }
}

/// How far a cache is.
#[derive(Debug, Clone, Default)]
struct Progress {
    /// Every change up to this revision is in the cache.
    seen: u64,
    lists: u64,
    /// Whether a list is on its way.
    is_listing: bool,
    connected: bool,
    failures: u64,
    last_error: Option<String>,
    last_event: Option<Timestamp>,
    events: u64,
    /// Events that have arrived and are held back by the fault injector.
    held_back: usize,
}

/// How the watch of a kind is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchHealth {
    /// The kind.
    pub kind: GroupKind,
    /// How many objects there are.
    pub objects: usize,
    /// How often all of them were listed. It should stay small.
    pub lists: u64,
    /// Whether the watch is open.
    pub connected: bool,
    /// Every change up to this revision is in the cache.
    pub seen: u64,
    /// How many events were taken in.
    pub events: u64,
    /// How many lists and watches failed.
    pub failures: u64,
    /// Why the last of them failed, if none has succeeded since.
    pub last_error: Option<String>,
    /// When the last event arrived.
    pub last_event: Option<Timestamp>,
}

/// A selector that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid selector: {0}")]
pub struct SelectorError(#[from] windlass_api::label_selector::SelectorError);

impl<K: Kind> Cache<K> {
    pub(crate) fn new(dynamic: K::DynamicType, queues: Arc<Queues>, memory: Arc<Memory>) -> Self {
        let state = WatchState {
            kind: GroupKind::of::<K>(&dynamic),
            reader: std::any::type_name::<K>(),
            path: K::url_path(&dynamic, None),
            progress: Mutex::default(),
            attempted: Notify::new(),
            relist: Notify::new(),
            queues,
            memory,
        };
        let shared = Shared { dynamic, index: RwLock::default(), handlers: Mutex::default(), state };
        Self { shared: Arc::new(shared) }
    }

    /// The kind that is cached.
    pub fn kind(&self) -> &GroupKind {
        &self.shared.state.kind
    }

    /// What is known of the kind at run time.
    pub fn dynamic_type(&self) -> &K::DynamicType {
        &self.shared.dynamic
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.read(|index| index.get(key).cloned())
    }

    /// All objects, in the order of their keys, as the answers of all methods here are.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.read(|index| index.iter().cloned().collect())
    }

    /// The objects of a namespace.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.read(|index| index.in_namespace(namespace).cloned().collect())
    }

    /// The objects that have the object with this uid among their owners.
    pub fn owned_by(&self, uid: &str) -> Vec<Arc<K>> {
        self.read(|index| index.owned_by(uid).cloned().collect())
    }

    /// Finds objects by what is read from them: `values` says by which values one is found.
    pub fn lookup(&self, values: impl Fn(&K) -> Vec<String> + Send + Sync + 'static) -> Lookup<K> {
        let mut index = self.shared.index.write().unwrap_or_else(PoisonError::into_inner);
        let number = index.add_values(Arc::new(values));
        Lookup { cache: self.clone(), number }
    }

    /// The objects of a namespace that have all of these labels. No labels select everything.
    pub fn labelled(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<Arc<K>> {
        self.read(|index| index.labelled(namespace, labels, |_| true).cloned().collect())
    }

    /// The objects of a namespace that a selector selects. An empty one selects everything, as in Kubernetes.
    ///
    /// # Errors
    ///
    /// If the selector is not valid.
    pub fn select(&self, namespace: &str, selector: &LabelSelector) -> Result<Vec<Arc<K>>, SelectorError> {
        self.select_where(namespace, selector, |_| true)
    }

    /// Those of the selected objects that `keep` keeps. It is asked before labels are compared.
    ///
    /// # Errors
    ///
    /// If the selector is not valid.
    pub fn select_where(
        &self,
        namespace: &str,
        selector: &LabelSelector,
        keep: impl Fn(&K) -> bool,
    ) -> Result<Vec<Arc<K>>, SelectorError> {
        // Labels with values are looked up in the index; only expressions are left to be evaluated.
        let none = BTreeMap::new();
        let required = selector.match_labels.as_ref().unwrap_or(&none);
        Selector::compile(Some(selector))?;
        let expressions = LabelSelector { match_labels: None, ..selector.clone() };
        let expressions = Selector::compile(Some(&expressions))?;
        Ok(self.read(|index| {
            let labelled = index.labelled(namespace, required, keep);
            labelled.filter(|object| expressions.matches(object.labels())).cloned().collect()
        }))
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.read(Index::len)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the objects have been listed at least once.
    pub fn is_synced(&self) -> bool {
        self.shared.is_synced()
    }

    /// Waits until the objects have been listed once, or that has failed once, with the reason. It is tried again
    /// in any case.
    pub(crate) async fn synced(&self) -> Result<(), String> {
        loop {
            let attempted = self.shared.state.attempted.notified();
            if self.is_synced() {
                return Ok(());
            }
            if let Some(error) = self.shared.health().last_error {
                return Err(error);
            }
            attempted.await;
        }
    }

    /// Calls a function whenever an object is gone from now on, also where another has taken its name: for what is remembered
    /// of objects by their names.
    pub fn on_gone(&self, forget: impl Fn(&K) + Send + Sync + 'static) {
        self.subscribe(Arc::new(move |before, after| {
            let is_same = |before: &Arc<K>| after.is_some_and(|after| after.meta().uid == before.meta().uid);
            if let Some(gone) = before.filter(|before| !is_same(before)) {
                forget(gone);
            }
        }));
    }

    /// Calls a function for what is there and for every change from now on.
    pub(crate) fn subscribe(&self, handler: Handler<K>) {
        let mut handlers = self.shared.handlers.lock().unwrap_or_else(PoisonError::into_inner);
        handlers.push(Arc::clone(&handler));
        drop(handlers);
        for object in self.list() {
            handler(None, Some(&object));
        }
    }

    fn read<T>(&self, read: impl FnOnce(&Index<K>) -> T) -> T {
        read(&self.shared.index.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Finds the objects of a cache by something that is read from them, without looking at all of them.
#[derive(Debug, Clone)]
pub struct Lookup<K: Kind> {
    cache: Cache<K>,
    number: usize,
}

impl<K: Kind> Lookup<K> {
    /// The objects of a namespace that are found by a value.
    pub fn find(&self, namespace: &str, value: &str) -> Vec<Arc<K>> {
        self.cache.read(|index| {
            let found = index.of_value(self.number, value);
            found.filter(|object| object.meta().namespace.as_deref() == Some(namespace)).cloned().collect()
        })
    }
}

/// What the manager does with a cache of any kind.
pub(crate) trait AnyCache: Send + Sync {
    fn kind(&self) -> &GroupKind;
    fn health(&self) -> WatchHealth;
    fn is_synced(&self) -> bool;
    fn is_current(&self) -> bool;
    fn lists(&self) -> u64;
    fn has_seen(&self, revision: u64) -> bool;
    fn is_gone(&self, key: &ObjectKey, uid: &str) -> bool;
    /// Asks for a list that begins after now. It is there when there are so many.
    fn ask_for_list(&self) -> u64;
    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync>;
}

impl<K: Kind> AnyCache for Shared<K> {
    fn kind(&self) -> &GroupKind {
        &self.state.kind
    }

    fn health(&self) -> WatchHealth {
        let progress = self.state.progress().clone();
        WatchHealth {
            kind: self.state.kind.clone(),
            objects: self.index.read().unwrap_or_else(PoisonError::into_inner).len(),
            lists: progress.lists,
            connected: progress.connected,
            seen: progress.seen,
            events: progress.events,
            failures: progress.failures,
            last_error: progress.last_error,
            last_event: progress.last_event,
        }
    }

    fn is_synced(&self) -> bool {
        self.state.progress().lists > 0
    }

    /// Whether everything that has arrived is in the cache, and nothing hinders the rest.
    fn is_current(&self) -> bool {
        let progress = self.state.progress();
        progress.connected && progress.held_back == 0
    }

    fn lists(&self) -> u64 {
        self.state.progress().lists
    }

    fn has_seen(&self, revision: u64) -> bool {
        self.state.progress().seen >= revision
    }

    fn is_gone(&self, key: &ObjectKey, uid: &str) -> bool {
        let index = self.index.read().unwrap_or_else(PoisonError::into_inner);
        index.get(key).is_none_or(|object| object.meta().uid.as_deref() != Some(uid))
    }

    fn ask_for_list(&self) -> u64 {
        self.state.relist.notify_one();
        let progress = self.state.progress();
        // A list that is on its way says nothing about what was written after it was made.
        progress.lists + 1 + u64::from(progress.is_listing)
    }

    fn as_any(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }
}

impl<K: Kind> Fed for Shared<K> {
    fn watch_state(&self) -> &WatchState {
        &self.state
    }

    fn replace(&self, objects: &[Undecoded], version: &str) -> Result<(), serde_json::Error> {
        let mut objects = objects.iter().map(Undecoded::decode).collect::<Result<Vec<K>, _>>()?;
        objects.retain(|object| self.is_complete(object));
        objects.iter_mut().for_each(lighten);
        let changes = self.index.write().unwrap_or_else(PoisonError::into_inner).replace(objects);
        self.state.listed(version);
        self.tell(changes);
        Ok(())
    }

    fn put(&self, object: &Undecoded) -> Result<String, serde_json::Error> {
        let mut object: K = object.decode()?;
        if !self.is_complete(&object) {
            return Ok(object.resource_version().unwrap_or_default());
        }
        lighten(&mut object);
        let (seen, version) = (revision(&object), object.resource_version().unwrap_or_default());
        let change = self.index.write().unwrap_or_else(PoisonError::into_inner).put(object);
        self.state.advance(seen);
        self.tell(change);
        Ok(version)
    }

    fn remove(&self, object: &Undecoded) -> Result<String, serde_json::Error> {
        let object: K = object.decode()?;
        let change =
            self.index.write().unwrap_or_else(PoisonError::into_inner).remove(&ObjectKey::of(&object));
        self.state.advance(revision(&object));
        self.tell(change);
        Ok(object.resource_version().unwrap_or_default())
    }
}

impl<K: Kind> Shared<K> {
    /// Whether an object says which one it is. No reconcile sees one that does not.
    fn is_complete(&self, object: &K) -> bool {
        let kind = &self.state.kind;
        let complete = complete(&kind.kind, object.meta());
        if let Err(error) = &complete {
            tracing::warn!(%kind, %error, "an object of the API cannot be used");
        }
        complete.is_ok()
    }

    /// Tells those who asked, without holding any lock of the cache: they read it.
    fn tell(&self, changes: impl IntoIterator<Item = Change<K>>) {
        let handlers = self.handlers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for change in changes {
            let stays = |before: &Arc<K>| {
                change.after.as_ref().is_some_and(|after| after.meta().uid == before.meta().uid)
            };
            if let Some(gone) = change.before.as_ref().filter(|before| !stays(before)) {
                self.state.memory.forget(gone.meta());
            }
            for handler in &handlers {
                handler(change.before.as_ref(), change.after.as_ref());
            }
        }
        // Also where nothing changed: a reader may wait for this revision.
        self.state.queues.wake();
    }
}

impl<K: Kind> Clone for Cache<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<K: Kind> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cache of {} {}", self.len(), self.kind())
    }
}

/// Leaves out which fields belong to managers who did not apply them, or who own parts of the status. Only what was
/// applied is ever compared with an intent, and the rest is most of what an object takes in memory.
fn lighten<K: Kind>(object: &mut K) {
    for entry in object.meta_mut().managed_fields.iter_mut().flatten() {
        let is_applied = entry.operation.as_deref() == Some("Apply")
            && entry.subresource.as_deref().is_none_or(str::is_empty);
        if !is_applied {
            entry.fields_v1 = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_was_applied_keeps_its_owners() {
        let entry = |operation: &str, subresource: &str| {
            json!({"manager": "m", "operation": operation, "subresource": subresource,
                "fieldsV1": {"f:data": {"f:a": {}}}})
        };
        let entries = [entry("Apply", ""), entry("Apply", "status"), entry("Update", "")];
        let mut map: ConfigMap =
            serde_json::from_value(json!({"metadata": {"managedFields": entries}})).unwrap();
        lighten(&mut map);
        let entries = map.metadata.managed_fields.unwrap();
        let kept: Vec<bool> = entries.iter().map(|entry| entry.fields_v1.is_some()).collect();
        assert_eq!(kept, [true, false, false]);
        assert!(entries.iter().all(|entry| entry.manager.as_deref() == Some("m")), "that they wrote is kept");
    }
}
