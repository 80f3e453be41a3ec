//! Names of objects and of kinds.

use std::fmt;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use windlass_api::api_version;

use crate::Kind;

/// The name of an object among those of its kind. The namespace is empty where a kind has none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectKey {
    /// The namespace, or nothing.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl ObjectKey {
    /// A key from its parts.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: namespace.into(), name: name.into() }
    }

    /// The key of an object.
    pub fn of<K: Resource>(object: &K) -> Self {
        Self::of_meta(object.meta())
    }

    /// The key of an object that has these metadata. Every object in a [`Cache`](crate::Cache) has a name.
    pub fn of_meta(meta: &ObjectMeta) -> Self {
        let text = |value: &Option<String>| value.clone().unwrap_or_default();
        Self::new(text(&meta.namespace), text(&meta.name))
    }

    /// The namespace if there is one, as paths of the API want it.
    pub fn namespace(&self) -> Option<&str> {
        Some(self.namespace.as_str()).filter(|namespace| !namespace.is_empty())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// A kind by its group and its name, whatever the version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKind {
    /// The API group; empty for the core one.
    pub group: String,
    /// The kind.
    pub kind: String,
}

impl GroupKind {
    /// A kind from its parts.
    pub fn new(group: impl Into<String>, kind: impl Into<String>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }

    /// The kind of a Rust type.
    pub fn of<K: Kind>(dynamic: &K::DynamicType) -> Self {
        Self::new(K::group(dynamic), K::kind(dynamic))
    }

    /// The owners of an object that are of this kind, controllers of it or not.
    pub fn owners_of<K: Resource>(&self, object: &K) -> Vec<ObjectKey> {
        self.owners(object, false)
    }

    /// The controller of an object, if it is of this kind.
    pub fn controller_of<K: Resource>(&self, object: &K) -> Option<ObjectKey> {
        self.owners(object, true).into_iter().next()
    }

    fn owners<K: Resource>(&self, object: &K, controller_only: bool) -> Vec<ObjectKey> {
        let namespace = ObjectKey::of(object).namespace;
        let owners = object.owner_references().iter();
        let of_kind = owners.filter(|owner| {
            owner.kind == self.kind
                && api_version::group(&owner.api_version) == self.group
                && (!controller_only || owner.controller == Some(true))
        });
        of_kind.map(|owner| ObjectKey::new(namespace.clone(), owner.name.clone())).collect()
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.kind),
            group => write!(f, "{}.{group}", self.kind),
        }
    }
}

/// A resource version as a number. Those of one server can be compared: Kubernetes promises it since 1.35, and
/// kept it before.
pub(crate) fn revision<K: Resource>(object: &K) -> u64 {
    parse_revision(object.meta().resource_version.as_deref())
}

pub(crate) fn parse_revision(text: Option<&str>) -> u64 {
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}
