//! What is written in a certificate.

use std::net::IpAddr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// What checks need to know of a certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Certificate {
    pub(crate) subject: String,
    /// Seconds since 1970.
    pub(crate) not_before: i64,
    /// Seconds since 1970.
    pub(crate) not_after: i64,
    /// DNS names and IP addresses that it covers.
    pub(crate) names: Vec<String>,
    pub(crate) is_ca: bool,
    pub(crate) is_self_issued: bool,
}

impl Certificate {
    pub(crate) fn parse(der: &[u8]) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let names = certificate
            .subject_alternative_name()
            .ok()
            .flatten()
            .map(|extension| extension.value.general_names.iter().filter_map(name).collect())
            .unwrap_or_default();
        Some(Self {
            subject: certificate.subject().to_string(),
            not_before: certificate.validity().not_before.timestamp(),
            not_after: certificate.validity().not_after.timestamp(),
            names,
            is_ca: certificate.is_ca(),
            is_self_issued: certificate.subject() == certificate.issuer(),
        })
    }

    /// Whole days until it expires; negative if it has.
    pub(crate) fn days_left(&self, now: SystemTime) -> i64 {
        const DAY: i64 = 24 * 60 * 60;
        let now = now.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
        (self.not_after - i64::try_from(now).unwrap_or(i64::MAX)).div_euclid(DAY)
    }

    /// The names for a report.
    pub(crate) fn names_text(&self) -> String {
        if self.names.is_empty() { "no names".to_owned() } else { self.names.join(", ") }
    }
}

fn name(general: &GeneralName<'_>) -> Option<String> {
    match general {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => {
            let address = match bytes.len() {
                4 => IpAddr::from(<[u8; 4]>::try_from(*bytes).ok()?),
                _ => IpAddr::from(<[u8; 16]>::try_from(*bytes).ok()?),
            };
            Some(address.to_string())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair};

    use super::*;

    #[test]
    fn names_and_expiry_are_read() {
        let mut params = CertificateParams::new(["ext.ns.svc".to_owned(), "127.0.0.1".to_owned()]).unwrap();
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 31);
        let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
        let certificate = Certificate::parse(&der).unwrap();
        assert_eq!(certificate.names_text(), "ext.ns.svc, 127.0.0.1");
        assert!(certificate.is_self_issued && !certificate.is_ca);
        let start = UNIX_EPOCH + Duration::from_secs(1_577_836_800);
        assert_eq!(certificate.days_left(start), 30);
        assert_eq!(certificate.days_left(start + Duration::from_secs(30 * 86_400 + 1)), -1);
        assert_eq!(Certificate::parse(b"nonsense"), None);
    }
}
