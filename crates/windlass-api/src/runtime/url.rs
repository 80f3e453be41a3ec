//! Addresses of extensions.
//!
//! Only what an ExtensionConfig needs is checked here; connecting is the client's job.

use std::net::Ipv6Addr;

/// Why a text is no address of an extension.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlProblem {
    /// White space, a control character or a letter outside ASCII.
    #[error("must not contain {0:?}")]
    Character(char),
    /// No scheme.
    #[error("must be absolute, for example https://host/path")]
    NotAbsolute,
    /// A scheme that is not encrypted.
    #[error("must have scheme https, not {0:?}")]
    Scheme(String),
    /// A user name or password, which would be sent to the extension.
    #[error("must not contain user information")]
    UserInfo,
    /// A query, which would be mixed up with that of the call.
    #[error("must not contain a query")]
    Query,
    /// A fragment, which no server ever sees.
    #[error("must not contain a fragment")]
    Fragment,
    /// No host, or one that is neither a name nor an address.
    #[error("must have a valid host, not {0:?}")]
    Host(String),
    /// Something after the host that is no port.
    #[error("must have a port between 1 and 65535, not {0:?}")]
    Port(String),
    /// A percent sign that two hexadecimal digits do not follow.
    #[error("must not contain an incomplete percent-encoding")]
    Escape,
    /// A path that is not absolute.
    #[error("must start with /")]
    RelativePath,
}

/// Checks the `url` of an ExtensionConfig.
pub(super) fn check_url(url: &str) -> Result<(), UrlProblem> {
    check_characters(url)?;
    let (scheme, rest) = url.split_once("://").ok_or(UrlProblem::NotAbsolute)?;
    if !scheme.eq_ignore_ascii_case("https") {
        return Err(UrlProblem::Scheme(scheme.to_owned()));
    }
    let authority = &rest[..rest.find(['/', '?', '#']).unwrap_or(rest.len())];
    if authority.contains('@') {
        return Err(UrlProblem::UserInfo);
    }
    check_path_characters(&rest[authority.len()..])?;
    check_authority(authority)
}

/// Checks the `path` of a Service in an ExtensionConfig.
pub(super) fn check_path(path: &str) -> Result<(), UrlProblem> {
    check_characters(path)?;
    if !path.starts_with('/') {
        return Err(UrlProblem::RelativePath);
    }
    check_path_characters(path)
}

fn check_characters(text: &str) -> Result<(), UrlProblem> {
    match text.chars().find(|c| !c.is_ascii_graphic()) {
        Some(other) => Err(UrlProblem::Character(other)),
        None => Ok(()),
    }
}

fn check_path_characters(path: &str) -> Result<(), UrlProblem> {
    if path.contains('#') {
        return Err(UrlProblem::Fragment);
    }
    if path.contains('?') {
        return Err(UrlProblem::Query);
    }
    let complete = |after: &str| {
        let mut digits = after.bytes();
        [digits.next(), digits.next()]
            .into_iter()
            .all(|digit| digit.is_some_and(|digit| digit.is_ascii_hexdigit()))
    };
    if path.split('%').skip(1).all(complete) { Ok(()) } else { Err(UrlProblem::Escape) }
}

fn check_authority(authority: &str) -> Result<(), UrlProblem> {
    let wrong_host = || UrlProblem::Host(authority.to_owned());
    let port = if let Some(bracketed) = authority.strip_prefix('[') {
        let (address, after) = bracketed.split_once(']').ok_or_else(wrong_host)?;
        address.parse::<Ipv6Addr>().map_err(|_| wrong_host())?;
        match after.strip_prefix(':') {
            Some(port) => Some(port),
            None if after.is_empty() => None,
            None => return Err(wrong_host()),
        }
    } else {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        let valid = |label: &str| {
            !label.is_empty() && label.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_'))
        };
        // A trailing dot marks a fully qualified name.
        if !host.strip_suffix('.').unwrap_or(host).split('.').all(valid) {
            return Err(wrong_host());
        }
        port
    };
    match port {
        None => Ok(()),
        Some(text) => match text.parse::<u16>() {
            Ok(1..) if text.bytes().all(|b| b.is_ascii_digit()) => Ok(()),
            _ => Err(UrlProblem::Port(text.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn https_addresses_are_accepted() {
        for url in [
            "https://h.example",
            "https://h.example/",
            "HTTPS://h.example:8443/base/path",
            "https://10.0.0.1:9443",
            "https://[fd00::1]:9443/x",
            "https://[::1]",
            "https://svc.ns.svc.cluster.local.",
            "https://my_host/a%20b",
            "https://h/a:b@c",
        ] {
            assert_eq!(check_url(url), Ok(()), "{url}");
        }
    }

    #[test]
    fn other_addresses_are_refused_with_the_reason() {
        let host = |host: &str| UrlProblem::Host(host.to_owned());
        let port = |port: &str| UrlProblem::Port(port.to_owned());
        for (url, problem) in [
            ("", UrlProblem::NotAbsolute),
            ("h.example/path", UrlProblem::NotAbsolute),
            ("/path", UrlProblem::NotAbsolute),
            ("http://h.example", UrlProblem::Scheme("http".to_owned())),
            ("://h.example", UrlProblem::Scheme(String::new())),
            ("https://", host("")),
            ("https:///path", host("")),
            ("https://:443", host(":443")),
            ("https://a..b", host("a..b")),
            ("https://[fd00::1", host("[fd00::1")),
            ("https://[nonsense]", host("[nonsense]")),
            ("https://[::1]x", host("[::1]x")),
            ("https://h<x>", host("h<x>")),
            ("https://h:", port("")),
            ("https://h:0", port("0")),
            ("https://h:65536", port("65536")),
            ("https://h:+443", port("+443")),
            ("https://h:44x", port("44x")),
            ("https://h:1:2", port("1:2")),
            ("https://user:secret@h", UrlProblem::UserInfo),
            ("https://h?a=b", UrlProblem::Query),
            ("https://h/p?", UrlProblem::Query),
            ("https://h#f", UrlProblem::Fragment),
            ("https://h/p#f?q", UrlProblem::Fragment),
            ("https://h/%2", UrlProblem::Escape),
            ("https://h/%zz", UrlProblem::Escape),
            ("https://h/%é", UrlProblem::Character('é')),
            ("https://h/a b", UrlProblem::Character(' ')),
            ("https://h/\n", UrlProblem::Character('\n')),
        ] {
            assert_eq!(check_url(url), Err(problem), "{url}");
        }
    }

    #[test]
    fn paths_are_absolute() {
        for (path, expected) in [
            ("/", Ok(())),
            ("/base/path", Ok(())),
            ("/a%2Fb", Ok(())),
            ("", Err(UrlProblem::RelativePath)),
            ("base", Err(UrlProblem::RelativePath)),
            ("https://h/", Err(UrlProblem::RelativePath)),
            ("/a?b", Err(UrlProblem::Query)),
            ("/a#b", Err(UrlProblem::Fragment)),
            ("/a%", Err(UrlProblem::Escape)),
            ("/a b", Err(UrlProblem::Character(' '))),
        ] {
            assert_eq!(check_path(path), expected, "{path}");
        }
    }
}
