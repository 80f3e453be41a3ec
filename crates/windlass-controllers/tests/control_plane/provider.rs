//! With the real Machine controller and the in-memory provider. What the controller of Clusters does is done by hand.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine, StatusVersion};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::{DevCluster, DevMachineTemplate};
use windlass_apiserver::ApiServer;
use windlass_controllers::control_plane::ControlPlaneReconciler;
use windlass_controllers::external::Externals;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_controllers::machine::{Machines, NoUpdater, Parts};
use windlass_controllers::workload::{KubeconfigAccess, Resolved};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_dev::{Provider, Resolution, WorkloadClusters};
use windlass_reconcile::{Clock, Manager, Options, Running};
use windlass_store::{History, Store};

struct Whole {
    client: Client,
    running: Running,
    _server: ApiServer,
}

impl Whole {
    async fn start() -> Self {
        let start = Timestamp::from_second(1_800_000_000).unwrap();
        let clock = windlass_apiserver::Clock::starting_at(start.into());
        let options = windlass_apiserver::Options::new().seed(7).clock(clock.clone());
        let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
        let client = Client::new(server.service(), "default");
        for definition in windlass_api::crds::all() {
            Api::all(client.clone()).create(&PostParams::default(), &definition).await.unwrap();
        }
        let provider = Provider::new(clock, 1);
        let clock = Clock::starting_at(start);
        let manager = Manager::new(client.clone(), Options::new().clock(clock.clone()).seed(1));
        provider.register(&manager);
        let workloads = provider.workloads().clone();
        let access = KubeconfigAccess::new(client.clone()).resolving(Arc::new(move |server: &str| {
            match workloads.resolve(server) {
                Resolution::Elsewhere => Resolved::Elsewhere,
                Resolution::Down => Resolved::Down,
                Resolution::Client(client) => Resolved::Client(client),
            }
        }));
        let access = Arc::new(access);
        let nodes = WorkloadNodes::new(access.clone(), clock);
        let externals = Externals::new();
        ControlPlaneReconciler::register(
            &manager,
            externals.clone(),
            access.clone(),
            InPlaceExtensions::none(),
        );
        Machines::register(&manager, Parts { externals, access, nodes, updater: Arc::new(NoUpdater) });
        Self { client, running: manager.start(), _server: server }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create(&self, version: &str) {
        let post = PostParams::default();
        let dev_cluster = json!({"metadata": {"name": "c1", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"backend": {"inMemory": {}}}});
        self.api::<DevCluster>().create(&post, &serde_json::from_value(dev_cluster).unwrap()).await.unwrap();
        let cluster = json!({"metadata": {"name": "c1"}, "spec": {
            "controlPlaneEndpoint": {"host": WorkloadClusters::host("default", "c1"), "port": 6443},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c1"},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane",
                "name": "cp"}}});
        self.api::<Cluster>().create(&post, &serde_json::from_value(cluster).unwrap()).await.unwrap();
        self.cluster_status("infrastructureProvisioned").await;
        let part = json!({"provisioning": {"startupDuration": "5s", "startupJitter": "0.2"}});
        let backend = json!({"inMemory": {"vm": part, "node": part, "etcd": part, "apiServer": part}});
        let template =
            json!({"metadata": {"name": "t1"}, "spec": {"template": {"spec": {"backend": backend}}}});
        let template = serde_json::from_value(template).unwrap();
        self.api::<DevMachineTemplate>().create(&post, &template).await.unwrap();
        let infrastructure = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t1"});
        let control_plane = json!({
            "metadata": {"name": "cp", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"replicas": 3, "version": version,
                "machineTemplate": {"spec": {"infrastructureRef": infrastructure}}}});
        let control_plane = serde_json::from_value(control_plane).unwrap();
        self.api::<KubeadmControlPlane>().create(&post, &control_plane).await.unwrap();
    }

    async fn cluster_status(&self, field: &str) {
        let patch = Patch::Merge(json!({"status": {"initialization": {field: true}}}));
        self.api::<Cluster>().patch_status("c1", &PatchParams::default(), &patch).await.unwrap();
    }

    async fn control_plane(&self) -> KubeadmControlPlane {
        self.api::<KubeadmControlPlane>().get("cp").await.unwrap()
    }

    /// Lets time pass until all Machines are ready, available and of a version.
    async fn settled(&self, version: &str) {
        for _ in 0..200 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let status = self.control_plane().await.status;
            if status.initialization.control_plane_initialized == Some(true) {
                self.cluster_status("controlPlaneInitialized").await;
            }
            let all = [StatusVersion { version: version.to_owned(), replicas: Some(3) }];
            let counted = [status.ready_replicas, status.available_replicas, status.up_to_date_replicas];
            if status.versions == all && counted == [Some(3); 3] {
                return;
            }
        }
        let status = serde_json::to_string_pretty(&self.control_plane().await.status).unwrap();
        let failing = self.running.manager().failing();
        let machines = self.api::<Machine>().list(&Default::default()).await.unwrap().items;
        let machines: Vec<_> = machines.iter().map(|machine| &machine.status).collect();
        unreachable!("{status}\n{failing:#?}\n{}", serde_json::to_string_pretty(&machines).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_comes_up_and_is_upgraded_and_goes() {
    let whole = Whole::start().await;
    whole.create("v1.32.0").await;
    whole.settled("v1.32.0").await;
    let patch = Patch::Merge(json!({"spec": {"version": "v1.33.0"}}));
    whole.api::<KubeadmControlPlane>().patch("cp", &PatchParams::default(), &patch).await.unwrap();
    whole.settled("v1.33.0").await;
    let machines = whole.api::<Machine>().list(&Default::default()).await.unwrap().items;
    assert!(machines.iter().all(|machine| machine.spec.version == "v1.33.0"));
    assert_eq!(machines.len(), 3, "{:?}", machines.iter().map(|m| m.name_any()).collect::<Vec<_>>());

    whole.api::<KubeadmControlPlane>().delete("cp", &Default::default()).await.unwrap();
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        if whole.api::<KubeadmControlPlane>().get_opt("cp").await.unwrap().is_none() {
            let left = whole.api::<Machine>().list(&Default::default()).await.unwrap().items;
            assert!(left.is_empty());
            return;
        }
    }
    let status = serde_json::to_string_pretty(&whole.control_plane().await.status).unwrap();
    unreachable!("{status}\n{:#?}", whole.running.manager().failing());
}
