//! A management API, a workload API, and a stand-in for everything between a Machine and its Node.
//!
//! The stand-in brings a Machine up ten seconds after its parts are there, and lets it go when its hooks are off. It is
//! not under test; its decisions are as few as possible.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Secret};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::{DevMachine, DevMachineTemplate};
use windlass_api::names::KCP_CLEANUP_ANNOTATION;
use windlass_apiserver::ApiServer;
use windlass_controllers::control_plane::ControlPlaneReconciler;
use windlass_controllers::external::Externals;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_controllers::workload::{NoAnswer, WorkloadAccess};
use windlass_reconcile::{
    Cache, Clock, Context, Faults, Manager, ObjectKey, Options, Outcome, Reconciler, Running, WriteError,
};
use windlass_store::{History, Store};

pub(crate) const NAMESPACE: &str = "default";
const FINALIZER: &str = "test.io/stand-in";
const ETCD: &str = "etcd.inmemory.infrastructure.cluster.x-k8s.io";
const PODS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];

/// The kinds that take part; each one costs every test a little time.
const KINDS: [&str; 7] = [
    "Cluster",
    "DevMachine",
    "DevMachineTemplate",
    "KubeadmConfig",
    "KubeadmControlPlane",
    "Machine",
    "MachinePool",
];

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) workload: Client,
    pub(crate) faults: Faults,
    clock: Clock,
    manager: Mutex<Option<Manager>>,
    _servers: (ApiServer, ApiServer),
}

