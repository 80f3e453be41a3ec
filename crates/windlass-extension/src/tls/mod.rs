//! What the server shows callers, and what it asks of them.

mod development;
mod live;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

pub use self::development::DevelopmentCertificate;
pub(crate) use self::live::LiveTls;

/// How often files are looked at, as in Cluster API's own server.
const DEFAULT_RELOAD_INTERVAL: Duration = Duration::from_secs(10);

/// Where the certificate, its key and the certificates of callers come from.
///
/// Files are read again while the server runs. A change is taken over for new connections as soon as
/// certificate and key fit together; until then, and for connections that exist, everything stays as it was.
#[derive(Clone, Debug)]
pub struct Tls {
    certificate: Pem,
    key: Pem,
    client_ca: Option<Pem>,
    development: Option<DevelopmentCertificate>,
    pub(crate) reload_interval: Duration,
}

/// PEM in a file or in memory.
#[derive(Clone)]
enum Pem {
    File(PathBuf),
    Memory(Vec<u8>),
}

impl Tls {
    /// Certificate chain and key in PEM files, as a mounted Secret has them.
    pub fn files(certificate: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Self {
        Self::new(Pem::File(certificate.into()), Pem::File(key.into()))
    }

    /// Certificate chain and key in memory.
    pub fn pem(certificate: impl Into<Vec<u8>>, key: impl Into<Vec<u8>>) -> Self {
        Self::new(Pem::Memory(certificate.into()), Pem::Memory(key.into()))
    }

    /// A generated certificate.
    pub fn development(certificate: DevelopmentCertificate) -> Self {
        let tls = Self::pem(certificate.certificate_pem(), certificate.key_pem());
        Self { development: Some(certificate), ..tls }
    }

    fn new(certificate: Pem, key: Pem) -> Self {
        Self {
            certificate,
            key,
            client_ca: None,
            development: None,
            reload_interval: DEFAULT_RELOAD_INTERVAL,
        }
    }

    /// Lets in only callers with a certificate of an authority in this PEM file.
    #[must_use]
    pub fn client_ca_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.client_ca = Some(Pem::File(path.into()));
        self
    }

    /// Lets in only callers with a certificate of an authority in this PEM.
    #[must_use]
    pub fn client_ca_pem(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.client_ca = Some(Pem::Memory(pem.into()));
        self
    }

    /// How often files are looked at.
    #[must_use]
    pub fn reload_every(mut self, interval: Duration) -> Self {
        self.reload_interval = interval;
        self
    }

    /// The generated certificate, if there is one.
    pub fn development_certificate(&self) -> Option<&DevelopmentCertificate> {
        self.development.as_ref()
    }

    fn has_files(&self) -> bool {
        [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .any(|pem| matches!(pem, Pem::File(_)))
    }

    fn read(&self) -> Result<Material, TlsError> {
        Ok(Material {
            certificate: self.certificate.read()?,
            key: self.key.read()?,
            client_ca: self.client_ca.as_ref().map(Pem::read).transpose()?,
        })
    }
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>, TlsError> {
        match self {
            Self::Memory(pem) => Ok(pem.clone()),
            Self::File(path) => {
                std::fs::read(path).map_err(|source| TlsError::Read { path: path.clone(), source })
            }
        }
    }
}

/// Keeps keys out of logs.
impl std::fmt::Debug for Pem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", Path::display(path)),
            Self::Memory(pem) => write!(f, "{} bytes in memory", pem.len()),
        }
    }
}

/// What was read. Compared with what was read before to find out whether anything changed, which works
/// however a file is replaced: rewritten, renamed over, or behind the symbolic links of a mounted Secret.
#[derive(PartialEq)]
struct Material {
    certificate: Vec<u8>,
    key: Vec<u8>,
    client_ca: Option<Vec<u8>>,
}

impl Material {
    fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let chain = certificates(&self.certificate).map_err(TlsError::Certificate)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate);
        }
        let key = PrivateKeyDer::from_pem_slice(&self.key).map_err(TlsError::Key)?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Config)?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(pem) => {
                let mut roots = RootCertStore::empty();
                for certificate in certificates(pem).map_err(TlsError::ClientCa)? {
                    roots.add(certificate).map_err(TlsError::Config)?;
                }
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                    .build()
                    .map_err(TlsError::ClientVerifier)?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        // Refuses a key that does not belong to the certificate.
        let mut config = builder.with_single_cert(chain, key).map_err(TlsError::Config)?;
        // Callers make one call after the other on a connection. HTTP/1.1 answers those with less work than HTTP/2,
        // whose frames and windows pay off only with many calls at once; a client that wants it can negotiate it.
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        Ok(config)
    }
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, rustls::pki_types::pem::Error> {
    CertificateDer::pem_slice_iter(pem).collect()
}

/// Why there is no TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A certificate for development cannot be kept.
    #[error("cannot write to {path}: {source}", path = path.display())]
    Write {
        /// The directory.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// There is no certificate where one should be.
    #[error("there is no certificate in the PEM")]
    NoCertificate,
    /// The certificate chain is not PEM.
    #[error("cannot read the certificate: {0}")]
    Certificate(#[source] rustls::pki_types::pem::Error),
    /// The key is not PEM, or there is none.
    #[error("cannot read the private key: {0}")]
    Key(#[source] rustls::pki_types::pem::Error),
    /// The authorities of callers are not PEM.
    #[error("cannot read the client CA: {0}")]
    ClientCa(#[source] rustls::pki_types::pem::Error),
    /// The authorities of callers cannot be used; for example, there are none.
    #[error("cannot use the client CA: {0}")]
    ClientVerifier(#[source] rustls::server::VerifierBuilderError),
    /// Certificate and key cannot be used; for example, they do not belong together.
    #[error("cannot use the certificate: {0}")]
    Config(#[source] rustls::Error),
    /// A certificate for development could not be generated.
    #[error("cannot generate a certificate: {0}")]
    Generate(#[source] Box<dyn std::error::Error + Send + Sync>),
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> DevelopmentCertificate {
        DevelopmentCertificate::generate(["localhost"]).unwrap()
    }

    #[test]
    fn unusable_material_is_refused_with_the_reason() {
        let (good, other) = (pair(), pair());
        let empty_ca = Tls::development(good.clone()).client_ca_pem("");
        for (tls, message) in [
            (Tls::files("/does/not/exist", "/neither"), "cannot read /does/not/exist: "),
            (Tls::pem("", good.key_pem()), "there is no certificate in the PEM"),
            (Tls::pem(good.certificate_pem(), ""), "cannot read the private key: "),
            (Tls::pem(good.certificate_pem(), other.key_pem()), "cannot use the certificate: "),
            (empty_ca, "cannot use the client CA: "),
        ] {
            let error = tls.read().and_then(|material| material.server_config()).unwrap_err().to_string();
            assert!(error.starts_with(message), "{error}");
        }
        assert!(Tls::development(good).read().unwrap().server_config().is_ok());
    }

    #[test]
    fn keys_stay_out_of_logs() {
        let printed = format!("{:?}", Tls::development(pair()));
        assert!(!printed.contains("PRIVATE KEY"), "{printed}");
    }
}
