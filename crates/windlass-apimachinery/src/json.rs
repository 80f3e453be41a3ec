//! JSON values compared and named the way the Kubernetes API does it: `1` and `1.0` are one number.

use std::borrow::Borrow;
use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// Deep equality that does not distinguish `1` from `1.0`.
pub fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right) == Ordering::Equal,
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, left)| right.get(key).is_some_and(|right| equal(left, right)))
        }
        _ => left == right,
    }
}

/// A total order in which [`equal`] values are equal.
pub fn compare(left: &Value, right: &Value) -> Ordering {
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
        (Value::Number(left), Value::Number(right)) => compare_numbers(left, right),
        (Value::String(left), Value::String(right)) => left.cmp(right),
        (Value::Array(left), Value::Array(right)) => {
            let unequal =
                left.iter().zip(right).map(|(left, right)| compare(left, right)).find(|o| o.is_ne());
            unequal.unwrap_or_else(|| left.len().cmp(&right.len()))
        }
        (Value::Object(left), Value::Object(right)) => compare_objects(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// A value that can be a key of an ordered map: ordered by [`compare`].
#[derive(Debug, Clone)]
pub struct Ordered<V>(pub V);

impl<V: Borrow<Value>> PartialEq for Ordered<V> {
    fn eq(&self, other: &Self) -> bool {
        equal(self.0.borrow(), other.0.borrow())
    }
}

impl<V: Borrow<Value>> Eq for Ordered<V> {}

impl<V: Borrow<Value>> PartialOrd for Ordered<V> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<V: Borrow<Value>> Ord for Ordered<V> {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self.0.borrow(), other.0.borrow())
    }
}

/// The JSON type of a value as OpenAPI names it; a whole number is an `integer`.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether a number has no fractional part: `3.0` counts as an integer.
pub(crate) fn is_whole(number: &Number) -> bool {
    !number.is_f64() || number.as_f64().is_some_and(|float| float.is_finite() && float.fract() == 0.0)
}

fn compare_numbers(left: &Number, right: &Number) -> Ordering {
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => left.cmp(&right),
        _ => {
            let (left, right) = (left.as_f64().unwrap_or_default(), right.as_f64().unwrap_or_default());
            left.total_cmp(&right)
        }
    }
}

/// The exact integer a number denotes, if it denotes one that `i128` holds: both `i64` and `u64` fit.
fn whole(number: &Number) -> Option<i128> {
    if let Some(signed) = number.as_i64() {
        return Some(signed.into());
    }
    if let Some(unsigned) = number.as_u64() {
        return Some(unsigned.into());
    }
    // Exact: every whole float below 2^127 is one integer. Larger ones compare as floats, and no
    // integer of JSON's is as large, so the order stays total.
    number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() < 2f64.powi(127))
        .map(|float| float as i128)
}

fn compare_objects(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    fn sorted(map: &Map<String, Value>) -> Vec<&String> {
        let mut keys: Vec<&String> = map.keys().collect();
        keys.sort();
        keys
    }
    // Sorted here because the map keeps insertion order when any crate of the build asks for it.
    let (left_keys, right_keys) = (sorted(left), sorted(right));
    let by_value = || {
        let values = left_keys.iter().map(|key| compare(&left[*key], &right[*key]));
        values.into_iter().find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    };
    left_keys.cmp(&right_keys).then_with(by_value)
}

fn rank(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn whole_floats_equal_integers_at_any_depth() {
        assert!(equal(&json!({"a": [1, 2.0]}), &json!({"a": [1.0, 2]})));
        assert!(!equal(&json!(1), &json!(1.5)));
        assert!(!equal(&json!(1), &json!("1")));
        assert!(!equal(&json!({"a": 1}), &json!({"b": 1})));
    }

    #[test]
    fn large_integers_keep_their_last_digit() {
        assert!(!equal(&json!(9_007_199_254_740_993_i64), &json!(9_007_199_254_740_992_i64)));
        assert_eq!(compare(&json!(u64::MAX), &json!(u64::MAX - 1)), Ordering::Greater);
        assert_eq!(compare(&json!(i64::MIN), &json!(u64::MAX)), Ordering::Less);
    }

    #[test]
    fn the_order_is_total_over_mixed_types() {
        let ascending = [
            json!(null),
            json!(false),
            json!(true),
            json!(-1),
            json!(0.5),
            json!(2),
            json!("a"),
            json!("b"),
            json!([1]),
            json!([1, 0]),
            json!({"a": 1}),
            json!({"a": 2}),
            json!({"b": 0}),
        ];
        for (low, left) in ascending.iter().enumerate() {
            for (high, right) in ascending.iter().enumerate() {
                assert_eq!(compare(left, right), low.cmp(&high), "{left} against {right}");
            }
        }
    }

    #[test]
    fn types_are_named_as_openapi_names_them() {
        let names =
            [(json!(null), "null"), (json!(1), "integer"), (json!(1.5), "number"), (json!({}), "object")];
        for (value, name) in names {
            assert_eq!(type_name(&value), name);
        }
    }
}
