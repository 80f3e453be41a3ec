//! A class and all the templates that it refers to.

use std::collections::BTreeMap;

use kube::api::ApiResource;
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::{ClusterClass, TemplateReference};
use windlass_engine::topology::WorkerKind;
use windlass_engine::topology::desired::{Blueprint, GroupBlueprint};
use windlass_runtime::{Context, Incomplete, ObjectKey};

use super::errors::TopologyError;
use crate::external::{Externals, resource};

/// Reads everything that a class refers to. The kinds are watched from now on.
pub(super) async fn load(
    context: &Context,
    externals: &Externals,
    class: &ClusterClass,
) -> Result<Blueprint, TopologyError> {
    let reader = Reader { context, class };
    let spec = &class.spec;
    let control_plane_machines = match &spec.control_plane.machine_infrastructure {
        Some(machines) => Some(reader.template(&machines.template_ref).await?),
        None => None,
    };
    let mut workers = BTreeMap::new();
    for (key, [bootstrap, infrastructure]) in worker_templates(class) {
        let bootstrap = reader.template(bootstrap).await?;
        let infrastructure = reader.template(infrastructure).await?;
        workers.insert(key, GroupBlueprint { bootstrap, infrastructure });
    }
    let infrastructure = reader.template(&spec.infrastructure.template_ref).await?;
    let reference = &spec.control_plane.template_ref;
    let control_plane = reader.template(reference).await?;
    let kind = externals.kind_at(context, &reference.api_version, object_kind(&reference.kind)).await?;
    Ok(Blueprint {
        control_plane_contract: kind.contract,
        class: class.clone(),
        infrastructure,
        control_plane,
        control_plane_machines,
        workers,
    })
}

/// The kind of the objects that are made from a template.
pub(super) fn object_kind(template_kind: &str) -> &str {
    template_kind.strip_suffix("Template").unwrap_or(template_kind)
}

/// All templates that a class refers to.
pub(super) fn references(class: &ClusterClass) -> impl Iterator<Item = &TemplateReference> {
    let spec = &class.spec;
    let machines = spec.control_plane.machine_infrastructure.iter().map(|machines| &machines.template_ref);
    [&spec.infrastructure.template_ref, &spec.control_plane.template_ref]
        .into_iter()
        .chain(machines)
        .chain(worker_templates(class).flat_map(|(_, templates)| templates))
}

/// The templates of every class of workers: of the bootstrap, and of the infrastructure.
fn worker_templates(
    class: &ClusterClass,
) -> impl Iterator<Item = ((WorkerKind, String), [&TemplateReference; 2])> {
    let workers = &class.spec.workers;
    let deployments = workers.machine_deployments.iter().map(|group| {
        let templates = [&group.bootstrap.template_ref, &group.infrastructure.template_ref];
        ((WorkerKind::MachineDeployment, group.class.clone()), templates)
    });
    let pools = workers.machine_pools.iter().map(|group| {
        let templates = [&group.bootstrap.template_ref, &group.infrastructure.template_ref];
        ((WorkerKind::MachinePool, group.class.clone()), templates)
    });
    deployments.chain(pools)
}

struct Reader<'a> {
    context: &'a Context,
    class: &'a ClusterClass,
}

impl Reader<'_> {
    async fn template(&self, reference: &TemplateReference) -> Result<Value, TopologyError> {
        let cache = self.context.watch(&resource(&reference.api_version, &reference.kind)).await?;
        let namespace = &ObjectKey::of(self.class).namespace;
        match cache.get(&ObjectKey::new(namespace, &reference.name)) {
            Some(template) => to_value(&template),
            None => Err(TopologyError::NoTemplate {
                template: format!("{} {namespace}/{}", reference.kind, reference.name),
                class: ObjectKey::of(self.class).name,
            }),
        }
    }
}

/// How an object that is to be written is reached, from its own type, and its name.
pub(super) fn place_of(object: &Value) -> Result<(ApiResource, ObjectKey), Incomplete> {
    let text =
        |pointer: &str| object.pointer(pointer).and_then(Value::as_str).filter(|text| !text.is_empty());
    let needed = |pointer: &str, field: &'static str| {
        text(pointer).ok_or_else(|| Incomplete {
            kind: text("/kind").unwrap_or("object").to_owned(),
            object: text("/metadata/name").unwrap_or("without a name").to_owned(),
            field,
        })
    };
    let resource = resource(needed("/apiVersion", "apiVersion")?, needed("/kind", "kind")?);
    let name = needed("/metadata/name", "metadata.name")?;
    Ok((resource, ObjectKey::new(needed("/metadata/namespace", "metadata.namespace")?, name)))
}

/// An object of a provider as JSON.
pub(super) fn to_value(object: &impl Serialize) -> Result<Value, TopologyError> {
    serde_json::to_value(object).map_err(TopologyError::Json)
}
