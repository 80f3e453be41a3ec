//! Old caches, failed writes and killed processes: never a machine twice, never one forgotten.

use std::time::Duration;

use kube::api::ListParams;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet};
use windlass_runtime::{Ended, WriteFault};

use crate::world::{World, settle};

#[tokio::test(start_paused = true)]
async fn old_caches_make_no_machine_twice() {
    for seed in 1..=2 {
        let world = World::new().await;
        world.faults.delay_watches(Duration::from_millis(1)..=Duration::from_secs(20), seed);
        world.deploy(json!({})).await;
        let running = world.start(seed);
        settle(&running).await;
        world
            .patch::<MachineDeployment>("md", json!({"spec": {"template": {"spec": {"version": "v1.32.0"}}}}))
            .await;
        settle(&running).await;
        assert_eq!(world.versions().await, ["v1.32.0"; 3], "seed {seed}");
        let (names, most) = world.seen(|seen| (seen.names.len(), seen.most));
        assert_eq!((names, most), (6, 4), "seed {seed}");
        assert_eq!(world.list::<MachineSet>().await.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn killed_at_any_write_the_rollout_ends_the_same() {
    // As many writes as it takes to bring up two machines; every other one is hit, in one way or another.
    let faults = [WriteFault::CrashBefore, WriteFault::CrashAfter, WriteFault::FailAfter];
    for (number, fault) in (2..=14).step_by(2).zip(faults.into_iter().cycle()) {
        let world = World::new().await;
        world.deploy(json!({"spec": {"replicas": 2}})).await;
        world.faults.on_write(number, fault);
        let mut running = world.start(1);
        let manager = running.manager().clone();
        let crashed = tokio::select! {
            biased;
            ended = running.ended() => ended == Ended::Crashed,
            () = async { while manager.idle().await.until.is_some() {
                tokio::time::sleep(Duration::from_secs(30)).await;
            } } => false,
        };
        assert!(!crashed || fault != WriteFault::FailAfter);
        if crashed {
            drop(running);
            running = world.start(2);
        }
        settle(&running).await;
        assert_eq!(world.list::<Machine>().await.len(), 2, "{fault:?} at {number}");
        world
            .patch::<MachineDeployment>("md", json!({"spec": {"template": {"spec": {"version": "v1.32.0"}}}}))
            .await;
        settle(&running).await;
        assert_eq!(world.versions().await, ["v1.32.0"; 2], "{fault:?} at {number}");
        let (names, most) = world.seen(|seen| (seen.names.len(), seen.most));
        assert_eq!((names, most), (4, 3), "{fault:?} at {number}");
        // Nothing is left of a machine that was half made.
        for (group, kind) in [("infrastructure", "DevMachine"), ("bootstrap", "KubeadmConfig")] {
            let parts = world.part(group, kind).list(&ListParams::default()).await.unwrap();
            assert_eq!(parts.items.len(), 2, "{kind} after {fault:?} at {number}");
        }
    }
}
