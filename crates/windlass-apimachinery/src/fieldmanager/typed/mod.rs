//! Values with a shape: merged, compared, reduced to the set of their fields, and cut down.
//!
//! All functions here recurse over the value; callers have checked how deep it is.

mod compare;
mod conform;
mod fields;
mod merge;
mod remove;

#[cfg(test)]
mod tests;

use serde_json::{Map, Value};

use super::path::PathElement;
use super::shape::{Deduced, ListShape, MapShape, Shape};
use crate::schema::ListType;

pub(super) use compare::compare_except;
#[cfg(test)]
pub(super) use compare::reference::compare_by_paths;
pub use compare::{Comparison, compare};
pub(super) use conform::conform_except;
pub use conform::{NotConforming, Problem, conform};
pub(super) use fields::{element_shape_of_key, is_atomic};
pub use fields::{fields, name_containers, reconcile};
pub use merge::merge;
pub(super) use merge::merge_except;
pub use remove::remove;

/// What a value is, as far as merging goes.
#[derive(Clone, Copy)]
enum Kind<'a> {
    Scalar,
    List(&'a ListShape),
    Map(Fields<'a>),
    /// A list or map without a schema that is owned as a whole.
    Whole,
}

/// The fields of an object, whether they have a schema or not.
#[derive(Clone, Copy)]
enum Fields<'a> {
    Shaped(&'a MapShape),
    Deduced(Deduced),
}

impl<'a> Fields<'a> {
    fn is_atomic(self) -> bool {
        matches!(self, Fields::Shaped(shape) if shape.atomic)
    }

    /// The shape of a field; `None` if there is no such field.
    fn shape(self, name: &str) -> Option<&'a Shape> {
        match self {
            Fields::Deduced(Deduced::Map) => Some(&DEDUCED_MAP),
            Fields::Deduced(Deduced::Struct) => Some(&DEDUCED_STRUCT),
            Fields::Shaped(shape) => match shape.fields.get(name) {
                Some(field) => Some(&field.shape),
                None => shape.others.as_deref(),
            },
        }
    }

    /// Whether the field is one of a struct, and not a key of a map: a field is not owned for itself
    /// when it contains others.
    fn declares(self, name: &str) -> bool {
        match self {
            Fields::Deduced(deduced) => deduced == Deduced::Struct,
            Fields::Shaped(shape) => shape.others_are_fields || shape.fields.contains_key(name),
        }
    }
}

static DEDUCED_MAP: Shape = Shape::Deduced(Deduced::Map);
static DEDUCED_STRUCT: Shape = Shape::Deduced(Deduced::Struct);

/// What a value of this shape is. Without a schema the value itself tells; `null` tells nothing.
fn kind<'a>(shape: &'a Shape, value: &Value) -> Kind<'a> {
    match shape {
        Shape::Scalar(_) => Kind::Scalar,
        Shape::List(shape) => Kind::List(shape),
        Shape::Map(shape) => Kind::Map(Fields::Shaped(shape)),
        Shape::Deduced(deduced) => match value {
            Value::Object(_) => Kind::Map(Fields::Deduced(*deduced)),
            Value::Array(_) => Kind::Whole,
            _ => Kind::Scalar,
        },
    }
}

fn same_kind(left: Kind<'_>, right: Kind<'_>) -> bool {
    std::mem::discriminant(&left) == std::mem::discriminant(&right)
}

/// The elements of a list that is there and not `null`.
fn items(value: Option<&Value>) -> &[Value] {
    value.and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The fields of an object that is there and not `null`.
fn entries(value: Option<&Value>) -> Option<&Map<String, Value>> {
    value.and_then(Value::as_object).filter(|fields| !fields.is_empty())
}

/// How an element of a list is named, or why it cannot be.
fn element(shape: &ListShape, item: &Value) -> Result<PathElement, Problem> {
    if let Some(problem) = unnameable(shape, item) {
        return Err(problem);
    }
    Ok(match &shape.list_type {
        ListType::Map(keys) => PathElement::key(
            keys.iter().filter_map(|name| Some((name.as_str(), key_value(shape, item, name)?.clone()))),
        ),
        ListType::Set | ListType::Atomic => PathElement::value(item.clone()),
    })
}

/// Why an element of a list cannot be named, if it cannot.
fn unnameable(shape: &ListShape, item: &Value) -> Option<Problem> {
    match &shape.list_type {
        ListType::Set => {
            (item.is_object() || item.is_array() || item.is_null()).then_some(Problem::NotASetElement)
        }
        ListType::Map(_) if !item.is_object() => Some(Problem::NotAMapElement),
        ListType::Map(keys) => {
            let missing = keys.iter().find(|name| key_value(shape, item, name).is_none());
            missing.map(|name| Problem::MissingKey(name.clone()))
        }
        ListType::Atomic => Some(Problem::NotASetElement),
    }
}

/// What an element of a list has in a key, or what it has if it does not say.
fn key_value<'a>(shape: &'a ListShape, item: &'a Value, name: &str) -> Option<&'a Value> {
    let default = || match &*shape.item {
        Shape::Map(map) => map.fields.get(name).and_then(|field| field.default.as_ref()),
        _ => None,
    };
    item.get(name).or_else(default)
}

/// The names of all elements of a list that merges; `None` if it is atomic, or if an element cannot
/// be named, in which case the list can only be taken as a whole.
fn elements(shape: &ListShape, items: &[Value]) -> Option<Vec<PathElement>> {
    if shape.list_type == ListType::Atomic {
        return None;
    }
    items.iter().map(|item| element(shape, item).ok()).collect()
}
