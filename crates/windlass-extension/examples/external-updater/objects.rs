//! What a machine has become, written to its objects.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};
use windlass_api::api_version;
use windlass_extension::Object;
use windlass_extension::hooks::MachineObjects;

/// Who writes, in `managedFields`.
const FIELD_MANAGER: &str = "external-updater";

/// Writes what is desired to the objects of a Machine. Each write can be repeated; the Machine comes last, because it says
/// that all is done.
pub(crate) async fn write(client: &Client, machine: &Object, desired: &MachineObjects) -> Result<(), String> {
    let namespace = machine.namespace().unwrap_or_default();
    let name = |pointer: &str| machine.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let failed = |what: &str, error: kube::Error| format!("cannot write {what}: {error}");

    let infrastructure = name("/spec/infrastructureRef/name");
    merge(client, namespace, infrastructure, &desired.infrastructure_machine)
        .await
        .map_err(|error| failed("the infrastructure", error))?;
    if let Some(config) = &desired.bootstrap_config {
        let config_name = name("/spec/bootstrap/configRef/name");
        replace_spec(client, namespace, config_name, config)
            .await
            .map_err(|error| failed("the bootstrap config", error))?;
    }
    merge(client, namespace, machine.name().unwrap_or_default(), &desired.machine)
        .await
        .map_err(|error| failed("the Machine", error))
}

/// Changes what is desired and nothing else: the provider has written into these objects too, `providerID` above all.
async fn merge(client: &Client, namespace: &str, name: &str, desired: &Object) -> Result<(), kube::Error> {
    let mut patch = json!({"spec": desired.spec().cloned().unwrap_or_else(|| json!({}))});
    // Which template the infrastructure is from now. Names are not in it.
    if let Some(annotations) = desired.pointer("/metadata/annotations") {
        patch["metadata"] = json!({"annotations": annotations});
    }
    let parameters = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
    api(client, namespace, desired).patch(name, &parameters, &Patch::Merge(patch)).await.map(drop)
}

/// A field that is not desired any more has to go, which no merge does. What was read is what is replaced: another write in
/// between makes this one fail, and it is tried again with all the rest.
async fn replace_spec(
    client: &Client,
    namespace: &str,
    name: &str,
    desired: &Object,
) -> Result<(), kube::Error> {
    let api = api(client, namespace, desired);
    let mut present = api.get(name).await?;
    let spec = desired.spec().cloned().unwrap_or_else(|| Value::Object(Map::new()));
    if present.data.get("spec") == Some(&spec) {
        return Ok(());
    }
    present.data["spec"] = spec;
    api.replace(name, &kube::api::PostParams::default(), &present).await.map(drop)
}

fn api(client: &Client, namespace: &str, object: &Object) -> Api<DynamicObject> {
    let api_version = object.api_version().unwrap_or_default();
    let kind = api_version::kind(api_version, object.kind().unwrap_or_default());
    Api::namespaced_with(client.clone(), namespace, &ApiResource::from_gvk(&kind))
}
