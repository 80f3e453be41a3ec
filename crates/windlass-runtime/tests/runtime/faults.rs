//! Writes that fail, and processes that die.

use std::time::Duration;

use windlass_runtime::{Ended, Layer, Manager, Trouble, WriteFault};

use crate::replicas::World;

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_leads_to_the_same_end() {
    for fault in [WriteFault::CrashBefore, WriteFault::CrashAfter] {
        for number in 1..=6 {
            let world = World::new().await;
            world.want("a", 3).await;
            world.faults.on_write(number, fault);
            let mut running = world.start(1);
            let manager = running.manager().clone();
            let crashed = tokio::select! {
                biased;
                ended = running.ended() => ended == Ended::Crashed,
                _ = manager.idle() => false,
            };
            // Three secrets and a count at least; what comes after depends on how many reconciles it took.
            assert!(crashed || number > 4, "{fault:?} {number}");
            if crashed {
                assert_eq!(world.faults.writes(), number, "nothing is written after the crash");
                let expected = number - u64::from(fault == WriteFault::CrashBefore);
                assert_eq!(world.secrets("a").await.len() as u64, expected.min(3), "{fault:?} {number}");
            }
            drop(running);
            let running = world.start(2);
            running.manager().idle().await;
            assert_eq!((world.secrets("a").await.len(), world.count("a").await.as_deref()), (3, Some("3")));
            assert!(world.most() <= 3);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_tried_again() {
    let world = World::new().await;
    world.want("a", 3).await;
    world.faults.on_write(1, WriteFault::FailBefore);
    let running = world.start(1);
    let idle = running.manager().idle().await;
    let failing = running.manager().failing();
    assert_eq!(failing.len(), 1, "it waits for its next try");
    assert!(failing[0].error.starts_with("cannot create Secret default/a-"), "{}", failing[0].error);
    assert!(failing[0].error.ends_with(": injected fault"), "{}", failing[0].error);
    assert!(idle.until.is_some());
    tokio::time::sleep(Duration::from_secs(1)).await;
    running.manager().idle().await;
    assert_eq!(world.secrets("a").await.len(), 3);
    let metrics = &running.manager().metrics()["replicas"];
    assert_eq!((metrics.errors, metrics.conflicts, metrics.queued, metrics.running), (1, 0, 0, 0));
    assert!(running.manager().failing().is_empty());
}

/// Lets time pass until nothing is left to do.
async fn rest(world: &World, manager: &Manager) {
    while let Some(until) = manager.idle().await.until {
        let wait = Duration::try_from(until.duration_since(world.clock.now())).unwrap_or_default();
        tokio::time::sleep(wait + Duration::from_millis(1)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_trouble_leads_to_the_same_end() {
    let alone = Trouble::ALL.map(|trouble| vec![trouble]);
    for troubles in alone.into_iter().chain([Trouble::ALL.to_vec()]) {
        for seed in 0..8 {
            let world = World::new().await;
            world.faults.seed_layers(seed);
            for trouble in &troubles {
                let until = Some(tokio::time::Instant::now() + Duration::from_secs(120));
                world.faults.add_layer(Layer { trouble: *trouble, percent: 30, until });
            }
            let running = world.start(seed);
            for wanted in [3, 6, 1, 4] {
                world.want("a", wanted).await;
                tokio::time::sleep(Duration::from_secs(7)).await;
            }
            rest(&world, running.manager()).await;
            let about = format!("seed {seed}, {troubles:?}");
            assert_eq!(
                (world.secrets("a").await.len(), world.count("a").await.as_deref()),
                (4, Some("4")),
                "{about}"
            );
            assert!(world.most() <= 6, "{about}: {} were made for 6", world.most());
        }
    }
}
