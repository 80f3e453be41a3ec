//! What belongs to a Machine: its KubeadmConfig and its infrastructure; and what of all three is kept in step.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube::api::DynamicObject;
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde_json::{Map, Value, json};
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::Machine;
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, CLUSTER_NAME_LABEL,
    KUBEADM_CONTROL_PLANE_FIELD_MANAGER, KUBEADM_CONTROL_PLANE_METADATA_FIELD_MANAGER,
};
use windlass_engine::control_plane::desired;
use windlass_engine::control_plane::kubeadm_config::Form;
use windlass_runtime::{Kind, ObjectKey, WriteError, Writer, controller_reference, owner_reference};

use super::{ControlPlaneError, ControlPlaneReconciler, Scope};
use crate::external::{External, FromTemplate};
use crate::references;

impl ControlPlaneReconciler {
    /// Makes what is missing of Machines that were begun, and brings metadata and the like up to date.
    pub(super) async fn complete_and_sync(
        &self,
        scope: &Scope<'_>,
        machines: &[Arc<Machine>],
    ) -> Result<(), ControlPlaneError> {
        self.own_template(scope).await?;
        let initialized = scope.control_plane.status.initialization.control_plane_initialized == Some(true);
        for (index, machine) in machines.iter().enumerate() {
            if machine.meta().deletion_timestamp.is_some() {
                // Applying would put the clean-up hook back on that was taken off.
                self.sync_timeouts(scope, machine).await?;
                continue;
            }
            let form = if !initialized && index == 0 { Form::Init } else { Form::Join };
            self.complete(scope, machine, form).await?;
            self.sync_machine(scope, machine).await?;
            self.sync_parts(scope, machine).await?;
        }
        Ok(())
    }

    /// Timeouts reach a Machine also while it is being deleted: changing them is how a user ends a drain that hangs.
    async fn sync_timeouts(&self, scope: &Scope<'_>, machine: &Machine) -> Result<(), ControlPlaneError> {
        let wanted = scope.control_plane.spec.machine_template.spec.deletion;
        if machine.spec.deletion != wanted {
            let patch = json!({"spec": {"deletion": {
                "nodeDrainTimeoutSeconds": wanted.node_drain_timeout_seconds,
                "nodeVolumeDetachTimeoutSeconds": wanted.node_volume_detach_timeout_seconds,
                "nodeDeletionTimeoutSeconds": wanted.node_deletion_timeout_seconds,
            }}});
            let writer = scope.context.writer::<Machine>();
            ignore_gone(writer.patch_unconditionally(&ObjectKey::of(machine), patch).await)?;
        }
        Ok(())
    }

    /// Makes the Cluster an owner of the template, so that it goes with the Cluster.
    async fn own_template(&self, scope: &Scope<'_>) -> Result<(), ControlPlaneError> {
        let reference = &scope.control_plane.spec.machine_template.spec.infrastructure_ref;
        let found = self.externals.get(scope.context, &scope.namespace(), reference).await?;
        // A template that is missing matters only when a Machine is to be made from it.
        let Some((template, owner)) = found.zip(scope.cluster.owner_ref(&())) else { return Ok(()) };
        let object = &template.object;
        if object.owner_references().iter().all(|known| known.uid != owner.uid) {
            let resource = &template.kind.resource;
            let intent = json!({
                "apiVersion": resource.api_version, "kind": resource.kind,
                "metadata": {"name": object.name_any(), "namespace": object.namespace(), "uid": object.uid(),
                    "ownerReferences": [owner]},
            });
            let writer = scope.context.writer_of(resource);
            ignore_gone(writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await)?;
        }
        Ok(())
    }

    /// Makes the KubeadmConfig and the infrastructure of a Machine, if they are not there and never were.
    pub(super) async fn complete(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
        form: Form,
    ) -> Result<(), ControlPlaneError> {
        let name = machine.name_any();
        let initialization = &machine.status.initialization;
        if initialization.bootstrap_data_secret_created != Some(true)
            && machine.spec.bootstrap.data_secret_name.is_none()
            && self.configs.get(&ObjectKey::of(machine)).is_none()
        {
            let owner = owner_reference(scope.control_plane)?;
            let config =
                desired::kubeadm_config(scope.control_plane, &scope.cluster_name(), owner, &name, form);
            let writer = scope.context.writer::<KubeadmConfig>();
            writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &config).await?;
        }
        if initialization.infrastructure_provisioned != Some(true)
            && self.infrastructure(scope, machine).await?.is_none()
        {
            let template = self.template(scope).await?;
            let object = FromTemplate {
                template: &template.object,
                name: &name,
                cluster: &scope.cluster_name(),
                owner: Some(owner_reference(scope.control_plane)?),
                labels: BTreeMap::new(),
                annotations: BTreeMap::new(),
            }
            .object()?;
            let reference = &machine.spec.infrastructure_ref;
            let kind = self.externals.kind(scope.context, &reference.api_group, &reference.kind).await?;
            let intent = spec_intent(&object, &scope.cluster_name());
            let writer = scope.context.writer_of(&kind.resource);
            writer.apply(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await?;
        }
        Ok(())
    }

