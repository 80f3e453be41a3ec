//! Empties a Node: cordons it, evicts its pods, looks at its volumes.

use std::collections::BTreeMap;

use http::StatusCode;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod as EvictedPod};
use kube::api::{Api, EvictParams, ListParams, Patch, PatchParams};
use kube::client::Body;
use kube::core::{ObjectList, Request, Status};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_engine::machine::deletion::{Drain, Volumes};
use windlass_engine::machine::drain::{
    DRAIN_LABEL, DaemonSets, DrainPlan, DrainProgress, Eviction, MIRROR_POD_ANNOTATION, Pod as DrainPod,
    PodName, plan,
};
use windlass_engine::machine::drain_rules::{BadRule, DrainRules, Labels};
use windlass_runtime::{Context, ObjectKey, describe_error};

use super::Machines;
use crate::workload::{NoAnswer, answer};
use crate::workload_objects::{Pod, all_daemon_sets, all_pods, volume_attachments};

impl Machines {
    /// Does what can be done now to empty a Node, and says what is left.
    pub(super) async fn drain(&self, context: &Context, machine: &Machine, node: &str) -> Drain {
        let rules = match self.drain_rules(machine) {
            Ok(rules) => rules,
            // What it protects is not known: nothing is evicted before it is repaired.
            Err(bad) => return Drain::NoAnswer { why: bad.to_string() },
        };
        let drained = match self.workload(machine).await {
            Ok(client) => drain(context, &client, node, &rules).await,
            Err(error) => Err(error),
        };
        drained.unwrap_or_else(|error| Drain::NoAnswer { why: error.to_string() })
    }

