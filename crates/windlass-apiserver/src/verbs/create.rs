//! Creating objects.

use bytes::Bytes;
use http::StatusCode;
use serde_json::Value;
use windlass_store::{CommitError, Expect, Key, Transaction};

use super::prepare::{self, text};
use super::update::Part;
use super::{Call, Written, names, unavailable};
use crate::admission::Operation;
use crate::api::{Failure, Subject};
use crate::authorize;
use crate::registry::{Behaviour, Verbs};
use crate::response::Reply;
use crate::stored::meta;

/// How many generated names are tried before giving up.
const NAME_ATTEMPTS: usize = 8;

/// Who owns the fields of a new object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ownership {
    /// The user that creates it.
    Creator,
    /// As an apply has recorded it already.
    Recorded,
}

impl Call {
    pub(super) async fn create(&self, body: &Bytes) -> Result<Reply, Failure> {
        let mut warnings = Vec::new();
        let object = self.read_object(body, &mut warnings)?;
        let written = self.insert(object, Ownership::Creator, &mut warnings).await?;
        let mut reply = self.reply(StatusCode::CREATED, written)?;
        reply.warnings = warnings;
        Ok(reply)
    }

    /// Refuses an update or an apply that would create its object if the user may only change those that are there.
    pub(super) fn may_create(&self) -> Result<(), Failure> {
        authorize::creation(&self.server, &self.identity, &self.resource, &self.namespace, self.name())
    }

    /// Creates an object, under a generated name if it asks for one.
    pub(crate) async fn insert(
        &self,
        mut object: Value,
        ownership: Ownership,
        warnings: &mut Vec<String>,
    ) -> Result<Written, Failure> {
        let nowhere = self.resource.namespaced && self.namespace.is_empty();
        if self.resource.verbs != Verbs::All || nowhere {
            return Err(Failure::method_not_allowed());
        }
        if let Some(home) = self.at_home() {
            let object = self.for_storage(&home, object)?;
            let written = Box::pin(home.insert(object, ownership, warnings)).await?;
            return self.as_asked_for(&home, written);
        }
        if self.resource.terminating {
            return Err(Failure::not_while_terminating(self.resource.subject("")));
        }
        self.place(&mut object)?;
        prepare::reset_metadata(&mut object);
        let prefix = text(&object, "generateName").to_owned();
        if !text(&object, "name").is_empty() || prefix.is_empty() {
            return self.try_insert(object, ownership, warnings).await;
        }
        let mut attempt = 1;
        loop {
            let mut named = object.clone();
            // The longest name that leaves room for the suffix.
            let kept: String = prefix.chars().take(names::MAX_NAME - 5).collect();
            named["metadata"]["name"] = format!("{kept}{}", self.suffix(&prefix)).into();
            let mut said = Vec::new();
            match self.try_insert(named, ownership, &mut said).await {
                Err(failure) if failure.reason() == "AlreadyExists" && attempt < NAME_ATTEMPTS => {
                    attempt += 1
                }
                result => {
                    warnings.extend(said);
                    return result;
                }
            }
        }
    }

    fn suffix(&self, prefix: &str) -> String {
        self.server.suffix(&self.resource, &self.namespace, prefix)
    }

