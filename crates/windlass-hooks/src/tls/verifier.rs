//! Which server certificates are trusted.

use std::sync::{Arc, OnceLock};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, OtherError, RootCertStore, SignatureScheme};
use windlass_api::runtime::CaBundle;

use super::provider;

/// Why no server can be trusted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NothingToTrust {
    /// No certificate of the caBundle can be used.
    #[error("caBundle has no usable certificate")]
    Bundle,
    /// There is no caBundle, and the operating system has no roots.
    #[error("caBundle is empty and the system has no root certificates")]
    System,
    /// The roots cannot be used.
    #[error("{0}")]
    Roots(String),
}

/// Verifies server certificates as callers of extensions do: by a caBundle, or by the roots of the operating system where
/// that is empty.
///
/// Accepts one thing that Go accepts and the usual verification does not: a self-signed server certificate that is marked
/// as an authority and is itself in the bundle. `openssl req -x509` makes those, so extensions that exist today have them.
#[derive(Debug)]
pub struct ServerVerifier {
    usual: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl ServerVerifier {
    /// Trusts the certificates of a bundle. What cannot be read in it is left out, as Go does: bundles are often
    /// concatenated by scripts.
    ///
    /// # Errors
    ///
    /// When there is nothing to trust: a bundle without certificates, or no roots on the system.
    pub fn new(ca_bundle: &CaBundle) -> Result<Self, NothingToTrust> {
        let given: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle.as_pem()).flatten().collect();
        let roots = if ca_bundle.is_empty() { system_roots()? } else { bundle_roots(&given)? };
        let usual = WebPkiServerVerifier::builder_with_provider(roots, Arc::new(provider()))
            .build()
            .map_err(|error| NothingToTrust::Roots(error.to_string()))?;
        Ok(Self { usual, given })
    }
}

fn bundle_roots(given: &[CertificateDer<'static>]) -> Result<Arc<RootCertStore>, NothingToTrust> {
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(given.iter().cloned());
    if usable == 0 { Err(NothingToTrust::Bundle) } else { Ok(Arc::new(roots)) }
}

/// Read once: it takes milliseconds, and a process that wants others is restarted.
fn system_roots() -> Result<Arc<RootCertStore>, NothingToTrust> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() { Err(NothingToTrust::System) } else { Ok(Arc::clone(roots)) }
}

impl ServerCertVerifier for ServerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        match self.usual.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // Times are checked before this is found out, the name is not.
            Err(error) if is_authority_as_server(&error) && self.given.contains(end_entity) => {
                rustls::client::verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            result => result,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.usual.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.usual.supported_verify_schemes()
    }
}

fn is_authority_as_server(error: &rustls::Error) -> bool {
    let rustls::Error::InvalidCertificate(CertificateError::Other(OtherError(inner))) = error else {
        return false;
    };
    matches!(inner.downcast_ref(), Some(webpki::Error::CaUsedAsEndEntity))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bundle_must_have_a_usable_certificate() {
        let authority = rcgen::generate_simple_self_signed(["ca".to_owned()]).unwrap().cert.pem();
        let key = rcgen::KeyPair::generate().unwrap().serialize_pem();
        let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        for (bundle, usable) in [
            (authority.clone(), true),
            (format!("# a comment\n{key}{garbage}{authority}"), true),
            (key, false),
            (garbage.to_owned(), false),
            ("not PEM".to_owned(), false),
        ] {
            let verifier = ServerVerifier::new(&CaBundle::new(bundle.as_str()));
            let expected = if usable { None } else { Some(NothingToTrust::Bundle) };
            assert_eq!(verifier.err(), expected, "{bundle}");
        }
    }
}
