//! Mistakes of users, and what they cost.

#![expect(clippy::unwrap_used, reason = "a test ends where something is missing")]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine};
use windlass_simulate::{TopologyManifests, World, WorldOptions, Written, is_at, key};
use windlass_version::Version;

const LONG: Duration = Duration::from_secs(24 * 3600);

/// A world with a cluster that is complete, and the names of all machines that there ever were.
async fn cluster(manifests: &TopologyManifests, name: &str) -> (World, Arc<Mutex<BTreeSet<String>>>) {
    let mut world = World::begin(WorldOptions::new(5)).await.unwrap();
    let seen = Arc::<Mutex<BTreeSet<String>>>::default();
    let machines = Arc::clone(&seen);
    world.observe(move |written: &Written<'_>| {
        if let Some(machine) = written.object::<Machine>() {
            machines.lock().unwrap().insert(machine.name_any());
        }
        Ok(())
    });
    world.apply_objects(&manifests.objects()).await.unwrap();
    until_at(&mut world, name).await;
    (world, seen)
}

async fn until_at(world: &mut World, name: &str) {
    let version = Version::parse("v1.31.0").unwrap();
    world.run_until("it is complete", LONG, |world| is_at(world, &key(name), &version)).await.unwrap();
}

/// Writes the number of replicas of the first group of a list.
async fn scale(world: &World, list: &str, group: &str, replicas: u32) {
    let cluster: Value = json!({"spec": {"topology": {"workers": {
        list: [{"class": "default", "name": group, "replicas": replicas}],
    }}}});
    world.patch::<Cluster>(&key("c1"), cluster).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_number_of_replicas_that_was_a_typing_mistake_can_be_taken_back() {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1).machine_deployment("web", 2);
    let (mut world, seen) = cluster(&manifests, "c1").await;
    scale(&world, "machineDeployments", "web", 5000).await;
    while seen.lock().unwrap().len() == 3 {
        let _ = world.run_until("more", Duration::from_millis(10), |_| false).await;
    }
    scale(&world, "machineDeployments", "web", 2).await;
    let only_two = |world: &World| world.list::<Machine>().len() == 3;
    world.run_until("two are left", Duration::from_secs(120), only_two).await.unwrap();
    until_at(&mut world, "c1").await;
    let created = seen.lock().unwrap().len();
    assert!(created <= 3 + 2 * 52, "{created} machines were created");
}

#[tokio::test(start_paused = true)]
async fn many_machines_are_created_soon_all_the_same() {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1).machine_deployment("web", 2);
    let (mut world, seen) = cluster(&manifests, "c1").await;
    let begun = world.now();
    scale(&world, "machineDeployments", "web", 400).await;
    world
        .run_until("all are created", Duration::from_secs(60), |_| seen.lock().unwrap().len() == 401)
        .await
        .unwrap();
    let seconds = world.now().duration_since(begun).as_secs();
    assert!(seconds <= 3, "{seconds} s");
}

#[tokio::test(start_paused = true)]
async fn the_longest_names_that_are_accepted_work() {
    let name = "c".repeat(63);
    let manifests = TopologyManifests::new(&name, "v1.31.0", 1)
        .machine_deployment(&"d".repeat(63), 1)
        .machine_pool(&"p".repeat(63), 1);
    let (world, seen) = cluster(&manifests, &name).await;
    assert!(seen.lock().unwrap().iter().all(|machine| machine.len() <= 63));
    assert_eq!(world.list::<Machine>().len(), 2);
}

/// How many seconds it takes until a cluster is complete.
async fn created(world: &mut World, manifests: &TopologyManifests) -> i64 {
    let begun = world.now();
    world.apply_objects(&manifests.objects()).await.unwrap();
    until_at(world, "c1").await;
    world.now().duration_since(begun).as_secs()
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_created_again_under_its_old_name_takes_no_longer() {
    let manifests =
        TopologyManifests::new("c1", "v1.31.0", 1).machine_deployment("web", 1).machine_pool("pool", 1);
    let mut world = World::begin(WorldOptions::new(5)).await.unwrap();
    let first = created(&mut world, &manifests).await;
    for _ in 0..2 {
        world.delete::<Cluster>(&key("c1")).await.unwrap();
        let is_gone = |world: &World| world.get::<Cluster>(&key("c1")).is_none();
        world.run_until("it is gone", LONG, is_gone).await.unwrap();
        let again = created(&mut world, &manifests).await;
        // How long machines take to start differs by a few seconds.
        assert!(again <= first + 10, "{first} s, and then {again} s");
    }
}