    /// Puts the object where the path says, or refuses one that says it belongs elsewhere.
    pub(super) fn place(&self, object: &mut Value) -> Result<(), Failure> {
        if !object["metadata"].is_object() {
            object["metadata"] = Value::Object(serde_json::Map::new());
        }
        let given = text(object, "namespace");
        if !given.is_empty() && given != self.namespace {
            return Err(Failure::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
        if !self.namespace.is_empty() {
            object["metadata"]["namespace"] = self.namespace.as_str().into();
        }
        Ok(())
    }

    async fn try_insert(
        &self,
        mut object: Value,
        ownership: Ownership,
        warnings: &mut Vec<String>,
    ) -> Result<Written, Failure> {
        let name = text(&object, "name").to_owned();
        let mut namespace = self.open_namespace(&name)?;
        self.mutate(Operation::Create, None, &mut object, warnings).await?;
        self.tidy(&mut object, warnings)?;
        prepare::stamp_new(self, &mut object);
        if self.resource.has_status() {
            prepare::remove(&mut object, "status");
        }
        if ownership == Ownership::Creator {
            let now = self.timestamp();
            let manager = self.manager();
            object = self.with_fields(Part::Object, |fields| {
                prepare::remove_owners(&mut object);
                fields.update_checked(&self.blank(), object, &manager, now)
            });
        }
        prepare::new_object(self, &mut object);
        self.validate(&object, None)?;
        self.admit(Operation::Create, None, &object, warnings).await?;

        let key = self.key(&name)?;
        if self.query.dry_run {
            return match self.server.store.get(&key) {
                Some(found) => Err(self.exists(&name, meta(&found).deleted_at.is_some())),
                None => Ok(Written::Shown(object)),
            };
        }
        let value = self.resource.to_store(&object)?;
        loop {
            let mut transaction = Transaction::new();
            if let Some((key, revision)) = &namespace {
                transaction = transaction.check(key.clone(), Expect::Revision(*revision));
            }
            let put = transaction.put(key.clone(), Expect::Absent, value.clone());
            match self.server.store.commit(put).await {
                Ok(mut committed) => {
                    let object = committed.objects.pop().flatten();
                    let object = object.ok_or_else(|| Failure::internal("a committed object is missing"))?;
                    let written = Written::Stored(object);
                    self.after_write(&written).await?;
                    return Ok(written);
                }
                Err(CommitError::Conflict(conflict)) if conflict.key == key => {
                    let deleting = conflict.found.is_some_and(|found| meta(&found).deleted_at.is_some());
                    return Err(self.exists(&name, deleting));
                }
                // The namespace changed in the meantime: it may be going away.
                Err(CommitError::Conflict(_)) => namespace = self.open_namespace(&name)?,
                Err(error) => return Err(unavailable(&error)),
            }
        }
    }

    fn exists(&self, name: &str, deleting: bool) -> Failure {
        Failure::already_exists(self.resource.subject(name), deleting)
    }

    /// The namespace that the object goes into, which must exist and stay. The revision is checked again
    /// when the object is written, so that nothing slips into a namespace that is being emptied.
    fn open_namespace(&self, name: &str) -> Result<Option<(Key, u64)>, Failure> {
        if !self.resource.namespaced {
            return Ok(None);
        }
        let Some(namespaces) = self.registry.get("", "v1", "namespaces") else { return Ok(None) };
        let key =
            namespaces.key("", &self.namespace).map_err(|error| Failure::bad_request(error.to_string()))?;
        let found = self.server.store.get(&key);
        let subject = Subject { group: "", kind: "namespaces", name: &self.namespace };
        let namespace = found.ok_or_else(|| Failure::not_found(subject))?;
        // Events about what is going away may still be written.
        if meta(&namespace).deleted_at.is_some() && self.resource.behaviour != Behaviour::Event {
            return Err(Failure::namespace_terminating(self.resource.subject(name), &self.namespace));
        }
        Ok(Some((key, namespace.revision())))
    }

    /// Drops what the schema does not know, and fills in defaults. How deep the outcome is, validation tells.
    pub(super) fn tidy(&self, object: &mut Value, warnings: &mut Vec<String>) -> Result<(), Failure> {
        if let Some(schema) = &self.resource.schema {
            let unknown = schema.schema.prune_checked(object);
            self.complain(warnings, unknown.iter().map(|field| format!("unknown field {field:?}")))?;
            schema.schema.apply_defaults_checked(object);
        } else {
            prepare::drop_empty_metadata(object);
        }
        prepare::default_object(self, object);
        Ok(())
    }

    /// Refuses an object that is not what its resource says.
    pub(super) fn validate(&self, object: &Value, old: Option<&Value>) -> Result<(), Failure> {
        authorize::guard_roles(&self.server, &self.identity, &self.resource, object)?;
        let mut causes = names::check(&self.resource, object, old);
        if let Some(schema) = &self.resource.schema {
            let found = schema.schema.validate(object, old);
            let broken = schema.rules.evaluate(object, old, &found);
            causes.extend(found);
            causes.extend(broken);
        }
        causes.extend(prepare::validate(self, object, old));
        if causes.is_empty() { Ok(()) } else { Err(self.invalid(text(object, "name"), &causes)) }
    }
}
