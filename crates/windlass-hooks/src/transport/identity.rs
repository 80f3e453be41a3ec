//! Client certificates: who we are.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

use crate::tls::provider;

/// A client certificate with its key, checked to belong together.
#[derive(Clone)]
pub struct ClientIdentity {
    key: Arc<CertifiedKey>,
    fingerprint: [u8; 32],
}

impl ClientIdentity {
    /// Takes a certificate, those of its issuers after it, and its key. Other blocks are ignored.
    ///
    /// # Errors
    ///
    /// When one of them is missing or unusable, or they do not belong together.
    pub fn from_pem(certificates: &[u8], key: &[u8]) -> Result<Self, IdentityError> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificates)
            .collect::<Result<_, _>>()
            .map_err(|error| IdentityError::Certificate(error.to_string()))?;
        if chain.is_empty() {
            return Err(IdentityError::Certificate("no certificate found".to_owned()));
        }
        let key =
            PrivateKeyDer::from_pem_slice(key).map_err(|error| IdentityError::Key(error.to_string()))?;
        let mut digest = Sha256::new();
        for certificate in &chain {
            digest.update(certificate.len().to_be_bytes());
            digest.update(certificate);
        }
        digest.update(key.secret_der());
        let certified = CertifiedKey::from_der(chain, key, &provider())
            .map_err(|error| IdentityError::Mismatch(error.to_string()))?;
        Ok(Self { key: Arc::new(certified), fingerprint: digest.finalize().into() })
    }

    pub(crate) fn key(&self) -> Arc<CertifiedKey> {
        Arc::clone(&self.key)
    }

    /// Tells identities apart without showing them.
    pub(super) fn fingerprint(&self) -> [u8; 32] {
        self.fingerprint
    }
}

impl PartialEq for ClientIdentity {
    fn eq(&self, other: &Self) -> bool {
        self.fingerprint == other.fingerprint
    }
}

impl Eq for ClientIdentity {}

/// Never prints the key.
impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientIdentity({} certificates)", self.key.cert.len())
    }
}

/// Why a client certificate cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IdentityError {
    /// The certificate.
    #[error("client certificate: {0}")]
    Certificate(String),
    /// The key.
    #[error("key of the client certificate: {0}")]
    Key(String),
    /// Both are fine, but not together.
    #[error("client certificate and key: {0}")]
    Mismatch(String),
    /// A file could not be read.
    #[error("cannot read {path}: {reason}")]
    Read {
        /// Which file.
        path: String,
        /// What the operating system said.
        reason: io::ErrorKind,
    },
}

/// The client certificate of the process, in two files that another process rotates.
#[derive(Clone)]
pub struct ClientIdentityFiles(Arc<Files>);

struct Files {
    certificates: PathBuf,
    key: PathBuf,
    current: Mutex<Loaded>,
}

struct Loaded {
    identity: ClientIdentity,
    stamp: Option<[Stamp; 2]>,
}

/// What changes when a file is replaced. Secrets mounted by a kubelet are swapped by symbolic link, so the
/// target's times change even when its length does not.
type Stamp = (u64, SystemTime);

impl ClientIdentityFiles {
    /// Reads both files.
    ///
    /// # Errors
    ///
    /// When they cannot be read or used. Later changes that cannot be used are logged and not taken.
    pub fn load(certificates: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Result<Self, IdentityError> {
        let (certificates, key) = (certificates.into(), key.into());
        let stamp = stamps(&certificates, &key);
        let identity = read(&certificates, &key)?;
        let current = Mutex::new(Loaded { identity, stamp });
        Ok(Self(Arc::new(Files { certificates, key, current })))
    }

    /// The identity in the files now; the last good one while they are being replaced. Looks at the files'
    /// times at every call, which costs two system calls, and reads them only when those have changed.
    pub fn current(&self) -> ClientIdentity {
        let Files { certificates, key, current } = &*self.0;
        let mut loaded = current.lock().unwrap_or_else(PoisonError::into_inner);
        let stamp = stamps(certificates, key);
        if stamp != loaded.stamp {
            match read(certificates, key) {
                Ok(identity) => *loaded = Loaded { identity, stamp },
                // The stamp stays old, so the next call tries again.
                Err(error) => tracing::warn!(%error, "kept the previous client certificate"),
            }
        }
        loaded.identity.clone()
    }
}

impl fmt::Debug for ClientIdentityFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientIdentityFiles({})", self.0.certificates.display())
    }
}

fn stamps(certificates: &Path, key: &Path) -> Option<[Stamp; 2]> {
    let stamp = |path: &Path| {
        let metadata = fs::metadata(path).ok()?;
        Some((metadata.len(), metadata.modified().ok()?))
    };
    Some([stamp(certificates)?, stamp(key)?])
}

fn read(certificates: &Path, key: &Path) -> Result<ClientIdentity, IdentityError> {
    let read = |path: &Path| {
        fs::read(path)
            .map_err(|error| IdentityError::Read { path: path.display().to_string(), reason: error.kind() })
    };
    ClientIdentity::from_pem(&read(certificates)?, &read(key)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (String, String) {
        let generated = rcgen::generate_simple_self_signed(["client".to_owned()]).unwrap();
        (generated.cert.pem(), generated.signing_key.serialize_pem())
    }

    #[test]
    fn an_identity_needs_a_certificate_and_the_key_that_belongs_to_it() {
        let ((certificate, key), (_, other_key)) = (pair(), pair());
        let both = format!("{key}{certificate}");
        let identity = ClientIdentity::from_pem(both.as_bytes(), both.as_bytes()).unwrap();
        assert_eq!(format!("{identity:?}"), "ClientIdentity(1 certificates)");
        for (certificate, key, expected) in [
            ("", key.as_str(), "client certificate: no certificate found"),
            (certificate.as_str(), "", "key of the client certificate: no items found"),
            (
                certificate.as_str(),
                other_key.as_str(),
                "client certificate and key: keys may not be consistent",
            ),
        ] {
            let error = ClientIdentity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{error}");
        }
    }

    #[test]
    fn replaced_files_are_taken_once_they_are_complete() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate_file, key_file) =
            (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let write = |certificate: &str, key: &str| {
            fs::write(&certificate_file, certificate).unwrap();
            fs::write(&key_file, key).unwrap();
        };
        let missing = ClientIdentityFiles::load(&certificate_file, &key_file).unwrap_err();
        assert!(matches!(missing, IdentityError::Read { reason: io::ErrorKind::NotFound, .. }));

        let (certificate, key) = pair();
        write(&certificate, &key);
        let files = ClientIdentityFiles::load(&certificate_file, &key_file).unwrap();
        let first = files.current();
        let (certificate, key) = pair();
        write(&certificate, "half a ke");
        assert_eq!(files.current(), first);
        write(&certificate, &key);
        let second = ClientIdentity::from_pem(certificate.as_bytes(), key.as_bytes()).unwrap();
        assert_eq!(files.current(), second);
        assert_ne!(first, second);
        fs::remove_file(&key_file).unwrap();
        assert_eq!(files.current(), second);
    }
}
