//! Empties a Node: cordons it, evicts its pods, looks at its volumes.

use k8s_openapi::api::core::v1::{Node, Pod as EvictedPod};
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_engine::machine::deletion::{Drain, Volumes};
use windlass_engine::machine::drain::{
    DRAIN_LABEL, DaemonSets, DrainPlan, DrainProgress, Eviction, MIRROR_POD_ANNOTATION, Pod as DrainPod,
    PodName, plan,
};
use windlass_runtime::{Context, ObjectKey, describe_error};

use super::Machines;
use crate::workload::{NoAnswer, answer};
use crate::workload_objects::{Pod, all_daemon_sets, all_pods, volume_attachments};

impl Machines {
    /// Does what can be done now to empty a Node, and says what is left.
    pub(super) async fn drain(&self, context: &Context, machine: &Machine, node: &str) -> Drain {
        let drained = match self.workload(machine).await {
            Ok(client) => drain(context, &client, node).await,
            Err(error) => Err(error),
        };
        drained.unwrap_or_else(|error| Drain::NoAnswer { why: error.to_string() })
    }

    /// Lets pods be scheduled to a Node again.
    ///
    /// # Errors
    ///
    /// The workload cluster does not answer. A Node that is gone needs nothing.
    pub(super) async fn uncordon(&self, machine: &Machine, node: &str) -> Result<(), NoAnswer> {
        let nodes: Api<Node> = Api::all(self.workload(machine).await?);
        let uncordon = Patch::Merge(json!({"spec": {"unschedulable": null}}));
        answer(nodes.patch(node, &PatchParams::default(), &uncordon)).await.map(drop)
    }

    /// Which volumes are attached to a Node.
    pub(super) async fn volumes(&self, machine: &Machine, node: &str) -> Volumes {
        let attached = match self.workload(machine).await {
            Ok(client) => attached(&client, node).await,
            Err(error) => Err(error),
        };
        match attached {
            Ok(attached) if attached.is_empty() => Volumes::Detached,
            Ok(attached) => Volumes::Attached(attached),
            Err(error) => Volumes::NoAnswer { why: error.to_string() },
        }
    }

    async fn workload(&self, machine: &Machine) -> Result<Client, NoAnswer> {
        let cluster = ObjectKey::new(ObjectKey::of(machine).namespace, &machine.spec.cluster_name);
        self.access.client(&cluster).await
    }
}

async fn drain(context: &Context, client: &Client, name: &str) -> Result<Drain, NoAnswer> {
    let nodes: Api<Node> = Api::all(client.clone());
    let Some(node) = answer(nodes.get(name)).await? else { return Ok(Drain::NodeGone) };
    let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true);
    if !unschedulable {
        let cordon = Patch::Merge(json!({"spec": {"unschedulable": true}}));
        answer(nodes.patch(name, &PatchParams::default(), &cordon)).await?;
    }
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition.type_ == "Ready");
    let answers = ready.is_none_or(|ready| ready.status != "Unknown");

    let todo = look(context, client, name, answers).await?;
    if todo.is_done() {
        return Ok(Drain::Done);
    }
    let mut evictions = Vec::new();
    for pod in &todo.evict {
        let pods: Api<EvictedPod> = Api::namespaced(client.clone(), &pod.namespace);
        let evicted = match pods.evict(&pod.name, &EvictParams::default()).await {
            Ok(_) => Eviction::Accepted,
            Err(kube::Error::Api(status)) if status.code == 404 => Eviction::Accepted,
            Err(kube::Error::Api(status)) if status.code == 429 => {
                Eviction::Refused { message: refusal(&status) }
            }
            Err(error @ kube::Error::Api(_)) => Eviction::Failed { message: describe_error(&error) },
            Err(error) => return Err(NoAnswer::Refused(describe_error(&error))),
        };
        evictions.push((pod.clone(), evicted));
    }
    // Pods without a grace period are gone already.
    let left = look(context, client, name, answers).await?;
    if left.is_done() {
        return Ok(Drain::Done);
    }
    let refused: Vec<(PodName, Eviction)> = evictions
        .into_iter()
        .filter(|(pod, eviction)| *eviction != Eviction::Accepted && left.evict.contains(pod))
        .collect();
    Ok(Drain::Pending(DrainProgress::after(left, refused)))
}

/// Why a pod may not go. Which budget is in the way stands in the causes.
fn refusal(status: &kube::core::Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let why: Vec<&str> = causes.map(|cause| cause.message.as_str()).collect();
    if why.is_empty() { status.message.clone() } else { why.join(", ") }
}

async fn look(context: &Context, client: &Client, node: &str, answers: bool) -> Result<DrainPlan, NoAnswer> {
    let pods = all_pods(client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = answer(pods.list(&on_node)).await?.map(|pods| pods.items).unwrap_or_default();
    let pods: Vec<DrainPod> = pods.iter().map(drain_pod).collect();
    let mut daemon_sets = DaemonSets::new();
    if pods.iter().any(|pod| pod.controller.as_ref().is_some_and(|(kind, _)| kind == "DaemonSet")) {
        let api = all_daemon_sets(client.clone());
        let found = answer(api.list_metadata(&ListParams::default()))
            .await?
            .map(|found| found.items)
            .unwrap_or_default();
        daemon_sets =
            found.iter().map(|set| (ObjectKey::of_meta(&set.metadata).namespace, set.name_any())).collect();
    }
    Ok(plan(&pods, &daemon_sets, answers, context.now()))
}

fn drain_pod(pod: &Pod) -> DrainPod {
    let controller = pod.owner_references().iter().find(|owner| owner.controller == Some(true));
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    DrainPod {
        name: PodName { namespace: ObjectKey::of_meta(&pod.metadata).namespace, name: pod.name_any() },
        controller: controller.map(|owner| (owner.kind.clone(), owner.name.clone())),
        mirror: pod.annotations().contains_key(MIRROR_POD_ANNOTATION),
        finished: matches!(phase, Some("Succeeded" | "Failed")),
        terminating: pod.metadata.deletion_timestamp.as_ref().map(|time| time.0),
        drain_label: pod.labels().get(DRAIN_LABEL).cloned(),
    }
}

/// The volumes that a cluster says are attached to a Node. An API without such objects has no volumes.
async fn attached(client: &Client, name: &str) -> Result<Vec<String>, NoAnswer> {
    let attachments = volume_attachments(client.clone());
    let attachments = answer(attachments.list(&ListParams::default())).await?;
    let attachments = attachments.map(|found| found.items).unwrap_or_default();
    let mut attached: Vec<String> =
        attachments.iter().filter(|found| found.spec.node_name == name).map(ResourceExt::name_any).collect();
    let nodes: Api<Node> = Api::all(client.clone());
    let node = answer(nodes.get(name)).await?;
    let volumes = node.and_then(|node| node.status?.volumes_attached).unwrap_or_default();
    attached.extend(volumes.into_iter().map(|volume| volume.name));
    attached.sort();
    attached.dedup();
    Ok(attached)
}
