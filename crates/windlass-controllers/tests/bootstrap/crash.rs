//! The process dies before or after any write, and what comes of it is the same.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::json;
use windlass_runtime::WriteFault;

use crate::world::World;

/// A cluster that is initialized by cp1 and joined by w1, with a fault at a write. How many writes there were.
async fn bootstrap(fault: Option<(u64, WriteFault)>) -> u64 {
    let world = World::new().await;
    if let Some((number, fault)) = fault {
        world.faults.on_write(number, fault);
    }
    let mut running = world.start();
    world.machine("cp1", true, json!({})).await;
    world.seconds(60).await;
    running = restarted(&world, running).await;
    world.seconds(60).await;
    world.initialized().await;
    world.machine("w1", false, json!({})).await;
    world.seconds(60).await;
    let running = restarted(&world, running).await;
    world.seconds(60).await;
    for name in ["cp1", "w1"] {
        assert_eq!(world.condition(name, "Ready").await, "True Ready", "{name} after {fault:?}");
        assert!(world.data(name).await.is_some());
    }
    let (token, tokens) = (world.token("w1").await, world.tokens().await);
    assert!(tokens.contains_key(&token), "{token} is none of {tokens:?} after {fault:?}");
    assert!(world.data("w1").await.unwrap().contains(&token), "after {fault:?}");
    assert!(tokens.len() <= 2, "one token was in vain at most: {tokens:?} after {fault:?}");
    assert!(world.find::<ConfigMap>("c1-lock").await.is_none(), "after {fault:?}");
    let secrets: Vec<String> = world.list::<Secret>().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(secrets, ["c1-ca", "c1-etcd", "c1-proxy", "c1-sa", "cp1", "w1"], "after {fault:?}");
    drop(running);
    world.faults.writes()
}

/// The controllers, which are started again if they were killed.
async fn restarted(world: &World, running: windlass_runtime::Running) -> windlass_runtime::Running {
    drop(running);
    world.seconds(1).await;
    world.start()
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_init_and_join_is_healed() {
    let writes = bootstrap(None).await;
    assert!(writes >= 7, "lock, two Secrets, three statuses and a discovery: {writes}");
    for number in 1..=writes {
        for fault in [WriteFault::CrashBefore, WriteFault::CrashAfter] {
            bootstrap(Some((number, fault))).await;
        }
    }
}
