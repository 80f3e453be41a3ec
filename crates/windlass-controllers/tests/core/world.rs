//! A management API and a workload API, both in memory. Providers are played by the tests.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_apiserver::ApiServer;
use windlass_controllers::cluster::Clusters;
use windlass_controllers::external::Externals;
use windlass_controllers::health_check::HealthChecks;
use windlass_controllers::machine_pool::MachinePools;
use windlass_controllers::workload::{NoAnswer, WorkloadAccess};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_reconcile::{Clock, Manager, ObjectKey, Options, Running};
use windlass_store::{History, Store};

const NAMESPACE: &str = "default";

/// The kinds that take part; each one costs every test a little time.
const KINDS: [&str; 10] = [
    "Cluster",
    "DevCluster",
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
    client: Client,
    workload: Client,
    running: Running,
    _servers: (ApiServer, ApiServer),
}

/// A kind that tests work with.
pub(crate) trait Custom:
    Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + Debug
{
}

impl<K> Custom for K where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
{
}

impl World {
    pub(crate) async fn start() -> Self {
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
            if KINDS.contains(&definition.spec.names.kind.as_str()) {
                definitions.create(&PostParams::default(), &definition).await.unwrap();
            }
        }
        let clock = Clock::starting_at(start);
        let manager = Manager::new(client.clone(), Options::new().clock(clock.clone()).seed(7));
        let nodes = WorkloadNodes::new(Arc::new(Access(workload.clone())), clock);
        let externals = Externals::new();
        Clusters::register(&manager, externals.clone(), true);
        HealthChecks::register(&manager, nodes.clone());
        MachinePools::register(&manager, externals, nodes);
        let running = manager.start();
        Self { client, workload, running, _servers: servers }
    }

    pub(crate) fn api<K: Custom>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Creates an object from metadata and spec.
    pub(crate) async fn create<K: Custom>(&self, name: &str, metadata: Value, spec: Value) -> K {
        let mut object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec,
        });
        object["metadata"]["name"] = name.into();
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    pub(crate) async fn get<K: Custom>(&self, name: &str) -> K {
        self.api::<K>().get(name).await.unwrap()
    }

    pub(crate) async fn is_gone<K: Custom>(&self, name: &str) -> bool {
        self.api::<K>().get_opt(name).await.unwrap().is_none()
    }

    pub(crate) async fn is_deleting<K: Custom>(&self, name: &str) -> bool {
        self.get::<K>(name).await.meta().deletion_timestamp.is_some()
    }

    pub(crate) async fn patch<K: Custom>(&self, name: &str, patch: Value) {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// What a provider says in the status of its object.
    pub(crate) async fn report<K: Custom>(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub(crate) async fn delete<K: Custom>(&self, name: &str) {
        self.api::<K>().delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Lets the last finalizer of an object go, as its own controller would.
    pub(crate) async fn let_go<K: Custom>(&self, name: &str) {
        self.patch::<K>(name, json!({"metadata": {"finalizers": null}})).await;
    }

    /// A Node of the workload cluster, ready or not.
    pub(crate) async fn node(&self, name: &str, version: &str, ready: bool) {
        let nodes: Api<Node> = Api::all(self.workload.clone());
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
        tokio::time::sleep(Duration::from_secs(seconds)).await;
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

struct Access(Client);

impl WorkloadAccess for Access {
    fn client<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Client, NoAnswer>> {
        let client = self.0.clone();
        Box::pin(async move { Ok(client) })
    }
}
