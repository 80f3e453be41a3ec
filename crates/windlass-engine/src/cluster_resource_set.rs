//! ClusterResourceSets: what is in a ConfigMap or a Secret, whether it is to be applied, and what is said about it.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::Value;
use sha2::{Digest, Sha256};
use windlass_api::addons::{
    ClusterResourceSetBindingSpec, ClusterResourceSetStrategy, ResourceBinding, ResourceRef,
    ResourceSetBinding,
};
use windlass_api::conditions::{RESOURCES_APPLIED, reason};

use crate::condition::Finding;

/// Type of Secrets whose content may be applied. Others are refused: a set must not spread every Secret of its namespace.
pub const RESOURCE_SET_SECRET_TYPE: &str = "addons.cluster.x-k8s.io/resource-set";

/// What stands in a ConfigMap or a Secret, by key.
pub type Content = BTreeMap<String, String>;

/// Why something of a set is not in a cluster.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotApplied {
    /// The ConfigMap or Secret is not there.
    #[error("{} {} does not exist", .0.kind, .0.name)]
    Missing(ResourceRef),
    /// The Secret has another type.
    #[error("Secret {name} has type {type_:?}, not {RESOURCE_SET_SECRET_TYPE}")]
    WrongSecretType {
        /// Name of the Secret.
        name: String,
        /// The type that the Secret has.
        type_: String,
    },
    /// What is in it cannot be read as objects.
    #[error("{} {}: {key}: {why}", .resource.kind, .resource.name)]
    Unreadable {
        /// The ConfigMap or Secret.
        resource: ResourceRef,
        /// The key in it.
        key: String,
        /// What is wrong.
        why: String,
    },
    /// A cluster did not take it.
    #[error("Cluster {cluster}: {} {}: {why}", .resource.kind, .resource.name)]
    Refused {
        /// Name of the Cluster.
        cluster: String,
        /// The ConfigMap or Secret.
        resource: ResourceRef,
        /// What it said.
        why: String,
    },
    /// A cluster does not answer.
    #[error("Cluster {cluster} does not answer: {why}")]
    NoAnswer {
        /// Name of the Cluster.
        cluster: String,
        /// Why.
        why: String,
    },
}

/// The objects in a ConfigMap or a Secret, in the order in which they are applied: what others need first, then by key and
/// place.
///
/// # Errors
///
/// [`NotApplied::Unreadable`], for the first key whose value is not a sequence of objects.
pub fn objects(resource: &ResourceRef, content: &Content) -> Result<Vec<Value>, NotApplied> {
    let mut objects = Vec::new();
    for (key, text) in content {
        let unreadable =
            |why: String| NotApplied::Unreadable { resource: resource.clone(), key: key.clone(), why };
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(text).map_err(|error| unreadable(error.to_string()))?;
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            match document["items"].as_array() {
                Some(items) if document["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => {
                    objects.extend(items.iter().cloned());
                }
                _ => objects.push(document),
            }
        }
        if let Some(bad) = objects.iter().find(|object| !is_object(object)) {
            let name = bad["metadata"]["name"].as_str().unwrap_or("a document");
            return Err(unreadable(format!("{name} has no apiVersion, kind or metadata.name")));
        }
    }
    objects.sort_by_key(precedence);
    Ok(objects)
}

fn is_object(value: &Value) -> bool {
    let has = |pointer| value.pointer(pointer).and_then(Value::as_str).is_some_and(|text| !text.is_empty());
    has("/apiVersion") && has("/kind") && (has("/metadata/name") || has("/metadata/generateName"))
}

/// Namespaces and CRDs come before what is in them or of them.
fn precedence(object: &Value) -> u8 {
    match object["kind"].as_str() {
        Some("Namespace") => 0,
        Some("CustomResourceDefinition") => 1,
        Some("ServiceAccount" | "Secret" | "ConfigMap" | "StorageClass") => 2,
        Some("ClusterRole" | "Role" | "ClusterRoleBinding" | "RoleBinding") => 3,
        _ => 4,
    }
}

