//! What was applied to which object, so that nothing is applied twice.
//!
//! The memory only saves work. What is not remembered is told from the `managedFields` of the object, as after a restart.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::api::ObjectMeta;
use serde::Serialize;

use crate::key::parse_revision;

/// What became of an intent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied<K> {
    /// The object is up to date: nothing was written.
    Unchanged,
    /// The object was written, and is this now.
    Written(K),
}

impl<K> Applied<K> {
    /// Whether the object was written.
    pub fn is_written(&self) -> bool {
        matches!(self, Self::Written(_))
    }
}

/// Objects that are remembered at most, about 20 MB. Beyond that the memory starts anew. Objects are forgotten when they
/// leave a cache, so that only those of kinds without a cache add up.
const MOST_OBJECTS: usize = 100_000;

/// What the field managers of this process applied last, by the UID of the object.
#[derive(Debug, Default)]
pub(crate) struct Memory {
    objects: Mutex<HashMap<String, Vec<Remembered>>>,
}

#[derive(Debug)]
struct Remembered {
    manager: String,
    /// The hash of the intent, or of what the intent follows from.
    asked: u64,
    revision: u64,
    fingerprint: u64,
}

impl Memory {
    /// Whether an object is what applying this intent made of it: nothing changed since that an intent may be about.
    pub(crate) fn knows(&self, manager: &str, asked: u64, meta: &ObjectMeta) -> bool {
        let Some(uid) = &meta.uid else { return false };
        let mut objects = self.objects();
        let known = objects.get_mut(uid).and_then(|managers| {
            managers.iter_mut().find(|known| known.manager == manager && known.asked == asked)
        });
        let Some(known) = known else { return false };
        let revision = parse_revision(meta.resource_version.as_deref());
        if known.revision == revision {
            return true;
        }
        let is_same = known.fingerprint == fingerprint(meta);
        if is_same {
            known.revision = revision;
        }
        is_same
    }

    /// Remembers that an object is what applying this intent makes of it.
    pub(crate) fn remember(&self, manager: &str, asked: u64, meta: &ObjectMeta) {
        let Some(uid) = &meta.uid else { return };
        let known = Remembered {
            manager: manager.to_owned(),
            asked,
            revision: parse_revision(meta.resource_version.as_deref()),
            fingerprint: fingerprint(meta),
        };
        let mut objects = self.objects();
        if objects.len() >= MOST_OBJECTS && !objects.contains_key(uid) {
            objects.clear();
        }
        let managers = objects.entry(uid.clone()).or_default();
        managers.retain(|other| other.manager != manager);
        managers.push(known);
    }

    /// Forgets an object that is gone.
    pub(crate) fn forget(&self, meta: &ObjectMeta) {
        if let Some(uid) = &meta.uid {
            self.objects().remove(uid);
        }
    }

    fn objects(&self) -> MutexGuard<'_, HashMap<String, Vec<Remembered>>> {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Changes with everything that an intent may be about, and not with the status: the generation counts changes of all but
/// metadata and status. Kinds that have no generation have no status that changes all the time either, so that any
/// change of theirs counts.
fn fingerprint(meta: &ObjectMeta) -> u64 {
    let content = match meta.generation {
        Some(generation) => (generation, 0),
        None => (0, parse_revision(meta.resource_version.as_deref())),
    };
    let mut hasher = DefaultHasher::new();
    (content, &meta.labels, &meta.annotations, &meta.finalizers).hash(&mut hasher);
    meta.deletion_timestamp.is_some().hash(&mut hasher);
    for owner in meta.owner_references.iter().flatten() {
        (&owner.api_version, &owner.kind, &owner.name, &owner.uid).hash(&mut hasher);
        (owner.controller, owner.block_owner_deletion).hash(&mut hasher);
    }
    hasher.finish()
}

/// The hash of an intent.
pub(crate) fn hash_of_intent(intent: &impl Serialize) -> Result<u64, serde_json::Error> {
    let mut sink = Sink(DefaultHasher::new());
    serde_json::to_writer(&mut sink, intent)?;
    Ok(sink.0.finish())
}

/// The hash of what an intent follows from.
pub(crate) fn hash_of_basis(basis: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    // Never that of an intent, which is text.
    ("basis", basis).hash(&mut hasher);
    hasher.finish()
}

/// Takes in JSON without keeping it.
struct Sink(DefaultHasher);

impl io::Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn meta(changes: Value) -> ObjectMeta {
        let mut meta = json!({"uid": "u", "name": "n", "resourceVersion": "7", "generation": 2,
            "labels": {"a": "1"}, "annotations": {"b": "2"}, "finalizers": ["f"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "p"}]});
        meta.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        serde_json::from_value(meta).unwrap()
    }

    #[test]
    fn what_was_applied_is_known_until_something_changes_that_an_intent_may_be_about() {
        let memory = Memory::default();
        memory.remember("us", 1, &meta(json!({})));
        for (changes, known) in [
            (json!({}), true),
            // The status.
            (json!({"resourceVersion": "9"}), true),
            (json!({"resourceVersion": "10", "generation": 3}), false),
            (json!({"resourceVersion": "11", "labels": {"a": "2"}}), false),
            (json!({"resourceVersion": "12", "annotations": null}), false),
            (json!({"resourceVersion": "13", "finalizers": []}), false),
            (json!({"resourceVersion": "14", "ownerReferences": null}), false),
            (json!({"resourceVersion": "15", "deletionTimestamp": "2026-01-01T00:00:00Z"}), false),
            (json!({"uid": "another"}), false),
            (json!({"uid": null}), false),
        ] {
            assert_eq!(memory.knows("us", 1, &meta(changes.clone())), known, "{changes}");
        }
        assert!(!memory.knows("them", 1, &meta(json!({}))));
        assert!(!memory.knows("us", 2, &meta(json!({}))));
    }

    #[test]
    fn any_change_counts_where_a_kind_has_no_generation() {
        let memory = Memory::default();
        memory.remember("us", 1, &meta(json!({"generation": null})));
        assert!(memory.knows("us", 1, &meta(json!({"generation": null}))));
        assert!(!memory.knows("us", 1, &meta(json!({"generation": null, "resourceVersion": "8"}))));
    }

    #[test]
    fn the_last_intent_of_each_manager_counts_until_the_object_goes() {
        let (memory, there) = (Memory::default(), meta(json!({})));
        memory.remember("us", 1, &there);
        memory.remember("them", 1, &there);
        memory.remember("us", 2, &there);
        assert!(!memory.knows("us", 1, &there) && memory.knows("us", 2, &there));
        assert!(memory.knows("them", 1, &there));
        memory.forget(&there);
        assert!(!memory.knows("us", 2, &there) && !memory.knows("them", 1, &there));
    }

    #[test]
    fn the_memory_does_not_grow_without_end() {
        let memory = Memory::default();
        for number in 0..=MOST_OBJECTS {
            memory.remember("us", 1, &meta(json!({"uid": number.to_string()})));
        }
        assert_eq!(memory.objects().len(), 1);
    }

    #[test]
    fn intents_with_the_same_fields_have_the_same_hash() {
        let hash = |value: Value| hash_of_intent(&value).unwrap();
        assert_eq!(hash(json!({"a": 1, "b": 2})), hash(json!({"b": 2, "a": 1})));
        assert_ne!(hash(json!({"a": 1})), hash(json!({"a": 2})));
    }
}
