//! Machines for the instances that a provider keeps objects for.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use windlass_api::cluster::{ContractVersionedObjectReference, Machine, MachinePool};
use windlass_api::names::MACHINE_POOL_FIELD_MANAGER;
use windlass_engine::contract::{InfrastructureMachinePool, infrastructure_machine};
use windlass_engine::machine_pool::{Instance, labels_of_machines, machine_of};
use windlass_runtime::{Context, EventType, ObjectKey, uid_of};

use super::MachinePools;
use crate::references::ReferrerError;
use crate::worker_group::controller;

impl MachinePools {
    /// Keeps a Machine for each infrastructure machine of the pool. Nothing is deleted here: the provider does that when an
    /// instance goes.
    pub(super) async fn show_instances(
        &self,
        context: &Context,
        pool: &MachinePool,
        made: &InfrastructureMachinePool,
        nodes: &[&Node],
    ) -> Result<(), ReferrerError> {
        let Some(kind) = made.machine_kind.as_deref().filter(|kind| !kind.is_empty()) else { return Ok(()) };
        let group = &pool.spec.template.spec.infrastructure_ref.api_group;
        let namespace = ObjectKey::of(pool).namespace;
        let (labels, uid) = (labels_of_machines(pool), uid_of(pool)?);
        let machines = self.machines.labelled(&namespace, &labels);
        let shown: BTreeMap<&str, &Machine> = machines
            .iter()
            .filter(|machine| controller(&machine.metadata).is_none_or(|owner| owner.uid == uid))
            .map(|machine| (machine.spec.infrastructure_ref.name.as_str(), machine.as_ref()))
            .collect();
        let writer = context.writer::<Machine>();
        for found in self.externals.all(context, group, kind).await?.labelled(&namespace, &labels) {
            let name = found.object.name_any();
            let existing = shown.get(name.as_str()).copied();
            let instance = Instance {
                provider_id: infrastructure_machine(found.data(), found.kind.contract).provider_id,
                infrastructure: ContractVersionedObjectReference {
                    api_group: group.clone(),
                    kind: kind.to_owned(),
                    name,
                },
                deleting: found.is_deleting(),
            };
            let Some(intent) = machine_of(pool, &instance, existing, nodes) else { continue };
            match existing {
                Some(machine) => {
                    drop(writer.ensure_applied(MACHINE_POOL_FIELD_MANAGER, machine, &intent).await?)
                }
                None => {
                    let machine = writer.apply(MACHINE_POOL_FIELD_MANAGER, &intent).await?;
                    let message = format!("Created Machine {}", machine.name_any());
                    context.event(pool, EventType::Normal, "SuccessfulCreate", message);
                }
            }
        }
        Ok(())
    }
}
