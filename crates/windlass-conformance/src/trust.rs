//! Which certificates are trusted, which one is presented, and what the server presented.

use std::sync::{Arc, Mutex};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};
use windlass_api::runtime::CaBundle;
use windlass_hooks::tls::{self, ServerVerifier, TlsProblem};
use windlass_hooks::transport;

use crate::target::{ClientIdentity, TargetError};

/// The configuration of TLS, once with and once without the client certificate.
#[derive(Debug)]
pub(crate) struct Trust {
    verifier: Arc<ServerVerifier>,
    with_identity: ClientConfig,
    anonymous: ClientConfig,
    pub(crate) has_identity: bool,
}

impl Trust {
    pub(crate) fn new(bundle: &CaBundle, identity: Option<&ClientIdentity>) -> Result<Self, TargetError> {
        let verifier = Arc::new(ServerVerifier::new(bundle)?);
        let config = |identity: Option<&transport::ClientIdentity>| {
            tls::client_config(verifier.clone(), identity)
                .map_err(|error| TargetError::Tls(error.to_string()))
        };
        let read = |identity: &ClientIdentity| {
            transport::ClientIdentity::from_pem(&identity.certificate_pem, &identity.key_pem)
        };
        let identity = identity.map(read).transpose()?;
        let (with_identity, anonymous) = (config(identity.as_ref())?, config(None)?);
        Ok(Self { with_identity, anonymous, has_identity: identity.is_some(), verifier })
    }

    pub(crate) fn client_config(&self, with_identity: bool) -> ClientConfig {
        if with_identity { self.with_identity.clone() } else { self.anonymous.clone() }
    }

    /// A configuration that notes what the server presents, also if it is refused.
    pub(crate) fn recording(&self) -> (ClientConfig, Arc<Recorder>) {
        let recorder = Arc::new(Recorder { verifier: self.verifier.clone(), seen: Mutex::new(None) });
        let mut config = self.with_identity.clone();
        config.dangerous().set_certificate_verifier(recorder.clone());
        (config, recorder)
    }
}

/// What the server presented, and what is wrong with it.
#[derive(Clone, Debug)]
pub(crate) struct Presented {
    pub(crate) leaf: CertificateDer<'static>,
    pub(crate) refused: Option<TlsProblem>,
}

/// Verifies as every caller does and notes the certificate and the verdict on the way.
#[derive(Debug)]
pub(crate) struct Recorder {
    verifier: Arc<ServerVerifier>,
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
                refused: verdict.as_ref().err().map(TlsProblem::from),
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
