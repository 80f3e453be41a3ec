//! Who wrote what, and what of it was needless: every revision with its controller and with what changed in it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windlass_runtime::{ObjectKey, Write};

use crate::recorder::{Observer, Written};

/// A condition that changes and changes back within this time has flapped: no reader could have acted on it.
const FLAP: SignedDuration = SignedDuration::from_secs(1);

/// What a revision changed, the most telling part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// The object is new.
    Created,
    /// The object is gone.
    Gone,
    /// Its deletion was asked for.
    Deletion,
    /// Its spec, or data that is no status.
    Spec,
    /// Its status, and more of it than conditions.
    Status,
    /// Conditions alone.
    Conditions,
    /// Labels, annotations, owner references or finalizers.
    Metadata,
    /// Nothing but who manages which field.
    Managers,
}

impl fmt::Display for Changed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Created => "created",
            Self::Gone => "gone",
            Self::Deletion => "deletion",
            Self::Spec => "spec",
            Self::Status => "status",
            Self::Conditions => "conditions",
            Self::Metadata => "metadata",
            Self::Managers => "managed fields",
        })
    }
}

/// One revision of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision {
    /// The number that the store gave it; later revisions have higher ones.
    pub number: u64,
    /// When it was made.
    pub at: Timestamp,
    /// The kind of the object.
    pub kind: String,
    /// The object.
    pub key: ObjectKey,
    /// What changed.
    pub changed: Changed,
    /// The fields that changed, as far down as their names say something: `status.phase`, `metadata.labels`.
    pub fields: Vec<String>,
    /// Conditions whose status changed, with what it is now.
    pub conditions: Vec<(String, String)>,
}

/// A condition whose status changed and changed back within a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flap {
    /// The kind of the object.
    pub kind: String,
    /// The object.
    pub key: ObjectKey,
    /// The type of the condition.
    pub condition: String,
    /// The status that it came back to.
    pub status: String,
    /// When it came back.
    pub at: Timestamp,
}

impl fmt::Display for Flap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, key, condition, status, at } = self;
        write!(f, "{kind} {key}: {condition} was back at {status} at {at}")
    }
}

/// Keeps every revision from the moment it observes a [`World`](crate::World). All clones are one.
#[derive(Clone, Debug, Default)]
pub struct Ledger(Arc<Mutex<Vec<Revision>>>);

impl Ledger {
    /// An empty one.
    pub fn new() -> Self {
        Self::default()
    }

    /// All revisions so far.
    pub fn revisions(&self) -> Vec<Revision> {
        self.book().clone()
    }

    /// How many revisions there were, by kind, by controller and by what changed. `journal` is that of the world's faults
    /// and says which controller wrote; what is not in it was written by others, such as the user and the API server.
    pub fn table(&self, journal: &[Write]) -> BTreeMap<(String, String, Changed), usize> {
        let writers = Writers::of(journal);
        let mut table = BTreeMap::new();
        for revision in self.book().iter() {
            let row = (revision.kind.clone(), writers.of_revision(revision), revision.changed);
            *table.entry(row).or_default() += 1;
        }
        table
    }

    /// The conditions that flapped.
    pub fn flaps(&self) -> Vec<Flap> {
        let mut flaps = Vec::new();
        // The changes of each condition, in their order.
        let mut changes: BTreeMap<_, Vec<(Timestamp, &String)>> = BTreeMap::new();
        let book = self.book();
        for revision in book.iter() {
            for (condition, status) in &revision.conditions {
                let of = changes.entry((&revision.kind, &revision.key, condition)).or_default();
                let before = of.len().checked_sub(2).map(|before| of[before]);
                let changed = of.last().map(|(at, _)| *at);
                if let (Some((_, was)), Some(changed)) = (before, changed)
                    && was == status
                    && revision.at.duration_since(changed) < FLAP
                {
                    flaps.push(Flap {
                        kind: revision.kind.clone(),
                        key: revision.key.clone(),
                        condition: condition.clone(),
                        status: status.clone(),
                        at: revision.at,
                    });
                }
                of.push((revision.at, status));
            }
        }
        flaps
    }

    fn book(&self) -> MutexGuard<'_, Vec<Revision>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Ledger {
    fn observe(&mut self, written: &Written<'_>) -> Result<(), String> {
        let (before, after) = written.values();
        let mut fields = Vec::new();
        differences(&before, &after, "", &mut fields);
        let changed = match () {
            () if written.is_creation() => Changed::Created,
            () if written.is_deletion() => Changed::Gone,
            () => of_fields(&fields),
        };
        let kind = after["kind"].as_str().or(before["kind"].as_str()).unwrap_or_default().to_owned();
        let conditions = if written.is_deletion() { Vec::new() } else { transitions(&before, &after) };
        self.book().push(Revision {
            number: written.revision(),
            at: written.at,
            kind,
            key: written.key(),
            changed,
            fields,
            conditions,
        });
        Ok(())
    }
}

/// Which controllers made which revisions.
struct Writers<'a> {
    by_revision: BTreeMap<u64, &'a str>,
    /// The last that wrote an object: its last finalizer was taken off, and no answer says at which revision it went.
    last: BTreeMap<(&'a str, &'a ObjectKey), &'a str>,
}

impl<'a> Writers<'a> {
    fn of(journal: &'a [Write]) -> Self {
        let mut writers = Self { by_revision: BTreeMap::new(), last: BTreeMap::new() };
        for write in journal {
            let by = write.by.as_ref().map_or("", |(controller, _)| controller);
            writers.last.insert((&write.kind.kind, &write.key), by);
            if let Some(revision) = write.revision {
                // A later write with the same revision has changed nothing.
                writers.by_revision.entry(revision).or_insert(by);
            }
        }
        writers
    }

