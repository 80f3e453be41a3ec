//! Manifests, offline: L1 to L14.
//!
//! A file may contain several documents. ExtensionConfigs are checked; ClusterClasses and Namespaces beside
//! them are read for what they say about those; everything else is left alone.

mod bundle;
mod extension_config;
mod known_fields;
mod relations;

use std::collections::BTreeMap;
use std::time::SystemTime;

use serde_json::Value;
use windlass_api::api_version;
use windlass_api::names::{CLUSTER_GROUP, RUNTIME_GROUP};
use windlass_api::runtime::ExtensionConfig;

use crate::check::{CheckId, Finding, Group, Rule};
use crate::report::{Ledger, Report, ReportKind};

/// Certificates that expire within this many days are reported.
const CERTIFICATE_WARNING_DAYS: i64 = 30;

/// Checks the ExtensionConfigs in a manifest. `file` is how the report names it.
pub fn lint(file: &str, text: &str) -> Report {
    lint_at(file, text, SystemTime::now())
}

/// The same, as if it were another time: certificates expire.
pub fn lint_at(file: &str, text: &str, now: SystemTime) -> Report {
    let mut ledger = Ledger::default();
    let otherwise = lint_text(file, text, now, &mut ledger);
    let checks = CheckId::ALL.iter().copied().filter(|check| check.group() == Group::Lint);
    Report {
        kind: ReportKind::ExtensionLint,
        target: file.to_owned(),
        results: ledger.into_results(checks, otherwise),
        variables: BTreeMap::new(),
    }
}

/// An ExtensionConfig that could be read.
struct Registered {
    subject: String,
    config: ExtensionConfig,
}

/// Returns why a check that nothing was noted about did not run.
fn lint_text(file: &str, text: &str, now: SystemTime, ledger: &mut Ledger) -> &'static str {
    ledger.looked_at(CheckId::L10, file);
    let documents: Vec<Value> = match serde_saphyr::from_multiple(text) {
        Ok(documents) => documents,
        Err(error) => {
            ledger.found(Finding::new(Rule::NotYaml, file, first_line(&error.to_string())));
            return "the file cannot be read, see L10";
        }
    };
    let (mut configs, mut classes, mut namespaces) = (Vec::new(), Vec::new(), Vec::new());
    for (index, document) in documents.into_iter().enumerate() {
        if document.is_null() {
            continue;
        }
        let text = |name: &str| document[name].as_str().unwrap_or_default();
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        let subject =
            if kind.is_empty() { format!("document {}", index + 1) } else { format!("{kind}/{name}") };
        match (api_version::group(api_version), kind) {
            _ if api_version.is_empty() || kind.is_empty() => {
                let observed = "apiVersion or kind is missing";
                ledger.found(Finding::new(Rule::NotAnObject, subject, observed));
            }
            (RUNTIME_GROUP, "ExtensionConfig") => {
                let checked = extension_config::check(&subject, document, now, ledger);
                configs.extend(checked.map(|config| Registered { subject, config }));
            }
            (CLUSTER_GROUP, "ClusterClass") => classes.push((subject, document)),
            ("", "Namespace") => namespaces.push(document),
            _ => {
                let observed = format!("{kind} of {api_version}");
                ledger.found(Finding::new(Rule::OtherDocument, subject, observed));
            }
        }
    }
    relations::check(&configs, &classes, &namespaces, ledger);
    "there is no ExtensionConfig in the file that could be read"
}

