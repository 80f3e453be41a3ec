//! Snapshots of clusters on the in-memory provider, as they would be on another provider.

use serde_json::{Value, json};
use windlass_simulate::Snapshot;

/// The same snapshot, with machines of a provider of which nothing but the contract is known: other kinds, and no trace of what
/// the in-memory provider writes down for itself. How long its machines take stays in their specs.
pub(crate) fn disguised(snapshot: &Snapshot) -> Snapshot {
    let mut snapshot = snapshot.clone();
    for object in &mut snapshot.objects {
        let is_infrastructure = object["apiVersion"].as_str().unwrap().starts_with("infrastructure.");
        let is_template = object["kind"].as_str().unwrap().ends_with("Template");
        if is_infrastructure && !is_template {
            strip(object);
        }
        rename(object);
    }
    let text = serde_json::to_string(&snapshot.objects).unwrap();
    assert!(!text.contains("\"Dev"), "a kind of the in-memory provider is left");
    snapshot
}

/// Leaves what the contract has.
fn strip(object: &mut Value) {
    if let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with("inmemory."));
    }
    let metadata = object["metadata"].as_object_mut().unwrap();
    metadata.insert("finalizers".to_owned(), json!(["acme.example.com/machine"]));
    let provisioned = object.pointer("/status/initialization/provisioned") == Some(&json!(true));
    let kept = json!({"initialization": {"provisioned": provisioned}});
    object["status"] = if provisioned { kept } else { json!({}) };
}

fn rename(value: &mut Value) {
    match value {
        Value::String(text) => {
            for (ours, theirs) in [("DevMachine", "AcmeBox"), ("DevCluster", "AcmeFleet")] {
                if text.starts_with(ours) {
                    *text = text.replacen(ours, theirs, 1);
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rename),
        Value::Object(fields) => fields.values_mut().for_each(rename),
        _ => {}
    }
}
