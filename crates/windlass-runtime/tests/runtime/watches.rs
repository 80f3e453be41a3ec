//! Watches that break, fall behind, and come back.

use std::time::Duration;

use windlass_store::History;

use crate::replicas::World;

#[tokio::test(start_paused = true)]
async fn a_broken_watch_goes_on_where_it_was() {
    let world = World::new().await;
    world.want("a", 1).await;
    let running = world.start(1);
    running.manager().idle().await;
    world.faults.disconnect_watches();
    world.want("a", 2).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(running.manager().watches().iter().all(|watch| !watch.connected));
    assert_eq!(world.secrets("a").await.len(), 1, "nobody has heard of it");
    world.faults.connect_watches();
    running.manager().idle().await;
    assert_eq!(world.secrets("a").await.len(), 2);
    assert!(running.manager().watches().iter().all(|watch| watch.connected && watch.lists == 1));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_fell_out_of_the_history_lists_again() {
    let world = World::with_history(History { events_per_resource: 8, ..History::default() }).await;
    world.want("a", 2).await;
    world.want("b", 1).await;
    let running = world.start(1);
    running.manager().idle().await;
    world.faults.disconnect_watches();
    for wanted in 2..12 {
        world.want("a", wanted).await;
    }
    world.sets().delete("b", &Default::default()).await.unwrap();
    world.faults.connect_watches();
    running.manager().idle().await;
    assert_eq!(world.secrets("a").await.len(), 11);
    let watches = running.manager().watches();
    let maps = watches.iter().find(|watch| watch.kind.kind == "ConfigMap").unwrap();
    assert_eq!((maps.lists, maps.connected), (2, true), "{maps:?}");
    assert_eq!(world.secrets("b").await.len(), 0, "its owner is gone");
    assert_eq!(world.server.store().snapshot().revision(), world.server.store().revision());
}

#[tokio::test(start_paused = true)]
async fn hours_of_quiet_change_nothing() {
    let world = World::new().await;
    world.want("a", 1).await;
    let running = world.start(1);
    running.manager().idle().await;
    let reconciles = running.manager().metrics()["replicas"].reconciles;
    tokio::time::sleep(Duration::from_secs(3600)).await;
    world.want("a", 2).await;
    running.manager().idle().await;
    assert_eq!(world.secrets("a").await.len(), 2);
    assert!(running.manager().metrics()["replicas"].reconciles <= reconciles + 5);
    assert!(running.manager().watches().iter().all(|watch| watch.lists == 1 && watch.failures == 0));
}
