//! Comparing values path by path: slower, and simple enough to compare the other way with.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::Comparison;
use crate::fieldmanager::path::{Path, PathElement};
use crate::fieldmanager::set::Set;
use crate::fieldmanager::shape::{ListShape, Shape};
use crate::fieldmanager::typed::{Kind, elements, entries, items, kind, same_kind};
use crate::json;

/// Comparing path by path, each inserted from the root.
pub(in crate::fieldmanager) fn compare_by_paths(old: &Value, new: &Value, shape: &Shape) -> Comparison {
    let mut walk = Walk { path: Vec::new(), result: Comparison::default() };
    walk.values(Some(old), Some(new), shape);
    walk.result
}

struct Walk {
    path: Path,
    result: Comparison,
}

impl Walk {
    fn inside(&mut self, element: PathElement, old: Option<&Value>, new: Option<&Value>, shape: &Shape) {
        self.path.push(element);
        self.values(old, new, shape);
        self.path.pop();
    }

    fn values(&mut self, old: Option<&Value>, new: Option<&Value>, shape: &Shape) {
        match (old, new) {
            (None, None) => {}
            (Some(only), None) | (None, Some(only)) => self.as_kind(kind(shape, only), old, new),
            // Most of an object is the same before and after; finding that out is cheaper than a walk.
            (Some(before), Some(after)) if json::equal(before, after) => {}
            (Some(before), Some(after)) => {
                let (was, is) = (kind(shape, before), kind(shape, after));
                self.as_kind(is, old, new);
                // Without a schema a value may become another kind of value. Then what was inside it
                // is gone, and what is inside it now is new.
                if !same_kind(was, is) {
                    self.as_kind(was, old, new);
                }
            }
        }
    }

    fn as_kind(&mut self, kind: Kind<'_>, old: Option<&Value>, new: Option<&Value>) {
        match kind {
            Kind::Scalar | Kind::Whole => self.leaf(old, new),
            Kind::Map(shapes) => {
                let (before, after) = (entries(old), entries(new));
                // Two empty maps are leaves, so that `{}` and `null` can be told apart.
                if shapes.is_atomic() || before.is_none() && after.is_none() {
                    return self.leaf(old, new);
                }
                let names: BTreeSet<&String> = before.into_iter().chain(after).flat_map(Map::keys).collect();
                for name in names {
                    if let Some(shape) = shapes.shape(name) {
                        let before = before.and_then(|fields| fields.get(name));
                        let after = after.and_then(|fields| fields.get(name));
                        self.inside(PathElement::field(name), before, after, shape);
                    }
                }
                self.container(old, new);
            }
            Kind::List(shape) => {
                let (before, after) = (items(old), items(new));
                match (elements(shape, before), elements(shape, after)) {
                    (Some(was), Some(is)) if !was.is_empty() || !is.is_empty() => {
                        self.lists(was.iter().zip(before), is.iter().zip(after), shape);
                        self.container(old, new);
                    }
                    _ => self.leaf(old, new),
                }
            }
        }
    }

    fn lists<'a>(
        &mut self,
        old: impl Iterator<Item = (&'a PathElement, &'a Value)>,
        new: impl Iterator<Item = (&'a PathElement, &'a Value)>,
        shape: &ListShape,
    ) {
        type Versions<'a> = (Vec<&'a Value>, Vec<&'a Value>);
        let mut by_name: BTreeMap<&PathElement, Versions<'_>> = BTreeMap::new();
        old.for_each(|(name, item)| by_name.entry(name).or_default().0.push(item));
        new.for_each(|(name, item)| by_name.entry(name).or_default().1.push(item));
        for (name, (old, new)) in by_name {
            match (old.as_slice(), new.as_slice()) {
                ([] | [_], [] | [_]) => {
                    self.inside(name.clone(), old.first().copied(), new.first().copied(), &shape.item);
                }
                // Elements that share a name are owned by that name alone, as one value.
                ([_, _, ..], [_, _, ..]) => {
                    let same = old.len() == new.len()
                        && old.iter().zip(&new).all(|(old, new)| json::equal(old, new));
                    if !same {
                        self.mark(name, |result| &mut result.modified);
                    }
                }
                ([_, _, ..], _) => {
                    self.inside(name.clone(), None, new.first().copied(), &shape.item);
                    self.mark(name, |result| &mut result.removed);
                }
                (_, [_, _, ..]) => {
                    self.inside(name.clone(), old.first().copied(), None, &shape.item);
                    self.mark(name, |result| &mut result.added);
                }
            }
        }
    }

    fn mark(&mut self, element: &PathElement, set: impl FnOnce(&mut Comparison) -> &mut Set) {
        self.path.push(element.clone());
        set(&mut self.result).insert(&self.path);
        self.path.pop();
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (Some(old), Some(new)) if !json::equal(old, new) => self.result.modified.insert(&self.path),
            _ => self.container(old, new),
        }
    }

    fn container(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => self.result.added.insert(&self.path),
            (Some(_), None) => self.result.removed.insert(&self.path),
            _ => {}
        }
    }
}
