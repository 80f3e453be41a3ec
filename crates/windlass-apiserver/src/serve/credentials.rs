//! Keys and certificates, made at the first start, kept, and renewed before they end.

use std::fs;
use std::io::{self, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use jiff::Timestamp;
use windlass_clock::Clock;

use super::authority::{self, Pair, Validity, YEAR};
use crate::identity::{ADMINS, Identity};
use crate::server::secret;

/// What a server proves itself with, and what it knows its users by.
pub struct Credentials {
    ca: Pair,
    admin: Mutex<Pair>,
    token_key: [u8; 32],
    tokens: Vec<(String, Identity)>,
    /// Where they are kept, if anywhere.
    dir: Option<PathBuf>,
    clock: Clock,
    /// Names and addresses that clients know the server by, besides those of this machine.
    names: Mutex<Vec<String>>,
    /// Kubeconfigs of the administrator that were written, and the server in them.
    kubeconfigs: Mutex<Vec<(PathBuf, String)>>,
}

/// A certificate, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateDescription {
    /// What it is for: `ca` or `admin`.
    pub what: &'static str,
    /// From when on it is good.
    pub from: Timestamp,
    /// Until when it is good.
    pub until: Timestamp,
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
    /// A user or a lifetime that a certificate cannot be made for.
    #[error("{0}")]
    Refused(String),
}

/// Who the administrator is in certificates and tokens.
const ADMIN: &str = "admin";

impl Credentials {
    /// New ones that are forgotten with the process.
    pub fn ephemeral() -> Result<Self, CredentialsError> {
        Self::made(Clock::real())
    }

    fn made(clock: Clock) -> Result<Self, CredentialsError> {
        let now = clock.now();
        let ca = authority::new_ca(now)?;
        let admin = authority::client(&ca, ADMIN, &[ADMINS.to_owned()], now, YEAR)?;
        let random = || secret().map_err(|error| CredentialsError::Random(error.to_string()));
        let token = URL_SAFE_NO_PAD.encode(random()?);
        Ok(Self {
            ca,
            admin: Mutex::new(admin),
            token_key: random()?,
            tokens: vec![(token, Identity::admin())],
            dir: None,
            clock,
            names: Mutex::default(),
            kubeconfigs: Mutex::default(),
        })
    }

    /// Those of a directory, made at the first start. Only the owner can read the files. Certificates that end soon,
    /// or that are good for longer than they should be, are replaced; keys stay, so that what was signed with them
    /// is still good.
    ///
    /// `tokens.csv` may be edited: each line is a token, a user, a uid and groups separated by `|`.
    pub fn in_directory(dir: &Path) -> Result<Self, CredentialsError> {
        Self::in_directory_at(dir, Clock::real())
    }

    /// The same with another clock.
    pub fn in_directory_at(dir: &Path, clock: Clock) -> Result<Self, CredentialsError> {
        let path = |name: &str| dir.join(name);
        if path("ca.crt").exists() {
            protect(dir)?;
        } else {
            Self::made(clock.clone())?.save(dir)?;
        }
        let pair = |name: &str| -> Result<Pair, CredentialsError> {
            let (certificate, key) = (path(&format!("{name}.crt")), path(&format!("{name}.key")));
            let pair = Pair { certificate: read(&certificate)?, key: read(&key)? };
            // Said now, and of the file: later it would be the handshake that fails.
            pair.check_key().map_err(|problem| damaged(&key, problem))?;
            pair.validity().map_err(|problem| damaged(&certificate, problem))?;
            Ok(pair)
        };
        let key = read(&path("token.key"))?;
        let key = STANDARD.decode(key.trim()).map_err(|_| damaged(&path("token.key"), "it is not base64"))?;
        let token_key = key.try_into().map_err(|_| damaged(&path("token.key"), "it has not 32 bytes"))?;
        let mut tokens = Vec::new();
        for line in read(&path("tokens.csv"))?.lines().filter(|line| !line.trim().is_empty()) {
            let parts: Vec<&str> = line.split(',').map(str::trim).collect();
            let [token, user, uid, groups] = parts.as_slice() else {
                let problem = "a line has not the four parts token,user,uid,groups";
                return Err(damaged(&path("tokens.csv"), problem));
            };
            let groups = groups.split('|').filter(|group| !group.is_empty()).map(str::to_owned);
            let mut identity = Identity::user(user, groups);
            identity.uid = (*uid).to_owned();
            tokens.push(((*token).to_owned(), identity));
        }
        let (mut ca, admin) = (pair("ca")?, pair("admin")?);
        let now = clock.now();
        if is_due(&ca, now, authority::CA_LIFETIME) {
            ca = authority::renewed_ca(&ca, now)?;
            write_named(dir, "ca.crt", &ca.certificate)?;
        }
        let credentials = Self {
            ca,
            admin: Mutex::new(admin),
            token_key,
            tokens,
            dir: Some(dir.to_owned()),
            clock,
            names: Mutex::default(),
            kubeconfigs: Mutex::default(),
        };
        credentials.renew()?;
        Ok(credentials)
    }

