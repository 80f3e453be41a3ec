//! A caller, and a server to call.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Version};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_extension::hooks::{BeforeClusterUpgrade, Hook, HookType};
use windlass_extension::{DevelopmentCertificate, Extension, Server, Shutdown, Tls};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

/// Nothing that works takes this long, and a test that hangs must end.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) const H1: &[&[u8]] = &[b"http/1.1"];
pub(crate) const H2: &[&[u8]] = &[b"h2"];

/// A request that every lifecycle hook understands.
pub(crate) const REQUEST: &str =
    r#"{"cluster":{"metadata":{"name":"c1","namespace":"ns1"}},"toKubernetesVersion":"v1.33.0"}"#;

/// The path of a handler of BeforeClusterUpgrade.
pub(crate) fn gate_path(handler: &str) -> String {
    format!("{}/{handler}", BeforeClusterUpgrade::HOOK.base_path())
}

pub(crate) fn discovery_path() -> String {
    Hook::Discovery.base_path()
}

/// What a caller needs to connect.
#[derive(Clone, Default)]
pub(crate) struct Caller {
    trusted: Vec<String>,
    identity: Option<(String, String)>,
}

impl Caller {
    pub(crate) fn trusting(certificate: &DevelopmentCertificate) -> Self {
        Self::default().and_trusting(certificate.ca_pem())
    }

    pub(crate) fn and_trusting(mut self, ca_pem: &str) -> Self {
        self.trusted.push(ca_pem.to_owned());
        self
    }

    pub(crate) fn with_identity(mut self, certificate_pem: &str, key_pem: &str) -> Self {
        self.identity = Some((certificate_pem.to_owned(), key_pem.to_owned()));
        self
    }

    pub(crate) async fn handshake(
        &self,
        address: SocketAddr,
        alpn: &[&[u8]],
    ) -> Result<TlsStream<TcpStream>, Error> {
        let mut roots = RootCertStore::empty();
        for pem in &self.trusted {
            roots.add(CertificateDer::from_pem_slice(pem.as_bytes())?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => builder.with_client_auth_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes())?],
                PrivateKeyDer::from_pem_slice(key.as_bytes())?,
            )?,
        };
        config.alpn_protocols = alpn.iter().map(|name| name.to_vec()).collect();
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        let name = ServerName::try_from("127.0.0.1")?;
        Ok(TlsConnector::from(Arc::new(config)).connect(name, stream).await?)
    }

    pub(crate) async fn connect(&self, address: SocketAddr, alpn: &[&[u8]]) -> Result<Connection, Error> {
        let stream = self.handshake(address, alpn).await?;
        let server_certificate =
            stream.get_ref().1.peer_certificates().map(|chain| chain[0].to_vec()).unwrap_or_default();
        let sender = if stream.get_ref().1.alpn_protocol() == Some(b"h2") {
            let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            Sender::H2(sender)
        } else {
            let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
            tokio::spawn(connection);
            Sender::H1(sender)
        };
        Ok(Connection { sender, server_certificate })
    }
}

pub(crate) struct Connection {
    sender: Sender,
    /// What the server showed, DER.
    pub(crate) server_certificate: Vec<u8>,
}

enum Sender {
    H1(http1::SendRequest<Full<Bytes>>),
    H2(http2::SendRequest<Full<Bytes>>),
}

/// An answer, read to its end.
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) content_type: String,
    pub(crate) allow: Option<String>,
    pub(crate) body: Bytes,
}

impl Answered {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Status and message of a response.
    pub(crate) fn outcome(&self) -> (String, String) {
        assert_eq!(self.status, 200, "{:?}", self.body);
        assert_eq!(self.content_type, "application/json");
        let json = self.json();
        let text = |field: &str| json[field].as_str().unwrap_or_default().to_owned();
        (text("status"), text("message"))
    }
}

impl Connection {
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<Answered, Error> {
        let response = match &mut self.sender {
            Sender::H1(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
            Sender::H2(sender) => {
                sender.ready().await?;
                sender.send_request(request).await?
            }
        };
        let (head, body) = response.into_parts();
        let header = |name| head.headers.get(name).map(|value: &http::HeaderValue| value.to_str().unwrap());
        Ok(Answered {
            status: head.status.as_u16(),
            content_type: header("content-type").unwrap_or_default().to_owned(),
            allow: header("allow").map(str::to_owned),
            body: body.collect().await?.to_bytes(),
        })
    }

    pub(crate) async fn request(
        &mut self,
        method: &str,
        path: &str,
        body: impl Into<Bytes>,
    ) -> Result<Answered, Error> {
        let request = Request::builder().method(method);
        let request = match self.sender {
            Sender::H1(_) => request.uri(path).header("host", "127.0.0.1"),
            Sender::H2(_) => request.version(Version::HTTP_2).uri(format!("https://127.0.0.1{path}")),
        };
        self.send(request.body(Full::new(body.into()))?).await
    }

    /// A call as Cluster API makes it: no content type, a body, and nothing else.
    pub(crate) async fn post(&mut self, path: &str, body: impl Into<Bytes>) -> Answered {
        tokio::time::timeout(PATIENCE, self.request("POST", path, body)).await.unwrap().unwrap()
    }
}

/// A server in this process.
pub(crate) struct Running {
    pub(crate) address: SocketAddr,
    pub(crate) health_address: Option<SocketAddr>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<Shutdown>,
}

impl Running {
    pub(crate) async fn start(server: Server) -> Self {
        let server = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (address, health_address) = (server.local_address(), server.health_address());
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(server.run_until(async {
            // A test that drops the server stops it as well.
            let _ = stopped.await;
        }));
        Self { address, health_address, stop: Some(stop), task }
    }

    /// Starts a server with a fresh certificate, and the caller that trusts it.
    pub(crate) async fn with(extension: Extension) -> (Self, Caller) {
        let certificate = certificate();
        let server = Server::new(extension, Tls::development(certificate.clone()));
        (Self::start(server).await, Caller::trusting(&certificate))
    }

    pub(crate) fn tell_to_stop(&mut self) {
        drop(self.stop.take());
    }

    pub(crate) async fn stopped(mut self) -> Shutdown {
        self.tell_to_stop();
        tokio::time::timeout(PATIENCE, self.task).await.unwrap().unwrap()
    }
}

pub(crate) fn certificate() -> DevelopmentCertificate {
    DevelopmentCertificate::generate(["localhost", "127.0.0.1"]).unwrap()
}

/// Asks until the answer is there. Between two questions others get their turn.
pub(crate) async fn eventually<T, F: Future<Output = Option<T>>>(mut question: impl FnMut() -> F) -> T {
    let asking = async {
        loop {
            if let Some(answer) = question().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asking).await.unwrap()
}
