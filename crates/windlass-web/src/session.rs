//! Who gets in: with a link that works once, or with a token; then with a cookie.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sha2::{Digest, Sha256};

/// Of the cookie that a browser is given.
pub(crate) const COOKIE: &str = "windlass-session";
/// More browsers than these are not logged in at the same time; the oldest is logged out.
const MOST_SESSIONS: usize = 64;

/// Secrets of this process. Only their hashes are kept, so that comparing them tells nothing by the time it takes.
pub(crate) struct Sessions(Mutex<Inner>);

struct Inner {
    /// Works once.
    link: Option<[u8; 32]>,
    /// Works as long as the process runs, if there is one.
    token: Option<[u8; 32]>,
    sessions: Vec<[u8; 32]>,
}

impl Sessions {
    /// Lets in who has the secret of the link, once, and who has the token.
    pub(crate) fn new(link: &str, token: Option<&str>) -> Self {
        let inner = Inner { link: Some(hash(link)), token: token.map(hash), sessions: Vec::new() };
        Self(Mutex::new(inner))
    }

    /// A cookie for who has a secret.
    pub(crate) fn log_in(&self, secret: &str) -> Option<String> {
        let mut inner = self.lock();
        let given = hash(secret);
        if inner.link == Some(given) {
            inner.link = None;
        } else if inner.token != Some(given) {
            return None;
        }
        let session = secret_of(random()?);
        if inner.sessions.len() == MOST_SESSIONS {
            inner.sessions.remove(0);
        }
        inner.sessions.push(hash(&session));
        Some(session)
    }

    /// Whether the header `Cookie` of a request has a cookie that was given out.
    pub(crate) fn knows(&self, header: &str) -> bool {
        let given = header.split(';').filter_map(|pair| pair.trim().split_once('='));
        let mut given = given.filter(|(name, _)| *name == COOKIE).map(|(_, value)| hash(value));
        let inner = self.lock();
        given.any(|session| inner.sessions.contains(&session))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A secret that cannot be guessed; nothing if the system has no randomness.
pub(crate) fn random() -> Option<[u8; 24]> {
    let mut bytes = [0; 24];
    getrandom::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// A secret as text for links and cookies.
pub(crate) fn secret_of(bytes: [u8; 24]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn hash(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_works_once_the_token_always_and_nothing_else_does() {
        let sessions = Sessions::new("link", Some("token"));
        let cookie = |session: &str| format!("other=1; {COOKIE}={session}");
        assert_eq!(sessions.log_in("guess"), None);
        assert!(!sessions.knows(&cookie("link")) && !sessions.knows("") && !sessions.knows(&cookie("")));
        let first = sessions.log_in("link").unwrap();
        assert_eq!(sessions.log_in("link"), None, "once");
        let second = sessions.log_in("token").unwrap();
        assert_ne!(first, second);
        assert!(sessions.knows(&cookie(&first)) && sessions.knows(&cookie(&second)));
        assert!(!Sessions::new("link", None).knows(&cookie(&first)));
        for _ in 0..MOST_SESSIONS {
            assert!(sessions.log_in("token").is_some());
        }
        assert!(!sessions.knows(&cookie(&first)), "the oldest is logged out");
        let without = Sessions::new("link", None);
        assert_eq!(without.log_in(""), None);
    }
}
