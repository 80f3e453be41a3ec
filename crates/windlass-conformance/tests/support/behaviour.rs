//! What a well-behaved extension with a handler for every hook answers.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use windlass_api::Hook;

use super::{Ask, Reply};

const MAX_BODY: usize = 20 * 1024 * 1024;

/// Every handler has the name of its hook in lower case.
pub(crate) fn announcement(hooks: &[Hook]) -> Value {
    let handlers: Vec<Value> = hooks.iter().map(|hook| handler(hook.path_segment(), hook.name())).collect();
    json!({"status": "Success", "handlers": handlers})
}

pub(crate) fn handler(name: &str, hook: &str) -> Value {
    json!({
        "name": name,
        "requestHook": {"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook},
    })
}

pub(crate) fn all_hooks() -> Vec<Hook> {
    Hook::ALL.into_iter().filter(|hook| !hook.is_singleton()).collect()
}

pub(crate) fn failure(message: &str) -> Reply {
    Reply::json(&json!({"status": "Failure", "message": message}))
}

pub(crate) fn well_behaved(ask: &Ask) -> Reply {
    if ask.path == "/readyz" {
        return Reply::status(200);
    }
    let Some((hook, name)) = Hook::from_path(&ask.path) else { return Reply::status(404) };
    if name.is_some_and(|name| name.as_str() != hook.path_segment()) {
        return Reply::status(404);
    }
    if ask.body.len() > MAX_BODY {
        return failure("the request is larger than 20 MiB");
    }
    if !ask.value.is_object() {
        return failure("the request is not a JSON object");
    }
    Reply::json(&match hook {
        Hook::Discovery => announcement(&all_hooks()),
        Hook::GeneratePatches => generate_patches(&ask.value),
        Hook::DiscoverVariables => json!({"status": "Success", "variables": [variable("size", "string")]}),
        Hook::GenerateUpgradePlan => upgrade_plan(&ask.value),
        Hook::CanUpdateMachine => can_update(
            &ask.value,
            "/machine/spec/version",
            "machinePatch",
            |version| json!({"spec": {"version": version}}),
        ),
        Hook::CanUpdateMachineSet => can_update(
            &ask.value,
            "/machineSet/spec/template/spec/version",
            "machineSetPatch",
            |version| json!({"spec": {"template": {"spec": {"version": version}}}}),
        ),
        Hook::ExternalUpdate if ask.value["settings"]["block"] == "true" => {
            json!({"status": "Success", "accepted": true, "reason": "on it", "retryAfterSeconds": 30})
        }
        Hook::ExternalUpdate => {
            json!({"status": "Success", "accepted": false, "reason": "not mine", "retryAfterSeconds": 0})
        }
        _ if hook.may_block() && ask.value["settings"]["block"] == "true" => blocking(30),
        _ if hook.may_block() => json!({"status": "Success", "retryAfterSeconds": 0}),
        _ => json!({"status": "Success"}),
    })
}

pub(crate) fn blocking(seconds: i64) -> Value {
    json!({"status": "Success", "message": "waiting for approval", "retryAfterSeconds": seconds})
}

pub(crate) fn variable(name: &str, type_: &str) -> Value {
    json!({"name": name, "required": false, "schema": {"openAPIV3Schema": {"type": type_}}})
}

pub(crate) fn encoded(document: &Value) -> String {
    STANDARD.encode(document.to_string())
}

/// Sets one field of machine templates that do not have it yet.
fn generate_patches(request: &Value) -> Value {
    let items: Vec<Value> = request["items"]
        .as_array()
        .into_iter()
        .flatten()
        .filter(|item| item["object"]["kind"] == "DevMachineTemplate")
        .filter(|item| item["object"]["spec"]["template"]["spec"]["size"].is_null())
        .map(|item| {
            let patch = json!([{"op": "add", "path": "/spec/template/spec/size", "value": "small"}]);
            json!({"uid": item["uid"], "patchType": "JSONPatch", "patch": encoded(&patch)})
        })
        .collect();
    json!({"status": "Success", "items": items})
}

/// Every minor between the versions, patch 0.
fn upgrade_plan(request: &Value) -> Value {
    let minor = |field: &str| -> u64 {
        let version: windlass_version::Version = request[field].as_str().unwrap().parse().unwrap();
        version.minor().minor
    };
    let (from, to) = (minor("fromControlPlaneKubernetesVersion"), minor("toKubernetesVersion"));
    let steps: Vec<Value> =
        (from + 1..=to).map(|minor| json!({"version": format!("v1.{minor}.0")})).collect();
    json!({"status": "Success", "controlPlaneUpgrades": steps})
}

fn can_update(request: &Value, version: &str, patch: &str, overlay: fn(&Value) -> Value) -> Value {
    let of = |side: &str| request[side].pointer(version).cloned().unwrap_or_default();
    let mut answer = json!({"status": "Success"});
    if of("current") != of("desired") {
        let document = encoded(&overlay(&of("desired")));
        answer[patch] = json!({"patchType": "JSONMergePatch", "patch": document});
    }
    answer
}
