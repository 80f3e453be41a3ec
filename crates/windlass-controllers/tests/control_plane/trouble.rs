//! Unhealthy Machines, and crashes at every write.

use std::time::Duration;

use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::Machine;
use windlass_api::infrastructure::DevMachine;
use windlass_runtime::WriteFault;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn an_unhealthy_machine_is_replaced_by_one_that_remembers_it() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let victim = world.names().await.remove(1);
    world.set_pod_ready(&format!("etcd-{victim}"), false).await;
    let unhealthy = [("HealthCheckSucceeded", "False"), ("OwnerRemediated", "False")];
    world.set_machine_conditions(&victim, &unhealthy).await;
    world.until("it goes", async || !world.names().await.contains(&victim)).await;
    world.settled(3).await;
    let machines = world.machines().await;
    let record = machines
        .iter()
        .find_map(|machine| machine.annotations().get("controlplane.cluster.x-k8s.io/remediation-for"))
        .unwrap();
    assert!(record.contains(&victim), "{record}");
    let control_plane = world.control_plane().await;
    assert_eq!(control_plane.status.last_remediation.unwrap().machine, victim);
    assert_eq!(world.condition("Remediating").await, "False NotRemediating");
    let annotations = control_plane.metadata.annotations.unwrap_or_default();
    assert!(!annotations.contains_key("controlplane.cluster.x-k8s.io/remediation-in-progress"));
}

#[tokio::test(start_paused = true)]
async fn a_broken_component_holds_a_rollout_and_says_so() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let broken = world.names().await.remove(0);
    world.set_pod_ready(&format!("kube-scheduler-{broken}"), false).await;
    world
        .until("it is noticed", async || {
            world.condition("ControlPlaneComponentsHealthy").await.starts_with("False NotHealthy")
        })
        .await;
    let before = world.names().await;
    world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.names().await, before);
    let message = world.condition("RollingOut").await;
    assert!(message.contains(&format!("kube-scheduler of Machine {broken} is not healthy")), "{message}");
    world.set_pod_ready(&format!("kube-scheduler-{broken}"), true).await;
    world.until("it goes on", async || world.names().await != before).await;
    world.settled(3).await;
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_a_user_deletes_is_replaced() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let gone = world.names().await.remove(2);
    world.api::<Machine>().delete(&gone, &DeleteParams::default()).await.unwrap();
    world.until("it goes", async || !world.names().await.contains(&gone)).await;
    world.settled(3).await;
}

/// Everything that there is, without names and versions.
async fn counts(world: &World) -> (usize, usize, usize) {
    let configs: Vec<KubeadmConfig> = world.list().await;
    let infrastructure: Vec<DevMachine> = world.list().await;
    (world.names().await.len(), configs.len(), infrastructure.len())
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_an_upgrade_is_healed() {
    // How many writes there are without a crash.
    let upgrade = async |fault: Option<(u64, WriteFault)>| {
        let world = World::new().await;
        let mut running = world.start();
        world.create(json!({"replicas": 1})).await;
        world.settled(1).await;
        let before = world.faults.writes();
        if let Some((number, fault)) = fault {
            world.faults.on_write(before + number, fault);
        }
        world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
        if matches!(fault, Some((_, WriteFault::CrashBefore | WriteFault::CrashAfter))) {
            running.ended().await;
            running = world.start();
        }
        let old = "v1.32.0";
        let done = async || world.machines().await.iter().all(|machine| machine.spec.version != old);
        world.until("all are new", done).await;
        world.settled(1).await;
        assert_eq!(counts(&world).await, (1, 1, 1), "nothing is left behind after {fault:?}");
        drop(running);
        world.faults.writes() - before
    };
    let writes = upgrade(None).await;
    assert!(writes > 10, "{writes}");
    // Six crashes at different writes: before them or after them, in turn.
    for index in 1..=6 {
        let fault = if index % 2 == 0 { WriteFault::CrashBefore } else { WriteFault::CrashAfter };
        upgrade(Some((writes * index / 7, fault))).await;
    }
}
