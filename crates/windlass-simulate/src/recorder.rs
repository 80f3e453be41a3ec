//! Everything that is written, in the order in which it is, and the rules that must hold after each write.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::task::AbortHandle;
use windlass_runtime::{Clock, Kind, ObjectKey};
use windlass_store::{Event, EventKind, Scope, Store, WatchError};

/// One write, seen from the store.
#[derive(Debug)]
pub struct Written<'a> {
    /// When it happened.
    pub at: Timestamp,
    event: &'a Event,
}

impl Written<'_> {
    /// The object.
    pub fn key(&self) -> ObjectKey {
        ObjectKey::new(self.event.key().namespace(), self.event.key().name())
    }

    /// The revision of the store that it made.
    pub fn revision(&self) -> u64 {
        self.event.revision()
    }

    /// Whether the object is gone with this write.
    pub fn is_deletion(&self) -> bool {
        self.event.kind() == EventKind::Deleted
    }

    /// Whether the object was not there before.
    pub fn is_creation(&self) -> bool {
        self.event.kind() == EventKind::Created
    }

    /// Whether the object is of this kind.
    pub fn is<K: Kind>(&self) -> bool
    where
        K::DynamicType: Default,
    {
        self.event.key().resource().as_str() == resource_of::<K>()
    }

    /// The object after the write, or before it was deleted, if it is of this kind.
    pub fn object<K: Kind>(&self) -> Option<K>
    where
        K::DynamicType: Default,
    {
        if self.is::<K>() { decode(self.event.object().value()) } else { None }
    }

    /// What the object was and what it is, of whatever kind; null where it was not there.
    pub fn values(&self) -> (Value, Value) {
        let before = self.event.previous().and_then(|before| decode(before.value()));
        let after = if self.is_deletion() { None } else { decode(self.event.object().value()) };
        (before.unwrap_or_default(), after.unwrap_or_default())
    }
}

/// What the store calls the objects of a kind.
pub(crate) fn resource_of<K: Kind>() -> String
where
    K::DynamicType: Default,
{
    resource_of_dynamic::<K>(&K::DynamicType::default())
}

/// The same for a kind known at run time.
pub(crate) fn resource_of_dynamic<K: Kind>(dynamic: &K::DynamicType) -> String {
    let group = K::group(dynamic);
    format!("{}/{}", if group.is_empty() { "core" } else { &group }, K::plural(dynamic))
}

pub(crate) fn decode<K: DeserializeOwned>(bytes: &[u8]) -> Option<K> {
    windlass_api::read::from_bytes(bytes).ok()
}

/// Looks at every write. What it returns is a rule that was broken.
pub trait Observer: Send + 'static {
    /// Takes in one write.
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String>;
}

impl<F: FnMut(&Written<'_>) -> Result<(), String> + Send + 'static> Observer for F {
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String> {
        self(written)
    }
}

/// A rule that was broken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("at {at}, revision {revision}, after a write of {key}: {rule}")]
pub struct Violation {
    /// When.
    pub at: Timestamp,
    /// The revision of the store at which it was broken.
    pub revision: u64,
    /// What was written, in the words of the store.
    pub key: String,
    /// The rule, and how it was broken.
    pub rule: String,
}

/// Reads all writes of a store, from the moment it is made.
pub(crate) struct Recorder {
    inner: Arc<Mutex<Inner>>,
    task: AbortHandle,
}

#[derive(Default)]
struct Inner {
    observers: Vec<Box<dyn Observer>>,
    violation: Option<Violation>,
    /// The last revision that was looked at.
    seen: u64,
}

impl Recorder {
    pub(crate) fn start(store: &Store, clock: Clock) -> Result<Self, windlass_store::Expired> {
        let inner = Arc::new(Mutex::new(Inner::default()));
        let mut watcher = store.watch(Scope::All, store.revision())?;
        let shared = Arc::clone(&inner);
        let read = async move {
            loop {
                match watcher.next().await {
                    Ok(event) => {
                        shared.lock().unwrap_or_else(PoisonError::into_inner).take(&event, clock.now())
                    }
                    Err(WatchError::Closed) => return,
                    Err(error @ WatchError::Expired(_)) => {
                        // Would be a mistake here: nothing is written while this task is not given its turn. What was
                        // not looked at may have broken any rule.
                        shared.lock().unwrap_or_else(PoisonError::into_inner).lose_sight(&error, clock.now());
                        return;
                    }
                }
            }
        };
        Ok(Self { inner, task: tokio::spawn(read).abort_handle() })
    }

    pub(crate) fn add(&self, observer: impl Observer) {
        self.inner().observers.push(Box::new(observer));
    }

    pub(crate) fn violation(&self) -> Option<Violation> {
        self.inner().violation.clone()
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn take(&mut self, event: &Event, at: Timestamp) {
        let written = Written { at, event };
        for observer in &mut self.observers {
            let result = observer.observe(&written);
            if let Err(rule) = result
                && self.violation.is_none()
            {
                let (revision, key) = (event.revision(), event.key().to_string());
                self.violation = Some(Violation { at, revision, key, rule });
            }
        }
        self.seen = event.revision();
    }

    fn lose_sight(&mut self, error: &WatchError, at: Timestamp) {
        let (key, rule) = ("something".to_owned(), format!("not all writes were looked at: {error}"));
        self.violation.get_or_insert(Violation { at, revision: self.seen + 1, key, rule });
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recorder with {} observers", self.inner().observers.len())
    }
}
