//! Admission by others: webhooks that configuration objects name.

mod client;
mod hook;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::admission::Review;
use crate::api::Failure;
use crate::machinery::JsonPatch;
use crate::server::Inner;
use crate::stored::{meta, parse};
use hook::Hook;

const GROUP: &str = "admissionregistration.k8s.io";

/// Asks the mutating webhooks one after the other, each about what the one before made of the object.
pub(crate) async fn mutate(
    server: &Arc<Inner>,
    review: &Review<'_>,
    object: &mut Value,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    for hook in hooks(server, "mutatingwebhookconfigurations", review, object)? {
        let Some(response) = ask(&hook, review, object, warnings).await? else { continue };
        let Some(patch) = response["patch"].as_str() else { continue };
        let broken = |why: &str| Failure::internal(format!("admission webhook {:?}: {why}", hook.name));
        let patch = STANDARD.decode(patch).map_err(|_| broken("its patch is not base64"))?;
        let patch: Value = serde_json::from_slice(&patch).map_err(|_| broken("its patch is not JSON"))?;
        let patch = JsonPatch::parse(&patch).map_err(|error| broken(&error.to_string()))?;
        *object = patch.apply(object).map_err(|error| broken(&error.to_string()))?;
    }
    Ok(())
}

/// Asks the validating webhooks.
pub(crate) async fn validate(
    server: &Arc<Inner>,
    review: &Review<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> Result<(), Failure> {
    for hook in hooks(server, "validatingwebhookconfigurations", review, object)? {
        ask(&hook, review, object, warnings).await?;
    }
    Ok(())
}

/// The webhooks that have a say in a write, in the order of their configurations.
fn hooks(
    server: &Arc<Inner>,
    plural: &str,
    review: &Review<'_>,
    object: &Value,
) -> Result<Vec<Hook>, Failure> {
    // Otherwise a broken webhook could keep everybody from repairing it.
    if review.group == GROUP {
        return Ok(Vec::new());
    }
    let registry = server.registry();
    let Some(configurations) = registry.get(GROUP, "v1", plural) else { return Ok(Vec::new()) };
    let snapshot = server.store.snapshot();
    if snapshot.count(&configurations.storage) == 0 {
        return Ok(Vec::new());
    }
    let namespaces = registry.get("", "v1", "namespaces");
    let namespace = namespaces.and_then(|namespaces| namespaces.key("", review.namespace).ok());
    let namespace = namespace.and_then(|key| server.store.get(&key)).map(|namespace| meta(&namespace));
    let mut hooks = Vec::new();
    for configuration in snapshot.list(&configurations.scope(None)) {
        let configuration = parse(configuration)?;
        for webhook in configuration["webhooks"].as_array().into_iter().flatten() {
            let hook = Hook::read(webhook);
            if hook.is_asked(review, object, namespace.as_ref().map(|namespace| &namespace.labels)) {
                hooks.push(hook);
            }
        }
    }
    Ok(hooks)
}

/// Asks one webhook: its response if it allows the write, `None` if it cannot be asked and need not be.
async fn ask(
    hook: &Hook,
    review: &Review<'_>,
    object: &Value,
    warnings: &mut Vec<String>,
) -> Result<Option<Value>, Failure> {
    let name = &hook.name;
    if review.dry_run && !hook.allows_dry_run {
        return Err(Failure::bad_request(format!("admission webhook {name:?} does not support dry run")));
    }
    let uid = format!("{:032x}", fastrand::u128(..));
    let request = request(review, object, &uid);
    let answer = match client::post(&hook.target, hook.timeout, &request).await {
        Ok(answer) => answer,
        Err(_) if !hook.fails_closed => return Ok(None),
        Err(error) => {
            let message = format!("failed calling webhook {name:?}: failed to call webhook: {error}");
            return Err(Failure::internal(message));
        }
    };
    let response = &answer["response"];
    if response["uid"] != uid {
        if !hook.fails_closed {
            return Ok(None);
        }
        return Err(Failure::internal(format!(
            "failed calling webhook {name:?}: its answer is to another question"
        )));
    }
    for warning in response["warnings"].as_array().into_iter().flatten() {
        warnings.extend(warning.as_str().map(str::to_owned));
    }
    if response["allowed"] == true {
        return Ok(Some(response.clone()));
    }
    let code = response["status"]["code"].as_u64().and_then(|code| u16::try_from(code).ok());
    let message = match response["status"]["message"].as_str() {
        Some(message) if !message.is_empty() => {
            format!("admission webhook {name:?} denied the request: {message}")
        }
        _ => format!("admission webhook {name:?} denied the request without explanation"),
    };
    Err(Failure::denied(code.unwrap_or(403), message))
}

fn request(review: &Review<'_>, object: &Value, uid: &str) -> Value {
    let Review { group, version, resource, kind, .. } = review;
    let is_delete = review.operation == crate::admission::Operation::Delete;
    let nothing = Value::Null;
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": uid,
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource},
            "requestKind": {"group": group, "version": version, "kind": kind},
            "requestResource": {"group": group, "version": version, "resource": resource},
            "subResource": review.subresource,
            "name": review.name,
            "namespace": review.namespace,
            "operation": review.operation.as_str(),
            "userInfo": {"username": review.user.username, "uid": review.user.uid, "groups": review.user.groups},
            "object": if is_delete { &nothing } else { object },
            "oldObject": review.old,
            "dryRun": review.dry_run,
            "options": null,
        },
    })
}
