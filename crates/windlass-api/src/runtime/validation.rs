//! What admission checks of an ExtensionConfig.

use super::url::{UrlProblem, check_path, check_url};
use super::{ClientConfig, ExtensionConfig, ServiceReference};
use crate::dns_label::{LabelError, check_rfc1035_label, check_rfc1123_label};
use crate::label_selector::{Selector, SelectorProblem};

/// Longest `url` and `path`, in characters.
const MAX_URL_LENGTH: usize = 512;
/// Largest certificate bundle, in bytes.
const MAX_CA_BUNDLE_LENGTH: usize = 51_200;

/// Checks an ExtensionConfig and answers everything that is wrong with it, in the order of its fields.
///
/// Comes after [`ExtensionConfig::fill_defaults`]: an absent selector is a violation here.
pub fn validate(config: &ExtensionConfig) -> Vec<Violation> {
    let mut found = Violations::default();
    found.check("metadata.name", check_rfc1123_label(config.name()).map_err(Problem::Label));
    check_client_config(&config.spec.client_config, &mut found);
    match &config.spec.namespace_selector {
        None => found.add("spec.namespaceSelector", Problem::SelectorMissing),
        Some(selector) => {
            let violations = Selector::compile(Some(selector)).err().map(|error| error.violations);
            for violation in violations.into_iter().flatten() {
                let field = format!("spec.namespaceSelector.{}", violation.field);
                found.add(field, Problem::Selector(violation.problem));
            }
        }
    }
    found.0
}

/// A rule that an ExtensionConfig breaks.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {problem}")]
pub struct Violation {
    /// Path of the field.
    pub field: String,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What can be wrong with an ExtensionConfig.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// A name that is no DNS label.
    #[error("{0}")]
    Label(LabelError),
    /// Nowhere to call.
    #[error("one of url and service must be set")]
    NoEndpoint,
    /// Two places to call.
    #[error("only one of url and service may be set")]
    TwoEndpoints,
    /// Not an address of an extension.
    #[error("{0}")]
    Url(UrlProblem),
    /// Not a port.
    #[error("must be between 1 and 65535, not {0}")]
    Port(i32),
    /// Longer than the API allows.
    #[error("must be no longer than {max}")]
    TooLong {
        /// How long it may be.
        max: usize,
    },
    /// No selector, which would select nothing.
    #[error("must be set; an empty selector selects every namespace")]
    SelectorMissing,
    /// A selector that cannot be used.
    #[error("{0}")]
    Selector(SelectorProblem),
}

impl Problem {
    /// What would be accepted instead.
    pub fn accepted(&self) -> String {
        match self {
            Self::Label(LabelError::StartLetter) => {
                "a name of lower-case letters, digits and '-' that starts with a letter".to_owned()
            }
            Self::Label(_) => "a name of at most 63 lower-case letters, digits and '-'".to_owned(),
            Self::NoEndpoint | Self::TwoEndpoints => "either url or service".to_owned(),
            Self::Url(UrlProblem::RelativePath) => "a path such as /base".to_owned(),
            Self::Url(_) => "an address such as https://host:9443/base".to_owned(),
            Self::Port(_) => "a number from 1 to 65535".to_owned(),
            Self::TooLong { max } => format!("a length up to {max}"),
            Self::SelectorMissing => "an empty selector, {}, or one with labels".to_owned(),
            Self::Selector(problem) => match problem {
                SelectorProblem::Key(_) => "a name, or a domain, a slash and a name,".to_owned(),
                SelectorProblem::Value(_) => {
                    "a text of up to 63 letters, digits, dashes, dots and underscores".to_owned()
                }
                SelectorProblem::Operator(_) => "one of In, NotIn, Exists and DoesNotExist".to_owned(),
                SelectorProblem::ValuesMissing => "a list with at least one value".to_owned(),
                SelectorProblem::ValuesForbidden => "no list, or an empty one,".to_owned(),
            },
        }
    }
}

fn check_client_config(client: &ClientConfig, found: &mut Violations) {
    const FIELD: &str = "spec.clientConfig";
    match (&client.url, &client.service) {
        (None, None) => found.add(FIELD, Problem::NoEndpoint),
        (Some(_), Some(_)) => found.add(FIELD, Problem::TwoEndpoints),
        _ => {}
    }
    if let Some(url) = &client.url {
        found.check("spec.clientConfig.url", check_length(url.chars().count(), MAX_URL_LENGTH));
        found.check("spec.clientConfig.url", check_url(url).map_err(Problem::Url));
    }
    if let Some(service) = &client.service {
        check_service(service, found);
    }
    found.check(
        "spec.clientConfig.caBundle",
        check_length(client.ca_bundle.as_pem().len(), MAX_CA_BUNDLE_LENGTH),
    );
}

fn check_service(service: &ServiceReference, found: &mut Violations) {
    found.check(
        "spec.clientConfig.service.namespace",
        check_rfc1123_label(&service.namespace).map_err(Problem::Label),
    );
    found.check("spec.clientConfig.service.name", check_rfc1035_label(&service.name).map_err(Problem::Label));
    if let Some(path) = &service.path {
        found.check("spec.clientConfig.service.path", check_length(path.chars().count(), MAX_URL_LENGTH));
        found.check("spec.clientConfig.service.path", check_path(path).map_err(Problem::Url));
    }
    if let Some(port) = service.port.filter(|port| !(1..=65_535).contains(port)) {
        found.add("spec.clientConfig.service.port", Problem::Port(port));
    }
}