    fn of_revision(&self, revision: &Revision) -> String {
        let gone = || match revision.changed {
            Changed::Gone => self.last.get(&(revision.kind.as_str(), &revision.key)),
            _ => None,
        };
        let by = self.by_revision.get(&revision.number).or_else(gone);
        by.map_or("-", |by| by).to_owned()
    }
}

/// How far down fields are told apart.
const DEPTH: usize = 2;

/// The names of the fields in which two objects differ.
fn differences(before: &Value, after: &Value, path: &str, fields: &mut Vec<String>) {
    let depth = path.split('.').filter(|part| !part.is_empty()).count();
    let (Some(was), Some(is)) = (before.as_object(), after.as_object()) else {
        if before != after {
            fields.push(path.to_owned());
        }
        return;
    };
    if depth == DEPTH {
        if was != is {
            fields.push(path.to_owned());
        }
        return;
    }
    let mut names: Vec<&String> = was.keys().chain(is.keys().filter(|key| !was.contains_key(*key))).collect();
    names.sort();
    for name in names {
        if depth == 1 && path == "metadata" && name == "resourceVersion" {
            continue;
        }
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let of = |object: &serde_json::Map<String, Value>| object.get(name).cloned().unwrap_or(Value::Null);
        let (was, is) = (of(was), of(is));
        match (was.is_null(), is.is_null()) {
            // What was not there before is told by its fields, too.
            (true, false) if is.is_object() => {
                differences(&Value::Object(Default::default()), &is, &path, fields)
            }
            _ => differences(&was, &is, &path, fields),
        }
    }
}

fn of_fields(fields: &[String]) -> Changed {
    let has = |prefix: &str| fields.iter().any(|field| field.starts_with(prefix));
    let is_condition = |field: &String| {
        matches!(field.as_str(), "status.conditions" | "status.deprecated" | "status.observedGeneration")
    };
    let data = |field: &&String| !field.starts_with("metadata.") && !field.starts_with("status");
    match () {
        () if has("metadata.deletionTimestamp") => Changed::Deletion,
        () if fields.iter().any(|field| data(&field)) => Changed::Spec,
        () if fields.iter().any(|field| field.starts_with("status") && !is_condition(field)) => {
            Changed::Status
        }
        () if has("status") => Changed::Conditions,
        () if fields
            .iter()
            .any(|field| field.starts_with("metadata.") && field != "metadata.managedFields") =>
        {
            Changed::Metadata
        }
        () => Changed::Managers,
    }
}

/// The conditions whose status changed, with what it is now.
fn transitions(before: &Value, after: &Value) -> Vec<(String, String)> {
    let statuses = |object: &Value| -> BTreeMap<String, String> {
        let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
        let text = |condition: &Value, field: &str| condition[field].as_str().map(str::to_owned);
        conditions.filter_map(|condition| text(condition, "type").zip(text(condition, "status"))).collect()
    };
    let before = statuses(before);
    let after = statuses(after).into_iter();
    after.filter(|(condition, status)| before.get(condition) != Some(status)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_most_telling_part_of_a_change_names_it() {
        let object = json!({"metadata": {"resourceVersion": "1", "labels": {"a": "1"}, "managedFields": []},
            "spec": {"a": 1}, "status": {"phase": "A", "conditions": []}});
        let cases = [
            (json!({"metadata": {"deletionTimestamp": "t"}, "status": {"phase": "B"}}), Changed::Deletion),
            (json!({"spec": {"a": 2}, "metadata": {"labels": {"a": "2"}}}), Changed::Spec),
            (json!({"data": {"a": 2}}), Changed::Spec),
            (json!({"status": {"phase": "B", "conditions": [1]}}), Changed::Status),
            (json!({"status": {"conditions": [1], "observedGeneration": 2}}), Changed::Conditions),
            (json!({"metadata": {"labels": {"b": "2"}, "resourceVersion": "2"}}), Changed::Metadata),
            (json!({"metadata": {"managedFields": [1], "resourceVersion": "2"}}), Changed::Managers),
        ];
        for (patch, expected) in cases {
            let mut after = object.clone();
            windlass_patch::merge_patch::apply_to(&mut after, &patch);
            let mut fields = Vec::new();
            differences(&object, &after, "", &mut fields);
            assert_eq!(of_fields(&fields), expected, "{patch}: {fields:?}");
        }
    }

    #[test]
    fn a_condition_that_comes_back_within_a_second_has_flapped() {
        let ledger = Ledger::new();
        let write = |millis: i64, name: &str, status: &str| {
            ledger.book().push(Revision {
                number: 1,
                at: Timestamp::from_millisecond(millis).unwrap(),
                kind: "Machine".to_owned(),
                key: ObjectKey::new("n", name),
                changed: Changed::Conditions,
                fields: Vec::new(),
                conditions: vec![("Ready".to_owned(), status.to_owned())],
            });
        };
        for (millis, name, status) in [
            (0, "fast", "True"),
            (5000, "fast", "False"),
            (5999, "fast", "True"),
            (0, "slow", "True"),
            (5000, "slow", "False"),
            (6000, "slow", "True"),
            (0, "onwards", "Unknown"),
            (10, "onwards", "False"),
            (20, "onwards", "True"),
        ] {
            write(millis, name, status);
        }
        let flaps = ledger.flaps();
        assert_eq!(flaps.len(), 1, "{flaps:?}");
        assert_eq!(
            flaps[0].to_string(),
            "Machine n/fast: Ready was back at True at 1970-01-01T00:00:05.999Z"
        );
    }
}
