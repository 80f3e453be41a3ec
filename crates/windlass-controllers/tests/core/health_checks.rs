use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineHealthCheck};

use crate::world::{World, owners, said};

async fn initialized_cluster(world: &World) {
    world
        .create_named::<Cluster>("c1", json!({}), json!({"controlPlaneEndpoint": {"host": "h", "port": 1}}))
        .await;
    // Without a control plane object, the first control plane Machine that is a Node makes the Cluster initialized.
    let labels = json!({"cluster.x-k8s.io/cluster-name": "c1", "cluster.x-k8s.io/control-plane": ""});
    machine(world, "cp", labels, Some("cp")).await;
    world.node("cp", "v1.33.0", true).await;
    world.settle().await;
    let cluster: Cluster = world.get("c1").await;
    assert_eq!(cluster.status.initialization.control_plane_initialized, Some(true));
}

async fn machine(world: &World, name: &str, labels: Value, node: Option<&str>) {
    let spec = json!({
        "clusterName": "c1", "version": "v1.33.0", "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "x"},
    });
    world.create_named::<Machine>(name, json!({"labels": labels}), spec).await;
    if let Some(node) = node {
        world.patch_status::<Machine>(name, json!({"nodeRef": {"name": node}})).await;
    }
}

fn worker() -> Value {
    json!({"cluster.x-k8s.io/cluster-name": "c1", "pool": "a"})
}

async fn check(world: &World, remediation: Value) {
    let spec = json!({
        "clusterName": "c1", "selector": {"matchLabels": {"pool": "a"}}, "remediation": remediation,
        "checks": {
            "nodeStartupTimeoutSeconds": 600,
            "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 300}],
        },
    });
    world.create_named::<MachineHealthCheck>("check", json!({}), spec).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_whose_node_is_ill_is_marked_when_its_time_is_over_and_unmarked_when_it_recovers() {
    let world = World::start().await;
    initialized_cluster(&world).await;
    for name in ["m1", "m2"] {
        machine(&world, name, worker(), Some(name)).await;
        world.node(name, "v1.33.0", true).await;
    }
    check(&world, json!({})).await;
    world.settle().await;
    let health: MachineHealthCheck = world.get("check").await;
    assert_eq!((health.status.expected_machines, health.status.current_healthy), (Some(2), Some(2)));
    assert_eq!(owners(&health), [("Cluster c1".to_owned(), false)]);
    assert_eq!(said(&world.get::<Machine>("m1").await.status.conditions, "HealthCheckSucceeded").0, "True");

    world.node("m1", "v1.33.0", false).await;
    world.pass(200).await;
    assert_eq!(said(&world.get::<Machine>("m1").await.status.conditions, "HealthCheckSucceeded").0, "True");
    world.pass(120).await;
    let ill: Machine = world.get("m1").await;
    let expected = |reason: &str| ("False".to_owned(), reason.to_owned());
    assert_eq!(said(&ill.status.conditions, "HealthCheckSucceeded"), expected("UnhealthyNode"));
    assert_eq!(said(&ill.status.conditions, "OwnerRemediated"), expected("WaitingForRemediation"));
    let health: MachineHealthCheck = world.get("check").await;
    assert_eq!((health.status.current_healthy, health.status.remediations_allowed), (Some(1), Some(1)));
    assert_eq!(said(&world.get::<Machine>("m2").await.status.conditions, "OwnerRemediated").0, "");

    world.node("m1", "v1.33.0", true).await;
    world.settle().await;
    let well: Machine = world.get("m1").await;
    assert_eq!(said(&well.status.conditions, "HealthCheckSucceeded").0, "True");
    assert_eq!(said(&well.status.conditions, "OwnerRemediated").0, "");
    assert_eq!(world.failing(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_becomes_a_node_is_marked_unless_it_is_to_be_left_alone() {
    let world = World::start().await;
    initialized_cluster(&world).await;
    machine(&world, "slow", worker(), None).await;
    machine(&world, "spared", worker(), None).await;
    let skip = json!({"metadata": {"annotations": {"cluster.x-k8s.io/skip-remediation": ""}}});
    world.patch::<Machine>("spared", skip).await;
    check(&world, json!({})).await;
    world.pass(620).await;
    let slow: Machine = world.get("slow").await;
    assert_eq!(said(&slow.status.conditions, "HealthCheckSucceeded").1, "NodeStartupTimeout");
    assert_eq!(world.get::<Machine>("spared").await.status.conditions, []);
    assert_eq!(world.get::<MachineHealthCheck>("check").await.status.targets, ["slow"]);
}

#[tokio::test(start_paused = true)]
async fn when_too_many_are_ill_nothing_is_remediated() {
    let world = World::start().await;
    initialized_cluster(&world).await;
    for name in ["m1", "m2", "m3"] {
        machine(&world, name, worker(), Some(name)).await;
        world.node(name, "v1.33.0", name == "m3").await;
    }
    check(&world, json!({"triggerIf": {"unhealthyLessThanOrEqualTo": "40%"}})).await;
    world.pass(400).await;
    let health: MachineHealthCheck = world.get("check").await;
    let expected = ("False".to_owned(), "TooManyUnhealthy".to_owned());
    assert_eq!(said(&health.status.conditions, "RemediationAllowed"), expected);
    let ill: Machine = world.get("m1").await;
    assert_eq!(said(&ill.status.conditions, "HealthCheckSucceeded").0, "False");
    assert_eq!(said(&ill.status.conditions, "OwnerRemediated").0, "");

    world.node("m2", "v1.33.0", true).await;
    world.settle().await;
    let ill: Machine = world.get("m1").await;
    assert_eq!(said(&ill.status.conditions, "OwnerRemediated").1, "WaitingForRemediation");
}