impl World {
    pub(crate) async fn new() -> Self {
        let start = Timestamp::from_second(1_767_225_600).unwrap();
        let server = async |seed: u64| {
            let clock = windlass_apiserver::Clock::starting_at(start.into());
            let options = windlass_apiserver::Options::new().seed(seed).clock(clock);
            ApiServer::start(Store::in_memory(History::default()), options).await.unwrap()
        };
        let servers = (server(1).await, server(2).await);
        let client = Client::new(servers.0.service(), NAMESPACE);
        let workload = Client::new(servers.1.service(), NAMESPACE);
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in windlass_api::crds::all() {
            if !KINDS.contains(&definition.spec.names.kind.as_str()) {
                continue;
            }
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        Self {
            client,
            workload,
            faults: Faults::new(),
            clock: Clock::starting_at(start),
            manager: Mutex::default(),
            _servers: servers,
        }
    }

    /// Starts the controllers, as a process would.
    pub(crate) fn start(&self) -> Running {
        let options = Options::new().clock(self.clock.clone()).seed(7).faults(self.faults.clone());
        let manager = Manager::new(self.client.clone(), options);
        let access = Arc::new(Access(self.workload.clone()));
        ControlPlaneReconciler::register(&manager, Externals::new(), access, InPlaceExtensions::none());
        let machines: Cache<Machine> = manager.cache();
        let stand_in = StandIn {
            machines: machines.clone(),
            configs: manager.cache(),
            infrastructure: manager.cache(),
            workload: self.workload.clone(),
        };
        manager.controller("stand-in", &machines).register(stand_in);
        *self.manager.lock().unwrap() = Some(manager.clone());
        manager.start()
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// A Cluster whose infrastructure is there, and a control plane that it owns.
    pub(crate) async fn create(&self, spec: Value) {
        self.create_cluster().await;
        self.create_template("t1").await;
        self.create_control_plane(spec).await;
    }

    pub(crate) async fn create_cluster(&self) {
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c1", "namespace": NAMESPACE},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
                "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane",
                    "name": "cp"}},
        });
        let clusters = self.api::<Cluster>();
        clusters.create(&PostParams::default(), &serde_json::from_value(cluster).unwrap()).await.unwrap();
        let status = json!({"status": {"initialization": {"infrastructureProvisioned": true},
            "failureDomains": [{"name": "a", "controlPlane": true}, {"name": "b", "controlPlane": true},
                {"name": "c", "controlPlane": true}]}});
        clusters.patch_status("c1", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    pub(crate) async fn create_template(&self, name: &str) {
        let template = json!({
            "apiVersion": DevMachineTemplate::API_VERSION, "kind": DevMachineTemplate::KIND,
            "metadata": {"name": name, "namespace": NAMESPACE},
            "spec": {"template": {"spec": {"backend": {"inMemory": {}}}}},
        });
        let templates = self.api::<DevMachineTemplate>();
        templates.create(&PostParams::default(), &serde_json::from_value(template).unwrap()).await.unwrap();
    }

    pub(crate) async fn create_control_plane(&self, spec: Value) {
        let mut control_plane = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp", "namespace": NAMESPACE,
                "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"replicas": 3, "version": "v1.32.0", "machineTemplate": {"spec": {"infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t1"}}}},
        });
        for (key, value) in spec.as_object().unwrap() {
            control_plane["spec"][key] = value.clone();
        }
        let api = self.api::<KubeadmControlPlane>();
        api.create(&PostParams::default(), &serde_json::from_value(control_plane).unwrap()).await.unwrap();
    }

    pub(crate) async fn patch(&self, patch: Value) {
        let api = self.api::<KubeadmControlPlane>();
        api.patch("cp", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn control_plane(&self) -> KubeadmControlPlane {
        self.api::<KubeadmControlPlane>().get("cp").await.unwrap()
    }

    pub(crate) async fn machines(&self) -> Vec<Machine> {
        self.list().await
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.machines().await.iter().map(|machine| machine.name_any()).collect()
    }

    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn secret(&self, name: &str) -> Option<Secret> {
        self.api::<Secret>().get_opt(name).await.unwrap()
    }

    /// The message of a condition of the control plane, after its status and reason.
    pub(crate) async fn condition(&self, type_: &str) -> String {
        let control_plane = self.control_plane().await;
        let condition = control_plane.status.conditions.iter().find(|condition| condition.type_ == type_);
        let text = condition.map(|found| format!("{} {} {}", found.status, found.reason, found.message));
        text.unwrap_or_default().trim_end().to_owned()
    }

    pub(crate) async fn set_machine_conditions(&self, name: &str, conditions: &[(&str, &str)]) {
        let mut all = self.api::<Machine>().get(name).await.unwrap().status.conditions;
        for (type_, status) in conditions {
            all.retain(|condition| condition.type_ != *type_);
            all.push(
                serde_json::from_value(
                    json!({"type": type_, "status": status, "reason": "Test", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}),
                )
                .unwrap(),
            );
        }
        let patch = json!({"status": {"conditions": all}});
        self.api::<Machine>()
            .patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// Makes the pod of a component ready or not.
    pub(crate) async fn set_pod_ready(&self, pod: &str, ready: bool) {
        let pods: Api<Pod> = Api::namespaced(self.workload.clone(), "kube-system");
        let status = if ready { "True" } else { "False" };
        let patch =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}});
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Lets time pass until this many Machines are there, all up to date and healthy, and nothing goes on; at most an
    /// hour.
    pub(crate) async fn settled(&self, replicas: usize) {
        for _ in 0..360 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let status = self.control_plane().await.status;
            let all = Some(i32::try_from(replicas).unwrap());
            let counted = [status.replicas, status.up_to_date_replicas, status.ready_replicas];
            let machines = self.machines().await;
            let deleting = machines.iter().any(|machine| machine.meta().deletion_timestamp.is_some());
            if counted == [all; 3] && machines.len() == replicas && !deleting {
                return;
            }
        }
        self.give_up("it does not settle").await;
    }

    /// Lets time pass until a check holds; at most an hour.
    pub(crate) async fn until(&self, what: &str, mut check: impl AsyncFnMut() -> bool) {
        for _ in 0..720 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if check().await {
                return;
            }
        }
        self.give_up(what).await;
    }

    /// Says what is known, for whoever wonders why a test fails.
    async fn give_up(&self, what: &str) {
        let status = serde_json::to_string_pretty(&self.control_plane().await.status).unwrap();
        let failing = self.manager.lock().unwrap().as_ref().map(Manager::failing);
        unreachable!("{what}: {status}\n{failing:#?}\n{:#?}", self.names().await);
    }

    /// The most Machines and the fewest that were there together, from the journal of writes.
    pub(crate) fn most_and_fewest(&self, before: usize) -> (usize, usize) {
        let (mut present, mut most, mut fewest) = (before, before, before);
        let mut known = std::collections::BTreeSet::new();
        for write in self.faults.journal() {
            if write.kind.kind != "Machine" {
                continue;
            }
            let by = write.by.as_ref().map(|(controller, _)| controller.as_str()).unwrap_or_default();
            match (by, write.verb.to_string().as_str()) {
                ("kubeadmcontrolplane", "apply") if known.insert(write.key.clone()) => present += 1,
                ("kubeadmcontrolplane", "delete") => present -= 1,
                _ => {}
            }
            most = most.max(present);
            fewest = fewest.min(present);
        }
        (most, fewest)
    }
}

