//! An extension over real TLS that behaves well, unless a test twists its answers.

#![allow(dead_code, reason = "each test binary uses another part")]

pub(crate) mod behaviour;
pub(crate) mod certificates;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ServerConfig;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use windlass_conformance::{Operation, OperationError, Operations, Target};

use self::certificates::Pki;

/// A request as the extension sees it.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) content_type: bool,
    pub(crate) body: Bytes,
    /// The body as JSON; null if it is none.
    pub(crate) value: Value,
    /// How many requests this path had before.
    pub(crate) nth: usize,
    /// How many requests are being answered now, this one included.
    pub(crate) in_flight: usize,
    /// How often the extension was started before.
    pub(crate) restarts: usize,
}

impl Ask {
    pub(crate) fn is_discovery(&self) -> bool {
        self.path.ends_with("/discovery")
    }

    /// Whether it is a real call of a handler, not a probe with a body that is not JSON.
    pub(crate) fn is_call(&self) -> bool {
        !self.is_discovery() && self.value.is_object()
    }
}

/// What the extension does about it.
#[derive(Clone, Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    pub(crate) body: Bytes,
    pub(crate) delay: Duration,
    pub(crate) end: End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answer,
    Abort,
    Hang,
}

impl Reply {
    pub(crate) fn json(value: &Value) -> Self {
        Self {
            status: 200,
            headers: Vec::new(),
            body: Bytes::from(value.to_string()),
            delay: Duration::ZERO,
            end: End::Answer,
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self { status, ..Self::json(&Value::Null) }
    }

    pub(crate) fn after(self, milliseconds: u64) -> Self {
        Self { delay: Duration::from_millis(milliseconds), ..self }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: &'static str) -> Self {
        self.headers.push((name, value));
        self
    }

    pub(crate) fn ending(self, end: End) -> Self {
        Self { end, ..self }
    }
}

/// Changes what a well-behaved extension would have answered.
pub(crate) type Twist = Arc<dyn Fn(&Ask, Reply) -> Reply + Send + Sync>;

/// What is broken below HTTP.
#[derive(Clone)]
pub(crate) struct Below {
    pub(crate) alpn: Vec<&'static str>,
    pub(crate) names: Vec<&'static str>,
    /// Days until the certificate expires.
    pub(crate) expires_in_days: i64,
    /// Its certificate is self-signed and in the bundle, with these basic constraints.
    pub(crate) self_signed: Option<rcgen::IsCa>,
    /// Answers hellos of TLS 1.0 and 1.1.
    pub(crate) old_tls: bool,
    /// Speaks no TLS at all.
    pub(crate) plain: bool,
    pub(crate) require_client_certificate: bool,
    /// Drops calls that are under way when it is told to stop.
    pub(crate) abrupt: bool,
    /// Stays down when it is told to start.
    pub(crate) stays_down: bool,
    /// Answers nothing while its siblings are down.
    pub(crate) depends_on_siblings: bool,
}

impl Default for Below {
    fn default() -> Self {
        Self {
            alpn: vec!["h2", "http/1.1"],
            names: vec!["127.0.0.1"],
            expires_in_days: 365,
            self_signed: None,
            old_tls: false,
            plain: false,
            require_client_certificate: false,
            abrupt: false,
            stays_down: false,
            depends_on_siblings: false,
        }
    }
}

/// A running extension.
pub(crate) struct Extension {
    pub(crate) address: SocketAddr,
    pub(crate) pki: Pki,
    shared: Arc<Shared>,
}

struct Shared {
    below: Below,
    twist: Twist,
    tls: Arc<ServerConfig>,
    address: Mutex<Option<SocketAddr>>,
    counts: Mutex<BTreeMap<String, usize>>,
    in_flight: AtomicUsize,
    restarts: AtomicUsize,
    siblings_down: AtomicBool,
    accepting: Mutex<Option<JoinHandle<()>>>,
    connections: Mutex<Vec<JoinHandle<()>>>,
}

impl Extension {
    pub(crate) async fn start(below: Below, twist: Twist) -> Self {
        let pki = match below.self_signed {
            Some(is_ca) => Pki::self_signed(&below.names, is_ca),
            None => Pki::new(&below.names, below.expires_in_days),
        };
        let tls = pki.server_config(&below.alpn, below.require_client_certificate);
        let shared = Arc::new(Shared {
            below,
            twist,
            tls: Arc::new(tls),
            address: Mutex::new(None),
            counts: Mutex::default(),
            in_flight: AtomicUsize::new(0),
            restarts: AtomicUsize::new(0),
            siblings_down: AtomicBool::new(false),
            accepting: Mutex::new(None),
            connections: Mutex::default(),
        });
        let address = shared.clone().listen("127.0.0.1:0".parse().unwrap()).await;
        *shared.address.lock().unwrap() = Some(address);
        Self { address, pki, shared }
    }

    /// One that answers every question right.
    pub(crate) async fn well_behaved() -> Self {
        Self::start(Below::default(), Arc::new(|_, reply| reply)).await
    }

    pub(crate) fn target(&self) -> Target {
        Target::new(format!("https://{}", self.address)).with_ca_bundle(self.pki.ca_pem.clone())
    }