/// A number for what stands in a ConfigMap or a Secret, by which changes are told.
pub fn hash(content: &Content) -> String {
    let mut hasher = Sha256::new();
    for (key, value) in content {
        // Lengths keep `a: bc` and `ab: c` apart.
        for part in [key, value] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
    }
    let digest = hasher.finalize();
    digest.iter().fold("sha256:".to_owned(), |text, byte| format!("{text}{byte:02x}"))
}

/// Whether a ConfigMap or a Secret has to be applied to a cluster, by what is on record.
pub fn needs_apply(
    strategy: Option<&ClusterResourceSetStrategy>,
    record: Option<&ResourceBinding>,
    hash: &str,
) -> bool {
    let Some(record) = record else { return true };
    let changed = strategy == Some(&ClusterResourceSetStrategy::Reconcile) && record.hash != hash;
    record.applied != Some(true) || changed
}

/// The record of a set in the binding of a cluster.
pub fn record_of<'a>(
    binding: &'a ClusterResourceSetBindingSpec,
    set: &str,
    resource: &ResourceRef,
) -> Option<&'a ResourceBinding> {
    let of_set = binding.bindings.iter().find(|one| one.cluster_resource_set_name == set)?;
    of_set.resources.iter().find(|one| one.kind == resource.kind && one.name == resource.name)
}

/// Writes down what became of a ConfigMap or a Secret of a set; what stands there of others stays.
pub fn record(
    binding: &mut ClusterResourceSetBindingSpec,
    set: &str,
    resource: &ResourceRef,
    (applied, hash): (bool, &str),
    now: Timestamp,
) {
    let made = ResourceBinding {
        kind: resource.kind.clone(),
        name: resource.name.clone(),
        // A failed attempt leaves no hash: the next one is due whatever changes.
        hash: if applied { hash.to_owned() } else { String::new() },
        last_applied_time: Some(Time(now)),
        applied: Some(applied),
    };
    let position = binding.bindings.iter().position(|one| one.cluster_resource_set_name == set);
    let position = position.unwrap_or_else(|| {
        let new = ResourceSetBinding { cluster_resource_set_name: set.to_owned(), ..Default::default() };
        binding.bindings.push(new);
        binding.bindings.len() - 1
    });
    let resources = &mut binding.bindings[position].resources;
    match resources.iter_mut().find(|one| one.kind == made.kind && one.name == made.name) {
        // That it failed again is no news: a record that changes with every attempt would be the reason for the next one.
        Some(one) if !applied && one.applied == Some(false) => {}
        Some(one) => *one = made,
        None => resources.push(made),
    }
}

