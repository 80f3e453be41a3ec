//! Calls over HTTPS, bounded in time and size.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::crypto::ring::default_provider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::hook::{Place, Target};
use super::service::{self, Directory};

/// The longest answer of a webhook.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// Why a webhook did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("it has neither a url nor a service")]
    Nowhere,
    #[error("no address is known of service {0:?}")]
    NoAddress(String),
    #[error("{0:?} is not a url that can be called")]
    Url(String),
    #[error("no answer within {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("cannot connect: {0}")]
    Connect(std::io::Error),
    #[error("its certificates cannot be used: {0}")]
    Certificate(String),
    #[error("the call failed: {0}")]
    Http(String),
    #[error("it answered with {0}")]
    Status(StatusCode),
    #[error("its answer is not JSON: {0}")]
    Json(serde_json::Error),
}

/// Sends a question and reads the answer.
pub(super) async fn post(
    directory: &Directory,
    target: &Target,
    patience: Duration,
    question: &Value,
) -> Result<Value, CallError> {
    let address = Address::of(directory, &target.place)?;
    let call = call(&address, &target.ca_bundle, question);
    timeout(patience, call).await.map_err(|_| CallError::Timeout(patience))?
}

/// Where to connect to, and what to ask for there.
struct Address {
    host: String,
    port: u16,
    /// What the certificate must be good for, and what the request says it is for.
    name: String,
    path: String,
}

impl Address {
    fn of(directory: &Directory, place: &Place) -> Result<Self, CallError> {
        match place {
            Place::Nowhere => Err(CallError::Nowhere),
            Place::Service(reference, path) => {
                let found = service::resolve(directory, reference);
                let (host, port) = found.ok_or_else(|| CallError::NoAddress(reference.host()))?;
                Ok(Self { host, port, name: reference.host(), path: path.clone() })
            }
            Place::Url(text) => {
                let invalid = || CallError::Url(text.clone());
                let url: Uri = text.parse().map_err(|_| invalid())?;
                let host = url.host().filter(|_| url.scheme_str() == Some("https")).ok_or_else(invalid)?;
                let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
                let path = url.path_and_query().map_or("/", |path| path.as_str()).to_owned();
                Ok(Self { name: host.clone(), host, port: url.port_u16().unwrap_or(443), path })
            }
        }
    }
}

async fn call(address: &Address, ca_bundle: &[u8], question: &Value) -> Result<Value, CallError> {
    let Address { host, port, name: certified, path } = address;
    let name = ServerName::try_from(certified.clone()).map_err(|_| CallError::Url(certified.clone()))?;
    let stream = TcpStream::connect((host.as_str(), *port)).await.map_err(CallError::Connect)?;
    let stream = connector(ca_bundle)?.connect(name, stream).await.map_err(CallError::Connect)?;

    let http = |error: &dyn std::fmt::Display| CallError::Http(error.to_string());
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| http(&error))?;
    let request = Request::post(path)
        .header("host", format!("{certified}:{port}"))
        .header("content-type", "application/json")
        .header("accept", "application/json")
        .body(Full::new(Bytes::from(question.to_string())))
        .map_err(|error| http(&error))?;
    let exchange = async {
        let response = sender.send_request(request).await.map_err(|error| http(&error))?;
        let status = response.status();
        if !status.is_success() {
            return Err(CallError::Status(status));
        }
        let body = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
        let body = body.map_err(|error| http(&error))?.to_bytes();
        serde_json::from_slice(&body).map_err(CallError::Json)
    };
    // The connection is driven here and not by a task, so that giving up ends it.
    let mut exchange = std::pin::pin!(exchange);
    tokio::select! {
        answer = &mut exchange => answer,
        _ = connection => exchange.await,
    }
}

fn connector(ca_bundle: &[u8]) -> Result<TlsConnector, CallError> {
    let certificate = |error: &dyn std::fmt::Display| CallError::Certificate(error.to_string());
    let mut roots = RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(ca_bundle) {
        roots.add(root.map_err(|error| certificate(&error))?).map_err(|error| certificate(&error))?;
    }
    let config = ClientConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| certificate(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(TlsConnector::from(Arc::new(config)))
}
