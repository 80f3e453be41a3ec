//! Certificates made for one test.

use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use rustls::server::WebPkiClientVerifier;
use rustls::sign::CertifiedKey;
use windlass_api::runtime::CaBundle;
use windlass_hooks::transport::ClientIdentity;

/// Signs certificates.
pub(crate) struct Authority {
    pem: String,
    der: rustls::pki_types::CertificateDer<'static>,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
pub(crate) struct Leaf {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    pub(crate) certified: Arc<CertifiedKey>,
}

impl Authority {
    pub(crate) fn new(name: &str) -> Self {
        let mut params = CertificateParams::new([]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (pem, der) = (certificate.pem(), certificate.der().clone());
        Self { pem, der, issuer: Issuer::new(params, key) }
    }

    pub(crate) fn bundle(&self) -> CaBundle {
        CaBundle::new(self.pem.as_str())
    }

    /// A certificate for hosts, which are names or addresses.
    pub(crate) fn issue(&self, hosts: &[&str]) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let certificate = params(hosts).signed_by(&key, &self.issuer).unwrap();
        Leaf::new(&certificate, &key)
    }

    /// A certificate that was good until a few years ago.
    pub(crate) fn issue_expired(&self, hosts: &[&str]) -> Leaf {
        let key = KeyPair::generate().unwrap();
        let mut params = params(hosts);
        expire(&mut params);
        Leaf::new(&params.signed_by(&key, &self.issuer).unwrap(), &key)
    }

    /// Accepts only clients with a certificate of this authority.
    pub(crate) fn client_verifier(&self) -> Arc<dyn rustls::server::danger::ClientCertVerifier> {
        let mut roots = RootCertStore::empty();
        roots.add(self.der.clone()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap()
    }
}

impl Leaf {
    /// What `openssl req -x509` makes: signed by itself and marked as an authority.
    pub(crate) fn self_signed(hosts: &[&str], expired: bool) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = params(hosts);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        if expired {
            expire(&mut params);
        }
        Self::new(&params.self_signed(&key).unwrap(), &key)
    }

    pub(crate) fn identity(&self) -> ClientIdentity {
        ClientIdentity::from_pem(self.certificate_pem.as_bytes(), self.key_pem.as_bytes()).unwrap()
    }

    fn new(certificate: &rcgen::Certificate, key: &KeyPair) -> Self {
        let der = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let provider = rustls::crypto::ring::default_provider();
        let certified = CertifiedKey::from_der(vec![certificate.der().clone()], der, &provider).unwrap();
        Self {
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            certified: Arc::new(certified),
        }
    }
}

fn params(hosts: &[&str]) -> CertificateParams {
    CertificateParams::new(hosts.iter().map(|&host| host.to_owned()).collect::<Vec<_>>()).unwrap()
}

fn expire(params: &mut CertificateParams) {
    params.not_before = date_time_ymd(2020, 1, 1);
    params.not_after = date_time_ymd(2021, 1, 1);
}
