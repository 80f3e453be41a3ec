//! The API over HTTPS.

mod credentials;
mod home;
mod stall;

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use http::header::AUTHORIZATION;
use http::{HeaderMap, Request, Response};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

pub use credentials::{Credentials, CredentialsError};
pub use home::{Control, Home, HomeBackupError};

use crate::api::Failure;
use crate::identity::Identity;
use crate::response::{Body, failure_response};
use crate::server::ApiServer;
use crate::tokens::same;
use stall::Impatient;

/// How long requests may take to end once the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// What clients may take before they have said who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many connections there may be. Each costs memory.
    pub connections: usize,
    /// How many requests one connection may have under way.
    pub streams: u32,
    /// The longest head of a request, in bytes.
    pub head: u32,
    /// How long a client may take to agree on how to encrypt, and to send the head of a request.
    pub patience: Duration,
    /// How long a client may take to accept the next byte of an answer.
    pub stall: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        // Far above what a network that works needs.
        Self {
            connections: 4096,
            streams: 1000,
            head: 64 * 1024,
            patience: Duration::from_secs(10),
            stall: Duration::from_secs(60),
        }
    }
}

/// Why the API cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There are no credentials.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// TLS refuses the credentials.
    #[error("the credentials cannot be used: {0}")]
    Tls(String),
    /// The address cannot be listened on.
    #[error("cannot listen: {0}")]
    Listen(#[from] io::Error),
}

/// Serves the API on a listener until `shutdown` is ready, then ends watches and waits for requests.
pub fn serve<'a>(
    server: ApiServer,
    listener: TcpListener,
    credentials: Arc<Credentials>,
    shutdown: impl Future<Output = ()> + Send + 'a,
) -> BoxFuture<'a, Result<(), ServeError>> {
    serve_within(Bounds::default(), server, listener, credentials, shutdown)
}

/// Serves the API as [`serve`] does, with other bounds for clients.
pub fn serve_within<'a>(
    bounds: Bounds,
    server: ApiServer,
    listener: TcpListener,
    credentials: Arc<Credentials>,
    shutdown: impl Future<Output = ()> + Send + 'a,
) -> BoxFuture<'a, Result<(), ServeError>> {
    serve_until(Box::pin(shutdown), bounds, server, listener, credentials)
}

fn serve_until<'a>(
    mut shutdown: BoxFuture<'a, ()>,
    bounds: Bounds,
    server: ApiServer,
    listener: TcpListener,
    credentials: Arc<Credentials>,
) -> BoxFuture<'a, Result<(), ServeError>> {
    Box::pin(async move {
        let tls = acceptor(&credentials, listener.local_addr()?.ip())?;
        let connections = Arc::new(Semaphore::new(bounds.connections));
        let graceful = GracefulShutdown::new();
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(_) => {
                    // Out of file descriptors, most likely: others must end first.
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            let Ok(permit) = Arc::clone(&connections).try_acquire_owned() else { continue };
            let gate = Gate { server: server.clone(), credentials: Arc::clone(&credentials) };
            let watcher = graceful.watcher();
            let tls = tls.clone();
            tokio::spawn(async move {
                let _permit = permit;
                connection(stream, tls, gate, bounds, watcher).await;
            });
        }
        drop(listener);
        server.stop();
        // Connections that have not ended by then are cut off.
        let _ = timeout(GRACE, graceful.shutdown()).await;
        Ok(())
    })
}

async fn connection(
    stream: TcpStream,
    tls: TlsAcceptor,
    gate: Gate,
    bounds: Bounds,
    watcher: hyper_util::server::graceful::Watcher,
) {
    // Small answers should not wait for each other.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(bounds.patience, tls.accept(Impatient::new(stream, bounds.stall))).await
    else {
        return;
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let by_certificate = certificate.and_then(|certificate| subject(certificate));
    let service = service_fn(move |request| {
        let (gate, by_certificate) = (gate.clone(), by_certificate.clone());
        async move { Ok::<_, Infallible>(gate.answer(request, by_certificate).await) }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(bounds.patience)
        .max_buf_size(bounds.head as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_header_list_size(bounds.head)
        .max_concurrent_streams(bounds.streams)
        .keep_alive_interval(Some(Duration::from_secs(30)))
        .keep_alive_timeout(Duration::from_secs(20));
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    // A connection that breaks is the client's to notice.
    let _ = watcher.watch(connection.into_owned()).await;
}

fn acceptor(credentials: &Credentials, host: IpAddr) -> Result<TlsAcceptor, ServeError> {
    let tls = |error: &dyn std::fmt::Display| ServeError::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    let ca =
        CertificateDer::from_pem_slice(credentials.ca_bundle().as_bytes()).map_err(|error| tls(&error))?;
    roots.add(ca).map_err(|error| tls(&error))?;
    let provider = Arc::new(default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| tls(&error))?;
    let (certificate, key) = credentials.server(&[host])?;
    let certificate = CertificateDer::from_pem_slice(certificate.as_bytes()).map_err(|error| tls(&error))?;
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|error| tls(&error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls(&error))?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![certificate], key)
        .map_err(|error| tls(&error))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Who a verified certificate is for: the common name, in the groups that its organisations name.
fn subject(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, certificate) = X509Certificate::from_der(certificate).ok()?;
    let subject = certificate.subject();
    let name = subject.iter_common_name().next()?.as_str().ok()?;
    let groups = subject.iter_organization().filter_map(|group| group.as_str().ok().map(str::to_owned));
    Some(Identity::user(name, groups))
}

/// Lets requests in under the name of who makes them.
#[derive(Clone)]
struct Gate {
    server: ApiServer,
    credentials: Arc<Credentials>,
}

impl Gate {
    async fn answer(&self, request: Request<Incoming>, by_certificate: Option<Identity>) -> Response<Body> {
        match self.identify(request.headers(), by_certificate) {
            Ok(identity) => self.server.service_for(identity).answer(request).await,
            Err(failure) => failure_response(failure, false),
        }
    }

    /// The authenticated user. An unknown token is an error even where anonymous requests are allowed.
    fn identify(&self, headers: &HeaderMap, by_certificate: Option<Identity>) -> Result<Identity, Failure> {
        if let Some(identity) = by_certificate {
            return Ok(identity);
        }
        let Some(header) = headers.get(AUTHORIZATION) else { return Ok(Identity::anonymous()) };
        let token = header.to_str().ok().and_then(|header| header.strip_prefix("Bearer "));
        let token = token.ok_or_else(Failure::unauthorized)?.trim();
        let mut found = None;
        // All of them are compared, so that the time it takes does not tell which one it was.
        for (known, identity) in self.credentials.tokens() {
            if same(known.as_bytes(), token.as_bytes()) {
                found = Some(identity.clone());
            }
        }
        found.or_else(|| self.server.verify_token(token)).ok_or_else(Failure::unauthorized)
    }
}
