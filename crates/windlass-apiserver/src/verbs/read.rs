//! Reading: one object, or a list of them.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_store::{Key, Object, Snapshot, SnapshotError};

use super::{Call, Written};
use crate::api::{Failure, Layout, VersionMatch, View};
use crate::registry::Resource;
use crate::response::{BodyError, Reply};
use crate::selection::Selection;
use crate::service::is_for_people;
use crate::table::partial_bytes;

/// Where a page of a list ended, as clients carry it back.
#[derive(Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: u64,
    start: String,
}

const CONTINUE_VERSION: &str = "meta.k8s.io/v1";

impl Call {
    pub(super) fn get(&self) -> Result<Reply, Failure> {
        if let Some(wanted) = self.query.revision()? {
            self.check_reached(wanted)?;
        }
        let object = self.find(self.name())?;
        self.reply(StatusCode::OK, Written::Stored(object))
    }

    fn check_reached(&self, wanted: u64) -> Result<(), Failure> {
        let current = self.server.store.revision();
        if wanted > current { Err(Failure::version_too_large(wanted, current)) } else { Ok(()) }
    }

    pub(super) fn list(self) -> Result<Reply, Failure> {
        let selection = Selection::parse(&self.resource, &self.query, None)?;
        let namespace =
            self.resource.namespaced.then_some(self.namespace.as_str()).filter(|name| !name.is_empty());
        let scope = self.resource.scope(namespace);
        let (snapshot, after) = self.snapshot(namespace)?;
        let objects: Box<dyn Iterator<Item = _> + '_> = match &after {
            Some(key) => Box::new(snapshot.list_after(&scope, key)),
            None => Box::new(snapshot.list(&scope)),
        };
        let limit = if self.query.limit == 0 { usize::MAX } else { self.query.limit };
        let mut page = Page { revision: snapshot.revision(), ..Page::default() };
        let mut items = Vec::new();
        for object in objects {
            if items.len() == limit {
                if page.more.is_none() {
                    page.more = items.last().map(|last: &Arc<Object>| last.key().clone());
                    if !selection.is_everything() {
                        if selection.contains(&self.resource, object) {
                            break;
                        }
                        page.more = None;
                        continue;
                    }
                }
                page.remaining += 1;
            } else if selection.contains(&self.resource, object) {
                items.push(Arc::clone(object));
            }
        }
        page.count_remaining = selection.is_everything();
        let around = self.around_list(&page, namespace)?;
        self.list_reply(around, items)
    }

    /// The answer with a list of objects. A long one is encoded while the client takes it.
    pub(super) fn list_reply(
        self,
        (head, tail): (String, String),
        objects: Vec<Arc<Object>>,
    ) -> Result<Reply, Failure> {
        // What waits for a webhook is on a thread of its own now, and people want to see line breaks.
        let at_once = self.resource.waits_to_convert() || is_for_people(&self.headers, self.query.pretty);
        let is_short = objects.iter().map(|object| object.value().len()).sum::<usize>() <= WHOLE_LIST;
        let references = (objects.len() * size_of::<Arc<Object>>()) as u64;
        let mut pieces = ListPieces { call: self, head, objects: objects.into_iter(), tail, begun: false };
        if at_once || is_short {
            return Ok(Reply::json(StatusCode::OK, pieces.piece(usize::MAX)?.unwrap_or_default()));
        }
        Ok(Reply::stream(stream::iter(pieces), references))
    }

    /// The moment that the list is of, and after which object the page starts.
    fn snapshot(&self, namespace: Option<&str>) -> Result<(Snapshot, Option<Key>), Failure> {
        let scope = self.resource.scope(namespace);
        let at = |revision| {
            self.server.store.snapshot_at(&scope, revision).map_err(|error| match error {
                SnapshotError::Expired(_) => Failure::continue_expired(),
                SnapshotError::Future { requested, current } => {
                    Failure::version_too_large(requested, current)
                }
            })
        };
        if !self.query.continue_token.is_empty() {
            let (revision, after) = self.read_continue(namespace)?;
            return Ok((at(revision)?, Some(after)));
        }
        let snapshot = match (self.query.revision()?, self.query.version_match) {
            (Some(wanted), Some(VersionMatch::Exact)) => at(wanted)?,
            (Some(wanted), _) => {
                self.check_reached(wanted)?;
                self.server.store.snapshot()
            }
            (None, _) => self.server.store.snapshot(),
        };
        Ok((snapshot, None))
    }

    fn read_continue(&self, namespace: Option<&str>) -> Result<(u64, Key), Failure> {
        let invalid =
            || Failure::bad_request("continue key is not valid: the token was not made by this server");
        if !self.query.resource_version.is_empty() && self.query.resource_version != "0" {
            return Err(Failure::bad_request(
                "specifying resource version is not allowed when using continue",
            ));
        }
        let decoded = URL_SAFE_NO_PAD.decode(&self.query.continue_token).map_err(|_| invalid())?;
        let token: Continue = serde_json::from_slice(&decoded).map_err(|_| invalid())?;
        let start = token.start.strip_suffix('\0').unwrap_or(&token.start).trim_start_matches('/');
        let (namespace, name) = match (namespace, start.split_once('/')) {
            (Some(namespace), None) => (namespace, start),
            (None, Some((namespace, name))) => (namespace, name),
            (None, None) => ("", start),
            (Some(_), Some(_)) => return Err(invalid()),
        };
        if token.v != CONTINUE_VERSION {
            return Err(invalid());
        }
        Ok((token.rv, self.resource.key(namespace, name).map_err(|_| invalid())?))
    }

    /// What is before and after the objects of a list.
    pub(super) fn around_list(
        &self,
        page: &Page,
        namespace: Option<&str>,
    ) -> Result<(String, String), Failure> {
        let resource = &self.resource;
        let mut meta = page.meta(namespace);
        let tail = || "]}".to_owned();
        match self.view {
            View::Table => Ok(self.table()?.around_rows(&meta)),
            View::Metadata => {
                let kind = r#""kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1""#;
                Ok((format!(r#"{{{kind},"metadata":{meta},"items":["#), tail()))
            }
            View::Whole => {
                let (api_version, kind) = (resource.api_version(), &resource.list_kind);
                if resource.layout() == Layout::KindFirst {
                    let head = format!(
                        r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{meta},"items":["#
                    );
                    return Ok((head, tail()));
                }
                if meta["continue"].is_null() {
                    meta["continue"] = "".into();
                }
                let head = format!(r#"{{"apiVersion":"{api_version}","items":["#);
                Ok((head, format!(r#"],"kind":"{kind}","metadata":{meta}}}"#)))
            }
        }
    }

    /// An object in a list.
    fn list_element(&self, object: &Object) -> Result<Bytes, Failure> {
        match self.view {
            View::Table => Ok(self.table()?.row(object)?.to_string().into()),
            View::Metadata => partial_bytes(&self.resource.bytes(object)?),
            View::Whole => list_item(&self.resource, object),
        }
    }
}

/// How many bytes the objects of a list may have that is encoded whole: most lists are.
const WHOLE_LIST: usize = 64 * 1024;

/// How much of a longer list is encoded at once.
const LIST_PIECE: usize = 16 * 1024;

/// A list, piece by piece. Objects are encoded when the client takes them.
struct ListPieces {
    call: Call,
    head: String,
    objects: std::vec::IntoIter<Arc<Object>>,
    tail: String,
    begun: bool,
}

impl ListPieces {
    /// The next piece, of about this many bytes.
    fn piece(&mut self, length: usize) -> Result<Option<Bytes>, Failure> {
        let mut out = std::mem::take(&mut self.head).into_bytes();
        while out.len() < length
            && let Some(object) = self.objects.next()
        {
            if std::mem::replace(&mut self.begun, true) {
                out.push(b',');
            }
            out.extend_from_slice(&self.call.list_element(&object)?);
        }
        if self.objects.len() == 0 {
            out.extend_from_slice(std::mem::take(&mut self.tail).as_bytes());
        }
        Ok(Some(Bytes::from(out)).filter(|piece| !piece.is_empty()))
    }
}

impl Iterator for ListPieces {
    type Item = Result<Bytes, BodyError>;

    fn next(&mut self) -> Option<Self::Item> {
        let piece = self.piece(LIST_PIECE).map_err(BodyError::from);
        if piece.is_err() {
            // An answer that cannot be completed ends here, and the client is told by that.
            self.objects = Vec::new().into_iter();
            self.tail.clear();
        }
        piece.transpose()
    }
}

/// What a list says about itself.
#[derive(Default)]
pub(super) struct Page {
    pub(super) revision: u64,
    more: Option<Key>,
    remaining: usize,
    count_remaining: bool,
}

impl Page {
    pub(super) fn whole(revision: u64) -> Self {
        Self { revision, ..Self::default() }
    }

    fn meta(&self, namespace: Option<&str>) -> Value {
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if let Some(last) = &self.more {
            let start = match namespace {
                None if !last.namespace().is_empty() => format!("{}/{}\0", last.namespace(), last.name()),
                _ => format!("/{}\0", last.name()),
            };
            let token = Continue { v: CONTINUE_VERSION.to_owned(), rv: self.revision, start };
            let token = serde_json::to_vec(&token).unwrap_or_default();
            meta["continue"] = URL_SAFE_NO_PAD.encode(token).into();
            if self.count_remaining {
                meta["remainingItemCount"] = self.remaining.into();
            }
        }
        meta
    }
}

/// An object inside a list. Built-in kinds do not repeat what the list says about all of them.
fn list_item(resource: &Resource, object: &Object) -> Result<Bytes, Failure> {
    let bytes = resource.bytes(object)?;
    if resource.layout() == Layout::ByName {
        return Ok(bytes);
    }
    let prefix = format!(r#"{{"kind":"{}","apiVersion":"{}","#, resource.kind, resource.api_version());
    match bytes.strip_prefix(prefix.as_bytes()) {
        Some(rest) => Ok([b"{", rest].concat().into()),
        None => Ok(bytes),
    }
}