/// The condition ResourcesApplied: all that is missing, in the order in which it was found.
pub fn applied(problems: &[NotApplied]) -> Finding {
    if problems.is_empty() {
        return Finding::yes(RESOURCES_APPLIED, reason::APPLIED);
    }
    let wrong_type = problems.iter().any(|problem| matches!(problem, NotApplied::WrongSecretType { .. }));
    let why = if wrong_type { reason::WRONG_SECRET_TYPE } else { reason::NOT_APPLIED };
    let mut lines: Vec<String> = problems.iter().map(|problem| format!("* {problem}")).collect();
    lines.dedup();
    Finding::no(RESOURCES_APPLIED, why).because(lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use windlass_api::addons::ResourceKind;

    use super::*;

    fn map() -> ResourceRef {
        ResourceRef { kind: ResourceKind::ConfigMap, name: "cni".to_owned() }
    }

    fn content(parts: &[(&str, &str)]) -> Content {
        parts.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn objects_come_after_what_they_need() {
        let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\n---\n---\napiVersion: v1\nkind: List\nitems:\n\
                    - {apiVersion: v1, kind: Namespace, metadata: {name: ns}}\n- {apiVersion: v1, kind: Secret, metadata: {name: s}}\n";
        let crd = r#"{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "c"}}"#;
        let found = objects(&map(), &content(&[("a.yaml", text), ("b.json", crd)])).unwrap();
        let names: Vec<&str> =
            found.iter().filter_map(|object| object["metadata"]["name"].as_str()).collect();
        assert_eq!(names, ["ns", "c", "s", "p"]);
        assert_eq!(objects(&map(), &content(&[("empty", "")])).unwrap(), Vec::<Value>::new());
    }

    #[test]
    fn what_is_no_object_is_named_with_its_key() {
        for (text, says) in [
            ("{", "ConfigMap cni: k: "),
            (
                "kind: Pod\nmetadata: {name: p}",
                "ConfigMap cni: k: p has no apiVersion, kind or metadata.name",
            ),
            ("just text", "a document has no apiVersion"),
        ] {
            let said = objects(&map(), &content(&[("k", text)])).unwrap_err().to_string();
            assert!(said.contains(says), "{said}");
        }
    }

    #[test]
    fn once_is_once_and_reconcile_follows_changes() {
        let (once, again) = (ClusterResourceSetStrategy::ApplyOnce, ClusterResourceSetStrategy::Reconcile);
        let record = |applied, hash: &str| ResourceBinding {
            applied: Some(applied),
            hash: hash.to_owned(),
            ..Default::default()
        };
        for (strategy, record, expected) in [
            (None, None, true),
            (None, Some(record(true, "other")), false),
            (None, Some(record(false, "same")), true),
            (Some(&once), Some(record(true, "other")), false),
            (Some(&again), Some(record(true, "other")), true),
            (Some(&again), Some(record(true, "same")), false),
            (Some(&again), Some(record(false, "same")), true),
        ] {
            assert_eq!(needs_apply(strategy, record.as_ref(), "same"), expected, "{strategy:?} {record:?}");
        }
    }

    #[test]
    fn a_hash_changes_with_keys_and_values() {
        let one = hash(&content(&[("a", "bc")]));
        assert!(one.starts_with("sha256:") && one.len() == 71, "{one}");
        assert_eq!(one, hash(&content(&[("a", "bc")])));
        assert_ne!(one, hash(&content(&[("ab", "c")])));
    }

    #[test]
    fn a_record_leaves_those_of_others_alone() {
        let mut binding = ClusterResourceSetBindingSpec::default();
        record(&mut binding, "other", &map(), (true, "h0"), Timestamp::UNIX_EPOCH);
        record(&mut binding, "set", &map(), (false, "h1"), Timestamp::UNIX_EPOCH);
        assert_eq!(record_of(&binding, "set", &map()).unwrap().hash, "");
        let failed = binding.clone();
        record(&mut binding, "set", &map(), (false, "h1"), Timestamp::MAX);
        assert_eq!(binding, failed, "that it fails again is no change");
        record(&mut binding, "set", &map(), (true, "h1"), Timestamp::UNIX_EPOCH);
        let mine = record_of(&binding, "set", &map()).unwrap();
        assert_eq!((mine.applied, mine.hash.as_str()), (Some(true), "h1"));
        assert_eq!(record_of(&binding, "other", &map()).unwrap().hash, "h0");
        assert_eq!(binding.bindings.len(), 2);
    }

    #[test]
    fn the_condition_names_everything_that_is_missing() {
        let wrong = NotApplied::WrongSecretType { name: "s".to_owned(), type_: "Opaque".to_owned() };
        let said = applied(&[NotApplied::Missing(map()), wrong]);
        assert_eq!(said.reason, "WrongSecretType");
        assert_eq!(
            said.message,
            "* ConfigMap cni does not exist\n* Secret s has type \"Opaque\", not addons.cluster.x-k8s.io/resource-set"
        );
        assert_eq!(applied(&[]).reason, "Applied");
    }
}
