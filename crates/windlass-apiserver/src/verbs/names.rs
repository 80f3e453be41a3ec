//! What names, labels, annotations, finalizers and owners may look like.

use serde_json::Value;

use super::prepare::text;
use windlass_api::label_selector::{label_key_problems, label_value_problems};

use crate::machinery::Cause;
use crate::registry::{Behaviour, Resource};

/// The longest name of an object.
pub(super) const MAX_NAME: usize = 253;

/// The longest label of a DNS name, and the longest value of a label.
const MAX_LABEL: usize = 63;

/// How much all annotations of an object may have together.
const MAX_ANNOTATIONS: usize = 256 * 1024;

const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SERVICE: &str = "[a-z]([-a-z0-9]*[a-z0-9])?";

/// Everything wrong with the metadata of an object.
pub(super) fn check(resource: &Resource, object: &Value, old: Option<&Value>) -> Vec<Cause> {
    let mut causes = Vec::new();
    if old.is_none() {
        name(resource, object, &mut causes);
    }
    let metadata = &object["metadata"];
    let is_new = |field: &str| old.is_none_or(|old| old["metadata"][field] != metadata[field]);
    if is_new("labels") {
        labels(metadata, &mut causes);
    }
    if is_new("annotations") {
        annotations(metadata, &mut causes);
    }
    if is_new("ownerReferences") {
        owners(metadata, &mut causes);
    }
    if let Some(old) = old.filter(|_| is_new("finalizers")) {
        let is_deleting = old["metadata"]["deletionTimestamp"].is_string();
        causes.extend(new_finalizers(old, object).filter(|_| is_deleting).into_iter().flatten());
    }
    causes
}

fn name(resource: &Resource, object: &Value, causes: &mut Vec<Cause>) {
    let name = text(object, "name");
    if name.is_empty() {
        causes.push(Cause::required("metadata.name", "name or generateName is required"));
        return;
    }
    let problem = match resource.behaviour {
        _ if resource.strategy.free_names => path_segment(name),
        Behaviour::Namespace => label(name),
        Behaviour::Service => service(name),
        _ => subdomain(name),
    };
    if let Some(problem) = problem {
        causes.push(Cause::invalid("metadata.name", &name.into(), problem));
    }
}

fn subdomain(name: &str) -> Option<String> {
    if name.len() > MAX_NAME {
        return Some(format!("must be no more than {MAX_NAME} characters"));
    }
    refuse(name.split('.').all(is_label), || {
        format!(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '{SUBDOMAIN}')"
        )
    })
}

fn label(name: &str) -> Option<String> {
    if name.len() > MAX_LABEL {
        return Some(format!("must be no more than {MAX_LABEL} characters"));
    }
    refuse(is_label(name), || {
        format!(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start \
             and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is \
             '{LABEL}')"
        )
    })
}

fn service(name: &str) -> Option<String> {
    if name.len() > MAX_LABEL {
        return Some(format!("must be no more than {MAX_LABEL} characters"));
    }
    refuse(is_label(name) && name.starts_with(|c: char| c.is_ascii_lowercase()), || {
        format!(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic \
             character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
             validation is '{SERVICE}')"
        )
    })
}

fn path_segment(name: &str) -> Option<String> {
    match name {
        "." | ".." => Some(format!("may not be '{name}'")),
        _ => name.contains(['/', '%']).then(|| "may not contain '/' or '%'".to_owned()),
    }
}

fn labels(metadata: &Value, causes: &mut Vec<Cause>) {
    let Some(labels) = metadata["labels"].as_object() else { return };
    for (key, value) in labels {
        for problem in label_key_problems(key) {
            causes.push(Cause::invalid("metadata.labels", &key.as_str().into(), problem));
        }
        for problem in label_value_problems(value.as_str().unwrap_or_default()) {
            causes.push(Cause::invalid("metadata.labels", value, problem));
        }
    }
}

fn annotations(metadata: &Value, causes: &mut Vec<Cause>) {
    let Some(annotations) = metadata["annotations"].as_object() else { return };
    for key in annotations.keys() {
        for problem in label_key_problems(&key.to_lowercase()) {
            causes.push(Cause::invalid("metadata.annotations", &key.as_str().into(), problem));
        }
    }
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    let total: usize = annotations.iter().map(|(key, value)| key.len() + length(value)).sum();
    if total > MAX_ANNOTATIONS {
        causes.push(Cause::too_long("metadata.annotations", MAX_ANNOTATIONS as i64));
    }
}

fn owners(metadata: &Value, causes: &mut Vec<Cause>) {
    let owners = metadata["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, owner) in owners.iter().enumerate() {
        for (field, message) in [
            ("apiVersion", "version must not be empty"),
            ("kind", "must not be empty"),
            ("name", "must not be empty"),
            ("uid", "must not be empty"),
        ] {
            if owner[field].as_str().is_none_or(str::is_empty) {
                let place = format!("metadata.ownerReferences[{index}].{field}");
                causes.push(Cause::invalid(place, &Value::from(""), message));
            }
        }
    }
    let controllers = owners.iter().filter(|owner| owner["controller"] == true).count();
    if controllers > 1 {
        let detail = "Only one reference can have Controller set to true";
        causes.push(Cause::invalid_unprinted("metadata.ownerReferences", detail));
    }
}

/// Nothing may ask to be waited for any more once an object is going away. The API server says it twice.
fn new_finalizers(old: &Value, new: &Value) -> Option<[Cause; 2]> {
    let list = |object: &Value| object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
    let before = list(old);
    let added: Vec<String> =
        list(new).iter().filter(|finalizer| !before.contains(finalizer)).map(Value::to_string).collect();
    if added.is_empty() {
        return None;
    }
    let cause = Cause::forbidden(
        "metadata.finalizers",
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ),
    );
    Some([cause.clone(), cause])
}

/// One part of a DNS name.
fn is_label(text: &str) -> bool {
    let is_edge =
        |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let bytes = text.as_bytes();
    is_edge(bytes.first())
        && is_edge(bytes.last())
        && bytes.iter().all(|byte| *byte == b'-' || is_edge(Some(byte)))
}

fn refuse(is_fine: bool, problem: impl FnOnce() -> String) -> Option<String> {
    if is_fine { None } else { Some(problem()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_what_they_are_for() {
        let is_fine = |problem: Option<String>| problem.is_none();
        assert!(
            is_fine(subdomain("a.b-c.d0")) && !is_fine(subdomain("Bad_Name")) && !is_fine(subdomain("a..b"))
        );
        assert!(is_fine(label("a-b")) && !is_fine(label("a.b")) && !is_fine(label(&"a".repeat(64))));
        assert!(is_fine(service("a1")) && !is_fine(service("1a")));
        assert!(is_fine(path_segment("system:node")) && !is_fine(path_segment("a/b")));
    }
}
