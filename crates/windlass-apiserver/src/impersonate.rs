//! Acting for another user: `Impersonate-User` and the headers that go with it.
//!
//! Whatever is wrong with such a header refuses the request. A header that is passed over would let the request run
//! with the rights of the client itself, which are usually more.

use std::collections::BTreeMap;
use std::sync::Arc;

use http::{HeaderMap, HeaderValue};

use crate::api::Failure;
use crate::authorize::{Wish, allows, refusal};
use crate::identity::{ANONYMOUS, Identity, UNAUTHENTICATED};
use crate::server::Inner;

/// The group of resources that stand for what users are besides their names.
const AUTHENTICATION: &str = "authentication.k8s.io";

/// What the headers of a request ask for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    user: String,
    groups: Vec<String>,
    uid: Option<String>,
    extra: BTreeMap<String, Vec<String>>,
}

/// The user that a request acts for, if it is another one than makes it.
pub(crate) fn impersonate(
    server: &Arc<Inner>,
    identity: &Identity,
    headers: &HeaderMap,
) -> Result<Option<Identity>, Failure> {
    let Some(asked) = Asked::read(headers)? else { return Ok(None) };
    for wish in asked.wishes() {
        if !allows(server, identity, &wish) {
            return Err(refusal(identity, &wish));
        }
    }
    Ok(Some(asked.identity()))
}

impl Asked {
    fn read(headers: &HeaderMap) -> Result<Option<Self>, Failure> {
        let mut asked = Self::default();
        let mut users = Vec::new();
        let mut uids = Vec::new();
        let mut any = false;
        for (name, value) in headers {
            let Some(what) = name.as_str().strip_prefix("impersonate-") else { continue };
            any = true;
            let value = readable(name.as_str(), value)?;
            match what {
                "user" => users.push(value),
                "group" => asked.groups.push(value),
                "uid" => uids.push(value),
                _ => match what.strip_prefix("extra-") {
                    Some(key) if !key.is_empty() => {
                        asked.extra.entry(unescape(key)?).or_default().push(value);
                    }
                    _ => return Err(Failure::bad_request(format!("unknown header {name}"))),
                },
            }
        }
        if !any {
            return Ok(None);
        }
        if users.len() > 1 || uids.len() > 1 {
            let message = "Impersonate-User and Impersonate-Uid may be given once";
            return Err(Failure::bad_request(message));
        }
        asked.uid = uids.pop();
        match users.pop() {
            Some(user) => asked.user = user,
            None => {
                let message =
                    "groups, a uid or extras are impersonated without a user: give Impersonate-User";
                return Err(Failure::bad_request(message));
            }
        }
        Ok(Some(asked))
    }

    /// Every right that is needed.
    fn wishes(&self) -> Vec<Wish<'_>> {
        let wish = Wish { verb: "impersonate", ..Wish::default() };
        let user = match Identity::service_account(&self.user) {
            Some((namespace, name)) => Wish { resource: "serviceaccounts", namespace, name, ..wish.clone() },
            None => Wish { resource: "users", name: &self.user, ..wish.clone() },
        };
        let groups = self.groups.iter().map(|name| Wish { resource: "groups", name, ..wish.clone() });
        let about = Wish { group: AUTHENTICATION, ..wish.clone() };
        let uid = self.uid.iter().map(|name| Wish { resource: "uids", name, ..about.clone() });
        let extra = self.extra.iter().flat_map(|(key, values)| values.iter().map(move |value| (key, value)));
        let extra = extra.map(|(subresource, name)| Wish {
            resource: "userextras",
            subresource,
            name,
            ..about.clone()
        });
        std::iter::once(user).chain(groups).chain(uid).chain(extra).collect()
    }

    /// The user, in the groups that were given and in those that such a user is always in.
    fn identity(self) -> Identity {
        let mut groups = self.groups;
        if let (Some((namespace, _)), true) = (Identity::service_account(&self.user), groups.is_empty()) {
            groups.extend(Identity::groups_of_service_accounts(namespace));
        }
        let mut identity = Identity::user(&self.user, groups);
        if self.user == ANONYMOUS {
            identity.groups = vec![UNAUTHENTICATED.to_owned()];
        }
        identity.uid = self.uid.unwrap_or_default();
        identity.extra = self.extra;
        identity
    }
}

