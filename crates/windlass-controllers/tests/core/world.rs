//! A management API and a workload API, both in memory. Providers are played by the tests.

use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use windlass_controllers::cluster::Clusters;
use windlass_controllers::external::Externals;
use windlass_controllers::health_check::HealthChecks;
use windlass_controllers::machine_pool::MachinePools;
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_runtime::Running;
use windlass_testkit::{Object, Options};

/// The kinds that take part; each one costs every test a little time.
const KINDS: &[&str] = &[
    "Cluster",
    "DevCluster",
    "DevMachine",
    "DevMachinePool",
    "KubeadmConfig",
    "KubeadmControlPlane",
    "Machine",
    "MachineDeployment",
    "MachineHealthCheck",
    "MachinePool",
    "MachineSet",
];

pub(crate) struct World {
    kit: windlass_testkit::World,
    running: Running,
}

windlass_testkit::deref_to_kit!(World);

impl World {
    pub(crate) async fn start() -> Self {
        let kit = windlass_testkit::World::new(Options::new().kinds(KINDS).with_workload()).await;
        let manager = kit.manager(7);
        let nodes = WorkloadNodes::new(kit.one_workload(), kit.clock().clone());
        let externals = Externals::new();
        Clusters::register(&manager, externals.clone(), nodes.clone(), true);
        HealthChecks::register(&manager, nodes.clone());
        MachinePools::register(&manager, externals, nodes, kit.one_workload());
        let running = manager.start();
        Self { kit, running }
    }

    pub(crate) async fn is_gone<K: Object>(&self, name: &str) -> bool {
        self.find::<K>(name).await.is_none()
    }

    pub(crate) async fn is_deleting<K: Object>(&self, name: &str) -> bool {
        self.get::<K>(name).await.meta().deletion_timestamp.is_some()
    }

    /// Lets the last finalizer of an object go, as its own controller would.
    pub(crate) async fn let_go<K: Object>(&self, name: &str) {
        self.patch::<K>(name, json!({"metadata": {"finalizers": null}})).await;
    }

    /// A Node of the workload cluster, ready or not.
    pub(crate) async fn node(&self, name: &str, version: &str, ready: bool) {
        let nodes: Api<Node> = Api::all(self.workload().clone());
        let node: Node = serde_json::from_value(
            json!({"metadata": {"name": name}, "spec": {"providerID": format!("id://{name}")}}),
        )
        .unwrap();
        if nodes.get_opt(name).await.unwrap().is_none() {
            nodes.create(&PostParams::default(), &node).await.unwrap();
        }
        let known = nodes.get(name).await.unwrap();
        let before = known.status.and_then(|status| status.conditions).unwrap_or_default();
        let status = if ready { "True" } else { "False" };
        let same = before.iter().find(|condition| condition.status == status);
        let since = same.and_then(|condition| condition.last_transition_time.clone());
        let now = json!(self.running.manager().clock().now());
        let status = json!({"status": {
            "nodeInfo": {
                "kubeletVersion": version, "architecture": "", "bootID": "", "containerRuntimeVersion": "",
                "kernelVersion": "", "kubeProxyVersion": "", "machineID": "", "operatingSystem": "", "osImage": "",
                "systemUUID": "",
            },
            "conditions": [{
                "type": "Ready", "status": status, "lastTransitionTime": since.map_or(now, |since| json!(since)),
            }],
        }});
        nodes.patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// Keeps pods away from a Node, as kubeadm does until its Machine is known.
    pub(crate) async fn taint_node(&self, name: &str, key: &str) {
        let nodes: Api<Node> = Api::all(self.workload().clone());
        let patch = json!({"spec": {"taints": [{"key": key, "effect": "NoSchedule"}]}});
        nodes.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn workload_node(&self, name: &str) -> Option<Node> {
        let nodes: Api<Node> = Api::all(self.workload().clone());
        nodes.get_opt(name).await.unwrap()
    }

    /// Waits until the controllers have nothing to do but wait.
    pub(crate) async fn settle(&self) {
        // Nodes reach the controllers through a watch of their own, and controllers have a pace.
        for _ in 0..3 {
            tokio::time::sleep(Duration::from_secs(2)).await;
            self.running.manager().idle().await;
        }
    }

    /// Lets time pass.
    pub(crate) async fn pass(&self, seconds: u64) {
        self.seconds(seconds).await;
        self.settle().await;
    }

    /// What controllers keep failing at.
    pub(crate) fn failing(&self) -> Vec<String> {
        self.running.manager().failing().into_iter().map(|failing| failing.error).collect()
    }
}

/// Status and reason of a condition.
pub(crate) fn said(conditions: &[Condition], type_: &str) -> (String, String) {
    let found = conditions.iter().find(|condition| condition.type_ == type_);
    found.map_or_else(Default::default, |found| (found.status.clone(), found.reason.clone()))
}

pub(crate) fn owners<K: Resource>(object: &K) -> Vec<(String, bool)> {
    let owners = object.owner_references().iter();
    owners.map(|owner| (format!("{} {}", owner.kind, owner.name), owner.controller == Some(true))).collect()
}
