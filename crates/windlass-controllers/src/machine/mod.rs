//! The Machine controller: one machine of a provider becomes one Node, and goes again in order.
//!
//! What it decides is in [`windlass_engine::machine`]; here it is read and written.

mod deletion;
mod drain;
mod in_place;
mod observe;
mod ownership;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;
use windlass_api::cluster::{
    Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachineDrainRule, MachineSet,
};
use windlass_api::hooks::Hook;
use windlass_api::names::{CLUSTER_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL};
use windlass_api::object::ObjectError;
use windlass_engine::machine::node::MACHINE_ANNOTATION;
use windlass_engine::machine::{Decision, decide, paused_status};
use windlass_engine::pause::Pause;
use windlass_engine::pending_hooks::PendingHooks;
use windlass_engine::waiting::Wait;
use windlass_runtime::{
    Cache, Context, EventType, GroupKind, Lookup, Manager, ObjectKey, Outcome, Reconciler, Trigger,
    WriteError,
};

use crate::extension_config::is_another;
use crate::external::{ExternalError, Externals};
use crate::in_place::InPlaceExtensions;
use crate::references::part_names;
use crate::waits;
use crate::workload::WorkloadAccess;
use crate::workload_nodes::WorkloadNodes;

/// Field manager of the status of Machines.
pub const FIELD_MANAGER: &str = "windlass-machine";
/// Finalizer of Machines.
pub const FINALIZER: &str = "machine.cluster.x-k8s.io";

/// Reconciles Machines.
pub struct Machines {
    machines: Cache<Machine>,
    clusters: Cache<Cluster>,
    machine_sets: Cache<MachineSet>,
    deployments: Cache<MachineDeployment>,
    drain_rules: Cache<MachineDrainRule>,
    externals: Externals,
    access: Arc<dyn WorkloadAccess>,
    nodes: WorkloadNodes,
    in_place: InPlaceExtensions,
    /// What Machines wait on, with their UIDs: short waits are written nowhere else.
    waits: Mutex<BTreeMap<ObjectKey, (Option<String>, Wait)>>,
}

/// What the Machine controller uses besides the API.
#[derive(Clone)]
pub struct Parts {
    /// Objects of providers.
    pub externals: Externals,
    /// Workload clusters.
    pub access: Arc<dyn WorkloadAccess>,
    /// Nodes of workload clusters.
    pub nodes: WorkloadNodes,
    /// The extensions that update machines in place.
    pub in_place: InPlaceExtensions,
}

