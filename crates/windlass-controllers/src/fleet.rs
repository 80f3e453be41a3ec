//! All Clusters of an API, followed live, for views that stay open. Nothing is written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::DynamicObject;
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::{
    Cluster, ClusterClass, ContractVersionedObjectReference, Machine, MachineDeployment, MachinePool,
};
use windlass_engine::describe::{ClusterDescription, Described, VersionChange};
use windlass_engine::progress::{LiveRecord, RecordDescription};
use windlass_runtime::{Cache, Kind, Lookup, Manager, ObjectKey, Options, Running, WatchHealth};

use crate::describe::{first_seen, version_change};

/// The newest events of a Cluster that are shown.
const EVENTS: usize = 40;

/// All Clusters of an API, kept up to date by watches.
pub struct Fleet {
    client: Client,
    running: Running,
    clusters: Cache<Cluster>,
    classes: Cache<ClusterClass>,
    deployments: Lookup<MachineDeployment>,
    pools: Lookup<MachinePool>,
    machines: Lookup<Machine>,
    events: Lookup<Event>,
    /// Kinds that Clusters refer to, by group and kind. Those that could not be found are looked for again.
    referred: Mutex<BTreeMap<(String, String), Cache<DynamicObject>>>,
    records: Mutex<BTreeMap<ObjectKey, LiveRecord>>,
    /// Whether everything was listed once, or could not be: before, a Cluster would be shown without its machines.
    is_settled: AtomicBool,
}

/// A Cluster at a moment: what it is, what happened to it, what was told of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// What it is, how far its upgrade is, and what it waits on.
    #[serde(flatten)]
    pub described: ClusterDescription,
    /// What happened since its upgrade began, as far as it was seen or left traces.
    pub record: RecordDescription,
    /// What was told of it, newest first.
    pub events: Vec<EventView>,
    /// The versions that its class lists.
    pub targets: Vec<String>,
}

/// Something that was told of a Cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EventView {
    /// When it was told last.
    pub at: Time,
    /// `Normal` or `Warning`.
    pub level: String,
    /// A word for programs.
    pub reason: String,
    /// What happened.
    pub message: String,
    /// How often.
    pub count: i32,
}

impl Fleet {
    /// Begins to follow all Clusters.
    pub fn start(client: Client) -> Self {
        let manager = Manager::new(client.clone(), Options::new());
        let clusters = manager.cache::<Cluster>();
        let classes = manager.cache::<ClusterClass>();
        let deployments = manager.cache::<MachineDeployment>();
        let pools = manager.cache::<MachinePool>();
        let machines = manager.cache::<Machine>();
        let events = manager.cache::<Event>();
        Self {
            client,
            clusters,
            classes,
            deployments: deployments.lookup(|group| vec![group.spec.cluster_name.clone()]),
            pools: pools.lookup(|pool| vec![pool.spec.cluster_name.clone()]),
            machines: machines.lookup(|machine| vec![machine.spec.cluster_name.clone()]),
            events: events.lookup(about_cluster),
            running: manager.start(),
            referred: Mutex::default(),
            records: Mutex::default(),
            is_settled: AtomicBool::new(false),
        }
    }

    /// Whether Clusters and machines have been listed once.
    pub fn is_synced(&self) -> bool {
        let watches = self.running.manager().watches();
        watches.iter().filter(|watch| is_needed(&watch.kind.group)).all(|watch| watch.lists > 0)
    }

    /// Why something that has to be read cannot be, at the moment.
    pub fn trouble(&self) -> Option<String> {
        let watches = self.running.manager().watches();
        let broken = watches.into_iter().filter(|watch| is_needed(&watch.kind.group));
        let mut broken =
            broken.filter_map(|watch| Some(format!("{}: {}", watch.kind.kind, watch.last_error?)));
        broken.next()
    }

    /// Looks at all Clusters, by namespace and name. There are none before everything that they are made of was listed.
    pub async fn look(&self, now: Timestamp) -> Vec<ClusterView> {
        let clusters = self.clusters.list();
        for cluster in &clusters {
            for reference in [&cluster.spec.control_plane_ref, &cluster.spec.infrastructure_ref] {
                self.follow(reference.as_ref()).await;
            }
        }
        let watches = self.running.manager().watches();
        let is_told = |watch: &WatchHealth| watch.lists > 0 || watch.last_error.is_some();
        if !self.is_settled.load(Ordering::Acquire) && !watches.iter().all(is_told) {
            return Vec::new();
        }
        self.is_settled.store(true, Ordering::Release);
        let views: Vec<ClusterView> = clusters.iter().map(|cluster| self.view(cluster, now)).collect();
        let there: Vec<ObjectKey> = clusters.iter().map(|cluster| ObjectKey::of(cluster.as_ref())).collect();
        self.records().retain(|key, _| there.binary_search(key).is_ok());
        views
    }

