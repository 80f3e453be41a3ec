//! What an event tells of: a write, and so whose it was.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::Kind;
use crate::key::revision;

/// What an event tells of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cause {
    /// An object was created or edited at this revision.
    Edited(u64),
    /// Nothing but the status of an object was written, or its finalizers, at this revision.
    Reported(u64),
    /// The object with this uid is gone.
    Gone(String),
    /// Something that is no write of an object of this API.
    Other,
}

impl Cause {
    /// What a change of an object tells of.
    pub(crate) fn of<K: Kind>(before: Option<&K>, after: Option<&K>) -> Self {
        let gone = || before.and_then(|before| before.meta().uid.clone()).map(Self::Gone);
        match (before, after) {
            (Some(before), Some(after)) if edited(before.meta()) == edited(after.meta()) => {
                Self::Reported(revision(after))
            }
            (_, Some(after)) => Self::Edited(revision(after)),
            (_, None) => gone().unwrap_or(Self::Other),
        }
    }

    /// Whether it may be what a key that fails has waited for: a user repairs a specification. What controllers report in
    /// turn may be an answer to the failure itself.
    pub(crate) fn is_edit(&self) -> bool {
        matches!(self, Self::Edited(_) | Self::Other)
    }
}

/// What tells of an edit: specification, labels, annotations, deletion.
fn edited(meta: &ObjectMeta) -> impl PartialEq + '_ {
    (&meta.uid, meta.generation, &meta.labels, &meta.annotations, meta.deletion_timestamp.is_some())
}

/// The writes of a reconcile.
#[derive(Debug, Default)]
pub(crate) struct OwnWrites {
    revisions: BTreeSet<u64>,
    deleted: BTreeSet<String>,
}

impl OwnWrites {
    /// Takes in that an object was written. A revision that could not be read is none: it would be taken for that of every
    /// such object.
    pub(crate) fn note_written(&mut self, revision: u64) {
        if revision > 0 {
            self.revisions.insert(revision);
        }
    }

    /// Takes in that an object was deleted, at once or when its finalizers are gone.
    pub(crate) fn note_deleted(&mut self, uid: String) {
        self.deleted.insert(uid);
    }

    /// Whether an event tells of one of these writes.
    pub(crate) fn caused(&self, event: &Cause) -> bool {
        match event {
            Cause::Edited(revision) | Cause::Reported(revision) => self.revisions.contains(revision),
            Cause::Gone(uid) => self.deleted.contains(uid),
            Cause::Other => false,
        }
    }
}
