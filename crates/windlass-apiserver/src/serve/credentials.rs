//! Keys and certificates, made at the first start and kept.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;

use crate::identity::{ADMINS, Identity};
use crate::server::secret;

/// What a server proves itself with, and what it knows its users by.
pub struct Credentials {
    ca: Pair,
    admin: Pair,
    token_key: [u8; 32],
    tokens: Vec<(String, Identity)>,
}

/// A certificate and its key, as PEM.
struct Pair {
    certificate: String,
    key: String,
}

/// Why there are no credentials.
#[derive(Debug, thiserror::Error)]
pub enum CredentialsError {
    /// A file cannot be read or written.
    #[error("cannot {action} {}: {source}", path.display())]
    File {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file does not hold what it should.
    #[error("{} is damaged: {problem}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// A key or a certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Certificate(#[from] rcgen::Error),
    /// There is no randomness.
    #[error("cannot make a key: {0}")]
    Random(String),
}

/// Who the administrator is in certificates and tokens.
const ADMIN: &str = "admin";

impl Credentials {
    /// New ones that are forgotten with the process.
    pub fn ephemeral() -> Result<Self, CredentialsError> {
        let ca_key = KeyPair::generate()?;
        let ca = Pair { certificate: ca_params()?.self_signed(&ca_key)?.pem(), key: ca_key.serialize_pem() };
        let params = ca_params()?;
        let issuer = Issuer::from_params(&params, &ca_key);
        let admin = client(&issuer, ADMIN, ADMINS)?;
        let random = || secret().map_err(|error| CredentialsError::Random(error.to_string()));
        let token = URL_SAFE_NO_PAD.encode(random()?);
        Ok(Self { ca, admin, token_key: random()?, tokens: vec![(token, Identity::admin())] })
    }

    /// Those of a directory, made at the first start. Only the owner can read the files.
    ///
    /// `tokens.csv` may be edited: each line is a token, a user, a uid and groups separated by `|`.
    pub fn in_directory(dir: &Path) -> Result<Self, CredentialsError> {
        let path = |name: &str| dir.join(name);
        if !path("ca.crt").exists() {
            Self::ephemeral()?.save(dir)?;
        }
        let ca = Pair { certificate: read(&path("ca.crt"))?, key: read(&path("ca.key"))? };
        let admin = Pair { certificate: read(&path("admin.crt"))?, key: read(&path("admin.key"))? };
        let damaged = |name: &str, problem: &str| CredentialsError::Damaged {
            path: path(name),
            problem: problem.to_owned(),
        };
        // Said now, and of the file: later it would be the handshake that fails.
        for (name, pem) in [("ca.key", &ca.key), ("admin.key", &admin.key)] {
            KeyPair::from_pem(pem).map_err(|_| damaged(name, "it is not a private key in PEM"))?;
        }
        for (name, pem) in [("ca.crt", &ca.certificate), ("admin.crt", &admin.certificate)] {
            CertificateDer::from_pem_slice(pem.as_bytes())
                .map_err(|_| damaged(name, "it is not a certificate in PEM"))?;
        }
        let key = read(&path("token.key"))?;
        let key = STANDARD.decode(key.trim()).map_err(|_| damaged("token.key", "it is not base64"))?;
        let token_key = key.try_into().map_err(|_| damaged("token.key", "it has not 32 bytes"))?;
        let mut tokens = Vec::new();
        for line in read(&path("tokens.csv"))?.lines().filter(|line| !line.trim().is_empty()) {
            let parts: Vec<&str> = line.split(',').map(str::trim).collect();
            let [token, user, uid, groups] = parts.as_slice() else {
                return Err(damaged("tokens.csv", "a line has not the four parts token,user,uid,groups"));
            };
            let groups = groups.split('|').filter(|group| !group.is_empty()).map(str::to_owned);
            let mut identity = Identity::user(user, groups);
            identity.uid = (*uid).to_owned();
            tokens.push(((*token).to_owned(), identity));
        }
        Ok(Self { ca, admin, token_key, tokens })
    }

