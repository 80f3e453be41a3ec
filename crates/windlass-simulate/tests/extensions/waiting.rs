//! What a Cluster waits on: since when, and that everybody says the same.

use std::io;
use std::sync::{Arc, Mutex};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use kube::api::{Api, ListParams};
use tracing_subscriber::fmt::MakeWriter;
use windlass_api::cluster::{Cluster, Machine};
use windlass_controllers::describe::describe_cluster;
use windlass_engine::condition;
use windlass_engine::waiting::Wait;
use windlass_hooks::Metrics;
use windlass_hooks::transport::InProcess;
use windlass_manager::PlaneMetrics;
use windlass_simulate::{TopologyManifests, World, key};

use crate::cluster::{LONG, pass, upgrade_to};
use crate::recorder::{Log, config, options, recorder};

async fn world(log: &Log) -> World {
    let transport = InProcess::new();
    transport.add("recorder", recorder(log));
    let mut world = World::begin(options(1, &transport)).await.unwrap();
    world.apply_object(&config("recorder")).await.unwrap();
    let manifests = TopologyManifests::new("c1", "v1.30.0", 1).versions(["v1.30.0", "v1.31.0"]);
    world.apply_objects(&manifests.objects()).await.unwrap();
    let is_ready = |world: &World| {
        let machines = world.list::<Machine>();
        let ready = |machine: &Machine| condition::is_true(&machine.status.conditions, "Ready");
        !machines.is_empty() && machines.iter().all(ready)
    };
    world.run_until("the cluster is ready", LONG, is_ready).await.unwrap();
    world
}

fn cluster(world: &World) -> Cluster {
    world.get(&key("c1")).unwrap()
}

fn wait(world: &World) -> Option<Wait> {
    Wait::of_cluster(&cluster(world))
}

async fn until_waiting_for(world: &mut World, hook: &str) -> Wait {
    let waits = |world: &World| wait(world).is_some_and(|wait| wait.hook.as_deref() == Some(hook));
    world.run_until("it waits for the hook", LONG, waits).await.unwrap();
    wait(world).unwrap()
}

/// Since when the condition has its status, and the version of the whole object.
fn condition_and_version(world: &World) -> (Timestamp, Option<String>) {
    let cluster = cluster(world);
    let topology = condition::find(&cluster.status.conditions, "TopologyReconciled").unwrap();
    (topology.last_transition_time.0, cluster.resource_version())
}

#[tokio::test(start_paused = true)]
async fn a_wait_lasts_over_retries_and_restarts_and_ends_when_another_begins() {
    let log = Log::default();
    log.wait("BeforeClusterUpgrade", 5, 600, "not before noon");
    log.wait("BeforeControlPlaneUpgrade", 1, 600, "a backup runs");
    let mut world = world(&log).await;
    upgrade_to(&world, "v1.31.0").await;
    let first = until_waiting_for(&mut world, "BeforeClusterUpgrade").await;
    assert_eq!(first.what, "BeforeClusterUpgrade (upgrade.recorder): not before noon; asked again after 10m");
    assert_eq!(
        (first.handlers.as_slice(), first.retry_after_seconds),
        (&["upgrade.recorder".to_owned()][..], Some(600))
    );
    assert!(world.now().duration_since(first.since.0).as_secs() < 60, "it begins when it begins");

    // Whatever else is written about the Cluster is written by now.
    pass(&mut world, 120).await;
    let before = condition_and_version(&world);
    pass(&mut world, 1500).await;
    let asked = log.hooks().iter().filter(|hook| *hook == "BeforeClusterUpgrade").count();
    assert!(asked >= 3, "it was asked again: {asked}");
    assert_eq!(wait(&world), Some(first.clone()));
    assert_eq!(condition_and_version(&world), before, "a wait that goes on is not written");

    world.restart().await;
    pass(&mut world, 30).await;
    assert_eq!(wait(&world), Some(first.clone()), "a new process goes on with it");

    let second = until_waiting_for(&mut world, "BeforeControlPlaneUpgrade").await;
    assert_eq!(
        second.what,
        "BeforeControlPlaneUpgrade (before-cp.recorder): a backup runs; asked again after 10m"
    );
    assert!(second.since.0 > first.since.0, "{second:?} after {first:?}");
    assert!(world.now().duration_since(second.since.0).as_secs() < 60);
    assert_eq!(condition_and_version(&world).0, before.0, "the condition has the same status since before");

    let done = |world: &World| {
        let reconciled = condition::is_true(&cluster(world).status.conditions, "TopologyReconciled");
        reconciled && wait(world).is_none()
    };
    world.run_until("the upgrade is done", LONG, done).await.unwrap();
    assert_eq!(Wait::read(cluster(&world).metadata.annotations.as_ref()), None, "nothing is kept");
}

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(data);
        Ok(data.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test(start_paused = true)]
async fn the_condition_the_event_the_log_the_description_and_the_metric_say_the_same() {
    let lines = Lines::default();
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(lines.clone()).finish();
    // For all tests of this binary: what one thread logs, others may have found uninteresting before.
    tracing::subscriber::set_global_default(subscriber).unwrap();
    let log = Log::default();
    log.wait("BeforeClusterUpgrade", u32::MAX, 600, "the release party is at four");
    let mut world = world(&log).await;
    upgrade_to(&world, "v1.31.0").await;
    let wait = until_waiting_for(&mut world, "BeforeClusterUpgrade").await;
    pass(&mut world, 60).await;

    let cluster = cluster(&world);
    let topology = condition::find(&cluster.status.conditions, "TopologyReconciled").unwrap();
    assert!(topology.message.contains(&wait.what), "{}", topology.message);

    let events: Api<Event> = Api::all(world.client().clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let told: Vec<String> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some(wait.reason.as_str()))
        .filter_map(|event| event.message.clone())
        .collect();
    assert_eq!(told, [format!("waiting for {}", wait.what)], "one event, when it began");

    let logged = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    assert!(logged.contains(&wait.what), "{logged}");

    let described = describe_cluster(world.client(), "default", "c1", world.now()).await.unwrap();
    assert_eq!(described.waiting_on.map(|waiting| waiting.wait), Some(wait.clone()));

    let metrics = PlaneMetrics::new(world.manager().unwrap(), &Metrics::new()).render();
    let labels =
        format!("reason=\"{}\",hook=\"BeforeClusterUpgrade\"}} {}", wait.reason, wait.since.0.as_second());
    assert!(metrics.contains(&labels), "{metrics}");
    let of_simulation = format!("Cluster c1: {} since {}: {}", wait.reason, wait.since.0, wait.what);
    assert!(world.waiting_on().contains(&of_simulation), "{:?}", world.waiting_on());
}
