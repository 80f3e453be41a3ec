//! Tokens of service accounts: signed by this server, and good for this server only.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::identity::Identity;

/// The key that tokens are signed with. It never leaves the server.
#[derive(Clone)]
pub(crate) struct TokenKey([u8; 32]);

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) sub: String,
    pub(crate) uid: String,
    pub(crate) aud: Vec<String>,
    pub(crate) iat: u64,
    pub(crate) exp: u64,
    /// The object without which the token is good for nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bound: Option<Bound>,
}

/// The object that a token is bound to: it must be there, and be the same one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Bound {
    /// The resource in the core group: `pods`, `secrets` or `nodes`.
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

/// A token that is ours and still good.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Verified {
    pub(crate) identity: Identity,
    /// Which of the audiences it was made for.
    pub(crate) audiences: Vec<String>,
    pub(crate) bound: Option<Bound>,
}

/// Whom a token is for, and where it is good.
pub(crate) struct Grant<'a> {
    pub(crate) subject: &'a str,
    pub(crate) uid: &'a str,
    pub(crate) audiences: &'a [String],
    pub(crate) bound: Option<Bound>,
}

/// The audience of tokens that are meant for this API.
pub(crate) const API: &str = "https://kubernetes.default.svc";

const HEADER: &str = r#"{"alg":"HS256","typ":"JWT"}"#;

impl TokenKey {
    pub(crate) fn new(key: [u8; 32]) -> Self {
        Self(key)
    }

    /// A token for a service account.
    pub(crate) fn issue(&self, grant: &Grant<'_>, now: Timestamp, lifetime: Duration) -> (String, Timestamp) {
        let end = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        let claims = Claims {
            sub: grant.subject.to_owned(),
            uid: grant.uid.to_owned(),
            aud: grant.audiences.to_vec(),
            iat: seconds(now),
            exp: seconds(end),
            bound: grant.bound.clone(),
        };
        let claims = serde_json::to_vec(&claims).unwrap_or_default();
        let signed = format!("{}.{}", URL_SAFE_NO_PAD.encode(HEADER), URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(hmac(&self.0, signed.as_bytes()));
        (format!("{signed}.{signature}"), end)
    }

    /// What a token says, if it is ours and still good. Whether the object that it is bound to is there, the
    /// caller finds out.
    pub(crate) fn verify(&self, token: &str, now: Timestamp, audiences: &[String]) -> Option<Verified> {
        let (signed, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !same(&signature, &hmac(&self.0, signed.as_bytes())) {
            return None;
        }
        let (_, claims) = signed.split_once('.')?;
        let claims: Claims = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(claims).ok()?).ok()?;
        if claims.exp <= seconds(now) {
            return None;
        }
        let audiences: Vec<String> =
            audiences.iter().filter(|audience| claims.aud.contains(audience)).cloned().collect();
        if audiences.is_empty() {
            return None;
        }
        let (namespace, _) = Identity::service_account(&claims.sub)?;
        let mut identity = Identity::user(&claims.sub, Identity::groups_of_service_accounts(namespace));
        identity.uid = claims.uid;
        Some(Verified { identity, audiences, bound: claims.bound })
    }
}

impl std::fmt::Debug for TokenKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a key")
    }
}

/// Seconds since 1970, as tokens have them.
fn seconds(time: Timestamp) -> u64 {
    u64::try_from(time.as_second()).unwrap_or(0)
}

/// Compares without telling by the time it takes how much is equal.
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len()
        && left.iter().zip(right).fold(0, |differs, (left, right)| differs | (left ^ right)) == 0
}

/// HMAC-SHA256 with a key that fits into one block.
fn hmac(key: &[u8; 32], message: &[u8]) -> [u8; 32] {
    let pad = |byte: u8| {
        let mut block = [byte; 64];
        block.iter_mut().zip(key).for_each(|(block, key)| *block ^= key);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_an_hmac() {
        // RFC 4231, test case 1 has a key of 20 bytes 0x0b: padded with zeros it is the same key.
        let mut key = [0; 32];
        key[..20].fill(0x0b);
        let hex: String = hmac(&key, b"Hi There").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    }

    #[test]
    fn a_token_is_good_until_it_expires_and_only_unchanged() {
        let key = TokenKey::new([7; 32]);
        let now = Timestamp::from_second(1_000_000).unwrap();
        let here = [API.to_owned()];
        let grant =
            Grant { subject: "system:serviceaccount:ns:robot", uid: "u1", audiences: &here, bound: None };
        let (token, end) = key.issue(&grant, now, Duration::from_secs(600));
        let Verified { identity, audiences, bound } = key.verify(&token, now, &here).unwrap();
        assert_eq!((audiences.as_slice(), bound), (here.as_slice(), None));
        assert_eq!(key.verify(&token, now, &["elsewhere".to_owned()]), None);
        assert_eq!(identity.username, "system:serviceaccount:ns:robot");
        assert!(identity.groups.contains(&"system:serviceaccounts:ns".to_owned()));
        assert_eq!(key.verify(&token, end, &here), None);
        assert_eq!(key.verify(&token.replace('.', "x."), now, &here), None);
        assert_eq!(TokenKey::new([8; 32]).verify(&token, now, &here), None);
        assert_eq!(key.verify("nonsense", now, &here), None);
    }
}
