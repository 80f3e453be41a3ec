//! `windlass up` is killed again and again in the middle of chained upgrades: nothing that was acknowledged is lost,
//! and the upgrades finish.

use std::path::Path;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_api::cluster::{Cluster, Machine};
use windlass_simulate::{Startup, TopologyManifests};

use crate::process::Up;

/// How many clusters are upgraded. `WINDLASS_KILL_CLUSTERS=20` takes minutes in a debug build.
const CLUSTERS: usize = 4;
/// How often it is killed.
const KILLS: usize = 50;
/// How long the whole may take; reached only if something hangs.
const LIMIT: Duration = Duration::from_secs(900);
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

/// The revision of the store, or none if the server is gone.
async fn revision(client: &Client) -> Option<u64> {
    let machines: Api<Machine> = Api::default_namespaced(client.clone());
    let list = machines.list_metadata(&ListParams::default().limit(1)).await.ok()?;
    list.metadata.resource_version?.parse().ok()
}

/// What there is to see of the clusters.
struct Look {
    /// The latest write to a machine or Cluster.
    latest: u64,
    /// How many machines are available at the version.
    available: usize,
    /// Whether all of them are, and every topology is as it should be.
    done: bool,
}

async fn look(client: &Client, version: &str, clusters: usize) -> Look {
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
    let api: Api<Cluster> = Api::default_namespaced(client.clone());
    let items = api.list(&ListParams::default()).await.unwrap().items;
    let written = |meta: &ObjectMeta| meta.resource_version.as_ref().and_then(|text| text.parse().ok());
    let latest = machines.iter().map(|machine| &machine.metadata).chain(items.iter().map(|it| &it.metadata));
    let latest: Option<u64> = latest.filter_map(written).max();
    let available = machines.iter().filter(is_done).count();
    let reconciled = |cluster: &Cluster| is_true(&cluster.status.conditions, "TopologyReconciled");
    Look {
        latest: latest.unwrap_or_default(),
        available,
        done: (available, machines.len(), items.len()) == (2 * clusters, 2 * clusters, clusters)
            && items.iter().all(reconciled),
    }
}

/// Writes a counter as fast as it is acknowledged; says up to where.
async fn count(client: Client, from: u64, said: watch::Sender<u64>) {
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    for count in from + 1.. {
        let patch = Patch::Merge(json!({"data": {"count": count.to_string()}}));
        if api.patch("counter", &PatchParams::default(), &patch).await.is_err() {
            return;
        }
        said.send_replace(count);
    }
}

async fn counted(client: &Client) -> u64 {
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    api.get("counter").await.unwrap().data.unwrap()["count"].parse().unwrap()
}

/// Creates the clusters, and asks for the upgrade of all of them.
async fn prepare(directory: &Path, clusters: usize) {
    let mut up = Up::start(directory, &[]);
    let client = client(&up).await;
    let counter: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let counter_object =
        serde_json::from_value(json!({"metadata": {"name": "counter"}, "data": {"count": "0"}}));
    counter.create(&PostParams::default(), &counter_object.unwrap()).await.unwrap();
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
    let begun = Instant::now();
    while !look(&client, VERSIONS[0], clusters).await.done {
        assert!(begun.elapsed() < LIMIT, "the clusters are not created");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let api: Api<Cluster> = Api::default_namespaced(client.clone());
    let patch = Patch::Merge(json!({"spec": {"topology": {"version": VERSIONS[4]}}}));
    for number in 0..clusters {
        api.patch(&format!("c{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    up.signal("KILL");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_and_upgrades_finish_after_50_kills() {
    let clusters = std::env::var("WINDLASS_KILL_CLUSTERS").map_or(CLUSTERS, |text| text.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    prepare(directory.path(), clusters).await;
    let (begun, mut random) = (Instant::now(), Random(11));
    let (mut acknowledged, mut last, mut kills_before_the_end) = (0, 0, 0);
    for round in 0..KILLS {
        let mut up = Up::start(directory.path(), &[]);
        let client = client(&up).await;
        let found = counted(&client).await;
        assert!(
            found == acknowledged || found == acknowledged + 1,
            "round {round}: {acknowledged} was acknowledged, {found} is there"
        );
        let now = revision(&client).await.unwrap();
        assert!(now >= last, "round {round}: the revision went back from {last} to {now}");
        let api: Api<Cluster> = Api::default_namespaced(client.clone());
        for cluster in api.list(&ListParams::default()).await.unwrap().items {
            let version = cluster.spec.topology.unwrap().version;
            assert_eq!(version, VERSIONS[4], "round {round}: the version that was asked for is lost");
        }
        let (say, said) = watch::channel(found);
        let counting = tokio::spawn(count(client.clone(), found, say));
        // Killed after so many changes: sometimes at once, sometimes in the middle of much.
        let mut seen = look(&client, VERSIONS[4], clusters).await;
        let mut changes = random.below(clusters as u64 + 1);
        while changes > 0 && !seen.done {
            assert!(begun.elapsed() < LIMIT, "round {round}: nothing goes on");
            let now = look(&client, VERSIONS[4], clusters).await;
            changes -= u64::from(now.latest != seen.latest);
            seen = now;
        }
        last = now;
        kills_before_the_end += usize::from(!seen.done);
        up.signal("KILL");
        // Ends because the server is gone.
        counting.await.unwrap();
        acknowledged = *said.borrow();
    }
    let up = Up::start(directory.path(), &[]);
    let client = client(&up).await;
    loop {
        let seen = look(&client, VERSIONS[4], clusters).await;
        if seen.done {
            break;
        }
        assert!(begun.elapsed() < LIMIT, "the upgrades do not finish: {} machines did", seen.available);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(acknowledged > KILLS as u64, "it hardly wrote: {acknowledged}");
    assert!(kills_before_the_end > KILLS / 2, "only {kills_before_the_end} kills were during the upgrades");
}
