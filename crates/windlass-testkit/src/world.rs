//! A management API in memory, and how tests read and write it.

use std::fmt::Debug;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::api_version;
use windlass_apiserver::ApiServer;
use windlass_controllers::external::plural;
use windlass_etcd::MemoryEtcd;
use windlass_runtime::{Clock, Faults, Manager};
use windlass_store::{History, Store};

/// The namespace of everything in a world.
pub const NAMESPACE: &str = "default";

/// What a world has.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    start: i64,
    seed: u64,
    kinds: Option<&'static [&'static str]>,
    workload: bool,
}

impl Options {
    /// The CRDs of all kinds, and no workload API.
    pub fn new() -> Self {
        Self { start: 1_767_225_600, seed: 1, kinds: None, workload: false }
    }

    /// The CRDs of these kinds only. Each one costs every test a little time.
    #[must_use]
    pub fn kinds(mut self, kinds: &'static [&'static str]) -> Self {
        self.kinds = Some(kinds);
        self
    }

    /// The clock starts so many seconds after 1970.
    #[must_use]
    pub fn starting_at(mut self, seconds: i64) -> Self {
        self.start = seconds;
        self
    }

    /// Seed of the names that the management API generates; the workload API has the next one.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// With a workload API beside the management API.
    #[must_use]
    pub fn with_workload(mut self) -> Self {
        self.workload = true;
        self
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::new()
    }
}

/// A management API in memory, a workload API where a test wants one, and a clock. Controllers are started by the test.
pub struct World {
    /// The management API.
    pub client: Client,
    /// Faults of the managers that this world makes.
    pub faults: Faults,
    clock: Clock,
    server: ApiServer,
    workload: Option<(Client, ApiServer)>,
    etcd: MemoryEtcd,
}

/// A kind that tests work with.
pub trait Object:
    Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Serialize
    + DeserializeOwned
    + Clone
    + Debug
{
}

impl<K> Object for K where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
{
}

impl World {
    /// Starts the APIs, and creates CRDs.
    pub async fn new(options: Options) -> Self {
        let clock = Clock::starting_at(Timestamp::from_second(options.start).unwrap());
        let server = async |seed: u64| {
            let options = windlass_apiserver::Options::new().seed(seed).clock(clock.clone());
            ApiServer::start(Store::in_memory(History::default()), options).await.unwrap()
        };
        let management = server(options.seed).await;
        let client = Client::new(management.service(), NAMESPACE);
        let workload = match options.workload {
            true => {
                let server = server(options.seed + 1).await;
                Some((Client::new(server.service(), NAMESPACE), server))
            }
            false => None,
        };
        let crds: Api<CustomResourceDefinition> = Api::all(client.clone());
        for crd in windlass_api::crds::all() {
            if options.kinds.is_none_or(|kinds| kinds.contains(&crd.spec.names.kind.as_str())) {
                crds.create(&PostParams::default(), &crd).await.unwrap();
            }
        }
        Self { client, faults: Faults::new(), clock, server: management, workload, etcd: MemoryEtcd::new() }
    }

    /// The clock, which follows paused time.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// A client of the workload API.
    pub fn workload(&self) -> &Client {
        &self.workload.as_ref().unwrap().0
    }

    /// The etcd of the workload API.
    pub fn etcd(&self) -> &MemoryEtcd {
        &self.etcd
    }

    /// A manager of controllers, as a process has one.
    pub fn manager(&self, seed: u64) -> Manager {
        let options =
            windlass_runtime::Options::new().clock(self.clock.clone()).seed(seed).faults(self.faults.clone());
        Manager::new(self.client.clone(), options)
    }

    /// Another connection to the management API, as a new process has one.
    pub fn reconnect(&mut self) {
        self.client = Client::new(self.server.service(), NAMESPACE);
    }

    /// Objects of a kind.
    pub fn api<K: Object>(&self) -> Api<K> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// Objects of a kind that is known by its name only.
    pub fn dynamic(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let resource =
            ApiResource::from_gvk_with_plural(&api_version::kind(api_version, kind), &plural(kind));
        if kind == "CustomResourceDefinition" {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    /// Creates an object; `apiVersion` and `kind` may be left out.
    pub async fn create<K: Object>(&self, object: Value) -> K {
        self.api::<K>()
            .create(&PostParams::default(), &serde_json::from_value(object).unwrap())
            .await
            .unwrap()
    }

    /// Creates an object from its name, further metadata and its spec.
    pub async fn create_named<K: Object>(&self, name: &str, metadata: Value, spec: Value) -> K {
        let mut object = json!({
            "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec,
        });
        object["metadata"]["name"] = name.into();
        self.create(object).await
    }

    /// Creates an object of the kind that it says.
    pub async fn create_dynamic(&self, object: Value) {
        let field = |name: &str| object[name].as_str().unwrap().to_owned();
        let api = self.dynamic(&field("apiVersion"), &field("kind"));
        let object: DynamicObject = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap();
    }

    /// An object that is there.
    pub async fn get<K: Object>(&self, name: &str) -> K {
        self.api::<K>().get(name).await.unwrap()
    }

    /// An object, if it is there.
    pub async fn find<K: Object>(&self, name: &str) -> Option<K> {
        self.api::<K>().get_opt(name).await.unwrap()
    }

    /// All objects of a kind, by name.
    pub async fn list<K: Object>(&self) -> Vec<K> {
        let mut found = self.api::<K>().list(&ListParams::default()).await.unwrap().items;
        found.sort_by_key(ResourceExt::name_any);
        found
    }

    /// Merges a patch into an object.
    pub async fn patch<K: Object>(&self, name: &str, patch: Value) {
        self.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Merges a patch into the status of an object, as its provider would.
    pub async fn patch_status<K: Object>(&self, name: &str, status: Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.api::<K>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    }

    /// Deletes an object; what it owns goes after it.
    pub async fn delete<K: Object>(&self, name: &str) {
        self.api::<K>().delete(name, &DeleteParams::background()).await.unwrap();
    }

    /// Lets time pass.
    pub async fn seconds(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }
}

/// Puts the fields of one value over those of another.
pub fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}
