//! With the real Machine controller, kubeadm bootstrap and the in-memory provider. What the controller of Clusters does is done by hand.

use std::ops::Deref;
use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine, StatusVersion};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::{DevCluster, DevMachineTemplate};
use windlass_controllers::bootstrap::KubeadmConfigs;
use windlass_controllers::control_plane::ControlPlaneReconciler;
use windlass_controllers::external::Externals;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_controllers::machine::{Machines, Parts};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_inmemory::WorkloadClusters;
use windlass_runtime::Running;
use windlass_testkit::{Options, World};

struct Whole {
    kit: World,
    running: Running,
}

impl Deref for Whole {
    type Target = World;

    fn deref(&self) -> &World {
        &self.kit
    }
}

impl Whole {
    async fn start() -> Self {
        let kit = World::new(Options::new().starting_at(1_800_000_000).seed(7)).await;
        let provider = kit.provider();
        let manager = kit.manager(1);
        provider.register(&manager);
        let access = kit.workloads_of(&provider);
        let nodes = WorkloadNodes::new(access.clone(), kit.clock().clone());
        let (externals, in_place) = (Externals::new(), InPlaceExtensions::none());
        ControlPlaneReconciler::register(&manager, externals.clone(), access.clone(), in_place.clone());
        KubeadmConfigs::register(&manager, externals.clone(), access.clone());
        Machines::register(&manager, Parts { externals, access, nodes, in_place });
        Self { kit, running: manager.start() }
    }

    async fn create(&self, version: &str) {
        let dev_cluster = json!({"metadata": {"name": "c1", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"backend": {"inMemory": {}}}});
        self.kit.create::<DevCluster>(dev_cluster).await;
        let cluster = json!({"metadata": {"name": "c1"}, "spec": {
            "controlPlaneEndpoint": {"host": WorkloadClusters::host("default", "c1"), "port": 6443},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c1"},
            "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane",
                "name": "cp"}}});
        self.kit.create::<Cluster>(cluster).await;
        self.cluster_status("infrastructureProvisioned").await;
        let part = json!({"provisioning": {"startupDuration": "5s", "startupJitter": "0.2"}});
        let backend = json!({"inMemory": {"vm": part, "node": part, "etcd": part, "apiServer": part}});
        let template =
            json!({"metadata": {"name": "t1"}, "spec": {"template": {"spec": {"backend": backend}}}});
        self.kit.create::<DevMachineTemplate>(template).await;
        let infrastructure = json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t1"});
        let control_plane = json!({
            "metadata": {"name": "cp", "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"replicas": 3, "version": version,
                "machineTemplate": {"spec": {"infrastructureRef": infrastructure}}}});
        self.kit.create::<KubeadmControlPlane>(control_plane).await;
    }

    async fn cluster_status(&self, field: &str) {
        self.patch_status::<Cluster>("c1", json!({"initialization": {field: true}})).await;
    }

    async fn control_plane(&self) -> KubeadmControlPlane {
        self.get("cp").await
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
        let machines = self.list::<Machine>().await;
        let machines: Vec<_> = machines.iter().map(|machine| &machine.status).collect();
        unreachable!("{status}\n{failing:#?}\n{}", serde_json::to_string_pretty(&machines).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_comes_up_and_is_upgraded_and_goes() {
    let whole = Whole::start().await;
    whole.create("v1.32.0").await;
    whole.settled("v1.32.0").await;
    whole.patch::<KubeadmControlPlane>("cp", json!({"spec": {"version": "v1.33.0"}})).await;
    whole.settled("v1.33.0").await;
    let machines = whole.list::<Machine>().await;
    assert!(machines.iter().all(|machine| machine.spec.version == "v1.33.0"));
    assert_eq!(machines.len(), 3, "{:?}", machines.iter().map(|m| m.name_any()).collect::<Vec<_>>());

    whole.delete::<KubeadmControlPlane>("cp").await;
    for _ in 0..100 {
        tokio::time::sleep(Duration::from_secs(10)).await;
        if whole.find::<KubeadmControlPlane>("cp").await.is_none() {
            assert!(whole.list::<Machine>().await.is_empty());
            return;
        }
    }
    let status = serde_json::to_string_pretty(&whole.control_plane().await.status).unwrap();
    unreachable!("{status}\n{:#?}", whole.running.manager().failing());
}
