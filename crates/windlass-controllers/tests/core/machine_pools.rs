use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Cluster, Machine, MachinePool, MachinePoolPhase};
use windlass_api::infrastructure::DevMachinePool;

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
