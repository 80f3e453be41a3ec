//! The certificate authority of a server, and what it signs.

use std::time::Duration;

use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, Error, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: u64 = 24 * 3600;

/// How long a certificate of a server or a user is good, at most.
pub(super) const YEAR: Duration = Duration::from_secs(365 * DAY);

/// How long the authority is good.
pub(super) const CA_LIFETIME: Duration = Duration::from_secs(10 * 365 * DAY);

/// Certificates are good from before they were made, because clocks of other machines may be behind.
pub(super) const CLOCK_SKEW: Duration = Duration::from_secs(DAY);

/// How many groups a certificate can name.
pub(super) const MOST_GROUPS: usize = 2;

/// A certificate and its key, as PEM.
#[derive(Clone)]
pub(super) struct Pair {
    pub(super) certificate: String,
    pub(super) key: String,
}

/// From when and until when a certificate is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) from: Timestamp,
    pub(super) until: Timestamp,
}

impl Pair {
    pub(super) fn validity(&self) -> Result<Validity, &'static str> {
        let problem = "it is not a certificate in PEM";
        let der = CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(|_| problem)?;
        let (_, certificate) = X509Certificate::from_der(&der).map_err(|_| problem)?;
        let validity = certificate.validity();
        // Certificates can be good for longer than a timestamp can say.
        let at = |seconds: i64| Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
        Ok(Validity { from: at(validity.not_before.timestamp()), until: at(validity.not_after.timestamp()) })
    }

    pub(super) fn check_key(&self) -> Result<(), &'static str> {
        KeyPair::from_pem(&self.key).map(drop).map_err(|_| "it is not a private key in PEM")
    }
}

/// A new authority.
pub(super) fn new_ca(now: Timestamp) -> Result<Pair, Error> {
    signed_by_itself(&KeyPair::generate()?, now)
}

/// The same authority with another certificate: what it has signed is still good.
pub(super) fn renewed_ca(ca: &Pair, now: Timestamp) -> Result<Pair, Error> {
    signed_by_itself(&KeyPair::from_pem(&ca.key)?, now)
}

fn signed_by_itself(key: &KeyPair, now: Timestamp) -> Result<Pair, Error> {
    let mut params = ca_params()?;
    valid_for(&mut params, now, CA_LIFETIME);
    Ok(Pair { certificate: params.self_signed(key)?.pem(), key: key.serialize_pem() })
}

/// A certificate of a server that is known by these names and addresses.
pub(super) fn server(ca: &Pair, names: Vec<String>, now: Timestamp) -> Result<Pair, Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name.push(DnType::CommonName, "windlass");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    valid_for(&mut params, now, YEAR);
    sign(ca, params)
}

/// A certificate of a user.
pub(super) fn client(
    ca: &Pair,
    user: &str,
    groups: &[String],
    now: Timestamp,
    lifetime: Duration,
) -> Result<Pair, Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, user);
    // A name of rcgen has each attribute once, so the second organisation has to be given by its number.
    let attributes = [DnType::OrganizationName, DnType::CustomDnType(vec![2, 5, 4, 10])];
    for (attribute, group) in attributes.into_iter().zip(groups) {
        params.distinguished_name.push(attribute, group.as_str());
    }
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    valid_for(&mut params, now, lifetime);
    sign(ca, params)
}

fn sign(ca: &Pair, mut params: CertificateParams) -> Result<Pair, Error> {
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let (issuer, ca_key) = (ca_params()?, KeyPair::from_pem(&ca.key)?);
    let key = KeyPair::generate()?;
    let certificate = params.signed_by(&key, &Issuer::from_params(&issuer, &ca_key))?;
    Ok(Pair { certificate: certificate.pem(), key: key.serialize_pem() })
}

fn ca_params() -> Result<CertificateParams, Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "windlass-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn valid_for(params: &mut CertificateParams, now: Timestamp, lifetime: Duration) {
    let epoch = rcgen::date_time_ymd(1970, 1, 1);
    let now = Duration::from_secs(u64::try_from(now.as_second()).unwrap_or(0));
    params.not_before = epoch + now.saturating_sub(CLOCK_SKEW);
    params.not_after = epoch + now.saturating_add(lifetime);
}
