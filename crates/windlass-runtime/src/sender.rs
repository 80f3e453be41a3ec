//! Sends writes: what is the same for every kind, and therefore compiled once.
//!
//! Its futures are boxed. Otherwise their code would be compiled again into every crate that awaits them, for each kind.

use std::pin::Pin;
use std::sync::Arc;

use kube::Resource;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::core::Request;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::cache::AnyCache;
use crate::cause::OwnWrites;
use crate::expectation::{Expectation, Expected};
use crate::faults::{Verb, Write, WriteFault};
use crate::key::{GroupKind, ObjectKey, parse_revision};
use crate::shared::Shared;
use crate::write_error::WriteError;

/// A request to the API, or why there is none.
type Built = Result<http::Request<Vec<u8>>, kube::core::request::Error>;

/// What comes of a write: the object as the API has it now, as JSON.
pub(crate) type Sent<'a, T = String> = Pin<Box<dyn Future<Output = Result<T, WriteError>> + Send + 'a>>;

/// Sends the writes of one kind in the name of one key.
#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) shared: Arc<Shared>,
    pub(crate) resource: ApiResource,
    origin: Option<(usize, ObjectKey)>,
}

/// What an answer says about the object that was written, whatever its kind.
#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: Metadata,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    namespace: String,
    name: String,
    uid: Option<String>,
    resource_version: Option<String>,
    deletion_timestamp: Option<IgnoredAny>,
    finalizers: Vec<IgnoredAny>,
}

impl Metadata {
    fn revision(&self) -> u64 {
        parse_revision(self.resource_version.as_deref())
    }

    /// The last finalizer of something that was being deleted: it is gone, and the answer shows what it was.
    fn is_gone(&self) -> bool {
        self.deletion_timestamp.is_some() && self.finalizers.is_empty()
    }
}

impl Sender {
    pub(crate) fn new(
        shared: Arc<Shared>,
        resource: ApiResource,
        origin: Option<(usize, ObjectKey)>,
    ) -> Self {
        Self { shared, resource, origin }
    }

    pub(crate) fn kind(&self) -> GroupKind {
        GroupKind::new(&self.resource.group, &self.resource.kind)
    }

    pub(crate) fn path(&self, key: &ObjectKey) -> Request {
        Request::new(DynamicObject::url_path(&self.resource, key.namespace()))
    }

    /// Applies an intent in the name of a field manager.
    pub(crate) fn apply<'a>(&'a self, manager: &str, key: &'a ObjectKey, intent: Value) -> Sent<'a> {
        let request = self.path(key).patch(&key.name, &force(manager), &Patch::Apply(intent));
        self.send(Verb::Apply, key, request)
    }

    /// The same with the status.
    pub(crate) fn apply_status<'a>(&'a self, manager: &str, key: &'a ObjectKey, intent: Value) -> Sent<'a> {
        let path = self.path(key);
        let request = path.patch_subresource("status", &key.name, &force(manager), &Patch::Apply(intent));
        self.send(Verb::ApplyStatus, key, request)
    }

    /// Merges a patch into an object or, with [`Verb::PatchStatus`], into its status.
    pub(crate) fn merge<'a>(&'a self, verb: Verb, key: &'a ObjectKey, patch: Value) -> Sent<'a> {
        let (path, parameters, patch) = (self.path(key), PatchParams::default(), Patch::Merge(patch));
        let request = match verb {
            Verb::PatchStatus => path.patch_subresource("status", &key.name, &parameters, &patch),
            _ => path.patch(&key.name, &parameters, &patch),
        };
        self.send(verb, key, request)
    }

    /// Sends a write.
    pub(crate) fn send<'a>(&'a self, verb: Verb, key: &'a ObjectKey, request: Built) -> Sent<'a> {
        Box::pin(async move {
            let (text, answer) = self.faulty(verb, key, request).await?;
            self.expect_written(&answer.metadata);
            Ok(text)
        })
    }

    /// Sends what writes nothing: a dry run.
    pub(crate) fn ask<'a>(&'a self, verb: Verb, key: &'a ObjectKey, request: Built) -> Sent<'a> {
        Box::pin(async move {
            let request = self.built(verb, key, request)?;
            self.shared.client.request_text(request).await.map_err(|error| self.failed(verb, key, error))
        })
    }

