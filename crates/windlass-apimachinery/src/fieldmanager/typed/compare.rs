//! What changed between two values.

#[cfg(test)]
pub(super) mod reference;

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Kind, elements, entries, items, kind, same_kind};
use crate::fieldmanager::path::PathElement;
use crate::fieldmanager::set::Set;
use crate::fieldmanager::shape::{ListShape, Shape};
use crate::json;

/// The fields in which two values differ.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Fields that only the new value has.
    pub added: Set,
    /// Fields that both have, with different values.
    pub modified: Set,
    /// Fields that only the old value has.
    pub removed: Set,
}

impl Comparison {
    /// Without the given fields and everything inside them.
    #[must_use]
    pub fn without(mut self, fields: &Set) -> Self {
        self.added.subtract_recursively(fields);
        self.modified.subtract_recursively(fields);
        self.removed.subtract_recursively(fields);
        self
    }

    /// Whether nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// The fields that have a new value.
    pub fn changed(&self) -> Set {
        self.added.union(&self.modified)
    }
}

/// Compares two values of one shape.
pub fn compare(old: &Value, new: &Value, shape: &Shape) -> Comparison {
    compare_except(old, new, shape, None)
}

/// Compares two values of one shape, as if the old one had nothing in the place of `except`.
pub(in crate::fieldmanager) fn compare_except(
    old: &Value,
    new: &Value,
    shape: &Shape,
    except: Option<&Value>,
) -> Comparison {
    let Changes { added, modified, removed } = Walk { except }.values(Some(old), Some(new), shape);
    Comparison { added: added.below, modified: modified.below, removed: removed.below }
}

/// What changed at one place and inside of it. Built from the inside out, so that where nothing
/// changed no path is ever made.
#[derive(Default)]
struct Changes {
    added: Part,
    modified: Part,
    removed: Part,
}

#[derive(Default)]
struct Part {
    /// The place itself.
    here: bool,
    below: Set,
}

impl Changes {
    /// Takes over what changed at an element of this place.
    fn take(&mut self, inside: Changes, element: impl Fn() -> PathElement) {
        self.added.take(inside.added, &element);
        self.modified.take(inside.modified, &element);
        self.removed.take(inside.removed, &element);
    }
}

impl Part {
    fn take(&mut self, inside: Part, element: impl Fn() -> PathElement) {
        if inside.here || !inside.below.is_empty() {
            self.below.add(element(), inside.here, inside.below);
        }
    }

    fn mark(&mut self, element: &PathElement) {
        self.below.add(element.clone(), true, Set::default());
    }
}

struct Walk<'a> {
    /// A part of the old value that is not there.
    except: Option<&'a Value>,
}

impl Walk<'_> {
    fn values(&self, old: Option<&Value>, new: Option<&Value>, shape: &Shape) -> Changes {
        let mut changes = Changes::default();
        match (old, new) {
            (None, None) => {}
            (Some(only), None) | (None, Some(only)) => {
                self.as_kind(kind(shape, only), old, new, &mut changes);
            }
            // Most of an object is the same before and after; finding that out is cheaper than a walk.
            (Some(before), Some(after)) if json::equal(before, after) => {}
            (Some(before), Some(after)) => {
                let (was, is) = (kind(shape, before), kind(shape, after));
                self.as_kind(is, old, new, &mut changes);
                // Without a schema a value may become another kind of value. Then what was inside it
                // is gone, and what is inside it now is new.
                if !same_kind(was, is) {
                    self.as_kind(was, old, new, &mut changes);
                }
            }
        }
        changes
    }

    fn as_kind(&self, kind: Kind<'_>, old: Option<&Value>, new: Option<&Value>, changes: &mut Changes) {
        match kind {
            Kind::Scalar | Kind::Whole => leaf(old, new, changes),
            Kind::Map(shapes) => {
                let (before, after) = (entries(old), entries(new));
                // Two empty maps are leaves, so that `{}` and `null` can be told apart.
                if shapes.is_atomic() || before.is_none() && after.is_none() {
                    return leaf(old, new, changes);
                }
                let mut field = |name: &String, before: Option<&Value>, after: Option<&Value>| {
                    if let Some(shape) = shapes.shape(name) {
                        changes.take(self.values(before, after, shape), || PathElement::field(name));
                    }
                };
                for (name, value) in before.into_iter().flatten() {
                    let was = Some(value).filter(|value| !self.is_excepted(value));
                    field(name, was, after.and_then(|fields| fields.get(name)));
                }
                for (name, value) in after.into_iter().flatten() {
                    if before.is_none_or(|fields| !fields.contains_key(name)) {
                        field(name, None, Some(value));
                    }
                }
                container(old, new, changes);
            }
            Kind::List(shape) => {
                let (before, after) = (items(old), items(new));
                match (elements(shape, before), elements(shape, after)) {
                    (Some(was), Some(is)) if !was.is_empty() || !is.is_empty() => {
                        self.lists(was.iter().zip(before), is.iter().zip(after), shape, changes);
                        container(old, new, changes);
                    }
                    _ => leaf(old, new, changes),
                }
            }
        }
    }

    fn is_excepted(&self, value: &Value) -> bool {
        self.except.is_some_and(|except| std::ptr::eq(except, value))
    }

    fn lists<'a>(
        &self,
        old: impl Iterator<Item = (&'a PathElement, &'a Value)>,
        new: impl Iterator<Item = (&'a PathElement, &'a Value)>,
        shape: &ListShape,
        changes: &mut Changes,
    ) {
        type Versions<'a> = (Vec<&'a Value>, Vec<&'a Value>);
        let mut by_name: BTreeMap<&PathElement, Versions<'_>> = BTreeMap::new();
        old.for_each(|(name, item)| by_name.entry(name).or_default().0.push(item));
        new.for_each(|(name, item)| by_name.entry(name).or_default().1.push(item));
        for (name, (old, new)) in by_name {
            let mut inside = |old: Option<&Value>, new: Option<&Value>| {
                changes.take(self.values(old, new, &shape.item), || name.clone());
            };
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => inside(old.first().copied(), new.first().copied()),
                // Elements that share a name are owned by that name alone, as one value.
                ([_, _, ..], [_, _, ..]) => {
                    let same = old.len() == new.len()
                        && old.iter().zip(&new).all(|(old, new)| json::equal(old, new));
                    if !same {
                        changes.modified.mark(name);
                    }
                }
                ([_, _, ..], _) => {
                    inside(None, new.first().copied());
                    changes.removed.mark(name);
                }
                (_, [_, _, ..]) => {
                    inside(old.first().copied(), None);
                    changes.added.mark(name);
                }
            }
        }
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>, changes: &mut Changes) {
    match (old, new) {
        (Some(old), Some(new)) if !json::equal(old, new) => changes.modified.here = true,
        _ => container(old, new, changes),
    }
}

fn container(old: Option<&Value>, new: Option<&Value>, changes: &mut Changes) {
    match (old, new) {
        (None, Some(_)) => changes.added.here = true,
        (Some(_), None) => changes.removed.here = true,
        _ => {}
    }
}
