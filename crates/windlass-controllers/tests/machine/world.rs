//! A management cluster, the in-memory provider and the Machine controller, in virtual time. What other controllers do
//! for a Cluster is done by hand.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::cluster::Machine;
use windlass_api::infrastructure::DevMachine;
use windlass_apiserver::{ApiServer, Options};
use windlass_controllers::external::{Externals, plural};
use windlass_controllers::machine::{Machines, NoUpdater, Parts, Updater};
use windlass_controllers::workload::{KubeconfigAccess, Resolved};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_dev::{Provider, Resolution, WorkloadCluster, WorkloadClusters};
use windlass_engine::condition;
use windlass_reconcile::{Clock, Manager, Running};
use windlass_store::{History, Store};

const START: i64 = 1_800_000_000;

pub(crate) struct World {
    server: ApiServer,
    clock: Clock,
    pub(crate) client: Client,
    pub(crate) provider: Provider,
    running: Option<Running>,
}

impl World {
    /// A management cluster with all definitions, and nothing else.
    pub(crate) async fn start() -> Self {
        Self::start_with(Arc::new(NoUpdater)).await
    }

    pub(crate) async fn start_with(updater: Arc<dyn Updater>) -> Self {
        let start = UNIX_EPOCH + Duration::from_secs(START as u64);
        let options = Options::new().clock(windlass_apiserver::Clock::starting_at(start)).seed(7);
        let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
        let client = Client::new(server.service(), "default");
        let definitions = Api::all(client.clone());
        for definition in
            windlass_api::crds::all().into_iter().filter(|definition| is_needed(&definition.spec.names.kind))
        {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let clock = Clock::starting_at(Timestamp::from_second(START).unwrap());
        let provider = Provider::new(windlass_apiserver::Clock::starting_at(start), 1);
        let mut world = Self { server, clock, client, provider, running: None };
        world.run(updater);
        world
    }

    fn run(&mut self, updater: Arc<dyn Updater>) {
        let options = windlass_reconcile::Options::new().clock(self.clock.clone()).seed(1);
        let manager = Manager::new(self.client.clone(), options);
        self.provider.register(&manager);
        let workloads = self.provider.workloads().clone();
        let access =
            KubeconfigAccess::new(self.client.clone()).resolving(Arc::new(
                move |server: &str| match workloads.resolve(server) {
                    Resolution::Elsewhere => Resolved::Elsewhere,
                    Resolution::Down => Resolved::Down,
                    Resolution::Client(client) => Resolved::Client(client),
                },
            ));
        let access = Arc::new(access);
        let nodes = WorkloadNodes::new(access.clone(), self.clock.clone());
        let parts = Parts { externals: Externals::new(), access, nodes, updater };
        Machines::register(&manager, parts);
        self.running = Some(manager.start());
    }

    /// As if the process had been killed and started again: nothing is left but the management cluster.
    pub(crate) async fn restart(&mut self) {
        drop(self.running.take());
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = UNIX_EPOCH + Duration::from_secs(self.clock.now().as_second() as u64);
        self.provider = Provider::new(windlass_apiserver::Clock::starting_at(now), 1);
        self.client = Client::new(self.server.service(), "default");
        self.run(Arc::new(NoUpdater));
    }

    pub(crate) async fn create(&self, object: Value) {
        let kind = object["kind"].as_str().unwrap().to_owned();
        let api = self.api(object["apiVersion"].as_str().unwrap(), &kind);
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &plural(kind));
        if kind == "CustomResourceDefinition" {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), "default", &resource)
    }

    pub(crate) async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), "default");
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn annotate(&self, machine: &str, key: &str, value: Option<&str>) {
        self.patch::<Machine>(machine, json!({"metadata": {"annotations": {key: value}}})).await;
    }

    pub(crate) async fn delete(&self, machine: &str) {
        let api: Api<Machine> = Api::namespaced(self.client.clone(), "default");
        api.delete(machine, &kube::api::DeleteParams::default()).await.unwrap();
    }

    pub(crate) async fn cluster_status(&self, status: Value) {
        let api = self.api("cluster.x-k8s.io/v1beta2", "Cluster");
        let patch = Patch::Merge(json!({"status": status}));
        api.patch_status("c1", &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn machine(&self, name: &str) -> Option<Machine> {
        let api: Api<Machine> = Api::namespaced(self.client.clone(), "default");
        api.get_opt(name).await.unwrap()
    }

    pub(crate) async fn dev_machine(&self, name: &str) -> Option<DevMachine> {
        let api: Api<DevMachine> = Api::namespaced(self.client.clone(), "default");
        api.get_opt(name).await.unwrap()
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

    pub(crate) async fn seconds(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
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
        self.create(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevCluster",
            "metadata": {"name": "c1", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"backend": {"inMemory": {}}}}))
            .await;
        let reference =
            json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c1"});
        self.create(json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c1"}, "spec": {"infrastructureRef": reference}}))
            .await;
        self.cluster_status(json!({"initialization": {"infrastructureProvisioned": true}})).await;
        self.kubeconfig(&format!("https://{}:6443", WorkloadClusters::host("default", "c1"))).await;
    }

    pub(crate) async fn kubeconfig(&self, server: &str) {
        let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": server}}], "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]});
        let secret: Secret = serde_json::from_value(json!({"apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": "c1-kubeconfig"}, "stringData": {"value": text.to_string()}}))
        .unwrap();
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), "default");
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }

    /// A Machine with its DevMachine and KubeadmConfig.
    pub(crate) async fn add_machine(&self, name: &str, spec: Value, labels: Value, knobs: Value) {
        let part =
            |duration: &str| json!({"provisioning": {"startupDuration": duration, "startupJitter": "0.2"}});
        let backend =
            json!({"vm": part("10s"), "node": part("2s"), "etcd": part("2s"), "apiServer": part("2s")});
        self.create(json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine",
            "metadata": {"name": name, "annotations": knobs}, "spec": {"backend": {"inMemory": backend}}}))
            .await;
        self.create(json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
            "metadata": {"name": name}, "spec": {}}))
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
        self.create(machine).await;
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

/// Kinds that somebody here watches. Each definition costs every test a little time.
fn is_needed(kind: &str) -> bool {
    let cluster = ["Cluster", "Machine", "MachineSet", "MachineDeployment", "MachinePool"];
    let provider = ["DevCluster", "DevMachine", "DevMachinePool", "KubeadmConfig"];
    cluster.contains(&kind) || provider.contains(&kind)
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
