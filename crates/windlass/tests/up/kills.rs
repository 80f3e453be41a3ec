//! `windlass up` is killed again and again in the middle of chained upgrades, while others write too: nothing that was
//! acknowledged is lost, and the upgrades finish.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine};
use windlass_simulate::{Startup, TopologyManifests};

use crate::load::Writer;
use crate::process::Up;

/// How many clusters are upgraded at the same time, unless the environment says otherwise.
const CLUSTERS: usize = 20;
/// How often it is killed.
const KILLS: usize = 50;
/// A life ends after so many writes of the controllers for each cluster at the latest.
const MOST_WRITES: u64 = 15;
/// A life ends after this at the latest: there may be nothing left to do.
const LIFE: Duration = Duration::from_secs(20);
/// How long the whole may take; reached only if something hangs.
const LIMIT: Duration = Duration::from_secs(1500);
/// How often the test looks.
const GLANCE: Duration = Duration::from_millis(20);
const VERSIONS: [&str; 5] = ["v1.29.0", "v1.30.4", "v1.31.2", "v1.32.0", "v1.33.0"];

/// Xorshift: the same series on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % bound
    }
}

async fn client(up: &Up) -> Client {
    let kubeconfig = Kubeconfig::read_from(&up.kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn apply(client: &Client, object: &Value) {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = kube::api::GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap());
    let resource = kube::api::ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
    let name = object["metadata"]["name"].as_str().unwrap();
    api.patch(name, &PatchParams::apply("test").force(), &Patch::Apply(object)).await.unwrap();
}

/// The revision of the store.
async fn revision(client: &Client) -> u64 {
    let machines: Api<Machine> = Api::default_namespaced(client.clone());
    let list = machines.list_metadata(&ListParams::default().limit(1)).await.unwrap();
    list.metadata.resource_version.unwrap().parse().unwrap()
}

/// How many machines are available at the version, and whether that is all there is to be, and every topology as it
/// should be.
async fn look(client: &Client, version: &str, clusters: usize) -> (usize, bool) {
    let machines: Api<Machine> = Api::default_namespaced(client.clone());
    let machines = machines.list(&ListParams::default()).await.unwrap().items;
    let is_true = |conditions: &[Condition], name: &str| {
        conditions.iter().any(|found| found.type_ == name && found.status == "True")
    };
    let is_done = |machine: &&Machine| {
        let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
        is_true(&machine.status.conditions, "Available")
            && kubelet == Some(version)
            && machine.metadata.deletion_timestamp.is_none()
    };
    let available = machines.iter().filter(is_done).count();
    if (available, machines.len()) != (2 * clusters, 2 * clusters) {
        return (available, false);
    }
    let api: Api<Cluster> = Api::default_namespaced(client.clone());
    let found = api.list(&ListParams::default()).await.unwrap().items;
    let reconciled = |cluster: &Cluster| is_true(&cluster.status.conditions, "TopologyReconciled");
    (available, found.len() == clusters && found.iter().all(reconciled))
}

async fn until_all_are_at(client: &Client, version: &str, clusters: usize) {
    let begun = Instant::now();
    loop {
        let (available, done) = look(client, version, clusters).await;
        if done {
            return;
        }
        assert!(begun.elapsed() < LIMIT, "{available} machines of {} reach {version}", 2 * clusters);
        tokio::time::sleep(GLANCE * 10).await;
    }
}

/// Creates the clusters, and asks for the upgrade of all of them.
async fn prepare(directory: &Path, clusters: usize) {
    let mut up = Up::start(directory, &[]);
    let client = client(&up).await;
    for number in 0..clusters {
        let manifests = TopologyManifests::new(&format!("c{number}"), VERSIONS[0], 1)
            .machine_deployment("w", 1)
            .versions(VERSIONS)
            .startup(Startup { vm: 0.0, node: 0.0, jitter: 0.0 });
        let objects = manifests.objects();
        // The class and its templates are the same for all.
        let skip = if number == 0 { 0 } else { objects.len() - 1 };
        for object in &objects[skip..] {
            apply(&client, object).await;
        }
    }
    until_all_are_at(&client, VERSIONS[0], clusters).await;
    let api: Api<Cluster> = Api::default_namespaced(client.clone());
    let patch = Patch::Merge(json!({"spec": {"topology": {"version": VERSIONS[4]}}}));
    for number in 0..clusters {
        api.patch(&format!("c{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    up.signal("KILL");
}

/// What was acknowledged before the last kill.
struct Acknowledged {
    revision: u64,
    load: [u64; 3],
}

/// Checks that everything is there that was acknowledged, and at most one write of each writer that was not.
async fn check(client: &Client, before: &Acknowledged, clusters: usize, round: usize) -> Acknowledged {
    let now = revision(client).await;
    assert!(
        now >= before.revision,
        "round {round}: the revision went back from {} to {now}",
        before.revision
    );
    let mut load = [0; 3];
    for ((writer, acknowledged), there) in Writer::all(clusters).into_iter().zip(before.load).zip(&mut load) {
        *there = writer.found(client).await;
        assert!(
            (acknowledged..=acknowledged + 1).contains(there),
            "round {round}: {writer:?}: {acknowledged} was acknowledged, {there} is there"
        );
    }
    let api: Api<Cluster> = Api::default_namespaced(client.clone());
    for cluster in api.list(&ListParams::default()).await.unwrap().items {
        let version = cluster.spec.topology.unwrap().version;
        assert_eq!(version, VERSIONS[4], "round {round}: the version that was asked for is lost");
    }
    Acknowledged { revision: now, load }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_upgrades_finish_after_50_kills() {
    let clusters = std::env::var("WINDLASS_KILL_CLUSTERS").map_or(CLUSTERS, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let begun = Instant::now();
    prepare(directory.path(), clusters).await;
    let prepared = begun.elapsed();
    let (begun, mut random) = (Instant::now(), Random(11));
    let (mut acknowledged, mut kills_before_the_end) = (Acknowledged { revision: 0, load: [0; 3] }, 0);
    let mut done = false;
    for round in 0..KILLS {
        let mut up = Up::start(directory.path(), &[]);
        let client = client(&up).await;
        let there = check(&client, &acknowledged, clusters, round).await;
        let own = Arc::new(AtomicU64::new(0));
        let writers = Writer::all(clusters).into_iter().zip(there.load);
        let writing = writers.map(|(writer, from)| writer.start(client.clone(), from, Arc::clone(&own)));
        let writing: Vec<_> = writing.collect();
        // Killed after so many writes of the controllers: sometimes at once, sometimes in the middle of much.
        let (alive, writes) = (Instant::now(), random.below(MOST_WRITES * clusters as u64));
        let mut last = there.revision;
        while last - there.revision < writes + own.load(Ordering::Relaxed) && alive.elapsed() < LIFE && !done
        {
            tokio::time::sleep(GLANCE).await;
            last = revision(&client).await;
        }
        (_, done) = look(&client, VERSIONS[4], clusters).await;
        kills_before_the_end += usize::from(!done);
        up.signal("KILL");
        acknowledged.revision = last;
        for (writing, acknowledged) in writing.into_iter().zip(&mut acknowledged.load) {
            // Ends because the server is gone.
            *acknowledged = writing.await.unwrap();
        }
        assert!(begun.elapsed() < LIMIT, "round {round}: it takes too long");
    }
    let killed = begun.elapsed();
    let up = Up::start(directory.path(), &[]);
    let client = client(&up).await;
    until_all_are_at(&client, VERSIONS[4], clusters).await;
    let there = check(&client, &acknowledged, clusters, KILLS).await;
    println!(
        "{clusters} clusters created after {prepared:?}; {KILLS} kills in {killed:?}, {kills_before_the_end} of them during \
         the upgrades, which end after {:?}; {} writes, of which others {:?}",
        begun.elapsed(),
        there.revision,
        there.load
    );
    assert!(there.load.iter().all(|last| *last > KILLS as u64 / 2), "they hardly wrote: {:?}", there.load);
    assert!(kills_before_the_end > KILLS / 2, "only {kills_before_the_end} kills were during the upgrades");
}
