//! Calls over the network.

use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::HeaderValue;
use http::header::ACCEPT_ENCODING;
use http_body_util::Full;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::time::Instant;
use tower::Service;
use windlass_api::runtime::CaBundle;

use super::connector::{Connector, HostOverrides, find};
use super::identity::{ClientIdentity, ClientIdentityFiles};
use super::{Endpoint, TlsProblem, TransportError, body};
use crate::tls::{self, ServerVerifier};

/// How long an unused connection is kept, as Go does by default.
const IDLE_CONNECTION_TIMEOUT: Duration = Duration::from_secs(90);
/// HTTP/2 connections are asked for a sign of life this often, and dropped when none comes: otherwise a
/// silently dead one would fail every call until the kernel gives it up. The times are those of Go clients.
const PING_INTERVAL: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(15);
/// Connections with a trust or an identity that were not used for this long belong to a caBundle or a
/// client certificate that was replaced.
const UNUSED_CLIENT_TIMEOUT: Duration = Duration::from_secs(60 * 60);

type Client = legacy::Client<Connector, Full<Bytes>>;

/// HTTPS with connection reuse, HTTP/2 and HTTP/1.1.
///
/// Redirects are answers like any other. A request goes out again only if the connection that it was meant
/// for had closed before the first byte of it was sent.
#[derive(Clone)]
pub struct HttpsTransport(Arc<Shared>);

struct Shared {
    identity: ProcessIdentity,
    overrides: HostOverrides,
    clients: Mutex<BTreeMap<ClientKey, Pooled>>,
}

/// Connections are shared only among calls with the same trust, identity and name to expect. Below that, a client
/// keeps them apart by host and port.
type ClientKey = ([u8; 32], Option<[u8; 32]>, Option<Arc<str>>);

struct Pooled {
    client: Client,
    last_used: Instant,
}

#[derive(Clone, Debug, Default)]
enum ProcessIdentity {
    #[default]
    None,
    Fixed(ClientIdentity),
    Files(ClientIdentityFiles),
}

impl HttpsTransport {
    /// A transport without client certificate.
    pub fn new() -> Self {
        Self::builder().build()
    }

    /// A transport with more to say.
    pub fn builder() -> HttpsTransportBuilder {
        HttpsTransportBuilder::default()
    }

    fn client(&self, endpoint: &Endpoint) -> Result<Client, TransportError> {
        let identity = endpoint.client_identity.clone().or_else(|| match &self.0.identity {
            ProcessIdentity::None => None,
            ProcessIdentity::Fixed(identity) => Some(identity.clone()),
            ProcessIdentity::Files(files) => Some(files.current()),
        });
        let fingerprint = identity.as_ref().map(ClientIdentity::fingerprint);
        let key = (endpoint.digest, fingerprint, endpoint.server_name.clone());
        let now = Instant::now();
        let mut clients = self.0.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pooled) = clients.get_mut(&key) {
            pooled.last_used = now;
            return Ok(pooled.client.clone());
        }
        let misconfigured = |error: &dyn fmt::Display| TransportError::Misconfigured(error.to_string());
        let verifier = ServerVerifier::new(&endpoint.ca_bundle).map_err(|error| misconfigured(&error))?;
        let mut config = tls::client_config(Arc::new(verifier), identity.as_ref())
            .map_err(|error| misconfigured(&error))?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let overrides = Arc::clone(&self.0.overrides);
        let client = new_client(Connector::new(config, endpoint.server_name.clone(), overrides));
        clients.retain(|_, pooled| now.duration_since(pooled.last_used) < UNUSED_CLIENT_TIMEOUT);
        clients.insert(key, Pooled { client: client.clone(), last_used: now });
        Ok(client)
    }
}

fn new_client(connector: Connector) -> Client {
    legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .pool_idle_timeout(IDLE_CONNECTION_TIMEOUT)
        .http2_keep_alive_interval(PING_INTERVAL)
        .http2_keep_alive_timeout(PING_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        // Only requests of which no byte was sent: the library hands those back, others it does not.
        .retry_canceled_requests(true)
        .build(connector)
}

impl Default for HttpsTransport {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for HttpsTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpsTransport").field("identity", &self.0.identity).finish_non_exhaustive()
    }
}

impl Service<http::Request<Bytes>> for HttpsTransport {
    type Response = http::Response<Bytes>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<http::Response<Bytes>, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Bytes>) -> Self::Future {
        let transport = self.clone();
        Box::pin(async move {
            let uri = request.uri();
            if uri.scheme() != Some(&http::uri::Scheme::HTTPS) {
                return Err(TransportError::Misconfigured(format!("{uri} does not start with https://")));
            }
            let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
            let endpoint =
                request.extensions_mut().remove().unwrap_or_else(|| Endpoint::new("", CaBundle::default()));
            let client = transport.client(&endpoint)?;
            request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            let response = client
                .request(request.map(Full::new))
                .await
                .map_err(|error| unanswered(&error, &authority))?;
            body::collect(response).await
        })
    }
}

/// Puts into our words why there was no answer.
fn unanswered(error: &legacy::Error, authority: &str) -> TransportError {
    if let Some(known) = find::<TransportError>(error) {
        return known.clone();
    }
    if let Some(problem) = TlsProblem::find(error) {
        return TransportError::Tls { authority: authority.to_owned(), problem };
    }
    let text = match (find::<hyper::Error>(error), find::<io::Error>(error)) {
        (Some(hyper), _) if hyper.is_incomplete_message() => {
            "the connection ended before an answer came".to_owned()
        }
        (Some(hyper), _) if hyper.is_parse() => "the answer is not HTTP".to_owned(),
        (_, Some(io)) => format!("the connection broke before an answer came: {}", io.kind()),
        _ => "the connection broke before an answer came".to_owned(),
    };
    TransportError::Broken(text)
}

/// Settings of an [`HttpsTransport`].
#[derive(Clone, Debug, Default)]
pub struct HttpsTransportBuilder {
    identity: ProcessIdentity,
    overrides: BTreeMap<String, IpAddr>,
}

impl HttpsTransportBuilder {
    /// Presents this client certificate to every extension that has none of its own.
    #[must_use]
    pub fn client_identity(mut self, identity: ClientIdentity) -> Self {
        self.identity = ProcessIdentity::Fixed(identity);
        self
    }

    /// Presents the client certificate in these files, whatever it is at the time of the call. Connections
    /// that were made with a previous one are not used any more.
    #[must_use]
    pub fn client_identity_files(mut self, files: ClientIdentityFiles) -> Self {
        self.identity = ProcessIdentity::Files(files);
        self
    }

    /// Connects to an address instead of looking the host up. The host is still what the certificate must
    /// be for. For Services of a cluster whose DNS this process does not see.
    #[must_use]
    pub fn resolve(mut self, host: impl Into<String>, address: IpAddr) -> Self {
        self.overrides.insert(host.into(), address);
        self
    }

    /// The transport.
    pub fn build(self) -> HttpsTransport {
        HttpsTransport(Arc::new(Shared {
            identity: self.identity,
            overrides: Arc::new(self.overrides),
            clients: Mutex::default(),
        }))
    }
}
