//! Objects as manifests have them, whatever their kind.

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, ValidationDirective};
use serde_json::Value;

/// Applies an object. Fields that are not known are refused.
pub(crate) async fn apply(client: &Client, object: &Value) -> Result<DynamicObject, kube::Error> {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let mut parameters = PatchParams::apply("test").force();
    parameters.field_validation = Some(ValidationDirective::Strict);
    api.patch(object["metadata"]["name"].as_str().unwrap(), &parameters, &Patch::Apply(object)).await
}