    /// The infrastructure template of the control plane.
    pub(super) async fn template(&self, scope: &Scope<'_>) -> Result<External, ControlPlaneError> {
        let reference = &scope.control_plane.spec.machine_template.spec.infrastructure_ref;
        let template = self.externals.get(scope.context, &scope.namespace(), reference).await?;
        template.ok_or_else(|| ControlPlaneError::NoTemplate(reference.to_string()))
    }

    /// Name and kind of the template that the infrastructure of a Machine was cloned from, if that can be read.
    pub(super) async fn template_of(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
    ) -> Result<Option<(String, String)>, ControlPlaneError> {
        let Some(infrastructure) = self.infrastructure(scope, machine).await? else { return Ok(None) };
        let annotation = |key: &str| infrastructure.object.annotations().get(key).cloned();
        let name = annotation(CLONED_FROM_NAME_ANNOTATION);
        Ok(name.zip(annotation(CLONED_FROM_GROUP_KIND_ANNOTATION)))
    }

    async fn infrastructure(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
    ) -> Result<Option<External>, ControlPlaneError> {
        let reference = &machine.spec.infrastructure_ref;
        Ok(self.externals.get(scope.context, &scope.namespace(), reference).await?)
    }

    async fn sync_machine(&self, scope: &Scope<'_>, machine: &Machine) -> Result<(), ControlPlaneError> {
        let owner = controller_reference(scope.control_plane)?;
        let intent = desired::existing_machine(scope.control_plane, &scope.cluster_name(), owner, machine);
        let writer = scope.context.writer::<Machine>();
        ignore_gone(writer.ensure_applied(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, machine, &intent).await)
    }

    async fn sync_parts(&self, scope: &Scope<'_>, machine: &Machine) -> Result<(), ControlPlaneError> {
        let annotations = &scope.control_plane.spec.machine_template.metadata.annotations;
        let config = machine.spec.bootstrap.config_ref.as_ref();
        let config = config
            .and_then(|reference| self.configs.get(&ObjectKey::new(scope.namespace(), &reference.name)));
        if let Some(config) = config.filter(|config| config.meta().deletion_timestamp.is_none()) {
            let writer = scope.context.writer::<KubeadmConfig>();
            sync_metadata(scope, &writer, config.as_ref(), annotations.clone()).await?;
        }
        let infrastructure = self.infrastructure(scope, machine).await?;
        if let Some(found) = infrastructure.filter(|found| !found.is_deleting()) {
            let mut annotations = annotations.clone();
            for key in [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION] {
                if let Some(value) = found.object.annotations().get(key) {
                    annotations.insert(key.to_owned(), value.clone());
                }
            }
            let writer = scope.context.writer_of(&found.kind.resource);
            sync_metadata(scope, &writer, found.object.as_ref(), annotations).await?;
        }
        Ok(())
    }
}

/// Labels and annotations have a manager of their own: they can change, and be taken off, without the specification.
async fn sync_metadata<K: Kind + Serialize>(
    scope: &Scope<'_>,
    writer: &Writer<K>,
    object: &K,
    annotations: BTreeMap<String, String>,
) -> Result<(), ControlPlaneError> {
    let mut metadata = json!({
        "name": object.meta().name, "namespace": object.meta().namespace,
        "labels": desired::labels(scope.control_plane, &scope.cluster_name()),
    });
    if !annotations.is_empty() {
        metadata["annotations"] = json!(annotations);
    }
    let intent = json!({"metadata": metadata});
    let manager = KUBEADM_CONTROL_PLANE_METADATA_FIELD_MANAGER;
    let managers = (KUBEADM_CONTROL_PLANE_FIELD_MANAGER, manager);
    ignore_gone(writer.hand_over_metadata(object, managers, CLUSTER_NAME_LABEL).await)?;
    ignore_gone(writer.ensure_applied(manager, object, &intent).await)
}

/// What the manager of the specification has of a clone: the specification, where it came from, and whose it is. The rest
/// of the metadata follows with its own manager.
fn spec_intent(object: &DynamicObject, cluster: &str) -> Value {
    let cloned_from: Map<String, Value> = [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION]
        .into_iter()
        .filter_map(|key| Some((key.to_owned(), json!(object.annotations().get(key)?))))
        .collect();
    json!({
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
fn ignore_gone<T>(written: Result<T, WriteError>) -> Result<(), ControlPlaneError> {
    Ok(references::ignore_gone(written)?)
}
