//! A small TLS server that does what a test says, also what no server should do.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::certificates::Leaf;

pub(crate) type Reply = Pin<Box<dyn Future<Output = http::Response<Bytes>> + Send>>;
pub(crate) type Handler = Arc<dyn Fn(http::Request<Bytes>) -> Reply + Send + Sync>;

/// What is spoken over a connection once TLS stands.
#[derive(Clone)]
pub(crate) enum Speaks {
    /// HTTP by the agreed protocol, answered by a function.
    Http(Handler),
    /// For each of these, reads a request and then writes exactly these bytes. Closes at the end.
    Raw(Vec<Bytes>),
    /// Reads and never writes.
    Nothing,
}

/// A server on a port of the loopback interface, as long as it lives.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    connections: Arc<AtomicUsize>,
    certificate: Arc<Rotating>,
    accepting: tokio::task::JoinHandle<()>,
}

pub(crate) struct Options<'a> {
    pub(crate) leaf: &'a Leaf,
    pub(crate) protocols: &'a [&'a str],
    pub(crate) clients: Option<Arc<dyn ClientCertVerifier>>,
    pub(crate) speaks: Speaks,
}

impl Server {
    /// A server for HTTP/2 and HTTP/1.1.
    pub(crate) async fn start(leaf: &Leaf, speaks: Speaks) -> Self {
        Self::start_with(Options { leaf, protocols: &["h2", "http/1.1"], clients: None, speaks }).await
    }

    pub(crate) async fn start_with(options: Options<'_>) -> Self {
        let certificate = Arc::new(Rotating(Mutex::new(Arc::clone(&options.leaf.certified))));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = match options.clients {
            Some(clients) => builder.with_client_cert_verifier(clients),
            None => builder.with_no_client_auth(),
        };
        let resolver: Arc<dyn ResolvesServerCert> = certificate.clone();
        let mut config = builder.with_cert_resolver(resolver);
        config.alpn_protocols = options.protocols.iter().map(|name| name.as_bytes().to_vec()).collect();

        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(AtomicUsize::new(0));
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let (counter, speaks) = (Arc::clone(&connections), options.speaks);
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counter.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(serve(stream, acceptor.clone(), speaks.clone()));
            }
        });
        Self { address, connections, certificate, accepting }
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }

    /// Presents another certificate on connections from now on.
    pub(crate) fn rotate(&self, leaf: &Leaf) {
        *self.certificate.0.lock().unwrap() = Arc::clone(&leaf.certified);
    }

    pub(crate) fn url(&self, host: &str) -> String {
        format!("https://{host}:{}", self.address.port())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

#[derive(Debug)]
struct Rotating(Mutex<Arc<CertifiedKey>>);

impl ResolvesServerCert for Rotating {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0.lock().unwrap()))
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, speaks: Speaks) {
    let stream = match acceptor.accept(stream).into_fallible().await {
        Ok(stream) => stream,
        // Closing with unread bytes would reset the connection, and the client might miss why.
        Err((_, stream)) => return drain(stream).await,
    };
    match speaks {
        Speaks::Http(handler) => http(stream, handler).await,
        Speaks::Raw(replies) => raw(stream, &replies).await,
        Speaks::Nothing => drain(stream).await,
    }
}

/// Reads until the client goes away.
async fn drain(mut stream: impl AsyncRead + Unpin) {
    while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {}
}

async fn http(stream: TlsStream<TcpStream>, handler: Handler) {
    let is_h2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
    let service = hyper::service::service_fn(move |request: http::Request<Incoming>| {
        let handler = Arc::clone(&handler);
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
            let response = handler(http::Request::from_parts(head, body)).await;
            Ok::<_, Infallible>(response.map(Full::new))
        }
    });
    let io = TokioIo::new(stream);
    // Clients go away in the middle of things; that is not the server's problem.
    let _ = if is_h2 {
        hyper::server::conn::http2::Builder::new(TokioExecutor::new()).serve_connection(io, service).await
    } else {
        hyper::server::conn::http1::Builder::new().serve_connection(io, service).await
    };
}

async fn raw(mut stream: TlsStream<TcpStream>, replies: &[Bytes]) {
    for reply in replies {
        // Requests of tests fit into one record.
        let _ = stream.read(&mut [0; 16 * 1024]).await;
        let _ = stream.write_all(reply).await;
    }
    let _ = stream.shutdown().await;
}

/// A handler from a function that answers at once.
pub(crate) fn answers(
    reply: impl Fn(&http::Request<Bytes>) -> http::Response<Bytes> + Send + Sync + 'static,
) -> Speaks {
    Speaks::Http(Arc::new(move |request| {
        let response = reply(&request);
        Box::pin(async move { response })
    }))
}

/// A handler that always answers 200 with the same body.
pub(crate) fn says(body: impl Into<Bytes>) -> Speaks {
    let body = body.into();
    answers(move |_| http::Response::new(body.clone()))
}