    /// Makes new ones in a directory: a certificate and a token of the administrator, and with `with_ca` an
    /// authority and the key that tokens are signed with, so that nothing that was given out is good any more. A
    /// server that runs knows them from its next start on.
    pub fn rotate(dir: &Path, with_ca: bool) -> Result<Self, CredentialsError> {
        let mut new = Self::ephemeral()?;
        if !with_ca {
            let old = Self::in_directory(dir)?;
            let admin = authority::client(&old.ca, ADMIN, &[ADMINS.to_owned()], old.clock.now(), YEAR)?;
            new.admin = Mutex::new(admin);
            new.ca = old.ca;
            new.token_key = old.token_key;
            let others = old.tokens.into_iter().filter(|(_, user)| user.username != ADMIN);
            new.tokens.extend(others);
        }
        new.save(dir)?;
        Ok(new)
    }

    /// Renews the certificate of the administrator if it ends soon, also in kubeconfigs that were written.
    pub fn renew(&self) -> Result<bool, CredentialsError> {
        let now = self.clock.now();
        if !is_due(&locked(&self.admin), now, YEAR) {
            return Ok(false);
        }
        let admin = authority::client(&self.ca, ADMIN, &[ADMINS.to_owned()], now, YEAR)?;
        if let Some(dir) = &self.dir {
            write_named(dir, "admin.crt", &admin.certificate)?;
            write_named(dir, "admin.key", &admin.key)?;
        }
        *locked(&self.admin) = admin;
        for (path, server) in locked(&self.kubeconfigs).iter() {
            write_private(path, &self.kubeconfig(server)).map_err(file("write", path))?;
        }
        Ok(true)
    }

    /// The certificates, for people.
    pub fn certificates(&self) -> Vec<CertificateDescription> {
        let describe = |what, pair: &Pair| {
            let Validity { from, until } = pair.validity().ok()?;
            Some(CertificateDescription { what, from, until })
        };
        describe("ca", &self.ca).into_iter().chain(describe("admin", &locked(&self.admin))).collect()
    }

    /// The users that have a token, with their groups.
    pub fn token_users(&self) -> impl Iterator<Item = (&str, &[String])> {
        self.tokens.iter().map(|(_, user)| (user.username.as_str(), user.groups.as_slice()))
    }

    /// Adds names and addresses that clients know the server by.
    pub fn add_names(&self, names: impl IntoIterator<Item = String>) {
        locked(&self.names).extend(names);
    }

