//! The API over HTTPS.

mod authority;
mod certificate;
mod credentials;
mod descriptors;
mod home;
mod stall;
mod visit;

use std::convert::Infallible;
use std::future::Future;
use std::io;
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
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};
use x509_parser::prelude::{FromDer, X509Certificate};

use certificate::ServerCertificate;
pub use credentials::{CertificateDescription, Credentials, CredentialsError};
pub use home::{Control, Home, HomeBackupError};

use crate::api::Failure;
use crate::identity::Identity;
use crate::response::{Body, failure_response};
use crate::server::ApiServer;
use crate::tokens::same;
use stall::Impatient;
use visit::{End, Leave, Visit, Visits};

/// How often it is looked whether certificates end soon. They are renewed months before.
const RENEWAL: Duration = Duration::from_secs(3600);

/// How long requests may take to end once the server stops.
const GRACE: Duration = Duration::from_secs(10);

/// What clients may take before they have said who they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// How many connections there may be, if the process may open so many files. Each costs memory. A quarter is
    /// for clients that have not said who they are; when there are more, the oldest of those are closed.
    pub connections: usize,
    /// How many requests one connection may have under way.
    pub streams: u32,
    /// The longest head of a request, in bytes.
    pub head: u32,
    /// How long a client may take to agree on how to encrypt, and to send the head of a request. How long one that
    /// has not said who it is may ask for nothing.
    pub patience: Duration,
    /// How long a client may take to accept the next byte of an answer, be it of the connection or of one stream.
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
        let provider = Arc::new(default_provider());
        let certificate = ServerCertificate::new(&credentials, listener.local_addr()?.ip(), &provider)?;
        let tls = acceptor(&credentials, Arc::clone(&certificate), provider)?;
        let mut renewal = tokio::time::interval(RENEWAL);
        let visits = Visits::new(descriptors::connections(bounds.connections));
        let graceful = GracefulShutdown::new();
        let mut out_of_descriptors = false;
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                _ = renewal.tick() => {
                    match certificate.renew() {
                        Ok(true) => tracing::info!("certificates were renewed"),
                        Ok(false) => {}
                        Err(error) => tracing::warn!(%error, "certificates cannot be renewed"),
                    }
                    continue;
                }
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Out of file descriptors, most likely: others must end first.
                    if !std::mem::replace(&mut out_of_descriptors, true) {
                        tracing::warn!(%error, "connections cannot be accepted");
                    }
                    tokio::time::sleep(Duration::from_millis(50)).await;
                    continue;
                }
            };
            out_of_descriptors = false;
            let visit = visits.enter();
            let gate = Gate { server: server.clone(), credentials: Arc::clone(&credentials) };
            let watcher = graceful.watcher();
            let tls = tls.clone();
            tokio::spawn(async move {
                let _leave = Leave(Arc::clone(&visit));
                tokio::select! {
                    () = connection(stream, tls, gate, bounds, watcher, &visit) => {}
                    end = visit.end(bounds.patience, bounds.stall) => {
                        if end == End::Stalled {
                            tracing::info!("a connection is closed: its client does not read an answer");
                        }
                    }
                }
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
    visit: &Arc<Visit>,
) {
    // Small answers should not wait for each other.
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = timeout(bounds.patience, tls.accept(Impatient::new(stream, bounds.stall))).await
    else {
        return;
    };
    let certificate = stream.get_ref().1.peer_certificates().and_then(|chain| chain.first());
    let by_certificate = certificate.and_then(|certificate| subject(certificate));
    if by_certificate.is_some() && !visit.is_known() {
        return;
    }
    let visit = Arc::clone(visit);
    let service = service_fn(move |request| {
        let (gate, by_certificate, visit) = (gate.clone(), by_certificate.clone(), Arc::clone(&visit));
        async move {
            let _request = visit.request();
            let mut answer = gate.answer(request, by_certificate, &visit).await;
            visit.answer(answer.body_mut());
            Ok::<_, Infallible>(answer)
        }
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

fn acceptor(
    credentials: &Credentials,
    certificate: Arc<ServerCertificate>,
    provider: Arc<CryptoProvider>,
) -> Result<TlsAcceptor, ServeError> {
    let tls = |error: &dyn std::fmt::Display| ServeError::Tls(error.to_string());
    let mut roots = RootCertStore::empty();
    let ca =
        CertificateDer::from_pem_slice(credentials.ca_bundle().as_bytes()).map_err(|error| tls(&error))?;
    roots.add(ca).map_err(|error| tls(&error))?;
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
        .allow_unauthenticated()
        .build()
        .map_err(|error| tls(&error))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| tls(&error))?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
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
    async fn answer(
        &self,
        request: Request<Incoming>,
        by_certificate: Option<Identity>,
        visit: &Visit,
    ) -> Response<Body> {
        match self.identify(request.headers(), by_certificate) {
            Ok(identity) if identity.is_known() && !visit.is_known() => failure_response(
                Failure::too_many_requests("too many connections, please try again later"),
                false,
            ),
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
