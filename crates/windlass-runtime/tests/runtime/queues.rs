//! When reconciles happen, and how many at the same time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use windlass_runtime::{Backoff, Cache, Context, Ended, Manager, ObjectKey, Options, Outcome, Reconciler};

use crate::replicas::World;

/// What was called when, by key.
type Calls = Arc<Mutex<BTreeMap<String, Vec<u64>>>>;

/// Does what the name of the object says, and remembers the seconds at which it was called.
struct Named {
    maps: Cache<ConfigMap>,
    calls: Calls,
    running: Arc<Mutex<(usize, usize)>>,
}

#[derive(Debug, thiserror::Error)]
#[error("as the name says")]
struct Failed;

impl Reconciler for Named {
    type Error = Failed;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, Failed> {
        if self.maps.get(key).is_none() || key.name == "kube-root-ca.crt" {
            return Ok(Outcome::done());
        }
        let second = context.now().as_second() - 1_767_225_600;
        self.calls.lock().unwrap().entry(key.name.clone()).or_default().push(second as u64);
        {
            let mut running = self.running.lock().unwrap();
            running.0 += 1;
            running.1 = running.1.max(running.0);
        }
        if key.name.starts_with("slow") {
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        self.running.lock().unwrap().0 -= 1;
        match key.name.as_str() {
            "fails" => Err(Failed),
            "panics" => panic!("as the name says"),
            "again" => Ok(Outcome::after(Duration::from_secs(20))),
            _ => Ok(Outcome::done()),
        }
    }
}

fn named(manager: &Manager) -> (Calls, Arc<Mutex<(usize, usize)>>) {
    let maps = manager.cache::<ConfigMap>();
    let (calls, running) = (Calls::default(), Arc::<Mutex<(usize, usize)>>::default());
    let reconciler = Named { maps: maps.clone(), calls: Arc::clone(&calls), running: Arc::clone(&running) };
    let backoff = Backoff { base: Duration::from_secs(1), cap: Duration::from_secs(8) };
    manager.controller("named", &maps).concurrency(2).backoff(backoff).register(reconciler);
    (calls, running)
}

async fn map(world: &World, name: &str) {
    world.create(json!({"metadata": {"name": name}})).await;
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_up_to_the_cap() {
    let world = World::new().await;
    let manager = world.manager(1);
    let (calls, _) = named(&manager);
    let _running = manager.start();
    map(&world, "fails").await;
    map(&world, "panics").await;
    tokio::time::sleep(Duration::from_secs(34)).await;
    assert_eq!(calls.lock().unwrap()["fails"], [0, 1, 3, 7, 15, 23, 31]);
    assert_eq!(calls.lock().unwrap()["panics"], [0, 1, 3, 7, 15, 23, 31]);
    assert_eq!(manager.metrics()["named"].errors, 14);
    assert_eq!(manager.failing()[1].error, "the reconcile panicked");
}

#[tokio::test(start_paused = true)]
async fn a_key_is_called_again_when_it_wanted_to_be() {
    let world = World::new().await;
    let manager = world.manager(1);
    let (calls, _) = named(&manager);
    let _running = manager.start();
    map(&world, "again").await;
    let idle = manager.idle().await;
    assert_eq!(idle.until.map(|at| at.as_second() - 1_767_225_600), Some(20), "nothing happens before");
    tokio::time::sleep(Duration::from_secs(50)).await;
    assert_eq!(calls.lock().unwrap()["again"], [0, 20, 40]);
    assert!(manager.metrics()["named"].requeues >= 3);
}

#[tokio::test(start_paused = true)]
async fn slow_keys_run_side_by_side_but_not_too_many() {
    let world = World::new().await;
    let manager = world.manager(1);
    let (calls, running) = named(&manager);
    let _running = manager.start();
    for name in ["slow-1", "slow-2", "slow-3"] {
        map(&world, name).await;
    }
    manager.idle().await;
    assert_eq!(running.lock().unwrap().1, 2);
    let mut starts: Vec<u64> = calls.lock().unwrap().values().flatten().copied().collect();
    starts.sort_unstable();
    assert_eq!(starts, [0, 0, 10]);
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_what_runs() {
    let world = World::new().await;
    let manager = world.manager(1);
    let (calls, running) = named(&manager);
    let handle = manager.start();
    for name in ["slow-1", "slow-2", "slow-3"] {
        map(&world, name).await;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert_eq!(handle.stop(Duration::from_secs(60)).await, Ended::Stopped);
    assert_eq!(running.lock().unwrap().0, 0, "both are done");
    assert_eq!(calls.lock().unwrap().len(), 2, "the third was not started");
    map(&world, "late").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(!calls.lock().unwrap().contains_key("late"));
}

#[tokio::test(start_paused = true)]
async fn a_pace_is_kept_unless_the_manager_wants_a_faster_one() {
    for (longest, expected) in [(None, vec![0, 10]), (Some(2), vec![0, 2, 4, 6]), (Some(60), vec![0, 10])] {
        let world = World::new().await;
        let mut options = Options::new().clock(world.clock.clone()).seed(1);
        if let Some(seconds) = longest {
            options = options.longest_pace(Duration::from_secs(seconds));
        }
        let manager = Manager::new(world.client.clone(), options);
        let maps = manager.cache::<ConfigMap>();
        let (calls, running) = (Calls::default(), Arc::default());
        let reconciler = Named { maps: maps.clone(), calls: Arc::clone(&calls), running };
        manager.controller("paced", &maps).pace(Duration::from_secs(10)).register(reconciler);
        let _running = manager.start();
        map(&world, "busy").await;
        for count in 1..7 {
            tokio::time::sleep(Duration::from_secs(1)).await;
            world.want("busy", count).await;
        }
        tokio::time::sleep(Duration::from_secs(20)).await;
        assert_eq!(calls.lock().unwrap()["busy"], expected, "{longest:?}");
    }
}
