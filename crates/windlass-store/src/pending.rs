//! Changes that have their revisions but are not committed yet.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{CommitError, Conflict};
use crate::event::Event;
use crate::key::Key;
use crate::object::Object;
use crate::state::State;
use crate::transaction::{Change, Committed, Operation, Transaction};

/// The state as it will be once what was applied to it is committed, and what that takes.
pub(crate) struct Pending {
    pub(crate) state: State,
    pub(crate) events: Vec<Arc<Event>>,
    pub(crate) batch: Batch,
}

/// What a backend writes at once. An object that is written twice in a batch is in it once.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    /// The revision of the store once the batch is committed.
    pub(crate) revision: u64,
    /// How many changes after this batch may be acknowledged before the next batch is durable. If the
    /// process ends without closing the store, that many revisions are skipped at the next start: what
    /// had them may have been seen by clients, and nothing else must ever have them.
    pub(crate) lag: u64,
    /// The new objects, and `None` for those that are gone, in the order of the disk.
    pub(crate) objects: BTreeMap<Key, Option<Arc<Object>>>,
}

impl Batch {
    /// Adds what was committed after this batch.
    pub(crate) fn merge(&mut self, later: Batch) {
        self.revision = later.revision;
        self.objects.extend(later.objects);
    }
}

impl Pending {
    pub(crate) fn after(state: State) -> Self {
        let batch = Batch { revision: state.revision, ..Batch::default() };
        Self { state, events: Vec::new(), batch }
    }

    /// Whether there is nothing to commit.
    pub(crate) fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Applies a valid transaction if all its expectations hold, and leaves everything as it was if not.
    pub(crate) fn apply(&mut self, transaction: Transaction) -> Result<Committed, CommitError> {
        let operations = transaction.into_operations();
        for Operation { key, expect, .. } in &operations {
            let found = self.state.get(key);
            if !expect.holds(found) {
                let (key, found) = (key.clone(), found.cloned());
                return Err(Conflict { key, expected: *expect, found }.into());
            }
        }
        let objects = operations.into_iter().map(|operation| self.change(operation)).collect();
        Ok(Committed { revision: self.state.revision, objects })
    }

