//! How large a value can be, by its schema and by what fits into a request.

use crate::schema::structural::{Additional, Schema, Type};

/// The most bytes of a request. What a schema does not bound is bounded by this.
pub(super) const REQUEST: u64 = 3 << 20;

/// The most bytes of a name or a key, as rules of names have it.
pub(super) const NAME: u64 = 317;

/// What all rules of a schema may cost together, and each of them: Kubernetes' own limits.
pub(super) const PER_SCHEMA: u64 = 100_000_000;
/// See [`PER_SCHEMA`].
pub(super) const PER_RULE: u64 = 10_000_000;

/// The most bytes of a string, elements of a list or entries of a map; 1 for anything else.
pub(super) fn largest(schema: &Schema) -> u64 {
    let bound = |declared: Option<i64>| declared.map(|bound| u64::try_from(bound).unwrap_or(0));
    match schema.ty {
        Some(Type::String) => largest_string(schema),
        Some(Type::Array) => bound(schema.checks.max_items).unwrap_or_else(|| {
            let item = schema.items.as_deref().map_or(1, smallest);
            (REQUEST - 2) / (item + 1)
        }),
        Some(Type::Object) => match &schema.additional {
            Some(Additional::Schema(field)) => {
                bound(schema.checks.max_properties).unwrap_or_else(|| (REQUEST - 2) / (smallest(field) + 6))
            }
            Some(Additional::Anything) => bound(schema.checks.max_properties).unwrap_or(REQUEST / 7),
            None => 1,
        },
        Some(Type::Integer | Type::Number | Type::Boolean) => 1,
        None => REQUEST,
    }
}

fn largest_string(schema: &Schema) -> u64 {
    match schema.checks.format.as_deref() {
        Some("date") => return 10,
        Some("date-time" | "datetime" | "duration") => return 64,
        _ => {}
    }
    let allowed =
        schema.checks.allowed.iter().filter_map(|value| value.as_str()).map(|text| text.len() as u64);
    if let Some(longest) = allowed.max() {
        return longest;
    }
    match schema.checks.max_length {
        // Characters have up to four bytes.
        Some(length) => u64::try_from(length).unwrap_or(0).saturating_mul(4).min(REQUEST),
        None => REQUEST - 2,
    }
}

/// The fewest bytes of a value in a request.
pub(super) fn smallest(schema: &Schema) -> u64 {
    match schema.ty {
        Some(Type::String | Type::Array) => 2,
        Some(Type::Boolean) => 4,
        Some(Type::Integer | Type::Number) | None => 1,
        Some(Type::Object) => {
            let required = schema.checks.required.iter().filter_map(|name| {
                let field = schema.properties.get(name).filter(|field| field.default.is_none())?;
                Some(name.len() as u64 + 4 + smallest(field))
            });
            2 + required.sum::<u64>()
        }
    }
}

/// How often a value of this schema fits into a request.
pub(super) fn most_in_a_request(schema: &Schema) -> u64 {
    REQUEST / (smallest(schema) + 1)
}
