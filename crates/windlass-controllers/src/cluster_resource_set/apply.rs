//! Applies objects of any kind to a workload cluster.

use std::collections::BTreeMap;

use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiCapabilities, Scope, pinned_kind};
use kube::{Client, core::ApiResource};
use serde_json::Value;
use windlass_api::addons::ClusterResourceSetStrategy;

use crate::workload::answer;

/// Field manager of what is applied again when it changes.
const FIELD_MANAGER: &str = "windlass-clusterresourceset";

/// Applies objects one after the other. What goes wrong with one does not keep the others from being applied.
///
/// # Errors
///
/// What went wrong, object by object.
pub(super) async fn all(
    client: &Client,
    objects: &[Value],
    strategy: Option<&ClusterResourceSetStrategy>,
) -> Result<(), String> {
    let again = strategy == Some(&ClusterResourceSetStrategy::Reconcile);
    let mut kinds: BTreeMap<String, (ApiResource, ApiCapabilities)> = BTreeMap::new();
    let mut problems = Vec::new();
    for object in objects {
        if let Err(why) = one(client, object, again, &mut kinds).await {
            let text = |pointer| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            problems.push(format!("{} {}: {why}", text("/kind"), text("/metadata/name")));
        }
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

async fn one(
    client: &Client,
    object: &Value,
    again: bool,
    kinds: &mut BTreeMap<String, (ApiResource, ApiCapabilities)>,
) -> Result<(), String> {
    let object: DynamicObject = serde_json::from_value(object.clone()).map_err(|error| error.to_string())?;
    let types = object.types.clone().ok_or("apiVersion and kind are missing")?;
    let kind = GroupVersionKind::try_from(&types).map_err(|error| error.to_string())?;
    let name = format!("{}/{}", types.api_version, types.kind);
    if !kinds.contains_key(&name) {
        let found = answer(pinned_kind(client, &kind)).await.map_err(|error| error.to_string())?;
        let found = found.ok_or_else(|| format!("{name} is not known there"))?;
        kinds.insert(name.clone(), found);
    }
    let Some((resource, capabilities)) = kinds.get(&name) else { return Ok(()) };
    let api: Api<DynamicObject> = match capabilities.scope {
        Scope::Cluster => Api::all_with(client.clone(), resource),
        Scope::Namespaced => {
            let namespace = object.metadata.namespace.as_deref().unwrap_or("default");
            Api::namespaced_with(client.clone(), namespace, resource)
        }
    };
    let written = match (&object.metadata.name, again) {
        (Some(name), true) => {
            let manager = PatchParams::apply(FIELD_MANAGER).force();
            answer(api.patch(name, &manager, &Patch::Apply(&object))).await
        }
        _ => {
            let manager =
                PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
            let created = api.create(&manager, &object);
            // Once is once: what is there already is left as it is.
            answer(async {
                match created.await {
                    Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => Ok(object.clone()),
                    created => created,
                }
            })
            .await
        }
    };
    match written {
        Ok(Some(_)) => Ok(()),
        Ok(None) => Err("its namespace does not exist".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}
