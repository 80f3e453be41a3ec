//! URLs.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::Type::{Map, Str};
use super::{Call, Function, function};
use crate::value::Value;

pub(super) const FUNCTIONS: &[Function] =
    &[function("urlJoin", &[Map], join), function("urlParse", &[Str], parse)];

/// The characters of a part that stand for themselves, besides letters, digits and `-_.~`.
const IN_PATH: &str = "$&+,/:;=@";
const IN_FRAGMENT: &str = "$&+,/:;=?@!()*'";
const IN_USER: &str = "$&+,;=";

fn parse(c: &mut Call<'_>) -> Result<Value, String> {
    let url = Url::parse(&c.str(0)?)?;
    let entries: BTreeMap<Rc<str>, Value> = [
        ("scheme", url.scheme),
        ("hostname", hostname(&url.host).to_owned()),
        ("host", url.host),
        ("path", url.path),
        ("query", url.query),
        ("opaque", url.opaque),
        ("fragment", url.fragment),
        ("userinfo", url.user.unwrap_or_default()),
    ]
    .into_iter()
    .map(|(key, value)| (Rc::from(key), Value::from(value)))
    .collect();
    Ok(Value::Map(c.heap.new_map(entries)))
}

fn join(c: &mut Call<'_>) -> Result<Value, String> {
    let id = c.map(0)?;
    let part = |key: &str| match id.and_then(|id| c.heap.map(id).entries.get(key)) {
        Some(Value::String(part)) => Ok(part.to_string()),
        Some(other) => Err(format!("expected string for {key}, got {}", other.go_type(c.heap))),
        None => Ok(String::new()),
    };
    let user = part("userinfo")?;
    let user = if user.is_empty() { None } else { Some(userinfo(&user)?) };
    let url = Url {
        scheme: part("scheme")?,
        opaque: part("opaque")?,
        user,
        host: part("host")?,
        path: part("path")?,
        query: part("query")?,
        fragment: part("fragment")?,
    };
    Ok(url.written().into())
}

/// The parts of a URL; path and fragment without percent signs for other characters.
#[derive(Default)]
struct Url {
    scheme: String,
    opaque: String,
    /// Encoded.
    user: Option<String>,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

impl Url {
    fn parse(written: &str) -> Result<Self, String> {
        let wrong = |what: &str| format!("{written:?} is not a URL: {what}");
        if written.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            return Err(wrong("it has control characters"));
        }
        let (rest, fragment) = written.split_once('#').unwrap_or((written, ""));
        let fragment = decode(fragment).ok_or_else(|| wrong("an escape in the fragment is wrong"))?;
        let mut url = Self { fragment, ..Self::default() };
        if rest == "*" {
            url.path = "*".to_owned();
            return Ok(url);
        }
        let (scheme, rest) = scheme(rest).ok_or_else(|| wrong("the scheme is missing"))?;
        url.scheme = scheme.to_ascii_lowercase();
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        url.query = query.to_owned();
        if !rest.starts_with('/') {
            if !url.scheme.is_empty() {
                url.opaque = rest.to_owned();
                return Ok(url);
            }
            if rest.split('/').next().is_some_and(|first| first.contains(':')) {
                return Err(wrong("the first part of the path has a colon"));
            }
        }
        let mut path = rest;
        if let Some(after) = rest.strip_prefix("//")
            && (!url.scheme.is_empty() || !rest.starts_with("///"))
        {
            let end = after.find('/').unwrap_or(after.len());
            let authority;
            (authority, path) = after.split_at(end);
            let host = match authority.rsplit_once('@') {
                Some((user, host)) => {
                    url.user = Some(userinfo(user).map_err(|problem| wrong(&problem))?);
                    host
                }
                None => authority,
            };
            url.host = checked_host(host).ok_or_else(|| wrong("the host is wrong"))?;
        }
        url.path = decode(path).ok_or_else(|| wrong("an escape in the path is wrong"))?;
        Ok(url)
    }

    fn written(&self) -> String {
        let mut out = String::new();
        if !self.scheme.is_empty() {
            out.push_str(&self.scheme);
            out.push(':');
        }
        if !self.opaque.is_empty() {
            out.push_str(&self.opaque);
        } else {
            let has_authority = !self.host.is_empty() || self.user.is_some();
            if has_authority || !self.scheme.is_empty() && self.path.starts_with("//") {
                out.push_str("//");
                if let Some(user) = &self.user {
                    out.push_str(user);
                    out.push('@');
                }
                out.push_str(&encode(&self.host, "!$&'()*+,;=:[]<>\""));
            }
            let path = encode(&self.path, IN_PATH);
            if !path.is_empty() && !path.starts_with('/') && !self.host.is_empty() {
                out.push('/');
            }
            // A colon in the first part would be taken for the end of a scheme.
            if out.is_empty() && path.split('/').next().is_some_and(|first| first.contains(':')) {
                out.push_str("./");
            }
            out.push_str(&path);
        }
        if !self.query.is_empty() {
            out.push('?');
            out.push_str(&self.query);
        }
        if !self.fragment.is_empty() {
            out.push('#');
            out.push_str(&encode(&self.fragment, IN_FRAGMENT));
        }
        out
    }
}

/// The scheme and what is behind its colon; no scheme if other characters come first.
fn scheme(rest: &str) -> Option<(&str, &str)> {
    for (at, c) in rest.char_indices() {
        match c {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at == 0 => return None,
            ':' => return Some((&rest[..at], &rest[at + 1..])),
            _ => break,
        }
    }
    Some(("", rest))
}

fn hostname(host: &str) -> &str {
    if let Some(inside) = host.strip_prefix('[') {
        return inside.split(']').next().unwrap_or_default();
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn checked_host(host: &str) -> Option<String> {
    let after_name = match host.strip_prefix('[') {
        Some(inside) => inside.split_once(']')?.1,
        None => host.find(':').map_or("", |colon| &host[colon..]),
    };
    let port = match after_name.strip_prefix(':') {
        Some(port) => port,
        None if after_name.is_empty() => "",
        None => return None,
    };
    if !port.bytes().all(|byte| byte.is_ascii_digit()) || host.contains([' ', '\\', '^', '`', '{', '|', '}'])
    {
        return None;
    }
    decode(host)
}

/// A name and a password, encoded anew.
fn userinfo(user: &str) -> Result<String, String> {
    let valid = |c: char| c.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(c);
    if !user.chars().all(valid) {
        return Err("the user is wrong".to_owned());
    }
    let encoded = |part: &str| {
        decode(part)
            .map(|part| encode(&part, IN_USER))
            .ok_or_else(|| "an escape of the user is wrong".to_owned())
    };
    match user.split_once(':') {
        Some((name, password)) => Ok(format!("{}:{}", encoded(name)?, encoded(password)?)),
        None => encoded(user),
    }
}

fn encode(part: &str, plain: &str) -> String {
    let mut out = String::with_capacity(part.len());
    for byte in part.bytes() {
        let c = char::from(byte);
        if byte.is_ascii() && (byte.is_ascii_alphanumeric() || "-_.~".contains(c) || plain.contains(c)) {
            out.push(c);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

fn decode(part: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = after;
            continue;
        }
        let digits = std::str::from_utf8(after.get(..2)?).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &after[2..];
    }
    String::from_utf8(bytes).ok()
}
