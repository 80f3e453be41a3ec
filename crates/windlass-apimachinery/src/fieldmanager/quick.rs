//! The short way through a write, which most writes can take.
//!
//! It comes to the same as the long way in [`manager`](super::manager), and property tests compare the
//! two. It is open where all owners are of the version of the request and their entries are written as
//! this crate writes them; a write that would end in a conflict, or that takes fields away, leaves it.

use serde_json::{Map, Value};

use super::entries::Entries;
use super::last_applied;
use super::managed::{Manager, Timestamp, same_apart_from_owners};
use super::manager::{FieldManager, NEVER_OWNED};
use super::shape::Shape;
use super::typed;

impl FieldManager<'_> {
    /// As [`update`](FieldManager::update); gives the object back if it must take the long way.
    pub(super) fn quick_update(
        &self,
        live: &Value,
        mut new: Value,
        manager: &str,
        now: Timestamp,
    ) -> Result<Value, Value> {
        let Some(shape) = self.shape() else { return Err(new) };
        let stored = owners(live);
        let given = owners(&new);
        let is_unchanged = given == stored;
        // Clients send back the owners they read, or none; who sends others wants to change them.
        let is_usual = is_unchanged || given.is_none_or(Value::is_null);
        if !is_usual || !self.is_open(live, stored, &shape) || self.check_type(&new).is_err() {
            return Err(new);
        }
        let taken = take_owners(&mut new);
        let mut entries = Entries::take(if is_unchanged { taken } else { stored.cloned() });
        // An object whose field managers were forgotten stays without, until the next apply.
        if entries.is_empty() && has_uid(live) {
            return Ok(new);
        }
        let has_shape = typed::conform_except(live, &shape, true, stored).is_ok()
            && typed::conform(&new, &shape, true).is_ok();
        if has_shape {
            let reset = self.endpoint.reset_fields();
            let changes = typed::compare_except(live, &new, &shape, stored).without(reset);
            for entry in entries.iter_mut() {
                for changed in [&changes.added, &changes.modified, &changes.removed] {
                    entry.lose(changed);
                }
            }
            entries.retain_owning();
            let mut gained = changes.added;
            gained.absorb(changes.modified);
            gained.subtract(&NEVER_OWNED);
            if !gained.is_empty() {
                let writer = Manager::updater(manager, self.api_version, self.endpoint.subresource());
                match entries.find(&writer) {
                    Some(entry) => {
                        entry.fields_mut().absorb(gained);
                        entry.set_time(now);
                    }
                    None => entries.add(&writer, self.api_version, gained, now),
                }
            }
            if entries.has_too_many_updaters() {
                return Err(new);
            }
        }
        store(entries, &mut new);
        Ok(new)
    }

    /// As [`apply`](FieldManager::apply), for a configuration that was checked; `None` if it must take the
    /// long way.
    pub(super) fn quick_apply(
        &self,
        live: &Value,
        config: &Value,
        manager: &str,
        force: bool,
        now: Timestamp,
    ) -> Option<Value> {
        let shape = self.shape()?;
        let stored = owners(live);
        let has_owners = stored.and_then(Value::as_array).is_some_and(|entries| !entries.is_empty());
        let is_open = self.is_open(live, stored, &shape) && (has_owners || *live == self.blank());
        if !is_open || typed::conform_except(live, &shape, true, stored).is_err() {
            return None;
        }
        let reset = self.endpoint.reset_fields();
        let applier = Manager::applier(manager, self.endpoint.subresource());
        let mut fields = typed::fields(config, &shape);
        fields.subtract_recursively(reset);
        let mut entries = Entries::take(stored.cloned());
        // Only what the manager gave up can go; an apply of the same fields gives up nothing.
        if entries.find(&applier).is_some_and(|last| !last.is_within(&fields)) {
            return None;
        }
        let mut object = typed::merge_except(live, config, &shape, stored);
        let changes = typed::compare_except(live, &object, &shape, stored).without(reset);
        let mut owners_change = false;
        for entry in entries.iter_mut().filter(|entry| !entry.is_of(&applier)) {
            let lost = [&changes.added, &changes.modified].map(|changed| entry.lose(changed));
            let is_conflict = lost.contains(&true);
            if is_conflict && !force {
                return None;
            }
            owners_change |= entry.lose(&changes.removed) || is_conflict;
        }
        entries.retain_owning();
        fields.subtract(&NEVER_OWNED);
        if fields.is_empty() {
            owners_change |= entries.remove(&applier);
        } else if let Some(entry) = entries.find(&applier) {
            owners_change |= entry.replace_fields(fields);
            entry.set_time(now);
        } else {
            owners_change = true;
            entries.add(&applier, self.api_version, fields, now);
        }
        last_applied::refresh(manager, config, &mut object);
        if !owners_change && changes.is_empty() && same_apart_from_owners(&object, live) {
            return Some(live.clone());
        }
        store(entries, &mut object);
        Some(object)
    }

    /// Whether what is stored allows the short way.
    fn is_open(&self, live: &Value, stored: Option<&Value>, shape: &Shape) -> bool {
        // Metadata of nothing but owners is empty metadata without them, which makes a difference.
        let has_more = || live["metadata"].as_object().is_some_and(|metadata| metadata.len() > 1);
        (stored.is_none() || has_more()) && Entries::are_readable(stored, self.api_version, shape)
    }
}

fn owners(object: &Value) -> Option<&Value> {
    object.get("metadata")?.get("managedFields")
}

fn has_uid(object: &Value) -> bool {
    object.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty())
}

fn take_owners(object: &mut Value) -> Option<Value> {
    object.get_mut("metadata")?.as_object_mut()?.remove("managedFields")
}

fn store(entries: Entries, object: &mut Value) {
    let Value::Object(fields) = object else { return };
    if entries.is_empty() {
        return;
    }
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    if let Value::Object(metadata) = metadata {
        metadata.insert("managedFields".into(), entries.into_json());
    }
}
