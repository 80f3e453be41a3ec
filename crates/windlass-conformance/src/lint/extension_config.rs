//! One ExtensionConfig on its own: L1 to L5, L8 and L10 to L13.

use std::collections::BTreeSet;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;
use windlass_api::dns_label::check_rfc1123_label;
use windlass_api::label_selector::{Operator, Requirement, Selector};
use windlass_api::names::{INJECT_CA_FROM_SECRET_ANNOTATION, NAMESPACE_NAME_LABEL, RUNTIME_API_VERSION};
use windlass_api::runtime::{
    CaBundle, DISCOVERED_CONDITION, ExtensionConfig, Problem, UrlProblem, Violation, validate,
};

use super::{bundle, first_line, known_fields};
use crate::check::{CheckId, Finding, Rule};
use crate::report::Ledger;

const OLD_API_VERSION: &str = "runtime.cluster.x-k8s.io/v1alpha1";

/// Checks a document. `None` if it cannot be read as an ExtensionConfig at all.
pub(super) fn check(
    subject: &str,
    mut document: Value,
    now: SystemTime,
    ledger: &mut Ledger,
) -> Option<ExtensionConfig> {
    match document["apiVersion"].as_str().unwrap_or_default() {
        RUNTIME_API_VERSION => {}
        OLD_API_VERSION => {
            ledger.found(Finding::new(
                Rule::OldApiVersion,
                subject,
                format!("apiVersion is {OLD_API_VERSION}"),
            ));
        }
        other => {
            let observed = format!("apiVersion {other} does not exist for this kind");
            ledger.found(Finding::new(Rule::NotAnObject, subject, observed));
            return None;
        }
    }
    ledger.looked_at(CheckId::L11, subject);
    for (path, observed) in known_fields::unknown(&document) {
        ledger.found(Finding::new(Rule::UnknownField, format!("{subject}: {path}"), observed));
    }

    // Taken out first: one bad byte in the bundle should not hide what else is wrong.
    let bundle = take_bundle(&mut document);
    let mut config: ExtensionConfig = match serde_json::from_value(document) {
        Ok(config) => config,
        Err(error) => {
            ledger.found(Finding::new(Rule::NotAnObject, subject, first_line(&error.to_string())));
            return None;
        }
    };
    check_bundle(subject, bundle, &mut config, now, ledger);
    check_selector(subject, config.spec.namespace_selector.as_ref(), ledger);
    check_admission(subject, &config, ledger);
    check_discovered(subject, &config, ledger);
    Some(config)
}

fn take_bundle(document: &mut Value) -> Option<Value> {
    let client_config = document.pointer_mut("/spec/clientConfig")?.as_object_mut()?;
    client_config.remove("caBundle").filter(|bundle| !bundle.is_null() && *bundle != "")
}

fn check_bundle(
    subject: &str,
    bundle: Option<Value>,
    config: &mut ExtensionConfig,
    now: SystemTime,
    ledger: &mut Ledger,
) {
    let field = format!("{subject}: spec.clientConfig.caBundle");
    for check in [CheckId::L2, CheckId::L13] {
        ledger.looked_at(check, subject);
    }
    let annotation = format!("{subject}: metadata.annotations[{INJECT_CA_FROM_SECRET_ANNOTATION}]");
    let injected = match config.inject_ca_from() {
        Ok(None) => false,
        Ok(Some(secret)) => {
            if check_rfc1123_label(&secret.namespace).is_err() || secret.name.contains('/') {
                let observed = format!("{secret} is not the name of a Secret");
                ledger.found(Finding::new(Rule::InjectAnnotationShape, annotation, observed));
            }
            true
        }
        Err(error) => {
            let observed = format!("value is {:?}", error.value);
            ledger.found(Finding::new(Rule::InjectAnnotationMalformed, annotation, observed));
            true
        }
    };
    let Some(bundle) = bundle else {
        if !injected {
            let observed = "neither caBundle nor the injecting annotation is set";
            ledger.found(Finding::new(Rule::NoCaBundle, field, observed));
        }
        return;
    };
    ledger.looked_at(CheckId::L12, &field);
    let text: String = bundle.as_str().unwrap_or_default().chars().filter(|c| !c.is_whitespace()).collect();
    match STANDARD.decode(&text) {
        Ok(pem) => {
            bundle::check(&field, &pem, now).into_iter().for_each(|finding| ledger.found(finding));
            config.spec.client_config.ca_bundle = CaBundle::new(pem);
        }
        Err(error) => {
            let observed = if text.starts_with("-----BEGIN") {
                "it is PEM, not base64 of PEM".to_owned()
            } else {
                format!("it is not base64: {error}")
            };
            ledger.found(Finding::new(Rule::BundleWithoutCertificates, field, observed));
        }
    }
}

