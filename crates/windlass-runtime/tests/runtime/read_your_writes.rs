//! What a reconcile wrote is there when the next one of the same key begins.

use std::time::Duration;

use windlass_runtime::{Faults, WriteFault};

use crate::replicas::World;

const LATE: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn late_events_never_make_a_thing_twice() {
    let world = World::new().await;
    world.want("a", 3).await;
    let running = world.start(1);
    // Events of the ConfigMap hurry the queue while those of the Secrets are still on their way.
    world.faults.delay_watches(LATE..=LATE, 1);
    running.manager().idle().await;
    assert_eq!((world.secrets("a").await.len(), world.most()), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn events_that_come_at_any_time_never_make_a_thing_twice() {
    for seed in 0..30 {
        let world = World::new().await;
        world.faults.keep_journal();
        world.faults.delay_watches(Duration::ZERO..=Duration::from_millis(40), seed);
        let running = world.start(seed);
        for (wanted, wait) in [(3, 5), (5, 20), (2, 1), (4, 0)] {
            world.want("a", wanted).await;
            world.want("b", wanted + 1).await;
            tokio::time::sleep(Duration::from_millis(wait)).await;
        }
        running.manager().idle().await;
        assert_eq!((world.secrets("a").await.len(), world.secrets("b").await.len()), (4, 5), "seed {seed}");
        let created = journal(&world.faults, windlass_runtime::Verb::Create);
        let deleted = journal(&world.faults, windlass_runtime::Verb::Delete);
        assert_eq!(created - deleted, 9, "seed {seed}");
        assert!(world.most() <= 6, "seed {seed}: {}", world.most());
    }
}

fn journal(faults: &Faults, verb: windlass_runtime::Verb) -> usize {
    faults.journal().iter().filter(|write| write.verb == verb).count()
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_was_lost_is_found_before_it_is_made_again() {
    for number in 1..=8 {
        let world = World::new().await;
        world.want("a", 3).await;
        world.faults.delay_watches(LATE..=LATE, 1);
        world.faults.on_write(number, WriteFault::FailAfter);
        let running = world.start(1);
        running.manager().idle().await;
        assert_eq!(world.secrets("a").await.len(), 3, "write {number}");
        assert!(world.most() <= 3, "write {number}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_is_not_counted_again() {
    let world = World::new().await;
    world.want("a", 4).await;
    let running = world.start(1);
    running.manager().idle().await;
    world.faults.keep_journal();
    world.faults.delay_watches(LATE..=LATE, 1);
    world.want("a", 2).await;
    running.manager().idle().await;
    assert_eq!(world.secrets("a").await.len(), 2);
    assert_eq!(journal(&world.faults, windlass_runtime::Verb::Delete), 2);
    assert_eq!(world.count("a").await.as_deref(), Some("2"));
}
