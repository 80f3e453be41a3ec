//! Deleting: at once, or when everything that holds an object has let go.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use windlass_store::{CommitError, Expect, Object, Transaction};

use super::read::Page;
use super::{Call, Written, prepare, unavailable};
use crate::admission::Operation;
use crate::api::{Details, Failure, Propagation, Status, Subject};
use crate::registry::Behaviour;
use crate::response::Reply;
use crate::selection::Selection;
use crate::stored::meta;

/// Holds an object until what it owns is gone.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";

/// Holds an object until what it owns has forgotten it.
pub(crate) const ORPHAN: &str = "orphan";

/// Holds a CRD until its objects are gone.
pub(crate) const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What a client wants of a deletion.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeleteOptions {
    pub(crate) propagation: Option<Propagation>,
    pub(crate) uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    pub(crate) dry_run: bool,
}

/// What a deletion came to.
pub(crate) enum Deleted {
    /// It is gone; this is what it was.
    Gone(Arc<Object>),
    /// It is going, but something still holds it.
    Held(Written),
}

impl Call {
    pub(super) async fn delete(&self, body: &Bytes) -> Result<Reply, Failure> {
        let options = self.read_delete_options(body)?;
        match self.remove(self.name(), &options).await? {
            Deleted::Held(written) => self.reply(StatusCode::OK, written),
            Deleted::Gone(object) => {
                let details = Details {
                    name: self.name().to_owned(),
                    group: self.resource.group.clone(),
                    kind: self.resource.plural.clone(),
                    uid: meta(&object).uid.clone(),
                    ..Details::default()
                };
                Ok(Reply::json(StatusCode::OK, Status::success(Some(details)).to_json()))
            }
        }
    }

    pub(super) async fn delete_collection(self, body: &Bytes) -> Result<Reply, Failure> {
        let options = self.read_delete_options(body)?;
        let selection = Selection::parse(&self.resource, &self.query, None)?;
        if self.resource.namespaced && self.namespace.is_empty() {
            return Err(Failure::method_not_allowed());
        }
        let scope =
            self.resource.scope(Some(&self.namespace).filter(|name| !name.is_empty()).map(String::as_str));
        let snapshot = self.server.store.snapshot();
        let selected: Vec<Arc<Object>> = snapshot
            .list(&scope)
            .filter(|object| selection.contains(&self.resource, object))
            .cloned()
            .collect();
        for object in &selected {
            match self.remove(object.key().name(), &options).await {
                Err(failure) if failure.reason() == "NotFound" => {}
                result => drop(result?),
            }
        }
        let page = Page::whole(self.server.store.revision());
        let around = self.around_list(&page, None)?;
        self.list_reply(around, selected)
    }

    fn read_delete_options(&self, body: &Bytes) -> Result<DeleteOptions, Failure> {
        let value = if body.is_empty() { Value::Null } else { self.read_document(body)?.value };
        self.delete_options(&value)
    }

    /// What a request and its body say about how to delete.
    pub(super) fn delete_options(&self, value: &Value) -> Result<DeleteOptions, Failure> {
        let mut options = DeleteOptions {
            propagation: self.query.propagation,
            dry_run: self.query.dry_run,
            ..DeleteOptions::default()
        };
        let text = |value: &Value| value.as_str().map(str::to_owned);
        options.uid = text(&value["preconditions"]["uid"]);
        options.resource_version = text(&value["preconditions"]["resourceVersion"]);
        options.dry_run |= value["dryRun"].as_array().is_some_and(|runs| !runs.is_empty());
        if value["orphanDependents"] == true {
            options.propagation = Some(Propagation::Orphan);
        }
        if let Some(policy) = value["propagationPolicy"].as_str() {
            let unknown = || Failure::bad_request(format!("invalid propagationPolicy {policy:?}"));
            options.propagation = Some(Propagation::parse(policy).ok_or_else(unknown)?);
        }
        Ok(options)
    }

    /// Deletes an object, or marks it if something holds it.
    pub(crate) async fn remove(&self, name: &str, options: &DeleteOptions) -> Result<Deleted, Failure> {
        if let Some(home) = self.at_home() {
            return Ok(match Box::pin(home.remove(name, options)).await? {
                Deleted::Held(written) => Deleted::Held(self.as_asked_for(&home, written)?),
                gone @ Deleted::Gone(_) => gone,
            });
        }
        loop {
            let existing = self.find(name)?;
            self.check_delete(&existing, options)?;
            let old = self.resource.value(&existing)?;
            self.admit(Operation::Delete, Some(&old), &old, &mut Vec::new()).await?;
            if let Some(deleted) = self.try_remove(&existing, old, options).await? {
                return Ok(deleted);
            }
        }
    }

