//! A pool of instances, from nothing over an upgrade to nothing, in virtual time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, MachinePool};
use windlass_api::infrastructure::{DevCluster, DevMachinePool};
use windlass_apiserver::{ApiServer, Options};
use windlass_inmemory::{Provider, WorkloadClusters, knobs};
use windlass_runtime::{Clock, Manager, Running};
use windlass_store::{History, Store};

const START: u64 = 1_800_000_000;

struct World {
    client: Client,
    provider: Provider,
    _running: Running,
}

impl World {
    async fn start() -> Self {
        let clock = Clock::starting_at(Timestamp::from_second(START as i64).unwrap());
        let options = Options::new().clock(clock.clone()).seed(1);
        let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
        let client = Client::new(server.service(), "default");
        let crds = Api::all(client.clone());
        for crd in windlass_api::crds::all() {
            crds.create(&PostParams::default(), &crd).await.unwrap();
        }
        let provider = Provider::new(clock.clone(), 1);
        let manager = Manager::new(client.clone(), windlass_runtime::Options::new().clock(clock).seed(1));
        provider.register(&manager);
        Self { client, provider, _running: manager.start() }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create<K>(&self, object: Value) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::Serialize
            + serde::de::DeserializeOwned,
    {
        let object: K = serde_json::from_value(object).unwrap();
        self.api::<K>().create(&PostParams::default(), &object).await.unwrap()
    }

    /// A Cluster that is up, and a pool of three in it.
    async fn pool(&self) {
        self.create::<DevCluster>(json!({"metadata": {"name": "c1", "labels": label()},
            "spec": {"backend": {"inMemory": {}}}}))
            .await;
        self.create::<Cluster>(json!({"metadata": {"name": "c1"}, "spec": {"infrastructureRef":
            {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c1"}}}))
            .await;
        let up = json!({"status": {"initialization":
            {"infrastructureProvisioned": true, "controlPlaneInitialized": true}}});
        self.api::<Cluster>().patch_status("c1", &PatchParams::default(), &Patch::Merge(up)).await.unwrap();
        let pool: MachinePool = self
            .create(json!({"metadata": {"name": "p1"}, "spec": {"clusterName": "c1", "replicas": 3,
                "template": {"spec": {"clusterName": "c1", "version": "v1.31.0",
                    "bootstrap": {"dataSecretName": "s1"},
                    "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                        "kind": "DevMachinePool", "name": "p1"}}}}}))
            .await;
        let part = json!({"provisioning": {"startupDuration": "10s"}});
        self.create::<DevMachinePool>(json!({
            "metadata": {"name": "p1", "labels": label(), "ownerReferences": [
                {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachinePool", "name": "p1", "uid": pool.uid()}]},
            "spec": {"template": {"backend": {"inMemory": {"vm": part, "node": part}}}},
        }))
        .await;
    }

    /// Names and kubelet versions of all Nodes.
    async fn nodes(&self) -> BTreeMap<String, String> {
        let host = WorkloadClusters::host("default", "c1");
        let Some(workload) = self.provider.workloads().get(&host) else { return BTreeMap::new() };
        let nodes: Api<Node> = Api::all(workload.inside().clone());
        let nodes = nodes.list(&ListParams::default()).await.unwrap();
        let version = |node: &Node| node.status.clone().unwrap().node_info.unwrap().kubelet_version;
        nodes.iter().map(|node| (node.name_any(), version(node))).collect()
    }

    async fn until(&self, what: &str, is: impl Fn(&DevMachinePool, &BTreeMap<String, String>) -> bool) {
        for _ in 0..600 {
            let (pool, nodes) = (self.api::<DevMachinePool>().get("p1").await.unwrap(), self.nodes().await);
            if is(&pool, &nodes) {
                return;
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
        let pool =
            serde_json::to_string_pretty(&self.api::<DevMachinePool>().get("p1").await.unwrap()).unwrap();
        panic!("not {what} after ten minutes: {pool}");
    }

    async fn patch<K>(&self, name: &str, patch: Value)
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + serde::de::DeserializeOwned,
    {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }
}

fn label() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": "c1"})
}

#[tokio::test(start_paused = true)]
async fn a_pool_comes_up_is_upgraded_without_losing_more_than_one_and_goes() {
    let world = World::start().await;
    world.pool().await;
    world
        .until("up", |pool, nodes| {
            pool.status.initialization.provisioned == Some(true)
                && pool.spec.provider_id_list.len() == 3
                && nodes.len() == 3
        })
        .await;

    let version = json!({"spec": {"template": {"spec": {"version": "v1.32.0"}}}});
    world.patch::<MachinePool>("p1", version).await;
    let fewest = std::cell::Cell::new(3);
    world
        .until("upgraded", |pool, nodes| {
            fewest.set(fewest.get().min(nodes.len()));
            nodes.len() == 3
                && nodes.values().all(|version| version == "v1.32.0")
                && pool.status.instances.iter().all(|instance| instance.ready == Some(true))
        })
        .await;
    assert_eq!(fewest.get(), 2, "one at a time");

    world.patch::<MachinePool>("p1", json!({"spec": {"replicas": 1}})).await;
    world.until("smaller", |pool, nodes| nodes.len() == 1 && pool.status.replicas == Some(1)).await;
    world.api::<DevMachinePool>().delete("p1", &DeleteParams::default()).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(world.api::<DevMachinePool>().get_opt("p1").await.unwrap().is_none());
    assert!(world.nodes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_upgrade_to_a_version_without_an_image_stops_after_one_instance() {
    let world = World::start().await;
    world.pool().await;
    world.until("up", |_, nodes| nodes.len() == 3).await;
    let missing = json!({"metadata": {"annotations": {knobs::MISSING_IMAGES_ANNOTATION: "v1.32.0"}}});
    world.patch::<DevCluster>("c1", missing).await;
    world.patch::<MachinePool>("p1", json!({"spec": {"template": {"spec": {"version": "v1.32.0"}}}})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    let nodes = world.nodes().await;
    assert_eq!(nodes.len(), 2, "two are left as they were: {nodes:?}");
    assert!(nodes.values().all(|version| version == "v1.31.0"));
    let pool = world.api::<DevMachinePool>().get("p1").await.unwrap();
    assert_eq!(pool.status.conditions[0].reason, "ImageNotFound");
}
