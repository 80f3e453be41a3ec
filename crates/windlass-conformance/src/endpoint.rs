//! One request and its answer over TLS, with control over everything that a caller usually hides.
//!
//! Every exchange has its own connection. That costs a handshake and buys independence: what one check
//! does to a connection cannot be mistaken for what the next one finds.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Body;
use hyper::header::{self, HeaderMap};
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use windlass_hooks::tls::TlsProblem;

use crate::target::{Place, Target, TargetError};
use crate::trust::Trust;

/// Largest body that callers read and servers must accept, also after decompression.
pub(crate) const MAX_BODY: usize = 20 * 1024 * 1024;

/// Where and how to connect.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) place: Place,
    pub(crate) server_name: ServerName<'static>,
    pub(crate) trust: Trust,
    pub(crate) address: Option<SocketAddr>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    /// Path and query, the base path included.
    pub(crate) path: String,
    pub(crate) body: Bytes,
    /// One deadline over connecting, handshake, sending and receiving, as callers have it.
    pub(crate) timeout: Duration,
    pub(crate) protocol: Protocol,
    pub(crate) method: Method,
    /// `None` is what Cluster API sends.
    pub(crate) content_type: Option<&'static str>,
    /// Leaves the client certificate out.
    pub(crate) anonymous: bool,
    /// Goes to this replica.
    pub(crate) address: Option<SocketAddr>,
}

impl Call {
    /// What a caller sends: a POST without Content-Type, HTTP/2 if the server likes.
    pub(crate) fn post(path: impl Into<String>, body: impl Into<Bytes>, timeout: Duration) -> Self {
        Self {
            path: path.into(),
            body: body.into(),
            timeout,
            protocol: Protocol::Either,
            method: Method::POST,
            content_type: None,
            anonymous: false,
            address: None,
        }
    }
}

/// What is offered by ALPN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Either,
    Http1,
    Http2,
}

impl Protocol {
    fn alpn(self) -> Vec<Vec<u8>> {
        match self {
            Self::Either => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Self::Http1 => vec![b"http/1.1".to_vec()],
            Self::Http2 => vec![b"h2".to_vec()],
        }
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
    /// From sending the request to the end of the body; connecting is not the handler's doing.
    pub(crate) elapsed: Duration,
}

impl Answer {
    /// The beginning of the body, for reports.
    pub(crate) fn excerpt(&self) -> String {
        const SHOWN: usize = 120;
        let text = String::from_utf8_lossy(&self.body);
        let cut: String = text.chars().take(SHOWN).collect();
        if cut.len() < text.len() { format!("{cut}...") } else { cut }
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum TransportError {
    #[error("{host} cannot be resolved: {reason}")]
    Resolve { host: String, reason: String },
    #[error("no connection: {0}")]
    Connect(String),
    #[error("TLS handshake: {0}")]
    Handshake(String),
    #[error("the server does not speak HTTP/2")]
    NoHttp2,
    #[error("HTTP: {0}")]
    Http(String),
    #[error("no answer within {} ms", .0.as_millis())]
    Timeout(Duration),
    #[error("the answer is larger than 20 MiB")]
    TooLarge,
    #[error("the answer is compressed as {encoding:?} and cannot be decoded: {reason}")]
    Compression { encoding: String, reason: String },
}

impl TransportError {
    /// Says what is wrong as callers of extensions do.
    pub(crate) fn handshake(error: &io::Error) -> Self {
        Self::Handshake(
            TlsProblem::find(error).map_or_else(|| error.to_string(), |problem| problem.to_string()),
        )
    }
}

impl Endpoint {
    pub(crate) fn new(target: &Target) -> Result<Self, TargetError> {
        let place = target.place()?;
        let name = target.server_name.clone().unwrap_or_else(|| place.host.clone());
        let server_name =
            ServerName::try_from(name.clone()).map_err(|_| TargetError::ServerName(name.clone()))?;
        let trust = Trust::new(&target.ca_bundle, target.client_identity.as_ref())?;
        Ok(Self { place, server_name, trust, address: target.address })
    }

    /// Sends a request and reads the whole answer.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, TransportError> {
        let body = Full::new(call.body.clone());
        self.send_body(call, body).await
    }

    /// The same with a body that is produced while it is sent.
    pub(crate) async fn send_body<B>(&self, call: &Call, body: B) -> Result<Answer, TransportError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        let exchange = async {
            let stream = self.connect(call).await?;
            self.exchange(call, stream, body).await
        };
        timeout(call.timeout, exchange).await.map_err(|_| TransportError::Timeout(call.timeout))?
    }

    /// A TCP connection, before TLS.
    pub(crate) async fn dial(&self, replica: Option<SocketAddr>) -> Result<TcpStream, TransportError> {
        let connected = match replica.or(self.address) {
            Some(address) => TcpStream::connect(address).await,
            None => {
                let host = (self.place.host.as_str(), self.place.port);
                let addresses = tokio::net::lookup_host(host).await.map_err(|error| {
                    TransportError::Resolve { host: self.place.host.clone(), reason: error.to_string() }
                })?;
                TcpStream::connect(addresses.collect::<Vec<_>>().as_slice()).await
            }
        };
        let stream = connected.map_err(|error| TransportError::Connect(error.to_string()))?;
        // Without this the last packet of a request waits for an acknowledgement and every call looks slow.
        stream.set_nodelay(true).map_err(|error| TransportError::Connect(error.to_string()))?;
        Ok(stream)
    }