    /// Follows the objects of a kind that a Cluster refers to.
    async fn follow(&self, reference: Option<&ContractVersionedObjectReference>) {
        let Some(reference) = reference else { return };
        let key = (reference.api_group.clone(), reference.kind.clone());
        if self.referred().contains_key(&key) {
            return;
        }
        // What cannot be found now is looked for the next time.
        let Ok(group) = kube::discovery::group(&self.client, &reference.api_group).await else { return };
        let Some((resource, _)) = group.recommended_kind(&reference.kind) else { return };
        let cache = self.running.manager().cache_of(&resource);
        self.referred().insert(key, cache);
    }

    fn view(&self, cluster: &Arc<Cluster>, now: Timestamp) -> ClusterView {
        let key = ObjectKey::of(cluster.as_ref());
        let infrastructure = self.object(&key, cluster.spec.infrastructure_ref.as_ref());
        let control_plane = self.object(&key, cluster.spec.control_plane_ref.as_ref());
        let machine_deployments = owned(self.deployments.find(&key.namespace, &key.name));
        let machine_pools = owned(self.pools.find(&key.namespace, &key.name));
        let machines = owned(self.machines.find(&key.namespace, &key.name));
        let uid = cluster.metadata.uid.as_deref().unwrap_or_default();
        let told = self.events.find(&key.namespace, uid);
        let version_changes: Vec<VersionChange> =
            told.iter().filter_map(|event| version_change(event)).collect();
        let objects = Described {
            cluster,
            infrastructure: infrastructure.as_ref(),
            control_plane: control_plane.as_ref(),
            machine_deployments: &machine_deployments,
            machine_pools: &machine_pools,
            machines: &machines,
            version_changes: &version_changes,
        };
        let mut described = ClusterDescription::of(objects, now);
        let mut records = self.records();
        let record = match records.get_mut(&key) {
            Some(record) => {
                record.look(objects, &described, now);
                record
            }
            None => records.entry(key).or_insert(LiveRecord::begin(objects, &described, now)),
        };
        let worst = &mut described.progress.worst_skew;
        *worst = record.worst_skew().max(*worst);
        let record = record.describe(now);
        ClusterView { described, record, events: events(&told), targets: self.targets(cluster) }
    }

    fn targets(&self, cluster: &Cluster) -> Vec<String> {
        let class = cluster.spec.topology.as_ref().and_then(|topology| {
            let reference = &topology.class_ref;
            let own = cluster.metadata.namespace.clone().unwrap_or_default();
            let namespace = Some(reference.namespace.clone()).filter(|name| !name.is_empty()).unwrap_or(own);
            self.classes.get(&ObjectKey { namespace, name: reference.name.clone() })
        });
        class.map(|class| class.spec.kubernetes_versions.clone()).unwrap_or_default()
    }

    fn object(&self, key: &ObjectKey, reference: Option<&ContractVersionedObjectReference>) -> Option<Value> {
        let reference = reference?;
        let caches = self.referred();
        let cache = caches.get(&(reference.api_group.clone(), reference.kind.clone()))?;
        let key = ObjectKey { namespace: key.namespace.clone(), name: reference.name.clone() };
        serde_json::to_value(cache.get(&key)?.as_ref()).ok()
    }

    fn records(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, LiveRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn referred(&self) -> MutexGuard<'_, BTreeMap<(String, String), Cache<DynamicObject>>> {
        self.referred.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Without the kinds of Cluster API there is nothing to show; without the rest there is less.
fn is_needed(group: &str) -> bool {
    group == windlass_api::names::CLUSTER_GROUP
}

fn owned<K: Kind>(objects: Vec<Arc<K>>) -> Vec<K> {
    objects.into_iter().map(|object| object.as_ref().clone()).collect()
}

/// The uid of the Cluster that an event is about.
fn about_cluster(event: &Event) -> Vec<String> {
    let about = &event.involved_object;
    let is_cluster = about.kind.as_deref() == Some(Cluster::KIND);
    about.uid.clone().filter(|_| is_cluster).into_iter().collect()
}

fn events(told: &[Arc<Event>]) -> Vec<EventView> {
    let mut views: Vec<EventView> = told
        .iter()
        .filter_map(|event| {
            let last = event.last_timestamp.as_ref().map(|time| time.0);
            Some(EventView {
                at: Time(last.or_else(|| first_seen(event))?),
                level: event.type_.clone().unwrap_or_default(),
                reason: event.reason.clone().unwrap_or_default(),
                message: event.message.clone().unwrap_or_default(),
                count: event.count.unwrap_or(1),
            })
        })
        .collect();
    views.sort_by(|a, b| b.at.0.cmp(&a.at.0).then_with(|| b.message.cmp(&a.message)));
    views.truncate(EVENTS);
    views
}
