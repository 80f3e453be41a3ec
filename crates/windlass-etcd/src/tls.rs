//! TLS to a member: its authority is checked, its name is not.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_cert_signed_by_trust_anchor};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::ConnectionError;

/// The authority of an etcd, and a certificate of it to identify with. Cheap to clone.
#[derive(Clone)]
pub struct Credentials(Arc<ClientConfig>);

impl Credentials {
    /// Reads PEM: the certificates of the authority, our own, and our private key.
    ///
    /// # Errors
    ///
    /// If one of them cannot be used.
    pub fn from_pem(authority: &str, certificate: &str, key: &str) -> Result<Self, ConnectionError> {
        let unusable = |what: &str, why: &dyn fmt::Display| {
            ConnectionError::Certificates(format!("{what} cannot be used: {why}"))
        };
        let certificates = |pem: &str| -> Result<Vec<CertificateDer<'static>>, _> {
            CertificateDer::pem_slice_iter(pem.as_bytes()).collect()
        };
        let mut roots = RootCertStore::empty();
        for root in certificates(authority).map_err(|why| unusable("the authority", &why))? {
            roots.add(root).map_err(|why| unusable("the authority", &why))?;
        }
        let own = certificates(certificate).map_err(|why| unusable("the client certificate", &why))?;
        let key =
            PrivateKeyDer::from_pem_slice(key.as_bytes()).map_err(|why| unusable("the private key", &why))?;
        let verifier = AnyName::new(roots).map_err(|why| unusable("the authority", &why))?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|why| unusable("the cryptography of this process", &why))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(own, key);
        let mut config = config.map_err(|why| unusable("the client certificate", &why))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    pub(crate) async fn connect<S>(&self, stream: S, name: &str) -> Result<TlsStream<S>, ConnectionError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        // `etcd-<node>` may have more than the 63 characters that a label of a DNS name can have. etcd does not look at it.
        let name = ServerName::try_from(name.to_owned()).or_else(|_| ServerName::try_from("localhost"));
        let name = name.map_err(|why| ConnectionError::Tls(why.to_string()))?;
        let connected = TlsConnector::from(Arc::clone(&self.0)).connect(name, stream).await;
        connected.map_err(|why| ConnectionError::Tls(why.to_string()))
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// Takes every certificate of an authority, whatever name it is for. The authority of an etcd signs for nothing else.
#[derive(Debug)]
struct AnyName {
    roots: RootCertStore,
    signatures: Arc<WebPkiServerVerifier>,
}

impl AnyName {
    fn new(roots: RootCertStore) -> Result<Self, VerifierBuilderError> {
        let provider = Arc::new(ring::default_provider());
        let signatures = WebPkiServerVerifier::builder_with_provider(Arc::new(roots.clone()), provider);
        Ok(Self { roots, signatures: signatures.build()? })
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let algorithms = ring::default_provider().signature_verification_algorithms.all;
        let certificate = ParsedCertificate::try_from(end_entity)?;
        verify_server_cert_signed_by_trust_anchor(&certificate, &self.roots, intermediates, now, algorithms)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.signatures.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.signatures.supported_verify_schemes()
    }
}
