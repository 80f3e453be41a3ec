//! Certificates for development: no cert-manager, no openssl, one line.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, SystemTime};
use std::{fmt, fs, io};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

use super::TlsError;

/// Long enough for a development environment, short enough not to end up in production.
const VALID_FOR: Duration = Duration::from_secs(90 * 24 * 60 * 60);
/// Clocks of laptops and virtual machines differ.
const VALID_SINCE: Duration = Duration::from_secs(60 * 60);

const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const CA: &str = "ca.crt";
/// Written last, so a pair without it is not complete.
const HOSTS: &str = "hosts";

/// A certificate for a server, and the certificate of the authority that signed it.
///
/// The authority is made for this one certificate and its key is forgotten: some callers do not trust a
/// server certificate that is its own authority.
#[derive(Clone)]
pub struct DevelopmentCertificate {
    hosts: Vec<String>,
    certificate_pem: String,
    key_pem: String,
    ca_pem: String,
}

impl DevelopmentCertificate {
    /// A new pair for these host names and addresses. Callers must use one of them.
    ///
    /// # Errors
    ///
    /// When one of them is neither a host name nor an address.
    pub fn generate<T: Into<String>>(hosts: impl IntoIterator<Item = T>) -> Result<Self, TlsError> {
        let hosts: Vec<String> = hosts.into_iter().map(Into::into).collect();
        Self::sign(hosts).map_err(|error| TlsError::Generate(Box::new(error)))
    }

    /// The pair in a directory, or a new one that is kept there: callers that were told to trust it still do
    /// after a restart. Made anew when the hosts are others or a third of its time is left.
    ///
    /// # Errors
    ///
    /// When the directory cannot be used, or one of the hosts is neither a host name nor an address.
    pub fn kept_in<T: Into<String>>(
        directory: impl AsRef<Path>,
        hosts: impl IntoIterator<Item = T>,
    ) -> Result<Self, TlsError> {
        let directory = directory.as_ref();
        let hosts: Vec<String> = hosts.into_iter().map(Into::into).collect();
        if let Some(kept) = Self::read(directory, &hosts) {
            return Ok(kept);
        }
        let new = Self::generate(hosts)?;
        new.write(directory).map_err(|source| TlsError::Write { path: directory.to_owned(), source })?;
        Ok(new)
    }

    /// What does not look right is made anew; this is for development.
    fn read(directory: &Path, hosts: &[String]) -> Option<Self> {
        let certificate = directory.join(CERTIFICATE);
        let age = fs::metadata(&certificate).ok()?.modified().ok()?.elapsed().ok()?;
        let listed = fs::read_to_string(directory.join(HOSTS)).ok()?;
        let kept = Self {
            hosts: hosts.to_vec(),
            certificate_pem: fs::read_to_string(certificate).ok()?,
            key_pem: fs::read_to_string(directory.join(KEY)).ok()?,
            ca_pem: fs::read_to_string(directory.join(CA)).ok()?,
        };
        (age < VALID_FOR * 2 / 3 && listed.lines().eq(hosts)).then_some(kept)
    }

    fn write(&self, directory: &Path) -> io::Result<()> {
        fs::create_dir_all(directory)?;
        let mut key = fs::OpenOptions::new();
        key.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut key, 0o600);
        key.open(directory.join(KEY))?.write_all(self.key_pem.as_bytes())?;
        fs::write(directory.join(CA), &self.ca_pem)?;
        fs::write(directory.join(CERTIFICATE), &self.certificate_pem)?;
        fs::write(directory.join(HOSTS), self.hosts.join("\n"))
    }

    fn sign(hosts: Vec<String>) -> Result<Self, rcgen::Error> {
        let now = SystemTime::now();
        let params = |hosts: Vec<String>, name: &str| {
            let mut params = CertificateParams::new(hosts)?;
            params.distinguished_name.push(DnType::CommonName, name);
            params.not_before = (now - VALID_SINCE).into();
            params.not_after = (now + VALID_FOR).into();
            Ok::<_, rcgen::Error>(params)
        };

        let mut authority = params(Vec::new(), "windlass development CA")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;

        let key = KeyPair::generate()?;
        let mut server = params(hosts.clone(), "windlass development extension")?;
        server.use_authority_key_identifier_extension = true;
        server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = server.signed_by(&key, &authority)?;
        Ok(Self {
            hosts,
            certificate_pem: certificate.pem(),
            key_pem: key.serialize_pem(),
            ca_pem: authority.pem(),
        })
    }

    /// The host names and addresses that the certificate is for.
    pub fn hosts(&self) -> &[String] {
        &self.hosts
    }

    /// The certificate of the server.
    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The key of the server. Secret.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    /// The certificate that callers must trust.
    pub fn ca_pem(&self) -> &str {
        &self.ca_pem
    }

    /// The same as it goes into `caBundle` of an ExtensionConfig: base64 of the PEM.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.ca_pem)
    }
}

/// Keeps the key out of logs.
impl fmt::Debug for DevelopmentCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DevelopmentCertificate").field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kept_pair_is_used_until_the_hosts_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("certificates");
        let first = DevelopmentCertificate::kept_in(&path, ["localhost"]).unwrap();
        let again = DevelopmentCertificate::kept_in(&path, ["localhost"]).unwrap();
        assert_eq!((first.key_pem(), first.ca_bundle()), (again.key_pem(), again.ca_bundle()));
        let other = DevelopmentCertificate::kept_in(&path, ["localhost", "127.0.0.1"]).unwrap();
        assert_ne!(other.ca_bundle(), first.ca_bundle());
        assert_eq!(other.hosts(), ["localhost", "127.0.0.1"]);

        fs::remove_file(path.join(CA)).unwrap();
        let repaired = DevelopmentCertificate::kept_in(&path, ["localhost", "127.0.0.1"]).unwrap();
        assert_ne!(repaired.ca_bundle(), other.ca_bundle());
    }

    #[cfg(unix)]
    #[test]
    fn nobody_else_reads_a_kept_key() {
        let directory = tempfile::tempdir().unwrap();
        DevelopmentCertificate::kept_in(directory.path(), ["localhost"]).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(
            &fs::metadata(directory.path().join(KEY)).unwrap().permissions(),
        );
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn what_is_no_host_gets_no_certificate() {
        assert!(DevelopmentCertificate::generate(["h\u{f6}st"]).is_err());
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = DevelopmentCertificate::kept_in(file.path(), ["localhost"]).unwrap_err().to_string();
        assert!(error.starts_with("cannot write to "), "{error}");
    }
}
