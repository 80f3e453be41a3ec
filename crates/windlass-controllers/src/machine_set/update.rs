//! Machines that were handed over: what they shall be is written to them and their parts, and their update released.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use windlass_api::Hook;
use windlass_api::cluster::{ContractVersionedObjectReference, Machine};
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, MACHINE_SET_FIELD_MANAGER,
    PENDING_ACKNOWLEDGE_MOVE_ANNOTATION, PENDING_HOOKS_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::machine_set::{Observed, arrivals_to_release, updated_machine, updates_to_start};
use windlass_engine::pending_hooks::PendingHooks;
use windlass_runtime::{EventType, ObjectKey, namespace_of};

use super::machines::{named, text};
use super::{Scope, Sets};
use crate::external::{External, FromTemplate};
use crate::worker_group::{Templates, WorkerError};

impl Sets {
    /// Releases the updates of machines that arrived and were counted. A process that stops in between leaves a machine without
    /// its pending hook, and starts again from the first write; each can be repeated.
    pub(super) async fn start_updates(
        &self,
        scope: &Scope<'_>,
        templates: &Templates,
        machines: &[Arc<Machine>],
        observed: &Observed,
    ) -> Result<(), WorkerError> {
        for machine in named(machines, &arrivals_to_release(observed)) {
            let patch = json!({"metadata": {"annotations": {PENDING_ACKNOWLEDGE_MOVE_ANNOTATION: null}}});
            scope.context.writer::<Machine>().patch_unconditionally(&ObjectKey::of(machine), patch).await?;
        }
        let names = updates_to_start(observed);
        // Without templates the desired machine is unknown; the condition names them.
        if names.is_empty() || !templates.problems.is_empty() {
            return Ok(());
        }
        for machine in named(machines, &names) {
            self.start_update(scope, templates, machine).await?;
        }
        Ok(())
    }

    async fn start_update(
        &self,
        scope: &Scope<'_>,
        templates: &Templates,
        machine: &Machine,
    ) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        let spec = &machine.spec;
        // The infrastructure first: it is what is most likely to be refused.
        for (reference, template) in [
            (Some(&spec.infrastructure_ref), &templates.infrastructure),
            (spec.bootstrap.config_ref.as_ref(), &templates.bootstrap),
        ] {
            if let Some((reference, template)) = reference.zip(template.as_ref()) {
                self.rewrite(scope, reference, template).await?;
            }
        }
        let writer = context.writer::<Machine>();
        writer.apply(MACHINE_SET_FIELD_MANAGER, &updated_machine(set, machine)?).await?;
        let pending = PendingHooks::of(&machine.metadata).with(Hook::UpdateMachine);
        let patch = json!({"metadata": {"annotations": {
            PENDING_HOOKS_ANNOTATION: pending.annotation(),
            PENDING_ACKNOWLEDGE_MOVE_ANNOTATION: null,
        }}});
        writer.patch_unconditionally(&ObjectKey::of(machine), patch).await?;
        let name = text(machine.metadata.name.as_ref());
        let message = format!("Started the in-place update of Machine {name}");
        context.event(set, EventType::Normal, "SuccessfulStartInPlaceUpdate", message);
        Ok(())
    }

    /// Writes what a template says to an object that was made from another one, and marks it.
    async fn rewrite(
        &self,
        scope: &Scope<'_>,
        reference: &ContractVersionedObjectReference,
        template: &External,
    ) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        let namespace = namespace_of(set)?;
        let Some(part) = self.externals.get(context, namespace, reference).await? else { return Ok(()) };
        let clone = FromTemplate {
            template: &template.object,
            name: &reference.name,
            cluster: &set.spec.cluster_name,
            owner: None,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
        }
        .object()?;
        let kept = [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION];
        let from =
            clone.metadata.annotations.iter().flatten().filter(|(key, _)| kept.contains(&key.as_str()));
        let mut annotations: Map<String, Value> =
            from.map(|(key, value)| (key.clone(), json!(value))).collect();
        annotations.insert(UPDATE_IN_PROGRESS_ANNOTATION.to_owned(), json!(""));
        let resource = &part.kind.resource;
        let intent = json!({
            "apiVersion": resource.api_version, "kind": resource.kind,
            "metadata": {"name": reference.name, "namespace": namespace, "uid": part.object.metadata.uid,
                "annotations": annotations},
            "spec": clone.data.get("spec").cloned().unwrap_or_else(|| json!({})),
        });
        context.writer_of(resource).apply(MACHINE_SET_FIELD_MANAGER, &intent).await?;
        Ok(())
    }
}
