//! A management cluster, the in-memory provider, kubeadm bootstrap and the Machine controller, in virtual time. What other controllers do
//! for a Cluster is done by hand.

use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::ResourceExt;
use kube::api::{Api, PostParams};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::infrastructure::DevMachine;
use windlass_controllers::bootstrap::KubeadmConfigs;
use windlass_controllers::cluster_resource_set::ClusterResourceSets;
use windlass_controllers::external::Externals;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_controllers::machine::{Machines, Parts};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_engine::condition;
use windlass_inmemory::{Provider, WorkloadCluster, WorkloadClusters};
use windlass_runtime::Running;
use windlass_testkit::Options;

/// Kinds that are watched here. Each CRD costs every test a little time.
const KINDS: &[&str] = &[
    "Cluster",
    "Machine",
    "MachineSet",
    "MachineDeployment",
    "MachinePool",
    "MachineDrainRule",
    "ClusterResourceSet",
    "ClusterResourceSetBinding",
    "DevCluster",
    "DevMachine",
    "DevMachinePool",
    "KubeadmConfig",
];

pub(crate) struct World {
    kit: windlass_testkit::World,
    pub(crate) provider: Provider,
    running: Option<Running>,
}

windlass_testkit::deref_to_kit!(World);

impl World {
    /// A management cluster with CRDs, and nothing else.
    pub(crate) async fn start() -> Self {
        Self::start_with(InPlaceExtensions::none()).await
    }

    pub(crate) async fn start_with(in_place: InPlaceExtensions) -> Self {
        let options = Options::new().kinds(KINDS).starting_at(1_800_000_000).seed(7);
        let kit = windlass_testkit::World::new(options).await;
        let provider = kit.provider();
        let mut world = Self { kit, provider, running: None };
        world.run(in_place);
        world
    }

    fn run(&mut self, in_place: InPlaceExtensions) {
        let manager = self.manager(1);
        self.provider.register(&manager);
        let access = self.workloads_of(&self.provider);
        let nodes = WorkloadNodes::new(access.clone(), self.clock().clone());
        let externals = Externals::new();
        ClusterResourceSets::register(&manager, access.clone());
        KubeadmConfigs::register(&manager, externals.clone(), access.clone());
        Machines::register(&manager, Parts { externals, access, nodes, in_place });
        self.running = Some(manager.start());
    }

    /// As if the process had been killed and started again: nothing is left but the management cluster.
    pub(crate) async fn restart(&mut self) {
        drop(self.running.take());
        self.seconds(1).await;
        self.provider = self.kit.provider();
        self.kit.reconnect();
        self.run(InPlaceExtensions::none());
    }

    pub(crate) async fn annotate(&self, machine: &str, key: &str, value: Option<&str>) {
        self.patch::<Machine>(machine, json!({"metadata": {"annotations": {key: value}}})).await;
    }

    pub(crate) async fn delete(&self, machine: &str) {
        self.kit.delete::<Machine>(machine).await;
    }

    pub(crate) async fn cluster_status(&self, status: Value) {
        self.patch_status::<Cluster>("c1", status).await;
    }

    pub(crate) async fn machine(&self, name: &str) -> Option<Machine> {
        self.find(name).await
    }

    pub(crate) async fn dev_machine(&self, name: &str) -> Option<DevMachine> {
        self.find(name).await
    }

    pub(crate) fn workload(&self) -> WorkloadCluster {
        self.provider.workloads().get(&WorkloadClusters::host("default", "c1")).unwrap()
    }

    pub(crate) async fn node(&self, name: &str) -> Option<Node> {
        let nodes: Api<Node> = Api::all(self.workload().inside().clone());
        nodes.get_opt(name).await.unwrap()
    }

