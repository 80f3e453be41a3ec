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

pub use compare::{Comparison, compare};
pub use conform::{NotConforming, Problem, conform};
pub use fields::{fields, name_containers, reconcile};
pub use merge::merge;
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
    match &shape.list_type {
        ListType::Set if item.is_object() || item.is_array() || item.is_null() => {
            Err(Problem::NotASetElement)
        }
        ListType::Set => Ok(PathElement::value(item.clone())),
        ListType::Map(keys) => {
            let fields = item.as_object().ok_or(Problem::NotAMapElement)?;
            let key = |name: &String| {
                let default = || match &*shape.item {
                    Shape::Map(map) => map.fields.get(name).and_then(|field| field.default.as_ref()),
                    _ => None,
                };
                let value = fields.get(name).or_else(default);
                value
                    .map(|value| (name.clone(), value.clone()))
                    .ok_or_else(|| Problem::MissingKey(name.clone()))
            };
            Ok(PathElement::key(keys.iter().map(key).collect::<Result<Vec<_>, _>>()?))
        }
        ListType::Atomic => Err(Problem::NotASetElement),
    }
}

/// The names of all elements of a list that merges; `None` if it is atomic, or if an element cannot
/// be named, in which case the list can only be taken as a whole.
fn elements(shape: &ListShape, items: &[Value]) -> Option<Vec<PathElement>> {
    if shape.list_type == ListType::Atomic {
        return None;
    }
    items.iter().map(|item| element(shape, item).ok()).collect()
}