/// A parser may show the source below its message, which a one-line observation has no room for.
fn first_line(text: &str) -> String {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    /// The first day of 2030.
    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1_893_456_000)
    }

    fn pem(is_ca: IsCa, until_year: i32) -> String {
        let mut params = CertificateParams::new(["ext.ns.svc".to_owned()]).unwrap();
        params.is_ca = is_ca;
        params.not_before = rcgen::date_time_ymd(2020, 1, 1);
        params.not_after = rcgen::date_time_ymd(until_year, 1, 15);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap().pem()
    }

    fn ca(until_year: i32) -> String {
        STANDARD.encode(pem(IsCa::Ca(BasicConstraints::Unconstrained), until_year))
    }

    fn manifest(client_config: &str, rest: &str) -> String {
        format!(
            "apiVersion: runtime.cluster.x-k8s.io/v1beta2\nkind: ExtensionConfig\nmetadata:\n  name: ext\nspec:\n  clientConfig:\n{client_config}{rest}"
        )
    }

    fn service(ca: &str) -> String {
        format!("    service: {{namespace: ns, name: svc, port: 443}}\n    caBundle: {ca}\n")
    }

    const SELECT_ALL: &str = "  namespaceSelector: {}\n";

    fn rules(text: &str) -> Vec<Rule> {
        lint_at("f.yaml", text, now()).findings().map(|finding| finding.rule).collect()
    }

    #[test]
    fn a_good_manifest_has_no_findings() {
        let text = manifest(&service(&ca(2040)), SELECT_ALL);
        let report = lint_at("f.yaml", &text, now());
        assert_eq!(report.findings().collect::<Vec<_>>(), Vec::<&Finding>::new());
        assert_eq!(report.exit_code(), 0);
        assert!(report.summary().passed >= 9, "{}", report.to_table());
    }

    #[test]
    fn single_mistakes_are_found() {
        let good = service(&ca(2040));
        let key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        let noisy = STANDARD.encode(format!("{}{key}", pem(IsCa::Ca(BasicConstraints::Unconstrained), 2040)));
        let annotated = |value: &str| {
            manifest(&good, SELECT_ALL).replace(
                "  name: ext\n",
                &format!("  name: ext\n  annotations:\n    runtime.cluster.x-k8s.io/inject-ca-from-secret: {value}\n"),
            )
        };
        for (what, text, expected) in [
            ("not YAML", "a: [".to_owned(), vec![Rule::NotYaml]),
            ("no object", "a: 1".to_owned(), vec![Rule::NotAnObject]),
            ("a wrong type", manifest("    url: [https://h]\n", SELECT_ALL), vec![Rule::NotAnObject]),
            (
                "an old version",
                manifest(&good, SELECT_ALL).replace("v1beta2", "v1alpha1"),
                vec![Rule::OldApiVersion],
            ),
            (
                "no such version",
                manifest(&good, SELECT_ALL).replace("v1beta2", "v1beta1"),
                vec![Rule::NotAnObject],
            ),
            ("no endpoint", manifest("    {}\n", SELECT_ALL), vec![Rule::AdmissionRefuses, Rule::NoCaBundle]),
            (
                "a plain url",
                manifest(&format!("    url: http://h\n    caBundle: {}\n", ca(2040)), SELECT_ALL),
                vec![Rule::AdmissionRefuses],
            ),
            (
                "a url with a user",
                manifest(&format!("    url: https://u:p@h\n    caBundle: {}\n", ca(2040)), SELECT_ALL),
                vec![Rule::UrlForbiddenPart],
            ),
            (
                "a url with a query",
                manifest(&format!("    url: https://h/?x=y\n    caBundle: {}\n", ca(2040)), SELECT_ALL),
                vec![Rule::UrlForbiddenPart],
            ),
            ("no bundle", manifest("    url: https://h\n", SELECT_ALL), vec![Rule::NoCaBundle]),
            ("no selector", manifest(&good, ""), vec![Rule::SelectorAbsent]),
            ("a null selector", manifest(&good, "  namespaceSelector: null\n"), vec![Rule::SelectorAbsent]),
            (
                "a selector that contradicts itself",
                manifest(
                    &good,
                    "  namespaceSelector: {matchLabels: {a: b}, matchExpressions: [{key: a, operator: DoesNotExist}]}\n",
                ),
                vec![Rule::SelectorContradiction],
            ),
            (
                "a bad operator",
                manifest(&good, "  namespaceSelector: {matchExpressions: [{key: a, operator: Is}]}\n"),
                vec![Rule::AdmissionRefuses],
            ),
            (
                "a typo",
                manifest(&good, "  namespaceSelctor: {}\n"),
                vec![Rule::SelectorAbsent, Rule::UnknownField],
            ),
            (
                "a bundle that is PEM",
                manifest(&service("'-----BEGIN CERTIFICATE-----'"), SELECT_ALL),
                vec![Rule::BundleWithoutCertificates],
            ),
            (
                "a bundle of nothing",
                manifest(&service(&STANDARD.encode("nothing")), SELECT_ALL),
                vec![Rule::BundleWithoutCertificates],
            ),
            ("an expired bundle", manifest(&service(&ca(2029)), SELECT_ALL), vec![Rule::BundleExpired]),
            (
                "a bundle about to expire",
                manifest(&service(&ca(2030)), SELECT_ALL),
                vec![Rule::BundleExpiring],
            ),
            ("a bundle with a key", manifest(&service(&noisy), SELECT_ALL), vec![Rule::BundleNoise]),
            ("a good annotation", annotated("ns/cert"), vec![]),
            ("a bad annotation", annotated("cert"), vec![Rule::InjectAnnotationMalformed]),
            ("an annotation with two slashes", annotated("ns/a/b"), vec![Rule::InjectAnnotationShape]),
            (
                "another kind",
                format!(
                    "{}---\napiVersion: v1\nkind: Service\nmetadata: {{name: svc}}\n",
                    manifest(&good, SELECT_ALL)
                ),
                vec![Rule::OtherDocument],
            ),
        ] {
            assert_eq!(rules(&text), expected, "{what}\n{}", lint_at("f.yaml", &text, now()).to_table());
        }
    }

    #[test]
    fn typos_come_with_a_suggestion_and_fields_with_their_path() {
        let text =
            manifest("    url: https://h\n    caBundel: x\n", "  settings: {}\n  namespaceselector: {}\n");
        let report = lint_at("f.yaml", &text, now());
        let observed: Vec<&str> = report
            .findings()
            .filter(|finding| finding.rule == Rule::UnknownField)
            .map(|finding| finding.observed.as_str())
            .collect();
        assert_eq!(
            observed,
            [
                "caBundel is not a field; did you mean caBundle?",
                "namespaceselector is not a field; did you mean namespaceSelector?"
            ]
        );
        let subjects: Vec<&str> = report
            .findings()
            .filter(|finding| finding.rule == Rule::UnknownField)
            .map(|finding| finding.subject.as_str())
            .collect();
        assert_eq!(subjects[0], "ExtensionConfig/ext: spec.clientConfig.caBundel");
    }

    #[test]
    fn a_leaf_as_trust_anchor_is_fragile() {
        let issuer_key = KeyPair::generate().unwrap();
        let mut issuer = CertificateParams::new(Vec::new()).unwrap();
        issuer.distinguished_name.push(rcgen::DnType::CommonName, "the issuer");
        let issuer = rcgen::Issuer::new(issuer, issuer_key);
        let mut leaf = CertificateParams::new(["h".to_owned()]).unwrap();
        leaf.not_after = rcgen::date_time_ymd(2040, 1, 1);
        let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().pem();
        assert_eq!(rules(&manifest(&service(&STANDARD.encode(leaf)), SELECT_ALL)), [Rule::BundleNotCa]);
    }

    #[test]
    fn everything_about_the_other_objects_in_the_file() {
        let handler = |name: &str, hook: &str| {
            format!(
                "  - {{name: {name}, requestHook: {{apiVersion: hooks.runtime.cluster.x-k8s.io/v1alpha1, hook: {hook}}}}}\n"
            )
        };
        let status = |observed: u32, status: &str, handlers: &str| {
            format!(
                "status:\n  conditions:\n  - {{type: Discovered, status: '{status}', observedGeneration: {observed}, lastTransitionTime: '2026-01-01T00:00:00Z'}}\n  handlers:\n{handlers}"
            )
        };
        let config = |name: &str, selector: &str, status: &str| {
            manifest(&service(&ca(2040)), &format!("  namespaceSelector: {selector}\n{status}"))
                .replace("  name: ext\n", &format!("  name: {name}\n  generation: 2\n"))
        };
        let class = |namespace: &str, reference: &str| {
            format!(
                "---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {{name: class, namespace: {namespace}}}\nspec:\n  patches:\n  - name: p\n    external: {{{reference}}}\n  upgrade: {{external: {{generateUpgradePlanExtension: plan.ext}}}}\n"
            )
        };
        let namespace = |name: &str, label: &str| {
            format!(
                "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{team: {label}}}}}\n"
            )
        };
        let plan = handler("plan.ext", "GenerateUpgradePlan");
        let patches = handler("gp.ext", "GeneratePatches");
        let good = format!("{plan}{patches}{}", handler("dv.ext", "DiscoverVariables"));
        let refer = "generatePatchesExtension: gp.ext, discoverVariablesExtension: dv.ext";
        let only_a = "{matchLabels: {team: a}}";
        let updater = |name: &str| handler(&format!("um.{name}"), "UpdateMachine");
        for (what, text, expected) in [
            ("all good", config("ext", "{}", &status(2, "True", &good)) + &class("ns", refer), vec![]),
            ("stale", config("ext", "{}", &status(1, "True", &good)), vec![Rule::DiscoveredStale]),
            ("failed", config("ext", "{}", &status(2, "False", &good)), vec![Rule::NotDiscovered]),
            (
                "an unknown handler",
                config("ext", "{}", &status(2, "True", &plan))
                    + &class("ns", "generatePatchesExtension: gp.ext"),
                vec![Rule::ReferenceUnresolved],
            ),
            (
                "another hook",
                config("ext", "{}", &status(2, "True", &good))
                    + &class("ns", "generatePatchesExtension: dv.ext"),
                vec![Rule::ReferenceOfOtherHook],
            ),
            (
                "nothing to compare",
                config("ext", "{}", "") + &class("ns", refer),
                vec![Rule::ReferenceNotChecked],
            ),
            (
                "a class outside the selector",
                config("ext", only_a, &status(2, "True", &good))
                    + &class("ns", refer)
                    + &namespace("ns", "b")
                    + &namespace("other", "a"),
                vec![Rule::ClassNamespaceNotSelected],
            ),
            (
                "a class outside a selector by name",
                config("ext", "{matchLabels: {kubernetes.io/metadata.name: x}}", &status(2, "True", &good))
                    + &class("ns", refer),
                vec![Rule::ClassNamespaceNotSelected],
            ),
            (
                "no namespace matches",
                config("ext", only_a, "") + &namespace("ns", "b"),
                vec![Rule::SelectorMatchesNone],
            ),
            (
                "two updaters",
                config("one", "{}", &status(2, "True", &updater("one")))
                    + "---\n"
                    + &config("two", only_a, &status(2, "True", &updater("two"))),
                vec![Rule::InPlaceOverlap],
            ),
            (
                "two updaters apart",
                config("one", "{matchLabels: {team: b}}", &status(2, "True", &updater("one")))
                    + "---\n"
                    + &config("two", only_a, &status(2, "True", &updater("two"))),
                vec![],
            ),
        ] {
            assert_eq!(rules(&text), expected, "{what}\n{}", lint_at("f.yaml", &text, now()).to_table());
        }
    }
}
