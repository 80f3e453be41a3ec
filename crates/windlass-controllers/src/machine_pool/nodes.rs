//! Nodes of a pool: they say whose they are, and go when their instances have gone.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, Patch, PatchParams, Preconditions};
use windlass_api::cluster::MachinePool;
use windlass_engine::machine_pool::{Decision, changes, retired};
use windlass_runtime::{Context, ObjectKey};

use super::MachinePools;
use crate::workload::answer;

impl MachinePools {
    /// Writes to the Nodes of the pool what is not as it should be. A Node that changed in between is looked at again when that
    /// change arrives.
    pub(super) async fn tend_nodes(
        &self,
        context: &Context,
        pool: &MachinePool,
        decision: &Decision,
        nodes: &[&Node],
    ) {
        if pool.metadata.deletion_timestamp.is_some() {
            return;
        }
        let gone = retired(pool, nodes, decision.provider_ids(pool));
        let is_mine = |node: &Node| {
            let mut references = decision.status.node_refs.iter();
            references.any(|reference| reference.uid == node.metadata.uid && reference.uid.is_some())
        };
        let changed: Vec<_> = nodes
            .iter()
            .filter(|node| is_mine(node))
            .filter_map(|node| Some((*node, changes(pool, node)?)))
            .collect();
        if gone.is_empty() && changed.is_empty() {
            return;
        }
        let cluster = ObjectKey::new(ObjectKey::of(pool).namespace, &pool.spec.cluster_name);
        let Ok(client) = self.access.client(&cluster).await else { return };
        let api: Api<Node> = Api::all(client);
        for node in gone {
            let same = Preconditions { uid: node.uid(), ..Preconditions::default() };
            let parameters = DeleteParams { preconditions: Some(same), ..DeleteParams::default() };
            if let Err(error) = answer(api.delete(&node.name_any(), &parameters)).await {
                tracing::debug!(pool = %context.key(), node = node.name_any(), %error, "cannot delete the Node");
            }
        }
        for (node, mut patch) in changed {
            patch["metadata"]["resourceVersion"] = node.resource_version().into();
            let (name, patch) = (node.name_any(), Patch::Merge(patch));
            let written = answer(api.patch(&name, &PatchParams::default(), &patch)).await;
            if let Err(error) = written {
                tracing::debug!(pool = %context.key(), node = name, %error, "cannot write the Node");
            }
        }
    }
}
