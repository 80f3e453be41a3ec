//! An API with one Cluster and its templates, the two controllers, and a fake that brings machines up.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{
    Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams,
};
use kube::{Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::crds;
use windlass_apiserver::ApiServer;
use windlass_controllers::external::Externals;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_controllers::{machine_deployment, machine_set};
use windlass_engine::condition::{self, Finding};
use windlass_reconcile::{
    Cache, Clock, Context, Faults, Manager, ObjectKey, Options, Outcome, Reconciler, Running, WriteError,
};
use windlass_store::{History, Store};

/// How long a machine takes to come up.
const BOOT: Duration = Duration::from_secs(60);

/// The kinds that are needed here; making room for all of them takes longer than most tests.
const KINDS: [&str; 9] = [
    "Cluster",
    "MachineDeployment",
    "MachineSet",
    "Machine",
    "DevMachineTemplate",
    "DevMachine",
    "KubeadmConfigTemplate",
    "KubeadmConfig",
    "KubeadmControlPlane",
];

pub(crate) struct World {
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    clock: Clock,
    seen: Arc<Mutex<Seen>>,
    _server: ApiServer,
}

/// What the fake saw of the machines.
#[derive(Default, Debug)]
pub(crate) struct Seen {
    pub(crate) names: BTreeSet<String>,
    pub(crate) most: usize,
    /// The fewest that were available since [`World::watch_availability`].
    pub(crate) least_available: Option<usize>,
    watching: bool,
}

impl World {
    pub(crate) async fn new() -> Self {
        let start = Timestamp::from_second(1_767_225_600).unwrap();
        let clock = windlass_apiserver::Clock::starting_at(start.into());
        let options = windlass_apiserver::Options::new().seed(1).clock(clock);
        let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
        let client = Client::new(server.service(), "default");
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in
            crds::all().into_iter().filter(|definition| KINDS.contains(&definition.spec.names.kind.as_str()))
        {
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        let world = Self {
            client,
            faults: Faults::new(),
            clock: Clock::starting_at(start),
            seen: Arc::default(),
            _server: server,
        };
        world
            .put::<Cluster>(
                json!({"metadata": {"name": "c1"}, "spec": {"clusterNetwork": {"serviceDomain": "x"}}}),
            )
            .await;
        world.infrastructure("i1").await;
        let template = json!({"metadata": {"name": "b1"}, "spec": {"template": {"spec": {"verbosity": 1}}}});
        world.put_dynamic("bootstrap", "KubeadmConfigTemplate", template).await;
        world
    }

    /// An infrastructure template.
    pub(crate) async fn infrastructure(&self, name: &str) {
        let machine = json!({"metadata": {"labels": {"rack": "7"}}, "spec": {"backend": {"inMemory": {}}}});
        let template = json!({"metadata": {"name": name}, "spec": {"template": machine}});
        self.put_dynamic("infrastructure", "DevMachineTemplate", template).await;
    }

    /// Starts the controllers and the fake, as a process would.
    pub(crate) fn start(&self, seed: u64) -> Running {
        let options = Options::new().clock(self.clock.clone()).seed(seed).faults(self.faults.clone());
        let manager = Manager::new(self.client.clone(), options);
        let externals = Externals::new();
        machine_deployment::register(&manager, &externals, &InPlaceExtensions::none());
        machine_set::register(&manager, &externals);
        let (machines, deployments): (Cache<Machine>, Cache<MachineDeployment>) =
            (manager.cache(), manager.cache());
        let all = machines.clone();
        manager
            .controller("fake", &machines)
            .watches(&deployments, move |_| {
                all.list().iter().map(|machine| ObjectKey::of(machine.as_ref())).collect()
            })
            .register(Fake { machines: machines.clone(), deployments, seen: Arc::clone(&self.seen) });
        manager.start()
    }

    /// A MachineDeployment `md`.
    pub(crate) async fn deploy(&self, over: Value) {
        let mut md = json!({
            "metadata": {"name": "md"},
            "spec": {
                "clusterName": "c1", "replicas": 3, "selector": {"matchLabels": {"pool": "a"}},
                "template": {
                    "metadata": {"labels": {"pool": "a"}},
                    "spec": {
                        "clusterName": "c1", "version": "v1.31.0",
                        "bootstrap": {"configRef":
                            {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "b1"}},
                        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                            "kind": "DevMachineTemplate", "name": "i1"},
                    },
                },
            },
        });
        merge(&mut md, over);
        self.put::<MachineDeployment>(md).await;
    }

    /// A MachineSet that belongs to no MachineDeployment.
    pub(crate) async fn set(&self, name: &str, over: Value) {
        let mut set = json!({
            "metadata": {"name": name, "labels": {"machine-template-hash": name}},
            "spec": {
                "clusterName": "c1", "replicas": 2, "selector": {"matchLabels": {"machine-template-hash": name}},
                "template": {
                    "metadata": {"labels": {"machine-template-hash": name}},
                    "spec": {
                        "clusterName": "c1", "version": "v1.31.0", "bootstrap": {"dataSecretName": "s"},
                        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                            "kind": "DevMachineTemplate", "name": "i1"},
                    },
                },
            },
        });
        merge(&mut set, over);
        self.put::<MachineSet>(set).await;
    }

    pub(crate) async fn put<K>(&self, object: Value) -> K
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
        K: serde::Serialize,
    {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap()
    }

    pub(crate) async fn put_dynamic(&self, group: &str, kind: &str, object: Value) {
        let (api, resource) = self.dynamic(group, kind);
        let mut object: DynamicObject = serde_json::from_value(object).unwrap();
        object.types = Some(kube::api::TypeMeta { api_version: resource.api_version, kind: resource.kind });
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    pub(crate) fn dynamic(&self, group: &str, kind: &str) -> (Api<DynamicObject>, ApiResource) {
        let gvk = GroupVersionKind::gvk(&format!("{group}.cluster.x-k8s.io"), "v1beta2", kind);
        let resource = ApiResource::from_gvk(&gvk);
        (Api::default_namespaced_with(self.client.clone(), &resource), resource)
    }

    pub(crate) async fn edit<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn edit_status<K>(&self, name: &str, patch: Value)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    pub(crate) async fn delete<K>(&self, name: &str)
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        api.delete(name, &Default::default()).await.unwrap();
    }

    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let api: Api<K> = Api::default_namespaced(self.client.clone());
        let mut found = api.list(&ListParams::default()).await.unwrap().items;
        found.sort_by_key(ResourceExt::name_any);
        found
    }

    pub(crate) async fn md(&self) -> MachineDeployment {
        self.list().await.remove(0)
    }

    /// The versions of all machines, sorted.
    pub(crate) async fn versions(&self) -> Vec<String> {
        let mut versions: Vec<String> =
            self.list::<Machine>().await.into_iter().map(|machine| machine.spec.version).collect();
        versions.sort();
        versions
    }

    pub(crate) async fn events(&self, reason: &str) -> Vec<String> {
        let events = self.list::<Event>().await.into_iter();
        events
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter_map(|event| event.message)
            .collect()
    }

    /// Reports from now on how few machines were available.
    pub(crate) fn watch_availability(&self) {
        let mut seen = self.seen.lock().unwrap();
        (seen.watching, seen.least_available, seen.most) = (true, None, 0);
    }

    pub(crate) fn seen<T>(&self, read: impl FnOnce(&Seen) -> T) -> T {
        read(&self.seen.lock().unwrap())
    }
}

