//! Why a write failed.

use std::error::Error;

use kube::core::Status;
use windlass_api::identity::Incomplete;

use crate::cache::describe;
use crate::faults::Verb;
use crate::key::{GroupKind, ObjectKey};

/// A write that did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WriteError {
    /// The API refused it, or could not be reached.
    #[error("cannot {verb} {kind} {key}: {}", describe(source))]
    Failed {
        /// What was tried.
        verb: Verb,
        /// The kind of the object.
        kind: GroupKind,
        /// The object.
        key: ObjectKey,
        /// The reason.
        source: Box<kube::Error>,
    },
    /// The fault injector wanted it.
    #[error("cannot {verb} {kind} {key}: injected fault")]
    Injected {
        /// What was tried.
        verb: Verb,
        /// The kind of the object.
        kind: GroupKind,
        /// The object.
        key: ObjectKey,
        /// Whether it was written all the same.
        written: bool,
    },
    /// The object cannot be expressed as JSON.
    #[error("cannot {verb} {kind} {key}: {source}")]
    Encode {
        /// What was tried.
        verb: Verb,
        /// The kind of the object.
        kind: GroupKind,
        /// The object.
        key: ObjectKey,
        /// The reason.
        source: serde_json::Error,
    },
    /// What the write was decided from is not so any more.
    #[error("cannot {verb} {kind} {key}: it is not as it was read")]
    Outdated {
        /// What was tried.
        verb: Verb,
        /// The kind of the object.
        kind: GroupKind,
        /// The object.
        key: ObjectKey,
    },
    /// The object that was read does not say which one it is, so that another could be written.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
}

impl WriteError {
    /// What the API answered, if it did.
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::Failed { source, .. } => status(source),
            Self::Injected { .. } | Self::Encode { .. } | Self::Outdated { .. } | Self::Incomplete(_) => None,
        }
    }

    /// The object is not as it was read: another client wrote it. Reconciling again is the answer, and what happens to
    /// a reconcile that returns this error.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Outdated { .. })
            || self.status().is_some_and(|status| status.code == 409 && status.reason == "Conflict")
    }

    /// There is an object of this name already.
    pub fn is_already_exists(&self) -> bool {
        self.status().is_some_and(|status| status.code == 409 && status.reason == "AlreadyExists")
    }

    /// There is no such object.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|status| status.code == 404)
    }

    /// The API server, or an admission webhook, will not have the object like this.
    pub fn is_rejected(&self) -> bool {
        self.status().is_some_and(|status| matches!(status.code, 400 | 403 | 422))
    }

    /// Whether the write may have been done all the same: the answer was lost, or it was that of a server in trouble.
    /// Nothing may be undone then that it depends on; the next reconcile sees what there is.
    pub fn may_have_happened(&self) -> bool {
        match self {
            Self::Failed { source, .. } => match source.as_ref() {
                kube::Error::BuildRequest(_) => false,
                other => status(other).is_none_or(|status| status.code >= 500),
            },
            Self::Injected { written, .. } => *written,
            Self::Encode { .. } | Self::Outdated { .. } | Self::Incomplete(_) => false,
        }
    }
}

fn status(error: &kube::Error) -> Option<&Status> {
    match error {
        kube::Error::Api(status) => Some(status),
        _ => None,
    }
}

/// Whether an error, or what caused it, is a conflict.
pub(crate) fn is_conflict(error: &(dyn Error + 'static)) -> bool {
    let conflicts = |error: &kube::Error| {
        status(error).is_some_and(|status| status.code == 409 && status.reason == "Conflict")
    };
    let mut next = Some(error);
    while let Some(error) = next {
        let found = error.downcast_ref::<WriteError>().is_some_and(WriteError::is_conflict)
            || error.downcast_ref::<kube::Error>().is_some_and(conflicts)
            || error.downcast_ref::<Box<kube::Error>>().is_some_and(|error| conflicts(error));
        if found {
            return true;
        }
        next = error.source();
    }
    false
}
