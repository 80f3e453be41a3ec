//! Takes the steps of a deletion.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams};
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, EXCLUDE_NODE_DRAINING_ANNOTATION, PRE_DRAIN_DELETE_HOOK_PREFIX,
    PRE_TERMINATE_DELETE_HOOK_PREFIX,
};
use windlass_engine::contract;
use windlass_engine::machine::deletion::{
    Drain, Facts, NodeDeletion, NodeSkipped, NodeSteps, Owned, Step, Timeouts, next,
};
use windlass_engine::referenced::Referenced;
use windlass_runtime::{Context, EventType, ObjectKey};

use super::observe::Seen;
use super::{MachineError, Machines};
use crate::references::Read;
use crate::workload::answer;

/// On a Machine: deletion does not wait for its volumes.
pub(super) const EXCLUDE_VOLUME_DETACH_ANNOTATION: &str =
    "machine.cluster.x-k8s.io/exclude-wait-for-node-volume-detach";

impl Machines {
    /// Takes steps until one has to be waited for, or all are done.
    pub(super) async fn delete(
        &self,
        context: &Context,
        machine: &Machine,
        cluster: Option<&Cluster>,
        seen: &Seen,
    ) -> Result<Step, MachineError> {
        let mut facts = self.facts(context, machine, cluster, seen).await;
        loop {
            let step = next(&facts, context.now());
            match &step {
                Step::Drain { node } => {
                    let drain = self.drain(context, machine, node).await;
                    // It is looked at again until the Machine goes, but told once.
                    if drain == Drain::Done && facts.volumes_since.is_none() {
                        let message = format!("Node {node} is drained");
                        context.event(machine, EventType::Normal, "SuccessfulDrainNode", message);
                    }
                    facts.drain = Some(drain);
                }
                Step::LookAtVolumes { node } => facts.volumes = Some(self.volumes(machine, node).await),
                Step::DeleteInfrastructure => {
                    facts.infrastructure =
                        delete(context, &seen.infrastructure, &facts.infrastructure).await?;
                    let message = "deleting the infrastructure machine";
                    context.event(machine, EventType::Normal, "DeletingInfrastructure", message);
                }
                Step::DeleteBootstrap => {
                    facts.bootstrap = delete(context, &seen.bootstrap, &facts.bootstrap).await?;
                }
                Step::DeleteNode { node } => {
                    facts.node_deletion = Some(self.delete_node(machine, node).await)
                }
                // That a step begins is written down before anything of it is done.
                Step::BeginDrain | Step::BeginVolumes | Step::Wait(_) | Step::Release => return Ok(step),
            }
        }
    }

    async fn facts(
        &self,
        context: &Context,
        machine: &Machine,
        cluster: Option<&Cluster>,
        seen: &Seen,
    ) -> Facts {
        let annotations = machine.annotations();
        let hooks =
            |prefix: &str| annotations.keys().filter(|key| key.starts_with(prefix)).cloned().collect();
        let timeouts = &machine.spec.deletion;
        let deletion = machine.status.deletion.clone().unwrap_or_default();
        let requested = machine.metadata.deletion_timestamp.as_ref().map(|requested| requested.0);
        Facts {
            requested: requested.unwrap_or_else(|| context.now()),
            pre_drain_hooks: hooks(PRE_DRAIN_DELETE_HOOK_PREFIX),
            pre_terminate_hooks: hooks(PRE_TERMINATE_DELETE_HOOK_PREFIX),
            node: self.node_steps(context, machine, cluster, seen).await,
            drain_excluded: annotations.contains_key(EXCLUDE_NODE_DRAINING_ANNOTATION),
            volumes_excluded: annotations.contains_key(EXCLUDE_VOLUME_DETACH_ANNOTATION),
            timeouts: Timeouts::of_seconds(
                timeouts.node_drain_timeout_seconds,
                timeouts.node_volume_detach_timeout_seconds,
                timeouts.node_deletion_timeout_seconds,
            ),
            drain_since: deletion.node_drain_start_time.map(|time| time.0),
            volumes_since: deletion.wait_for_node_volume_detach_start_time.map(|time| time.0),
            drain: None,
            volumes: None,
            infrastructure: owned(&seen.infrastructure.referenced),
            bootstrap: owned(&seen.bootstrap.referenced),
            node_deletion: None,
        }
    }

