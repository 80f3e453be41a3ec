//! What belongs to a Machine: its KubeadmConfig and its infrastructure; and what of all three is kept in step.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, PoisonError};

use kube::api::{ApiResource, DynamicObject};
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::Machine;
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, CLUSTER_NAME_LABEL,
    KUBEADM_CONTROL_PLANE_FIELD_MANAGER, KUBEADM_CONTROL_PLANE_METADATA_FIELD_MANAGER,
};
use windlass_engine::control_plane::desired;
use windlass_engine::control_plane::kubeadm_config::Form;
use windlass_engine::intent::is_applied;
use windlass_reconcile::ObjectKey;

use super::{Applied, ControlPlaneError, ControlPlaneReconciler, Scene};
use crate::external::{External, FromTemplate};

impl ControlPlaneReconciler {
    /// Makes what is missing of Machines that were begun, and brings metadata and the like up to date.
    pub(super) async fn complete_and_sync(
        &self,
        scene: &Scene<'_>,
        machines: &[Arc<Machine>],
    ) -> Result<(), ControlPlaneError> {
        self.own_template(scene).await?;
        let initialized = scene.control_plane.status.initialization.control_plane_initialized == Some(true);
        let mut applied = Applied::new();
        for (index, machine) in machines.iter().enumerate() {
            if machine.meta().deletion_timestamp.is_some() {
                // Applying would put the clean-up hook back on that was taken off.
                self.sync_timeouts(scene, machine).await?;
                continue;
            }
            let form = if !initialized && index == 0 { Form::Init } else { Form::Join };
            self.complete(scene, machine, form).await?;
            self.sync_machine(scene, machine, &mut applied).await?;
            self.sync_parts(scene, machine, &mut applied).await?;
        }
        let uid = scene.control_plane.uid().unwrap_or_default();
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).insert(uid, applied);
        Ok(())
    }

    /// Timeouts reach a Machine also while it is being deleted: changing them is how a user ends a drain that hangs.
    async fn sync_timeouts(&self, scene: &Scene<'_>, machine: &Machine) -> Result<(), ControlPlaneError> {
        let wanted = scene.control_plane.spec.machine_template.spec.deletion;
        if machine.spec.deletion != wanted {
            let patch = json!({"spec": {"deletion": {
                "nodeDrainTimeoutSeconds": wanted.node_drain_timeout_seconds,
                "nodeVolumeDetachTimeoutSeconds": wanted.node_volume_detach_timeout_seconds,
                "nodeDeletionTimeoutSeconds": wanted.node_deletion_timeout_seconds,
            }}});
            let writer = scene.context.writer::<Machine>();
            ignore_gone(writer.patch_unconditionally(&ObjectKey::of(machine), patch).await.map(|_| ()))?;
        }
        Ok(())
    }

    /// Makes the Cluster an owner of the template, so that it goes with the Cluster.
    async fn own_template(&self, scene: &Scene<'_>) -> Result<(), ControlPlaneError> {
        let reference = &scene.control_plane.spec.machine_template.spec.infrastructure_ref;
        let found = self.externals.get(scene.context, &scene.namespace(), reference).await?;
        // A template that is missing matters only when a Machine is to be made from it.
        let Some((template, owner)) = found.zip(scene.cluster.owner_ref(&())) else { return Ok(()) };
        let object = &template.object;
        if object.owner_references().iter().all(|known| known.uid != owner.uid) {
            let resource = &template.kind.resource;
            let intent = json!({
                "apiVersion": resource.api_version, "kind": resource.kind,
                "metadata": {"name": object.name_any(), "namespace": object.namespace(), "uid": object.uid(),
                    "ownerReferences": [owner]},
            });
            let writer = scene.context.writer_of(resource);
            ignore_gone(writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await.map(|_| ()))?;
        }
        Ok(())
    }

    /// Makes the KubeadmConfig and the infrastructure of a Machine, if they are not there and never were.
    pub(super) async fn complete(
        &self,
        scene: &Scene<'_>,
        machine: &Machine,
        form: Form,
    ) -> Result<(), ControlPlaneError> {
        let name = machine.name_any();
        let initialization = &machine.status.initialization;
        if initialization.bootstrap_data_secret_created != Some(true)
            && machine.spec.bootstrap.data_secret_name.is_none()
            && self.configs.get(&ObjectKey::of(machine)).is_none()
        {
            let owner = scene.control_plane.owner_ref(&()).unwrap_or_default();
            let config =
                desired::kubeadm_config(scene.control_plane, &scene.cluster_name(), owner, &name, form);
            let writer = scene.context.writer::<KubeadmConfig>();
            writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &config).await?;
        }
        if initialization.infrastructure_provisioned != Some(true)
            && self.infrastructure(scene, machine).await?.is_none()
        {
            let template = self.template(scene).await?;
            let object = FromTemplate {
                template: &template.object,
                name: &name,
                cluster: &scene.cluster_name(),
                owner: scene.control_plane.owner_ref(&()),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
            }
            .object()?;
            let reference = &machine.spec.infrastructure_ref;
            let kind = self.externals.kind(scene.context, &reference.api_group, &reference.kind).await?;
            let intent = spec_intent(&object, &scene.cluster_name());
            let writer = scene.context.writer_of(&kind.resource);
            writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await?;
        }
        Ok(())
    }

    /// The infrastructure template of the control plane.
    pub(super) async fn template(&self, scene: &Scene<'_>) -> Result<External, ControlPlaneError> {
        let reference = &scene.control_plane.spec.machine_template.spec.infrastructure_ref;
        let template = self.externals.get(scene.context, &scene.namespace(), reference).await?;
        template.ok_or_else(|| ControlPlaneError::NoTemplate(reference.to_string()))
    }

    /// Name and kind of the template that the infrastructure of a Machine was cloned from, if that can be read.
    pub(super) async fn template_of(
        &self,
        scene: &Scene<'_>,
        machine: &Machine,
    ) -> Result<Option<(String, String)>, ControlPlaneError> {
        let Some(infrastructure) = self.infrastructure(scene, machine).await? else { return Ok(None) };
        let annotation = |key: &str| infrastructure.object.annotations().get(key).cloned();
        let name = annotation(CLONED_FROM_NAME_ANNOTATION);
        Ok(name.zip(annotation(CLONED_FROM_GROUP_KIND_ANNOTATION)))
    }

    async fn infrastructure(
        &self,
        scene: &Scene<'_>,
        machine: &Machine,
    ) -> Result<Option<External>, ControlPlaneError> {
        let reference = &machine.spec.infrastructure_ref;
        Ok(self.externals.get(scene.context, &scene.namespace(), reference).await?)
    }

    async fn sync_machine(
        &self,
        scene: &Scene<'_>,
        machine: &Machine,
        applied: &mut Applied,
    ) -> Result<(), ControlPlaneError> {
        let owner = scene.control_plane.controller_owner_ref(&()).unwrap_or_default();
        let intent = desired::existing_machine(scene.control_plane, &scene.cluster_name(), owner, machine);
        let manager = KUBEADM_CONTROL_PLANE_FIELD_MANAGER;
        let intent = serde_json::to_value(&intent).unwrap_or_default();
        let present = serde_json::to_value(machine).unwrap_or_default();
        let remembered = self.remembered(scene, machine.uid(), manager, &intent, applied);
        let is_there = remembered && contains(&present, &intent) || is_applied(manager, &present, &intent);
        if !is_there {
            ignore_gone(scene.context.writer::<Machine>().apply(manager, &intent).await.map(|_| ()))?;
        }
        Ok(())
    }

    async fn sync_parts(
        &self,
        scene: &Scene<'_>,
        machine: &Machine,
        applied: &mut Applied,
    ) -> Result<(), ControlPlaneError> {
        let annotations = &scene.control_plane.spec.machine_template.metadata.annotations;
        let config = machine.spec.bootstrap.config_ref.as_ref();
        let config = config
            .and_then(|reference| self.configs.get(&ObjectKey::new(scene.namespace(), &reference.name)));
        if let Some(config) = config.filter(|config| config.meta().deletion_timestamp.is_none()) {
            let resource = ApiResource::erase::<KubeadmConfig>(&());
            self.sync_metadata(scene, &resource, config.meta(), annotations.clone(), applied).await?;
        }
        let infrastructure = self.infrastructure(scene, machine).await?;
        if let Some(found) = infrastructure.filter(|found| !found.is_deleting()) {
            let mut annotations = annotations.clone();
            for key in [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION] {
                if let Some(value) = found.object.annotations().get(key) {
                    annotations.insert(key.to_owned(), value.clone());
                }
            }
            self.sync_metadata(scene, &found.kind.resource, &found.object.metadata, annotations, applied)
                .await?;
        }
        Ok(())
    }

    /// Labels and annotations have a manager of their own: they can change, and be taken off, without the specification.
    async fn sync_metadata(
        &self,
        scene: &Scene<'_>,
        resource: &ApiResource,
        present: &kube::api::ObjectMeta,
        annotations: BTreeMap<String, String>,
        applied: &mut Applied,
    ) -> Result<(), ControlPlaneError> {
        let manager = KUBEADM_CONTROL_PLANE_METADATA_FIELD_MANAGER;
        let mut metadata = json!({
            "name": present.name, "namespace": present.namespace, "uid": present.uid,
            "labels": desired::labels(scene.control_plane, &scene.cluster_name()),
        });
        if !annotations.is_empty() {
            metadata["annotations"] = json!(annotations);
        }
        let remembered = self.remembered(scene, present.uid.clone(), manager, &metadata, applied);
        let there = json!({"metadata": present});
        let intent = json!({"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata});
        let is_there =
            remembered && contains(&there["metadata"], &metadata) || is_applied(manager, &there, &intent);
        if !is_there {
            let writer = scene.context.writer_of(resource);
            ignore_gone(writer.apply(manager, &intent).await.map(|_| ()))?;
        }
        Ok(())
    }

    /// Whether this intent was the last one applied to an object. Notes that it is.
    fn remembered(
        &self,
        scene: &Scene<'_>,
        uid: Option<String>,
        manager: &str,
        intent: &Value,
        applied: &mut Applied,
    ) -> bool {
        let mut hasher = DefaultHasher::new();
        intent.to_string().hash(&mut hasher);
        let hash = hasher.finish();
        let object = (uid.unwrap_or_default(), manager.to_owned());
        let owner = scene.control_plane.uid().unwrap_or_default();
        let all = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.get(&owner).and_then(|objects| objects.get(&object)).copied();
        drop(all);
        applied.insert(object, hash);
        before == Some(hash)
    }
}

/// What the manager of the specification has of a clone: the specification, where it came from, and whose it is. The rest
/// of the metadata follows with its own manager.
fn spec_intent(object: &DynamicObject, cluster: &str) -> Value {
    let cloned_from: Map<String, Value> = [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), json!(object.annotations().get(key)?))))
        .collect();
    let types = object.types.clone().unwrap_or_default();
    json!({
        "apiVersion": types.api_version,
        "kind": types.kind,
        "metadata": {
            "name": object.metadata.name,
            "namespace": object.metadata.namespace,
            "labels": {CLUSTER_NAME_LABEL: cluster},
            "annotations": cloned_from,
            "ownerReferences": object.metadata.owner_references,
        },
        "spec": object.data.get("spec").cloned().unwrap_or_else(|| json!({})),
    })
}