    fn check_delete(&self, existing: &Object, options: &DeleteOptions) -> Result<(), Failure> {
        let name = existing.key().name();
        let subject = Subject { group: &self.resource.group, kind: &self.resource.kind, name };
        let found = &meta(existing).uid;
        if let Some(uid) = options.uid.as_ref().filter(|uid| *uid != found) {
            let why = format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({found}). The object might \
                 have been deleted and then recreated"
            );
            return Err(Failure::conflict(subject, &why));
        }
        let revision = existing.revision().to_string();
        if let Some(version) = options.resource_version.as_ref().filter(|version| **version != revision) {
            let why = format!(
                "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record \
                 ({revision}). The object might have been modified"
            );
            return Err(Failure::conflict(subject, &why));
        }
        Ok(())
    }

    /// One attempt; `None` if the object has changed in the meantime.
    async fn try_remove(
        &self,
        existing: &Arc<Object>,
        old: Value,
        options: &DeleteOptions,
    ) -> Result<Option<Deleted>, Failure> {
        let is_deleting = old["metadata"]["deletionTimestamp"].is_string();
        let finalizers = self.finalizers(existing, is_deleting, options);
        let mut object = old.clone();
        if finalizers.is_empty() {
            prepare::remove(&mut object["metadata"], "finalizers");
        } else {
            object["metadata"]["finalizers"] = finalizers.into();
        }
        if !is_deleting {
            self.mark(&mut object);
        }
        let expect = Expect::Revision(existing.revision());
        let key = existing.key().clone();
        let transaction = if prepare::may_go(self, &object) {
            if options.dry_run {
                return Ok(Some(Deleted::Gone(Arc::clone(existing))));
            }
            // Watchers are shown the object as it was, not marked for deletion.
            Transaction::new().delete_showing(key, expect, self.resource.to_store(&old)?)
        } else if object == old {
            return Ok(Some(Deleted::Held(Written::Stored(Arc::clone(existing)))));
        } else if options.dry_run {
            return Ok(Some(Deleted::Held(Written::Shown(object))));
        } else {
            Transaction::new().put(key, expect, self.resource.to_store(&object)?)
        };
        match self.server.store.commit(transaction).await {
            Ok(_) if prepare::may_go(self, &object) => {
                self.after_delete();
                Ok(Some(Deleted::Gone(Arc::clone(existing))))
            }
            Ok(mut committed) => {
                self.after_delete();
                let object = committed.objects.pop().flatten();
                Ok(object.map(|object| Deleted::Held(Written::Stored(object))))
            }
            Err(CommitError::Conflict(_)) => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }

    /// What holds the object while it is being deleted.
    fn finalizers(&self, existing: &Object, is_deleting: bool, options: &DeleteOptions) -> Vec<String> {
        let mut finalizers = meta(existing).finalizers.clone();
        if let Some(propagation) = options.propagation {
            finalizers.retain(|finalizer| finalizer != FOREGROUND && finalizer != ORPHAN);
            match propagation {
                Propagation::Background => {}
                Propagation::Foreground => finalizers.push(FOREGROUND.to_owned()),
                Propagation::Orphan => finalizers.push(ORPHAN.to_owned()),
            }
        }
        let is_crd = self.resource.behaviour == Behaviour::Crd;
        if is_crd && !is_deleting && !finalizers.iter().any(|finalizer| finalizer == CLEANUP) {
            finalizers.push(CLEANUP.to_owned());
        }
        finalizers
    }

    /// Marks an object as going away.
    fn mark(&self, object: &mut Value) {
        let now = crate::time::stamp(self.server.clock.now());
        object["metadata"]["deletionTimestamp"] = now.as_str().into();
        match self.resource.behaviour {
            Behaviour::Namespace => object["status"]["phase"] = "Terminating".into(),
            behaviour => {
                object["metadata"]["deletionGracePeriodSeconds"] = 0.into();
                if behaviour == Behaviour::Crd {
                    let condition = json!({"type": "Terminating", "status": "True", "lastTransitionTime": now,
                        "reason": "InstanceDeletionPending",
                        "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will \
                                    begin soon"});
                    if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
                        conditions.push(condition);
                    }
                }
            }
        }
        if let Some(generation) = object["metadata"]["generation"].as_i64() {
            object["metadata"]["generation"] = (generation + 1).into();
        }
    }

    /// What must happen before a deletion of this kind is answered.
    pub(super) fn after_delete(&self) {
        if self.resource.behaviour == Behaviour::Crd {
            self.server.rebuild_registry();
        }
    }
}
