//! Client of the Runtime SDK: finds extensions, calls their hooks, remembers answers that are good for a
//! while, and counts all of it.
//!
//! - [`HookClient`]: discovery ([`refresh`](HookClient::refresh), [`warm_up`](HookClient::warm_up)) and calls
//!   ([`call_all`](HookClient::call_all), [`call_one`](HookClient::call_one), cached ones, and
//!   [`call_all_at_pace`](HookClient::call_all_at_pace), which does not call too early)
//! - [`Registry`]: which handlers there are, and which extensions are ready
//! - [`transport`]: HTTPS, in process, recorded, replayed; all of them `tower` services
//! - [`cache`], [`metrics`], [`url`], [`discovery`]: the parts, for callers that need only one of them
//!
//! An extension that is down, slow or wrong affects only the calls that need it. Failures have texts that do
//! not change from one try to the next, because they end up in conditions.
//!
//! ```
//! use bytes::Bytes;
//! use tower::service_fn;
//! use windlass_api::hooks::{BeforeClusterUpgrade, BeforeClusterUpgradeRequest};
//! use windlass_api::runtime::ExtensionConfig;
//! use windlass_hooks::HookClient;
//! use windlass_hooks::transport::{InProcess, boxed};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! // An extension in this process. `HttpsTransport` calls those outside.
//! let transport = InProcess::new();
//! transport.add("ext1", service_fn(|request: http::Request<Bytes>| async move {
//!     let answer = match request.uri().path().ends_with("/discovery") {
//!         true => r#"{"status": "Success", "handlers": [{"name": "gate", "requestHook": {
//!             "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": "BeforeClusterUpgrade"}}]}"#,
//!         false => r#"{"status": "Success", "message": "waiting for the backup", "retryAfterSeconds": 30}"#,
//!     };
//!     Ok::<_, std::convert::Infallible>(http::Response::new(Bytes::from(answer)))
//! }));
//!
//! let config: ExtensionConfig = serde_json::from_str(
//!     r#"{"metadata": {"name": "ext1"},
//!         "spec": {"clientConfig": {"url": "https://ext1.example"}, "namespaceSelector": {}}}"#,
//! )?;
//! let client = HookClient::builder(boxed(transport)).build();
//! client.warm_up([(config, None)]).await;
//!
//! let request = BeforeClusterUpgradeRequest::default();
//! let answers = client.call_all::<BeforeClusterUpgrade>("ns1", &request).await?;
//! assert_eq!(answers.response.retry_after_seconds, 30);
//! assert_eq!(answers.response.message, "waiting for the backup");
//! # Ok(())
//! # }
//! ```

mod answer;
pub mod cache;
mod cached_calls;
mod call;
mod client;
pub mod discovery;
mod error;
mod extensions;
mod in_flight;
pub mod metrics;
mod namespaces;
mod registry;
pub mod tls;
pub mod transport;
pub mod url;

pub use crate::answer::{Answer, Answers, HandlerAnswer};
pub use crate::cached_calls::{GivenPlan, PlanAge};
pub use crate::client::{HookClient, HookClientBuilder};
pub use crate::discovery::{DiscoveryError, NotReadyReason};
pub use crate::error::{CallError, CallFailure};
pub use crate::metrics::Metrics;
pub use crate::namespaces::{Labels, LabelsFuture, NamespaceLabels};
pub use crate::registry::{Readiness, Registration, RegistrationError, Registry};
