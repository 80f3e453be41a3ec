//! Which certificates are trusted, which one is presented, and what the server presented.

use std::sync::{Arc, Mutex};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use windlass_api::runtime::CaBundle;

use crate::target::{ClientIdentity, TargetError};

/// The configuration of TLS, once with and once without the client certificate.
#[derive(Debug)]
pub(crate) struct Trust {
    roots: Arc<RootCertStore>,
    with_identity: ClientConfig,
    anonymous: ClientConfig,
    pub(crate) has_identity: bool,
}

impl Trust {
    pub(crate) fn new(bundle: &CaBundle, identity: Option<&ClientIdentity>) -> Result<Self, TargetError> {
        let roots = Arc::new(if bundle.is_empty() { system_roots()? } else { bundle_roots(bundle)? });
        let builder = || {
            ClientConfig::builder_with_provider(provider())
                .with_safe_default_protocol_versions()
                .map(|builder| builder.with_root_certificates(roots.clone()))
                .map_err(|error| TargetError::ClientIdentity(error.to_string()))
        };
        let anonymous = builder()?.with_no_client_auth();
        let with_identity = match identity {
            None => anonymous.clone(),
            Some(identity) => {
                let unusable = |error: &dyn std::fmt::Display| TargetError::ClientIdentity(error.to_string());
                let chain = CertificateDer::pem_slice_iter(&identity.certificate_pem)
                    .collect::<Result<Vec<_>, _>>()
                    .map_err(|error| unusable(&error))?;
                let key =
                    PrivateKeyDer::from_pem_slice(&identity.key_pem).map_err(|error| unusable(&error))?;
                builder()?.with_client_auth_cert(chain, key).map_err(|error| unusable(&error))?
            }
        };
        Ok(Self { roots, with_identity, anonymous, has_identity: identity.is_some() })
    }

    pub(crate) fn client_config(&self, with_identity: bool) -> ClientConfig {
        if with_identity { self.with_identity.clone() } else { self.anonymous.clone() }
    }

    /// A configuration that notes what the server presents, also if it is refused.
    pub(crate) fn recording(&self) -> Result<(ClientConfig, Arc<Recorder>), Error> {
        let verifier = WebPkiServerVerifier::builder_with_provider(self.roots.clone(), provider())
            .build()
            .map_err(|error| Error::General(error.to_string()))?;
        let recorder = Arc::new(Recorder { verifier, seen: Mutex::new(None) });
        let mut config = self.with_identity.clone();
        config.dangerous().set_certificate_verifier(recorder.clone());
        Ok((config, recorder))
    }
}

/// What the server presented, and what is wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Presented {
    pub(crate) leaf: CertificateDer<'static>,
    pub(crate) refused: Option<Error>,
}

/// Verifies as every caller does and notes the certificate and the verdict on the way.
#[derive(Debug)]
pub(crate) struct Recorder {
    verifier: Arc<WebPkiServerVerifier>,
    seen: Mutex<Option<Presented>>,
}

impl Recorder {
    pub(crate) fn presented(&self) -> Option<Presented> {
        self.seen.lock().ok()?.clone()
    }
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verdict =
            self.verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        if let Ok(mut seen) = self.seen.lock() {
            *seen = Some(Presented {
                leaf: end_entity.clone().into_owned(),
                refused: verdict.as_ref().err().cloned(),
            });
        }
        verdict
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}

/// Given explicitly everywhere: which provider a process has installed is not this library's business.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

/// Blocks that are no certificates are skipped, as Go does.
fn bundle_roots(bundle: &CaBundle) -> Result<RootCertStore, TargetError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(bundle.as_pem()).filter_map(Result::ok));
    if roots.is_empty() { Err(TargetError::CaBundle) } else { Ok(roots) }
}

fn system_roots() -> Result<RootCertStore, TargetError> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    if roots.is_empty() { Err(TargetError::NoSystemRoots) } else { Ok(roots) }
}