    /// Stops and starts it.
    pub(crate) fn operations(&self) -> Arc<dyn Operations> {
        Arc::new(Control(self.shared.clone()))
    }
}

impl Drop for Extension {
    fn drop(&mut self) {
        drop(self.shared.stop(true));
    }
}

impl Shared {
    async fn listen(self: Arc<Self>, address: SocketAddr) -> SocketAddr {
        let listener = TcpListener::bind(address).await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = self.clone();
        let accepting = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                stream.set_nodelay(true).unwrap();
                let connection = tokio::spawn(shared.clone().serve(stream));
                shared.connections.lock().unwrap().push(connection);
            }
        });
        *self.accepting.lock().unwrap() = Some(accepting);
        address
    }

    /// Returns what to wait for until the port is free again.
    fn stop(&self, abrupt: bool) -> Option<JoinHandle<()>> {
        let accepting = self.accepting.lock().unwrap().take();
        accepting.iter().for_each(JoinHandle::abort);
        if abrupt {
            self.connections.lock().unwrap().drain(..).for_each(|connection| connection.abort());
        }
        accepting
    }

    async fn serve(self: Arc<Self>, mut stream: TcpStream) {
        if self.below.plain {
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
            return;
        }
        if self.below.old_tls && is_old_hello(&stream).await {
            let _ = answer_old_hello(stream).await;
            return;
        }
        let Ok(stream) = TlsAcceptor::from(self.tls.clone()).accept(stream).await else { return };
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        let io = TokioIo::new(stream);
        let service = service_fn(move |request| self.clone().answer(request));
        if http2 {
            let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = builder.serve_connection(io, service).await;
        } else {
            let _ = hyper::server::conn::http1::Builder::new().serve_connection(io, service).await;
        }
    }

    async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Aborted> {
        const LIMIT: usize = 64 * 1024 * 1024;
        let (parts, body) = request.into_parts();
        let body = Limited::new(body, LIMIT).collect().await.map_err(|_| Aborted)?.to_bytes();
        let path = parts.uri.path().to_owned();
        let nth = {
            let mut counts = self.counts.lock().unwrap();
            let count = counts.entry(path.clone()).or_default();
            *count += 1;
            *count - 1
        };
        let ask = Ask {
            path,
            query: parts.uri.query().unwrap_or_default().to_owned(),
            content_type: parts.headers.contains_key("content-type"),
            value: serde_json::from_slice(&body).unwrap_or_default(),
            body,
            nth,
            in_flight: self.in_flight.fetch_add(1, Ordering::SeqCst) + 1,
            restarts: self.restarts.load(Ordering::SeqCst),
        };
        let lost = self.below.depends_on_siblings && self.siblings_down.load(Ordering::SeqCst);
        let reply = if lost { Reply::status(500) } else { (self.twist)(&ask, behaviour::well_behaved(&ask)) };
        // Slowness is what is simulated here; nothing waits for it but the tester.
        tokio::time::sleep(reply.delay).await;
        self.in_flight.fetch_sub(1, Ordering::SeqCst);
        match reply.end {
            End::Abort => return Err(Aborted),
            End::Hang => std::future::pending().await,
            End::Answer => {}
        }
        let mut response = Response::builder().status(reply.status);
        for (name, value) in reply.headers {
            response = response.header(name, value);
        }
        Ok(response.body(Full::new(reply.body)).unwrap())
    }
}

/// Makes hyper drop the connection without an answer.
#[derive(Debug, thiserror::Error)]
#[error("aborted")]
struct Aborted;

struct Control(Arc<Shared>);

impl Operations for Control {
    fn supports(&self, _: Operation) -> bool {
        true
    }

    fn perform(
        &self,
        operation: Operation,
    ) -> Pin<Box<dyn Future<Output = Result<(), OperationError>> + Send + '_>> {
        Box::pin(async move {
            let shared = &self.0;
            match operation {
                Operation::Terminate => {
                    if let Some(accepting) = shared.stop(shared.below.abrupt) {
                        let _ = accepting.await;
                    }
                }
                Operation::Start if shared.below.stays_down => {}
                Operation::Start => {
                    shared.restarts.fetch_add(1, Ordering::SeqCst);
                    let address = shared.address.lock().unwrap().unwrap();
                    shared.clone().listen(address).await;
                }
                Operation::StopSiblings => shared.siblings_down.store(true, Ordering::SeqCst),
                Operation::StartSiblings => shared.siblings_down.store(false, Ordering::SeqCst),
            }
            Ok(())
        })
    }
}

/// Whether the version in a ClientHello is below TLS 1.2. Later ones all say 1.2 there.
async fn is_old_hello(stream: &TcpStream) -> bool {
    let mut start = [0; 11];
    while let Ok(read) = stream.peek(&mut start).await {
        match read {
            0 => return false,
            11 => return start[5] == 1 && start[9] == 3 && start[10] < 3,
            _ => tokio::task::yield_now().await,
        }
    }
    false
}

/// The beginning of a handshake as an old server would lead it.
async fn answer_old_hello(mut stream: TcpStream) -> std::io::Result<()> {
    let mut hello = [0; 11];
    stream.read_exact(&mut hello).await?;
    let version = hello[10];
    let mut message = vec![2, 0, 0, 38, 3, version];
    message.extend([0; 32]);
    message.extend([0, 0xc0, 0x13, 0]);
    let mut record = vec![22, 3, version, 0, u8::try_from(message.len()).unwrap()];
    record.extend(message);
    stream.write_all(&record).await
}
