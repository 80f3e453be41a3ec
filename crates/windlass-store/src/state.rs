//! All objects at one revision.

use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use crate::event::Event;
use crate::key::{Key, Resource, Scope, namespace_bounds};
use crate::object::Object;

type Objects = RedBlackTreeMapSync<Arc<str>, Arc<Object>>;

/// The objects of the store. A clone is a few pointer copies and never changes; changing one copies
/// only the path to what changes.
#[derive(Clone)]
pub(crate) struct State {
    pub(crate) revision: u64,
    /// The bytes of all values.
    pub(crate) value_bytes: u64,
    resources: RedBlackTreeMapSync<Resource, Objects>,
}

impl State {
    pub(crate) fn new(revision: u64) -> Self {
        Self { revision, value_bytes: 0, resources: RedBlackTreeMapSync::new_sync() }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.resources.get(key.resource())?.get::<str>(key.path())
    }

    /// Puts `object` in the place of whatever has its key.
    pub(crate) fn insert(&mut self, object: Arc<Object>) {
        if let Some(old) = self.get(object.key()) {
            self.value_bytes -= old.value().len() as u64;
        }
        self.value_bytes += object.value().len() as u64;
        let path = Arc::clone(object.key().path());
        match self.resources.get_mut(object.key().resource()) {
            Some(objects) => objects.insert_mut(path, object),
            None => {
                let resource = object.key().resource().clone();
                self.resources.insert_mut(resource, Objects::new_sync().insert(path, object));
            }
        }
    }

    pub(crate) fn remove(&mut self, key: &Key) {
        if let Some(old) = self.get(key) {
            self.value_bytes -= old.value().len() as u64;
        }
        if let Some(objects) = self.resources.get_mut(key.resource()) {
            objects.remove_mut::<str>(key.path());
            if objects.is_empty() {
                self.resources.remove_mut(key.resource());
            }
        }
    }

    /// All objects in the order of their keys.
    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<Object>> {
        self.resources.values().flat_map(Objects::values)
    }

    pub(crate) fn len(&self) -> usize {
        self.resources.values().map(Objects::size).sum()
    }

    /// Goes back to `revision` by taking `events`, newest first, back. What is not in `scope` is left
    /// out, because the events say nothing about it.
    pub(crate) fn rewound(&self, scope: &Scope, revision: u64, events: &[Arc<Event>]) -> Self {
        let mut state = match scope.resource() {
            None => self.clone(),
            Some(resource) => {
                let mut only = Self::new(self.revision);
                if let Some(objects) = self.resources.get(resource) {
                    only.value_bytes = objects.values().map(|object| object.value().len() as u64).sum();
                    only.resources.insert_mut(resource.clone(), objects.clone());
                }
                only
            }
        };
        for event in events {
            match event.previous() {
                Some(previous) => state.insert(Arc::clone(previous)),
                None => state.remove(event.key()),
            }
        }
        state.revision = revision;
        state
    }
}

/// All objects as they were at one revision. Cheap to take, cheap to clone, and it blocks no writer; it
/// keeps the versions it shows in memory as long as it lives.
#[derive(Clone)]
pub struct Snapshot(Arc<State>);

impl Snapshot {
    pub(crate) fn new(state: Arc<State>) -> Self {
        Self(state)
    }

    /// The revision. A watch from it sees everything that this snapshot does not show.
    pub fn revision(&self) -> u64 {
        self.0.revision
    }

    /// One object.
    pub fn get(&self, key: &Key) -> Option<&Arc<Object>> {
        self.0.get(key)
    }

    /// The objects in a scope, in the order of their keys.
    pub fn list<'a>(&'a self, scope: &Scope) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.within(scope, None)
    }

    /// The objects in a scope that come after `after`, which need not exist: the next page.
    pub fn list_after<'a>(
        &'a self,
        scope: &Scope,
        after: &Key,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        self.within(scope, Some(after))
    }

    /// How many objects of a resource there are.
    pub fn count(&self, resource: &Resource) -> usize {
        self.0.resources.get(resource).map_or(0, Objects::size)
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.resources.is_empty()
    }

    /// The resources of which there are objects, in order.
    pub fn resources(&self) -> impl Iterator<Item = &Resource> {
        self.0.resources.keys()
    }

    fn within<'a>(
        &'a self,
        scope: &Scope,
        after: Option<&Key>,
    ) -> impl Iterator<Item = &'a Arc<Object>> + use<'a> {
        let first = after.map(|key| key.resource().clone());
        let resources: Box<dyn Iterator<Item = (&Resource, &Objects)>> = match (scope.resource(), first) {
            (Some(resource), _) => Box::new(self.0.resources.get_key_value(resource).into_iter()),
            (None, Some(first)) => Box::new(self.0.resources.range(first..)),
            (None, None) => Box::new(self.0.resources.iter()),
        };
        let namespace = match scope {
            Scope::Namespace(_, namespace) => Some(namespace_bounds(namespace)),
            Scope::All | Scope::Resource(_) => None,
        };
        let after = after.cloned();
        resources.flat_map(move |(resource, objects)| {
            paths(resource, namespace.as_ref(), after.as_ref())
                .into_iter()
                .flat_map(|bounds| objects.range::<str, _>(StrBounds(bounds)))
                .map(|(_, object)| object)
        })
    }
}

/// The paths of `resource` that are in the namespace and after `after`, or `None` if there can be none.
fn paths(
    resource: &Resource,
    namespace: Option<&(String, String)>,
    after: Option<&Key>,
) -> Option<(Bound<String>, Bound<String>)> {
    let (mut from, to) = match namespace {
        Some((from, to)) => (Bound::Included(from.clone()), Bound::Excluded(to.clone())),
        None => (Bound::Unbounded, Bound::Unbounded),
    };
    if let Some(after) = after {
        match after.resource().cmp(resource) {
            std::cmp::Ordering::Greater => return None,
            std::cmp::Ordering::Less => {}
            std::cmp::Ordering::Equal => {
                let path: &str = after.path();
                if matches!(&to, Bound::Excluded(to) if path >= to.as_str()) {
                    return None;
                }
                if !matches!(&from, Bound::Included(from) if path < from.as_str()) {
                    from = Bound::Excluded(path.to_owned());
                }
            }
        }
    }
    Some((from, to))
}

/// Bounds of a map whose keys are looked up as `str`, which a pair of owned strings is not.
struct StrBounds((Bound<String>, Bound<String>));

impl std::ops::RangeBounds<str> for StrBounds {
    fn start_bound(&self) -> Bound<&str> {
        as_str(&self.0.0)
    }

    fn end_bound(&self) -> Bound<&str> {
        as_str(&self.0.1)
    }
}

fn as_str(bound: &Bound<String>) -> Bound<&str> {
    match bound {
        Bound::Included(path) => Bound::Included(path),
        Bound::Excluded(path) => Bound::Excluded(path),
        Bound::Unbounded => Bound::Unbounded,
    }
}