/// Everything that admission refuses, after its own defaulting.
fn check_admission(subject: &str, config: &ExtensionConfig, ledger: &mut Ledger) {
    for check in [CheckId::L1, CheckId::L5] {
        ledger.looked_at(check, subject);
    }
    let mut config = config.clone();
    config.fill_defaults();
    for violation in validate(&config) {
        let rule =
            if is_forbidden_part(&violation) { Rule::UrlForbiddenPart } else { Rule::AdmissionRefuses };
        let field = format!("{subject}: {}", violation.field);
        ledger.found(Finding::new(rule, field, violation.problem.to_string()));
    }
}

/// Cluster API lets these pass, so they are told apart from what it refuses.
fn is_forbidden_part(violation: &Violation) -> bool {
    let forbidden = matches!(
        violation.problem,
        Problem::Url(UrlProblem::UserInfo | UrlProblem::Query | UrlProblem::Fragment)
    );
    forbidden && violation.field == "spec.clientConfig.url"
}

fn check_selector(subject: &str, selector: Option<&LabelSelector>, ledger: &mut Ledger) {
    let field = format!("{subject}: spec.namespaceSelector");
    ledger.looked_at(CheckId::L3, subject);
    let Some(selector) = selector else {
        ledger.found(Finding::new(Rule::SelectorAbsent, field, "namespaceSelector is absent"));
        return;
    };
    ledger.looked_at(CheckId::L4, subject);
    if let Some(observed) = contradiction(selector) {
        ledger.found(Finding::new(Rule::SelectorContradiction, field, observed));
    }
}

/// A label whose requirements no namespace can meet. A selector that is not valid is reported by admission.
fn contradiction(selector: &LabelSelector) -> Option<String> {
    let selector = Selector::compile(Some(selector)).ok()?;
    for Requirement { key, .. } in selector.requirements() {
        let operators = || {
            let of_key = selector.requirements().iter().filter(|one| one.key == *key);
            of_key.map(|one| &one.operator)
        };
        let mut allowed: Option<BTreeSet<&String>> = None;
        for operator in operators() {
            if let Operator::In(values) = operator {
                allowed = Some(match allowed {
                    None => values.iter().collect(),
                    Some(before) => before.into_iter().filter(|value| values.contains(*value)).collect(),
                });
            }
        }
        for operator in operators() {
            if let (Operator::NotIn(values), Some(allowed)) = (operator, &mut allowed) {
                allowed.retain(|value| !values.contains(*value));
            }
        }
        if allowed.as_ref().is_some_and(BTreeSet::is_empty) {
            return Some(format!("no value of {key} is left"));
        }
        let must_exist = allowed.is_some()
            || operators().any(|operator| *operator == Operator::Exists)
            // Kubernetes puts this label on every namespace.
            || key == NAMESPACE_NAME_LABEL;
        if must_exist && operators().any(|operator| *operator == Operator::DoesNotExist) {
            return Some(format!("{key} must exist and must not exist"));
        }
    }
    None
}

fn check_discovered(subject: &str, config: &ExtensionConfig, ledger: &mut Ledger) {
    let Some(condition) = config.condition(DISCOVERED_CONDITION) else {
        ledger.skip(CheckId::L8, "the ExtensionConfig has no Discovered condition", None);
        return;
    };
    ledger.looked_at(CheckId::L8, subject);
    if condition.status != "True" {
        let observed = format!("Discovered is not True: {:?}", condition.message);
        ledger.found(Finding::new(Rule::NotDiscovered, subject, observed));
    } else if !config.is_discovered() {
        let number = |value: Option<i64>| value.map_or_else(|| "none".to_owned(), |value| value.to_string());
        let observed = format!(
            "the condition observed generation {}, the object has {}",
            number(condition.observed_generation),
            number(config.metadata.generation)
        );
        ledger.found(Finding::new(Rule::DiscoveredStale, subject, observed));
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn contradictions_are_found_per_label() {
        for (selector, contradicts) in [
            (json!({}), false),
            (json!({"matchLabels": {"a": "b"}}), false),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["b", "c"]}]}),
                false,
            ),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "In", "values": ["c"]}]}),
                true,
            ),
            (
                json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "b", "operator": "DoesNotExist"}]}),
                false,
            ),
            (
                json!({"matchExpressions": [{"key": "a", "operator": "Exists"}, {"key": "a", "operator": "DoesNotExist"}]}),
                true,
            ),
            (
                json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "DoesNotExist"}]}),
                true,
            ),
        ] {
            let parsed: LabelSelector = serde_json::from_value(selector.clone()).unwrap();
            assert_eq!(contradiction(&parsed).is_some(), contradicts, "{selector}");
        }
    }
}
