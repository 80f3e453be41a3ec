//! A class and all the templates that it refers to.

use std::collections::BTreeMap;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use serde_json::Value;
use windlass_api::cluster::{ClusterClass, TemplateReference};
use windlass_engine::topology::desired::{Blueprint, GroupBlueprint};
use windlass_reconcile::{Context, ObjectKey};

use super::errors::TopologyError;
use crate::external::plural;

/// Reads everything that a class refers to. The kinds are watched from now on.
pub(super) async fn load(context: &Context, class: &ClusterClass) -> Result<Blueprint, TopologyError> {
    let reader = Reader { context, class };
    let spec = &class.spec;
    let control_plane_machines = match &spec.control_plane.machine_infrastructure {
        Some(machines) => Some(reader.template(&machines.template_ref).await?),
        None => None,
    };
    let mut machine_deployments = BTreeMap::new();
    for group in &spec.workers.machine_deployments {
        let bootstrap = reader.template(&group.bootstrap.template_ref).await?;
        let infrastructure = reader.template(&group.infrastructure.template_ref).await?;
        machine_deployments.insert(group.class.clone(), GroupBlueprint { bootstrap, infrastructure });
    }
    let mut machine_pools = BTreeMap::new();
    for group in &spec.workers.machine_pools {
        let bootstrap = reader.template(&group.bootstrap.template_ref).await?;
        let infrastructure = reader.template(&group.infrastructure.template_ref).await?;
        machine_pools.insert(group.class.clone(), GroupBlueprint { bootstrap, infrastructure });
    }
    Ok(Blueprint {
        class: class.clone(),
        infrastructure: reader.template(&spec.infrastructure.template_ref).await?,
        control_plane: reader.template(&spec.control_plane.template_ref).await?,
        control_plane_machines,
        machine_deployments,
        machine_pools,
    })
}

/// All templates that a class refers to.
pub(super) fn references(class: &ClusterClass) -> impl Iterator<Item = &TemplateReference> {
    let spec = &class.spec;
    let machines = spec.control_plane.machine_infrastructure.iter().map(|machines| &machines.template_ref);
    let deployments = spec
        .workers
        .machine_deployments
        .iter()
        .flat_map(|group| [&group.bootstrap.template_ref, &group.infrastructure.template_ref]);
    let pools = spec
        .workers
        .machine_pools
        .iter()
        .flat_map(|group| [&group.bootstrap.template_ref, &group.infrastructure.template_ref]);
    [&spec.infrastructure.template_ref, &spec.control_plane.template_ref]
        .into_iter()
        .chain(machines)
        .chain(deployments)
        .chain(pools)
}

struct Reader<'a> {
    context: &'a Context,
    class: &'a ClusterClass,
}

impl Reader<'_> {
    async fn template(&self, reference: &TemplateReference) -> Result<Value, TopologyError> {
        let cache = self.context.watch(&resource(&reference.api_version, &reference.kind)).await?;
        let namespace = self.class.metadata.namespace.as_deref().unwrap_or_default();
        match cache.get(&ObjectKey::new(namespace, &reference.name)) {
            Some(template) => Ok(to_value(&template)),
            None => Err(TopologyError::NoTemplate {
                template: format!("{} {namespace}/{}", reference.kind, reference.name),
                class: self.class.metadata.name.clone().unwrap_or_default(),
            }),
        }
    }
}

/// How objects of a kind are reached whose group and version are known.
pub(crate) fn resource(api_version: &str, kind: &str) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), &plural(kind))
}

/// How an object is reached, from its own type.
pub(super) fn resource_of(object: &Value) -> ApiResource {
    let text = |field: &str| object.get(field).and_then(Value::as_str).unwrap_or_default();
    resource(text("apiVersion"), text("kind"))
}

/// An object of any kind as JSON.
pub(super) fn to_value(object: &DynamicObject) -> Value {
    // A DynamicObject is JSON with names; it does not fail to be written as such.
    serde_json::to_value(object).unwrap_or_default()
}
