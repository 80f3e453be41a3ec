//! Which object it is: what every object that was read from an API has, and references to owners made of it.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube_core::Resource;

/// An object lacks a field that the API server gives to every object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind} {object} has no {field}")]
pub struct Incomplete {
    /// The kind of the object.
    pub kind: String,
    /// The object as messages name it: `NAMESPACE/NAME`, or `NAME` where there is no namespace.
    pub object: String,
    /// The path of the field that is missing.
    pub field: &'static str,
}

/// The UID of an object that was read.
///
/// # Errors
///
/// When it has none.
pub fn uid_of<K: Resource<DynamicType: Default>>(object: &K) -> Result<&str, Incomplete> {
    required(&K::kind(&K::DynamicType::default()), object.meta(), "metadata.uid", |meta| meta.uid.as_deref())
}

/// The name of an object that was read.
///
/// # Errors
///
/// When it has none.
pub fn name_of<K: Resource<DynamicType: Default>>(object: &K) -> Result<&str, Incomplete> {
    required(&K::kind(&K::DynamicType::default()), object.meta(), "metadata.name", |meta| {
        meta.name.as_deref()
    })
}

/// The namespace of an object that was read, of a kind whose objects have one.
///
/// # Errors
///
/// When it has none.
pub fn namespace_of<K: Resource<DynamicType: Default>>(object: &K) -> Result<&str, Incomplete> {
    required(&K::kind(&K::DynamicType::default()), object.meta(), "metadata.namespace", |meta| {
        meta.namespace.as_deref()
    })
}

/// The generation of an object that was read: how often its spec was changed.
///
/// # Errors
///
/// When it has none.
pub fn generation_of<K: Resource<DynamicType: Default>>(object: &K) -> Result<i64, Incomplete> {
    let missing = || {
        let kind = K::DynamicType::default();
        Incomplete::of(&K::kind(&kind), object.meta(), "metadata.generation")
    };
    object.meta().generation.ok_or_else(missing)
}

/// Says that an object goes when its owner goes.
///
/// # Errors
///
/// When the owner has no name or no UID.
pub fn owner_reference<K: Resource<DynamicType: Default>>(owner: &K) -> Result<OwnerReference, Incomplete> {
    let dynamic = K::DynamicType::default();
    Ok(OwnerReference {
        api_version: K::api_version(&dynamic).into_owned(),
        kind: K::kind(&dynamic).into_owned(),
        name: name_of(owner)?.to_owned(),
        uid: uid_of(owner)?.to_owned(),
        controller: None,
        block_owner_deletion: None,
    })
}

/// Says that an object is controlled by its owner, and goes with it.
///
/// # Errors
///
/// When the owner has no name or no UID.
pub fn controller_reference<K: Resource<DynamicType: Default>>(
    owner: &K,
) -> Result<OwnerReference, Incomplete> {
    Ok(OwnerReference { controller: Some(true), block_owner_deletion: Some(true), ..owner_reference(owner)? })
}

/// Checks for what is needed to remember, change or delete an object: its name, its UID and its resource version.
///
/// # Errors
///
/// The first of them that it does not have.
pub fn complete(kind: &str, meta: &ObjectMeta) -> Result<(), Incomplete> {
    required(kind, meta, "metadata.name", |meta| meta.name.as_deref())?;
    required(kind, meta, "metadata.uid", |meta| meta.uid.as_deref())?;
    required(kind, meta, "metadata.resourceVersion", |meta| meta.resource_version.as_deref())?;
    Ok(())
}

/// A field of an object of this kind.
fn required<'a>(
    kind: &str,
    meta: &'a ObjectMeta,
    field: &'static str,
    read: impl Fn(&'a ObjectMeta) -> Option<&'a str>,
) -> Result<&'a str, Incomplete> {
    read(meta).filter(|value| !value.is_empty()).ok_or_else(|| Incomplete::of(kind, meta, field))
}

impl Incomplete {
    fn of(kind: &str, meta: &ObjectMeta, field: &'static str) -> Self {
        Self { kind: kind.to_owned(), object: Named(meta).to_string(), field }
    }
}

/// As much of its name as an object has.
struct Named<'a>(&'a ObjectMeta);

impl fmt::Display for Named<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name.as_deref().unwrap_or("without a name");
        match self.0.namespace.as_deref() {
            Some(namespace) if !namespace.is_empty() => write!(f, "{namespace}/{name}"),
            _ => f.write_str(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde_json::{Value, json};

    use super::*;

    fn map(metadata: Value) -> ConfigMap {
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    #[test]
    fn an_object_without_uid_is_an_error_that_names_it() {
        let error = uid_of(&map(json!({"name": "m", "namespace": "ns"}))).unwrap_err();
        assert_eq!(error.to_string(), "ConfigMap ns/m has no metadata.uid");
        assert!(owner_reference(&map(json!({"name": "m"}))).is_err());
        let unnamed = owner_reference(&map(json!({"uid": "u"}))).unwrap_err();
        assert_eq!(unnamed.to_string(), "ConfigMap without a name has no metadata.name");
        let unversioned = map(json!({"name": "m", "uid": "u"}));
        assert_eq!(complete("ConfigMap", unversioned.meta()).unwrap_err().field, "metadata.resourceVersion");
        let nowhere = namespace_of(&map(json!({"name": "m", "namespace": ""}))).unwrap_err();
        assert_eq!(nowhere.to_string(), "ConfigMap m has no metadata.namespace");
        let unedited = generation_of(&map(json!({"name": "m"}))).unwrap_err();
        assert_eq!(unedited.to_string(), "ConfigMap m has no metadata.generation");
        assert_eq!(generation_of(&map(json!({"name": "m", "generation": 3}))), Ok(3));
    }

    #[test]
    fn references_are_those_that_kubernetes_makes() {
        let map = map(json!({"name": "m", "namespace": "ns", "uid": "u"}));
        assert_eq!(Some(owner_reference(&map).unwrap()), map.owner_ref(&()));
        // As NewControllerRef of Kubernetes makes them; kube leaves the second one out.
        let controller = controller_reference(&map).unwrap();
        assert_eq!((controller.controller, controller.block_owner_deletion), (Some(true), Some(true)));
        let reference = OwnerReference { controller: None, block_owner_deletion: None, ..controller };
        assert_eq!(Some(reference), map.owner_ref(&()));
    }
}
