//! Addresses of handlers.

use std::time::Duration;

use http::uri::{Authority, Scheme, Uri};
use windlass_api::hooks::Hook;
use windlass_api::runtime::{ClientConfig, ServiceReference};
use windlass_api::{GoDuration, HandlerName};

/// The URL at which a hook of an extension is called. Discovery has no handler.
///
/// The path of the ExtensionConfig goes before that of the hook; doubled slashes and dots in it are resolved.
/// If both a Service and a URL are given, which admission forbids, the Service wins.
///
/// # Errors
///
/// When the ExtensionConfig has no address, or one that must not be called.
pub fn hook_url(
    client: &ClientConfig,
    hook: Hook,
    handler: Option<&HandlerName>,
    timeout: Duration,
) -> Result<Uri, UrlError> {
    let (authority, prefix) = match (&client.service, &client.url) {
        (Some(service), _) => service_address(service)?,
        (None, Some(url)) => url_address(url)?,
        (None, None) => return Err(UrlError::Missing),
    };
    // A second query would take the place of ours; a fragment would cut off the path of the hook.
    for (sign, name) in [('?', "a query"), ('#', "a fragment")] {
        if prefix.contains(sign) {
            return Err(UrlError::Forbidden(name));
        }
    }
    let path = handler.map_or_else(|| hook.base_path(), |handler| hook.path(handler));
    let path = clean(&format!("{prefix}/{path}"));
    Uri::builder()
        .scheme(Scheme::HTTPS)
        .authority(authority)
        .path_and_query(format!("{path}?{}", timeout_query(timeout)))
        .build()
        .map_err(|error| UrlError::Invalid { url: format!("{prefix}{path}"), reason: error.to_string() })
}

/// The query that tells an extension how long its caller waits: a Go duration, escaped where it has a micro sign.
pub fn timeout_query(timeout: Duration) -> String {
    format!("timeout={}", GoDuration::from(timeout)).replace('µ', "%C2%B5")
}

/// Why an extension cannot be called at its address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UrlError {
    /// No address at all.
    #[error("neither url nor service is set")]
    Missing,
    /// Not an address.
    #[error("invalid address {url:?}: {reason}")]
    Invalid {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Not encrypted.
    #[error("url must start with https://, not with {0:?}")]
    Scheme(String),
    /// A user name, a query or a fragment, none of which is part of an extension's address.
    #[error("the address must not contain {0}")]
    Forbidden(&'static str),
    /// Not a port.
    #[error("port of the service must be between 1 and 65535, not {0}")]
    Port(i32),
}

fn service_address(service: &ServiceReference) -> Result<(Authority, &str), UrlError> {
    let host = format!("{}.{}.svc", service.name, service.namespace);
    let authority = match service.port {
        None => host,
        Some(port @ 1..=65_535) => format!("{host}:{port}"),
        Some(port) => return Err(UrlError::Port(port)),
    };
    let invalid = |error: http::uri::InvalidUri| UrlError::Invalid {
        url: authority.clone(),
        reason: error.to_string(),
    };
    Ok((authority.parse().map_err(invalid)?, service.path.as_deref().unwrap_or_default()))
}

fn url_address(url: &str) -> Result<(Authority, &str), UrlError> {
    let invalid = |reason: String| UrlError::Invalid { url: url.to_owned(), reason };
    let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("not absolute".to_owned()))?;
    if !scheme.eq_ignore_ascii_case("https") {
        return Err(UrlError::Scheme(scheme.to_owned()));
    }
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(UrlError::Forbidden("user information"));
    }
    let authority: Authority =
        authority.parse().map_err(|error: http::uri::InvalidUri| invalid(error.to_string()))?;
    if authority.host().is_empty() {
        return Err(invalid("no host".to_owned()));
    }
    Ok((authority, path))
}