    fn save(&self, dir: &Path) -> Result<(), CredentialsError> {
        fs::create_dir_all(dir).map_err(file("create", dir))?;
        protect(dir)?;
        let tokens: String = self
            .tokens
            .iter()
            .map(|(token, user)| {
                format!("{token},{},{},{}\n", user.username, user.uid, user.groups.join("|"))
            })
            .collect();
        let admin = locked(&self.admin);
        // The certificate comes last: it tells that all is there.
        for (name, content) in [
            ("ca.key", self.ca.key.as_str()),
            ("admin.crt", &admin.certificate),
            ("admin.key", &admin.key),
            ("token.key", &STANDARD.encode(self.token_key)),
            ("tokens.csv", &tokens),
            ("ca.crt", &self.ca.certificate),
        ] {
            write_named(dir, name, content)?;
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

    /// A certificate for a server that is reached under these addresses.
    pub(super) fn server(&self, hosts: &[IpAddr]) -> Result<Pair, CredentialsError> {
        let mut names: Vec<String> =
            ["localhost", "kubernetes", "kubernetes.default.svc", "127.0.0.1", "::1"]
                .map(str::to_owned)
                .into();
        names.extend(hosts.iter().filter(|host| !host.is_unspecified()).map(ToString::to_string));
        names.extend(locked(&self.names).iter().cloned());
        names.sort();
        names.dedup();
        Ok(authority::server(&self.ca, names, self.clock.now())?)
    }

    /// Whether a certificate that this authority has signed for a year should be replaced.
    pub(super) fn is_due(&self, pair: &Pair) -> bool {
        is_due(pair, self.clock.now(), YEAR)
    }

    /// A kubeconfig for the administrator.
    pub fn kubeconfig(&self, server: &str) -> String {
        self.kubeconfig_with(ADMIN, &locked(&self.admin), server)
    }

    /// A kubeconfig for another user, with a certificate that is good for so long. It cannot be taken back before,
    /// except by a new authority.
    pub fn kubeconfig_for(
        &self,
        user: &str,
        groups: &[String],
        lifetime: Duration,
        server: &str,
    ) -> Result<String, CredentialsError> {
        let refused = |problem: String| Err(CredentialsError::Refused(problem));
        for text in std::iter::once(user).chain(groups.iter().map(String::as_str)) {
            if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic()) {
                return refused(format!(
                    "{text:?} is not a name of a user or group: printable ASCII without spaces"
                ));
            }
        }
        if groups.len() > authority::MOST_GROUPS {
            return refused(format!("a certificate has room for {} groups", authority::MOST_GROUPS));
        }
        if lifetime < Duration::from_secs(600) || lifetime > YEAR {
            return refused("a certificate is good for at least 10 minutes and at most a year".to_owned());
        }
        let pair = authority::client(&self.ca, user, groups, self.clock.now(), lifetime)?;
        Ok(self.kubeconfig_with(user, &pair, server))
    }

    fn kubeconfig_with(&self, user: &str, pair: &Pair, server: &str) -> String {
        let encode = |text: &str| STANDARD.encode(text);
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: windlass\nclusters:\n- name: windlass\n  cluster:\n    \
             server: {server}\n    certificate-authority-data: {}\ncontexts:\n- name: windlass\n  context:\n    \
             cluster: windlass\n    user: '{user}'\nusers:\n- name: '{user}'\n  user:\n    \
             client-certificate-data: {}\n    client-key-data: {}\n",
            encode(&self.ca.certificate),
            encode(&pair.certificate),
            encode(&pair.key),
            user = user.replace('\'', "''"),
        )
    }

    /// Writes a file that only the owner can read.
    pub fn write_private(&self, path: &Path, content: &str) -> Result<(), CredentialsError> {
        write_private(path, content).map_err(file("write", path))
    }

    /// Writes a kubeconfig that only the owner can read, and again whenever the certificate in it is renewed.
    pub fn write_kubeconfig(&self, path: &Path, server: &str) -> Result<(), CredentialsError> {
        write_private(path, &self.kubeconfig(server)).map_err(file("write", path))?;
        locked(&self.kubeconfigs).push((path.to_owned(), server.to_owned()));
        Ok(())
    }
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("credentials")
    }
}

/// Whether a certificate should be replaced: a fifth of its life is left, it is good for longer than it should be,
/// or the clock was set back to before it.
fn is_due(pair: &Pair, now: Timestamp, lifetime: Duration) -> bool {
    let Ok(Validity { from, until }) = pair.validity() else { return true };
    let left = Duration::try_from(until.duration_since(now)).unwrap_or_default();
    left < lifetime / 5 || left > lifetime + authority::CLOCK_SKEW || now < from
}

/// What is in the directory is for the owner only, whatever the umask was.
fn protect(dir: &Path) -> Result<(), CredentialsError> {
    use std::os::unix::fs::PermissionsExt;
    let set = |path: &Path, mode: u32| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(file("protect", path))
    };
    set(dir, 0o700)?;
    for entry in fs::read_dir(dir).map_err(file("read", dir))? {
        let path = entry.map_err(file("read", dir))?.path();
        if path.is_file() {
            set(&path, 0o600)?;
        }
    }
    Ok(())
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn damaged(path: &Path, problem: &str) -> CredentialsError {
    CredentialsError::Damaged { path: path.to_owned(), problem: problem.to_owned() }
}