struct Access(Client);

impl WorkloadAccess for Access {
    fn client<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Client, NoAnswer>> {
        Box::pin(async { Ok(self.0.clone()) })
    }
}

/// Machine controller and providers in one.
struct StandIn {
    machines: Cache<Machine>,
    configs: Cache<KubeadmConfig>,
    infrastructure: Cache<DevMachine>,
    workload: Client,
}

impl Reconciler for StandIn {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        let Some(machine) = self.machines.get(key) else { return Ok(Outcome::done()) };
        let writer = context.writer::<Machine>();
        if machine.meta().deletion_timestamp.is_some() {
            return self.delete(&machine, context).await;
        }
        if machine.finalizers().is_empty() {
            writer.patch(&machine, json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
            return Ok(Outcome::done());
        }
        if self.configs.get(key).is_none() || self.infrastructure.get(key).is_none() {
            return Ok(Outcome::after(Duration::from_secs(1)));
        }
        let age = context.now().duration_since(machine.creation_timestamp().unwrap().0);
        if age.as_secs() < 10 {
            return Ok(Outcome::after(Duration::from_secs(1)));
        }
        if machine.status.node_ref.is_none() {
            self.bring_up(&machine).await;
            let status = json!({"status": {
                "nodeRef": {"name": key.name},
                "nodeInfo": {"kubeletVersion": machine.spec.version, "machineID": "", "systemUUID": "", "bootID": "",
                    "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "",
                    "operatingSystem": "", "architecture": ""},
                "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
            }});
            writer.patch_status(&machine, status).await?;
            return Ok(Outcome::done());
        }
        self.summarise(&machine, context).await
    }
}

