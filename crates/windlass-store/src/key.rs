//! Names of things: resources, keys, and scopes of keys.

use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

use crate::error::KeyError;

/// The separator inside a key. It sorts before every character a name may have, so that keys sort by
/// namespace and then by name.
const SEPARATOR: char = '\0';

/// A kind of object, such as `cluster.x-k8s.io/machines`. Cheap to clone.
///
/// The store gives the text no meaning: it separates, orders and wakes by it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource(Arc<str>);

impl Resource {
    /// Accepts any text that is not empty and has no NUL character.
    pub fn new(name: &str) -> Result<Self, KeyError> {
        check("resource", name)?;
        required("resource", name)?;
        Ok(Self(name.into()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identity of one object: resource, namespace and name. Cheap to clone, ordered in that order.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Key {
    resource: Resource,
    /// `namespace NUL name`: one allocation, shared with the map that the object is in.
    path: Arc<str>,
    namespace_len: usize,
}

impl Key {
    /// A key. The namespace is empty for objects that have none; the name is not.
    pub fn new(resource: &Resource, namespace: &str, name: &str) -> Result<Self, KeyError> {
        check("namespace", namespace)?;
        check("name", name)?;
        required("name", name)?;
        let mut path = String::with_capacity(namespace.len() + 1 + name.len());
        path.push_str(namespace);
        path.push(SEPARATOR);
        path.push_str(name);
        Ok(Self { resource: resource.clone(), path: path.into(), namespace_len: namespace.len() })
    }

    /// The resource.
    pub fn resource(&self) -> &Resource {
        &self.resource
    }

    /// The namespace, empty for an object without one.
    pub fn namespace(&self) -> &str {
        &self.path[..self.namespace_len]
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.path[self.namespace_len + SEPARATOR.len_utf8()..]
    }

    /// What orders and finds the object within its resource.
    pub(crate) fn path(&self) -> &Arc<str> {
        &self.path
    }

    /// The key as the disk and backups hold it: `resource NUL namespace NUL name`.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(self.resource.0.len() + 1 + self.path.len());
        encoded.extend_from_slice(self.resource.0.as_bytes());
        encoded.push(SEPARATOR as u8);
        encoded.extend_from_slice(self.path.as_bytes());
        encoded
    }

    /// Reads what [`Key::encode`] wrote, or `None` if it did not write it. `hint` is the resource of
    /// the key before: in sorted input it is nearly always the same, and is then shared.
    pub(crate) fn decode(encoded: &[u8], hint: Option<&Resource>) -> Option<Self> {
        let mut parts = std::str::from_utf8(encoded).ok()?.split(SEPARATOR);
        let (resource, namespace, name) = (parts.next()?, parts.next()?, parts.next()?);
        if parts.next().is_some() {
            return None;
        }
        match hint {
            Some(hint) if hint.as_str() == resource => Self::new(hint, namespace, name).ok(),
            _ => Self::new(&Resource::new(resource).ok()?, namespace, name).ok(),
        }
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.resource.cmp(&other.resource).then_with(|| self.path.cmp(&other.path))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace() {
            "" => write!(f, "{} {}", self.resource, self.name()),
            namespace => write!(f, "{} {}/{}", self.resource, namespace, self.name()),
        }
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Which objects a list or a watch is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everything in the store.
    All,
    /// All objects of a resource, in all namespaces.
    Resource(Resource),
    /// The objects of a resource in one namespace.
    Namespace(Resource, Arc<str>),
}

impl Scope {
    /// The objects of `resource` in `namespace`.
    pub fn namespace(resource: &Resource, namespace: &str) -> Self {
        Self::Namespace(resource.clone(), namespace.into())
    }

    /// Whether `key` is in the scope.
    pub fn contains(&self, key: &Key) -> bool {
        match self {
            Self::All => true,
            Self::Resource(resource) => key.resource() == resource,
            Self::Namespace(resource, namespace) => {
                key.resource() == resource && key.namespace() == &**namespace
            }
        }
    }

    /// The only resource in the scope, if it is one.
    pub(crate) fn resource(&self) -> Option<&Resource> {
        match self {
            Self::All => None,
            Self::Resource(resource) | Self::Namespace(resource, _) => Some(resource),
        }
    }
}

impl From<&Resource> for Scope {
    fn from(resource: &Resource) -> Self {
        Self::Resource(resource.clone())
    }
}

/// The first path of a namespace, and the first path after it.
pub(crate) fn namespace_bounds(namespace: &str) -> (String, String) {
    let after = char::from(SEPARATOR as u8 + 1);
    (format!("{namespace}{SEPARATOR}"), format!("{namespace}{after}"))
}

fn check(part: &'static str, text: &str) -> Result<(), KeyError> {
    match text.find(SEPARATOR) {
        Some(at) => Err(KeyError::Nul { part, at }),
        None => Ok(()),
    }
}

fn required(part: &'static str, text: &str) -> Result<(), KeyError> {
    if text.is_empty() { Err(KeyError::Empty { part }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(resource: &str, namespace: &str, name: &str) -> Key {
        Key::new(&Resource::new(resource).unwrap(), namespace, name).unwrap()
    }

    #[test]
    fn keys_sort_by_resource_then_namespace_then_name() {
        let sorted = [
            key("apps/deployments", "z", "z"),
            key("core/nodes", "", "a"),
            key("core/pods", "a", "z"),
            key("core/pods", "a-b", "a"),
            key("core/pods", "a.b", "a"),
            key("core/pods", "ab", "a"),
        ];
        for pair in sorted.windows(2) {
            assert!(pair[0] < pair[1], "{:?} < {:?}", pair[0], pair[1]);
            let (first, second) = (pair[0].encode(), pair[1].encode());
            assert!(first < second, "the disk sorts {:?} and {:?} as memory does", pair[0], pair[1]);
        }
    }

    #[test]
    fn namespace_bounds_hold_that_namespace_and_no_other() {
        let (from, to) = namespace_bounds("a");
        for (namespace, inside) in [("", false), ("a", true), ("a-b", false), ("aa", false), ("b", false)] {
            let key = key("r", namespace, "n");
            let path: &str = key.path();
            assert_eq!(from.as_str() <= path && path < to.as_str(), inside, "{namespace:?}");
        }
    }

    #[test]
    fn a_key_reads_back_as_it_was_written_and_nothing_else_does() {
        for written in [key("core/pods", "default", "a"), key("core/nodes", "", "näme")] {
            assert_eq!(Key::decode(&written.encode(), None), Some(written.clone()));
            assert_eq!(Key::decode(&written.encode(), Some(written.resource())), Some(written));
        }
        for damaged in [&b""[..], b"a", b"a\0b", b"a\0b\0", b"\0b\0c", b"a\0b\0c\0d", b"a\0b\0\xff"] {
            assert_eq!(Key::decode(damaged, None), None, "{damaged:?}");
        }
    }

    #[test]
    fn a_nul_or_an_empty_part_is_refused_with_its_place() {
        let resource = Resource::new("r").unwrap();
        assert_eq!(Key::new(&resource, "a\0", "n"), Err(KeyError::Nul { part: "namespace", at: 1 }));
        assert_eq!(Key::new(&resource, "", "\0"), Err(KeyError::Nul { part: "name", at: 0 }));
        assert_eq!(Key::new(&resource, "a", ""), Err(KeyError::Empty { part: "name" }));
        assert_eq!(Resource::new(""), Err(KeyError::Empty { part: "resource" }));
    }
}