/// Resolves `.`, `..` and doubled slashes. The result starts with a slash and does not end with one.
fn clean(path: &str) -> String {
    let mut segments = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            other => segments.push(other),
        }
    }
    format!("/{}", segments.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOOKS: &str = "/hooks.runtime.cluster.x-k8s.io/v1alpha1";
    const TEN_SECONDS: Duration = Duration::from_secs(10);

    fn by_url(url: &str) -> ClientConfig {
        ClientConfig { url: Some(url.to_owned()), ..ClientConfig::default() }
    }

    fn by_service(path: Option<&str>, port: Option<i32>) -> ClientConfig {
        let service = ServiceReference {
            namespace: "n1".to_owned(),
            name: "s1".to_owned(),
            path: path.map(str::to_owned),
            port,
        };
        ClientConfig { service: Some(service), ..ClientConfig::default() }
    }

    fn discovery(client: &ClientConfig) -> Result<String, UrlError> {
        hook_url(client, Hook::Discovery, None, TEN_SECONDS).map(|url| url.to_string())
    }

    #[test]
    fn golden_addresses_of_the_contract() {
        let handler = HandlerName::new("gp").unwrap();
        let url = hook_url(
            &by_service(Some("/base"), Some(8443)),
            Hook::GeneratePatches,
            Some(&handler),
            TEN_SECONDS,
        );
        assert_eq!(
            url.unwrap().to_string(),
            "https://s1.n1.svc:8443/base/hooks.runtime.cluster.x-k8s.io/v1alpha1/generatepatches/gp?timeout=10s"
        );
        assert_eq!(
            discovery(&by_url("https://h.example/")).unwrap(),
            "https://h.example/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery?timeout=10s"
        );
    }

    #[test]
    fn prefixes_are_cleaned() {
        for (prefix, cleaned) in [
            ("", ""),
            ("/", ""),
            ("//", ""),
            ("/base/", "/base"),
            ("/a//b/./c", "/a/b/c"),
            ("/a/../b", "/b"),
            ("/../..", ""),
        ] {
            let expected = format!("https://h:1{cleaned}{HOOKS}/discovery?timeout=10s");
            assert_eq!(discovery(&by_url(&format!("https://h:1{prefix}"))).unwrap(), expected, "{prefix}");
            let expected = format!("https://s1.n1.svc{cleaned}{HOOKS}/discovery?timeout=10s");
            assert_eq!(discovery(&by_service(Some(prefix), None)).unwrap(), expected, "{prefix}");
        }
    }

    #[test]
    fn a_service_wins_over_a_url_and_neither_is_an_error() {
        let both = ClientConfig { url: Some("https://h".to_owned()), ..by_service(None, Some(443)) };
        let expected = format!("https://s1.n1.svc:443{HOOKS}/discovery?timeout=10s");
        assert_eq!(discovery(&both).unwrap(), expected);
        assert_eq!(discovery(&ClientConfig::default()), Err(UrlError::Missing));
    }

    #[test]
    fn addresses_that_must_not_be_called_are_refused() {
        for (url, text) in [
            ("http://h", "url must start with https://, not with \"http\""),
            ("https://user:secret@h", "the address must not contain user information"),
            ("https://h/?a=b", "the address must not contain a query"),
            ("https://h#f", "the address must not contain a fragment"),
            ("h/path", "invalid address \"h/path\": not absolute"),
            ("https://:443", "invalid address \"https://:443\": no host"),
        ] {
            assert_eq!(discovery(&by_url(url)).unwrap_err().to_string(), text);
        }
        assert!(discovery(&by_url("https://")).is_err());
        assert!(discovery(&by_url("https://a b")).is_err());
        assert_eq!(discovery(&by_service(Some("/a?b"), None)), Err(UrlError::Forbidden("a query")));
        assert_eq!(discovery(&by_service(Some("/a#b"), None)), Err(UrlError::Forbidden("a fragment")));
        assert_eq!(discovery(&by_service(None, Some(0))), Err(UrlError::Port(0)));
        assert_eq!(discovery(&by_service(None, Some(65_536))), Err(UrlError::Port(65_536)));
    }

    #[test]
    fn timeouts_are_written_as_go_does() {
        let cases = [
            (10_000_000, "10s"),
            (1_000_000, "1s"),
            (500_000, "500ms"),
            (1_500_000, "1.5s"),
            (5, "5%C2%B5s"),
        ];
        for (microseconds, text) in cases {
            let timeout = Duration::from_micros(microseconds);
            let url = hook_url(&by_url("https://h"), Hook::Discovery, None, timeout);
            assert_eq!(url.unwrap().query(), Some(format!("timeout={text}").as_str()));
        }
    }

    #[test]
    fn an_address_in_ipv6_keeps_its_brackets() {
        let url = hook_url(&by_url("https://[::1]:9443"), Hook::Discovery, None, TEN_SECONDS).unwrap();
        assert_eq!(url.authority().unwrap().as_str(), "[::1]:9443");
        assert_eq!(url.port_u16(), Some(9443));
    }
}
