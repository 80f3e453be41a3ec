//! What a MachineSet keeps in step on its machines and their parts.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use windlass_api::cluster::{ContractVersionedObjectReference, Machine, MachineSet};
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, CLUSTER_NAME_LABEL,
    MACHINE_SET_FIELD_MANAGER, MACHINE_SET_METADATA_FIELD_MANAGER,
};
use windlass_engine::machine_set::{annotation, machine_labels, synced_machine};

use super::machines::text;
use super::{Scope, Sets};
use crate::external::{AllOfKind, External, ExternalError};
use crate::worker_group::WorkerError;

/// The kinds of parts that were met in one reconcile: machines of a set have parts of the same kinds.
#[derive(Default)]
struct Kinds(Vec<((String, String), AllOfKind)>);

impl Sets {
    /// Brings labels, annotations and everything else that needs neither a rollout nor an update to the machines, and
    /// labels and annotations to the objects of their providers.
    pub(super) async fn sync(&self, scope: &Scope<'_>, machines: &[Arc<Machine>]) -> Result<(), WorkerError> {
        let mut kinds = Kinds::default();
        for machine in machines {
            self.sync_machine(scope, machine).await?;
            if machine.metadata.deletion_timestamp.is_none() {
                for part in self.parts_of(scope, &mut kinds, machine).await? {
                    self.sync_part(scope, &part).await?;
                }
            }
        }
        Ok(())
    }

    async fn sync_machine(&self, scope: &Scope<'_>, machine: &Machine) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        let intent = || synced_machine(set, machine);
        let writer = context.writer::<Machine>();
        writer.ensure_applied_from(MACHINE_SET_FIELD_MANAGER, machine, &basis(set), intent).await?;
        Ok(())
    }

    async fn sync_part(&self, scope: &Scope<'_>, part: &External) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        if part.is_deleting() {
            return Ok(());
        }
        let there = part.object.as_ref();
        let intent = || {
            let mut annotations = set.spec.template.metadata.annotations.clone();
            // Upstream's releases differ in which of the two managers has these: what neither had would be taken off.
            for key in [CLONED_FROM_NAME_ANNOTATION, CLONED_FROM_GROUP_KIND_ANNOTATION] {
                if let Some(value) = annotation(&there.metadata, key) {
                    annotations.insert(key.to_owned(), value.to_owned());
                }
            }
            json!({"metadata": ObjectMeta {
                name: there.metadata.name.clone(),
                namespace: there.metadata.namespace.clone(),
                labels: Some(machine_labels(set)),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            }})
        };
        let writer = context.writer_of(&part.kind.resource);
        let managers = (MACHINE_SET_FIELD_MANAGER, MACHINE_SET_METADATA_FIELD_MANAGER);
        writer.hand_over_metadata(there, managers, CLUSTER_NAME_LABEL).await?;
        writer.ensure_applied_from(MACHINE_SET_METADATA_FIELD_MANAGER, there, &basis(set), intent).await?;
        Ok(())
    }

    /// The objects of providers that a machine points to, as far as they are there.
    async fn parts_of(
        &self,
        scope: &Scope<'_>,
        kinds: &mut Kinds,
        machine: &Machine,
    ) -> Result<Vec<External>, WorkerError> {
        let namespace = text(scope.set.metadata.namespace.as_ref());
        let spec = &machine.spec;
        let mut parts = Vec::new();
        for reference in
            [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()].into_iter().flatten()
        {
            parts.extend(self.all_of_kind(scope, kinds, reference).await?.get(namespace, &reference.name));
        }
        Ok(parts)
    }

    async fn all_of_kind<'a>(
        &self,
        scope: &Scope<'_>,
        kinds: &'a mut Kinds,
        reference: &ContractVersionedObjectReference,
    ) -> Result<&'a AllOfKind, ExternalError> {
        let Kinds(kinds) = kinds;
        let is = |((group, kind), _): &((String, String), AllOfKind)| {
            *group == reference.api_group && *kind == reference.kind
        };
        let at = match kinds.iter().position(is) {
            Some(at) => at,
            None => {
                let all = self.externals.all(scope.context, &reference.api_group, &reference.kind).await?;
                kinds.push(((reference.api_group.clone(), reference.kind.clone()), all));
                kinds.len() - 1
            }
        };
        Ok(&kinds[at].1)
    }
}

/// What machines and their parts are kept in step with: the spec of their MachineSet.
fn basis(set: &MachineSet) -> (Option<&str>, Option<i64>) {
    (set.metadata.uid.as_deref(), set.metadata.generation)
}