/// A value in ASCII that is not empty. What clients mean by other bytes is not agreed on.
fn readable(name: &str, value: &HeaderValue) -> Result<String, Failure> {
    match value.to_str() {
        Ok(value) if !value.trim().is_empty() => Ok(value.trim().to_owned()),
        Ok(_) => Err(Failure::bad_request(format!("the header {name} is empty"))),
        Err(_) => Err(Failure::bad_request(format!("the header {name} is not printable ASCII"))),
    }
}

/// Names of extras are percent-encoded, because they may be paths and header names may not.
fn unescape(key: &str) -> Result<String, Failure> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let code = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let broken =
            || Failure::bad_request("the name of an Impersonate-Extra- header is not percent-encoded");
        bytes.push(code.ok_or_else(broken)?);
        rest = after.get(2..).unwrap_or_default();
    }
    String::from_utf8(bytes)
        .map_err(|_| Failure::bad_request("the name of an Impersonate-Extra- header is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn read(headers: &[(&str, &[u8])]) -> Result<Option<Asked>, Failure> {
        let header = |(name, value): &(&str, &[u8])| {
            (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap())
        };
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().map(header) {
            map.append(name, value);
        }
        Asked::read(&map)
    }

    #[test]
    fn what_cannot_be_understood_is_refused() {
        assert_eq!(read(&[("accept", b"x")]).unwrap(), None);
        let refused: [&[(&str, &[u8])]; 11] = [
            &[("impersonate-user", "jos\u{e9}".as_bytes())],
            &[("impersonate-user", b"\xff")],
            &[("impersonate-user", b"")],
            &[("impersonate-user", b"a"), ("impersonate-user", b"b")],
            &[("impersonate-group", b"dev")],
            &[("impersonate-uid", b"1")],
            &[("impersonate-extra-scopes", b"view")],
            &[("impersonate-user", b"a"), ("impersonate-group", b"\xff")],
            &[("impersonate-user", b"a"), ("impersonate-extra-", b"x")],
            &[("impersonate-user", b"a"), ("impersonate-extra-a%f", b"x")],
            &[("impersonate-user", b"a"), ("impersonate-role", b"x")],
        ];
        for headers in refused {
            assert_eq!(read(headers).unwrap_err().code(), 400, "{headers:?}");
        }
    }

    #[test]
    fn every_part_needs_a_right_of_its_own() {
        let asked = read(&[
            ("impersonate-user", b"system:serviceaccount:ns:robot"),
            ("impersonate-group", b"dev"),
            ("impersonate-uid", b"7"),
            ("impersonate-extra-example.org%2fscopes", b"view"),
        ]);
        let asked = asked.unwrap().unwrap();
        let wishes: Vec<_> = asked
            .wishes()
            .iter()
            .map(|wish| [wish.group, wish.resource, wish.subresource, wish.namespace, wish.name].join(" "))
            .collect();
        assert_eq!(
            wishes,
            [
                " serviceaccounts  ns robot",
                " groups   dev",
                "authentication.k8s.io uids   7",
                "authentication.k8s.io userextras example.org/scopes  view",
            ]
        );
        let identity = asked.identity();
        assert_eq!(identity.groups, ["dev", "system:authenticated"]);
        assert_eq!(identity.user_info()["extra"]["example.org/scopes"][0], "view");
    }

    #[test]
    fn a_user_is_in_the_groups_that_such_users_are_always_in() {
        let groups = |user: &[u8]| read(&[("impersonate-user", user)]).unwrap().unwrap().identity().groups;
        assert_eq!(groups(b"system:anonymous"), ["system:unauthenticated"]);
        let account = ["system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"];
        assert_eq!(groups(b"system:serviceaccount:ns:robot"), account);
        assert_eq!(groups(b"eve"), ["system:authenticated"]);
    }
}
