use kube::ResourceExt;
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Cluster, Machine, MachinePool, MachinePoolPhase};
use windlass_api::infrastructure::{DevMachine, DevMachinePool};

use crate::world::{World, owners, said};

#[tokio::test(start_paused = true)]
async fn a_pool_comes_up_by_contract_is_counted_by_its_nodes_and_goes_in_order() {
    let world = World::start().await;
    world
        .create_named::<Cluster>("c1", json!({}), json!({"controlPlaneEndpoint": {"host": "h", "port": 1}}))
        .await;
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/control-plane": ""});
    let machine = json!({
        "clusterName": "c1", "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "x"},
    });
    world.create_named::<Machine>("cp", json!({"labels": labels}), machine).await;
    world.patch_status::<Machine>("cp", json!({"nodeRef": {"name": "cp"}})).await;
    let spec = json!({"clusterName": "c1", "replicas": 2, "template": {"spec": {
        "clusterName": "c1", "version": "v1.33.0",
        "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "p"}},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachinePool", "name": "p"},
    }}});
    world.create_named::<MachinePool>("p", json!({}), spec).await;
    world.settle().await;
    let pool: MachinePool = world.get("p").await;
    assert_eq!(pool.status.phase, Some(MachinePoolPhase::Pending));
    assert_eq!(owners(&pool), [("Cluster c1".to_owned(), false)]);

    let held = json!({"finalizers": ["test.io/held"]});
    world.create_named::<KubeadmConfig>("p", held.clone(), json!({})).await;
    world
        .patch_status::<KubeadmConfig>(
            "p",
            json!({"initialization": {"dataSecretCreated": true}, "dataSecretName": "d"}),
        )
        .await;
    let infrastructure =
        json!({"providerIDList": ["id://a", "id://b"], "template": {"backend": {"inMemory": {}}}});
    world.create_named::<DevMachinePool>("p", held, infrastructure).await;
    world
        .patch_status::<DevMachinePool>("p", json!({"initialization": {"provisioned": true}, "replicas": 2}))
        .await;
    world.node("a", "v1.33.0", true).await;
    world.node("b", "v1.32.0", false).await;
    world.settle().await;
    let pool: MachinePool = world.get("p").await;
    assert_eq!(pool.spec.provider_id_list, ["id://a", "id://b"]);
    assert_eq!(pool.spec.template.spec.bootstrap.data_secret_name.as_deref(), Some("d"));
    assert_eq!((pool.status.replicas, pool.status.ready_replicas), (Some(2), Some(1)));
    assert_eq!(pool.status.up_to_date_replicas, Some(1));
    assert_eq!(pool.status.phase, Some(MachinePoolPhase::ScalingUp));
    assert_eq!(owners(&world.get::<DevMachinePool>("p").await), [("MachinePool p".to_owned(), true)]);

    world.node("b", "v1.33.0", true).await;
    world.settle().await;
    let pool: MachinePool = world.get("p").await;
    assert_eq!(pool.status.phase, Some(MachinePoolPhase::Running));
    assert_eq!(said(&pool.status.conditions, "Available").0, "True");
    let workers = world.get::<Cluster>("c1").await.status.workers.unwrap();
    assert_eq!((workers.desired_replicas, workers.available_replicas), (Some(2), Some(2)));
    assert_eq!(workers.versions[0].version, "v1.33.0");

    world.delete::<MachinePool>("p").await;
    world.settle().await;
    assert!(world.is_deleting::<DevMachinePool>("p").await);
    assert!(!world.is_deleting::<KubeadmConfig>("p").await);
    world.let_go::<DevMachinePool>("p").await;
    world.settle().await;
    assert!(world.is_deleting::<KubeadmConfig>("p").await);
    assert!(!world.is_gone::<MachinePool>("p").await);
    world.let_go::<KubeadmConfig>("p").await;
    world.settle().await;
    assert!(world.is_gone::<MachinePool>("p").await);
    assert_eq!(world.failing(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_written_to_a_paused_pool_but_that_it_is_paused() {
    let world = World::start().await;
    world
        .create_named::<Cluster>("c1", json!({}), json!({"controlPlaneEndpoint": {"host": "h", "port": 1}}))
        .await;
    let spec = json!({"clusterName": "c1", "replicas": 2, "template": {"spec": {
        "clusterName": "c1", "version": "v1.33.0", "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachinePool", "name": "p"},
    }}});
    let paused = json!({"annotations": {"cluster.x-k8s.io/paused": ""}});
    world.create_named::<MachinePool>("p", paused, spec).await;
    world.settle().await;
    let pool: MachinePool = world.get("p").await;
    assert_eq!((owners(&pool), pool.metadata.finalizers), (Vec::new(), None));
    let told: Vec<_> =
        pool.status.conditions.iter().map(|condition| (&*condition.type_, &*condition.message)).collect();
    assert_eq!(told, [("Paused", "MachinePool has the cluster.x-k8s.io/paused annotation")]);

    world.patch::<MachinePool>("p", json!({"metadata": {"annotations": null}})).await;
    world.settle().await;
    let pool: MachinePool = world.get("p").await;
    assert_eq!(owners(&pool), [("Cluster c1".to_owned(), false)]);
    assert_eq!(said(&pool.status.conditions, "Paused"), ("False".to_owned(), "NotPaused".to_owned()));
}

/// A pool whose provider keeps an object for each instance, as Cluster API's own providers do.
#[tokio::test(start_paused = true)]
async fn instances_of_a_pool_are_shown_as_machines_and_nodes_go_with_them() {
    let world = World::start().await;
    world
        .create_named::<Cluster>("c1", json!({}), json!({"controlPlaneEndpoint": {"host": "h", "port": 1}}))
        .await;
    world.patch_status::<Cluster>("c1", json!({"initialization": {"controlPlaneInitialized": true}})).await;
    let spec = json!({"clusterName": "c1", "replicas": 2, "template": {
        "metadata": {"labels": {"team": "blue"}},
        "spec": {"clusterName": "c1", "version": "v1.33.0", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachinePool", "name": "p"}},
    }});
    world.create_named::<MachinePool>("p", json!({}), spec).await;
    let backend = json!({"backend": {"inMemory": {}}});
    let instances = json!({"providerIDList": ["id://a", "id://b"], "template": backend});
    world.create_named::<DevMachinePool>("p", json!({}), instances).await;
    let told = json!({"initialization": {"provisioned": true}, "replicas": 2,
        "infrastructureMachineKind": "DevMachine"});
    world.patch_status::<DevMachinePool>("p", told).await;
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/pool-name": "p"});
    for name in ["a", "b"] {
        let spec = json!({"providerID": format!("id://{name}"), "backend": {"inMemory": {}}});
        world.create_named::<DevMachine>(name, json!({"labels": labels.clone()}), spec).await;
        world.node(name, "v1.33.0", true).await;
    }
    // One that is of no pool.
    world.create_named::<DevMachine>("other", json!({}), json!({"backend": {"inMemory": {}}})).await;
    world.taint_node("a", "node.cluster.x-k8s.io/uninitialized").await;
    world.settle().await;
    assert_eq!(world.failing(), [""; 0]);

    let machines = world.list::<Machine>().await;
    let shown: Vec<_> = machines
        .iter()
        .map(|machine| {
            let spec = &machine.spec;
            (spec.infrastructure_ref.name.as_str(), spec.version.as_str(), owners(machine))
        })
        .collect();
    let owner = vec![("MachinePool p".to_owned(), true)];
    assert_eq!(shown, [("a", "v1.33.0", owner.clone()), ("b", "v1.33.0", owner)]);
    assert!(machines.iter().all(|machine| machine.labels()["team"] == "blue"));
    let node = world.workload_node("a").await.unwrap();
    assert_eq!(node.annotations()["cluster.x-k8s.io/owner-name"], "p");
    assert!(node.spec.unwrap().taints.unwrap_or_default().is_empty(), "pods may come");
    // The Cluster counts the pool, and no instance once more.
    let workers = world.get::<Cluster>("c1").await.status.workers.unwrap();
    assert_eq!(workers.replicas, Some(2));

    // A Machine that was taken away by mistake comes back as long as its instance is there.
    world.delete::<Machine>("b").await;
    world.settle().await;
    assert_eq!(world.list::<Machine>().await.len(), 2);

    // The provider gives an instance up: it takes its object and its identity away, and the Node goes.
    world.delete::<DevMachine>("b").await;
    world.delete::<Machine>("b").await;
    world.patch::<DevMachinePool>("p", json!({"spec": {"providerIDList": ["id://a"]}})).await;
    world.patch_status::<DevMachinePool>("p", json!({"replicas": 1})).await;
    world.settle().await;
    assert!(world.workload_node("b").await.is_none());
    assert!(world.workload_node("a").await.is_some());
    assert_eq!(world.list::<Machine>().await.len(), 1);
    assert_eq!(world.failing(), [""; 0]);
}