    fn drain_rules(&self, machine: &Machine) -> Result<DrainRules, BadRule> {
        let namespace = ObjectKey::of(machine).namespace;
        let rules = self.drain_rules.in_namespace(&namespace);
        let cluster = self.clusters.get(&ObjectKey::new(&namespace, &machine.spec.cluster_name));
        // A Cluster that is gone has no labels: rules for all Clusters still hold.
        let cluster = cluster.map_or_else(Labels::new, |cluster| cluster.labels().clone());
        DrainRules::of_machine(rules.iter().map(AsRef::as_ref), machine.labels(), &cluster)
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

async fn drain(
    context: &Context,
    client: &Client,
    name: &str,
    rules: &DrainRules,
) -> Result<Drain, NoAnswer> {
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

    let namespaces = namespaces(client, rules).await?;
    let left_to_drain = || left_to_drain(context, client, name, answers, (rules, &namespaces));
    let todo = left_to_drain().await?;
    if todo.is_done() {
        return Ok(Drain::Done);
    }
    let mut evictions = Vec::new();
    for pod in &todo.evict {
        evictions.push((pod.clone(), evict(client, pod).await?));
    }
    // Pods without a grace period are gone already.
    let left = left_to_drain().await?;
    if left.is_done() {
        return Ok(Drain::Done);
    }
    let refused: Vec<(PodName, Eviction)> = evictions
        .into_iter()
        .filter(|(pod, eviction)| *eviction != Eviction::Accepted && left.evict.contains(pod))
        .collect();
    Ok(Drain::Pending(DrainProgress::after(left, refused)))
}

/// Asks for the eviction of a pod. What became of it is told by the status code, whatever the body says: a proxy in between
/// may answer with a page, or with an empty object. A pod that is gone needs no eviction.
async fn evict(client: &Client, pod: &PodName) -> Result<Eviction, NoAnswer> {
    let pods = Request::new(EvictedPod::url_path(&(), Some(&pod.namespace)));
    let sent = async {
        let request = pods.evict(&pod.name, &EvictParams::default()).map_err(kube::Error::BuildRequest)?;
        let answer = client.send(request.map(Body::from)).await?;
        let code = answer.status();
        Ok((code, answer.into_body().collect_bytes().await?))
    };
    let Some((code, body)) = answer(sent).await? else { return Ok(Eviction::Accepted) };
    if code.is_success() || code == StatusCode::NOT_FOUND {
        return Ok(Eviction::Accepted);
    }
    let said: Status = serde_json::from_slice(&body).unwrap_or_default();
    Ok(match code {
        StatusCode::TOO_MANY_REQUESTS => Eviction::Refused { message: refusal(code, said) },
        _ => Eviction::Failed { message: described(code, said) },
    })
}

/// Why a pod may not go. Which budget is in the way stands in the causes.
fn refusal(code: StatusCode, status: Status) -> String {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let why: Vec<&str> = causes.map(|cause| cause.message.as_str()).filter(|why| !why.is_empty()).collect();
    if why.is_empty() { described(code, status) } else { why.join(", ") }
}

/// What a status says, or at least which one it is.
fn described(code: StatusCode, status: Status) -> String {
    describe_error(&kube::Error::Api(status.with_code(code.as_u16()).boxed()))
}

/// Labels of all namespaces, if a rule looks at them.
async fn namespaces(client: &Client, rules: &DrainRules) -> Result<BTreeMap<String, Labels>, NoAnswer> {
    if !rules.look_at_namespaces() {
        return Ok(BTreeMap::new());
    }
    let api: Api<Namespace> = Api::all(client.clone());
    let found = listed("namespaces", api.list_metadata(&ListParams::default())).await?;
    Ok(found.iter().map(|namespace| (namespace.name_any(), namespace.labels().clone())).collect())
}

/// The items of a list that every Kubernetes API has. "Not found" means that something else has answered, and not that there
/// are none: a Node would pass for drained.
async fn listed<K: Clone>(
    resource: &str,
    list: impl Future<Output = Result<ObjectList<K>, kube::Error>>,
) -> Result<Vec<K>, NoAnswer> {
    let found = answer(list).await?;
    Ok(found.ok_or_else(|| NoAnswer::Refused(format!("{resource} cannot be listed: not found")))?.items)
}

async fn left_to_drain(
    context: &Context,
    client: &Client,
    node: &str,
    answers: bool,
    (rules, namespaces): (&DrainRules, &BTreeMap<String, Labels>),
) -> Result<DrainPlan, NoAnswer> {
    let pods = all_pods(client.clone());
    let on_node = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let pods = listed("pods", pods.list(&on_node)).await?;
    let nothing = Labels::new();
    let drain_pod = |pod: &Pod| {
        let described = drain_pod(pod);
        let namespace = namespaces.get(&described.name.namespace).unwrap_or(&nothing);
        DrainPod { rule: rules.of_pod(pod.labels(), namespace), ..described }
    };
    let pods: Vec<DrainPod> = pods.iter().map(drain_pod).collect();
    let mut daemon_sets = DaemonSets::new();
    if pods.iter().any(|pod| pod.controller.as_ref().is_some_and(|(kind, _)| kind == "DaemonSet")) {
        let api = all_daemon_sets(client.clone());
        let found = listed("daemonsets", api.list_metadata(&ListParams::default())).await?;
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
        rule: None,
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// An API that always answers the same.
    fn answering(code: u16, body: &'static str) -> Client {
        let service = tower::service_fn(move |_: http::Request<Body>| async move {
            let answer = http::Response::builder().status(code).body(Body::from(body.as_bytes().to_vec()));
            Ok::<_, Infallible>(answer.unwrap())
        });
        Client::new(service, "default")
    }

    /// What such an API makes of an eviction.
    async fn evicted(code: u16, body: &'static str) -> Eviction {
        let pod = PodName { namespace: "default".to_owned(), name: "web".to_owned() };
        evict(&answering(code, body), &pod).await.unwrap()
    }

    #[tokio::test]
    async fn an_api_that_has_no_pods_at_all_does_not_pass_for_one_with_nothing_to_drain() {
        let gone = r#"{"kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}"#;
        let pods = all_pods(answering(404, gone));
        let refused = listed("pods", pods.list(&ListParams::default())).await.unwrap_err();
        assert_eq!(refused.to_string(), "pods cannot be listed: not found");
    }

    #[tokio::test]
    async fn a_pod_that_is_gone_is_drained_whatever_the_body_says() {
        for body in [
            "",
            "{}",
            "null",
            "<html>not here</html>",
            r#"{"code": 500}"#,
            r#"{"code": 404, "message": "gone"}"#,
        ] {
            assert_eq!(evicted(404, body).await, Eviction::Accepted, "{body}");
        }
        assert_eq!(evicted(201, "").await, Eviction::Accepted);
    }

    #[tokio::test]
    async fn an_eviction_that_fails_never_has_an_empty_message() {
        for (code, body, expected) in [
            (500, "", "status 500 without a message"),
            (500, "{}", "status 500 without a message"),
            (403, r#"{"reason": "Forbidden"}"#, "Forbidden"),
            (403, r#"{"message": "not you"}"#, "not you"),
        ] {
            assert_eq!(
                evicted(code, body).await,
                Eviction::Failed { message: expected.to_owned() },
                "{body}"
            );
        }
        let causes =
            r#"{"message": "no", "details": {"causes": [{"message": "budget b"}, {"message": ""}]}}"#;
        for (body, expected) in [("{}", "status 429 without a message"), (causes, "budget b")] {
            assert_eq!(
                evicted(429, body).await,
                Eviction::Refused { message: expected.to_owned() },
                "{body}"
            );
        }
    }
}
