//! The certificates in a caBundle: L12.

use std::time::SystemTime;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::CERTIFICATE_WARNING_DAYS;
use crate::certificate::Certificate;
use crate::check::{Finding, Rule};

/// What is wrong with the PEM of a bundle.
pub(super) fn check(subject: &str, pem: &[u8], now: SystemTime) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |rule, observed: String| found.push(Finding::new(rule, subject, observed));
    let certificates: Vec<Certificate> = CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .filter_map(|der| Certificate::parse(&der))
        .collect();
    if certificates.is_empty() {
        add(Rule::BundleWithoutCertificates, "no certificate can be read from the PEM".to_owned());
        return found;
    }
    for certificate in &certificates {
        let Certificate { subject: name, .. } = certificate;
        let days = certificate.days_left(now);
        if days < 0 {
            add(Rule::BundleExpired, format!("{name} expired {} days ago", -days));
        } else if days < CERTIFICATE_WARNING_DAYS {
            add(Rule::BundleExpiring, format!("{name} expires in {days} days"));
        }
        if !certificate.is_ca && !certificate.is_self_issued {
            add(Rule::BundleNotCa, format!("{name} is neither a CA nor self-signed"));
        }
    }
    let blocks = String::from_utf8_lossy(pem).matches("-----BEGIN ").count();
    if blocks != certificates.len() {
        let observed =
            format!("{blocks} PEM blocks, {} of them certificates that can be read", certificates.len());
        add(Rule::BundleNoise, observed);
    }
    found
}