/// Why a reconcile of a Machine failed.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object of a provider could not be read.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// An object cannot be sent to an extension.
    #[error("an object for an extension: {0}")]
    Object(#[from] ObjectError),
    /// An update in place does not go on.
    #[error(transparent)]
    Update(#[from] windlass_engine::machine::in_place::InPlaceFailure),
}

impl Machines {
    /// Adds the Machine controller to a manager.
    pub fn register(manager: &Manager, parts: Parts) {
        let machines: Cache<Machine> = manager.cache();
        let clusters: Cache<Cluster> = manager.cache();
        let machine_sets: Cache<MachineSet> = manager.cache();
        let deployments: Cache<MachineDeployment> = manager.cache();
        let drain_rules: Cache<MachineDrainRule> = manager.cache();
        let trigger = Trigger::new();
        on_nodes(&parts.nodes, &machines, &trigger);
        let (of_cluster, of_deployment) = (machines.clone(), machines.clone());
        let by_reference = machines.lookup(part_names);
        let mut registered = manager.controller("machine", &machines).concurrency(50);
        if let Some(configs) = parts.in_place.configs() {
            // An extension that was changed is asked at once how far its updates are.
            let of_extensions = machines.clone();
            registered = registered.watches_changes(&configs, move |before, after| {
                if is_another(before, after) { updating(&of_extensions) } else { Vec::new() }
            });
        }
        registered
            .watches_changes(&clusters, move |before, after| concerned_by_cluster(&of_cluster, before, after))
            .watches_changes(&deployments, move |before, after| {
                concerned_by_deployment(&of_deployment, before, after)
            })
            .on_dynamic(move |object| concerned_by_external(&by_reference, object))
            .triggered_by(&trigger)
            .register(Self {
                machines: machines.clone(),
                clusters,
                machine_sets,
                deployments,
                drain_rules: drain_rules.clone(),
                externals: parts.externals,
                access: parts.access,
                nodes: parts.nodes,
                in_place: parts.in_place,
                waits: Mutex::default(),
            });
    }
}

impl Reconciler for Machines {
    type Error = MachineError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, MachineError> {
        let Some(machine) = self.machines.get(key) else {
            self.waits().remove(key);
            return Ok(Outcome::done());
        };
        let machine = machine.as_ref();
        let cluster = self.clusters.get(&ObjectKey::new(&key.namespace, &machine.spec.cluster_name));
        let deleting = machine.metadata.deletion_timestamp.is_some();
        if cluster.is_none() && !deleting {
            // It waits for its Cluster, whose arrival is an event.
            return Ok(Outcome::done());
        }
        if let Some(pause) = Pause::of(&machine.metadata, cluster.as_deref()) {
            if let Some(status) = paused_status(machine, pause, context.now()) {
                self.write_status(context, machine, status).await?;
            }
            return Ok(Outcome::done());
        }
        if ownership::adopt(context, machine, cluster.as_deref()).await? {
            return Ok(Outcome::done());
        }
        let mut seen = self.observe(context, machine, cluster.as_deref()).await;
        ownership::claim(context, machine, &seen).await?;

        let mut failure = None;
        if deleting {
            let step = self.delete(context, machine, cluster.as_deref(), &seen).await?;
            seen.deletion = Some(step);
        } else {
            match self.update_in_place(context, machine, &mut seen).await {
                Ok(()) => {}
                Err(error) => failure = Some(error),
            }
        }
        if seen.is_released() {
            ownership::release(context, machine).await?;
            return Ok(Outcome::done());
        }
        let observed = seen.observed(machine);
        let mut decision = decide(&observed, context.now());
        self.remember(machine, decision.wait.as_ref());
        self.write(context, machine, &mut decision).await?;
        self.sync_node(context, machine, &seen).await;
        if let Some(failure) = failure.or(seen.failure()) {
            return Err(failure);
        }
        let again = decision.again.map_or_else(Outcome::done, Outcome::after);
        Ok(again.or(seen.again(context.now())))
    }
}

impl Machines {
    /// Writes what was decided.
    async fn write(
        &self,
        context: &Context,
        machine: &Machine,
        decision: &mut Decision,
    ) -> Result<(), MachineError> {
        let spec = &decision.spec;
        if !spec.is_empty() {
            let mut patch = json!({"spec": {}});
            if let Some(id) = &spec.provider_id {
                patch["spec"]["providerID"] = id.as_str().into();
            }
            if let Some(secret) = &spec.data_secret_name {
                patch["spec"]["bootstrap"] = json!({"dataSecretName": secret});
            }
            if let Some(domain) = &spec.failure_domain {
                patch["spec"]["failureDomain"] = domain.as_str().into();
            }
            let key = ObjectKey::of(machine);
            let written = context.writer::<Machine>().patch_unconditionally(&key, patch).await?;
            decision.spec_is_written(written.metadata.generation);
        }
        if let Some(wait) = decision.keep.take() {
            waits::write(context, machine, wait).await?;
        }
        if decision.changes(machine) {
            self.write_status(context, machine, decision.status.clone()).await?;
        }
        if machine.status.node_ref.is_none()
            && let Some(node) = &decision.status.node_ref
        {
            let message = format!("Node {} belongs to this Machine", node.name);
            context.event(machine, EventType::Normal, "SuccessfulSetNodeRef", message);
        }
        Ok(())
    }

    /// What a Machine waited on when it was reconciled last.
    fn waited(&self, machine: &Machine) -> Option<Wait> {
        let waits = self.waits();
        let (uid, wait) = waits.get(&ObjectKey::of(machine))?;
        (*uid == machine.metadata.uid).then(|| wait.clone())
    }

    /// Remembers what a Machine waits on, and logs a wait that begins.
    fn remember(&self, machine: &Machine, wait: Option<&Wait>) {
        let key = ObjectKey::of(machine);
        let Some(wait) = wait else {
            self.waits().remove(&key);
            return;
        };
        let before = self.waits().insert(key.clone(), (machine.metadata.uid.clone(), wait.clone()));
        if before.is_none_or(|(_, before)| (&before.reason, &before.since) != (&wait.reason, &wait.since)) {
            tracing::debug!(machine = %key, reason = wait.reason, since = %wait.since.0, "{wait}");
        }
    }

    fn waits(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, (Option<String>, Wait)>> {
        self.waits.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn write_status(
        &self,
        context: &Context,
        machine: &Machine,
        status: windlass_api::cluster::MachineStatus,
    ) -> Result<(), WriteError> {
        let intent = json!({
            "metadata": {"name": machine.name_any(), "namespace": machine.namespace(), "uid": machine.uid()},
            "status": status,
        });
        let written = context.writer::<Machine>().apply_status(FIELD_MANAGER, &intent).await;
        match written {
            // It went in the meantime; with the uid in the intent nothing is made anew.
            Err(error) if error.is_not_found() => Ok(()),
            written => written.map(drop),
        }
    }
}

/// The Machines of a Cluster, when something changed in it that they look at.
/// The Machines that extensions update.
fn updating(machines: &Cache<Machine>) -> Vec<ObjectKey> {
    let machines = machines.list().into_iter();
    let updating =
        machines.filter(|machine| PendingHooks::of(&machine.metadata).contains(Hook::UpdateMachine));
    updating.map(|machine| ObjectKey::of(machine.as_ref())).collect()
}

fn concerned_by_cluster(
    machines: &Cache<Machine>,
    before: Option<&Cluster>,
    after: Option<&Cluster>,
) -> Vec<ObjectKey> {
    let relevant = |cluster: &Cluster| {
        let deleting = cluster.metadata.deletion_timestamp.is_some();
        (cluster.status.initialization, cluster.spec.paused, cluster.spec.control_plane_ref.clone(), deleting)
    };
    if before.map(relevant) == after.map(relevant) {
        return Vec::new();
    }
    let Some(cluster) = after.or(before) else { return Vec::new() };
    // By their spec: those that were there before their Cluster have no label yet.
    let (namespace, name) = (ObjectKey::of(cluster).namespace, cluster.name_any());
    let machines = machines.in_namespace(&namespace).into_iter();
    let machines = machines.filter(|machine| machine.spec.cluster_name == name);
    machines.map(|machine| ObjectKey::of(machine.as_ref())).collect()
}

/// The Machines that a provider's object is about: its owners or, as long as it has none, those that point to it.
fn concerned_by_external(by_reference: &Lookup<Machine>, object: &DynamicObject) -> Vec<ObjectKey> {
    let owners = GroupKind::of::<Machine>(&()).owners_of(object);
    if !owners.is_empty() {
        return owners;
    }
    let kind = object.types.as_ref().map(|types| types.kind.as_str()).unwrap_or_default();
    let name = object.name_any();
    let points_to = |reference: &ContractVersionedObjectReference| {
        reference.name == name && (kind.is_empty() || reference.kind == kind)
    };
    let machines = by_reference.find(&ObjectKey::of(object).namespace, &name).into_iter();
    let machines = machines.filter(|machine| {
        points_to(&machine.spec.infrastructure_ref)
            || machine.spec.bootstrap.config_ref.as_ref().is_some_and(points_to)
    });
    machines.map(|machine| ObjectKey::of(machine.as_ref())).collect()
}

/// The Machines of a MachineDeployment, when what it wants changed: they may be outdated now.
fn concerned_by_deployment(
    machines: &Cache<Machine>,
    before: Option<&MachineDeployment>,
    after: Option<&MachineDeployment>,
) -> Vec<ObjectKey> {
    let Some(deployment) = after else { return Vec::new() };
    let relevant = |deployment: &MachineDeployment| {
        let revision = deployment.annotations().get(windlass_api::names::REVISION_ANNOTATION).cloned();
        (deployment.spec.template.spec.clone(), deployment.spec.rollout.after.clone(), revision)
    };
    if before.map(relevant) == Some(relevant(deployment)) {
        return Vec::new();
    }
    let labels = BTreeMap::from([(MACHINE_DEPLOYMENT_NAME_LABEL.to_owned(), deployment.name_any())]);
    let found = machines.labelled(&ObjectKey::of(deployment).namespace, &labels);
    found.iter().map(|machine| ObjectKey::of(machine.as_ref())).collect()
}

/// Lets changes of Nodes reach their Machines.
fn on_nodes(nodes: &WorkloadNodes, machines: &Cache<Machine>, trigger: &Trigger) {
    let by_provider_id = machines.lookup(|machine| {
        Some(machine.spec.provider_id.clone()).filter(|id| !id.is_empty()).into_iter().collect()
    });
    let trigger = trigger.clone();
    nodes.on_change(Arc::new(move |cluster, before, after| {
        let Some(node) = after.or(before) else { return };
        let annotations = node.metadata.annotations.as_ref();
        if let Some(name) = annotations.and_then(|annotations| annotations.get(MACHINE_ANNOTATION)) {
            trigger.fire(&ObjectKey::new(&cluster.namespace, name));
            return;
        }
        // A new one says only which machine it is.
        let Some(id) = node.spec.as_ref().and_then(|spec| spec.provider_id.as_ref()) else { return };
        for machine in by_provider_id.find(&cluster.namespace, id) {
            if machine.labels().get(CLUSTER_NAME_LABEL) == Some(&cluster.name) {
                trigger.fire(&ObjectKey::of(machine.as_ref()));
            }
        }
    }));
}