    pub(crate) async fn pod_on(&self, node: &str, name: &str, extra: Value) {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}});
        for (key, value) in extra.as_object().into_iter().flatten() {
            pod["metadata"][key] = value.clone();
        }
        let pods: Api<Pod> = Api::namespaced(self.workload().inside().clone(), "default");
        pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    }

    /// Lets time pass until a Machine is as it should be, for at most half an hour.
    pub(crate) async fn until(
        &self,
        name: &str,
        what: &str,
        is: impl Fn(Option<&Machine>) -> bool,
    ) -> Option<Machine> {
        for _ in 0..1800 {
            let machine = self.machine(name).await;
            if is(machine.as_ref()) {
                return machine;
            }
            self.seconds(1).await;
        }
        let machine = serde_json::to_string_pretty(&self.machine(name).await).unwrap();
        let failing = self.running.as_ref().map(|running| running.manager().failing());
        panic!("{name} is not {what} after half an hour: {machine}\nfailing: {failing:?}");
    }

    pub(crate) async fn until_ready(&self, name: &str) -> Machine {
        let is_ready = |machine: Option<&Machine>| {
            machine.is_some_and(|machine| condition::is_true(&machine.status.conditions, "Ready"))
        };
        self.until(name, "ready", is_ready).await.unwrap()
    }

    /// Lets time pass until a condition of a Machine has a reason.
    pub(crate) async fn until_reason(&self, name: &str, type_: &str, reason: &str) -> Machine {
        let has = |machine: Option<&Machine>| {
            let condition = machine.and_then(|machine| condition::find(&machine.status.conditions, type_));
            condition.is_some_and(|condition| condition.reason == reason)
        };
        self.until(name, &format!("{type_} {reason}"), has).await.unwrap()
    }

    pub(crate) async fn until_gone(&self, name: &str) {
        self.until(name, "gone", |machine| machine.is_none()).await;
    }

    /// A Cluster whose infrastructure is there, with a kubeconfig.
    pub(crate) async fn cluster(&self) {
        self.create_dynamic(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevCluster",
            "metadata": {"name": "c1", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"backend": {"inMemory": {}}}}),
        )
        .await;
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c1"});
        self.create_dynamic(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c1"}, "spec": {"infrastructureRef": reference,
                "controlPlaneEndpoint": {"host": WorkloadClusters::host("default", "c1"), "port": 6443}}}))
            .await;
        self.cluster_status(json!({"initialization": {"infrastructureProvisioned": true}})).await;
        self.kubeconfig(&format!("https://{}:6443", WorkloadClusters::host("default", "c1"))).await;
    }

    pub(crate) async fn kubeconfig(&self, server: &str) {
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        self.create::<Secret>(json!({"metadata": {"name": "c1-kubeconfig"},
            "stringData": {"value": text.to_string()}}))
            .await;
    }

    /// A Machine with its DevMachine and KubeadmConfig.
    pub(crate) async fn add_machine(&self, name: &str, spec: Value, labels: Value, knobs: Value) {
        let part =
            |duration: &str| json!({"provisioning": {"startupDuration": duration, "startupJitter": "0.2"}});
        let backend =
            json!({"vm": part("10s"), "node": part("2s"), "etcd": part("2s"), "apiServer": part("2s")});
        self.create_dynamic(
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine",
            "metadata": {"name": name, "annotations": knobs}, "spec": {"backend": {"inMemory": backend}}}),
        )
        .await;
        self.create_dynamic(
            json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
            "metadata": {"name": name}, "spec": {}}),
        )
        .await;
        let mut machine = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
            "metadata": {"name": name, "labels": labels},
            "spec": {"clusterName": "c1", "version": "v1.31.0",
                "bootstrap": {"configRef":
                    {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}},
                "infrastructureRef":
                    {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name}}});
        for (key, value) in spec.as_object().into_iter().flatten() {
            machine["spec"][key] = value.clone();
        }
        self.create_dynamic(machine).await;
    }

    pub(crate) async fn add_control_plane(&self, name: &str) {
        let labels = json!({"cluster.x-k8s.io/control-plane": "", "cluster.x-k8s.io/cluster-name": "c1"});
        self.add_machine(name, json!({}), labels, json!({})).await;
    }

    pub(crate) async fn add_worker(&self, name: &str) {
        self.add_machine(name, json!({}), json!({}), json!({})).await;
    }

    /// A Cluster with one control plane machine that is up.
    pub(crate) async fn with_control_plane(&self) {
        self.cluster().await;
        self.add_control_plane("cp1").await;
        self.until("cp1", "open", |_| self.is_open()).await;
        self.cluster_status(json!({"initialization": {"controlPlaneInitialized": true}})).await;
        self.until_ready("cp1").await;
    }

    pub(crate) fn is_open(&self) -> bool {
        let host = WorkloadClusters::host("default", "c1");
        self.provider.workloads().get(&host).is_some_and(|workload| workload.is_open())
    }
}

/// The message of a condition of a Machine.
pub(crate) fn message(machine: &Machine, type_: &str) -> String {
    condition::find(&machine.status.conditions, type_)
        .map(|condition| condition.message.clone())
        .unwrap_or_default()
}

pub(crate) fn phase(machine: &Machine) -> String {
    machine.status.phase.as_ref().map(ToString::to_string).unwrap_or_default()
}

pub(crate) fn kubelet(node: &Node) -> String {
    node.status
        .as_ref()
        .and_then(|status| status.node_info.as_ref())
        .map(|info| info.kubelet_version.clone())
        .unwrap()
}

pub(crate) fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

pub(crate) fn has_annotation(object: &impl ResourceExt, key: &str) -> bool {
    object.annotations().contains_key(key)
}
