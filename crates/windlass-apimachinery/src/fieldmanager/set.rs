//! Sets of field paths, kept as a trie, and their form in `managedFields`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use serde_json::{Map, Value};

use super::path::{MalformedElement, Path, PathElement};

/// A set of field paths. The root is never a member: no field manager owns a whole object.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// No node is empty: it is a member, or it has members below it.
    nodes: BTreeMap<PathElement, Node>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Node {
    member: bool,
    below: Set,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.below.is_empty()
    }

    fn to_fields_v1((element, node): (&PathElement, &Node)) -> (String, Value) {
        let itself =
            (node.member && !node.below.is_empty()).then(|| (".".to_owned(), Value::Object(Map::new())));
        let below = node.below.nodes.iter().map(Node::to_fields_v1);
        (element.encode(), Value::Object(itself.into_iter().chain(below).collect()))
    }
}

/// `fieldsV1` that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// A key is not a path element.
    #[error(transparent)]
    Element(#[from] MalformedElement),
    /// What belongs to an element is not an object.
    #[error("fields must be an object, not {0}")]
    NotAnObject(String),
}

impl Set {
    /// The set of these paths.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a [PathElement]>) -> Self {
        let mut set = Set::default();
        paths.into_iter().for_each(|path| set.insert(path));
        set
    }

    /// Adds a path. The fields that contain it are not added.
    pub fn insert(&mut self, path: &[PathElement]) {
        let Some((last, parents)) = path.split_last() else { return };
        let mut set = self;
        for element in parents {
            set = &mut set.nodes.entry(element.clone()).or_default().below;
        }
        set.nodes.entry(last.clone()).or_default().member = true;
    }

    /// Whether the path itself is a member.
    pub fn contains(&self, path: &[PathElement]) -> bool {
        let Some((last, parents)) = path.split_last() else { return false };
        let mut set = self;
        for element in parents {
            match set.nodes.get(element) {
                Some(node) => set = &node.below,
                None => return false,
            }
        }
        set.has(last)
    }

    /// Whether the set has no members.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many members the set has.
    pub fn len(&self) -> usize {
        self.nodes.values().map(|node| usize::from(node.member) + node.below.len()).sum()
    }

    /// The members of either set.
    pub fn union(&self, other: &Set) -> Set {
        let mut union = self.clone();
        union.extend(other);
        union
    }

    /// Adds the members of another set.
    pub fn extend(&mut self, other: &Set) {
        for (element, theirs) in &other.nodes {
            match self.nodes.get_mut(element) {
                None => {
                    self.nodes.insert(element.clone(), theirs.clone());
                }
                Some(ours) => {
                    ours.member |= theirs.member;
                    ours.below.extend(&theirs.below);
                }
            }
        }
    }

    /// The members of both sets.
    pub fn intersection(&self, other: &Set) -> Set {
        self.filter_map(|element, node| {
            let theirs = other.nodes.get(element)?;
            Some(Node { member: node.member && theirs.member, below: node.below.intersection(&theirs.below) })
        })
    }

    /// The members that the other set does not have. A member stays when only fields inside it go,
    /// and what is inside a member stays when only the member goes.
    pub fn difference(&self, other: &Set) -> Set {
        self.filter_map(|element, node| match other.nodes.get(element) {
            None => Some(node.clone()),
            Some(theirs) => Some(Node {
                member: node.member && !theirs.member,
                below: node.below.difference(&theirs.below),
            }),
        })
    }

    /// The members that are neither in the other set nor inside a member of it.
    pub fn recursive_difference(&self, other: &Set) -> Set {
        self.filter_map(|element, node| match other.nodes.get(element) {
            None => Some(node.clone()),
            Some(theirs) if theirs.member => None,
            Some(theirs) => {
                Some(Node { member: node.member, below: node.below.recursive_difference(&theirs.below) })
            }
        })
    }

    /// Takes the members of another set away, as [`difference`](Self::difference) does.
    pub(crate) fn subtract(&mut self, other: &Set) {
        for (element, theirs) in &other.nodes {
            let Some(ours) = self.nodes.get_mut(element) else { continue };
            ours.member &= !theirs.member;
            ours.below.subtract(&theirs.below);
            if ours.is_empty() {
                self.nodes.remove(element);
            }
        }
    }

    /// Takes the members of another set and all inside them away, as
    /// [`recursive_difference`](Self::recursive_difference) does.
    pub(crate) fn subtract_recursively(&mut self, other: &Set) {
        for (element, theirs) in &other.nodes {
            let Some(ours) = self.nodes.get_mut(element) else { continue };
            ours.below.subtract_recursively(&theirs.below);
            if theirs.member || ours.is_empty() {
                self.nodes.remove(element);
            }
        }
    }

    /// Adds the members of another set without copying them.
    pub(crate) fn absorb(&mut self, other: Set) {
        if self.nodes.is_empty() {
            *self = other;
            return;
        }
        for (element, theirs) in other.nodes {
            match self.nodes.entry(element) {
                Entry::Vacant(place) => {
                    place.insert(theirs);
                }
                Entry::Occupied(mut ours) => {
                    let ours = ours.get_mut();
                    ours.member |= theirs.member;
                    ours.below.absorb(theirs.below);
                }
            }
        }
    }

    /// The members that have no members inside them.
    pub fn leaves(&self) -> Set {
        self.filter_map(|_, node| {
            let below = node.below.leaves();
            Some(Node { member: node.member && below.is_empty(), below })
        })
    }

    /// All members: those of one level in their order, then those below each of them.
    pub fn paths(&self) -> Vec<Path> {
        let mut paths = Vec::new();
        self.collect(&mut Vec::new(), &mut paths);
        paths
    }

    /// Whether `element` at the root of this set is a member.
    pub(crate) fn has(&self, element: &PathElement) -> bool {
        self.nodes.get(element).is_some_and(|node| node.member)
    }

    /// The members inside `element`, if there are any.
    pub(crate) fn below(&self, element: &PathElement) -> Option<&Set> {
        self.nodes.get(element).map(|node| &node.below).filter(|below| !below.is_empty())
    }

    /// The elements at the root of this set: each with whether it is a member and what is inside it.
    pub(crate) fn elements(&self) -> impl Iterator<Item = (&PathElement, bool, &Set)> {
        self.nodes.iter().map(|(element, node)| (element, node.member, &node.below))
    }

    /// Puts an element at the root of this set, unless it would be empty.
    pub(crate) fn put(&mut self, element: PathElement, member: bool, below: Set) {
        let node = Node { member, below };
        if !node.is_empty() {
            self.nodes.insert(element, node);
        }
    }

    /// Adds an element at the root of this set, to what is there already.
    pub(crate) fn add(&mut self, element: PathElement, member: bool, below: Set) {
        if !member && below.is_empty() {
            return;
        }
        let node = self.nodes.entry(element).or_default();
        node.member |= member;
        node.below.absorb(below);
    }

    /// The `fieldsV1` of a `managedFields` entry.
    pub fn to_fields_v1(&self) -> Value {
        Value::Object(self.nodes.iter().map(Node::to_fields_v1).collect())
    }

    /// Reads the `fieldsV1` of a `managedFields` entry.
    ///
    /// Recurses over `fields`; the caller has checked how deep it is.
    pub fn from_fields_v1(fields: &Value) -> Result<Set, FieldsError> {
        let object = match fields {
            Value::Object(object) => object,
            other => return Err(FieldsError::NotAnObject(other.to_string())),
        };
        let mut set = Set::default();
        for (key, value) in object.iter().filter(|(key, _)| *key != ".") {
            let Some(element) = PathElement::decode(key)? else { continue };
            let below = Set::from_fields_v1(value)?;
            let member = value.get(".").is_some() || value.as_object().is_some_and(Map::is_empty);
            set.put(element, member, below);
        }
        Ok(set)
    }

    fn filter_map(&self, keep: impl Fn(&PathElement, &Node) -> Option<Node>) -> Set {
        let nodes = self.nodes.iter().filter_map(|(element, node)| {
            keep(element, node).filter(|node| !node.is_empty()).map(|node| (element.clone(), node))
        });
        Set { nodes: nodes.collect() }
    }

    fn collect(&self, prefix: &mut Path, paths: &mut Vec<Path>) {
        for (element, _) in self.nodes.iter().filter(|(_, node)| node.member) {
            let mut path = prefix.clone();
            path.push(element.clone());
            paths.push(path);
        }
        for (element, node) in &self.nodes {
            prefix.push(element.clone());
            node.below.collect(prefix, paths);
            prefix.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::path::display;
    use super::*;

    fn set(fields: Value) -> Set {
        Set::from_fields_v1(&fields).unwrap()
    }

    fn shown(set: &Set) -> Vec<String> {
        set.paths().iter().map(|path| display(path)).collect()
    }

    #[test]
    fn fields_v1_is_read_and_written_unchanged() {
        let cases = [
            json!({}),
            json!({"f:spec": {".": {}, "f:color": {}, "f:tags": {"v:\"a\"": {}}}}),
            json!({"f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}}}}}),
            json!({"f:a": {"i:0": {}}}),
        ];
        for fields in cases {
            assert_eq!(set(fields.clone()).to_fields_v1(), fields);
        }
    }

    #[test]
    fn unreadable_fields_are_refused() {
        assert!(matches!(Set::from_fields_v1(&json!([])), Err(FieldsError::NotAnObject(_))));
        assert!(matches!(Set::from_fields_v1(&json!({"f:a": 1})), Err(FieldsError::NotAnObject(_))));
        assert!(matches!(Set::from_fields_v1(&json!({"nope": {}})), Err(FieldsError::Element(_))));
        assert_eq!(set(json!({"z:later": {"f:a": {}}})), Set::default());
    }

    #[test]
    fn operations_treat_members_and_what_is_inside_them_apart() {
        let a = set(json!({"f:x": {".": {}, "f:y": {}, "f:z": {}}, "f:w": {}}));
        let b = set(json!({"f:x": {"f:y": {}}, "f:v": {}}));
        let x = set(json!({"f:x": {}}));
        let cases = [
            ("union", a.union(&b), json!({"f:x": {".": {}, "f:y": {}, "f:z": {}}, "f:w": {}, "f:v": {}})),
            ("intersection", a.intersection(&b), json!({"f:x": {"f:y": {}}})),
            (
                "difference of something inside",
                a.difference(&b),
                json!({"f:x": {".": {}, "f:z": {}}, "f:w": {}}),
            ),
            ("difference of a parent", a.difference(&x), json!({"f:x": {"f:y": {}, "f:z": {}}, "f:w": {}})),
            ("difference with its inside", a.recursive_difference(&x), json!({"f:w": {}})),
            ("leaves", a.leaves(), json!({"f:x": {"f:y": {}, "f:z": {}}, "f:w": {}})),
            ("nothing left", b.difference(&b), json!({})),
        ];
        for (name, result, expected) in cases {
            assert_eq!(result.to_fields_v1(), expected, "{name}");
        }
        assert_eq!(a.len(), 4);
        assert!(b.difference(&b).is_empty());
    }

    #[test]
    fn members_are_listed_by_level() {
        let all = set(json!({"f:a": {"f:b": {}}, "f:c": {".": {}, "f:d": {}}}));
        assert_eq!(shown(&all), [".c", ".a.b", ".c.d"]);
        assert!(all.contains(&[PathElement::field("a"), PathElement::field("b")]));
        assert!(!all.contains(&[PathElement::field("a")]));
        assert!(!all.contains(&[]));
        let rebuilt = Set::of(all.paths().iter().map(Vec::as_slice));
        assert_eq!(rebuilt, all);
    }
}
