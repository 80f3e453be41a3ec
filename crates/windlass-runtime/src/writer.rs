//! Writes, each of which the next reconcile of the same key will see.

use std::fmt;
use std::hash::Hash;
use std::marker::PhantomData;
use std::sync::Arc;

use kube::ResourceExt;
use kube::api::{ApiResource, DeleteParams, GetParams, Patch, PatchParams, PostParams, Preconditions};
use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::identity::{Incomplete, complete};

use crate::Kind;
use crate::applied::{Applied, Memory, hash_of_basis, hash_of_intent};
use crate::conditional_patch::{annotate, fits, may_be_misfit};
use crate::faults::Verb;
use crate::intent::is_applied;
use crate::key::ObjectKey;
use crate::managers::{applied_finalizers, with_a_record, with_metadata_apart};
use crate::sender::{Sender, force};
use crate::shared::Shared;
use crate::write_error::WriteError;

/// Writes objects of one kind.
///
/// Made by a [`Context`](crate::Context), it belongs to the key that is being reconciled: that key is not reconciled
/// again before the caches show what was written. Made by a [`Manager`](crate::Manager), it belongs to no key.
pub struct Writer<K: Kind> {
    sender: Sender,
    of_kind: PhantomData<fn() -> K>,
}

impl<K: Kind> Writer<K> {
    pub(crate) fn new(
        shared: Arc<Shared>,
        dynamic: &K::DynamicType,
        origin: Option<(usize, ObjectKey)>,
    ) -> Self {
        let resource = ApiResource::erase::<K>(dynamic);
        Self { sender: Sender::new(shared, resource, origin), of_kind: PhantomData }
    }

    /// Creates an object. It fails if there is one of this name.
    pub async fn create(&self, object: &K) -> Result<K, WriteError>
    where
        K: Serialize,
    {
        let key = ObjectKey::of(object);
        let body = self.body(Verb::Create, &key, object)?.to_string().into_bytes();
        let request = self.sender.path(&key).create(&PostParams::default(), body);
        self.read(Verb::Create, &key, self.sender.send(Verb::Create, &key, request).await?)
    }

