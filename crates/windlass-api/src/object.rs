//! Kubernetes objects of any kind, as they travel inside hook requests.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use windlass_patch::pointer;

use crate::names::{REPEATS_THE_OBJECT, WAITING_ON_ANNOTATION};

/// A Kubernetes object of which nothing is lost, whatever its kind and version.
///
/// Accessors answer `None` both for what is absent and for what has the wrong type: an object came through
/// an API server that checked it, or its reader decides what a missing field means.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Object(Map<String, Value>);

impl schemars::JsonSchema for Object {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "io.k8s.apimachinery.pkg.runtime.RawExtension".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "object",
            "description": "A Kubernetes object of any type, with apiVersion and kind.",
        })
    }
}

impl Object {
    /// Turns a typed object into its JSON form.
    ///
    /// # Errors
    ///
    /// When the value does not serialise, or does not serialise to a JSON object.
    pub fn from_typed<T: Serialize>(value: &T) -> Result<Self, ObjectError> {
        Self::try_from(serde_json::to_value(value).map_err(ObjectError::Serialize)?)
    }

    /// Reads the object as a typed one.
    ///
    /// # Errors
    ///
    /// When the object does not have the shape of the type.
    pub fn to_typed<T: DeserializeOwned>(&self) -> Result<T, ObjectError> {
        serde_json::from_value(Value::Object(self.0.clone())).map_err(ObjectError::Deserialize)
    }

    /// `apiVersion`.
    pub fn api_version(&self) -> Option<&str> {
        self.0.get("apiVersion")?.as_str()
    }

    /// `kind`.
    pub fn kind(&self) -> Option<&str> {
        self.0.get("kind")?.as_str()
    }

    /// `metadata.name`.
    pub fn name(&self) -> Option<&str> {
        self.metadata()?.get("name")?.as_str()
    }

    /// `metadata.namespace`.
    pub fn namespace(&self) -> Option<&str> {
        self.metadata()?.get("namespace")?.as_str()
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> Option<&str> {
        self.metadata()?.get("uid")?.as_str()
    }

    /// `metadata.resourceVersion`. Opaque: equal or not, nothing else.
    pub fn resource_version(&self) -> Option<&str> {
        self.metadata()?.get("resourceVersion")?.as_str()
    }

    /// `metadata.generation`.
    pub fn generation(&self) -> Option<i64> {
        self.metadata()?.get("generation")?.as_i64()
    }

    /// All labels.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text_map("labels")
    }

    /// One label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.metadata()?.get("labels")?.get(key)?.as_str()
    }

    /// All annotations.
    pub fn annotations(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text_map("annotations")
    }

    /// One annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata()?.get("annotations")?.get(key)?.as_str()
    }

    /// `metadata`.
    pub fn metadata(&self) -> Option<&Map<String, Value>> {
        self.0.get("metadata")?.as_object()
    }

    /// `spec`.
    pub fn spec(&self) -> Option<&Value> {
        self.0.get("spec")
    }

    /// `status`.
    pub fn status(&self) -> Option<&Value> {
        self.0.get("status")
    }

    /// Whatever an RFC 6901 pointer leads to.
    pub fn pointer(&self, at: &str) -> Option<&Value> {
        let below = at.strip_prefix('/')?;
        let (first, rest) = match below.split_once('/') {
            Some((first, rest)) => (first, Some(rest)),
            None => (below, None),
        };
        let child = self.0.get(pointer::unescape(first).as_ref())?;
        match rest {
            Some(rest) => child.pointer(&format!("/{rest}")),
            None => Some(child),
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The fields of the object.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// The fields of the object, to be changed.
    pub fn as_map_mut(&mut self) -> &mut Map<String, Value> {
        &mut self.0
    }

    /// The fields of the object.
    pub fn into_map(self) -> Map<String, Value> {
        self.0
    }

    /// The object as extensions get to see it in lifecycle and topology requests: without managed fields
    /// and without the two annotations that repeat the object. Unlike upstream, `status` stays.
    #[must_use]
    pub fn for_hook_request(mut self) -> Self {
        if let Some(Value::Object(metadata)) = self.0.get_mut("metadata") {
            metadata.remove("managedFields");
            if let Some(Value::Object(annotations)) = metadata.get_mut("annotations") {
                annotations.retain(|key, _| !REPEATS_THE_OBJECT.contains(&key.as_str()));
                if annotations.is_empty() {
                    metadata.remove("annotations");
                }
            }
        }
        self
    }

    /// The object as extensions get to see it in requests of in-place updates: what identifies it, its
    /// labels, annotations and `spec`. An extension sees neither owners nor status, nor annotations that repeat the object.
    #[must_use]
    pub fn in_place_view(&self) -> Self {
        let mut view = pick(&self.0, &["apiVersion", "kind"]);
        if let Some(metadata) = self.metadata() {
            let metadata = pick(metadata, &["annotations", "labels", "name", "namespace"]);
            view.insert("metadata".to_owned(), Value::Object(metadata));
        }
        view.extend(pick(&self.0, &["spec"]));
        let mut view = Self(view).for_hook_request();
        // How long a Machine waits is no part of what it is.
        if let Some(Value::Object(annotations)) =
            view.0.get_mut("metadata").and_then(|metadata| metadata.get_mut("annotations"))
        {
            annotations.remove(WAITING_ON_ANNOTATION);
        }
        view
    }

    fn text_map(&self, field: &str) -> impl Iterator<Item = (&str, &str)> {
        self.metadata()
            .and_then(|metadata| metadata.get(field)?.as_object())
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }
}

fn pick(from: &Map<String, Value>, keys: &[&str]) -> Map<String, Value> {
    keys.iter().filter_map(|&key| Some((key.to_owned(), from.get(key)?.clone()))).collect()
}

impl From<Map<String, Value>> for Object {
    fn from(fields: Map<String, Value>) -> Self {
        Self(fields)
    }
}

impl TryFrom<Value> for Object {
    type Error = ObjectError;

    fn try_from(value: Value) -> Result<Self, ObjectError> {
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            Value::Null => Err(ObjectError::NotAnObject("null")),
            Value::Bool(_) => Err(ObjectError::NotAnObject("a boolean")),
            Value::Number(_) => Err(ObjectError::NotAnObject("a number")),
            Value::String(_) => Err(ObjectError::NotAnObject("a string")),
            Value::Array(_) => Err(ObjectError::NotAnObject("an array")),
        }
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        Self::Object(object.0)
    }
}

