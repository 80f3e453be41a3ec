//! What the server itself fills in, keeps and resets in objects.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::Call;
use super::update::Part;
use crate::machinery::Cause;
use crate::registry::{Behaviour, crd};
use crate::webhook;

/// A text of the metadata, empty if it is not there.
pub(super) fn text<'a>(object: &'a Value, name: &str) -> &'a str {
    object["metadata"][name].as_str().unwrap_or_default()
}

/// Takes a field away.
pub(super) fn remove(object: &mut Value, field: &str) {
    if let Value::Object(fields) = object {
        fields.remove(field);
    }
}

fn remove_meta(object: &mut Value, field: &str) {
    remove(&mut object["metadata"], field);
}

/// A new object has no history, whatever it says.
pub(super) fn reset_metadata(object: &mut Value) {
    for field in [
        "uid",
        "resourceVersion",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
    ] {
        remove_meta(object, field);
    }
}

/// A new object has no field managers yet.
pub(super) fn remove_owners(object: &mut Value) {
    remove_meta(object, "managedFields");
}

/// Clients written in Go send `creationTimestamp: null` with everything.
pub(super) fn drop_empty_metadata(object: &mut Value) {
    let Value::Object(metadata) = &mut object["metadata"] else { return };
    metadata.retain(|name, value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        // An empty list of owners is an order to forget them.
        Value::Array(items) => !items.is_empty() || name == "managedFields",
        Value::Object(fields) => !fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => true,
    });
}

/// Gives a new object its identity.
pub(super) fn stamp_new(call: &Call, object: &mut Value) {
    let uid = call.server.uid(&call.resource, &call.namespace, text(object, "name"));
    let metadata = &mut object["metadata"];
    metadata["uid"] = uid.into();
    metadata["creationTimestamp"] = crate::time::stamp(call.server.clock.now()).into();
    if call.resource.strategy.generation {
        metadata["generation"] = 1.into();
    }
}

/// Defaults that a few kinds have. Their field manager is the one that writes the object.
pub(super) fn default_object(call: &Call, object: &mut Value) {
    match call.resource.behaviour {
        Behaviour::Namespace => {
            let name = object["metadata"]["name"].clone();
            object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
        }
        Behaviour::Secret => default_secret(object),
        Behaviour::Crd => crd::apply_defaults(object),
        // Required, and never absent in what the API server answers.
        Behaviour::Event => {
            let about = if call.resource.group.is_empty() { "involvedObject" } else { "regarding" };
            if object[about].is_null() {
                object[about] = json!({});
            }
        }
        Behaviour::Service => {
            for (field, value) in [("type", "ClusterIP"), ("sessionAffinity", "None")] {
                if object["spec"].is_object() && object["spec"][field].is_null() {
                    object["spec"][field] = value.into();
                }
            }
        }
        _ => {}
    }
}

fn default_secret(secret: &mut Value) {
    if secret["type"].as_str().is_none_or(str::is_empty) {
        secret["type"] = "Opaque".into();
    }
    let Some(Value::Object(texts)) = secret.as_object_mut().and_then(|fields| fields.remove("stringData"))
    else {
        return;
    };
    for (name, value) in texts {
        if let Some(text) = value.as_str() {
            secret["data"][name] = STANDARD.encode(text).into();
        }
    }
}

/// What the server puts into a new object on its own behalf.
pub(super) fn new_object(call: &Call, object: &mut Value) {
    match call.resource.behaviour {
        Behaviour::Namespace => {
            object["spec"] = json!({"finalizers": ["kubernetes"]});
            object["status"] = json!({"phase": "Active"});
        }
        Behaviour::Crd => {
            let stored: Vec<&str> = crd::storage_version(object).into_iter().collect();
            object["status"] = json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
        }
        Behaviour::CertificateRequest => {
            object["spec"]["username"] = call.identity.username.as_str().into();
            object["spec"]["groups"] = call.identity.groups.as_slice().into();
            object["status"] = json!({});
        }
        Behaviour::Plain if call.resource.kind == "Pod" => object["status"] = json!({"phase": "Pending"}),
        _ => {}
    }
}

/// The object that a write of one part makes out of the old object and what the client sent.
pub(super) fn merge_part(call: &Call, part: Part, old: &Value, mut new: Value) -> Value {
    match part {
        Part::Scale => new,
        Part::Object => {
            if call.resource.has_status() {
                copy(old, &mut new, "status");
            }
            if call.resource.behaviour == Behaviour::Namespace {
                copy(old, &mut new, "spec");
            }
            new
        }
        Part::Status => {
            // An apply has recorded in the metadata who owns the status now.
            restore(old, &mut new, &["metadata", "status"]);
            match (&old["metadata"], &mut new["metadata"]) {
                (Value::Object(_), metadata @ Value::Object(_)) => {
                    restore(&old["metadata"], metadata, &["managedFields"]);
                }
                (before, metadata) => {
                    *metadata = before.clone();
                    remove(metadata, "managedFields");
                }
            }
            new
        }
        Part::Finalizers => {
            let mut object = old.clone();
            copy(&new["spec"], &mut object["spec"], "finalizers");
            object
        }
        Part::Approval => {
            let mut object = old.clone();
            copy(&new["status"], &mut object["status"], "conditions");
            object
        }
    }
}

