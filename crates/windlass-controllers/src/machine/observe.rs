//! Reads what is around a Machine.

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as WorkloadNode;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::names::REVISION_ANNOTATION;
use windlass_engine::contract::{self, BootstrapConfig, InfrastructureMachine};
use windlass_engine::machine::deletion::Step;
use windlass_engine::machine::node::{self, NodeContext};
use windlass_engine::machine::{Node, NodeSeen, Observed, UpToDate, Updating, WorkerRevision, up_to_date};
use windlass_engine::waiting::Wait;
use windlass_runtime::{Context, GroupKind, ObjectKey, Outcome};

use super::{MachineError, Machines};
use crate::external::External;
use crate::references::{Read, read};
use crate::workload::answer;

/// What was read around a Machine, and what was found out about it in this round.
pub(super) struct Seen {
    pub(super) bootstrap: Read<BootstrapConfig>,
    pub(super) infrastructure: Read<InfrastructureMachine>,
    pub(super) node: NodeSeen,
    workload_node: Option<Arc<WorkloadNode>>,
    up_to_date: Option<UpToDate>,
    context: NodeContext,
    rollout_after: Option<Timestamp>,
    pub(super) updating: Option<Updating>,
    pub(super) update_again: Option<Timestamp>,
    pub(super) deletion: Option<Step>,
    /// What the Machine waited on in the round before.
    pub(super) waited: Option<Wait>,
}

impl Machines {
    pub(super) async fn observe(
        &self,
        context: &Context,
        machine: &Machine,
        cluster: Option<&Cluster>,
    ) -> Seen {
        let namespace = ObjectKey::of(machine).namespace;
        let config = machine.spec.bootstrap.config_ref.as_ref();
        let bootstrap = read(&self.externals, context, &namespace, config, contract::bootstrap_config).await;
        let reference = Some(&machine.spec.infrastructure_ref);
        let infrastructure =
            read(&self.externals, context, &namespace, reference, contract::infrastructure_machine).await;
        let (node, workload_node) = self.node(context, machine, cluster, &infrastructure).await;
        let mut seen = Seen {
            bootstrap,
            infrastructure,
            node,
            workload_node,
            up_to_date: None,
            context: NodeContext::default(),
            rollout_after: None,
            updating: None,
            update_again: None,
            deletion: None,
            waited: self.waited(machine),
        };
        seen.context.interruptible =
            seen.infrastructure.referenced.object().is_some_and(|machine| machine.interruptible);
        if let Some((machine_set, deployment)) = self.revision(machine) {
            let revision = WorkerRevision { machine_set: &machine_set, deployment: &deployment };
            let updating = seen.observed(machine).marks().update_in_progress();
            let number = |annotations: &std::collections::BTreeMap<String, String>| {
                annotations.get(REVISION_ANNOTATION).cloned()
            };
            seen.context.outdated = number(machine_set.annotations()) != number(deployment.annotations());
            seen.rollout_after = deployment.spec.rollout.after.as_ref().map(|after| after.0);
            seen.up_to_date = Some(up_to_date(machine, revision, updating, context.now()));
        }
        seen
    }

    /// Looks for the Node of a Machine.
    async fn node(
        &self,
        context: &Context,
        machine: &Machine,
        cluster: Option<&Cluster>,
        infrastructure: &Read<InfrastructureMachine>,
    ) -> (NodeSeen, Option<Arc<WorkloadNode>>) {
        let not_sought = |why: String| (NodeSeen::NotSought { why }, None);
        let Some(cluster) = cluster else { return not_sought("there is no Cluster".to_owned()) };
        if cluster.status.initialization.control_plane_initialized != Some(true) {
            return not_sought(format!(
                "the control plane of Cluster {} is not initialized",
                cluster.name_any()
            ));
        }
        let reported = infrastructure.referenced.object().and_then(|object| object.provider_id.as_deref());
        let recorded = Some(machine.spec.provider_id.as_str()).filter(|id| !id.is_empty());
        let Some(id) = recorded.or(reported) else {
            return not_sought("the infrastructure has not said what its machine is called".to_owned());
        };
        let key = ObjectKey::of(cluster);
        let found = match self.nodes.by_provider_id(&key, id).await {
            Ok(None) => match &machine.status.node_ref {
                // Some cloud providers set the identity of a Node late, or anew.
                Some(node) => self.nodes.by_name(&key, &node.name).await,
                None => Ok(None),
            },
            found => found,
        };
        let _ = context;
        match found {
            Ok(Some(node)) => (NodeSeen::Found(Box::new(Node::of(&node))), Some(node)),
            Ok(None) => (NodeSeen::Absent, None),
            Err(silence) => (NodeSeen::NoAnswer { why: silence.why.to_string(), since: silence.since }, None),
        }
    }

