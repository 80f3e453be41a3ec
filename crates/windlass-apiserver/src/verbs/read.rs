//! Reading: one object, or a list of them.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::StatusCode;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_store::{Key, Object, Snapshot, SnapshotError};

use super::{Call, Written};
use crate::api::{Failure, Layout, VersionMatch, View};
use crate::registry::Resource;
use crate::response::Reply;
use crate::selection::Selection;
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

    pub(super) fn list(&self) -> Result<Reply, Failure> {
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
                    page.more = items.last().map(|last: &std::sync::Arc<Object>| last.key().clone());
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
                items.push(std::sync::Arc::clone(object));
            }
        }
        page.count_remaining = selection.is_everything();
        let body = self.list_body(&page, items.iter().map(AsRef::as_ref), namespace)?;
        Ok(Reply::json(StatusCode::OK, body))
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

    /// A list as the client wants to see it.
    pub(super) fn list_body<'a>(
        &self,
        page: &Page,
        objects: impl Iterator<Item = &'a Object>,
        namespace: Option<&str>,
    ) -> Result<Bytes, Failure> {
        let resource = &self.resource;
        let meta = page.meta(namespace);
        match self.view {
            View::Table => {
                let table = self.table()?;
                let rows = objects.map(|object| table.row(object)).collect::<Result<Vec<Value>, _>>()?;
                Ok(table.document(meta, rows))
            }
            View::Metadata => {
                let head = format!(
                    r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{meta},"items":["#
                );
                let items = objects.map(|object| partial_bytes(&resource.bytes(object)?));
                join(head, items, "]}")
            }
            View::Whole => {
                let (api_version, kind) = (resource.api_version(), &resource.list_kind);
                let items = objects.map(|object| list_item(resource, object));
                if resource.layout() == Layout::KindFirst {
                    let head = format!(
                        r#"{{"kind":"{kind}","apiVersion":"{api_version}","metadata":{meta},"items":["#
                    );
                    return join(head, items, "]}");
                }
                let mut meta = meta;
                if meta["continue"].is_null() {
                    meta["continue"] = "".into();
                }
                let head = format!(r#"{{"apiVersion":"{api_version}","items":["#);
                join(head, items, &format!(r#"],"kind":"{kind}","metadata":{meta}}}"#))
            }
        }
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

fn join(
    head: String,
    items: impl Iterator<Item = Result<Bytes, Failure>>,
    tail: &str,
) -> Result<Bytes, Failure> {
    let mut out = head.into_bytes();
    for (index, item) in items.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&item?);
    }
    out.extend_from_slice(tail.as_bytes());
    Ok(out.into())
}
