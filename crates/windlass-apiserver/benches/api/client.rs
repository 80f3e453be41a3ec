//! One client: a connection of its own, or the service itself.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http1::SendRequest;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use windlass_apiserver::{Body, Service};

/// Makes clients.
#[derive(Clone)]
pub(crate) enum Connector {
    Https { address: SocketAddr, config: Arc<ClientConfig> },
    InProcess(Service),
}

pub(crate) enum Client {
    Https(SendRequest<Full<Bytes>>),
    InProcess(Service),
}

/// An answer whose body is still to come.
pub(crate) enum Answer {
    Https(Response<Incoming>),
    InProcess(Response<Body>),
}

impl Connector {
    pub(crate) async fn connect(&self) -> Client {
        let (address, config) = match self {
            Self::InProcess(service) => return Client::InProcess(service.clone()),
            Self::Https { address, config } => (address, config),
        };
        let stream = TcpStream::connect(address).await.expect("a connection");
        stream.set_nodelay(true).expect("a connection");
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let stream = TlsConnector::from(Arc::clone(config)).connect(name, stream).await.expect("TLS");
        let (sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.expect("HTTP");
        tokio::spawn(connection);
        Client::Https(sender)
    }
}

impl Client {
    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&mut self, request: Request<Full<Bytes>>) -> (StatusCode, Bytes) {
        match self.start(request).await {
            Answer::Https(answer) => {
                let code = answer.status();
                (code, answer.into_body().collect().await.expect("a body").to_bytes())
            }
            Answer::InProcess(answer) => {
                let code = answer.status();
                (code, answer.into_body().collect().await.expect("a body").to_bytes())
            }
        }
    }

    /// Sends a request and reads the head of the answer.
    pub(crate) async fn start(&mut self, request: Request<Full<Bytes>>) -> Answer {
        match self {
            Self::Https(sender) => Answer::Https(sender.send_request(request).await.expect("an answer")),
            Self::InProcess(service) => Answer::InProcess(service.answer(request).await),
        }
    }
}

impl Answer {
    /// The next piece of the body; `None` at its end.
    pub(crate) async fn piece(&mut self) -> Option<Bytes> {
        match self {
            Self::Https(answer) => answer.body_mut().frame().await?.ok()?.into_data().ok(),
            Self::InProcess(answer) => answer.body_mut().frame().await?.ok()?.into_data().ok(),
        }
    }
}
