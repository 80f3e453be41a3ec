//! Whom we trust: TLS settings from a caBundle, and what can be wrong with a server.

use std::error::Error;
use std::io;
use std::sync::{Arc, OnceLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, DigitallySignedStruct, OtherError, RootCertStore,
    SignatureScheme,
};
use windlass_api::runtime::CaBundle;

use super::identity::{ClientIdentity, provider};

/// TLS 1.2 and later, offering HTTP/2 before HTTP/1.1.
///
/// # Errors
///
/// When there is nothing to trust: a bundle without certificates, or no roots on the system.
pub(super) fn client_config(
    ca_bundle: &CaBundle,
    identity: Option<ClientIdentity>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(provider());
    let (roots, given) = if ca_bundle.is_empty() { (system_roots()?, vec![]) } else { parse(ca_bundle)? };
    let usual = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
        .build()
        .map_err(|error| error.to_string())?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(BundleVerifier { usual, given }));
    let mut config = match identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(Always(identity.key))),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

type Parsed = (Arc<RootCertStore>, Vec<CertificateDer<'static>>);

/// Takes what can be read and leaves the rest, as Go does: bundles are often concatenated by scripts.
fn parse(ca_bundle: &CaBundle) -> Result<Parsed, String> {
    let mut roots = RootCertStore::empty();
    let given: Vec<_> = CertificateDer::pem_slice_iter(ca_bundle.as_pem()).flatten().collect();
    let (usable, _) = roots.add_parsable_certificates(given.iter().cloned());
    if usable == 0 {
        return Err("caBundle has no usable certificate".to_owned());
    }
    Ok((Arc::new(roots), given))
}

/// Read once: it takes milliseconds, and a process that wants others is restarted.
fn system_roots() -> Result<Arc<RootCertStore>, String> {
    static ROOTS: OnceLock<Arc<RootCertStore>> = OnceLock::new();
    let roots = ROOTS.get_or_init(|| {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        Arc::new(roots)
    });
    if roots.is_empty() {
        return Err("caBundle is empty and the system has no root certificates".to_owned());
    }
    Ok(Arc::clone(roots))
}

/// Presents one certificate whatever the server's hints say. A server that does not like it says so, which
/// is a better error than none having been presented.
#[derive(Debug)]
struct Always(Arc<CertifiedKey>);

impl ResolvesClientCert for Always {
    fn resolve(&self, _hints: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// The usual verification, plus one thing that Go accepts and the usual one does not: a self-signed server
/// certificate that is marked as an authority and is itself in the bundle. `openssl req -x509` makes those,
/// so extensions that exist today have them.
#[derive(Debug)]
struct BundleVerifier {
    usual: Arc<WebPkiServerVerifier>,
    given: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for BundleVerifier {
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

/// What can be wrong between us and a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// The certificate comes from somebody who is not in the caBundle.
    #[error("its certificate is not signed by an authority of the caBundle")]
    UnknownIssuer,
    /// The certificate was for a time that is over.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate is for a time that has not begun.
    #[error("its certificate is not valid yet")]
    NotYetValid,
    /// The certificate is for somebody else.
    #[error("its certificate is not for this host but for {}", names(.presented))]
    WrongName {
        /// For whom it is.
        presented: Vec<String>,
    },
    /// Something else about the certificate.
    #[error("its certificate cannot be used: {0}")]
    Certificate(String),
    /// The server wants to know who we are.
    #[error("it demands a client certificate")]
    ClientCertificateRequired,
    /// The server refused us, for example our client certificate.
    #[error("it refused the connection: {0}")]
    Refused(String),
    /// Anything else.
    #[error("{0}")]
    Other(String),
}

fn names(presented: &[String]) -> String {
    if presented.is_empty() { "nobody".to_owned() } else { presented.join(", ") }
}

impl TlsProblem {
    /// Finds what went wrong in TLS behind errors of other layers, if anything did.
    pub(super) fn find(error: &(dyn Error + 'static)) -> Option<Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(tls) = error.downcast_ref::<rustls::Error>() {
                return Some(Self::from(tls));
            }
            // The source of an io::Error is the source of what it wraps; what it wraps is skipped.
            next = match error.downcast_ref::<io::Error>() {
                Some(io) => match Self::from_alert(io) {
                    Some(problem) => return Some(problem),
                    None => io.get_ref().map(|inner| inner as _),
                },
                None => error.source(),
            };
        }
        None
    }

    /// HTTP/2 keeps only the text of what broke a connection. A server that does not like our certificate
    /// says so after the handshake, so this is where it ends up.
    fn from_alert(error: &io::Error) -> Option<Self> {
        match error.to_string().strip_prefix("received fatal alert: ")? {
            "CertificateRequired" => Some(Self::ClientCertificateRequired),
            alert => Some(Self::Refused(alert.to_owned())),
        }
    }
}

impl From<&rustls::Error> for TlsProblem {
    /// The library's own texts contain the time of the check, so they do not go into conditions.
    fn from(error: &rustls::Error) -> Self {
        use CertificateError as Wrong;
        match error {
            rustls::Error::InvalidCertificate(wrong) => match wrong {
                Wrong::UnknownIssuer | Wrong::BadSignature => Self::UnknownIssuer,
                Wrong::Expired | Wrong::ExpiredContext { .. } => Self::Expired,
                Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => Self::NotYetValid,
                Wrong::NotValidForName => Self::WrongName { presented: Vec::new() },
                Wrong::NotValidForNameContext { presented, .. } => {
                    Self::WrongName { presented: presented.clone() }
                }
                other => Self::Certificate(other.to_string()),
            },
            rustls::Error::AlertReceived(AlertDescription::CertificateRequired) => {
                Self::ClientCertificateRequired
            }
            rustls::Error::AlertReceived(alert) => Self::Refused(format!("{alert:?}")),
            other => Self::Other(other.to_string()),
        }
    }
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
            let config = client_config(&CaBundle::new(bundle.as_str()), None);
            assert_eq!(config.is_ok(), usable, "{bundle}");
        }
    }

    #[test]
    fn problems_are_found_behind_other_errors_and_have_constant_texts() {
        let expired = CertificateError::ExpiredContext {
            time: UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_900_000_000)),
            not_after: UnixTime::since_unix_epoch(std::time::Duration::from_secs(1_800_000_000)),
        };
        let error = io::Error::other(io::Error::other(rustls::Error::InvalidCertificate(expired)));
        assert_eq!(TlsProblem::find(&error), Some(TlsProblem::Expired));
        assert_eq!(TlsProblem::Expired.to_string(), "its certificate has expired");
        assert_eq!(TlsProblem::find(&io::Error::other("something else")), None);
        let alert = rustls::Error::AlertReceived(AlertDescription::CertificateRequired);
        for error in [io::Error::other(alert.to_string()), io::Error::other(alert)] {
            assert_eq!(TlsProblem::find(&error), Some(TlsProblem::ClientCertificateRequired));
        }
    }
}
