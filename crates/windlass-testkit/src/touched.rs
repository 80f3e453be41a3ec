//! What became of objects between two moments.

use std::collections::BTreeMap;

use serde_json::Value;

/// What is not as it was: objects that came or went, and those whose spec was written. The keys name the objects.
pub fn touched(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> Vec<String> {
    let identity = |object: &Value| {
        let metadata = &object["metadata"];
        (metadata["uid"].clone(), metadata["generation"].clone(), metadata["deletionTimestamp"].clone())
    };
    let mut touched = Vec::new();
    for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
        match (before.get(name), after.get(name)) {
            (Some(_), None) => touched.push(format!("{name} is gone")),
            (None, Some(_)) => touched.push(format!("{name} is new")),
            (Some(before), Some(after)) if identity(before) != identity(after) => {
                let (before, after) = (&before["spec"], &after["spec"]);
                touched.push(format!("{name} was written: {before} -> {after}"));
            }
            _ => {}
        }
    }
    touched
}
