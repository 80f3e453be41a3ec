//! Where our definitions are not a superset on purpose. Short, and each with its reason.

use super::compare::Difference;

/// Kind (or its beginning, before `*`), path (or its end, after `*`), and the word for what is different.
const DEVIATIONS: &[(&str, &str, &str, &str)] = &[
    ("*", "*.replicas", "minimum", "a negative count means nothing, and is refused at once"),
    ("*", "*.remediation.maxRetry", "minimum", "the same"),
    ("ExtensionConfig", "spec.clientConfig.service.port", "minimum", "upstream's webhook refuses it, too"),
    ("ExtensionConfig", "spec.clientConfig.service.port", "maximum", "the same"),
    (
        "ExtensionConfig",
        "spec.clientConfig.service.port",
        "default",
        "upstream's webhook writes the same value",
    ),
    ("ExtensionConfig", "spec.namespaceSelector", "default", "the same"),
    ("MachineHealthCheck", "spec.checks", "default", "the same"),
    ("ClusterResourceSet", "spec.clusterSelector", "rule", "upstream's webhook refuses it, too"),
    ("ClusterResourceSet", "spec.strategy", "rule", "the same"),
    (
        "Docker*",
        "",
        "kind",
        "another infrastructure provider's, which upstream gives up after 1.14; the Dev kinds take its backend",
    ),
];

/// Why a difference is meant to be.
pub(super) fn why(difference: &Difference) -> Option<&'static str> {
    DEVIATIONS.iter().find_map(|(kind, path, word, why)| {
        let of_kind = match kind.strip_suffix('*') {
            Some(beginning) => difference.kind.starts_with(beginning),
            None => difference.kind == *kind,
        };
        let at_path = match path.strip_prefix('*') {
            Some(end) => difference.path.ends_with(end),
            None => difference.path == *path,
        };
        (of_kind && at_path && difference.what.word() == *word).then_some(*why)
    })
}
