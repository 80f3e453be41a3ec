//! Starting the in-place update of a Machine.
//!
//! Five writes, in an order that a crash can interrupt anywhere: the mark on the Machine comes first, and from then on the
//! rest is repeated until the pending hook, which comes last, is there.

use std::collections::BTreeMap;

use kube::ResourceExt;
use serde_json::{Map, Value, json};
use windlass_api::Hook;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::Machine;
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, IN_PLACE_EXTENSIONS_ANNOTATION,
    KUBEADM_CONTROL_PLANE_FIELD_MANAGER, PENDING_HOOKS_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::control_plane::desired;
use windlass_engine::control_plane::kubeadm_config::Form;
use windlass_engine::pending_hooks::PendingHooks;
use windlass_runtime::{Incomplete, ObjectKey, controller_reference, owner_reference};

use super::ask::Update;
use super::{ControlPlaneError, ControlPlaneReconciler, Scope};
use crate::external::FromTemplate;

impl ControlPlaneReconciler {
    /// Starts the update, or goes on with one that was started halfway.
    pub(super) async fn trigger_in_place(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
        update: &Update,
    ) -> Result<(), ControlPlaneError> {
        let writer = scope.context.writer::<Machine>();
        let key = ObjectKey::of(machine);
        // What is read comes before the first write: nothing is begun that cannot be continued.
        let infrastructure = self.updated_infrastructure(scope, machine).await?;
        let config = self.updated_config(scope, machine)?;
        if !machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION) {
            // Who updates the Machine is written down with the mark: it must be known after a crash.
            let extensions = Some(update.extensions.join(",")).filter(|extensions| !extensions.is_empty());
            let mut patch = json!({"metadata": {"annotations":
                {UPDATE_IN_PROGRESS_ANNOTATION: "", IN_PLACE_EXTENSIONS_ANNOTATION: extensions}}});
            for (key, value) in update.effect.annotations() {
                patch["metadata"]["annotations"][key] = json!(value);
            }
            writer.patch_unconditionally(&key, patch).await?;
        }
        let reference = &machine.spec.infrastructure_ref;
        let kind = self.externals.kind(scope.context, &reference.api_group, &reference.kind).await?;
        let manager = KUBEADM_CONTROL_PLANE_FIELD_MANAGER;
        scope.context.writer_of(&kind.resource).apply(manager, &infrastructure).await?;
        if let Some(config) = config {
            scope.context.writer::<KubeadmConfig>().apply(manager, &config).await?;
        }
        let owner = controller_reference(scope.control_plane)?;
        let intent = desired::updated_machine(scope.control_plane, &scope.cluster_name(), owner, machine);
        writer.apply(manager, &intent).await?;
        let pending = PendingHooks::of(&machine.metadata).with(Hook::UpdateMachine).annotation();
        let patch = json!({"metadata": {"annotations": {PENDING_HOOKS_ANNOTATION: pending}}});
        writer.patch_unconditionally(&key, patch).await?;
        Ok(())
    }

    pub(super) async fn updated_infrastructure(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
    ) -> Result<Value, ControlPlaneError> {
        let reference = &machine.spec.infrastructure_ref;
        let present = self.externals.get(scope.context, &scope.namespace(), reference).await?;
        let present = present.ok_or_else(|| ControlPlaneError::NoTemplate(reference.to_string()))?;
        let template = self.template(scope).await?;
        let clone = FromTemplate {
            template: &template.object,
            name: &reference.name,
            cluster: &scope.cluster_name(),
            owner: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
        .object()?;
        let mut annotations: Map<String, Value> = clone
            .annotations()
            .iter()
            .filter(|(key, _)| {
                [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION].contains(&key.as_str())
            })
            .map(|(key, value)| (key.clone(), json!(value)))
            .collect();
        annotations.insert(UPDATE_IN_PROGRESS_ANNOTATION.to_owned(), json!(""));
        let resource = &present.kind.resource;
        Ok(json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": reference.name, "namespace": scope.namespace(), "uid": present.object.uid(),
                "annotations": annotations},
            "spec": clone.data.get("spec").cloned().unwrap_or_else(|| json!({})),
        }))
    }

    /// Always the join form: a Machine that is updated has long joined.
    pub(super) fn updated_config(
        &self,
        scope: &Scope<'_>,
        machine: &Machine,
    ) -> Result<Option<Value>, Incomplete> {
        let Some(reference) = &machine.spec.bootstrap.config_ref else { return Ok(None) };
        let name = &reference.name;
        let Some(present) = self.configs.get(&ObjectKey::new(scope.namespace(), name)) else {
            return Ok(None);
        };
        let owner = owner_reference(scope.control_plane)?;
        let mut config =
            desired::kubeadm_config(scope.control_plane, &scope.cluster_name(), owner, name, Form::Join);
        config["metadata"] = json!({"name": name, "namespace": scope.namespace(), "uid": present.uid(),
            "annotations": {UPDATE_IN_PROGRESS_ANNOTATION: ""}});
        Ok(Some(config))
    }
}
