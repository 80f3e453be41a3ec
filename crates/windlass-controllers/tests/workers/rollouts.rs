//! Rollouts: by replacement, by deletion, not at all.

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet};

use crate::world::{World, said, settle};

async fn with(strategy: serde_json::Value) -> World {
    let world = World::new().await;
    world.deploy(json!({"spec": {"rollout": {"strategy": strategy}}})).await;
    world
}

async fn upgrade(world: &World, version: &str) {
    world
        .patch::<MachineDeployment>("md", json!({"spec": {"template": {"spec": {"version": version}}}}))
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_rolling_update_replaces_all_machines_within_its_limits() {
    for (limits, most, least) in [
        (json!({"maxSurge": 1, "maxUnavailable": 0}), 4, 3),
        (json!({"maxSurge": 0, "maxUnavailable": 1}), 3, 2),
        (json!({"maxSurge": "100%", "maxUnavailable": "100%"}), 6, 0),
    ] {
        let world = with(json!({"type": "RollingUpdate", "rollingUpdate": limits})).await;
        let running = world.start(1);
        settle(&running).await;
        let before = world.list::<MachineSet>().await.remove(0).name_any();
        world.watch_availability();
        upgrade(&world, "v1.32.0").await;
        settle(&running).await;
        assert_eq!(world.versions().await, ["v1.32.0"; 3]);
        let (names, seen_most, seen_least) =
            world.seen(|seen| (seen.names.len(), seen.most, seen.least_available.unwrap()));
        assert_eq!(names, 6, "each was replaced once");
        assert!(
            seen_most <= most && seen_least >= least,
            "{limits}: {seen_most} machines, {seen_least} available"
        );
        // The old MachineSet is gone.
        let sets: Vec<MachineSet> = world.list().await;
        assert_eq!(sets.len(), 1);
        assert_ne!(sets[0].name_any(), before);
        assert_eq!(sets[0].annotations()["machinedeployment.clusters.x-k8s.io/revision"], "2");
        let md = world.md().await;
        assert_eq!(md.annotations()["machinedeployment.clusters.x-k8s.io/revision"], "2");
        assert_eq!(said(&md.status.conditions, "RollingOut").1, "NotRollingOut");
        assert_eq!(md.status.versions.len(), 1);
        assert!(!world.events("SuccessfulScale").await.is_empty());
        assert_eq!(
            world.events("SuccessfulDelete").await.iter().filter(|m| m.contains("MachineSet")).count(),
            1
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rollout_says_how_far_it_is() {
    let world = with(json!({"type": "RollingUpdate"})).await;
    let running = world.start(1);
    settle(&running).await;
    upgrade(&world, "v1.32.0").await;
    // The first new machine has not come up yet.
    tokio::time::sleep(std::time::Duration::from_secs(30)).await;
    running.manager().idle().await;
    let md = world.md().await;
    let (status, reason, message) = said(&md.status.conditions, "RollingOut");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "RollingOut"));
    assert_eq!(message, "Rolling out 3 not up-to-date replicas\n* Version v1.31.0, v1.32.0 required");
    assert_eq!(md.status.versions.len(), 2);
    assert_eq!(said(&md.status.conditions, "Available").0, "True");
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.32.0"; 3]);
}

#[tokio::test(start_paused = true)]
async fn going_back_reuses_the_machine_set_that_is_still_there() {
    let world = with(json!({"type": "RollingUpdate"})).await;
    let running = world.start(1);
    settle(&running).await;
    upgrade(&world, "v1.32.0").await;
    tokio::time::sleep(std::time::Duration::from_secs(90)).await;
    assert_eq!(world.list::<MachineSet>().await.len(), 2);
    upgrade(&world, "v1.31.0").await;
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.31.0"; 3]);
    let sets: Vec<MachineSet> = world.list().await;
    assert_eq!(sets.len(), 1);
    assert_eq!(sets[0].annotations()["machinedeployment.clusters.x-k8s.io/revision"], "3");
    assert_eq!(sets[0].annotations()["machinedeployment.clusters.x-k8s.io/revision-history"], "1");
}

#[tokio::test(start_paused = true)]
async fn on_delete_waits_for_the_user() {
    let world = with(json!({"type": "OnDelete"})).await;
    let running = world.start(1);
    settle(&running).await;
    upgrade(&world, "v1.32.0").await;
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.31.0"; 3]);
    let victim = world.list::<Machine>().await.remove(0).name_any();
    world.delete::<Machine>(&victim).await;
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.31.0", "v1.31.0", "v1.32.0"]);
    for machine in world.list::<Machine>().await {
        if machine.spec.version == "v1.31.0" {
            world.delete::<Machine>(&machine.name_any()).await;
        }
    }
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.32.0"; 3]);
    assert_eq!(world.seen(|seen| seen.names.len()), 6);
    assert_eq!(world.list::<MachineSet>().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn external_without_extensions_stops_and_says_why() {
    let world = with(json!({"type": "External"})).await;
    let running = world.start(1);
    settle(&running).await;
    let before: Vec<String> = world.list::<Machine>().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(before.len(), 3, "the first machines need no update");
    upgrade(&world, "v1.32.0").await;
    settle(&running).await;
    let after: Vec<String> = world.list::<Machine>().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(after, before);
    let (status, reason, message) = said(&world.md().await.status.conditions, "RollingOut");
    assert_eq!((status.as_str(), reason.as_str()), ("True", "RolloutBlocked"));
    assert!(message.contains("Rollout is blocked, strategy External has no fallbackRolling"), "{message}");
    assert!(message.contains("no extension updates Machines in place"), "{message}");
    // With a fallback it goes on.
    let strategy = json!({"type": "External", "fallbackRolling": {"maxSurge": 1, "maxUnavailable": 0}});
    world.patch::<MachineDeployment>("md", json!({"spec": {"rollout": {"strategy": strategy}}})).await;
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.32.0"; 3]);
    assert_eq!(said(&world.md().await.status.conditions, "RollingOut").1, "NotRollingOut");
}

#[tokio::test(start_paused = true)]
async fn a_paused_rollout_scales_and_does_not_roll() {
    let world = with(json!({"type": "RollingUpdate"})).await;
    let running = world.start(1);
    settle(&running).await;
    world.patch::<MachineDeployment>("md", json!({"spec": {"paused": true}})).await;
    upgrade(&world, "v1.32.0").await;
    world.patch::<MachineDeployment>("md", json!({"spec": {"replicas": 5}})).await;
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.31.0"; 5]);
    assert_eq!(world.list::<MachineSet>().await.len(), 1);
    world.patch::<MachineDeployment>("md", json!({"spec": {"paused": false}})).await;
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.32.0"; 5]);
}

#[tokio::test(start_paused = true)]
async fn rollout_after_replaces_machines_once() {
    let world = with(json!({"type": "RollingUpdate"})).await;
    let running = world.start(1);
    settle(&running).await;
    let hour = std::time::Duration::from_secs(3600);
    let after = world.md().await.metadata.creation_timestamp.unwrap().0 + hour;
    world.patch::<MachineDeployment>("md", json!({"spec": {"rollout": {"after": after.to_string()}}})).await;
    tokio::time::sleep(hour / 2).await;
    assert_eq!(world.seen(|seen| seen.names.len()), 3, "not before its time");
    // Nothing but time passes.
    tokio::time::sleep(hour).await;
    settle(&running).await;
    assert_eq!(world.versions().await, ["v1.31.0"; 3]);
    assert_eq!(world.seen(|seen| seen.names.len()), 6);
    assert_eq!(world.list::<MachineSet>().await.len(), 1);
}
