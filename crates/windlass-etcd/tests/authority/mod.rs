//! An authority for the certificates of etcd's members and of their clients.

use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use windlass_etcd::Credentials;

/// An authority, and certificates of it.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    /// Its own certificate.
    pub(crate) pem: String,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, "etcd-ca");
        let key = KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Certificate and key.
    pub(crate) fn signed(&self, names: &[&str], usages: &[ExtendedKeyUsagePurpose]) -> (String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.extended_key_usages = usages.to_vec();
        let key = KeyPair::generate().unwrap();
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// What trusts this authority, and identifies by `of`.
    pub(crate) fn credentials(&self, of: &Self) -> Credentials {
        let (certificate, key) = of.signed(&[], &[ExtendedKeyUsagePurpose::ClientAuth]);
        Credentials::from_pem(&self.pem, &certificate, &key).unwrap()
    }
}
