//! Replacing objects, whole or in part: what PUT, PATCH and apply have in common.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use windlass_store::{CommitError, Expect, Object, Transaction};

use super::create::Ownership;
use super::prepare::{self, text};
use super::{Call, Written, unavailable};
use crate::admission::Operation;
use crate::api::{Failure, Subject};
use crate::machinery::{Cause, settle_timestamps};
use crate::registry::Subresource;
use crate::response::Reply;

/// Which part of an object a write is about. The rest stays as it is, whatever the request says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    /// Everything but the status, if that has an address of its own.
    Object,
    /// Only the status.
    Status,
    /// Only the finalizers of a namespace.
    Finalizers,
    /// Only the conditions of a certificate signing request.
    Approval,
    /// What a scale sets: written by the server on behalf of the client, with no field manager.
    Scale,
}

impl Part {
    pub(super) fn of(subresource: Option<&Subresource>) -> Result<Self, Failure> {
        match subresource {
            None | Some(Subresource::EphemeralContainers) => Ok(Self::Object),
            Some(Subresource::Status) => Ok(Self::Status),
            Some(Subresource::Finalize) => Ok(Self::Finalizers),
            Some(Subresource::Approval) => Ok(Self::Approval),
            Some(Subresource::Scale(_) | Subresource::Token | Subresource::Eviction) => {
                Err(Failure::method_not_allowed())
            }
        }
    }
}

impl Call {
    pub(super) async fn update(&self, part: Part, body: &Bytes) -> Result<Reply, Failure> {
        let mut warnings = Vec::new();
        let mut object = self.read_object(body, &mut warnings)?;
        let name = self.name();
        match text(&object, "name") {
            "" => {
                return Err(Failure::bad_request(format!(
                    "the name of the object ({name} based on URL) was undeterminable: name must be provided"
                )));
            }
            given if given != name => {
                return Err(Failure::bad_request(format!(
                    "the name of the object ({given}) does not match the name on the URL ({name})"
                )));
            }
            _ => {}
        }
        self.place(&mut object)?;
        if self.resource.strategy.custom && text(&object, "resourceVersion").is_empty() {
            let cause = Cause::invalid(
                "metadata.resourceVersion",
                &Value::from(0),
                "must be specified for an update",
            );
            let Subject { group, kind, name } = self.resource.subject(name);
            return Err(Failure::invalid(group, kind, name, &[cause]));
        }
        let upsert = self.resource.strategy.create_on_update && part == Part::Object;
        let result = self.rewrite(part, Ownership::Creator, &mut warnings, |_| Ok(object.clone())).await;
        let (code, written) = match result {
            Err(failure) if upsert && failure.reason() == "NotFound" => {
                self.may_create()?;
                (StatusCode::CREATED, self.insert(object, Ownership::Creator, &mut warnings).await?)
            }
            result => (StatusCode::OK, result?),
        };
        let mut reply = self.reply(code, written)?;
        reply.warnings = warnings;
        Ok(reply)
    }

    /// Replaces the object that the path names by what `make` makes of it, again if another writer was
    /// faster. A request that names the version it is about is refused instead.
    pub(crate) async fn rewrite(
        &self,
        part: Part,
        ownership: Ownership,
        warnings: &mut Vec<String>,
        mut make: impl FnMut(&Value) -> Result<Value, Failure>,
    ) -> Result<Written, Failure> {
        let written = match self.at_home() {
            None => self.rewrite_only(part, ownership, warnings, make).await?,
            Some(home) => {
                let make = |stored: &Value| {
                    let new = make(&home.resource.shown_as(stored.clone(), &self.resource)?)?;
                    self.for_storage(&home, new)
                };
                let written = home.rewrite_only(part, ownership, warnings, make).await?;
                self.as_asked_for(&home, written)?
            }
        };
        self.after_write(&written).await?;
        Ok(written)
    }

    /// The same, without what must follow a write by a client.
    pub(crate) async fn rewrite_only(
        &self,
        part: Part,
        ownership: Ownership,
        warnings: &mut Vec<String>,
        mut make: impl FnMut(&Value) -> Result<Value, Failure>,
    ) -> Result<Written, Failure> {
        loop {
            let existing = self.find(self.name())?;
            let old = self.resource.value(&existing)?;
            let new = make(&old)?;
            let mut said = Vec::new();
            let attempt = Attempt { existing: &existing, old: &old, part, ownership };
            if let Some(written) = self.try_rewrite(&attempt, new, &mut said).await? {
                warnings.extend(said);
                return Ok(written);
            }
        }
    }

    /// One attempt; `None` if the object has changed in the meantime.
    async fn try_rewrite(
        &self,
        attempt: &Attempt<'_>,
        new: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Option<Written>, Failure> {
        let Attempt { existing, old, part, ownership } = *attempt;
        self.check_preconditions(existing, old, &new)?;
        let mut object = prepare::merge_part(self, part, old, new);
        prepare::keep_identity(old, &mut object);
        self.mutate(Operation::Update, Some(old), &mut object, warnings).await?;
        prepare::keep_identity(old, &mut object);
        self.tidy(&mut object, warnings)?;
        if ownership == Ownership::Creator && part != Part::Scale {
            let (manager, now) = (self.manager(), self.timestamp());
            object = self.with_fields(part, |fields| fields.update_checked(old, object, &manager, now));
        }
        prepare::changed_object(self, part, old, &mut object);
        self.validate(&object, Some(old))?;
        self.admit(Operation::Update, Some(old), &object, warnings).await?;

        object["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
        if settle_timestamps(old, &mut object) {
            return Ok(Some(Written::Stored(Arc::clone(existing))));
        }
        if self.query.dry_run {
            return Ok(Some(Written::Shown(object)));
        }
        let expect = Expect::Revision(existing.revision());
        let key = existing.key().clone();
        let goes_away = prepare::may_go(self, &object);
        let value = self.resource.to_store(&object)?;
        let transaction = if goes_away {
            Transaction::new().delete_showing(key, expect, value)
        } else {
            Transaction::new().put(key, expect, value)
        };
        match self.server.store.commit(transaction).await {
            Ok(_) if goes_away => {
                self.after_delete();
                Ok(Some(Written::Shown(object)))
            }
            Ok(mut committed) => Ok(committed.objects.pop().flatten().map(Written::Stored)),
            Err(CommitError::Conflict(_)) => Ok(None),
            Err(error) => Err(unavailable(&error)),
        }
    }

    fn check_preconditions(&self, existing: &Object, old: &Value, new: &Value) -> Result<(), Failure> {
        let subject = self.resource.subject(self.name());
        let version = text(new, "resourceVersion");
        if !version.is_empty() && version.parse() != Ok(existing.revision()) {
            return Err(Failure::modified(subject));
        }
        let (given, found) = (text(new, "uid"), text(old, "uid"));
        if !given.is_empty() && given != found {
            let why =
                format!("Precondition failed: UID in precondition: {given}, UID in object meta: {found}");
            return Err(Failure::conflict(subject, &why));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Attempt<'a> {
    existing: &'a Arc<Object>,
    old: &'a Value,
    part: Part,
    ownership: Ownership,
}
