//! Certificates for one test: a CA, a server and a client.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::crypto::ring;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use windlass_conformance::ClientIdentity;

const DAY: u64 = 24 * 60 * 60;

pub(crate) struct Pki {
    pub(crate) ca_pem: Vec<u8>,
    ca_der: CertificateDer<'static>,
    server: (CertificateDer<'static>, Vec<u8>),
    client: (String, String),
}

impl Pki {
    pub(crate) fn new(names: &[&str], expires_in_days: i64) -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut ca = CertificateParams::new(Vec::new()).unwrap();
        ca.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        ca.distinguished_name.push(DnType::CommonName, "windlass conformance tests");
        let ca_certificate = ca.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(ca, ca_key);

        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut server = CertificateParams::new(names).unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
        // An hour more, so that whole days are left while the test runs.
        let expiry = now.checked_add_signed(expires_in_days * DAY.cast_signed()).unwrap() + 3600;
        let start = rcgen::date_time_ymd(1970, 1, 1);
        server.not_before = start + Duration::from_secs(now - 400 * DAY);
        server.not_after = start + Duration::from_secs(expiry);
        let server_key = KeyPair::generate().unwrap();
        let server_certificate = server.signed_by(&server_key, &issuer).unwrap();

        let client_key = KeyPair::generate().unwrap();
        let client = CertificateParams::new(["manager".to_owned()]).unwrap();
        let client_certificate = client.signed_by(&client_key, &issuer).unwrap();
        Self {
            ca_pem: ca_certificate.pem().into_bytes(),
            ca_der: ca_certificate.der().clone(),
            server: (server_certificate.der().clone(), server_key.serialize_der()),
            client: (client_certificate.pem(), client_key.serialize_pem()),
        }
    }

    /// A server certificate that is self-signed and its own bundle.
    pub(crate) fn self_signed(names: &[&str], is_ca: IsCa) -> Self {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.is_ca = is_ca;
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Self {
            ca_pem: certificate.pem().into_bytes(),
            ca_der: certificate.der().clone(),
            server: (certificate.der().clone(), key.serialize_der()),
            client: (certificate.pem(), key.serialize_pem()),
        }
    }

    pub(crate) fn client_identity(&self) -> ClientIdentity {
        let (certificate, key) = self.client.clone();
        ClientIdentity { certificate_pem: certificate.into_bytes(), key_pem: key.into_bytes() }
    }

    pub(crate) fn server_config(&self, alpn: &[&str], require_client_certificate: bool) -> ServerConfig {
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(provider.clone())
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = if require_client_certificate {
            let mut roots = RootCertStore::empty();
            roots.add(self.ca_der.clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        } else {
            builder.with_no_client_auth()
        };
        let (certificate, key) = &self.server;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.clone()));
        let mut config = builder.with_single_cert(vec![certificate.clone()], key).unwrap();
        config.alpn_protocols = alpn.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        config
    }
}
