//! TLS as callers of extensions speak it: whom they trust, how they identify themselves, and what can be wrong.
//!
//! `windlass extension test` uses the same, so that it and the controllers agree on which certificates are good.

mod problem;
mod verifier;

use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme};

use crate::transport::ClientIdentity;
pub use problem::TlsProblem;
pub use verifier::{NothingToTrust, ServerVerifier};

/// Settings of a client: TLS 1.2 and later, this verification of servers, and this certificate of its own.
///
/// # Errors
///
/// When the cryptography of the process cannot do what the versions of TLS need.
pub fn client_config(
    verifier: Arc<dyn ServerCertVerifier>,
    identity: Option<&ClientIdentity>,
) -> Result<ClientConfig, rustls::Error> {
    let builder = ClientConfig::builder_with_provider(Arc::new(provider()))
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    Ok(match identity {
        Some(identity) => builder.with_client_cert_resolver(Arc::new(Always(identity.key()))),
        None => builder.with_no_client_auth(),
    })
}

/// ring, named here rather than installed for the process: a library must not decide that for its user.
pub(crate) fn provider() -> CryptoProvider {
    ring::default_provider()
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
