//! A server in this process, and a client that says who it is.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring::default_provider};
use windlass_apiserver::serve::{Bounds, Credentials, serve_within};
use windlass_apiserver::{ApiServer, Limits, Options};
use windlass_store::{History, Store};

/// A server on a port of the system's choice.
pub(crate) struct Running {
    /// The same server, in the process.
    pub(crate) api: ApiServer,
    pub(crate) address: SocketAddr,
    pub(crate) credentials: Arc<Credentials>,
    pub(crate) stop: Option<oneshot::Sender<()>>,
    pub(crate) task: JoinHandle<()>,
}

/// How a client says who it is.
pub(crate) enum As<'a> {
    Nobody,
    Token(&'a str),
    Admin,
}

impl Running {
    pub(crate) async fn start() -> Self {
        Self::within(Bounds::default(), Limits::default()).await
    }

    pub(crate) async fn within(bounds: Bounds, limits: Limits) -> Self {
        let credentials = Arc::new(Credentials::ephemeral().unwrap());
        let options = Options::new().token_key(credentials.token_key()).limits(limits);
        let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let used = Arc::clone(&credentials);
        let api = server.clone();
        let task = tokio::spawn(async move {
            let stopped = async move { drop(stopped.await) };
            serve_within(bounds, server, listener, used, stopped).await.unwrap();
        });
        Self { api, address, credentials, stop: Some(stop), task }
    }

    /// An encrypted connection, over which the protocol is `alpn`.
    pub(crate) async fn connect(&self, who: &As<'_>, alpn: &str) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.credentials.ca_bundle().as_bytes()).unwrap()).unwrap();
        let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match who {
            As::Admin => {
                let (certificate, key) = admin(&self.credentials.kubeconfig("https://localhost"));
                let certificate = CertificateDer::from_pem_slice(&certificate).unwrap();
                config
                    .with_client_auth_cert(vec![certificate], PrivateKeyDer::from_pem_slice(&key).unwrap())
                    .unwrap()
            }
            As::Nobody | As::Token(_) => config.with_no_client_auth(),
        };
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        let stream = TcpStream::connect(self.address).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }

    /// The answer to one request, on a connection of its own.
    pub(crate) async fn ask(
        &self,
        who: As<'_>,
        request: http::request::Builder,
        body: Vec<u8>,
    ) -> (u16, String) {
        let stream = self.connect(&who, "http/1.1").await;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        let mut request = request.header("host", "localhost");
        if let As::Token(token) = who {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let response = sender.send_request(request).await.unwrap();
        let code = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (code, String::from_utf8_lossy(&body).into_owned())
    }

    /// A connection of the administrator over which no stream gets more of an answer than `window` bytes unless it
    /// is read.
    pub(crate) async fn narrow(&self, window: u32) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
        let stream = self.connect(&As::Admin, "h2").await;
        let mut builder = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(window);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }

    /// A connection over which many requests go at once, as the administrator.
    pub(crate) async fn http2(&self) -> hyper::client::conn::http2::SendRequest<Full<Bytes>> {
        let stream = self.connect(&As::Admin, "h2").await;
        let (sender, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

/// The next piece of a body as text.
pub(crate) async fn next(body: &mut Incoming) -> String {
    let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
    String::from_utf8(frame.to_vec()).unwrap()
}

/// The certificate and key of the administrator out of a kubeconfig.
fn admin(kubeconfig: &str) -> (Vec<u8>, Vec<u8>) {
    use base64::Engine;
    let find = |name: &str| {
        let line = kubeconfig.lines().find_map(|line| line.trim().strip_prefix(name)).unwrap();
        base64::engine::general_purpose::STANDARD.decode(line.trim()).unwrap()
    };
    (find("client-certificate-data:"), find("client-key-data:"))
}