    /// Deletes the object with this uid. One that is gone already is no error.
    pub(crate) fn delete<'a>(
        &'a self,
        key: &'a ObjectKey,
        uid: Option<String>,
        parameters: &DeleteParams,
    ) -> Sent<'a, ()> {
        let request = self.path(key).delete(&key.name, parameters);
        Box::pin(async move {
            match self.faulty(Verb::Delete, key, request).await {
                // It says what was done instead of what there is: there is nothing.
                Ok((_, answer)) if answer.kind == "Status" => self.expect_gone(key, uid),
                Ok((_, Answer { metadata: held, .. })) => {
                    self.own_writes(|own| own.note_deleted(held.uid.clone().unwrap_or_default()));
                    self.expect_written(&held);
                }
                Err(error) if error.is_not_found() => self.expect_gone(key, uid),
                Err(error) => return Err(error),
            }
            Ok(())
        })
    }

    /// Sends a write, unless something is to go wrong with it.
    async fn faulty(
        &self,
        verb: Verb,
        key: &ObjectKey,
        request: Built,
    ) -> Result<(String, Answer), WriteError> {
        let request = self.built(verb, key, request)?;
        if self.shared.has_crashed() {
            std::future::pending::<()>().await;
        }
        let (number, fault) = self.shared.faults.count(Write {
            number: 0,
            by: self
                .origin
                .as_ref()
                .map(|(controller, key)| (self.shared.controller_name(*controller), key.clone())),
            verb,
            kind: self.kind(),
            key: key.clone(),
            revision: None,
        });
        match fault {
            Some(WriteFault::CrashBefore) => self.shared.crash().await,
            Some(WriteFault::FailBefore) => return Err(self.injected(verb, key, false)),
            _ => {}
        }
        let result = self.shared.client.request_text(request).await.and_then(|text| {
            let answer: Answer = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
            Ok((text, answer))
        });
        let there = result.as_ref().ok().map(|(_, answer)| &answer.metadata);
        let there = there.filter(|metadata| verb == Verb::Delete || !metadata.is_gone());
        let there = there.filter(|metadata| metadata.resource_version.is_some());
        self.shared.faults.answered(number, there.map(Metadata::revision));
        match fault {
            Some(WriteFault::CrashAfter) => self.shared.crash().await,
            Some(WriteFault::FailAfter) => {
                self.expect_anything();
                return Err(self.injected(verb, key, true));
            }
            _ => {}
        }
        result.map_err(|error| {
            let error = self.failed(verb, key, error);
            if error.may_have_happened() {
                self.expect_anything();
            }
            error
        })
    }

    fn expect_written(&self, written: &Metadata) {
        if written.is_gone() {
            self.expect_gone(&ObjectKey::new(&*written.namespace, &*written.name), written.uid.clone());
        } else {
            self.own_writes(|own| own.note_written(written.revision()));
            self.expect(|_| Expected::Seen(written.revision()));
        }
    }

    /// Lets the queue know whose write it is.
    fn own_writes(&self, note: impl FnOnce(&mut OwnWrites)) {
        let Some((controller, key)) = &self.origin else { return };
        self.shared.queues.with(*controller, |queue| note(queue.own_writes(key)));
    }

    fn expect_gone(&self, key: &ObjectKey, uid: Option<String>) {
        if let Some(uid) = uid {
            self.own_writes(|own| own.note_deleted(uid.clone()));
            self.expect(|_| Expected::Gone { key: key.clone(), uid: uid.clone() });
        }
    }

    /// It is unknown what was written, so what the caches have is not to be trusted.
    fn expect_anything(&self) {
        self.expect(|cache| Expected::Listed(cache.ask_for_list()));
    }

    fn expect(&self, what: impl Fn(&dyn AnyCache) -> Expected) {
        let Some((controller, key)) = &self.origin else { return };
        for cache in self.shared.caches_of(&self.kind()) {
            let what = what(cache.as_ref());
            self.shared.queues.with(*controller, |queue| queue.expect(key, Expectation { cache, what }));
        }
    }

    fn built(
        &self,
        verb: Verb,
        key: &ObjectKey,
        request: Built,
    ) -> Result<http::Request<Vec<u8>>, WriteError> {
        request.map_err(|error| self.failed(verb, key, kube::Error::BuildRequest(error)))
    }

    pub(crate) fn unencodable(&self, verb: Verb, key: &ObjectKey, source: serde_json::Error) -> WriteError {
        WriteError::Encode { verb, kind: self.kind(), key: key.clone(), source }
    }

    pub(crate) fn failed(&self, verb: Verb, key: &ObjectKey, source: kube::Error) -> WriteError {
        WriteError::Failed { verb, kind: self.kind(), key: key.clone(), source: Box::new(source) }
    }

    fn injected(&self, verb: Verb, key: &ObjectKey, written: bool) -> WriteError {
        WriteError::Injected { verb, kind: self.kind(), key: key.clone(), written }
    }
}

pub(crate) fn force(manager: &str) -> PatchParams {
    PatchParams::apply(manager).force()
}