    async fn connect(&self, call: &Call) -> Result<TlsStream<TcpStream>, TransportError> {
        let stream = self.dial(call.address).await?;
        let mut config = self.trust.client_config(!call.anonymous);
        config.alpn_protocols = call.protocol.alpn();
        TlsConnector::from(Arc::new(config))
            .connect(self.server_name.clone(), stream)
            .await
            .map_err(|error| TransportError::handshake(&error))
    }

    async fn exchange<B>(
        &self,
        call: &Call,
        stream: TlsStream<TcpStream>,
        body: B,
    ) -> Result<Answer, TransportError>
    where
        B: Body<Data = Bytes> + Send + Unpin + 'static,
        B::Error: std::error::Error + Send + Sync,
    {
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if call.protocol == Protocol::Http2 && !http2 {
            return Err(TransportError::NoHttp2);
        }
        let io = TokioIo::new(stream);
        let request = self.request(call, http2, body)?;
        if http2 {
            let (mut sender, connection) =
                hyper::client::conn::http2::handshake(TokioExecutor::new(), io).await.map_err(http_error)?;
            let driver = tokio::spawn(connection);
            let started = Instant::now();
            let answer = read_answer(sender.send_request(request).await.map_err(http_error)?, started).await;
            driver.abort();
            answer
        } else {
            let (mut sender, connection) =
                hyper::client::conn::http1::handshake(io).await.map_err(http_error)?;
            let driver = tokio::spawn(connection);
            let started = Instant::now();
            let answer = read_answer(sender.send_request(request).await.map_err(http_error)?, started).await;
            driver.abort();
            answer
        }
    }

    fn request<B>(&self, call: &Call, http2: bool, body: B) -> Result<Request<B>, TransportError> {
        // HTTP/2 wants the whole URI, from which it derives :authority; HTTP/1.1 wants the path and a Host.
        let uri =
            if http2 { format!("https://{}{}", self.place.authority, call.path) } else { call.path.clone() };
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(uri)
            .header(header::USER_AGENT, "windlass-conformance")
            .header(header::ACCEPT_ENCODING, "gzip");
        if !http2 {
            request = request.header(header::HOST, &self.place.authority);
        }
        if let Some(content_type) = call.content_type {
            request = request.header(header::CONTENT_TYPE, content_type);
        }
        request.body(body).map_err(|error| TransportError::Http(error.to_string()))
    }
}

async fn read_answer<B>(response: Response<B>, started: Instant) -> Result<Answer, TransportError>
where
    B: Body<Data = Bytes> + Send + Unpin,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let (parts, body) = response.into_parts();
    let body = Limited::new(body, MAX_BODY)
        .collect()
        .await
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                TransportError::TooLarge
            } else {
                TransportError::Http(error.to_string())
            }
        })?
        .to_bytes();
    let elapsed = started.elapsed();
    let body = decompress(&parts.headers, body)?;
    Ok(Answer { status: parts.status, body, elapsed })
}

fn decompress(headers: &HeaderMap, body: Bytes) -> Result<Bytes, TransportError> {
    let encoding = match headers.get(header::CONTENT_ENCODING) {
        None => return Ok(body),
        Some(encoding) => String::from_utf8_lossy(encoding.as_bytes()).to_ascii_lowercase(),
    };
    match encoding.as_str() {
        "" | "identity" => Ok(body),
        "gzip" | "x-gzip" => {
            let mut plain = Vec::new();
            let limit = u64::try_from(MAX_BODY).unwrap_or(u64::MAX);
            match GzDecoder::new(body.as_ref()).take(limit + 1).read_to_end(&mut plain) {
                Ok(read) if read > MAX_BODY => Err(TransportError::TooLarge),
                Ok(_) => Ok(Bytes::from(plain)),
                Err(error) => Err(TransportError::Compression { encoding, reason: error.to_string() }),
            }
        }
        _ => Err(TransportError::Compression { encoding, reason: "only gzip was offered".to_owned() }),
    }
}

/// hyper's own text says little; what happened is in the sources.
fn http_error(error: hyper::Error) -> TransportError {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    TransportError::Http(text)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use hyper::header::HeaderValue;

    use super::*;

    fn encoded(encoding: &'static str, body: Vec<u8>) -> Result<Bytes, TransportError> {
        let mut headers = HeaderMap::new();
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(encoding));
        decompress(&headers, Bytes::from(body))
    }

    #[test]
    fn gzip_is_decoded_and_bounded() {
        let pack = |plain: &[u8]| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(plain).unwrap();
            encoder.finish().unwrap()
        };
        assert_eq!(encoded("gzip", pack(b"{}")).unwrap(), "{}");
        assert_eq!(encoded("identity", b"{}".to_vec()).unwrap(), "{}");
        let bomb = pack(&vec![0; MAX_BODY + 1]);
        assert!(matches!(encoded("gzip", bomb), Err(TransportError::TooLarge)));
        assert!(matches!(encoded("gzip", b"{}".to_vec()), Err(TransportError::Compression { .. })));
        assert!(matches!(encoded("br", b"{}".to_vec()), Err(TransportError::Compression { .. })));
    }
}