    fn change(&mut self, operation: Operation) -> Option<Arc<Object>> {
        let Operation { key, change, .. } = operation;
        let revision = self.state.revision + 1;
        let previous = self.state.get(&key).cloned();
        let (event, object) = match (change, previous) {
            (Change::Nothing, _) | (Change::Delete { .. }, None) => return None,
            (Change::Put(value), previous) => {
                let object = Arc::new(value.into_object(key.clone(), revision));
                self.state.insert(Arc::clone(&object));
                (Event::put(Arc::clone(&object), previous), object)
            }
            (Change::Delete { last }, Some(previous)) => {
                self.state.remove(&key);
                let last = Arc::new(match last {
                    Some(last) => last.into_object(key.clone(), revision),
                    None => Object::new(key.clone(), revision, previous.value().clone()),
                });
                (Event::delete(Arc::clone(&last), previous), last)
            }
        };
        self.state.revision = revision;
        self.batch.revision = revision;
        let remains = (event.kind() != crate::event::EventKind::Deleted).then(|| Arc::clone(&object));
        self.batch.objects.insert(key, remains);
        self.events.push(Arc::new(event));
        Some(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind;
    use crate::key::Resource;
    use crate::transaction::Expect;

    fn key(name: &str) -> Key {
        Key::new(&Resource::new("core/pods").unwrap(), "default", name).unwrap()
    }

    /// A state with `a` at revision 11 and nothing else.
    fn pending() -> Pending {
        let mut pending = Pending::after(State::new(10));
        pending.apply(Transaction::new().put(key("a"), Expect::Absent, "one")).unwrap();
        Pending::after(pending.state)
    }

    #[test]
    fn an_expectation_decides_whether_a_write_happens() {
        // (key, expectation, a put happens, a delete takes a revision or is refused)
        let cases = [
            ("a", Expect::Anything, true, Ok(1)),
            ("a", Expect::Present, true, Ok(1)),
            ("a", Expect::Revision(11), true, Ok(1)),
            ("a", Expect::Absent, false, Err(Some(11))),
            ("a", Expect::Revision(10), false, Err(Some(11))),
            ("a", Expect::Revision(12), false, Err(Some(11))),
            ("b", Expect::Anything, true, Ok(0)),
            ("b", Expect::Absent, true, Ok(0)),
            ("b", Expect::Present, false, Err(None)),
            ("b", Expect::Revision(0), false, Err(None)),
        ];
        for (name, expect, put_happens, delete) in cases {
            let mut after_put = pending();
            let put = after_put.apply(Transaction::new().put(key(name), expect, "two"));
            assert_eq!(put.is_ok(), put_happens, "put {name} expecting {expect}");
            assert_eq!(
                after_put.state.revision,
                11 + u64::from(put_happens),
                "put {name} expecting {expect}"
            );

            let mut after_delete = pending();
            let deleted = after_delete.apply(Transaction::new().delete(key(name), expect));
            let outcome = match deleted {
                Ok(_) => Ok(after_delete.state.revision - 11),
                Err(CommitError::Conflict(conflict)) => Err(conflict.found.map(|found| found.revision())),
                Err(other) => panic!("{other}"),
            };
            assert_eq!(outcome, delete, "delete {name} expecting {expect}");
        }
    }

    #[test]
    fn every_change_of_a_transaction_takes_the_next_revision() {
        let mut pending = pending();
        let transaction = Transaction::new()
            .check(key("a"), Expect::Revision(11))
            .put(key("b"), Expect::Absent, "b")
            .delete(key("nobody"), Expect::Anything)
            .put(key("c"), Expect::Absent, "c");
        let committed = pending.apply(transaction).unwrap();
        let revisions: Vec<_> =
            committed.objects.iter().map(|object| object.as_ref().map(|object| object.revision())).collect();
        assert_eq!(revisions, [None, Some(12), None, Some(13)]);
        assert_eq!((committed.revision, pending.batch.revision, pending.events.len()), (13, 13, 2));
    }

    #[test]
    fn a_transaction_with_one_failed_expectation_changes_nothing() {
        let mut pending = pending();
        let transaction = Transaction::new()
            .put(key("b"), Expect::Absent, "b")
            .delete(key("a"), Expect::Revision(11))
            .check(key("c"), Expect::Present);
        let refused = pending.apply(transaction).unwrap_err();
        assert_eq!(refused.to_string(), "core/pods default/c: expected any revision, found nothing");
        assert!(pending.is_empty() && pending.batch.objects.is_empty());
        assert_eq!((pending.state.revision, pending.state.len()), (11, 1));
    }

    #[test]
    fn a_later_transaction_of_a_batch_sees_the_earlier_ones() {
        let mut pending = pending();
        pending.apply(Transaction::new().put(key("a"), Expect::Revision(11), "two")).unwrap();
        let stale = pending.apply(Transaction::new().put(key("a"), Expect::Revision(11), "three"));
        assert_eq!(
            stale.unwrap_err().to_string(),
            "core/pods default/a: expected revision 11, found revision 12"
        );
        pending.apply(Transaction::new().delete(key("a"), Expect::Revision(12))).unwrap();
        pending.apply(Transaction::new().put(key("a"), Expect::Absent, "four")).unwrap();
        assert_eq!(pending.batch.objects.len(), 1, "the disk is given the last version only");
        let written = pending.batch.objects[&key("a")].as_ref().unwrap();
        assert_eq!((written.revision(), written.value().as_ref()), (14, &b"four"[..]));
        let kinds: Vec<_> = pending.events.iter().map(|event| event.kind()).collect();
        assert_eq!(kinds, [EventKind::Updated, EventKind::Deleted, EventKind::Created]);
    }

    #[test]
    fn a_deletion_shows_the_last_value_and_its_own_revision() {
        let mut plain = pending();
        plain.apply(Transaction::new().delete(key("a"), Expect::Anything)).unwrap();
        let event = &plain.events[0];
        assert_eq!((event.revision(), event.object().value().as_ref()), (12, &b"one"[..]));
        assert_eq!(event.previous().unwrap().revision(), 11);

        let mut shown = pending();
        let last = crate::object::Value::stamped("gone at ", "");
        shown.apply(Transaction::new().delete_showing(key("a"), Expect::Anything, last)).unwrap();
        assert_eq!(shown.events[0].object().value().as_ref(), b"gone at 12");
        assert_eq!(shown.state.value_bytes, 0);
    }
}
