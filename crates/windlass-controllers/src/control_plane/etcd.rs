//! Members of etcd, as the pods of a workload cluster show them.
//!
//! A member has the name of its Node and runs in the pod `etcd-<node>`. In-memory clusters say in annotations of that pod
//! what their members are, and take annotations for orders. Members of other clusters are seen, not changed: the decision
//! then keeps their Machines.

use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use windlass_engine::control_plane::EtcdMember;

use super::ControlPlaneError;
use crate::workload::answer;
use crate::workload_objects::{self, Pod};

/// Prefix of the annotations of in-memory members.
const IN_MEMORY: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io";

/// The members that the pods of a control plane stand for.
pub(super) fn members<'a>(pods: impl Iterator<Item = &'a Pod>) -> Vec<EtcdMember> {
    pods.filter(|pod| pod.labels().get("component").is_some_and(|component| component == "etcd"))
        .filter(|pod| !is_removed(pod))
        .filter_map(|pod| {
            Some(EtcdMember { name: node_of(pod)?, learner: false, removable: is_in_memory(pod) })
        })
        .collect()
}

/// Whether the member of a pod was removed from its cluster.
pub(super) fn is_removed(pod: &Pod) -> bool {
    pod.annotations().contains_key(&format!("{IN_MEMORY}/member-removed"))
}

/// Whether the member of a pod takes annotations for orders. To others one would have to speak etcd's own protocol, which
/// needs a connection into the pod.
fn is_in_memory(pod: &Pod) -> bool {
    pod.annotations().contains_key(&format!("{IN_MEMORY}/member-id"))
}

/// Removes a member, after `leader` was made the leader.
pub(super) async fn remove(
    client: Client,
    member: &str,
    leader: Option<&str>,
    now: jiff::Timestamp,
) -> Result<(), ControlPlaneError> {
    let pods = workload_objects::pods(client, "kube-system");
    let name = |node: &str| format!("etcd-{node}");
    // A pod that is gone took its member along.
    let Some(pod) = answer(pods.get(&name(member))).await? else { return Ok(()) };
    if !is_in_memory(&pod) {
        return Err(ControlPlaneError::EtcdMember {
            member: member.to_owned(),
            why: "only in-memory members can be removed from here".to_owned(),
        });
    }
    if let Some(leader) =
        leader.filter(|_| pod.annotations().contains_key(&format!("{IN_MEMORY}/leader-from")))
    {
        annotate(&pods, &name(leader), "leader-from", now).await?;
    }
    annotate(&pods, &name(member), "member-removed", now).await
}

async fn annotate(
    pods: &Api<Pod>,
    pod: &str,
    key: &str,
    now: jiff::Timestamp,
) -> Result<(), ControlPlaneError> {
    let patch = json!({"metadata": {"annotations": {format!("{IN_MEMORY}/{key}"): now.to_string()}}});
    answer(pods.patch(pod, &PatchParams::default(), &Patch::Merge(patch))).await?;
    Ok(())
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.node_name.clone()
}
