//! The certificate that the server shows, replaced while it runs.

use std::net::IpAddr;
use std::sync::Arc;

use arc_swap::ArcSwap;
use tokio_rustls::rustls::crypto::CryptoProvider;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::{ClientHello, ResolvesServerCert};
use tokio_rustls::rustls::sign::CertifiedKey;

use super::authority::Pair;
use super::{Credentials, ServeError};

/// What is shown to clients that connect now.
pub(super) struct ServerCertificate {
    credentials: Arc<Credentials>,
    host: IpAddr,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<(Pair, Arc<CertifiedKey>)>,
}

impl ServerCertificate {
    pub(super) fn new(
        credentials: &Arc<Credentials>,
        host: IpAddr,
        provider: &Arc<CryptoProvider>,
    ) -> Result<Arc<Self>, ServeError> {
        Ok(Arc::new(Self {
            current: ArcSwap::from_pointee(made(credentials, host, provider)?),
            credentials: Arc::clone(credentials),
            host,
            provider: Arc::clone(provider),
        }))
    }

    /// Replaces certificates that end soon: this one, and that of the administrator.
    pub(super) fn renew(&self) -> Result<bool, ServeError> {
        let renewed = self.credentials.renew()?;
        if !self.credentials.is_due(&self.current.load().0) {
            return Ok(renewed);
        }
        self.current.store(Arc::new(made(&self.credentials, self.host, &self.provider)?));
        Ok(true)
    }
}

fn made(
    credentials: &Credentials,
    host: IpAddr,
    provider: &CryptoProvider,
) -> Result<(Pair, Arc<CertifiedKey>), ServeError> {
    let tls = |error: &dyn std::fmt::Display| ServeError::Tls(error.to_string());
    let pair = credentials.server(&[host])?;
    let chain = CertificateDer::from_pem_slice(pair.certificate.as_bytes()).map_err(|error| tls(&error))?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).map_err(|error| tls(&error))?;
    let certified = CertifiedKey::from_der(vec![chain], key, provider).map_err(|error| tls(&error))?;
    Ok((pair, Arc::new(certified)))
}

impl ResolvesServerCert for ServerCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.load().1))
    }
}

impl std::fmt::Debug for ServerCertificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the certificate of the server")
    }
}
