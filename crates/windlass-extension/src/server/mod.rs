//! Serving an extension over HTTPS.

mod activity;
mod body;
mod connection;
mod health;

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use self::body::Budget;
use self::connection::Shared;
use self::health::Readiness;
use crate::extension::Extension;
use crate::manifest;
use crate::registration::MAX_TIMEOUT_SECONDS;
use crate::tls::{LiveTls, Tls, TlsError};

/// How long to wait after a connection could not be accepted, which mostly means that there are too many
/// open files; trying again at once would only burn the processor.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A server that has not been started.
pub struct Server {
    extension: Extension,
    tls: Tls,
    limits: Limits,
    max_connections: usize,
    memory: Budget,
    shutdown_limit: Duration,
    health_address: Option<SocketAddr>,
    ready: Readiness,
}

#[derive(Clone, Copy)]
pub(crate) struct Limits {
    handshake_timeout: Duration,
    header_timeout: Duration,
    body_timeout: Duration,
    idle_timeout: Duration,
    max_header_bytes: usize,
}

impl Server {
    /// Serves the extension, with limits that suit most: those of Cluster API's own server where it has any.
    pub fn new(extension: Extension, tls: Tls) -> Self {
        Self {
            extension,
            tls,
            limits: Limits {
                handshake_timeout: Duration::from_secs(10),
                header_timeout: Duration::from_secs(32),
                // No caller waits longer for the answer.
                body_timeout: Duration::from_secs(MAX_TIMEOUT_SECONDS.into()),
                idle_timeout: Duration::from_secs(90),
                max_header_bytes: 1024 * 1024,
            },
            max_connections: 1024,
            memory: Budget::new(256 * 1024 * 1024),
            shutdown_limit: Duration::from_secs(60),
            health_address: None,
            ready: Arc::new(|| true),
        }
    }

    /// Answers `/healthz` and `/readyz` over plain HTTP at another address.
    #[must_use]
    pub fn health_address(mut self, address: SocketAddr) -> Self {
        self.health_address = Some(address);
        self
    }

    /// What `/readyz` depends on besides the server itself. Called for every probe, so it must be quick.
    #[must_use]
    pub fn ready_when(mut self, ready: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        self.ready = Arc::new(ready);
        self
    }

    /// Connections at once; further ones wait until one ends. 1024 if not set, and at least one.
    #[must_use]
    pub fn max_connections(mut self, connections: usize) -> Self {
        self.max_connections = connections.clamp(1, Semaphore::MAX_PERMITS);
        self
    }

    /// How long a caller may take for the TLS handshake. 10 seconds if not set.
    #[must_use]
    pub fn handshake_timeout(mut self, timeout: Duration) -> Self {
        self.limits.handshake_timeout = timeout;
        self
    }

    /// How long a caller may take to send the head of a request; with HTTP/1.1 also how long it may wait
    /// before the next one. 32 seconds if not set.
    #[must_use]
    pub fn header_timeout(mut self, timeout: Duration) -> Self {
        self.limits.header_timeout = timeout;
        self
    }

    /// How long a caller may take to send the body of a request. 30 seconds if not set.
    #[must_use]
    pub fn body_timeout(mut self, timeout: Duration) -> Self {
        self.limits.body_timeout = timeout;
        self
    }

    /// After how long a connection without calls is closed. 90 seconds if not set.
    #[must_use]
    pub fn idle_timeout(mut self, timeout: Duration) -> Self {
        self.limits.idle_timeout = timeout;
        self
    }

    /// Largest head of a request. 1 MiB if not set, and at least 8 KiB.
    #[must_use]
    pub fn max_header_bytes(mut self, bytes: usize) -> Self {
        self.limits.max_header_bytes = bytes.max(8 * 1024);
        self
    }

    /// Memory for the bodies of all requests together; beyond it, callers wait. 256 MiB if not set, and at
    /// least one request of the largest size.
    #[must_use]
    pub fn max_buffered_bytes(mut self, bytes: usize) -> Self {
        self.memory = Budget::new(bytes);
        self
    }

    /// How long calls in flight may take to finish after the server was told to stop. 60 seconds if not set.
    #[must_use]
    pub fn shutdown_limit(mut self, limit: Duration) -> Self {
        self.shutdown_limit = limit;
        self
    }

