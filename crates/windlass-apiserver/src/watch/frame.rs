//! Events as bytes. Watchers that want to see an event the same way share its encoding.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::json;
use windlass_clock::Clock;
use windlass_store::{Event, EventKind, Object};

use crate::api::{Failure, View, canonical};
use crate::registry::Resource;
use crate::selection::Selection;
use crate::table::{Include, Table, partial, partial_bytes};
use crate::verbs::Call;

/// How one watch encodes what it sends.
pub(super) struct Frames {
    resource: Arc<Resource>,
    view: View,
    include: Include,
    clock: Clock,
    /// Whether the columns of a table were sent already.
    has_columns: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Added,
    Modified,
    Deleted,
}

impl Type {
    fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

impl Frames {
    pub(super) fn new(resource: Arc<Resource>, view: View, include: Include, clock: Clock) -> Self {
        Self { resource, view, include, clock, has_columns: false }
    }

    /// An object that was there when the watch began.
    pub(super) fn added(&mut self, object: &Object) -> Result<Bytes, Failure> {
        self.encode(Type::Added, object)
    }

    /// A change, as far as the watch is about it. An object that stops being selected is deleted as far
    /// as the client can see, and one that starts to be selected is added.
    pub(super) fn event(
        &mut self,
        event: &Event,
        selection: &Selection,
        call: &Call,
    ) -> Result<Option<Bytes>, Failure> {
        let is_in = event.kind() != EventKind::Deleted && selection.contains(&call.resource, event.object());
        let was_in = event.previous().is_some_and(|previous| selection.contains(&call.resource, previous));
        let ty = match (was_in, is_in) {
            (false, false) => return Ok(None),
            (false, true) => Type::Added,
            (true, true) => Type::Modified,
            (true, false) => Type::Deleted,
        };
        if ty == Type::Deleted && event.kind() != EventKind::Deleted {
            return self.left(event).map(Some);
        }
        if self.view == View::Table {
            return self.encode(ty, event.object()).map(Some);
        }
        let encoding = self.resource.encoding << 4 | u64::from(self.view == View::Metadata) << 2 | ty as u64;
        let mut failed = None;
        let bytes = event.frame(encoding, |event| {
            self.encode(ty, event.object()).unwrap_or_else(|failure| {
                failed = Some(failure);
                Bytes::new()
            })
        });
        match failed {
            Some(failure) => Err(failure),
            // Another watcher failed to encode it: so will this one, and its client is told.
            None if bytes.is_empty() => self.encode(ty, event.object()).map(Some),
            None => Ok(Some(bytes)),
        }
    }

    /// An object that is no longer selected: what it was when it still was, with the revision of the
    /// change that took it out.
    fn left(&mut self, event: &Event) -> Result<Bytes, Failure> {
        let Some(previous) = event.previous() else {
            return Err(Failure::internal("an object without a past"));
        };
        let mut value = self.resource.value(previous)?;
        value["metadata"]["resourceVersion"] = event.revision().to_string().into();
        let body = match self.view {
            View::Whole => canonical(&value, self.resource.layout()),
            View::Metadata => partial(&value).to_string().into(),
            View::Table => {
                let table = self.table();
                let row = table.row_of(value)?;
                table.event(event.revision(), row, !self.has_columns)
            }
        };
        self.has_columns = true;
        Ok(frame(Type::Deleted.as_str(), &body))
    }

    fn encode(&mut self, ty: Type, object: &Object) -> Result<Bytes, Failure> {
        let body = match self.view {
            View::Whole => self.resource.bytes(object)?,
            View::Metadata => partial_bytes(&self.resource.bytes(object)?)?,
            View::Table => {
                let table = self.table();
                let row = table.row(object)?;
                table.event(object.revision(), row, !self.has_columns)
            }
        };
        self.has_columns = true;
        Ok(frame(ty.as_str(), &body))
    }

    fn table(&self) -> Table<'_> {
        Table { resource: &self.resource, include: self.include, now: self.clock.now() }
    }

    /// How far the watch is. The one after the initial objects says that they were all.
    pub(super) fn bookmark(&self, revision: u64, initial_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (api_version, kind) = match self.view {
            View::Metadata => ("meta.k8s.io/v1".to_owned(), "PartialObjectMetadata"),
            View::Whole | View::Table => (self.resource.api_version(), self.resource.kind.as_str()),
        };
        let object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
        frame("BOOKMARK", &canonical(&object, self.resource.layout()))
    }
}

/// A failure as an event.
pub(super) fn error(failure: &Failure) -> Bytes {
    match failure {
        Failure::Status(status) => frame("ERROR", &status.to_json()),
        Failure::NoSuchPath => frame("ERROR", b"{}"),
    }
}

fn frame(ty: &str, object: &[u8]) -> Bytes {
    let head = format!(r#"{{"type":"{ty}","object":"#);
    [head.as_bytes(), object, b"}\n"].concat().into()
}