/// Something that went meanwhile needs nothing: with its UID in the intent it is not made anew, but a conflict.
fn ignore_gone(written: Result<(), windlass_reconcile::WriteError>) -> Result<(), ControlPlaneError> {
    match written {
        Err(error) if error.is_not_found() => Ok(()),
        other => Ok(other?),
    }
}

/// Whether an object has everything that an intent wants.
fn contains(object: &Value, intent: &Value) -> bool {
    match (object, intent) {
        (Value::Object(object), Value::Object(intent)) => intent
            .iter()
            .all(|(key, wanted)| object.get(key).map_or(is_nothing(wanted), |found| contains(found, wanted))),
        (Value::Array(object), Value::Array(intent)) => {
            intent.iter().all(|wanted| object.iter().any(|found| contains(found, wanted)))
        }
        _ => object == intent,
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_nothing),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_contains_an_intent_if_nothing_of_it_differs() {
        let object = json!({"a": {"b": 1, "c": 2}, "owners": [{"uid": "x", "kind": "K"}, {"uid": "y"}]});
        for (intent, expected) in [
            (json!({}), true),
            (json!({"a": {"b": 1}}), true),
            (json!({"a": {"b": 2}}), false),
            (json!({"a": {"d": 1}}), false),
            (json!({"owners": [{"uid": "y"}]}), true),
            (json!({"owners": [{"uid": "z"}]}), false),
            (json!({"nothing": null, "empty": {}}), true),
        ] {
            assert_eq!(contains(&object, &intent), expected, "{intent}");
        }
    }
}
