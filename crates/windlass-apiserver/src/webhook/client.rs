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

use super::hook::Target;

/// The longest answer of a webhook.
const MAX_ANSWER: usize = 3 * 1024 * 1024;

/// Why a webhook did not answer.
#[derive(Debug, thiserror::Error)]
pub(super) enum CallError {
    #[error("a webhook is called by its url; services do not run here")]
    NoUrl,
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
pub(super) async fn post(target: &Target, patience: Duration, question: &Value) -> Result<Value, CallError> {
    timeout(patience, call(target, question)).await.map_err(|_| CallError::Timeout(patience))?
}

async fn call(target: &Target, question: &Value) -> Result<Value, CallError> {
    if target.url.is_empty() {
        return Err(CallError::NoUrl);
    }
    let invalid = || CallError::Url(target.url.clone());
    let url: Uri = target.url.parse().map_err(|_| invalid())?;
    let host = url.host().filter(|_| url.scheme_str() == Some("https")).ok_or_else(invalid)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let port = url.port_u16().unwrap_or(443);
    let name = ServerName::try_from(host.to_owned()).map_err(|_| invalid())?;
    let stream = TcpStream::connect((host, port)).await.map_err(CallError::Connect)?;
    let stream = connector(&target.ca_bundle)?.connect(name, stream).await.map_err(CallError::Connect)?;

    let http = |error: &dyn std::fmt::Display| CallError::Http(error.to_string());
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| http(&error))?;
    let request = Request::post(url.path_and_query().map_or("/", |path| path.as_str()))
        .header("host", format!("{host}:{port}"))
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