    fn save(&self, dir: &Path) -> Result<(), CredentialsError> {
        fs::create_dir_all(dir).map_err(file("create", dir))?;
        let tokens: String = self
            .tokens
            .iter()
            .map(|(token, user)| {
                format!("{token},{},{},{}\n", user.username, user.uid, user.groups.join("|"))
            })
            .collect();
        // The certificate comes last: it tells that all is there.
        for (name, content) in [
            ("ca.key", self.ca.key.clone()),
            ("admin.crt", self.admin.certificate.clone()),
            ("admin.key", self.admin.key.clone()),
            ("token.key", STANDARD.encode(self.token_key)),
            ("tokens.csv", tokens),
            ("ca.crt", self.ca.certificate.clone()),
        ] {
            write_private(&dir.join(name), &content).map_err(file("write", &dir.join(name)))?;
        }
        Ok(())
    }

    /// The certificate of the authority that signs for this server, as PEM.
    pub fn ca_bundle(&self) -> &str {
        &self.ca.certificate
    }

    /// The key that tokens of service accounts are signed with.
    pub fn token_key(&self) -> [u8; 32] {
        self.token_key
    }

    /// The tokens that are known, each with its user.
    pub(super) fn tokens(&self) -> &[(String, Identity)] {
        &self.tokens
    }

    /// A certificate for a server that is reached under these addresses, as PEM: certificate and key.
    pub(super) fn server(&self, hosts: &[IpAddr]) -> Result<(String, String), CredentialsError> {
        let ca_key = KeyPair::from_pem(&self.ca.key)?;
        let ca = ca_params()?;
        let issuer = Issuer::from_params(&ca, &ca_key);
        let mut names =
            vec!["localhost".to_owned(), "kubernetes".to_owned(), "kubernetes.default.svc".to_owned()];
        names.extend(["127.0.0.1".to_owned(), "::1".to_owned()]);
        names.extend(hosts.iter().filter(|host| !host.is_unspecified()).map(ToString::to_string));
        names.sort();
        names.dedup();
        let mut params = CertificateParams::new(names)?;
        params.distinguished_name.push(DnType::CommonName, "windlass");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        Ok((params.signed_by(&key, &issuer)?.pem(), key.serialize_pem()))
    }

    /// A kubeconfig for the administrator.
    pub fn kubeconfig(&self, server: &str) -> String {
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: windlass\nclusters:\n- name: windlass\n  cluster:\n    \
             server: {server}\n    certificate-authority-data: {}\ncontexts:\n- name: windlass\n  context:\n    \
             cluster: windlass\n    user: admin\nusers:\n- name: admin\n  user:\n    client-certificate-data: {}\n    \
             client-key-data: {}\n",
            encode(&self.ca.certificate),
            encode(&self.admin.certificate),
            encode(&self.admin.key),
        )
    }

    /// Writes a kubeconfig that only the owner can read.
    pub fn write_kubeconfig(&self, path: &Path, server: &str) -> Result<(), CredentialsError> {
        write_private(path, &self.kubeconfig(server)).map_err(file("write", path))
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("credentials")
    }
}

fn ca_params() -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "windlass-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn client(issuer: &Issuer<'_, &KeyPair>, user: &str, group: &str) -> Result<Pair, rcgen::Error> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    let key = KeyPair::generate()?;
    Ok(Pair { certificate: params.signed_by(&key, issuer)?.pem(), key: key.serialize_pem() })
}

fn read(path: &Path) -> Result<String, CredentialsError> {
    fs::read_to_string(path).map_err(file("read", path))
}

fn file(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> CredentialsError + use<> {
    let path = path.to_owned();
    move |source| CredentialsError::File { action, path, source }
}

/// Writes a file that only its owner can read, from its first byte on, and makes it appear whole.
fn write_private(path: &Path, content: &str) -> io::Result<()> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let temporary = path.with_file_name(name);
    // One that a crash left behind may have been made with other permissions.
    match fs::remove_file(&temporary) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(&temporary)?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}
