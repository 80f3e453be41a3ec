//! What a caller asks to be written, and what it gets back.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use crate::error::CommitError;
use crate::key::Key;
use crate::object::{Object, Value};

/// More would hold up other writes for too long, and no caller needs it: what deletes a
/// thousand objects deletes them one by one, so that it can be interrupted.
pub const MAX_OPERATIONS: usize = 1024;

/// What must be true of an object for a transaction to be committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing.
    Anything,
    /// It does not exist.
    Absent,
    /// It exists, in whatever version.
    Present,
    /// It exists and was last written at this revision.
    Revision(u64),
}

impl Expect {
    pub(crate) fn holds(self, found: Option<&Arc<Object>>) -> bool {
        match (self, found) {
            (Self::Anything, _) | (Self::Absent, None) | (Self::Present, Some(_)) => true,
            (Self::Revision(expected), Some(found)) => found.revision() == expected,
            (Self::Absent, Some(_)) | (Self::Present | Self::Revision(_), None) => false,
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Anything => f.write_str("anything"),
            Self::Absent => f.write_str("nothing"),
            Self::Present => f.write_str("any revision"),
            Self::Revision(revision) => write!(f, "revision {revision}"),
        }
    }
}

/// Operations that are committed together or not at all.
///
/// Every expectation is about the state before the transaction. Each put and each delete takes the
/// next revision, in the order in which they were added; readers see all of them or none.
#[derive(Debug, Clone, Default)]
pub struct Transaction {
    operations: Vec<Operation>,
}

#[derive(Debug, Clone)]
pub(crate) struct Operation {
    pub(crate) key: Key,
    pub(crate) expect: Expect,
    pub(crate) change: Change,
}

#[derive(Debug, Clone)]
pub(crate) enum Change {
    Nothing,
    Put(Value),
    Delete { last: Option<Value> },
}

impl Transaction {
    /// One that does nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only requires something of an object, and takes no revision.
    #[must_use]
    pub fn check(self, key: Key, expect: Expect) -> Self {
        self.with(key, expect, Change::Nothing)
    }

    /// Creates or replaces an object.
    #[must_use]
    pub fn put(self, key: Key, expect: Expect, value: impl Into<Value>) -> Self {
        self.with(key, expect, Change::Put(value.into()))
    }

    /// Removes an object. Watchers are shown its last value. Removing what is not there, where that was
    /// allowed for with [`Expect::Anything`] or [`Expect::Absent`], does nothing and takes no revision.
    #[must_use]
    pub fn delete(self, key: Key, expect: Expect) -> Self {
        self.with(key, expect, Change::Delete { last: None })
    }

    /// Removes an object and shows watchers `last` as what it was at the end, such as the last value
    /// stamped with the revision of the deletion.
    #[must_use]
    pub fn delete_showing(self, key: Key, expect: Expect, last: impl Into<Value>) -> Self {
        self.with(key, expect, Change::Delete { last: Some(last.into()) })
    }

    fn with(mut self, key: Key, expect: Expect, change: Change) -> Self {
        self.operations.push(Operation { key, expect, change });
        self
    }

    pub(crate) fn into_operations(self) -> Vec<Operation> {
        self.operations
    }

    /// How many revisions it can take at most.
    pub(crate) fn changes(&self) -> usize {
        self.operations.iter().filter(|operation| !matches!(operation.change, Change::Nothing)).count()
    }

    /// About how much it writes.
    pub(crate) fn bytes(&self) -> usize {
        let size = |operation: &Operation| match &operation.change {
            Change::Put(value) => value.len(),
            Change::Nothing | Change::Delete { .. } => 0,
        };
        self.operations.iter().map(size).sum()
    }

    /// What can be said against it without knowing the state.
    pub(crate) fn validate(&self) -> Result<(), CommitError> {
        if self.operations.len() > MAX_OPERATIONS {
            let operations = self.operations.len();
            return Err(CommitError::TooManyOperations { operations, limit: MAX_OPERATIONS });
        }
        if self.operations.len() > 1 {
            let mut keys = BTreeSet::new();
            if let Some(twice) = self.operations.iter().find(|operation| !keys.insert(&operation.key)) {
                return Err(CommitError::DuplicateKey { key: twice.key.clone() });
            }
        }
        Ok(())
    }
}

/// What a transaction did.
#[derive(Debug, Clone)]
pub struct Committed {
    /// The revision of its last change, or of the store if it changed nothing.
    pub revision: u64,
    /// One entry per operation, in order: what a put wrote; what a delete removed, with the revision of
    /// the deletion; `None` for a check and for a delete of what was not there.
    pub objects: Vec<Option<Arc<Object>>>,
}