/// Why a value is no object.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// A JSON value of another type.
    #[error("expected a JSON object, found {0}")]
    NotAnObject(&'static str),
    /// A typed value that does not serialise.
    #[error("cannot be written as JSON: {0}")]
    Serialize(#[source] serde_json::Error),
    /// An object that does not have the shape of the type it was read as.
    #[error("does not have the expected shape: {0}")]
    Deserialize(#[source] serde_json::Error),
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cluster() -> Object {
        Object::try_from(json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2",
            "kind": "Cluster",
            "metadata": {
                "name": "c1",
                "namespace": "ns1",
                "uid": "u-1",
                "resourceVersion": "42",
                "generation": 7,
                "creationTimestamp": null,
                "labels": {"team": "a", "wrong": 1},
                "annotations": {
                    "kubectl.kubernetes.io/last-applied-configuration": "{}",
                    "cluster.x-k8s.io/conversion-data": "{}",
                    "runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade",
                },
                "managedFields": [{"manager": "kubectl"}],
                "ownerReferences": [],
            },
            "spec": {"topology": {"version": "v1.33.1"}, "unknown/field": [1, 2]},
            "status": {"phase": "Provisioned"},
        }))
        .unwrap()
    }

    #[test]
    fn accessors_read_metadata() {
        let cluster = cluster();
        assert_eq!(cluster.api_version(), Some("cluster.x-k8s.io/v1beta2"));
        assert_eq!(cluster.kind(), Some("Cluster"));
        assert_eq!(cluster.name(), Some("c1"));
        assert_eq!(cluster.namespace(), Some("ns1"));
        assert_eq!(cluster.uid(), Some("u-1"));
        assert_eq!(cluster.resource_version(), Some("42"));
        assert_eq!(cluster.generation(), Some(7));
        assert_eq!(cluster.label("team"), Some("a"));
        assert_eq!(cluster.label("wrong"), None);
        assert_eq!(cluster.labels().collect::<Vec<_>>(), [("team", "a")]);
        assert_eq!(cluster.annotation("runtime.cluster.x-k8s.io/pending-hooks"), Some("AfterClusterUpgrade"));
        assert_eq!(cluster.annotations().count(), 3);
    }

    #[test]
    fn accessors_of_an_empty_object_find_nothing() {
        let empty = Object::default();
        assert!(empty.is_empty());
        assert_eq!(empty.name(), None);
        assert_eq!(empty.labels().count(), 0);
        assert_eq!(empty.pointer("/spec"), None);
    }

    #[test]
    fn pointers_lead_into_the_object() {
        let cluster = cluster();
        for (pointer, expected) in [
            ("/spec/topology/version", Some(json!("v1.33.1"))),
            ("/spec/unknown~1field/1", Some(json!(2))),
            ("/kind", Some(json!("Cluster"))),
            ("/nothing/here", None),
            ("kind", None),
            ("", None),
        ] {
            assert_eq!(cluster.pointer(pointer), expected.as_ref(), "{pointer}");
        }
    }

    #[test]
    fn extensions_see_neither_managed_fields_nor_copies_of_the_object() {
        let seen = cluster().for_hook_request();
        let mut expected = cluster();
        let metadata = expected.as_map_mut()["metadata"].as_object_mut().unwrap();
        metadata.remove("managedFields");
        metadata["annotations"] = json!({"runtime.cluster.x-k8s.io/pending-hooks": "AfterClusterUpgrade"});
        assert_eq!(seen, expected);
        assert_eq!(seen.status(), Some(&json!({"phase": "Provisioned"})));
    }

    #[test]
    fn annotations_that_become_empty_are_removed() {
        let object = Object::try_from(json!({
            "metadata": {"name": "t", "annotations": {"cluster.x-k8s.io/conversion-data": "{}"}},
        }))
        .unwrap();
        assert_eq!(Value::from(object.for_hook_request()), json!({"metadata": {"name": "t"}}));
    }

    #[test]
    fn an_in_place_view_has_identity_labels_annotations_and_spec() {
        let view = cluster().in_place_view();
        assert_eq!(view.as_map().keys().collect::<Vec<_>>(), ["apiVersion", "kind", "metadata", "spec"]);
        assert_eq!(
            view.metadata().unwrap().keys().collect::<Vec<_>>(),
            ["annotations", "labels", "name", "namespace"]
        );
        assert_eq!(view.spec(), cluster().spec());
    }

    #[test]
    fn only_json_objects_are_objects() {
        for (value, message) in [
            (json!([]), "expected a JSON object, found an array"),
            (json!("x"), "expected a JSON object, found a string"),
            (json!(null), "expected a JSON object, found null"),
        ] {
            assert_eq!(Object::try_from(value).unwrap_err().to_string(), message);
        }
    }
}
