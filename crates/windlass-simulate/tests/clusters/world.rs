//! A world and its rules, with a controller that is simple enough to be sure of.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineSet};
use windlass_api::infrastructure::DevMachine;
use windlass_runtime::{Cache, Context, ObjectKey, Outcome, Reconciler, WriteError, WriteFault};
use windlass_simulate::{
    Start, Startup, TopologyManifests, World, WorldError, WorldOptions, Written, is_at, key,
};
use windlass_version::Version;

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
        let name = format!("{}-{}", key.name, context.name_suffix("Secret"));
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

/// The objects of cluster `a` once it is there: kind and name, uid, and for machines how many seconds they took.
async fn cluster(is_crowded: bool) -> BTreeMap<String, (String, Option<i64>)> {
    let mut world = World::begin(WorldOptions::new(5)).await.unwrap();
    // Up to twice as long: a machine that drew anew would take another time.
    let startup = Startup { vm: 300.0, node: 60.0, jitter: 1.0 };
    if is_crowded {
        let other = TopologyManifests::new("b", "v1.30.0", 1).machine_deployment("w", 2).startup(startup);
        world.apply(&map(1)).await.unwrap();
        world.apply_objects(&other.objects()).await.unwrap();
    }
    let manifests = TopologyManifests::new("a", "v1.30.0", 3);
    let mut manifests = manifests.machine_deployment("web", 2).startup(startup);
    if is_crowded {
        manifests = manifests.machine_deployment("more", 1);
    }
    world.apply_objects(&manifests.objects()).await.unwrap();
    let version = Version::parse("v1.30.0").unwrap();
    world.run_until("a is there", LONG, |world| is_at(world, &key("a"), &version)).await.unwrap();

    let mut found = BTreeMap::new();
    let mine = |name: &str| name.starts_with("a-") && !name.starts_with("a-more-");
    for machine in world.list::<Machine>().into_iter().filter(|machine| mine(&machine.name_any())) {
        let available = machine.status.conditions.iter().find(|found| found.type_ == "Available").unwrap();
        let began = machine.creation_timestamp().unwrap();
        let seconds = available.last_transition_time.0.duration_since(began.0).as_secs();
        found.insert(format!("Machine {}", machine.name_any()), (machine.uid().unwrap(), Some(seconds)));
    }
    for part in world.list::<DevMachine>().into_iter().filter(|part| mine(&part.name_any())) {
        found.insert(format!("DevMachine {}", part.name_any()), (part.uid().unwrap(), None));
    }
    for set in world.list::<MachineSet>().into_iter().filter(|set| mine(&set.name_any())) {
        found.insert(format!("MachineSet {}", set.name_any()), (set.uid().unwrap(), None));
    }
    found
}

#[tokio::test(start_paused = true)]
async fn more_objects_leave_names_uids_and_durations_of_the_others_as_they_are() {
    let (alone, crowded) = (cluster(false).await, cluster(true).await);
    assert_eq!(alone.len(), 5 + 5 + 1, "{alone:?}");
    let identities = |all: &BTreeMap<String, (String, Option<i64>)>| -> Vec<(String, String)> {
        all.iter().map(|(name, (uid, _))| (name.clone(), uid.clone())).collect()
    };
    assert_eq!(identities(&crowded), identities(&alone));
    for (name, (_, seconds)) in &alone {
        // Moments of the API have whole seconds, and controllers take turns by milliseconds.
        let apart = seconds.zip(crowded[name].1).map_or(0, |(one, other)| (one - other).abs());
        assert!(apart <= 2, "{name} took {seconds:?} s alone and {:?} s among others", crowded[name].1);
    }
}
