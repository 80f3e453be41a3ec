//! Write a Cluster API runtime extension in Rust.
//!
//! Register a function per hook; the crate does the rest: discovery, decoding, deadlines, panics, TLS with
//! certificates that are reloaded, health endpoints and a shutdown that lets calls finish. What Cluster API
//! would refuse in discovery is refused here, before the server starts.
//!
//! ```
//! use windlass_extension::hooks::{BeforeClusterUpgrade, BeforeClusterUpgradeRequest};
//! use windlass_extension::hooks::{BeforeClusterUpgradeResponse, HookResponse, RetryResponse};
//! use windlass_extension::{Context, DevelopmentCertificate, Extension, Handler, Server, Tls};
//!
//! async fn gate(_: Context, request: BeforeClusterUpgradeRequest) -> BeforeClusterUpgradeResponse {
//!     match request.cluster.annotation("example.com/approved") {
//!         Some(version) if version == request.to_kubernetes_version => HookResponse::success(),
//!         _ => RetryResponse::blocking("waiting for annotation example.com/approved", 30),
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let extension = Extension::new("approve-upgrade")
//!     .on(BeforeClusterUpgrade, Handler::named("gate").timeout_seconds(5), gate)
//!     .build()?;
//!
//! // A unit test calls it without a socket.
//! let request = BeforeClusterUpgradeRequest { to_kubernetes_version: "v1.33.0".into(), ..Default::default() };
//! assert!(extension.invoke(BeforeClusterUpgrade, "gate", &request).await?.is_blocking());
//!
//! let certificate = DevelopmentCertificate::generate(["localhost", "127.0.0.1"])?;
//! let server = Server::new(extension, Tls::development(certificate)).bind("127.0.0.1:0".parse()?).await?;
//! println!("{}", server.manifest("127.0.0.1")); // kubectl apply -f -
//! # let termination = || std::future::ready(()); // A test does not wait for a signal.
//! let _ = server.run_until(termination()).await;
//! # Ok(())
//! # }
//! ```
//!
//! For authors: [`patch`] turns two states of an object into a patch, [`templates`] walks the templates of a
//! topology, [`upgrade_plan`] answers with a plan from a list of versions. The crate logs through `tracing`.

mod answer;
mod extension;
mod handler;
mod manifest;
pub mod patch;
mod registration;
mod server;
mod signal;
pub mod templates;
mod tls;
pub mod upgrade_plan;
mod variables;

pub use windlass_api::hooks;
pub use windlass_api::object::Object;

pub use crate::extension::{Extension, InvokeError, MAX_BODY_BYTES};
pub use crate::handler::{Answer, Context};
pub use crate::manifest::extension_config;
pub use crate::registration::{
    DEFAULT_TIMEOUT_SECONDS, ExtensionBuilder, Handler, MAX_HANDLERS, MAX_TIMEOUT_SECONDS, RegistrationError,
    RegistrationErrors,
};
pub use crate::server::{BoundServer, ServeError, Server, Shutdown};
pub use crate::signal::termination;
pub use crate::tls::{DevelopmentCertificate, Tls, TlsError};
