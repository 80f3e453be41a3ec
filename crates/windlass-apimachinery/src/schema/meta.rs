//! The built-in schema of `metadata`, which every object has whatever its own schema says.

use std::fmt;

use serde_json::{Map, Value};

use super::place::Place;
use crate::json::type_name;

/// What a field of `metadata` holds.
#[derive(Debug, Clone, Copy)]
enum Kind {
    Text,
    Integer,
    Flag,
    TextMap,
    TextList,
    Anything,
    Objects(&'static [(&'static str, Kind)]),
}

const OWNER_REFERENCE: &[(&str, Kind)] = &[
    ("apiVersion", Kind::Text),
    ("blockOwnerDeletion", Kind::Flag),
    ("controller", Kind::Flag),
    ("kind", Kind::Text),
    ("name", Kind::Text),
    ("uid", Kind::Text),
];

const MANAGED_FIELDS_ENTRY: &[(&str, Kind)] = &[
    ("apiVersion", Kind::Text),
    ("fieldsType", Kind::Text),
    ("fieldsV1", Kind::Anything),
    ("manager", Kind::Text),
    ("operation", Kind::Text),
    ("subresource", Kind::Text),
    ("time", Kind::Text),
];

const OBJECT_META: &[(&str, Kind)] = &[
    ("annotations", Kind::TextMap),
    ("creationTimestamp", Kind::Text),
    ("deletionGracePeriodSeconds", Kind::Integer),
    ("deletionTimestamp", Kind::Text),
    ("finalizers", Kind::TextList),
    ("generateName", Kind::Text),
    ("generation", Kind::Integer),
    ("labels", Kind::TextMap),
    ("managedFields", Kind::Objects(MANAGED_FIELDS_ENTRY)),
    ("name", Kind::Text),
    ("namespace", Kind::Text),
    ("ownerReferences", Kind::Objects(OWNER_REFERENCE)),
    ("resourceVersion", Kind::Text),
    ("selfLink", Kind::Text),
    ("uid", Kind::Text),
];

/// A field of `metadata` holds something of another type than it must.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field} must be of type {expected}, not {found}")]
pub struct MetadataError {
    /// The field, `metadata.labels.app` for one.
    pub field: String,
    /// The type it must have.
    pub expected: &'static str,
    /// The type it has.
    pub found: &'static str,
}

/// Refuses metadata whose fields have the wrong types. Unknown fields do not matter here.
pub fn check_metadata(metadata: &Value) -> Result<(), MetadataError> {
    check_fields(metadata, OBJECT_META).map_err(|error| error.inside(format_args!("metadata")))
}

impl MetadataError {
    /// The same error, seen from what contains it: its place is only made when there is one to name.
    fn inside(mut self, place: fmt::Arguments<'_>) -> Self {
        self.field = format!("{place}{}", self.field);
        self
    }
}

/// Drops what is not metadata and reports its paths; drops what says nothing, as `null` and `{}`.
///
/// Clients written in Go send `creationTimestamp: null` with every object. The API server reads
/// metadata into a struct and writes it again, which loses empty values; so do we. Only
/// `managedFields: []` stays, because it is an order to forget who owns what.
pub(super) fn prune_metadata(metadata: &mut Value, path: Place<'_>, unknown: &mut Vec<String>) {
    let Value::Object(fields) = metadata else { return };
    fields.retain(|name, value| {
        let Some((_, kind)) = OBJECT_META.iter().find(|(known, _)| known == name) else {
            unknown.push(format!("{path}.{name}"));
            return false;
        };
        if let (Kind::Objects(known), Value::Array(items)) = (kind, &mut *value) {
            for (index, item) in items.iter_mut().enumerate() {
                prune_item(item, known, format_args!("{path}.{name}[{index}]"), unknown);
            }
        }
        name == "managedFields" && value.is_array() || !is_empty(value)
    });
}