fn check_length(length: usize, max: usize) -> Result<(), Problem> {
    if length > max { Err(Problem::TooLong { max }) } else { Ok(()) }
}

#[derive(Default)]
struct Violations(Vec<Violation>);

impl Violations {
    fn add(&mut self, field: impl Into<String>, problem: Problem) {
        self.0.push(Violation { field: field.into(), problem });
    }

    fn check(&mut self, field: &str, result: Result<(), Problem>) {
        if let Err(problem) = result {
            self.add(field, problem);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::CaBundle;

    fn violations(name: &str, spec: Value) -> Vec<String> {
        let config = ExtensionConfig::new(name, serde_json::from_value(spec).unwrap());
        validate(&config).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_a_user_would_write_is_valid_after_defaulting() {
        for client in [
            json!({"url": "https://h.example/base"}),
            json!({"service": {"namespace": "0ns", "name": "svc", "path": "/base"}, "caBundle": "UEVN"}),
        ] {
            let spec = serde_json::from_value(json!({"clientConfig": client})).unwrap();
            let mut config = ExtensionConfig::new("ext1", spec);
            assert_eq!(validate(&config).len(), 1, "without defaults the selector is missing");
            config.fill_defaults();
            assert_eq!(validate(&config), []);
        }
    }

    #[test]
    fn every_rule_is_reported_with_its_field() {
        let long = format!("https://h/{}", "x".repeat(503));
        let url = |url: &str| json!({"clientConfig": {"url": url}, "namespaceSelector": {}});
        let service = |service: Value| json!({"clientConfig": {"service": service}, "namespaceSelector": {}});
        for (name, spec, expected) in [
            (
                "a.b",
                url("https://h"),
                "metadata.name: must consist of lower-case letters, digits and '-', not '.'",
            ),
            ("", url("https://h"), "metadata.name: must not be empty"),
            ("e", json!({"namespaceSelector": {}}), "spec.clientConfig: one of url and service must be set"),
            (
                "e",
                json!({"clientConfig": {"caBundle": "UEVN"}, "namespaceSelector": {}}),
                "spec.clientConfig: one of url and service must be set",
            ),
            (
                "e",
                json!({
                    "clientConfig": {"url": "https://h", "service": {"namespace": "n", "name": "s"}},
                    "namespaceSelector": {},
                }),
                "spec.clientConfig: only one of url and service may be set",
            ),
            ("e", url("http://h"), "spec.clientConfig.url: must have scheme https, not \"http\""),
            ("e", url("https://u@h"), "spec.clientConfig.url: must not contain user information"),
            ("e", url("https://h?x"), "spec.clientConfig.url: must not contain a query"),
            ("e", url("https://h#x"), "spec.clientConfig.url: must not contain a fragment"),
            ("e", url(&long), "spec.clientConfig.url: must be no longer than 512"),
            (
                "e",
                service(json!({"namespace": "n", "name": "0s"})),
                "spec.clientConfig.service.name: must start with a lower-case letter",
            ),
            ("e", service(json!({"namespace": "n"})), "spec.clientConfig.service.name: must not be empty"),
            ("e", service(json!({"name": "s"})), "spec.clientConfig.service.namespace: must not be empty"),
            (
                "e",
                service(json!({"namespace": "n", "name": "s", "path": "base"})),
                "spec.clientConfig.service.path: must start with /",
            ),
            (
                "e",
                service(json!({"namespace": "n", "name": "s", "port": 0})),
                "spec.clientConfig.service.port: must be between 1 and 65535, not 0",
            ),
            (
                "e",
                service(json!({"namespace": "n", "name": "s", "port": 65536})),
                "spec.clientConfig.service.port: must be between 1 and 65535, not 65536",
            ),
            (
                "e",
                json!({"clientConfig": {"url": "https://h"}}),
                "spec.namespaceSelector: must be set; an empty selector selects every namespace",
            ),
            (
                "e",
                json!({
                    "clientConfig": {"url": "https://h"},
                    "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                }),
                "spec.namespaceSelector.matchExpressions[0].values: must be set when operator is In or NotIn",
            ),
        ] {
            assert_eq!(violations(name, spec), [expected]);
        }
    }

    #[test]
    fn certificates_are_limited_in_size() {
        let client = |size: usize| ClientConfig {
            url: Some("https://h".to_owned()),
            ca_bundle: CaBundle::new(vec![b'x'; size]),
            ..ClientConfig::default()
        };
        let found = |size| {
            let mut found = Violations::default();
            check_client_config(&client(size), &mut found);
            found.0
        };
        assert_eq!(found(51_200), []);
        assert_eq!(found(51_201)[0].problem, Problem::TooLong { max: 51_200 });
    }

    #[test]
    fn all_violations_are_reported_at_once() {
        let spec = json!({"clientConfig": {"service": {"port": -1, "path": "x"}}});
        assert_eq!(
            violations("E", spec),
            [
                "metadata.name: must consist of lower-case letters, digits and '-', not 'E'",
                "spec.clientConfig.service.namespace: must not be empty",
                "spec.clientConfig.service.name: must not be empty",
                "spec.clientConfig.service.path: must start with /",
                "spec.clientConfig.service.port: must be between 1 and 65535, not -1",
                "spec.namespaceSelector: must be set; an empty selector selects every namespace",
            ]
        );
    }
}