    /// The MachineSet of a Machine and the MachineDeployment of that, if it has them.
    fn revision(&self, machine: &Machine) -> Option<(Arc<MachineSet>, Arc<MachineDeployment>)> {
        let machine_set = GroupKind::of::<MachineSet>(&()).controller_of(machine)?;
        let machine_set = self.machine_sets.get(&machine_set)?;
        let deployment = GroupKind::of::<MachineDeployment>(&()).controller_of(machine_set.as_ref())?;
        Some((machine_set, self.deployments.get(&deployment)?))
    }

    /// Brings labels, annotations and taints of the Node to what the Machine wants. A Node that changed in between is
    /// looked at again when that change arrives.
    pub(super) async fn sync_node(&self, context: &Context, machine: &Machine, seen: &Seen) {
        let Some(node) = &seen.workload_node else { return };
        if machine.metadata.deletion_timestamp.is_some() {
            return;
        }
        let Some(mut patch) = node::changes(machine, node, seen.context) else { return };
        patch["metadata"]["resourceVersion"] = node.resource_version().into();
        let cluster = ObjectKey::new(ObjectKey::of(machine).namespace, &machine.spec.cluster_name);
        let Ok(client) = self.access.client(&cluster).await else { return };
        let nodes: Api<WorkloadNode> = Api::all(client);
        let patch = Patch::Merge(patch);
        let written = answer(nodes.patch(&node.name_any(), &PatchParams::default(), &patch)).await;
        if let Err(error) = written {
            tracing::debug!(machine = %context.key(), %error, "cannot write the Node");
        }
    }
}

impl Seen {
    /// What the engine decides from.
    pub(super) fn observed<'a>(&'a self, machine: &'a Machine) -> Observed<'a> {
        Observed {
            machine,
            bootstrap: self.bootstrap.referenced.clone(),
            infrastructure: self.infrastructure.referenced.clone(),
            node: self.node.clone(),
            up_to_date: self.up_to_date.clone(),
            updating: self.updating.clone(),
            deletion: self.deletion.clone(),
            waited: self.waited.as_ref(),
        }
    }

    /// An update is to be looked at again at that time, or before.
    pub(super) fn update_no_later_than(&mut self, at: Timestamp) {
        self.update_again = Some(self.update_again.map_or(at, |before| before.min(at)));
    }

    /// The objects of providers that were found.
    pub(super) fn externals(&self) -> impl Iterator<Item = &External> {
        self.infrastructure.external.iter().chain(self.bootstrap.external.iter())
    }

    /// Whether the Machine may go.
    pub(super) fn is_released(&self) -> bool {
        self.deletion == Some(Step::Release)
    }

    /// What could not be read. It is tried again, with growing pauses.
    pub(super) fn failure(&self) -> Option<MachineError> {
        let error = self.infrastructure.error.as_ref().or(self.bootstrap.error.as_ref())?;
        Some(error.clone().into())
    }

    /// When to look again because of times that are written down elsewhere.
    pub(super) fn again(&self, now: Timestamp) -> Outcome {
        let times = [self.rollout_after, self.update_again].into_iter().flatten().filter(|time| *time > now);
        Outcome::at(times.min(), now)
    }
}