fn prune_item(item: &mut Value, known: &[(&str, Kind)], path: fmt::Arguments<'_>, unknown: &mut Vec<String>) {
    let Value::Object(fields) = item else { return };
    fields.retain(|name, value| {
        let is_known = known.iter().any(|(known, _)| known == name);
        if !is_known {
            unknown.push(format!("{path}.{name}"));
        }
        is_known && !value.is_null()
    });
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn check_fields(value: &Value, known: &[(&str, Kind)]) -> Result<(), MetadataError> {
    for (name, value) in object(value)? {
        if let Some((_, kind)) = known.iter().find(|(known, _)| known == name) {
            check(value, *kind).map_err(|error| error.inside(format_args!(".{name}")))?;
        }
    }
    Ok(())
}

fn check(value: &Value, kind: Kind) -> Result<(), MetadataError> {
    if value.is_null() {
        return Ok(());
    }
    match kind {
        Kind::Anything => Ok(()),
        Kind::Text => ensure(value.is_string(), value, "string"),
        Kind::Integer => ensure(value.is_i64() || value.is_u64(), value, "integer"),
        Kind::Flag => ensure(value.is_boolean(), value, "boolean"),
        Kind::TextMap => object(value)?.iter().try_for_each(|(key, value)| {
            check(value, Kind::Text).map_err(|error| error.inside(format_args!(".{key}")))
        }),
        Kind::TextList => check_items(value, |item| check(item, Kind::Text)),
        Kind::Objects(known) => check_items(value, |item| check_fields(item, known)),
    }
}

fn check_items(
    value: &Value,
    check: impl Fn(&Value) -> Result<(), MetadataError>,
) -> Result<(), MetadataError> {
    let items = value.as_array().ok_or_else(|| wrong(value, "array"))?;
    items
        .iter()
        .enumerate()
        .try_for_each(|(index, item)| check(item).map_err(|error| error.inside(format_args!("[{index}]"))))
}

fn object(value: &Value) -> Result<&Map<String, Value>, MetadataError> {
    value.as_object().ok_or_else(|| wrong(value, "object"))
}

fn ensure(holds: bool, value: &Value, expected: &'static str) -> Result<(), MetadataError> {
    if holds { Ok(()) } else { Err(wrong(value, expected)) }
}

fn wrong(value: &Value, expected: &'static str) -> MetadataError {
    MetadataError { field: String::new(), expected, found: type_name(value) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn wrong_types_are_named_with_their_place() {
        let cases = [
            (json!({"labels": {"a": 1}}), "metadata.labels.a must be of type string, not integer"),
            (json!({"labels": []}), "metadata.labels must be of type object, not array"),
            (json!({"finalizers": ["a", 1]}), "metadata.finalizers[1] must be of type string, not integer"),
            (json!({"ownerReferences": {}}), "metadata.ownerReferences must be of type array, not object"),
            (
                json!({"ownerReferences": [{"controller": "yes"}]}),
                "metadata.ownerReferences[0].controller must be of type boolean, not string",
            ),
            (json!({"generation": 1.5}), "metadata.generation must be of type integer, not number"),
            (json!("x"), "metadata must be of type object, not string"),
        ];
        for (metadata, message) in cases {
            assert_eq!(check_metadata(&metadata).unwrap_err().to_string(), message);
        }
        let fine = json!({"name": "a", "creationTimestamp": null, "nobody": [1], "managedFields": [{}]});
        assert_eq!(check_metadata(&fine), Ok(()));
    }

    #[test]
    fn empty_and_unknown_metadata_is_dropped() {
        let mut metadata = json!({
            "name": "a", "creationTimestamp": null, "labels": {}, "finalizers": [], "namespace": "",
            "surprise": 1, "managedFields": [], "generation": 0,
            "ownerReferences": [{"uid": "u", "color": "red", "controller": null}],
        });
        let mut unknown = Vec::new();
        prune_metadata(&mut metadata, Place::Field(&Place::Root, "metadata"), &mut unknown);
        let kept = json!({
            "name": "a", "managedFields": [], "generation": 0, "ownerReferences": [{"uid": "u"}],
        });
        assert_eq!(metadata, kept);
        unknown.sort();
        assert_eq!(unknown, ["metadata.ownerReferences[0].color", "metadata.surprise"]);
    }
}