/// Waits until nothing happens any more, for at most some hours.
pub(crate) async fn settle(running: &Running) {
    for _ in 0..400 {
        let idle = running.manager().idle().await;
        match idle.until {
            None => return,
            Some(_) => tokio::time::sleep(Duration::from_secs(30)).await,
        }
    }
}

/// The status, reason and message of a condition.
pub(crate) fn said(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    type_: &str,
) -> (String, String, String) {
    let found = condition::find(conditions, type_).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}

/// Brings machines up after a while, and says of them whether they are up to date.
struct Fake {
    machines: Cache<Machine>,
    deployments: Cache<MachineDeployment>,
    seen: Arc<Mutex<Seen>>,
}

impl Reconciler for Fake {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        self.look();
        let Some(machine) = self.machines.get(key) else { return Ok(Outcome::done()) };
        let created = machine.metadata.creation_timestamp.as_ref().unwrap().0;
        let age = context.now().duration_since(created);
        let up_after = Duration::from_secs(u64::try_from(age.as_secs()).unwrap());
        let up = up_after >= BOOT;
        let mut conditions = machine.status.conditions.clone();
        let mut set = |finding: Finding| {
            condition::set(&mut conditions, finding, machine.metadata.generation, context.now());
        };
        for type_ in ["Ready", "Available"] {
            set(if up { Finding::yes(type_, type_) } else { Finding::no(type_, "NotReady") });
        }
        let label = machine.metadata.labels.as_ref().and_then(|l| l.get("cluster.x-k8s.io/deployment-name"));
        if let Some(md) = label.and_then(|name| self.deployments.get(&ObjectKey::new(&key.namespace, name))) {
            let (is, wanted) = (&machine.spec.version, &md.spec.template.spec.version);
            let message = format!("* Version {is}, {wanted} required");
            let not = Finding::no("UpToDate", "NotUpToDate").because(message);
            set(if is == wanted { Finding::yes("UpToDate", "UpToDate") } else { not });
        }
        if conditions != machine.status.conditions {
            let node = up.then(|| json!({"name": key.name}));
            let patch = json!({"status": {"conditions": conditions, "nodeRef": node}});
            context.writer::<Machine>().patch_status(&machine, patch).await?;
        }
        Ok(if up { Outcome::done() } else { Outcome::after(BOOT.saturating_sub(up_after)) })
    }
}

impl Fake {
    fn look(&self) {
        let machines = self.machines.list();
        let available = |machine: &&Arc<Machine>| {
            condition::is_true(&machine.status.conditions, "Available")
                && machine.metadata.deletion_timestamp.is_none()
        };
        let available = machines.iter().filter(available).count();
        let mut seen = self.seen.lock().unwrap();
        seen.most = seen.most.max(machines.len());
        seen.names.extend(machines.iter().map(|machine| machine.name_any()));
        if seen.watching {
            seen.least_available = Some(seen.least_available.map_or(available, |least| least.min(available)));
        }
    }
}

pub(crate) fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}
