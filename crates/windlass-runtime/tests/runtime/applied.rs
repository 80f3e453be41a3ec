//! What is up to date is not written again, in this process or after a restart.

use kube::ResourceExt;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use windlass_runtime::{Applied, Manager, ObjectKey, Writer};

use crate::dynamic::{define, things};
use crate::replicas::World;

fn intent(spec: Value) -> Value {
    json!({"metadata": {"name": "thing", "namespace": "default", "labels": {"a": "1"}}, "spec": spec})
}

fn api(world: &World) -> Api<DynamicObject> {
    Api::default_namespaced_with(world.client.clone(), &things())
}

async fn current(world: &World) -> DynamicObject {
    api(world).get("thing").await.unwrap()
}

async fn is_written(world: &World, writer: &Writer<DynamicObject>, intent: &Value) -> bool {
    let before = world.faults.writes();
    let applied = writer.ensure_applied("us", &current(world).await, intent).await.unwrap();
    assert_eq!(
        u64::from(applied.is_written()),
        world.faults.writes() - before,
        "what is said is what was done"
    );
    applied.is_written()
}

#[tokio::test(start_paused = true)]
async fn only_what_is_not_up_to_date_is_written() {
    let world = World::new().await;
    define(&world).await;
    let writer = world.manager(1).writer_of(&things());
    let wanted = intent(json!({"size": 3, "list": [{"name": "x"}]}));
    writer.apply("us", &wanted).await.unwrap();
    assert!(!is_written(&world, &writer, &wanted).await, "it was just applied");

    let other = json!({"status": {"ready": true}, "metadata": {"annotations": {"theirs": "2"}}, "spec": {"their": 1}});
    let parameters = PatchParams::default();
    api(&world).patch("thing", &parameters, &Patch::Merge(&other)).await.unwrap();
    assert!(!is_written(&world, &writer, &wanted).await, "fields of others are theirs");

    let changed = json!({"spec": {"size": 4}});
    api(&world).patch("thing", &parameters, &Patch::Merge(&changed)).await.unwrap();
    assert!(is_written(&world, &writer, &wanted).await, "another changed what is ours");
    assert!(!is_written(&world, &writer, &wanted).await);

    let fewer = intent(json!({"size": 3}));
    assert!(is_written(&world, &writer, &fewer).await, "a list has to go");
    assert!(current(&world).await.data["spec"].get("list").is_none());
    assert!(is_written(&world, &writer, &wanted).await, "and comes back");
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_object_tells() {
    let world = World::new().await;
    define(&world).await;
    let wanted = intent(json!({"size": 3}));
    world.manager(1).writer_of(&things()).apply("us", &wanted).await.unwrap();
    let restarted = world.manager(2).writer_of(&things());
    assert!(!is_written(&world, &restarted, &wanted).await);
    let (there, restarted) = (current(&world).await, world.manager(3).writer_of(&things()));
    assert!(restarted.is_applied("us", &there, &wanted).unwrap());
    assert!(!restarted.is_applied("them", &there, &wanted).unwrap(), "another manager has applied nothing");
    restarted.note_applied("them", &there, &wanted).unwrap();
    assert!(restarted.is_applied("them", &there, &wanted).unwrap(), "unless it was found out");
}

#[tokio::test(start_paused = true)]
async fn an_intent_is_made_only_if_its_basis_or_the_object_has_changed() {
    let world = World::new().await;
    define(&world).await;
    let writer = world.manager(1).writer_of(&things());
    writer.apply("us", &intent(json!({"size": 1}))).await.unwrap();
    let mut made = 0;
    for (basis, size, expected) in [(1, 1, 1), (1, 1, 1), (2, 2, 2), (2, 2, 2), (1, 1, 3)] {
        let there = current(&world).await;
        let make = || {
            made += 1;
            Ok(intent(json!({"size": size})))
        };
        writer.ensure_applied_from("us", &there, &basis, make).await.unwrap();
        assert_eq!((made, current(&world).await.data["spec"]["size"].as_i64()), (expected, Some(size)));
    }
    let relabelled = json!({"metadata": {"labels": {"a": "2"}}});
    api(&world).patch("thing", &PatchParams::default(), &Patch::Merge(&relabelled)).await.unwrap();
    let there = current(&world).await;
    let again = || Ok(intent(json!({"size": 1})));
    let applied = writer.ensure_applied_from("us", &there, &1, again).await.unwrap();
    assert!(matches!(applied, Applied::Written(thing) if thing.labels()["a"] == "1"));
}

#[tokio::test(start_paused = true)]
async fn an_object_that_went_is_neither_created_anew_nor_remembered() {
    let world = World::new().await;
    define(&world).await;
    let manager: Manager = world.manager(1);
    let (writer, cache) = (manager.writer_of(&things()), manager.cache_of(&things()));
    let _running = manager.start();
    let wanted = intent(json!({"size": 1}));
    let first = writer.apply("us", &wanted).await.unwrap();
    manager.idle().await;
    let cached = cache.get(&ObjectKey::new("default", "thing")).unwrap();
    assert!(writer.is_applied("us", &cached, &wanted).unwrap());

    writer.delete(&first).await.unwrap();
    manager.idle().await;
    let mut bare = cached.as_ref().clone();
    bare.metadata.managed_fields = None;
    assert!(!writer.is_applied("us", &bare, &wanted).unwrap(), "what is gone is forgotten");
    let error = writer.ensure_applied("us", &bare, &wanted).await.unwrap_err();
    assert!(error.is_conflict() || error.is_not_found(), "{error}");
    assert!(api(&world).get_opt("thing").await.unwrap().is_none());
}
