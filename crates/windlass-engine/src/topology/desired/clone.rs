//! From a template of a class to an object or to a template of one Cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::{Map, Value, json};
use windlass_api::api_version;
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, LAST_APPLIED_CONFIGURATION_ANNOTATION,
};

/// What a clone gets besides what its template says.
#[derive(Debug)]
pub(super) struct Identity<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: String,
    pub(super) labels: BTreeMap<String, String>,
    pub(super) annotations: BTreeMap<String, String>,
    /// Owner of the clone, if it has one from the beginning.
    pub(super) owner: Option<OwnerReference>,
}

/// The object that a template describes in `spec.template`.
pub(super) fn object(template: &Value, identity: Identity<'_>) -> Value {
    let inner = template.pointer("/spec/template").unwrap_or(&Value::Null);
    let kind = text(template, "/kind");
    let mut object = json!({
        "apiVersion": text(template, "/apiVersion"),
        "kind": kind.strip_suffix("Template").unwrap_or(kind),
        "metadata": metadata(template, inner, identity),
    });
    if let Some(spec) = inner.get("spec") {
        object["spec"] = spec.clone();
    }
    object
}

/// A copy of a template for one Cluster.
pub(super) fn template(template: &Value, identity: Identity<'_>) -> Value {
    let mut copy = json!({
        "apiVersion": text(template, "/apiVersion"),
        "kind": text(template, "/kind"),
        "metadata": metadata(template, template, identity),
    });
    // An empty one may be refused where none is accepted.
    if let Some(spec) =
        template.get("spec").filter(|spec| spec.as_object().is_none_or(|spec| !spec.is_empty()))
    {
        copy["spec"] = spec.clone();
    }
    copy
}

/// Labels and annotations of the template stay; those of the topology win; nothing else of the metadata is taken.
fn metadata(template: &Value, source: &Value, identity: Identity<'_>) -> Value {
    let Identity { namespace, name, labels, annotations, owner } = identity;
    let mut all_labels = texts(source, "/metadata/labels");
    all_labels.extend(labels.into_iter().map(|(key, value)| (key, json!(value))));
    let mut all_annotations = texts(source, "/metadata/annotations");
    all_annotations.remove(LAST_APPLIED_CONFIGURATION_ANNOTATION);
    all_annotations.extend(annotations.into_iter().map(|(key, value)| (key, json!(value))));
    let group = api_version::group(text(template, "/apiVersion"));
    all_annotations.insert(CLONED_FROM_NAME_ANNOTATION.to_owned(), json!(text(template, "/metadata/name")));
    all_annotations.insert(
        CLONED_FROM_GROUP_KIND_ANNOTATION.to_owned(),
        json!(format!("{}.{group}", text(template, "/kind"))),
    );
    let mut metadata = json!({
        "namespace": namespace,
        "name": name,
        "labels": all_labels,
        "annotations": all_annotations,
    });
    if let Some(owner) = owner {
        metadata["ownerReferences"] = json!([owner]);
    }
    metadata
}

fn texts(object: &Value, pointer: &str) -> Map<String, Value> {
    object.pointer(pointer).and_then(Value::as_object).cloned().unwrap_or_default()
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}
