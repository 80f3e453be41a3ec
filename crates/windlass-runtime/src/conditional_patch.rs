//! A JSON Patch that annotates an object, if what the decision was made from is still so.

use kube::ResourceExt;
use kube::core::response::StatusDetails;
use serde_json::{Map, Value, json};
use windlass_patch::{Dialect, JsonPatch, pointer};

use crate::Kind;
use crate::write_error::WriteError;

const ANNOTATIONS: &str = "/metadata/annotations";

/// A patch that sets annotations of the object that was read, and of no other of its name, if the values at some JSON
/// pointers are unchanged.
pub(crate) fn annotate<K: Kind>(
    read: &K,
    unchanged: &[(&str, Value)],
    annotations: &[(&str, String)],
) -> Value {
    let test = |path: &str, value: &Value| json!({"op": "test", "path": path, "value": value});
    let mut operations = vec![test("/metadata/uid", &json!(read.uid()))];
    operations.extend(unchanged.iter().map(|(path, value)| test(path, value)));
    if read.annotations().is_empty() {
        // There is nothing to add an annotation to, and what others add meanwhile must not be replaced.
        let values: Map<String, Value> =
            annotations.iter().map(|(name, value)| ((*name).to_owned(), json!(value))).collect();
        operations.push(test(ANNOTATIONS, &Value::Null));
        operations.push(json!({"op": "add", "path": ANNOTATIONS, "value": values}));
    } else {
        operations.extend(annotations.iter().map(|(name, value)| {
            let mut path = ANNOTATIONS.to_owned();
            pointer::push(&mut path, name);
            json!({"op": "add", "path": path, "value": value})
        }));
    }
    Value::Array(operations)
}

/// Whether a patch can be applied to an object: its tests hold, and there is what it adds to.
pub(crate) fn fits(patch: &Value, object: &Value) -> bool {
    JsonPatch::parse(Dialect::ApiServer, patch).and_then(|patch| patch.apply(object)).is_ok()
}

/// Whether an API may have answered so because a JSON Patch does not fit the object.
///
/// It answers that with 422, as it does for objects that a schema refuses, which it names, and as admission webhooks may.
/// Its words are not part of its contract, so the object has to be read to know.
pub(crate) fn may_be_misfit(error: &WriteError) -> bool {
    let names_an_object = |details: &StatusDetails| !details.name.is_empty() || !details.causes.is_empty();
    let status = error.status().filter(|status| status.code == 422);
    status.is_some_and(|status| !status.details.as_ref().is_some_and(names_an_object))
}
