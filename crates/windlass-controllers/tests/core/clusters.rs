use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, ClusterPhase, Machine, MachineDeployment, MachineSet};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevCluster;

use crate::world::{World, owners, said};

const HELD: &str = "test.io/held";

fn spec() -> Value {
    json!({
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevCluster", "name": "c1"},
        "controlPlaneRef": {
            "apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "c1",
        },
    })
}

fn machine_spec() -> Value {
    json!({
        "clusterName": "c1", "version": "v1.32.0", "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "x"},
    })
}

fn group_spec() -> Value {
    json!({"clusterName": "c1", "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": machine_spec()}})
}

async fn infrastructure(world: &World) {
    let spec =
        json!({"backend": {"inMemory": {}}, "controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443}});
    world.create_named::<DevCluster>("c1", json!({"finalizers": [HELD]}), spec).await;
    let status = json!({"initialization": {"provisioned": true}, "failureDomains": [{"name": "a", "controlPlane": true}]});
    world.patch_status::<DevCluster>("c1", status).await;
}

async fn control_plane(world: &World) {
    let template = json!({"spec": {"infrastructureRef": {"apiGroup": "i.x", "kind": "T", "name": "t"}}});
    let spec = json!({"version": "v1.33.0", "replicas": 3, "machineTemplate": template});
    world.create_named::<KubeadmControlPlane>("c1", json!({"finalizers": [HELD]}), spec).await;
    let status = json!({
        "initialization": {"controlPlaneInitialized": true}, "replicas": 3, "availableReplicas": 2,
        "versions": [{"version": "v1.32.0", "replicas": 2}, {"version": "v1.33.0", "replicas": 1}],
        "conditions": [{
            "type": "Available", "status": "True", "reason": "Available", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    });
    world.patch_status::<KubeadmControlPlane>("c1", status).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_comes_up_as_its_parts_do_in_whatever_order_they_are_created() {
    let world = World::start().await;
    world.create_named::<Cluster>("c1", json!({}), spec()).await;
    world.settle().await;
    let cluster: Cluster = world.get("c1").await;
    assert_eq!(cluster.status.phase, Some(ClusterPhase::Provisioning));
    let expected = ("False".to_owned(), "ObjectDoesNotExist".to_owned());
    assert_eq!(said(&cluster.status.conditions, "InfrastructureReady"), expected);

    infrastructure(&world).await;
    world.settle().await;
    let cluster: Cluster = world.get("c1").await;
    assert_eq!(cluster.spec.control_plane_endpoint.host, "10.0.0.1");
    assert_eq!(cluster.status.initialization.infrastructure_provisioned, Some(true));
    assert_eq!(cluster.status.phase, Some(ClusterPhase::Provisioned));
    assert_eq!(cluster.status.failure_domains.len(), 1);
    assert_eq!(owners(&world.get::<DevCluster>("c1").await), [("Cluster c1".to_owned(), true)]);
    assert_eq!(said(&cluster.status.conditions, "Available").0, "False");

    control_plane(&world).await;
    world.settle().await;
    let cluster: Cluster = world.get("c1").await;
    assert_eq!(cluster.status.initialization.control_plane_initialized, Some(true));
    let planes = cluster.status.control_plane.unwrap();
    assert_eq!((planes.desired_replicas, planes.available_replicas), (Some(3), Some(2)));
    assert_eq!(planes.versions[0].version, "v1.32.0");
    let plane: KubeadmControlPlane = world.get("c1").await;
    assert_eq!(owners(&plane), [("Cluster c1".to_owned(), true)]);
    assert_eq!(plane.metadata.labels.unwrap()["cluster.x-k8s.io/cluster-name"], "c1");
    assert_eq!(said(&cluster.status.conditions, "Available").0, "True");
    assert_eq!(world.failing(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_paused_cluster_says_so_and_does_nothing_else() {
    let world = World::start().await;
    let mut paused = spec();
    paused["paused"] = true.into();
    world.create_named::<Cluster>("c1", json!({}), paused).await;
    infrastructure(&world).await;
    world.settle().await;
    let cluster: Cluster = world.get("c1").await;
    assert_eq!(said(&cluster.status.conditions, "Paused"), ("True".to_owned(), "Paused".to_owned()));
    assert_eq!(cluster.status.phase, None);
    assert_eq!(owners(&world.get::<DevCluster>("c1").await), []);

    world.patch::<Cluster>("c1", json!({"spec": {"paused": null}})).await;
    world.settle().await;
    let cluster: Cluster = world.get("c1").await;
    assert_eq!(said(&cluster.status.conditions, "Paused"), ("False".to_owned(), "NotPaused".to_owned()));
    assert_eq!(cluster.status.phase, Some(ClusterPhase::Provisioned));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_goes_in_order_and_takes_nothing_foreign_with_it() {
    let world = World::start().await;
    let cluster: Cluster = world.create_named("c1", json!({}), spec()).await;
    infrastructure(&world).await;
    control_plane(&world).await;
    let owner = json!([{
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "name": "c1", "uid": cluster.metadata.uid,
    }]);
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c1"});
    let metadata = json!({"finalizers": [HELD], "labels": labels, "ownerReferences": owner});
    world.create_named::<MachineDeployment>("md", metadata, group_spec()).await;
    let foreign = json!({"labels": labels, "finalizers": [HELD]});
    world.create_named::<MachineSet>("foreign", foreign.clone(), group_spec()).await;
    world
        .create_named::<Machine>(
            "other",
            json!({"labels": {"cluster.x-k8s.io/cluster-name": "c2"}}),
            machine_spec(),
        )
        .await;
    world.settle().await;

    world.delete::<Cluster>("c1").await;
    world.settle().await;
    let going: Cluster = world.get("c1").await;
    assert_eq!(said(&going.status.conditions, "Deleting").1, "WaitingForWorkersDeletion");
    assert!(world.is_deleting::<MachineDeployment>("md").await);
    assert!(!world.is_deleting::<MachineSet>("foreign").await, "somebody else deletes it");
    assert!(!world.is_deleting::<KubeadmControlPlane>("c1").await);

    world.let_go::<MachineDeployment>("md").await;
    world.delete::<MachineSet>("foreign").await;
    world.let_go::<MachineSet>("foreign").await;
    world.settle().await;
    assert!(world.is_deleting::<KubeadmControlPlane>("c1").await);
    assert!(!world.is_deleting::<DevCluster>("c1").await);
    let going: Cluster = world.get("c1").await;
    assert_eq!(said(&going.status.conditions, "Deleting").1, "WaitingForControlPlaneDeletion");
    assert_eq!(going.status.phase, Some(ClusterPhase::Deleting));

    world.let_go::<KubeadmControlPlane>("c1").await;
    world.settle().await;
    assert!(world.is_deleting::<DevCluster>("c1").await);
    assert!(!world.is_gone::<Cluster>("c1").await);

    world.let_go::<DevCluster>("c1").await;
    world.settle().await;
    assert!(world.is_gone::<Cluster>("c1").await);
    assert!(!world.is_gone::<Machine>("other").await, "it belongs to another Cluster");
    assert_eq!(world.failing(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_managed_cluster_stays_until_the_hook_has_passed() {
    let world = World::start().await;
    let mut managed = spec();
    managed["topology"] = json!({"classRef": {"name": "k"}, "version": "v1.33.0"});
    world.create_named::<Cluster>("c1", json!({}), managed).await;
    infrastructure(&world).await;
    world.settle().await;
    world.delete::<Cluster>("c1").await;
    world.pass(60).await;
    let going: Cluster = world.get("c1").await;
    assert_eq!(said(&going.status.conditions, "Deleting").1, "WaitingForBeforeDeleteHook");
    assert!(!world.is_deleting::<DevCluster>("c1").await);

    let mark = json!({"metadata": {"annotations": {"runtime.cluster.x-k8s.io/ok-to-delete": ""}}});
    world.patch::<Cluster>("c1", mark).await;
    world.settle().await;
    assert!(world.is_deleting::<DevCluster>("c1").await);
    world.let_go::<DevCluster>("c1").await;
    world.settle().await;
    assert!(world.is_gone::<Cluster>("c1").await);
}