    /// Binds the addresses and reads the certificate, so that everything that can go wrong has gone wrong
    /// before the server is announced as running. Port 0 takes a free port.
    ///
    /// # Errors
    ///
    /// When the certificate cannot be used or an address cannot be bound.
    pub async fn bind(self, address: SocketAddr) -> Result<BoundServer, ServeError> {
        let tls = Arc::new(LiveTls::load(self.tls)?);
        let listener = listen(address).await?;
        let local_address = listener.local_addr().map_err(|source| ServeError::Bind { address, source })?;
        let (health, health_address) = match self.health_address {
            None => (None, None),
            Some(address) => {
                let listener = listen(address).await?;
                let bound = listener.local_addr().map_err(|source| ServeError::Bind { address, source })?;
                (Some(listener), Some(bound))
            }
        };
        Ok(BoundServer {
            extension: self.extension,
            tls,
            limits: self.limits,
            max_connections: self.max_connections,
            memory: self.memory,
            shutdown_limit: self.shutdown_limit,
            ready: self.ready,
            listener,
            local_address,
            health,
            health_address,
        })
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, ServeError> {
    TcpListener::bind(address).await.map_err(|source| ServeError::Bind { address, source })
}

/// A server that has its addresses. Callers can connect, and are answered once it runs.
pub struct BoundServer {
    extension: Extension,
    tls: Arc<LiveTls>,
    limits: Limits,
    max_connections: usize,
    memory: Budget,
    shutdown_limit: Duration,
    ready: Readiness,
    listener: TcpListener,
    local_address: SocketAddr,
    health: Option<TcpListener>,
    health_address: Option<SocketAddr>,
}

impl BoundServer {
    /// The address that hooks are called at.
    pub fn local_address(&self) -> SocketAddr {
        self.local_address
    }

    /// The address of the health endpoints, if there are any.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.health_address
    }

    /// The URL of the extension for callers that reach this machine under that host name or address.
    pub fn url(&self, host: &str) -> String {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        format!("https://{host}:{}{}", self.local_address.port(), self.extension.base_path())
    }

    /// An ExtensionConfig for such callers, as YAML to be applied with kubectl. Its `caBundle` is that of
    /// the development certificate; with a certificate from files, it has none.
    pub fn manifest(&self, host: &str) -> String {
        let ca = self.tls.source().development_certificate().map(|certificate| certificate.ca_pem());
        manifest::extension_config(self.extension.name(), &self.url(host), ca)
    }

    /// Serves until the future completes, then lets the calls in flight finish.
    ///
    /// Dropping what this returns before it completes drops every connection at once.
    pub async fn run_until(self, stop: impl Future<Output = ()>) -> Shutdown {
        let (stopping, shutdown) = watch::channel(false);
        let mut background = JoinSet::new();
        background.spawn(Arc::clone(&self.tls).follow_files());
        if let Some(listener) = self.health {
            background.spawn(health::serve(listener, self.ready, shutdown.clone()));
        }
        let shared = Shared {
            extension: self.extension,
            tls: self.tls,
            limits: self.limits,
            memory: self.memory,
            shutdown,
        };
        let places = Arc::new(Semaphore::new(self.max_connections));
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        info!(address = %self.local_address, extension = shared.extension.name(), "serving");
        loop {
            let (stream, place) = tokio::select! {
                accepted = accept(&self.listener, &places) => accepted,
                () = stop.as_mut() => break,
                Some(_) = connections.join_next() => continue,
            };
            let shared = shared.clone();
            connections.spawn(async move {
                shared.serve(stream).await;
                drop(place);
            });
        }
        // Closed first: a caller must find another replica, not wait here for nothing.
        drop(self.listener);
        stopping.send_replace(true);
        info!(connections = connections.len(), "stopping");
        let finished = async { while connections.join_next().await.is_some() {} };
        if timeout(self.shutdown_limit, finished).await.is_err() {
            warn!(connections = connections.len(), "calls did not finish in time");
        }
        Shutdown { unfinished_connections: connections.len() }
    }
}

/// Accepts a connection as soon as there is a place for it.
async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, OwnedSemaphorePermit) {
    loop {
        let Ok(place) = Arc::clone(places).acquire_owned().await else {
            // The semaphore is never closed.
            return std::future::pending().await;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                // Answers are small and complete; waiting for more to send would only make them late.
                let _ = stream.set_nodelay(true);
                return (stream, place);
            }
            Err(error) => {
                warn!(%error, "cannot accept a connection");
                sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Shutdown {
    /// Connections that were dropped with calls in flight, because those did not finish in time.
    pub unfinished_connections: usize,
}

/// Why a server does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// An address cannot be bound.
    #[error("cannot listen on {address}: {source}")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("extension", &self.extension)
            .field("tls", &self.tls)
            .field("health_address", &self.health_address)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for BoundServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BoundServer")
            .field("extension", &self.extension)
            .field("local_address", &self.local_address)
            .field("health_address", &self.health_address)
            .finish_non_exhaustive()
    }
}
