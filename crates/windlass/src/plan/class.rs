//! The versions that a ClusterClass manifest lists.

use std::path::Path;

use serde_json::Value;
use windlass_api::api_version;
use windlass_api::names::CLUSTER_GROUP;
use windlass_plan::Source;

use crate::{manifests, output};

/// Largest manifest file that is read. An API server takes no request above 3 MiB, so no object is larger.
const MAX_FILE: u64 = 3 * 1024 * 1024;

/// The source that the one ClusterClass in a manifest file stands for, or what is wrong with the file.
pub(super) fn source(path: &Path) -> Result<Source, String> {
    let text = output::read_file(path, MAX_FILE)?;
    from_manifests(&text).map_err(|message| format!("{}: {message}", path.display()))
}

fn from_manifests(text: &str) -> Result<Source, String> {
    of_documents(&manifests::parse(text)?)
}

/// Whether a manifest is a ClusterClass.
pub(super) fn is_class(document: &Value) -> bool {
    let group = document["apiVersion"].as_str().map(api_version::group);
    document["kind"] == "ClusterClass" && group == Some(CLUSTER_GROUP)
}

/// The source that the one ClusterClass among manifests stands for.
pub(super) fn of_documents(documents: &[Value]) -> Result<Source, String> {
    let mut classes = documents.iter().filter(|document| is_class(document));
    let Some(class) = classes.next() else {
        let kinds: Vec<&str> =
            documents.iter().filter_map(|document| document["kind"].as_str()).take(5).collect();
        return Err(match kinds.as_slice() {
            [] => "no ClusterClass of cluster.x-k8s.io in it".to_owned(),
            kinds => format!("no ClusterClass of cluster.x-k8s.io in it, only {}", kinds.join(", ")),
        });
    };
    if classes.next().is_some() {
        return Err("more than one ClusterClass in it: keep the one to plan with".to_owned());
    }
    let extension = &class["spec"]["upgrade"]["external"]["generateUpgradePlanExtension"];
    if let Some(extension) = extension.as_str().filter(|name| !name.is_empty()) {
        return Err(format!(
            "spec.upgrade.external: plans of this class come from extension {extension:?}, which is not called \
             here: pass its answer with --control-plane-upgrades"
        ));
    }
    match &class["spec"]["kubernetesVersions"] {
        Value::Null => Ok(Source::OneMinor),
        Value::Array(versions) if versions.is_empty() => Ok(Source::OneMinor),
        Value::Array(versions) => {
            versions
                .iter()
                .enumerate()
                .map(|(index, version)| text_item(index, version))
                .collect::<Result<_, _>>()
        }
        .map(Source::Versions),
        other => Err(format!("spec.kubernetesVersions: expected a list, found {}", kind_of(other))),
    }
}

fn text_item(index: usize, version: &Value) -> Result<String, String> {
    version.as_str().map(str::to_owned).ok_or_else(|| {
        let hint = if version.is_number() { ": put it in quotes" } else { "" };
        format!("spec.kubernetesVersions[{index}]: expected a string, found {}{hint}", kind_of(version))
    })
}

fn kind_of(value: &Value) -> String {
    match value {
        Value::Null => "nothing".to_owned(),
        Value::Bool(_) | Value::Number(_) => format!("{value}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a mapping".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: &str = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata: {name: c}\n";

    fn versions(spec: &str) -> Result<Source, String> {
        from_manifests(&format!("{CLASS}{spec}"))
    }

    #[test]
    fn the_listed_versions_are_the_source() {
        let list = versions("spec:\n  kubernetesVersions: [v1.30.0, \"1.31\"]\n");
        assert_eq!(list, Ok(Source::versions(["v1.30.0", "1.31"])));
        assert_eq!(versions("spec: {}\n"), Ok(Source::OneMinor));
        assert_eq!(versions(""), Ok(Source::OneMinor));
        assert_eq!(versions("spec: {kubernetesVersions: []}\n"), Ok(Source::OneMinor));
    }

    #[test]
    fn the_class_is_found_among_other_manifests() {
        let text = format!(
            "apiVersion: v1\nkind: Secret\n---\n{CLASS}spec: {{kubernetesVersions: [v1.30.0]}}\n---\n"
        );
        assert_eq!(from_manifests(&text), Ok(Source::versions(["v1.30.0"])));
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, message) in [
            (
                format!("{CLASS}spec: {{kubernetesVersions: [v1.29.0, 1.30]}}"),
                "spec.kubernetesVersions[1]: expected a string, found 1.3: put it in quotes",
            ),
            (
                format!("{CLASS}spec: {{kubernetesVersions: v1.30.0}}"),
                "spec.kubernetesVersions: expected a list, found a string",
            ),
            (format!("{CLASS}---\n{CLASS}"), "more than one ClusterClass in it: keep the one to plan with"),
            ("kind: Secret".to_owned(), "no ClusterClass of cluster.x-k8s.io in it, only Secret"),
            (String::new(), "no ClusterClass of cluster.x-k8s.io in it"),
            (
                format!(
                    "{CLASS}spec: {{upgrade: {{external: {{generateUpgradePlanExtension: plan.acme}}}}}}"
                ),
                "spec.upgrade.external: plans of this class come from extension \"plan.acme\", which is not called \
                 here: pass its answer with --control-plane-upgrades",
            ),
        ] {
            assert_eq!(from_manifests(&text), Err(message.to_owned()));
        }
        let broken = from_manifests("spec: [1, 2\nkind: x: y").unwrap_err();
        assert!(broken.starts_with("not valid YAML: ") && broken.contains("line 2"), "{broken}");
    }

    #[test]
    fn a_document_that_expands_without_end_is_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for level in 1..12 {
            let alias = format!("*a{}, ", level - 1).repeat(10);
            bomb.push_str(&format!("a{level}: &a{level} [{}]\n", alias.trim_end_matches(", ")));
        }
        assert!(from_manifests(&bomb).unwrap_err().starts_with("not valid YAML: "));
    }
}
