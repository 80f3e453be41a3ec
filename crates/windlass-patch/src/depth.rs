//! How deep a JSON document may nest, and the check that keeps recursion off hostile documents.

use serde_json::Value;

/// The deepest nesting this crate works on: a scalar has depth 0, `{}` and `[]` have depth 1.
///
/// `serde_json` refuses to read 128 levels. A patch or an apply could build a deeper object out of
/// two readable ones, which could then be stored but never read again; the distance to 128 leaves
/// room for the envelopes an object travels in (a list, a watch event, an admission review).
pub const MAX_DEPTH: usize = 100;

/// How much deeper `metadata.managedFields` may be: it repeats the structure of the object, a few
/// levels down.
const OWNERS_SLACK: usize = 8;

/// The document nests deeper than [`MAX_DEPTH`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the document nests deeper than {MAX_DEPTH} levels")]
pub struct TooDeep;

/// Refuses a document nested deeper than [`MAX_DEPTH`], not counting what `managedFields` need.
///
/// Recurses no deeper than that itself, so it is safe on any document that exists. What takes a document from a
/// client calls it before it recurses.
pub fn check(document: &Value) -> Result<(), TooDeep> {
    let Some(owners) = document.pointer("/metadata/managedFields") else {
        return walk(document, MAX_DEPTH, None).map(|_| ());
    };
    check_owners(owners)?;
    walk(document, MAX_DEPTH, Some(owners)).map(|_| ())
}

/// Refuses `managedFields` that are too deep for any object.
pub fn check_owners(entries: &Value) -> Result<(), TooDeep> {
    // They stand two levels down in the object.
    walk(entries, MAX_DEPTH + OWNERS_SLACK - 2, None).map(|_| ())
}

/// Refuses a value that, `above` levels down in a document, would make it too deep. Returns how many
/// values it looked at.
pub(crate) fn check_below(value: &Value, above: usize) -> Result<usize, TooDeep> {
    walk(value, MAX_DEPTH.saturating_sub(above), None)
}

/// Counts the values of a document that is at most `limit` deep. Passes by the value at `except`.
///
/// Recurses no deeper than the limit, which any stack has room for.
fn walk(document: &Value, limit: usize, except: Option<&Value>) -> Result<usize, TooDeep> {
    let mut seen = 1;
    match document {
        _ if except.is_some_and(|except| std::ptr::eq(except, document)) => {}
        Value::Array(_) | Value::Object(_) if limit == 0 => return Err(TooDeep),
        Value::Array(items) => {
            seen += items.len();
            for item in items.iter().filter(|item| item.is_array() || item.is_object()) {
                seen += walk(item, limit - 1, except)? - 1;
            }
        }
        Value::Object(fields) => {
            seen += fields.len();
            for (_, field) in fields.iter().filter(|(_, field)| field.is_array() || field.is_object()) {
                seen += walk(field, limit - 1, except)? - 1;
            }
        }
        _ => {}
    }
    Ok(seen)
}

/// Deep documents for tests, of this crate and of those that check depth with it.
#[doc(hidden)]
pub mod hostile {
    use serde_json::Value;

    /// An array of arrays, `levels` deep.
    pub fn nested(levels: usize) -> Value {
        (0..levels).fold(Value::Null, |inner, _| Value::Array(vec![inner]))
    }

    /// Takes a deep document apart without the recursion that dropping it would need.
    pub fn dismantle(mut document: Value) {
        while let Value::Array(mut items) = document {
            document = items.pop().unwrap_or(Value::Null);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::hostile::{dismantle, nested};
    use super::*;

    #[test]
    fn the_limit_itself_is_accepted_and_one_more_is_not() {
        assert_eq!(check(&nested(MAX_DEPTH)), Ok(()));
        assert_eq!(check(&nested(MAX_DEPTH + 1)), Err(TooDeep));
    }

    #[test]
    fn ten_thousand_levels_are_refused_without_going_down_all_of_them() {
        let document = nested(10_000);
        assert_eq!(check(&document), Err(TooDeep));
        dismantle(document);
    }

    #[test]
    fn owners_may_be_as_deep_as_the_object_needs_them_to_be() {
        let owned = |levels: usize| serde_json::json!({"metadata": {"managedFields": nested(levels)}});
        assert_eq!(check(&owned(MAX_DEPTH + OWNERS_SLACK - 2)), Ok(()));
        assert_eq!(check(&owned(MAX_DEPTH + OWNERS_SLACK - 1)), Err(TooDeep));
    }

    #[test]
    fn what_is_accepted_can_be_read_back_inside_an_envelope() {
        let owners = nested(MAX_DEPTH + OWNERS_SLACK - 2);
        let object =
            serde_json::json!({"metadata": {"managedFields": owners}, "spec": nested(MAX_DEPTH - 1)});
        assert_eq!(check(&object), Ok(()));
        let envelope = serde_json::json!({"request": {"object": {"items": [object]}}});
        assert!(serde_json::from_str::<Value>(&envelope.to_string()).is_ok());
    }
}
