//! The set of fields that a value has, and sets brought in line with a shape.

use serde_json::Value;

use super::{Fields, Kind, elements, kind};
use crate::fieldmanager::path::PathElement;
use crate::fieldmanager::set::Set;
use crate::fieldmanager::shape::Shape;
use crate::schema::ListType;

/// The fields that a value mentions: what applying it would own.
///
/// Leaves, atomic values, elements of lists and keys of maps are in the set; a field of a struct that
/// contains others is not, unless it is empty.
pub fn fields(value: &Value, shape: &Shape) -> Set {
    inside(value, shape).1
}

/// Whether a value is owned for itself, and the fields inside it. Built from the inside out: inserting
/// paths one by one would look up every container once for each of its fields.
fn inside(value: &Value, shape: &Shape) -> (bool, Set) {
    let whole = || (true, Set::default());
    match kind(shape, value) {
        Kind::Scalar | Kind::Whole => whole(),
        Kind::Map(shapes) if shapes.is_atomic() => whole(),
        Kind::Map(shapes) => {
            let mut set = Set::default();
            for (name, field) in value.as_object().into_iter().flatten() {
                let Some(shape) = shapes.shape(name) else { continue };
                let (owned, below) = inside(field, shape);
                let empty = field.is_null() || field.as_object().is_some_and(|object| object.is_empty());
                set.put(PathElement::field(name), owned || empty || !shapes.declares(name), below);
            }
            (false, set)
        }
        Kind::List(shape) => {
            let Value::Array(items) = value else {
                return (shape.list_type == ListType::Atomic, Set::default());
            };
            let Some(names) = elements(shape, items) else { return whole() };
            let mut set = Set::default();
            for (name, item) in names.into_iter().zip(items) {
                if set.has(&name) {
                    // Of elements with one name only the name can be owned.
                    set.put(name, true, Set::default());
                } else {
                    set.put(name, true, inside(item, &shape.item).1);
                }
            }
            (false, set)
        }
    }
}

/// The set with the fields of structs that contain its members: `.spec.color` brings in `.spec`.
///
/// Ownership of a struct goes without saying, so sets do not have it; for removing what no field manager owns
/// it has to be said.
pub fn name_containers(set: &Set, shape: &Shape) -> Set {
    let mut named = Set::default();
    for (element, member, below) in set.elements() {
        let is_field = match (element, map_fields(shape)) {
            (PathElement::Field(name), Some(shapes)) => shapes.declares(name),
            _ => false,
        };
        let below_named = match element_shape(element, shape) {
            Some(inner) => name_containers(below, inner),
            None => below.clone(),
        };
        named.put(element.clone(), member || is_field && !below.is_empty(), below_named);
    }
    named
}

/// The set after its schema changed: what was owned piece by piece and is atomic now is owned whole.
/// `None` if nothing changes, which is almost always.
///
/// The other direction needs nothing: the field manager that owned the whole goes on owning it as a field.
pub fn reconcile(set: &Set, shape: &Shape) -> Option<Set> {
    let is_outdated = |(element, _, below): (&PathElement, bool, &Set)| {
        element_shape(element, shape)
            .is_some_and(|inner| !below.is_empty() && (is_atomic(inner) || reconcile(below, inner).is_some()))
    };
    if !set.elements().any(is_outdated) {
        return None;
    }
    let mut reconciled = Set::default();
    for (element, member, below) in set.elements() {
        match element_shape(element, shape) {
            Some(inner) if is_atomic(inner) && !below.is_empty() => {
                reconciled.put(element.clone(), true, Set::default());
            }
            inner => {
                let below = inner.and_then(|inner| reconcile(below, inner)).unwrap_or_else(|| below.clone());
                reconciled.put(element.clone(), member, below);
            }
        }
    }
    Some(reconciled)
}

/// The shape of what an element of a path leads to.
fn element_shape<'a>(element: &PathElement, shape: &'a Shape) -> Option<&'a Shape> {
    match (element, map_fields(shape), shape) {
        (PathElement::Field(name), Some(shapes), _) => shapes.shape(name),
        (PathElement::Key(_) | PathElement::Value(_), _, Shape::List(list)) => Some(&list.item),
        _ => None,
    }
}

/// The same for an element as `fieldsV1` writes it.
pub(in crate::fieldmanager) fn element_shape_of_key<'a>(key: &str, shape: &'a Shape) -> Option<&'a Shape> {
    match (key.split_once(':')?, shape) {
        (("f", name), _) => map_fields(shape)?.shape(name),
        (("k" | "v", _), Shape::List(list)) => Some(&list.item),
        _ => None,
    }
}

fn map_fields(shape: &Shape) -> Option<Fields<'_>> {
    match shape {
        Shape::Map(map) => Some(Fields::Shaped(map)),
        Shape::Deduced(deduced) => Some(Fields::Deduced(*deduced)),
        _ => None,
    }
}

/// Whether a value of this shape is owned as a whole.
pub(in crate::fieldmanager) fn is_atomic(shape: &Shape) -> bool {
    match shape {
        Shape::Map(map) => map.atomic,
        Shape::List(list) => list.list_type == ListType::Atomic,
        Shape::Scalar(_) | Shape::Deduced(_) => false,
    }
}