    /// Applies fields in the name of a field manager, taking them over from others. The intent has the fields that
    /// the manager wants, and `metadata.name`; what an earlier intent of the same manager had and this one has not is
    /// removed. With `metadata.uid` it never creates an object anew.
    pub async fn apply(&self, manager: &str, intent: &impl Serialize) -> Result<K, WriteError> {
        let (key, body) = self.intent(Verb::Apply, intent)?;
        let asked = self.asked(&key, intent)?;
        let written = self.apply_body(manager, &key, body).await?;
        self.memory().remember(manager, asked, written.meta());
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
        if self.memory().knows(manager, asked, current.meta()) {
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
        if self.memory().knows(manager, asked, current.meta()) {
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
        if self.memory().knows(manager, asked, current.meta()) {
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
        self.memory().remember(manager, self.asked(&ObjectKey::of(current), intent)?, current.meta());
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
        let to = (to, self.sender.resource.api_version.as_str());
        if let Some(managers) = with_metadata_apart(read.meta(), from, stays, to) {
            self.patch(read, json!({"metadata": {"managedFields": managers}})).await?;
        }
        Ok(())
    }

    /// Applies fields of the status in the name of a field manager.
    pub async fn apply_status(&self, manager: &str, intent: &impl Serialize) -> Result<K, WriteError> {
        let (key, intent) = self.intent(Verb::ApplyStatus, intent)?;
        let written = self.sender.apply_status(manager, &key, intent).await?;
        self.read(Verb::ApplyStatus, &key, written)
    }

    /// What [`Writer::apply`] would make of an object. Nothing is written.
    pub async fn dry_run_apply(&self, manager: &str, intent: &impl Serialize) -> Result<K, WriteError> {
        let (key, intent) = self.intent(Verb::Apply, intent)?;
        let path = self.sender.path(&key);
        let request = path.patch(&key.name, &force(manager).dry_run(), &Patch::Apply(intent));
        self.read(Verb::Apply, &key, self.sender.ask(Verb::Apply, &key, request).await?)
    }

    /// What merging a patch into this object would make of it. Nothing is written.
    pub async fn dry_run_patch(&self, read: &K, mut patch: Value) -> Result<K, WriteError> {
        let key = ObjectKey::of(read);
        self.complete(read)?;
        patch["metadata"]["uid"] = json!(read.meta().uid);
        let parameters = PatchParams { dry_run: true, ..PatchParams::default() };
        let request = self.sender.path(&key).patch(&key.name, &parameters, &Patch::Merge(patch));
        self.read(Verb::Patch, &key, self.sender.ask(Verb::Patch, &key, request).await?)
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
        self.complete(read)?;
        let patch = annotate(read, unchanged, annotations);
        let path = self.sender.path(&key);
        let request = path.patch(&key.name, &PatchParams::default(), &Patch::Merge(&patch));
        let request = request.map(|mut request| {
            let json_patch = http::HeaderValue::from_static("application/json-patch+json");
            request.headers_mut().insert(http::header::CONTENT_TYPE, json_patch);
            request
        });
        match self.sender.send(Verb::Patch, &key, request).await {
            Err(error) if may_be_misfit(&error) && !self.still_fits(&key, &patch).await => {
                Err(WriteError::Outdated { verb: Verb::Patch, kind: self.sender.kind(), key })
            }
            Err(error) => Err(error),
            Ok(written) => self.read(Verb::Patch, &key, written),
        }
    }

    /// Whether a patch fits an object as it is now; if it does, something else was the reason of a refusal. An object
    /// that cannot be read tells nothing.
    async fn still_fits(&self, key: &ObjectKey, patch: &Value) -> bool {
        let Ok(request) = self.sender.path(key).get(&key.name, &GetParams::default()) else { return true };
        match self.sender.shared.client.request::<Value>(request).await {
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
        self.complete(read)?;
        let preconditions = Preconditions { uid: read.uid(), ..Preconditions::default() };
        self.delete_with(read, DeleteParams::background().preconditions(preconditions)).await
    }

    /// Deletes this object if it is still as it was read.
    pub async fn delete_unchanged(&self, read: &K) -> Result<(), WriteError> {
        self.complete(read)?;
        let preconditions = Preconditions { uid: read.uid(), resource_version: read.resource_version() };
        self.delete_with(read, DeleteParams::background().preconditions(preconditions)).await
    }

    /// Deletes an object as the parameters say. One that is gone already is no error.
    pub async fn delete_with(&self, read: &K, parameters: DeleteParams) -> Result<(), WriteError> {
        self.sender.delete(&ObjectKey::of(read), read.uid(), &parameters).await
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
        self.complete(current)?;
        let api_version = &self.sender.resource.api_version;
        if let Some(managers) = with_a_record(current.meta(), manager, api_version) {
            self.patch(current, json!({"metadata": {"managedFields": managers}})).await?;
        }
        intent["metadata"]["uid"] = json!(current.meta().uid);
        let written = self.apply_body(manager, &key, intent).await?;
        self.memory().remember(manager, asked, written.meta());
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
            self.memory().remember(manager, asked, current.meta());
        }
        Ok(is_applied)
    }

    fn asked(&self, key: &ObjectKey, intent: &impl Serialize) -> Result<u64, WriteError> {
        hash_of_intent(intent).map_err(|error| self.sender.unencodable(Verb::Apply, key, error))
    }

    async fn apply_body(&self, manager: &str, key: &ObjectKey, intent: Value) -> Result<K, WriteError> {
        self.read(Verb::Apply, key, self.sender.apply(manager, key, intent).await?)
    }

    async fn merge(&self, verb: Verb, key: &ObjectKey, patch: Value) -> Result<K, WriteError> {
        self.read(verb, key, self.sender.merge(verb, key, patch).await?)
    }

    /// What was written, as the API answered it.
    fn read(&self, verb: Verb, key: &ObjectKey, written: String) -> Result<K, WriteError> {
        let read = serde_json::from_str(&written);
        read.map_err(|error| self.sender.failed(verb, key, kube::Error::SerdeError(error)))
    }

    fn memory(&self) -> &Memory {
        &self.sender.shared.memory
    }

    /// Refuses an object that does not say which one it is.
    fn complete(&self, read: &K) -> Result<(), Incomplete> {
        complete(&self.sender.resource.kind, read.meta())
    }

    fn intent(&self, verb: Verb, intent: &impl Serialize) -> Result<(ObjectKey, Value), WriteError> {
        let mut body = self.body(verb, &ObjectKey::new("", ""), intent)?;
        let metadata = &body["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or("");
        let name = metadata["name"].as_str().filter(|name| !name.is_empty()).ok_or_else(|| Incomplete {
            kind: self.sender.resource.kind.clone(),
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
        let mut body =
            serde_json::to_value(object).map_err(|error| self.sender.unencodable(verb, key, error))?;
        if let Some(fields) = body.as_object_mut() {
            fields.entry("apiVersion").or_insert_with(|| json!(self.sender.resource.api_version));
            fields.entry("kind").or_insert_with(|| json!(self.sender.resource.kind));
        }
        Ok(body)
    }

    /// A patch that conflicts if the object is no longer as it was read.
    fn locked(&self, read: &K, mut patch: Value) -> Result<Value, WriteError> {
        self.complete(read)?;
        patch["metadata"]["resourceVersion"] = json!(read.meta().resource_version);
        Ok(patch)
    }
}

/// Leaves the finalizers of an object that its manager has applied. Finalizers come and go by patches here, in no intent.
fn keep_finalizers<K: Kind>(manager: &str, current: &K, intent: &mut Value) {
    let kept = applied_finalizers(current.meta(), manager);
    if !kept.is_empty() && intent["metadata"].get("finalizers").is_none() {
        intent["metadata"]["finalizers"] = json!(kept);
    }
}

impl<K: Kind> Clone for Writer<K> {
    fn clone(&self) -> Self {
        Self { sender: self.sender.clone(), of_kind: PhantomData }
    }
}

impl<K: Kind> fmt::Debug for Writer<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "writer of {}", self.sender.kind())
    }
}
