//! TCP and TLS to one host.

use std::collections::BTreeMap;
use std::error::Error;
use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::dns::{GaiResolver, Name};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;
use tower::Service;

use super::{TlsProblem, TransportError};

/// A call gives up by its own deadline. This ends attempts that outlive their call, which happens when an
/// older connection became free first; the longest deadline there is.
const ABANDONED_AFTER: Duration = Duration::from_secs(30);

/// Addresses of hosts that need no lookup.
pub(super) type HostOverrides = Arc<BTreeMap<String, IpAddr>>;

/// Connects to the host of a URI and checks that it is the host.
#[derive(Clone)]
pub(super) struct Connector {
    tcp: HttpConnector<Resolver>,
    tls: tokio_rustls::TlsConnector,
    /// Expected instead of the host.
    server_name: Option<Arc<str>>,
}

impl Connector {
    pub(super) fn new(config: ClientConfig, server_name: Option<Arc<str>>, overrides: HostOverrides) -> Self {
        let mut tcp = HttpConnector::new_with_resolver(Resolver { system: GaiResolver::new(), overrides });
        tcp.enforce_http(false);
        // A request is one small write; waiting to fill a packet would only delay it.
        tcp.set_nodelay(true);
        Self { tcp, tls: Arc::new(config).into(), server_name }
    }

    async fn connect(mut self, uri: http::Uri, authority: &str) -> Result<TlsConnection, TransportError> {
        let host = uri.host().unwrap_or_default();
        // An IPv6 address is in brackets in a URI and nowhere else.
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let expected = self.server_name.as_deref().unwrap_or(host).to_owned();
        let name = ServerName::try_from(expected.clone())
            .map_err(|_| TransportError::Misconfigured(format!("no certificate can be for {expected:?}")))?;
        let stream = self.tcp.call(uri).await.map_err(|error| not_connected(&error, authority))?;
        let stream = self.tls.connect(name, stream.into_inner()).await.map_err(|error| {
            let problem = TlsProblem::find(&error)
                .unwrap_or_else(|| TlsProblem::Other(format!("the handshake was cut off: {}", error.kind())));
            TransportError::Tls { authority: authority.to_owned(), problem }
        })?;
        Ok(TlsConnection(TokioIo::new(stream)))
    }
}

impl Service<http::Uri> for Connector {
    type Response = TlsConnection;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<TlsConnection, TransportError>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        // The TCP connector is always ready.
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: http::Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move {
            let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
            let attempt = connector.connect(uri, &authority);
            match timeout(ABANDONED_AFTER, attempt).await {
                Ok(result) => result,
                Err(_) => Err(TransportError::Connect { authority, reason: io::ErrorKind::TimedOut }),
            }
        })
    }
}

fn not_connected(error: &(dyn Error + 'static), authority: &str) -> TransportError {
    if let Some(known) = find::<TransportError>(error) {
        return known.clone();
    }
    let reason = find::<io::Error>(error).map_or(io::ErrorKind::Other, io::Error::kind);
    TransportError::Connect { authority: authority.to_owned(), reason }
}

/// Finds an error of a type behind errors of other layers.
pub(super) fn find<'a, E: Error + 'static>(error: &'a (dyn Error + 'static)) -> Option<&'a E> {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

/// Looks names up in the overrides, then by the operating system.
#[derive(Clone)]
struct Resolver {
    system: GaiResolver,
    overrides: HostOverrides,
}

impl Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = TransportError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, TransportError>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Service::poll_ready(&mut self.system, cx).map_err(|error| unresolved("", &error))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        if let Some(&address) = self.overrides.get(name.as_str()) {
            // Port 0 stands for the port of the URI.
            let address = SocketAddr::new(address, 0);
            return Box::pin(async move { Ok(vec![address].into_iter()) });
        }
        let host = name.as_str().to_owned();
        let lookup = Service::call(&mut self.system, name);
        Box::pin(async move {
            let addresses: Vec<_> = lookup.await.map_err(|error| unresolved(&host, &error))?.collect();
            Ok(addresses.into_iter())
        })
    }
}

fn unresolved(host: &str, error: &io::Error) -> TransportError {
    TransportError::Resolve { host: host.to_owned(), reason: error.to_string() }
}

/// An encrypted connection, and which protocol was agreed for it.
pub(super) struct TlsConnection(TokioIo<TlsStream<TcpStream>>);

impl Connection for TlsConnection {
    fn connected(&self) -> Connected {
        let (_, tls) = self.0.inner().get_ref();
        if tls.alpn_protocol() == Some(b"h2") { Connected::new().negotiated_h2() } else { Connected::new() }
    }
}

impl Read for TlsConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl Write for TlsConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(cx, data)
    }
}
