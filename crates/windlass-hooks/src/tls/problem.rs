//! What can be wrong between a client and a server in TLS.

use std::error::Error;
use std::io;

use rustls::{AlertDescription, CertificateError};

/// What can be wrong between us and a server.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TlsProblem {
    /// The certificate was issued by an authority that is not in the caBundle.
    #[error("its certificate is not signed by an authority of the caBundle")]
    UnknownIssuer,
    /// The certificate was for a time that is over.
    #[error("its certificate has expired")]
    Expired,
    /// The certificate is for a time that has not begun.
    #[error("its certificate is not valid yet")]
    NotYetValid,
    /// The certificate is for other hosts.
    #[error("its certificate is not for this host but for {}", names(.presented))]
    WrongName {
        /// The DNS names and IP addresses that it covers.
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
    if presented.is_empty() { "no names".to_owned() } else { presented.join(", ") }
}

/// A name as it stands in the certificate: the library says `DnsName("a.example")`.
fn plain(name: &str) -> &str {
    let quoted = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    quoted.trim_matches('"')
}

impl TlsProblem {
    /// Finds what went wrong in TLS behind errors of other layers, if anything did.
    pub fn find(error: &(dyn Error + 'static)) -> Option<Self> {
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
                Wrong::NotValidForNameContext { presented, .. } => Self::WrongName {
                    presented: presented.iter().map(|name| plain(name).to_owned()).collect(),
                },
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
    use rustls::pki_types::UnixTime;

    use super::*;

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

    #[test]
    fn the_names_of_a_certificate_are_shown_as_they_stand_in_it() {
        for (given, shown) in
            [("DnsName(\"a.example\")", "a.example"), ("IpAddress(127.0.0.1)", "127.0.0.1"), ("a", "a")]
        {
            assert_eq!(plain(given), shown);
        }
        let none = TlsProblem::WrongName { presented: vec![] };
        assert_eq!(none.to_string(), "its certificate is not for this host but for no names");
    }
}