impl StandIn {
    async fn bring_up(&self, machine: &Machine) {
        let name = machine.name_any();
        let post = PostParams::default();
        let nodes: Api<Node> = Api::all(self.workload.clone());
        let node = json!({"metadata": {"name": name}, "spec": {}});
        if nodes.create(&post, &serde_json::from_value(node).unwrap()).await.is_err() {
            // It was there before a crash.
            return;
        }
        let pods: Api<Pod> = Api::namespaced(self.workload.clone(), "kube-system");
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.workload.clone());
        let system = json!({"metadata": {"name": "kube-system"}});
        let _ = namespaces.create(&post, &serde_json::from_value(system).unwrap()).await;
        for component in PODS {
            let pod = json!({
                "metadata": {"name": format!("{component}-{name}"),
                    "labels": {"component": component, "tier": "control-plane"},
                    "annotations": {format!("{ETCD}/member-id"): "1"}},
                "spec": {"nodeName": name, "containers": [{"name": component, "image": "i"}]},
            });
            pods.create(&post, &serde_json::from_value(pod).unwrap()).await.unwrap();
            let ready =
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            let pod = format!("{component}-{name}");
            pods.patch_status(&pod, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
        }
        let maps: Api<ConfigMap> = Api::namespaced(self.workload.clone(), "kube-system");
        let configuration = format!("kubernetesVersion: {}\nclusterName: c1\n", machine.spec.version);
        let map =
            json!({"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": configuration}});
        let _ = maps.create(&post, &serde_json::from_value(map).unwrap()).await;
        let sets: Api<DaemonSet> = Api::namespaced(self.workload.clone(), "kube-system");
        let image = format!("registry.k8s.io/kube-proxy:{}", machine.spec.version);
        let proxy = json!({"metadata": {"name": "kube-proxy"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "kube-proxy", "image": image}]}}}});
        let _ = sets.create(&post, &serde_json::from_value(proxy).unwrap()).await;
    }

    /// `Ready` if all gates are.
    async fn summarise(&self, machine: &Machine, context: &Context) -> Result<Outcome, WriteError> {
        let conditions = &machine.status.conditions;
        let holds = |type_: &str| conditions.iter().any(|c| c.type_ == type_ && c.status == "True");
        let ready = machine.spec.readiness_gates.iter().all(|gate| holds(&gate.condition_type));
        if ready != holds("Ready") {
            let mut all: Vec<_> = conditions
                .iter()
                .filter(|condition| condition.type_ != "Ready" && condition.type_ != "Available")
                .cloned()
                .collect();
            for type_ in ["Ready", "Available"] {
                let status = if ready { "True" } else { "False" };
                let condition = json!({"type": type_, "status": status, "reason": "StandIn", "message": "",
                    "lastTransitionTime": context.now().to_string()});
                all.push(serde_json::from_value(condition).unwrap());
            }
            let writer = context.writer::<Machine>();
            writer.patch_status(machine, json!({"status": {"conditions": all}})).await?;
        }
        Ok(Outcome::done())
    }

    async fn delete(&self, machine: &Machine, context: &Context) -> Result<Outcome, WriteError> {
        let writer = context.writer::<Machine>();
        if machine.annotations().contains_key(KCP_CLEANUP_ANNOTATION) {
            let waits =
                |c: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| c.type_ == "Deleting";
            if machine.status.conditions.iter().find(waits).is_none() {
                let mut all = machine.status.conditions.clone();
                let condition = json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
                    "message": "", "lastTransitionTime": context.now().to_string()});
                all.push(serde_json::from_value(condition).unwrap());
                writer.patch_status(machine, json!({"status": {"conditions": all}})).await?;
            }
            return Ok(Outcome::done());
        }
        let name = machine.name_any();
        let (delete, key) = (DeleteParams::default(), ObjectKey::of(machine));
        let nodes: Api<Node> = Api::all(self.workload.clone());
        let _ = nodes.delete(&name, &delete).await;
        let pods: Api<Pod> = Api::namespaced(self.workload.clone(), "kube-system");
        for component in PODS {
            let _ = pods.delete(&format!("{component}-{name}"), &delete.clone().grace_period(0)).await;
        }
        if let Some(config) = self.configs.get(&key) {
            context.writer::<KubeadmConfig>().delete(&config).await?;
        }
        if let Some(infrastructure) = self.infrastructure.get(&key) {
            context.writer::<DevMachine>().delete(&infrastructure).await?;
        }
        if !machine.finalizers().is_empty() {
            writer.patch(machine, json!({"metadata": {"finalizers": []}})).await?;
        }
        Ok(Outcome::done())
    }
}

/// Labels of an object as JSON, for comparison.
pub(crate) fn labels<K: Resource>(object: &K) -> BTreeMap<String, String> {
    object.meta().labels.clone().unwrap_or_default()
}
