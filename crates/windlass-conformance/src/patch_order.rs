//! Orders of the operations of a JSON patch that come to the same.
//!
//! An extension that collects its operations from an unordered map answers the same patch in another order each time. That
//! is the same answer as long as operations that depend on each other keep their order.

use serde_json::Value;
use windlass_patch::pointer;

/// More operations are left in their order: comparing every one with every other would take long.
const MOST_OPERATIONS: usize = 512;

/// The operations in the one order that all orders of the same effect have in common: of those that depend on no operation
/// that is left before them, the first by its text, over and over.
pub(crate) fn canonical(operations: Vec<Value>) -> Vec<Value> {
    if operations.len() > MOST_OPERATIONS {
        return operations;
    }
    let mut left: Vec<Operation> = operations.into_iter().map(Operation::new).collect();
    let mut ordered = Vec::with_capacity(left.len());
    while !left.is_empty() {
        let is_free = |index: &usize| left[..*index].iter().all(|before| !before.is_tied_to(&left[*index]));
        let next = (0..left.len()).filter(is_free).min_by(|a, b| left[*a].text.cmp(&left[*b].text));
        // The first one depends on nothing before it, so there is always a next one.
        ordered.push(left.remove(next.unwrap_or(0)).value);
    }
    ordered
}

struct Operation {
    value: Value,
    text: String,
    /// The places that it reads or changes, as the names on the way there.
    places: Vec<Vec<String>>,
}

impl Operation {
    fn new(value: Value) -> Self {
        let op = value.get("op").and_then(Value::as_str).unwrap_or_default();
        // These make place in a list or close it: everything in the list may move.
        let shifts = matches!(op, "add" | "remove" | "move" | "copy");
        let place = |field: &str| {
            let pointer = value.get(field)?.as_str()?;
            let mut names: Vec<String> =
                pointer::names(pointer).unwrap_or_default().into_iter().map(Into::into).collect();
            if shifts && names.last().is_some_and(|name| is_index(name)) {
                names.pop();
            }
            Some(names)
        };
        let places = ["path", "from"].into_iter().filter_map(place).collect();
        Self { text: value.to_string(), places, value }
    }

    /// Whether the order of two operations may matter: one of them has to do with a part of what the other has to do with.
    fn is_tied_to(&self, other: &Self) -> bool {
        let touch = |one: &Vec<String>| {
            other.places.iter().any(|another| one.starts_with(another) || another.starts_with(one))
        };
        self.places.iter().any(touch)
    }
}

/// Whether a name may be the index of a list. That of a field may look the same; it is taken for an index then.
fn is_index(name: &str) -> bool {
    name == "-" || (!name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn same(one: &[Value], other: &[Value]) -> bool {
        canonical(one.to_vec()) == canonical(other.to_vec())
    }

    #[test]
    fn independent_operations_may_come_in_any_order() {
        let (a, b, c) = (
            json!({"op": "add", "path": "/spec/a", "value": 1}),
            json!({"op": "replace", "path": "/spec/b", "value": 2}),
            json!({"op": "remove", "path": "/metadata/labels/x"}),
        );
        for order in [[&b, &a, &c], [&c, &b, &a], [&c, &a, &b]] {
            let order: Vec<Value> = order.into_iter().cloned().collect();
            assert!(same(&[a.clone(), b.clone(), c.clone()], &order));
        }
        let items = [
            json!({"op": "replace", "path": "/list/0", "value": 1}),
            json!({"op": "replace", "path": "/list/1", "value": 2}),
        ];
        assert!(same(&items, &[items[1].clone(), items[0].clone()]), "nothing moves in the list");
    }

    #[test]
    fn operations_that_depend_on_each_other_keep_their_order() {
        for (one, other) in [
            // The second needs what the first makes.
            (
                json!({"op": "add", "path": "/spec/a", "value": {}}),
                json!({"op": "add", "path": "/spec/a/b", "value": 1}),
            ),
            (
                json!({"op": "add", "path": "/spec/a", "value": 1}),
                json!({"op": "add", "path": "/spec/a", "value": 2}),
            ),
            (
                json!({"op": "copy", "from": "/spec/a", "path": "/spec/b"}),
                json!({"op": "remove", "path": "/spec/a"}),
            ),
            // An item that comes or goes moves the others.
            (
                json!({"op": "add", "path": "/list/0", "value": "x"}),
                json!({"op": "replace", "path": "/list/1", "value": "y"}),
            ),
            (
                json!({"op": "add", "path": "/list/-", "value": "x"}),
                json!({"op": "add", "path": "/list/-", "value": "y"}),
            ),
            (json!({"op": "remove", "path": "/list/0"}), json!({"op": "remove", "path": "/list/1"})),
        ] {
            assert!(!same(&[one.clone(), other.clone()], &[other.clone(), one.clone()]), "{one} {other}");
        }
    }

    #[test]
    fn one_more_operation_or_another_value_is_another_patch() {
        let one = json!({"op": "add", "path": "/a", "value": 1});
        assert!(!same(std::slice::from_ref(&one), &[json!({"op": "add", "path": "/a", "value": 2})]));
        assert!(!same(std::slice::from_ref(&one), &[one.clone(), one.clone()]));
        assert!(same(&[], &[]));
    }

    #[test]
    fn a_field_whose_name_has_a_slash_is_no_part_of_another() {
        let one = json!({"op": "add", "path": "/labels/a~1b", "value": 1});
        let other = json!({"op": "add", "path": "/labels/a", "value": 2});
        assert!(same(&[one.clone(), other.clone()], &[other, one]));
    }
}