fn write_named(dir: &Path, name: &str, content: &str) -> Result<(), CredentialsError> {
    let path = dir.join(name);
    write_private(&path, content).map_err(file("write", &path))
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
    #[cfg(unix)]
    file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600))?;
    file.write_all(content.as_bytes())?;
    file.sync_all()?;
    fs::rename(&temporary, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);

    fn days(credentials: &Credentials, what: &str) -> i64 {
        let certificates = credentials.certificates();
        let found = certificates.iter().find(|certificate| certificate.what == what).unwrap();
        found.until.duration_since(found.from).as_secs() / DAY.as_secs() as i64
    }

    #[test]
    fn certificates_are_good_for_as_long_as_is_said() {
        let credentials = Credentials::ephemeral().unwrap();
        assert_eq!((days(&credentials, "ca"), days(&credentials, "admin")), (3651, 366));
        let server = credentials.server(&[]).unwrap().validity().unwrap();
        assert_eq!(server.until.duration_since(server.from).as_secs(), 366 * DAY.as_secs() as i64);
    }

    #[tokio::test(start_paused = true)]
    async fn certificates_are_renewed_at_the_start_and_while_running() {
        let dir = tempfile::tempdir().unwrap();
        let pki = dir.path().join("pki");
        let clock = Clock::starting_at(Timestamp::from_second(1_794_769_841).unwrap());
        let first = Credentials::in_directory_at(&pki, clock.clone()).unwrap();
        let config = dir.path().join("kubeconfig");
        first.write_kubeconfig(&config, "https://x").unwrap();
        let written = fs::read_to_string(&config).unwrap();
        tokio::time::advance(DAY * 280).await;
        assert!(!first.renew().unwrap(), "85 days are left");
        tokio::time::advance(DAY * 20).await;
        assert!(first.renew().unwrap(), "65 days are left");
        assert_ne!(fs::read_to_string(&config).unwrap(), written);
        let again = Credentials::in_directory_at(&pki, clock.clone()).unwrap();
        assert_eq!(again.kubeconfig("https://x"), first.kubeconfig("https://x"), "it is kept");
        assert_eq!(again.ca_bundle(), first.ca_bundle());
        tokio::time::advance(DAY * 3000).await;
        let later = Credentials::in_directory_at(&pki, clock).unwrap();
        assert_ne!(later.ca_bundle(), first.ca_bundle(), "350 days are left");
        assert_eq!(later.ca.key, first.ca.key, "what it signed is still good");
    }

    #[test]
    fn what_is_in_the_directory_is_for_the_owner_only() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let pki = dir.path().join("pki");
        fs::create_dir(&pki).unwrap();
        fs::set_permissions(&pki, fs::Permissions::from_mode(0o755)).unwrap();
        Credentials::in_directory(&pki).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&pki), 0o700);
        fs::set_permissions(pki.join("ca.key"), fs::Permissions::from_mode(0o644)).unwrap();
        Credentials::in_directory(&pki).unwrap();
        assert_eq!(mode(&pki.join("ca.key")), 0o600);
    }

    #[test]
    fn rotation_leaves_what_others_have_unless_the_authority_is_new() {
        let dir = tempfile::tempdir().unwrap();
        let first = Credentials::in_directory(dir.path()).unwrap();
        let second = Credentials::rotate(dir.path(), false).unwrap();
        assert_eq!(second.ca_bundle(), first.ca_bundle());
        assert_ne!(second.kubeconfig("x"), first.kubeconfig("x"));
        assert_ne!(second.tokens[0].0, first.tokens[0].0);
        let third = Credentials::rotate(dir.path(), true).unwrap();
        assert_ne!(third.ca_bundle(), first.ca_bundle());
        assert_ne!(third.token_key(), first.token_key());
        assert_eq!(Credentials::in_directory(dir.path()).unwrap().ca_bundle(), third.ca_bundle());
    }

    #[test]
    fn a_user_gets_a_kubeconfig_for_a_time() {
        let credentials = Credentials::ephemeral().unwrap();
        let hour = Duration::from_secs(3600);
        let config = credentials.kubeconfig_for("eve", &["dev".to_owned()], hour, "https://x").unwrap();
        assert!(config.contains("user: 'eve'"), "{config}");
        for (user, lifetime) in
            [("", hour), ("a b", hour), ("a\n", hour), ("eve", DAY * 400), ("eve", hour / 60)]
        {
            assert!(credentials.kubeconfig_for(user, &[], lifetime, "x").is_err(), "{user:?} {lifetime:?}");
        }
    }
}
