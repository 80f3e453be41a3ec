//! What a reconcile is given besides its key.

use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kube::Client;
use kube::api::{ApiResource, DynamicObject, GetParams};
use kube::core::Request;
use windlass_random::{Generator, name_suffix, uuid};

use crate::Kind;
use crate::cache::{Cache, describe};
use crate::controller::Controller;
use crate::events::{Event, EventType};
use crate::key::{GroupKind, ObjectKey};
use crate::shared::Shared;
use crate::writer::Writer;

/// The time, writers, randomness and events for one reconcile.
///
/// **Read your writes.** What was written with a [`Writer`] of this context is in the caches when the same key is
/// reconciled next: created, changed and deleted objects alike. If an answer was lost, so that it is unknown whether a
/// write happened, everything of that kind is listed anew before. Within one reconcile the caches need not show what
/// was just written: use what the writer returns.
pub struct Context {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: usize,
    pub(crate) controller: Arc<Controller>,
    pub(crate) key: ObjectKey,
    /// What was drawn for names in this reconcile.
    pub(crate) drawn: Mutex<Vec<String>>,
}

/// The objects of a kind cannot be watched, yet.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot watch {kind}: {reason}")]
pub struct WatchKindError {
    /// The kind.
    pub kind: GroupKind,
    /// Why not.
    pub reason: String,
}

/// How many bytes a secret is made from: enough for a bootstrap token, also after those are left out that would make some of its
/// characters more likely than others.
const SECRET: usize = 64;

/// The operating system has no random bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the operating system has no random bytes: {0}")]
pub struct NoRandomness(String);

impl Context {
    /// The time.
    pub fn now(&self) -> Timestamp {
        self.shared.clock.now()
    }

    /// What is being reconciled.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The client, for reads that no cache answers. Write with a [`Writer`].
    pub fn client(&self) -> &Client {
        &self.shared.client
    }

    /// Writes objects of a kind known at compile time.
    pub fn writer<K: Kind>(&self) -> Writer<K>
    where
        K::DynamicType: Default,
    {
        Writer::new(Arc::clone(&self.shared), &K::DynamicType::default(), self.origin())
    }

    /// Writes objects of a kind known at run time.
    pub fn writer_of(&self, resource: &ApiResource) -> Writer<DynamicObject> {
        Writer::new(Arc::clone(&self.shared), resource, self.origin())
    }

    /// Reads an object from the API, for kinds that are not cached.
    pub async fn get<K: Kind>(&self, key: &ObjectKey) -> Result<Option<K>, kube::Error>
    where
        K::DynamicType: Default,
    {
        self.get_of(&K::DynamicType::default(), key).await
    }

    /// Reads an object of a kind known at run time from the API.
    pub async fn get_of<K: Kind>(
        &self,
        dynamic: &K::DynamicType,
        key: &ObjectKey,
    ) -> Result<Option<K>, kube::Error> {
        let path = Request::new(K::url_path(dynamic, key.namespace()));
        let request = path.get(&key.name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
        match self.shared.client.request(request).await {
            Ok(object) => Ok(Some(object)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Watches a kind from now on, if it is not watched already, and returns its cache.
    ///
    /// Events of its objects are mapped to keys as [`on_dynamic`](crate::ControllerBuilder::on_dynamic) said; without
    /// that, to those owners of theirs that this controller reconciles.
    ///
    /// # Errors
    ///
    /// If the objects cannot be listed, most likely because there is no such kind. It is tried again in the
    /// background, and the key by the error.
    pub async fn watch(&self, resource: &ApiResource) -> Result<Cache<DynamicObject>, WatchKindError> {
        let cache: Cache<DynamicObject> = self.shared.cache(resource.clone());
        cache.synced().await.map_err(|reason| WatchKindError { kind: cache.kind().clone(), reason })?;
        self.controller.subscribe_dynamic(&self.shared, self.number, &cache);
        Ok(cache)
    }

    /// Five characters for the end of a name. They come from the seed of the manager, the object that is reconciled, what is
    /// named, and how many names of it there were: names of other objects change nothing.
    pub fn name_suffix(&self, what: &str) -> String {
        self.drawn(name_suffix(&mut self.generator(&["name", what])))
    }

    /// A random UUID, which comes from the same as [`Context::name_suffix`].
    pub fn uuid(&self, what: &str) -> String {
        self.drawn(uuid(&mut self.generator(&["uuid", what])))
    }

    /// Bytes for a secret: from the operating system, so that they cannot be guessed. In virtual time, where there is nothing to
    /// protect, they come from the same as [`Context::name_suffix`], so that a run depends on its seed alone.
    ///
    /// # Errors
    ///
    /// If the operating system has none.
    pub fn secret(&self, what: &str) -> Result<[u8; SECRET], NoRandomness> {
        let mut bytes = [0; SECRET];
        if self.shared.clock.is_virtual() {
            self.generator(&["secret", what]).fill(&mut bytes);
        } else {
            getrandom::fill(&mut bytes).map_err(|error| NoRandomness(error.to_string()))?;
        }
        Ok(bytes)
    }

    /// A message with `*` in place of everything that was drawn for names in this reconcile.
    ///
    /// A create that is refused is tried again under another name. An error with such a name in it would be another one
    /// each time, and so would be the condition, and the Event, that it is written to.
    pub fn steady(&self, message: impl ToString) -> String {
        let drawn = self.drawn.lock().unwrap_or_else(PoisonError::into_inner);
        drawn.iter().fold(message.to_string(), |message, drawn| message.replace(drawn.as_str(), "*"))
    }

    fn drawn(&self, random: String) -> String {
        self.drawn.lock().unwrap_or_else(PoisonError::into_inner).push(random.clone());
        random
    }

    fn generator(&self, what: &[&str; 2]) -> Generator {
        let ObjectKey { namespace, name } = &self.key;
        self.shared.randomness.generator(&[&self.controller.name, namespace, name, what[0], what[1]])
    }

    /// Tells users what happened to an object, as a Kubernetes Event. It is written in the background, and may be
    /// lost.
    pub fn event<K: Kind>(&self, object: &K, event: EventType, reason: &str, message: impl Into<String>)
    where
        K::DynamicType: Default,
    {
        self.event_of(&K::DynamicType::default(), object, event, reason, message);
    }

    /// Tells users what happened to an object of a kind known at run time.
    pub fn event_of<K: Kind>(
        &self,
        dynamic: &K::DynamicType,
        object: &K,
        event: EventType,
        reason: &str,
        message: impl Into<String>,
    ) {
        let message = message.into();
        self.shared.events.record(Event {
            about: object.object_ref(dynamic),
            event,
            reason: reason.to_owned(),
            message,
            component: self.controller.name.clone(),
            at: self.now(),
        });
    }

    fn origin(&self) -> Option<(usize, ObjectKey)> {
        Some((self.number, self.key.clone()))
    }
}

/// What went wrong with a read, as errors of reconcilers may want to say it.
pub fn describe_error(error: &kube::Error) -> String {
    describe(error)
}
