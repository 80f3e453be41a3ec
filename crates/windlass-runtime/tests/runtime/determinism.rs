//! The same seed, the same story.

use std::time::Duration;

use windlass_runtime::Write;

use crate::replicas::World;

async fn story(seed: u64) -> (Vec<Write>, Vec<String>, String) {
    let world = World::new().await;
    world.faults.keep_journal();
    world.faults.delay_watches(Duration::ZERO..=Duration::from_millis(20), seed);
    let running = world.start(seed);
    for name in ["a", "b", "c", "d", "e"] {
        world.want(name, 3).await;
    }
    tokio::time::sleep(Duration::from_millis(30)).await;
    for name in ["c", "a"] {
        world.want(name, 5).await;
    }
    running.manager().idle().await;
    (world.faults.journal(), world.secrets("a").await, world.clock.now().to_string())
}

#[tokio::test(start_paused = true)]
async fn the_seed_decides_everything() {
    let mut orders = std::collections::BTreeSet::new();
    for seed in 0..6 {
        let first = story(seed).await;
        for _ in 0..2 {
            assert_eq!(story(seed).await, first, "seed {seed}");
        }
        orders.insert(first.0.iter().map(|write| write.by.clone().unwrap().1.name).collect::<Vec<_>>());
    }
    assert!(orders.len() > 3, "seeds try different orders");
}
