//! What the control plane does with the members of its etcd, by etcd's own protocol.

use std::time::Duration;

use kube::Resource;
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_etcd::AlarmKind;

use crate::world::World;

async fn members(world: &World) -> Vec<String> {
    let mut names: Vec<String> = world.etcd().members().into_iter().map(|member| member.name).collect();
    names.sort();
    names
}

/// Status, reason and message of what a Machine says about its member.
async fn member_condition(world: &World, machine: &str) -> String {
    let machine: Machine = world.get(machine).await;
    let found = machine.status.conditions.iter().find(|condition| condition.type_ == "EtcdMemberHealthy");
    let text = found.map(|found| format!("{} {} {}", found.status, found.reason, found.message));
    text.unwrap_or_default().trim_end().to_owned()
}

#[tokio::test(start_paused = true)]
async fn members_come_and_go_with_their_machines() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let before = world.names().await;
    assert_eq!(members(&world).await, before);
    assert_eq!(member_condition(&world, &before[0]).await, "True Healthy");
    world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
    let replaced = async || world.names().await.iter().all(|name| !before.contains(name));
    world.until("all are new", replaced).await;
    world.settled(3).await;
    assert_eq!(members(&world).await, world.names().await, "nothing of the old ones is left in etcd");
    assert!(world.etcd().leader().is_some_and(|leader| !before.contains(&leader)));
}

#[tokio::test(start_paused = true)]
async fn the_leadership_is_handed_over_before_a_machine_is_deleted() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let leader = world.etcd().leader().unwrap();
    world.patch(json!({"spec": {"replicas": 1}})).await;
    let is_deleted = async || match world.find::<Machine>(&leader).await {
        Some(machine) => machine.meta().deletion_timestamp.is_some(),
        None => true,
    };
    for _ in 0..600 {
        if is_deleted().await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(is_deleted().await, "the oldest goes first, and the first member leads");
    assert_ne!(world.etcd().leader().unwrap(), leader, "it led when it was deleted");
    world.settled(1).await;
    assert_eq!(members(&world).await, world.names().await);
}

#[tokio::test(start_paused = true)]
async fn a_member_without_a_machine_is_removed() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    world.etcd().join("ghost").unwrap();
    world.etcd().stop("ghost");
    let gone = async || members(&world).await == world.names().await;
    world.until("the member is removed", gone).await;
    world
        .until("all is well again", async || world.condition("EtcdClusterHealthy").await == "True Healthy")
        .await;
}

#[tokio::test(start_paused = true)]
async fn an_alarm_holds_a_rollout_and_says_so() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let full = world.names().await.remove(1);
    world.etcd().raise(&full, AlarmKind::NoSpace);
    let says = format!("False NotHealthy etcd member {full} has alarms: NOSPACE");
    world.until("it is noticed", async || member_condition(&world, &full).await == says).await;
    let before = world.names().await;
    world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.names().await, before);
    world.etcd().disarm(&full, AlarmKind::NoSpace);
    world.until("it goes on", async || world.names().await != before).await;
    world.settled(3).await;
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_known_of_etcd_is_unknown_and_nothing_is_done() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let before = world.names().await;
    for name in &before[..2] {
        world.etcd().stop(name);
    }
    let is_unknown =
        async || member_condition(&world, &before[2]).await.starts_with("Unknown InspectionFailed");
    world.until("it is unknown", is_unknown).await;
    world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
    world
        .set_machine_conditions(
            &before[0],
            &[("HealthCheckSucceeded", "False"), ("OwnerRemediated", "False")],
        )
        .await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(world.names().await, before, "without a majority no machine is replaced");
    for name in &before[..2] {
        world.etcd().join(name).unwrap();
    }
    world.until("it goes on", async || world.names().await != before).await;
}