    async fn node_steps(
        &self,
        context: &Context,
        machine: &Machine,
        cluster: Option<&Cluster>,
        seen: &Seen,
    ) -> NodeSteps {
        let Some(cluster) = cluster.filter(|cluster| cluster.metadata.deletion_timestamp.is_none()) else {
            return NodeSteps::Skipped(NodeSkipped::ClusterDeleting);
        };
        let found = match &seen.node {
            windlass_engine::machine::NodeSeen::Found(node) => Some(node.name.clone()),
            _ => None,
        };
        let Some(node) = machine.status.node_ref.as_ref().map(|node| node.name.clone()).or(found) else {
            return NodeSteps::Skipped(NodeSkipped::NoNode);
        };
        let namespace = ObjectKey::of(machine).namespace;
        if let Some(reference) = &cluster.spec.control_plane_ref
            && let Ok(Some(control_plane)) = self.externals.get(context, &namespace, reference).await
        {
            if control_plane.is_deleting() {
                return NodeSteps::Skipped(NodeSkipped::ControlPlaneDeleting);
            }
            let control_plane = contract::control_plane(control_plane.data(), control_plane.kind.contract);
            if control_plane.externally_managed {
                return NodeSteps::Of(node);
            }
        }
        let labels = BTreeMap::from([
            (CLUSTER_NAME_LABEL.to_owned(), cluster.name_any()),
            (CONTROL_PLANE_LABEL.to_owned(), String::new()),
        ]);
        let control_planes = self.machines.labelled(&namespace, &labels);
        let stays = control_planes.iter().any(|machine| machine.metadata.deletion_timestamp.is_none());
        if stays { NodeSteps::Of(node) } else { NodeSteps::Skipped(NodeSkipped::LastControlPlane) }
    }

    async fn delete_node(&self, machine: &Machine, node: &str) -> NodeDeletion {
        let cluster = ObjectKey::new(ObjectKey::of(machine).namespace, &machine.spec.cluster_name);
        let client = match self.access.client(&cluster).await {
            Ok(client) => client,
            Err(error) => return NodeDeletion::Pending { why: error.to_string() },
        };
        let nodes: Api<Node> = Api::all(client);
        match answer(nodes.delete(node, &DeleteParams::default())).await {
            Ok(None) => return NodeDeletion::Gone,
            Ok(Some(_)) => {}
            Err(error) => return NodeDeletion::Pending { why: error.to_string() },
        }
        match answer(nodes.get(node)).await {
            Ok(None) => NodeDeletion::Gone,
            Ok(Some(_)) => NodeDeletion::Pending { why: "it is being deleted".to_owned() },
            Err(error) => NodeDeletion::Pending { why: error.to_string() },
        }
    }
}

/// Deletes an object of a provider.
async fn delete<T>(context: &Context, read: &Read<T>, owned: &Owned) -> Result<Owned, MachineError> {
    let (Some(external), Owned::Present { kind, name }) = (&read.external, owned) else {
        return Ok(Owned::Gone);
    };
    context.writer_of(&external.kind.resource).delete(&external.object).await?;
    Ok(Owned::Deleting { kind: kind.clone(), name: name.clone() })
}

fn owned<T>(referenced: &Referenced<T>) -> Owned {
    match referenced {
        Referenced::None | Referenced::Missing(_) => Owned::Gone,
        // It is unknown whether it is gone, so it counts as there until it is known.
        Referenced::Unreadable { reference, .. } => {
            Owned::Deleting { kind: reference.kind.clone(), name: reference.name.clone() }
        }
        Referenced::Found { reference, deleting, .. } => {
            let (kind, name) = (reference.kind.clone(), reference.name.clone());
            if *deleting { Owned::Deleting { kind, name } } else { Owned::Present { kind, name } }
        }
    }
}
