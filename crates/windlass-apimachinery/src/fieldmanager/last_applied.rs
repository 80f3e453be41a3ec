//! The way from `kubectl apply` to `kubectl apply --server-side`.
//!
//! Client-side apply leaves what it applied in an annotation. When the same user goes on with
//! server-side apply, fields that still have the value of the annotation are theirs to change, and
//! the annotation is kept up to date so that they can go back.

use serde_json::Value;

use super::conflict::Conflicts;
use super::set::Set;
use super::shape::Shape;
use super::typed;
use windlass_patch::depth;

/// The annotation of client-side apply.
const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The manager that kubectl applies as. Who uses another name wants none of this.
const KUBECTL: &str = "kubectl";

/// The fields that client-side apply set and that still have the value it set.
pub(super) fn inherited(manager: &str, live: &Value, api_version: &str, shape: &Shape) -> Set {
    let config = (manager == KUBECTL).then(|| annotation(live)).flatten();
    let Some(config) = config.and_then(|text| serde_json::from_str::<Value>(text).ok()) else {
        return Set::default();
    };
    let fits = config.get("apiVersion").and_then(Value::as_str) == Some(api_version)
        && depth::check(&config).is_ok()
        && typed::conform(&config, shape, false).is_ok();
    if !fits {
        return Set::default();
    }
    let since = typed::compare(&config, live, shape);
    typed::fields(&config, shape).difference(&since.changed()).difference(&since.removed)
}

/// The conflicts about fields that are not inherited.
pub(super) fn remaining(conflicts: Conflicts, inherited: &Set) -> Conflicts {
    Conflicts(conflicts.0.into_iter().filter(|conflict| !inherited.contains(&conflict.path)).collect())
}

/// Brings the annotation up to date, if there is one.
pub(super) fn refresh(manager: &str, config: &Value, object: &mut Value) {
    if manager != KUBECTL || annotation(object).is_none() {
        return;
    }
    let mut applied = config.clone();
    if let Some(Value::Object(annotations)) = applied.pointer_mut("/metadata/annotations") {
        annotations.remove(ANNOTATION);
    }
    if let Some(Value::Object(annotations)) = object.pointer_mut("/metadata/annotations") {
        // kubectl ends it with a newline.
        annotations.insert(ANNOTATION.into(), format!("{applied}\n").into());
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
    Some(text).filter(|text| !text.is_empty())
}
