//! OpenAPI: what every kind looks like, in version 3 per group and in version 2 as one document.
//!
//! Documents are made when they are requested, and kept as long as the kinds in them stay the same.

mod definitions;
mod downgrade;
mod gnostic;
mod paths;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, ETAG, EXPIRES, IF_NONE_MATCH, LOCATION, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use jiff::SignedDuration;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::api::{Failure, Route};
use crate::registry::{Registry, Resource};
use crate::response::{Body, Reply};
use crate::server::Inner;
use definitions::{Definitions, Flavour};

/// The documents that were made, by their path.
#[derive(Default)]
pub(crate) struct Cache {
    documents: Mutex<BTreeMap<String, Arc<Document>>>,
}

/// A document, and which kinds it was made from.
struct Document {
    kinds: Vec<u64>,
    bytes: Bytes,
    hash: String,
}

const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// How long a document may be kept that was asked for by its hash: it never changes.
const YEAR: SignedDuration = SignedDuration::from_hours(365 * 24);

/// Answers a request for a document.
pub(crate) fn answer(
    server: &Inner,
    route: &Route,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Reply, Failure> {
    let registry = server.registry();
    match route {
        Route::OpenApiV2 if wants_protobuf(headers) => {
            let document = server.openapi.get("v2.proto", registry.all(), || v2_protobuf(&registry));
            Ok(document.reply(headers, PROTOBUF))
        }
        Route::OpenApiV2 => {
            let document = server.openapi.get("v2", registry.all(), || v2(&registry).to_string().into());
            Ok(document.reply(headers, crate::response::JSON))
        }
        Route::OpenApiV3 => Ok(Reply::json(StatusCode::OK, index(server, &registry))),
        Route::OpenApiV3Group(path) => v3(server, &registry, path, headers, query),
        _ => Err(Failure::NoSuchPath),
    }
}

fn wants_protobuf(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(http::header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.into_iter().any(|accepted| accepted.contains("proto-openapi.spec.v2"))
}

impl Cache {
    fn get<'a>(
        &self,
        path: &str,
        resources: impl Iterator<Item = &'a Arc<Resource>>,
        make: impl FnOnce() -> Bytes,
    ) -> Arc<Document> {
        let kinds: Vec<u64> = resources.map(|resource| resource.encoding).collect();
        let known = self.lock().get(path).filter(|document| document.kinds == kinds).cloned();
        if let Some(document) = known {
            return document;
        }
        let bytes = make();
        let hash = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02X}")).collect();
        let document = Arc::new(Document { kinds, bytes, hash });
        self.lock().insert(path.to_owned(), Arc::clone(&document));
        document
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, Arc<Document>>> {
        self.documents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Document {
    /// The document, or that the client has it already.
    fn reply(&self, headers: &HeaderMap, content_type: &'static str) -> Reply {
        let tag = format!("\"{}\"", self.hash);
        let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut reply = if known.into_iter().any(|known| known.contains(&tag) || known == "*") {
            Reply::json(StatusCode::NOT_MODIFIED, "")
        } else {
            Reply { body: Body::whole(self.bytes.clone()), ..Reply::json(StatusCode::OK, "") }
        };
        reply.content_type = content_type;
        reply.headers.push((VARY, HeaderValue::from_static("Accept")));
        push(&mut reply, ETAG, &tag);
        reply
    }
}

fn push(reply: &mut Reply, name: HeaderName, value: &str) {
    reply.headers.extend(HeaderValue::from_str(value).ok().map(|value| (name, value)));
}

/// `/openapi/v3`: where the documents are. The hash lets clients keep them.
fn index(server: &Inner, registry: &Registry) -> Vec<u8> {
    let mut paths = Map::new();
    for group in registry.groups() {
        for (version, resources) in &group.versions {
            let path = path(group.name, version);
            let document = server.openapi.get(&path, resources.iter(), || v3_document(registry, resources));
            let url = format!("/openapi/v3/{path}?hash={}", document.hash);
            paths.insert(path, json!({"serverRelativeURL": url}));
        }
    }
    json!({"paths": paths}).to_string().into_bytes()
}

/// `/openapi/v3/{path}`
fn v3(
    server: &Inner,
    registry: &Registry,
    wanted: &str,
    headers: &HeaderMap,
    query: Option<&str>,
) -> Result<Reply, Failure> {
    for group in registry.groups() {
        for (version, resources) in &group.versions {
            if path(group.name, version) == wanted {
                let document =
                    server.openapi.get(wanted, resources.iter(), || v3_document(registry, resources));
                return Ok(dated(server, &document, wanted, headers, query));
            }
        }
    }
    Err(Failure::NoSuchPath)
}

/// A document that was asked for by its hash may be kept; one that has changed since is elsewhere.
fn dated(server: &Inner, document: &Document, path: &str, headers: &HeaderMap, query: Option<&str>) -> Reply {
    let hash =
        query.into_iter().flat_map(|query| query.split('&')).find_map(|part| part.strip_prefix("hash="));
    match hash {
        Some(hash) if hash == document.hash => {
            let mut reply = document.reply(headers, crate::response::JSON);
            push(&mut reply, CACHE_CONTROL, "public, immutable");
            let now = server.clock.now();
            let end = now.saturating_add(YEAR).unwrap_or(now);
            push(&mut reply, EXPIRES, &end.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string());
            reply
        }
        Some(hash) if !hash.is_empty() => {
            let mut reply = Reply::json(StatusCode::MOVED_PERMANENTLY, "");
            push(&mut reply, LOCATION, &format!("/openapi/v3/{path}?hash={}", document.hash));
            reply
        }
        _ => document.reply(headers, crate::response::JSON),
    }
}

fn path(group: &str, version: &str) -> String {
    if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") }
}

fn v3_document(registry: &Registry, resources: &[Arc<Resource>]) -> Bytes {
    let mut definitions = Definitions::new(registry, Flavour::V3);
    let mut all_paths = Map::new();
    for resource in resources {
        definitions.add(resource);
        paths::add(resource, Flavour::V3, &mut all_paths);
    }
    let document = json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": all_paths,
        "components": {"schemas": definitions.finish()},
    });
    document.to_string().into()
}

fn v2(registry: &Registry) -> Value {
    let mut definitions = Definitions::new(registry, Flavour::V2);
    let mut all_paths = Map::new();
    for resource in registry.all() {
        definitions.add(resource);
        paths::add(resource, Flavour::V2, &mut all_paths);
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": all_paths,
        "definitions": definitions.finish(),
    })
}

fn v2_protobuf(registry: &Registry) -> Bytes {
    gnostic::encode(&v2(registry)).into()
}
