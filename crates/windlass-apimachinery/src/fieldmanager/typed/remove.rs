//! A value without some of its fields.

use serde_json::{Map, Value};

use super::{Kind, elements, kind};
use crate::fieldmanager::path::PathElement;
use crate::fieldmanager::set::Set;
use crate::fieldmanager::shape::Shape;

/// The value without the fields of a set, and without what is inside them.
///
/// A list or map of which all elements go goes as well, unless it is in `kept`: then a field manager owns it
/// as a list or map.
pub fn remove(value: &Value, doomed: &Set, kept: &Set, shape: &Shape) -> Value {
    let survives = |element: &PathElement, before: &Value, shape: Option<&Shape>| {
        if doomed.has(element) {
            return None;
        }
        let (Some(below), Some(shape)) = (doomed.below(element), shape) else { return Some(before.clone()) };
        let after = remove(before, below, kept.below(element).unwrap_or(&Set::default()), shape);
        (!is_emptied(before, &after) || kept.has(element)).then_some(after)
    };
    match (value, kind(shape, value)) {
        (Value::Object(fields), Kind::Map(shapes)) if !shapes.is_atomic() => {
            let left = fields.iter().filter_map(|(name, field)| {
                let field = survives(&PathElement::field(name), field, shapes.shape(name))?;
                Some((name.clone(), field))
            });
            Value::Object(left.collect::<Map<_, _>>())
        }
        (Value::Array(items), Kind::List(shape)) => {
            let Some(names) = elements(shape, items) else { return value.clone() };
            let left =
                names.iter().zip(items).filter_map(|(name, item)| survives(name, item, Some(&shape.item)));
            Value::Array(left.collect())
        }
        _ => value.clone(),
    }
}

fn is_emptied(before: &Value, after: &Value) -> bool {
    let is_empty = |value: &Value| match value {
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    };
    is_empty(after) && !is_empty(before)
}
