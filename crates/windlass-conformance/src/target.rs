//! What is tested: an address, how it is trusted, and what callers send along.

use std::fmt;
use std::net::SocketAddr;

use windlass_api::hooks::Settings;
use windlass_api::runtime::{self, CaBundle, ClientConfig, ExtensionConfig, ExtensionConfigSpec};
use windlass_hooks::tls::NothingToTrust;
use windlass_hooks::transport::IdentityError;

/// An extension to test.
#[derive(Clone, Debug)]
pub struct Target {
    /// Address as in `spec.clientConfig.url`. Its path is the base path that goes before every hook path.
    pub url: String,
    /// Certificates to trust, and no others. Empty: those of the operating system.
    pub ca_bundle: CaBundle,
    /// Name that the certificate must cover. `None`: the host of the URL. Set it to
    /// `<service>.<namespace>.svc` when the extension is reached through a port forward.
    pub server_name: Option<String>,
    /// Where to connect instead of resolving the host of the URL.
    pub address: Option<SocketAddr>,
    /// Client certificate, if the extension asks for one.
    pub client_identity: Option<ClientIdentity>,
    /// Settings to send with every hook call, as an ExtensionConfig or a ClusterClass would.
    pub settings: Settings,
}

impl Target {
    /// An extension at this address, trusted by the system's roots.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            ca_bundle: CaBundle::default(),
            server_name: None,
            address: None,
            client_identity: None,
            settings: Settings::new(),
        }
    }

    /// Trusts these PEM certificates, and no others.
    #[must_use]
    pub fn with_ca_bundle(mut self, pem: impl Into<Vec<u8>>) -> Self {
        self.ca_bundle = CaBundle::new(pem);
        self
    }

    /// The parts of the URL.
    pub(crate) fn place(&self) -> Result<Place, TargetError> {
        let client_config = ClientConfig { url: Some(self.url.clone()), ..ClientConfig::default() };
        let mut config =
            ExtensionConfig::new("target", ExtensionConfigSpec { client_config, ..Default::default() });
        config.fill_defaults();
        if let Some(violation) = runtime::validate(&config).into_iter().next() {
            return Err(TargetError::Url { url: self.url.clone(), problem: violation.problem.to_string() });
        }
        let rest = self.url.split_once("://").map_or("", |(_, rest)| rest);
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or(HTTPS_PORT)),
            _ => (authority, HTTPS_PORT),
        };
        Ok(Place {
            authority: authority.to_owned(),
            host: host.trim_start_matches('[').trim_end_matches(']').to_owned(),
            port,
            base_path: clean_path(path),
        })
    }
}

/// Port of an address that does not say which.
const HTTPS_PORT: u16 = 443;

/// A URL taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    /// Host and port as written, for the Host header.
    pub(crate) authority: String,
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Without a trailing slash; empty if there is none.
    pub(crate) base_path: String,
}

/// Joins as callers do: doubled slashes collapse, `.` and `..` are resolved, no trailing slash remains.
fn clean_path(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            name => segments.push(name),
        }
    }
    segments.iter().map(|segment| format!("/{segment}")).collect()
}

/// A client certificate with its key, both PEM.
#[derive(Clone)]
pub struct ClientIdentity {
    /// The certificate, followed by those of its issuers if there are any.
    pub certificate_pem: Vec<u8>,
    /// The private key.
    pub key_pem: Vec<u8>,
}

/// Prints nothing of the key.
impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientIdentity").finish_non_exhaustive()
    }
}

/// Why a test cannot even begin. Everything that is wrong with the extension itself is a finding instead.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Not an address of an extension.
    #[error("{url:?} is not the address of an extension: {problem}")]
    Url {
        /// The address.
        url: String,
        /// What is wrong with it.
        problem: String,
    },
    /// Neither a DNS name nor an IP address.
    #[error("{0:?} is not a server name")]
    ServerName(String),
    /// No certificate of the bundle can be used, or there is none and the operating system has no roots.
    #[error(transparent)]
    NothingToTrust(#[from] NothingToTrust),
    /// The client certificate or its key cannot be used.
    #[error(transparent)]
    ClientIdentity(#[from] IdentityError),
    /// TLS cannot be spoken at all.
    #[error("TLS: {0}")]
    Tls(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_taken_apart() {
        for (url, authority, host, port, base_path) in [
            ("https://h.example", "h.example", "h.example", 443, ""),
            ("https://h.example/", "h.example", "h.example", 443, ""),
            ("https://h.example:8443/base/", "h.example:8443", "h.example", 8443, "/base"),
            ("https://10.0.0.1:9443//a/./b/../c", "10.0.0.1:9443", "10.0.0.1", 9443, "/a/c"),
            ("https://[fd00::1]:9443/x", "[fd00::1]:9443", "fd00::1", 9443, "/x"),
            ("https://[::1]", "[::1]", "::1", 443, ""),
        ] {
            let expected = Place {
                authority: authority.to_owned(),
                host: host.to_owned(),
                port,
                base_path: base_path.to_owned(),
            };
            assert_eq!(Target::new(url).place().unwrap(), expected, "{url}");
        }
    }

    #[test]
    fn addresses_that_no_caller_accepts_are_refused_before_anything_is_sent() {
        for url in ["http://h", "h", "https://u@h", "https://h?x=y", "https://h#f"] {
            assert!(matches!(Target::new(url).place(), Err(TargetError::Url { .. })), "{url}");
        }
    }

    #[test]
    fn a_key_is_never_printed() {
        let identity = ClientIdentity { certificate_pem: b"cert".to_vec(), key_pem: b"secret".to_vec() };
        assert_eq!(format!("{identity:?}"), "ClientIdentity { .. }");
    }
}
