//! A Kubernetes API in the process: one service over a durable store, for `kube::Client` and for HTTPS.
//!
//! - **One pipeline.** Every kind is a line in a table or a CustomResourceDefinition; [`ApiServer`] has no
//!   handler per kind. What differs is data: schema, columns, subresources, a few behaviours.
//! - **One service.** [`Service`] is a `tower::Service`. Clients in the process and clients over
//!   [HTTPS](serve) go through the same code, so that what works in a test works over the wire.
//! - **Like the real one.** Errors, tables, watches, managed fields and deletions are those of a
//!   kube-apiserver, checked against recordings of one. Pods do not run, and other controllers than garbage
//!   collection and the clean-up of namespaces, CRDs and events do not exist.
//! - **Time is tokio's.** Under a paused clock, hours pass at once.
//!
//! ```
//! use http::Request;
//! use http_body_util::{BodyExt, Full};
//! use windlass_apiserver::{ApiServer, Options};
//! use windlass_store::{History, Store};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await?;
//! // The same service is what `kube::Client::new(server.service(), "default")` takes.
//! let request = Request::get("/api/v1/namespaces/default").body(Full::default())?;
//! let answer = server.service().answer(request).await;
//! let body = answer.into_body().collect().await?.to_bytes();
//! assert!(body.starts_with(br#"{"kind":"Namespace","apiVersion":"v1""#));
//! # Ok(())
//! # }
//! ```

mod admission;
mod api;
mod authorize;
mod budget;
mod controllers;
mod decode;
mod discovery;
mod identity;
mod impersonate;
mod import;
mod listing;
mod machinery;
mod openapi;
mod proto;
mod registry;
mod response;
mod reviews;
mod selection;
pub mod serve;
mod server;
mod service;
mod stored;
mod table;
mod time;
mod tokens;
mod verbs;
mod watch;
mod webhook;

pub use admission::{Admission, Denial, Operation, Review};
pub use api::{Failure, FieldValidation, Propagation, Query, ResourcePath, Route, Status, VersionMatch};
pub use identity::Identity;
pub use registry::ConvertFn;
pub use response::{Body, BodyError};
pub use server::{ApiServer, Limits, Options};
pub use service::Service;
pub use stored::crd_labels;
pub use webhook::{ServiceReference, ServiceResolver};
pub use windlass_clock::Clock;
