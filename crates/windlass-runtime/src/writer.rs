//! Writes, each of which the next reconcile of the same key will see.

use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::{DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::identity::{Incomplete, complete};

use crate::Kind;
use crate::applied::{Applied, hash_of_basis, hash_of_intent};
use crate::cause::OwnWrites;
use crate::conditional_patch::{annotate, fits, may_be_misfit};
use crate::expectation::{Expectation, Expected};
use crate::faults::{Verb, Write, WriteFault};
use crate::intent::is_applied;
use crate::key::{GroupKind, ObjectKey, revision};
use crate::managers::{applied_finalizers, with_a_record, with_metadata_apart};
use crate::shared::Shared;
use crate::write_error::WriteError;

/// Writes objects of one kind.
///
/// Made by a [`Context`](crate::Context), it belongs to the key that is being reconciled: that key is not reconciled
/// again before the caches show what was written. Made by a [`Manager`](crate::Manager), it belongs to no key.
pub struct Writer<K: Kind> {
    shared: Arc<Shared>,
    dynamic: K::DynamicType,
    origin: Option<(usize, ObjectKey)>,
}

impl<K: Kind> Writer<K> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        dynamic: K::DynamicType,
        origin: Option<(usize, ObjectKey)>,
    ) -> Self {
        Self { shared, dynamic, origin }
    }

    /// Creates an object. It fails if there is one of this name.
    pub async fn create(&self, object: &K) -> Result<K, WriteError>
    where
        K: Serialize,
    {
        let key = ObjectKey::of(object);
        let body = self.body(Verb::Create, &key, object)?.to_string().into_bytes();
        let request = self.path(&key).create(&PostParams::default(), body);
        self.write(Verb::Create, &key, request).await
    }

    /// Applies fields in the name of a field manager, taking them over from others. The intent has the fields that
    /// the manager wants, and `metadata.name`; what an earlier intent of the same manager had and this one has not is
    /// removed. With `metadata.uid` it never creates an object anew.
    pub async fn apply(&self, manager: &str, intent: &impl Serialize) -> Result<K, WriteError> {
        let (key, body) = self.intent(Verb::Apply, intent)?;
        let asked = self.asked(&key, intent)?;
        let written = self.apply_body(manager, &key, body).await?;
        self.shared.memory.remember(manager, asked, written.meta());
        Ok(written)
    }

    /// Applies fields to an object that was read, as [`Writer::apply`] does, unless it is up to date: the manager applied
    /// this intent before, and nothing of it has changed. One that was deleted meanwhile is not created anew.
    pub async fn ensure_applied(
        &self,
        manager: &str,
        current: &K,
        intent: &impl Serialize,
    ) -> Result<Applied<K>, WriteError>
    where
        K: Serialize,
    {
        let asked = self.asked(&ObjectKey::of(current), intent)?;
        if self.shared.memory.knows(manager, asked, current.meta()) {
            return Ok(Applied::Unchanged);
        }
        self.ensure(manager, current, asked, intent).await
    }

    /// The same for an intent that follows from `basis` and from what was read alone, and is made only if one of them
    /// has changed: for a reconcile that keeps thousands of objects up to date.
    pub async fn ensure_applied_from<I: Serialize>(
        &self,
        manager: &str,
        current: &K,
        basis: &impl Hash,
        intent: impl FnOnce() -> Result<I, Incomplete>,
    ) -> Result<Applied<K>, WriteError>
    where
        K: Serialize,
    {
        let asked = hash_of_basis(basis);
        if self.shared.memory.knows(manager, asked, current.meta()) {
            return Ok(Applied::Unchanged);
        }
        self.ensure(manager, current, asked, &intent()?).await
    }

    /// Whether [`Writer::ensure_applied`] would leave an object as it is.
    pub fn is_applied(&self, manager: &str, current: &K, intent: &impl Serialize) -> Result<bool, WriteError>
    where
        K: Serialize,
    {
        let asked = self.asked(&ObjectKey::of(current), intent)?;
        if self.shared.memory.knows(manager, asked, current.meta()) {
            return Ok(true);
        }
        let (_, mut intent) = self.intent(Verb::Apply, intent)?;
        keep_finalizers(manager, current, &mut intent);
        self.is_up_to_date(manager, current, asked, &intent)
    }

    /// Remembers that applying an intent changes nothing, found out in another way: by a dry run.
    pub fn note_applied(
        &self,
        manager: &str,
        current: &K,
        intent: &impl Serialize,
    ) -> Result<(), WriteError> {
        self.shared.memory.remember(manager, self.asked(&ObjectKey::of(current), intent)?, current.meta());
        Ok(())
    }

    /// Hands labels and annotations over to a manager of their own, where one manager has applied them together with the
    /// spec, as upstream did up to 1.11. `stays` is the label that the manager of the spec may have.
    pub async fn hand_over_metadata(
        &self,
        read: &K,
        (from, to): (&str, &str),
        stays: &str,
    ) -> Result<(), WriteError> {
        let to = (to, &*K::api_version(&self.dynamic));
        if let Some(managers) = with_metadata_apart(read.meta(), from, stays, to) {
            self.patch(read, json!({"metadata": {"managedFields": managers}})).await?;
        }
        Ok(())
    }

    /// Applies fields of the status in the name of a field manager.
    pub async fn apply_status(&self, manager: &str, intent: &impl Serialize) -> Result<K, WriteError> {
        let (key, intent) = self.intent(Verb::ApplyStatus, intent)?;
        let path = self.path(&key);
        let request = path.patch_subresource("status", &key.name, &force(manager), &Patch::Apply(intent));
        self.write(Verb::ApplyStatus, &key, request).await
    }

    /// What [`Writer::apply`] would make of an object. Nothing is written.
    pub async fn dry_run_apply(&self, manager: &str, intent: &impl Serialize) -> Result<K, WriteError> {
        let (key, intent) = self.intent(Verb::Apply, intent)?;
        let request = self.path(&key).patch(&key.name, &force(manager).dry_run(), &Patch::Apply(intent));
        let request =
            request.map_err(|error| self.failed(Verb::Apply, &key, kube::Error::BuildRequest(error)))?;
        self.shared.client.request(request).await.map_err(|error| self.failed(Verb::Apply, &key, error))
    }

    /// What merging a patch into this object would make of it. Nothing is written.
    pub async fn dry_run_patch(&self, read: &K, mut patch: Value) -> Result<K, WriteError> {
        let key = ObjectKey::of(read);
        complete(&self.kind().kind, read.meta())?;
        patch["metadata"]["uid"] = json!(read.meta().uid);
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        let request = self.path(&key).patch(&key.name, &parameters, &Patch::Merge(patch));
        let request =
            request.map_err(|error| self.failed(Verb::Patch, &key, kube::Error::BuildRequest(error)))?;
        self.shared.client.request(request).await.map_err(|error| self.failed(Verb::Patch, &key, error))
    }

    /// Merges a patch into an object, if it is still as it was read; otherwise the write conflicts.
    pub async fn patch(&self, read: &K, patch: Value) -> Result<K, WriteError> {
        self.merge(Verb::Patch, &ObjectKey::of(read), self.locked(read, patch)?).await
    }

    /// Merges a patch into the status of an object, if it is still as it was read.
    pub async fn patch_status(&self, read: &K, patch: Value) -> Result<K, WriteError> {
        self.merge(Verb::PatchStatus, &ObjectKey::of(read), self.locked(read, patch)?).await
    }

    /// Merges a patch into an object, whatever else has changed in it.
    pub async fn patch_unconditionally(&self, key: &ObjectKey, patch: Value) -> Result<K, WriteError> {
        self.merge(Verb::Patch, key, patch).await
    }

    /// Sets annotations of an object if what the decision was made from is still so: each of `unchanged` is a JSON
    /// pointer with the value that was read. Whatever else has changed in the object does not matter. Otherwise the write
    /// is [`WriteError::Outdated`], which counts as a conflict; a refusal by a schema or by admission is an error as ever.
    pub async fn annotate_if(
        &self,
        read: &K,
        unchanged: &[(&str, Value)],
        annotations: &[(&str, String)],
    ) -> Result<K, WriteError> {
        let key = ObjectKey::of(read);
        complete(&self.kind().kind, read.meta())?;
        let patch = annotate(read, unchanged, annotations);
        let request = self.path(&key).patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch));
        let request = request.map(|mut request| {
            let json_patch = http::HeaderValue::from_static("application/json-patch+json");
            request.headers_mut().insert(http::header::CONTENT_TYPE, json_patch);
            request
        });
        match self.write(Verb::Patch, &key, request).await {
            Err(error) if may_be_misfit(&error) && !self.still_fits(&key, &patch).await => {
                Err(WriteError::Outdated { verb: Verb::Patch, kind: self.kind(), key })
            }
            answer => answer,
        }
    }

    /// Whether a patch fits an object as it is now; if it does, something else was the reason of a refusal. An object
    /// that cannot be read tells nothing.
    async fn still_fits(&self, key: &ObjectKey, patch: &Value) -> bool {
        let Ok(request) = self.path(key).get(&key.name, &GetParams::default()) else { return true };
        match self.shared.client.request::<Value>(request).await {
            Ok(object) => fits(patch, &object),
            Err(kube::Error::Api(status)) => status.code != 404,
            Err(_) => true,
        }
    }

    /// Merges a patch into the status of an object, whatever else has changed in it.
    pub async fn patch_status_unconditionally(&self, key: &ObjectKey, patch: Value) -> Result<K, WriteError> {
        self.merge(Verb::PatchStatus, key, patch).await
    }

    /// Deletes this object, and never another of the same name. One that is gone already is no error.
    pub async fn delete(&self, read: &K) -> Result<(), WriteError> {
        complete(&self.kind().kind, read.meta())?;
        let preconditions = Preconditions { uid: read.uid(), ..Preconditions::default() };
        self.delete_with(read, DeleteParams::background().preconditions(preconditions)).await
    }

    /// Deletes this object if it is still as it was read.
    pub async fn delete_unchanged(&self, read: &K) -> Result<(), WriteError> {
        complete(&self.kind().kind, read.meta())?;
        let preconditions = Preconditions { uid: read.uid(), resource_version: read.resource_version() };
        self.delete_with(read, DeleteParams::background().preconditions(preconditions)).await
    }

    /// Deletes an object as the parameters say. One that is gone already is no error.
    pub async fn delete_with(&self, read: &K, parameters: DeleteParams) -> Result<(), WriteError> {
        let key = ObjectKey::of(read);
        let request = self.path(&key).delete(&key.name, &parameters);
        let request =
            request.map_err(|error| self.failed(Verb::Delete, &key, kube::Error::BuildRequest(error)))?;
        let sent = async { self.shared.client.request_status::<K>(request).await };
        match self.faulty(Verb::Delete, &key, sent, |answer| answer.as_ref().left().map(revision)).await {
            Ok(answer) => match answer.left() {
                Some(held) => {
                    self.own_writes(|own| own.note_deleted(held.uid().unwrap_or_default()));
                    self.expect_written(&held);
                }
                None => self.expect_gone(&key, read.uid()),
            },
            Err(error) if error.is_not_found() => self.expect_gone(&key, read.uid()),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn ensure(
        &self,
        manager: &str,
        current: &K,
        asked: u64,
        intent: &impl Serialize,
    ) -> Result<Applied<K>, WriteError>
    where
        K: Serialize,
    {
        let (key, mut intent) = self.intent(Verb::Apply, intent)?;
        keep_finalizers(manager, current, &mut intent);
        if self.is_up_to_date(manager, current, asked, &intent)? {
            return Ok(Applied::Unchanged);
        }
        complete(&self.kind().kind, current.meta())?;
        if let Some(managers) = with_a_record(current.meta(), manager, &K::api_version(&self.dynamic)) {
            self.patch(current, json!({"metadata": {"managedFields": managers}})).await?;
        }
        intent["metadata"]["uid"] = json!(current.meta().uid);
        let written = self.apply_body(manager, &key, intent).await?;
        self.shared.memory.remember(manager, asked, written.meta());
        Ok(Applied::Written(written))
    }

    /// Whether the `managedFields` of an object tell that an intent was applied. Remembers that they do.
    fn is_up_to_date(
        &self,
        manager: &str,
        current: &K,
        asked: u64,
        intent: &Value,
    ) -> Result<bool, WriteError>
    where
        K: Serialize,
    {
        let there = self.body(Verb::Apply, &ObjectKey::of(current), current)?;
        let is_applied = is_applied(manager, &there, intent);
        if is_applied {
            self.shared.memory.remember(manager, asked, current.meta());
        }
        Ok(is_applied)
    }

    fn asked(&self, key: &ObjectKey, intent: &impl Serialize) -> Result<u64, WriteError> {
        hash_of_intent(intent).map_err(|error| self.unencodable(Verb::Apply, key, error))
    }

    async fn apply_body(&self, manager: &str, key: &ObjectKey, intent: Value) -> Result<K, WriteError> {
        let request = self.path(key).patch(&key.name, &force(manager), &Patch::Apply(intent));
        self.write(Verb::Apply, key, request).await
    }

    async fn merge(&self, verb: Verb, key: &ObjectKey, patch: Value) -> Result<K, WriteError> {
        let (path, parameters, patch) = (self.path(key), PatchParams::default(), Patch::Merge(patch));
        let request = match verb {
            Verb::PatchStatus => path.patch_subresource("status", &key.name, &parameters, &patch),
            _ => path.patch(&key.name, &parameters, &patch),
        };
        self.write(verb, key, request).await
    }

    async fn write(
        &self,
        verb: Verb,
        key: &ObjectKey,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<K, WriteError> {
        let request = request.map_err(|error| self.failed(verb, key, kube::Error::BuildRequest(error)))?;
        let sent = async { self.shared.client.request::<K>(request).await };
        let left = |written: &K| (!is_gone(written)).then(|| revision(written));
        let written = self.faulty(verb, key, sent, left).await?;
        self.expect_written(&written);
        Ok(written)
    }

    /// Sends a write, unless something is to go wrong with it. `revision` reads from the answer which one was made.
    async fn faulty<T>(
        &self,
        verb: Verb,
        key: &ObjectKey,
        sent: impl Future<Output = Result<T, kube::Error>>,
        revision: impl Fn(&T) -> Option<u64>,
    ) -> Result<T, WriteError> {
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
        let result = sent.await;
        self.shared.faults.answered(number, result.as_ref().ok().and_then(revision));
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

    fn expect_written(&self, written: &K) {
        if is_gone(written) {
            self.expect_gone(&ObjectKey::of(written), written.uid());
        } else {
            self.own_writes(|own| own.note_written(revision(written)));
            self.expect(|_| Expected::Seen(revision(written)));
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

    fn expect(&self, what: impl Fn(&dyn crate::cache::AnyCache) -> Expected) {
        let Some((controller, key)) = &self.origin else { return };
        for cache in self.shared.caches_of(&self.kind()) {
            let what = what(cache.as_ref());
            self.shared.queues.with(*controller, |queue| queue.expect(key, Expectation { cache, what }));
        }
    }

    fn intent(&self, verb: Verb, intent: &impl Serialize) -> Result<(ObjectKey, Value), WriteError> {
        let mut body = self.body(verb, &ObjectKey::new("", ""), intent)?;
        let metadata = &body["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or("");
        let name = metadata["name"].as_str().filter(|name| !name.is_empty()).ok_or_else(|| Incomplete {
            kind: self.kind().kind,
            object: format!("in namespace {namespace:?}"),
            field: "metadata.name",
        })?;
        let key = ObjectKey::new(namespace, name);
        // An intent that was made from an object that was read would otherwise be refused.
        if let Some(metadata) = body["metadata"].as_object_mut() {
            metadata.remove("managedFields");
        }
        Ok((key, body))
    }

    fn body(&self, verb: Verb, key: &ObjectKey, object: &impl Serialize) -> Result<Value, WriteError> {
        let mut body = serde_json::to_value(object).map_err(|error| self.unencodable(verb, key, error))?;
        if let Some(fields) = body.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| json!(K::api_version(&self.dynamic)));
            fields.entry("kind").or_insert_with(|| json!(K::kind(&self.dynamic)));
        }
        Ok(body)
    }

    /// A patch that conflicts if the object is no longer as it was read.
    fn locked(&self, read: &K, mut patch: Value) -> Result<Value, WriteError> {
        complete(&self.kind().kind, read.meta())?;
        patch["metadata"]["resourceVersion"] = json!(read.meta().resource_version);
        Ok(patch)
    }

    fn path(&self, key: &ObjectKey) -> Request {
        Request::new(K::url_path(&self.dynamic, key.namespace()))
    }

    fn kind(&self) -> GroupKind {
        GroupKind::of::<K>(&self.dynamic)
    }

    fn unencodable(&self, verb: Verb, key: &ObjectKey, source: serde_json::Error) -> WriteError {
        WriteError::Encode { verb, kind: self.kind(), key: key.clone(), source }
    }

    fn failed(&self, verb: Verb, key: &ObjectKey, source: kube::Error) -> WriteError {
        WriteError::Failed { verb, kind: self.kind(), key: key.clone(), source: Box::new(source) }
    }

    fn injected(&self, verb: Verb, key: &ObjectKey, written: bool) -> WriteError {
        WriteError::Injected { verb, kind: self.kind(), key: key.clone(), written }
    }
}

/// Leaves the finalizers of an object that its manager has applied. Finalizers come and go by patches here, in no intent.
fn keep_finalizers<K: Kind>(manager: &str, current: &K, intent: &mut Value) {
    let kept = applied_finalizers(current.meta(), manager);
    if !kept.is_empty() && intent["metadata"].get("finalizers").is_none() {
        intent["metadata"]["finalizers"] = json!(kept);
    }
}

/// The last finalizer of something that was being deleted: it is gone, and the answer shows what it was.
fn is_gone<K: Kind>(written: &K) -> bool {
    written.meta().deletion_timestamp.is_some() && written.finalizers().is_empty()
}

fn force(manager: &str) -> PatchParams {
    PatchParams::apply(manager).force()
}

impl<K: Kind> Clone for Writer<K> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), dynamic: self.dynamic.clone(), origin: self.origin.clone() }
    }
}

impl<K: Kind> fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writer of {}", self.kind())
    }
}