/// Makes all fields but a few what they were. Most of them are that already, and comparing is cheaper than
/// copying.
fn restore(old: &Value, new: &mut Value, except: &[&str]) {
    let (Value::Object(old), Value::Object(new)) = (old, new) else { return };
    let is_excepted = |name: &str| except.contains(&name);
    new.retain(|name, _| is_excepted(name) || old.contains_key(name));
    for (name, value) in old.iter().filter(|(name, _)| !is_excepted(name)) {
        if new.get(name) != Some(value) {
            new.insert(name.clone(), value.clone());
        }
    }
}

fn copy(from: &Value, to: &mut Value, field: &str) {
    match from.get(field) {
        Some(value) if to.get(field) == Some(value) => {}
        Some(value) => {
            if !to.is_object() {
                *to = Value::Object(Map::new());
            }
            to[field] = value.clone();
        }
        None => remove(to, field),
    }
}

/// What an object is does not change by writing to it.
pub(super) fn keep_identity(old: &Value, object: &mut Value) {
    if !object["metadata"].is_object() {
        object["metadata"] = Value::Object(Map::new());
    }
    for field in [
        "name",
        "namespace",
        "uid",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
        "selfLink",
        "generateName",
    ] {
        copy(&old["metadata"], &mut object["metadata"], field);
    }
    remove_meta(object, "resourceVersion");
    for field in ["apiVersion", "kind"] {
        copy(old, object, field);
    }
}

/// Counts the change, if it is one of what is wanted.
pub(super) fn changed_object(call: &Call, part: Part, old: &Value, object: &mut Value) {
    if !call.resource.strategy.generation || part == Part::Status {
        return;
    }
    let has_status = call.resource.has_status();
    let is_wanted = |name: &str| name != "metadata" && !(has_status && name == "status");
    let is_same = match (old, &*object) {
        (Value::Object(old), Value::Object(new)) => {
            let wanted = |fields: &Map<String, Value>| fields.keys().filter(|name| is_wanted(name)).count();
            wanted(old) == wanted(new)
                && old.iter().all(|(name, value)| !is_wanted(name) || new.get(name) == Some(value))
        }
        (old, new) => old == new,
    };
    if !is_same {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default() + 1;
        object["metadata"]["generation"] = generation.into();
    }
}

/// Whether an object that is being deleted has nothing left that holds it.
pub(super) fn may_go(call: &Call, object: &Value) -> bool {
    let is_empty = |list: &Value| list.as_array().is_none_or(Vec::is_empty);
    object["metadata"]["deletionTimestamp"].is_string()
        && is_empty(&object["metadata"]["finalizers"])
        && (call.resource.behaviour != Behaviour::Namespace || is_empty(&object["spec"]["finalizers"]))
}

/// The role that a binding is to: kind and name.
fn role_ref(binding: &Value) -> (&Value, &Value) {
    (&binding["roleRef"]["kind"], &binding["roleRef"]["name"])
}

/// What only one kind requires.
pub(super) fn validate(call: &Call, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    match call.resource.behaviour {
        Behaviour::Crd if old.is_none_or(|old| old["spec"] != object["spec"]) => {
            let mut causes = crd::validate(object);
            if let Some(old) = old {
                for (pointer, field) in [
                    ("/spec/group", "spec.group"),
                    ("/spec/scope", "spec.scope"),
                    ("/spec/names/plural", "spec.names.plural"),
                    ("/spec/names/kind", "spec.names.kind"),
                ] {
                    if old.pointer(pointer) != object.pointer(pointer) {
                        let value = object.pointer(pointer).cloned().unwrap_or_default();
                        causes.push(Cause::invalid(field, &value, "field is immutable"));
                    }
                }
            }
            causes
        }
        _ if call.resource.group == "admissionregistration.k8s.io" => webhook::check(object),
        // A user that may change the subjects of a binding may not give all of them another role.
        _ if call.resource.group == "rbac.authorization.k8s.io"
            && old.is_some_and(|old| role_ref(old) != role_ref(object)) =>
        {
            vec![Cause::invalid("roleRef", &object["roleRef"], "cannot change roleRef")]
        }
        _ => Vec::new(),
    }
}
