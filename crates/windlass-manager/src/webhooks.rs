//! Webhooks over HTTPS, admission and conversion, with a certificate from files.

use std::convert::Infallible;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use kube::Client;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring::default_provider};
use tower::Service;
use windlass_controllers::admission::{AdmissionWebhook, ObjectLookUp};
use windlass_controllers::conversion::{ConversionWebhook, PATH_CONVERT};
use windlass_engine::features::Features;

/// An object and its predecessor, each as large as an API server takes, and what is around them; or a page of a list that
/// is to be converted.
const MAX_BODY: usize = 64 * 1024 * 1024;
/// How many connections there may be; API servers keep a few.
const CONNECTIONS: usize = 256;
/// How long a handshake, a head or a body may take. No API server waits longer for an answer.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the certificate and its key are, PEM. They are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// The certificate chain.
    pub certificate: PathBuf,
    /// The key.
    pub key: PathBuf,
}

/// Why webhooks are not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WebhookError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What is in the files cannot be used.
    #[error("the certificate in {} cannot be used: {reason}", path.display())]
    Unusable {
        /// The certificate.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
}

/// The certificate of now.
struct Live {
    files: CertificateFiles,
    current: Mutex<(Option<SystemTime>, TlsAcceptor)>,
}

impl Live {
    fn load(files: CertificateFiles) -> Result<Self, WebhookError> {
        let changed = changed(&files.certificate);
        let acceptor = acceptor(&files)?;
        Ok(Self { files, current: Mutex::new((changed, acceptor)) })
    }

    /// For a new connection: what is in the files now. A rotation that is half done keeps the old one.
    fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        let now = changed(&self.files.certificate);
        if now != current.0 {
            match acceptor(&self.files) {
                Ok(acceptor) => {
                    tracing::info!("the certificate of the webhooks has changed");
                    *current = (now, acceptor);
                }
                Err(error) => tracing::warn!(%error, "keeping the old certificate"),
            }
        }
        current.1.clone()
    }
}

fn changed(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).and_then(|found| found.modified()).ok()
}

fn acceptor(files: &CertificateFiles) -> Result<TlsAcceptor, WebhookError> {
    let read = |path: &PathBuf| {
        std::fs::read(path).map_err(|source| WebhookError::Read { path: path.clone(), source })
    };
    let unusable = |reason: &dyn std::fmt::Display| WebhookError::Unusable {
        path: files.certificate.clone(),
        reason: reason.to_string(),
    };
    let (certificate, key) = (read(&files.certificate)?, read(&files.key)?);
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&certificate).collect();
    let key = PrivateKeyDer::from_pem_slice(&key).map_err(|error| unusable(&error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .with_no_client_auth()
        .with_single_cert(chain.map_err(|error| unusable(&error))?, key)
        .map_err(|error| unusable(&error))?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// Serves the webhooks. The certificate is read before this returns; what it returns serves until it is dropped.
///
/// # Errors
///
/// When the certificate cannot be used.
pub fn serve_webhooks(
    listener: TcpListener,
    files: CertificateFiles,
    client: Client,
    features: Features,
) -> Result<impl Future<Output = ()>, WebhookError> {
    let live = Arc::new(Live::load(files)?);
    let webhooks = Webhooks {
        conversion: ConversionWebhook::new(client.clone()),
        admission: AdmissionWebhook::with_features(ObjectLookUp::with_client(client), features),
    };
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    Ok(async move {
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // Out of file descriptors, most likely: others must end first.
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let (live, webhooks) = (Arc::clone(&live), webhooks.clone());
            tokio::spawn(async move {
                let _place = place;
                let Ok(Ok(stream)) = timeout(PATIENCE, live.acceptor().accept(stream)).await else { return };
                let service = service_fn(move |request| answer(webhooks.clone(), request));
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(PATIENCE)
                    .serve_connection(TokioIo::new(stream), service);
                // A connection that breaks is the caller's to notice.
                let _ = connection.await;
            });
        }
    })
}

/// What a request may be about, by its path.
#[derive(Clone)]
struct Webhooks {
    admission: AdmissionWebhook<ObjectLookUp>,
    conversion: ConversionWebhook,
}

async fn answer(
    mut webhooks: Webhooks,
    request: Request<Incoming>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let body = match timeout(PATIENCE, Limited::new(body, MAX_BODY).collect()).await {
        Ok(Ok(body)) => body.to_bytes(),
        Ok(Err(_)) | Err(_) => {
            let mut response = Response::new(Full::from("the body is too long, or took too long"));
            *response.status_mut() = StatusCode::PAYLOAD_TOO_LARGE;
            return Ok(response);
        }
    };
    if parts.uri.path() == PATH_CONVERT {
        return Ok(convert(&webhooks.conversion, &parts.method, &body).await);
    }
    Ok(webhooks.admission.call(Request::from_parts(parts, body)).await?.map(Full::new))
}

async fn convert(webhook: &ConversionWebhook, method: &Method, body: &[u8]) -> Response<Full<Bytes>> {
    let (status, body) = match webhook.review(body).await {
        _ if *method != Method::POST => {
            (StatusCode::METHOD_NOT_ALLOWED, json!({"message": "reviews are sent with POST"}))
        }
        Ok(review) => (StatusCode::OK, review),
        Err(problem) => (StatusCode::BAD_REQUEST, json!({"message": problem})),
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
