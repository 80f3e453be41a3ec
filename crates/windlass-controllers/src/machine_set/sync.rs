//! What a MachineSet keeps in step on its machines and their parts.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::json;
use windlass_api::cluster::{ContractVersionedObjectReference, Machine, MachineSet};
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, CLUSTER_NAME_LABEL,
    MACHINE_SET_FIELD_MANAGER, MACHINE_SET_METADATA_FIELD_MANAGER,
};
use windlass_engine::machine_set::{annotation, machine_labels, synced_machine};
use windlass_runtime::{ObjectKey, namespace_of};

use super::machines::text;
use super::out_of_step::Unsynced;
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
        let (key, basis) = (ObjectKey::of(scope.set), Basis::of(scope.set));
        let unsynced = self.out_of_step.begin(&key, basis.0);
        let result = self.sync_those(scope, basis, machines, &unsynced).await;
        if result.is_err() {
            self.out_of_step.forget(&key);
        }
        result
    }

    async fn sync_those(
        &self,
        scope: &Scope<'_>,
        basis: Basis,
        machines: &[Arc<Machine>],
        unsynced: &Unsynced,
    ) -> Result<(), WorkerError> {
        let mut kinds = Kinds::default();
        for machine in
            machines.iter().filter(|machine| unsynced.contains(text(machine.metadata.name.as_ref())))
        {
            self.sync_machine(scope, basis, machine).await?;
            if machine.metadata.deletion_timestamp.is_none() {
                for part in self.parts_of(scope, &mut kinds, machine).await? {
                    self.sync_part(scope, basis, &part).await?;
                }
            }
        }
        Ok(())
    }

    async fn sync_machine(
        &self,
        scope: &Scope<'_>,
        basis: Basis,
        machine: &Machine,
    ) -> Result<(), WorkerError> {
        let Scope { context, set, .. } = *scope;
        let intent = || synced_machine(set, machine);
        let writer = context.writer::<Machine>();
        writer.ensure_applied_from(MACHINE_SET_FIELD_MANAGER, machine, &basis, intent).await?;
        Ok(())
    }

    async fn sync_part(&self, scope: &Scope<'_>, basis: Basis, part: &External) -> Result<(), WorkerError> {
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
            Ok(json!({"metadata": ObjectMeta {
                name: there.metadata.name.clone(),
                namespace: there.metadata.namespace.clone(),
                labels: Some(machine_labels(set)?),
                annotations: Some(annotations),
                ..ObjectMeta::default()
            }}))
        };
        let writer = context.writer_of(&part.kind.resource);
        let managers = (MACHINE_SET_FIELD_MANAGER, MACHINE_SET_METADATA_FIELD_MANAGER);
        writer.hand_over_metadata(there, managers, CLUSTER_NAME_LABEL).await?;
        writer.ensure_applied_from(MACHINE_SET_METADATA_FIELD_MANAGER, there, &basis, intent).await?;
        Ok(())
    }

    /// The objects of providers that a machine points to, as far as they are there.
    async fn parts_of(
        &self,
        scope: &Scope<'_>,
        kinds: &mut Kinds,
        machine: &Machine,
    ) -> Result<Vec<External>, WorkerError> {
        let namespace = namespace_of(scope.set)?;
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

/// What machines and their parts are kept in step with: everything of their MachineSet that [`synced_machine`] and
/// [`machine_labels`] look at, as a hash. The number of replicas, which changes with every step of a rollout, is not
/// among it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Basis(u64);

impl Basis {
    fn of(set: &MachineSet) -> Self {
        let MachineSet { metadata: ObjectMeta { name, uid, .. }, spec, .. } = set;
        // What was read as JSON does not fail to be written as such.
        let template = serde_json::to_string(&spec.template).ok();
        let mut hasher = DefaultHasher::new();
        (name, uid, &spec.cluster_name, template).hash(&mut hasher);
        Self(hasher.finish())
    }
}
