//! How the workload cluster says it is: the pods of the control plane on each Node, and the members of etcd.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use windlass_api::cluster::Machine;
use windlass_api::conditions::reason;
use windlass_engine::condition::Finding;
use windlass_engine::control_plane::observe::is_etcd_external;
use windlass_engine::control_plane::{Component, EtcdMember, Health};
use windlass_runtime::ObjectKey;

use super::{ControlPlaneReconciler, EtcdTrouble, Scope};
use crate::workload::{NoAnswer, answer};
use crate::workload_objects::{Pod, pods};

/// What was found out about the workload cluster.
pub(super) struct Inspection {
    /// kubeadm has finished on the first Machine.
    pub(super) initialized: bool,
    /// The members of etcd, as far as they can be seen.
    pub(super) members: Option<Vec<EtcdMember>>,
    /// Conditions of the components, by Machine.
    pub(super) findings: BTreeMap<String, BTreeMap<Component, Finding>>,
}

impl Inspection {
    /// Health of the components of a Machine.
    pub(super) fn components(&self, machine: &str) -> BTreeMap<Component, Health> {
        use windlass_api::conditions::ConditionStatus;
        let findings = self.findings.get(machine).into_iter().flatten();
        let health = |finding: &Finding| match finding.status {
            ConditionStatus::True => Health::Healthy,
            ConditionStatus::False => Health::Unhealthy,
            ConditionStatus::Unknown => Health::Unknown,
        };
        findings.map(|(component, finding)| (*component, health(finding))).collect()
    }
}

impl ControlPlaneReconciler {
    /// Asks the workload cluster. That it does not answer is a finding, not an error.
    pub(super) async fn inspect(&self, scope: &Scope<'_>, machines: &[Arc<Machine>]) -> Inspection {
        let external = is_etcd_external(scope.control_plane);
        let components =
            || Component::ALL.into_iter().filter(move |component| !(external && component.is_etcd()));
        let unknown = |why: &str, message: &str| {
            let all = || {
                components().map(|component| {
                    (component, Finding::unknown(component.condition(), why).because(message))
                })
            };
            machines.iter().map(|machine| (machine.name_any(), all().collect())).collect()
        };
        let known = scope.control_plane.status.initialization.control_plane_initialized == Some(true);
        if machines.is_empty() {
            return Inspection { initialized: known, members: None, findings: BTreeMap::new() };
        }
        match self.look(scope, known).await {
            Err(no_answer) => Inspection {
                initialized: known,
                members: None,
                findings: unknown(reason::CONNECTION_DOWN, &no_answer.to_string()),
            },
            Ok((false, _)) => Inspection {
                initialized: false,
                members: None,
                findings: unknown(
                    reason::INSPECTION_FAILED,
                    "Waiting for the control plane to be initialized",
                ),
            },
            Ok((true, pods)) => {
                let members = match external {
                    true => Ok(Vec::new()),
                    false => self.etcd_members(scope, machines).await,
                };
                let of = |machine: &Machine| {
                    let found = |component| (component, finding(machine, component, &pods, &members));
                    components().map(found).collect()
                };
                Inspection {
                    initialized: true,
                    members: members.as_ref().ok().filter(|_| !external).cloned(),
                    findings: machines.iter().map(|machine| (machine.name_any(), of(machine))).collect(),
                }
            }
        }
    }

    pub(super) async fn workload_client(&self, scope: &Scope<'_>) -> Result<Client, NoAnswer> {
        self.workload.client(&ObjectKey::new(scope.namespace(), scope.cluster_name())).await
    }

    /// Whether the cluster is initialised, and the pods of its control plane by name.
    async fn look(&self, scope: &Scope<'_>, known: bool) -> Result<(bool, BTreeMap<String, Pod>), NoAnswer> {
        let client = self.workload_client(scope).await?;
        if !known {
            // kubeadm uploads its configuration as the last thing that matters.
            let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "kube-system");
            if answer(maps.get("kubeadm-config")).await?.is_none() {
                return Ok((false, BTreeMap::new()));
            }
        }
        let listed =
            answer(pods(client, "kube-system").list(&ListParams::default().labels("tier=control-plane")))
                .await?;
        let pods = listed.into_iter().flat_map(|list| list.items);
        Ok((true, pods.map(|pod| (pod.name_any(), pod)).collect()))
    }
}

fn finding(
    machine: &Machine,
    component: Component,
    pods: &BTreeMap<String, Pod>,
    members: &Result<Vec<EtcdMember>, EtcdTrouble>,
) -> Finding {
    let type_ = component.condition();
    let node =
        machine.status.node_ref.as_ref().map(|node| node.name.as_str()).filter(|name| !name.is_empty());
    let Some(node) = node else {
        return Finding::unknown(type_, reason::INSPECTION_FAILED).because("Waiting for the Node");
    };
    let Some(pod_name) = component.pod() else { return member_finding(node, members) };
    let pod = pods.get(&format!("{pod_name}-{node}"));
    let Some(pod) = pod else { return Finding::no(type_, "DoesNotExist").because("Pod does not exist") };
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref()).unwrap_or_default();
    let ready = is_ready(pod);
    if pod.metadata.deletion_timestamp.is_some() {
        Finding::no(type_, "Deleting").because("Pod is being deleted")
    } else if phase == "Running" && ready {
        Finding::yes(type_, "Running")
    } else if phase == "Failed" || phase == "Succeeded" {
        Finding::no(type_, "Failed").because(format!("Pod is in phase {phase}"))
    } else {
        Finding::no(type_, "Provisioning").because("Waiting for the Pod to be ready")
    }
}

/// Whether etcd has the member of a Node, and no complaint about it. Whether its process runs is another condition.
fn member_finding(node: &str, members: &Result<Vec<EtcdMember>, EtcdTrouble>) -> Finding {
    let type_ = Component::EtcdMember.condition();
    let not_healthy = |why: String| Finding::no(type_, reason::NOT_HEALTHY).because(why);
    let members = match members {
        Ok(members) => members,
        Err(trouble) => {
            let why = format!("The members of etcd could not be listed: {trouble}");
            return Finding::unknown(type_, reason::INSPECTION_FAILED).because(why);
        }
    };
    match members.iter().find(|member| member.name == node) {
        None => not_healthy(format!("There is no etcd member {node}")),
        Some(member) if member.learner => not_healthy(format!("etcd member {node} is a learner")),
        Some(member) if !member.alarms.is_empty() => {
            not_healthy(format!("etcd member {node} has alarms: {}", member.alarms.join(", ")))
        }
        Some(_) => Finding::yes(type_, reason::HEALTHY),
    }
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
