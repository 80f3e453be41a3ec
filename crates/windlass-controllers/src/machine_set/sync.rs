//! What a MachineSet keeps in step on its machines and their parts.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DynamicObject;
use serde_json::json;
use windlass_api::cluster::{ContractVersionedObjectReference, Machine, MachineSet};
use windlass_api::names::{MACHINE_SET_FIELD_MANAGER, MACHINE_SET_METADATA_FIELD_MANAGER};
use windlass_engine::machine_set::{is_applied, is_synced, machine_labels, synced_machine};

use super::machines::text;
use super::{Look, Sets};
use crate::external::{AllOfKind, External, ExternalError};
use crate::worker_group::WorkerError;

/// What was found to be in step, by the uid of its MachineSet. A look at thousands of machines then compares only those
/// that changed since the last one. Only speed depends on it.
#[derive(Default)]
pub(super) struct InStep {
    sets: Mutex<BTreeMap<String, OfSet>>,
}

#[derive(Default)]
struct OfSet {
    /// That of the MachineSet: its spec is all that machines are kept in step with.
    generation: Option<i64>,
    /// By the names of the machines.
    machines: BTreeMap<String, Seen>,
}

/// A machine and its parts at one moment: any change makes another object of one of them.
struct Seen {
    machine: Arc<Machine>,
    parts: Vec<Arc<DynamicObject>>,
}

impl Seen {
    fn is(&self, machine: &Arc<Machine>, parts: &[External]) -> bool {
        Arc::ptr_eq(&self.machine, machine)
            && self.parts.len() == parts.len()
            && self.parts.iter().zip(parts).all(|(known, part)| Arc::ptr_eq(known, &part.object))
    }
}

impl InStep {
    /// Takes out what is known of the machines of a MachineSet, as far as it still counts.
    fn take(&self, set: &MachineSet) -> BTreeMap<String, Seen> {
        let known = self.sets().remove(text(set.metadata.uid.as_ref()));
        let known = known.filter(|known| known.generation == set.metadata.generation);
        known.map(|known| known.machines).unwrap_or_default()
    }

    fn put(&self, set: &MachineSet, machines: BTreeMap<String, Seen>) {
        let of_set = OfSet { generation: set.metadata.generation, machines };
        self.sets().insert(text(set.metadata.uid.as_ref()).to_owned(), of_set);
    }

    /// Forgets a MachineSet that goes.
    pub(super) fn forget(&self, set: &MachineSet) {
        self.sets().remove(text(set.metadata.uid.as_ref()));
    }

    fn sets(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, OfSet>> {
        self.sets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The kinds of parts that were met in one look: machines of a set have parts of the same kinds.
#[derive(Default)]
struct Kinds(Vec<((String, String), AllOfKind)>);

impl Sets {
    /// Brings labels, annotations and everything else that needs neither a rollout nor an update to the machines, and
    /// labels and annotations to the objects of their providers.
    pub(super) async fn sync(&self, look: &Look<'_>, machines: &[Arc<Machine>]) -> Result<(), WorkerError> {
        let (mut known, mut in_step) = (self.in_step.take(look.set), BTreeMap::new());
        let mut kinds = Kinds::default();
        for machine in machines {
            let name = text(machine.metadata.name.as_ref());
            let parts = match machine.metadata.deletion_timestamp {
                Some(_) => Vec::new(),
                None => self.parts_of(look, &mut kinds, machine).await?,
            };
            if let Some((name, seen)) = known.remove_entry(name)
                && seen.is(machine, &parts)
            {
                in_step.insert(name, seen);
                continue;
            }
            if !self.sync_one(look, machine, &parts).await? {
                let parts = parts.into_iter().map(|part| part.object).collect();
                in_step.insert(name.to_owned(), Seen { machine: Arc::clone(machine), parts });
            }
        }
        self.in_step.put(look.set, in_step);
        Ok(())
    }

    /// Brings one machine and its parts in step; true if anything was written.
    async fn sync_one(
        &self,
        look: &Look<'_>,
        machine: &Machine,
        parts: &[External],
    ) -> Result<bool, WorkerError> {
        let Look { context, set, .. } = *look;
        let mut wrote = false;
        let intent = synced_machine(set, machine);
        if !is_synced(MACHINE_SET_FIELD_MANAGER, machine, &intent) {
            context.writer::<Machine>().apply(MACHINE_SET_FIELD_MANAGER, &intent).await?;
            wrote = true;
        }
        for part in parts {
            let there = &part.object.metadata;
            let intent = ObjectMeta {
                name: there.name.clone(),
                namespace: there.namespace.clone(),
                uid: there.uid.clone(),
                labels: Some(machine_labels(set)),
                annotations: Some(set.spec.template.metadata.annotations.clone()),
                ..ObjectMeta::default()
            };
            if !part.is_deleting() && !is_applied(MACHINE_SET_METADATA_FIELD_MANAGER, there, &intent) {
                let resource = &part.kind.resource;
                let intent = json!({
                    "apiVersion": resource.api_version, "kind": resource.kind, "metadata": intent,
                });
                context.writer_of(resource).apply(MACHINE_SET_METADATA_FIELD_MANAGER, &intent).await?;
                wrote = true;
            }
        }
        Ok(wrote)
    }

    /// The objects of providers that a machine points to, as far as they are there.
    async fn parts_of(
        &self,
        look: &Look<'_>,
        kinds: &mut Kinds,
        machine: &Machine,
    ) -> Result<Vec<External>, WorkerError> {
        let namespace = text(look.set.metadata.namespace.as_ref());
        let spec = &machine.spec;
        let mut parts = Vec::new();
        for reference in
            [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()].into_iter().flatten()
        {
            parts.extend(self.all_of_kind(look, kinds, reference).await?.get(namespace, &reference.name));
        }
        Ok(parts)
    }

    async fn all_of_kind<'a>(
        &self,
        look: &Look<'_>,
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
                let all = self.externals.all(look.context, &reference.api_group, &reference.kind).await?;
                kinds.push(((reference.api_group.clone(), reference.kind.clone()), all));
                kinds.len() - 1
            }
        };
        Ok(&kinds[at].1)
    }
}
