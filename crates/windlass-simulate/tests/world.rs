//! A world and its rules, with a controller that is simple enough to be sure of.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::json;
use windlass_reconcile::{Cache, Context, ObjectKey, Outcome, Reconciler, WriteError, WriteFault};
use windlass_simulate::{Start, World, WorldError, WorldOptions, Written, key};

const LONG: Duration = Duration::from_secs(3600);

/// Makes a Secret for every ten seconds that a ConfigMap has seen, until there are as many as it wants.
struct Slowly {
    maps: Cache<ConfigMap>,
    secrets: Cache<Secret>,
}

impl Reconciler for Slowly {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        let Some(map) = self.maps.get(key) else { return Ok(Outcome::done()) };
        let wanted = map.data.as_ref().and_then(|data| data.get("wanted")?.parse().ok()).unwrap_or(0);
        let labels = [("map".to_owned(), key.name.clone())].into();
        if self.secrets.labelled(&key.namespace, &labels).len() >= wanted {
            return Ok(Outcome::done());
        }
        let name = format!("{}-{}", key.name, context.name_suffix());
        let secret = json!({"metadata": {"name": name, "namespace": key.namespace, "labels": labels}});
        context.writer::<Secret>().apply("slowly", &secret).await?;
        Ok(Outcome::after(Duration::from_secs(10)))
    }
}

async fn world(seed: u64) -> World {
    let setup = |start: &Start<'_>| {
        let (maps, secrets) = (start.manager.cache(), start.manager.cache());
        let slowly = Slowly { maps: maps.clone(), secrets: secrets.clone() };
        start.manager.controller("slowly", &maps).register(slowly);
    };
    World::begin(WorldOptions::with(seed, Vec::new(), Arc::new(setup))).await.unwrap()
}

fn map(wanted: usize) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{wanted: \"{wanted}\"}}\n---\n\
         apiVersion: v1\nkind: Namespace\nmetadata: {{name: other}}\n"
    )
}

fn secrets(world: &World) -> Vec<String> {
    let all = world.list::<Secret>().into_iter();
    all.filter(|secret| secret.labels().contains_key("map")).map(|secret| secret.name_any()).collect()
}

#[tokio::test(start_paused = true)]
async fn hours_pass_until_something_is_true() {
    let mut world = world(1).await;
    world.apply(&map(100)).await.unwrap();
    let begun = world.now();
    world.run_until("100 secrets", LONG, |world| secrets(world).len() == 100).await.unwrap();
    let seconds = world.now().duration_since(begun).as_secs();
    assert!((990..=995).contains(&seconds), "{seconds}");
    world.run_until_idle(LONG).await.unwrap();
    assert_eq!(world.get::<ConfigMap>(&key("a")).unwrap().data.unwrap()["wanted"], "100");
}

#[tokio::test(start_paused = true)]
async fn what_does_not_happen_is_said() {
    let mut world = world(1).await;
    world.apply(&map(5)).await.unwrap();
    let limit = Duration::from_secs(25);
    let late = world.run_until("5 secrets", limit, |world| secrets(world).len() == 5).await.unwrap_err();
    assert_eq!(late.to_string(), "5 secrets: not reached within 25 s");
    let never = world.run_until("6 secrets", LONG, |world| secrets(world).len() == 6).await.unwrap_err();
    let WorldError::NotReached(never) = never else { panic!("{never}") };
    assert!(never.is_final, "it does not wait for an hour to say so");
    assert!(never.to_string().contains("nothing will happen any more"), "{never}");
}

#[tokio::test(start_paused = true)]
async fn a_rule_is_checked_after_every_write() {
    let mut world = world(1).await;
    let mut count = 0;
    world.observe(move |written: &Written<'_>| {
        if written.is::<Secret>() && written.is_creation() {
            count += 1;
        }
        if count > 2 { Err(format!("{count} secrets")) } else { Ok(()) }
    });
    world.apply(&map(5)).await.unwrap();
    let error = world.run_until("5 secrets", LONG, |world| secrets(world).len() == 5).await.unwrap_err();
    assert!(matches!(&error, WorldError::Violation(violation) if violation.rule == "3 secrets"), "{error}");
    assert_eq!(secrets(&world).len(), 3, "it ends there");
}

#[tokio::test(start_paused = true)]
async fn a_world_survives_the_death_of_all_controllers_at_any_write() {
    for number in 1..=4 {
        for fault in [WriteFault::CrashBefore, WriteFault::CrashAfter] {
            let mut world = world(number).await;
            world.faults().on_write(number, fault);
            world.apply(&map(4)).await.unwrap();
            let ended = world.run_to_the_end(LONG).await;
            assert!(ended.is_some() && world.has_crashed());
            world.restart().await;
            assert!(!world.has_crashed());
            world.run_until_idle(LONG).await.unwrap();
            assert_eq!(secrets(&world).len(), 4, "{fault:?} at {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_seed_tells_the_story() {
    let mut stories = Vec::new();
    for seed in [1, 1, 2] {
        let mut world = world(seed).await;
        world.apply(&map(5)).await.unwrap();
        world.run_until_idle(LONG).await.unwrap();
        stories.push((secrets(&world), world.now()));
    }
    assert_eq!(stories[0], stories[1]);
    assert_ne!(stories[0].0, stories[2].0);
}

#[tokio::test(start_paused = true)]
async fn manifests_that_make_no_sense_are_refused() {
    let world = world(1).await;
    let cases = [
        ("a: [", "invalid manifest: "),
        ("kind: ConfigMap", "invalid manifest: an object has no apiVersion"),
        (
            "apiVersion: v1\nkind: Thing\nmetadata: {name: a}",
            "cannot find Thing in v1: there is no such kind",
        ),
        ("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: A B}", "cannot apply ConfigMap A B: "),
    ];
    for (manifest, begins) in cases {
        let error = world.apply(manifest).await.unwrap_err().to_string();
        assert!(error.starts_with(begins), "{error}");
    }
}
