//! How a request gets to an extension and its answer back.
//!
//! A transport is a [`tower::Service`] from `http::Request<Bytes>` to `http::Response<Bytes>`, so that layers
//! (recording, replay, faults) go around any of them. The URI says what is called; whom to trust and who we
//! are travel beside it, as an [`Endpoint`] in the extensions of the request.

mod body;
mod connector;
mod exchange;
mod https;
mod identity;
mod in_process;
mod recording;
mod replay;

use std::io;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tower::Service;
use tower::util::BoxCloneSyncService;
use windlass_api::runtime::CaBundle;

pub use self::https::{HttpsTransport, HttpsTransportBuilder};
pub use self::identity::{ClientIdentity, ClientIdentityFiles, IdentityError};
pub use self::in_process::InProcess;
pub use self::recording::{Record, RecordLayer};
pub use self::replay::{Replay, ReplayError, ReplayLayer};
pub use crate::tls::TlsProblem;

/// Any transport, behind one type.
pub type BoxTransport = BoxCloneSyncService<http::Request<Bytes>, http::Response<Bytes>, TransportError>;

/// Largest body in either direction, before and after decompression. The limit that servers written with
/// Cluster API's own SDK have for requests.
pub const MAX_BODY_BYTES: usize = 20 * 1024 * 1024;

/// Puts a transport behind [`BoxTransport`].
pub fn boxed<S>(transport: S) -> BoxTransport
where
    S: Service<http::Request<Bytes>, Response = http::Response<Bytes>, Error = TransportError>
        + Clone
        + Send
        + Sync
        + 'static,
    S::Future: Send + 'static,
{
    BoxCloneSyncService::new(transport)
}

/// Whom a request is for, whom to trust there and who we are. Put into the extensions of each request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    extension: Arc<str>,
    ca_bundle: Arc<CaBundle>,
    /// Of the bundle. Kept because connections are looked up by it at every call.
    digest: [u8; 32],
    client_identity: Option<ClientIdentity>,
    server_name: Option<Arc<str>>,
}

impl Endpoint {
    /// An extension by the name of its ExtensionConfig, and the only certificates to trust there. If the
    /// bundle is empty, those of the operating system are trusted.
    pub fn new(extension: impl Into<Arc<str>>, ca_bundle: CaBundle) -> Self {
        let digest = Sha256::digest(ca_bundle.as_pem()).into();
        Self {
            extension: extension.into(),
            ca_bundle: Arc::new(ca_bundle),
            digest,
            client_identity: None,
            server_name: None,
        }
    }

    /// Presents this client certificate instead of that of the process.
    #[must_use]
    pub fn with_client_identity(mut self, identity: Option<ClientIdentity>) -> Self {
        self.client_identity = identity;
        self
    }

    /// Expects a certificate for this name or address instead of the host of the URL. For extensions that
    /// are reached through a tunnel.
    #[must_use]
    pub fn with_server_name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Name of the ExtensionConfig.
    pub fn extension(&self) -> &str {
        &self.extension
    }
}

/// Why no answer came back.
///
/// The text goes into conditions, so it is the same every time the same thing is wrong: it has no addresses,
/// no local ports and no times.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// Something on our side is not as it must be. Waiting does not help, and no failure policy hides it.
    #[error("cannot call over TLS: {0}")]
    Misconfigured(String),
    /// No address for the host.
    #[error("cannot resolve host {host:?}: {reason}")]
    Resolve {
        /// Host that was looked up.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// No connection.
    #[error("cannot connect to {authority:?}: {reason}")]
    Connect {
        /// Host and port as configured.
        authority: String,
        /// What the operating system said.
        reason: io::ErrorKind,
    },
    /// A connection, but not to a server that we trust, or that trusts us.
    #[error("TLS with {authority:?}: {problem}")]
    Tls {
        /// Host and port as configured.
        authority: String,
        /// What is wrong.
        problem: TlsProblem,
    },
    /// The connection ended early, or what came over it was not HTTP. The extension may have acted.
    #[error("{0}")]
    Broken(String),
    /// The answer is larger than an answer may be.
    #[error("the answer is larger than {MAX_BODY_BYTES} bytes")]
    AnswerTooLarge,
    /// The answer is compressed in a way we did not offer, or not properly.
    #[error("the answer cannot be decompressed: {0}")]
    Encoding(String),
    /// No extension of that name in this process.
    #[error("no extension in this process answers for {host:?}")]
    NotInProcess {
        /// Host that was called.
        host: String,
    },
    /// Nothing like this was recorded.
    #[error("no recorded exchange for {method} {path} with this body")]
    NotRecorded {
        /// Method that was called.
        method: String,
        /// Path that was called, without the query.
        path: String,
    },
    /// The recorded exchange ended with this error.
    #[error("{0}")]
    Replayed(String),
}

impl TransportError {
    /// Whether the failure is on our side. Such failures are never ignored.
    pub fn is_misconfiguration(&self) -> bool {
        matches!(self, Self::Misconfigured(_) | Self::NotRecorded { .. })
    }
}
