//! A small controller: a ConfigMap wants as many Secrets as it says, with names that are not known in advance.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use windlass_apiserver::ApiServer;
use windlass_runtime::{
    Cache, Clock, Context, Faults, Manager, ObjectKey, Options, Outcome, Reconciler, Running, Troubled,
    WriteError,
};
use windlass_store::{History, Store};

/// Makes as many Secrets as the ConfigMap wants, and says how many there are.
pub(crate) struct Replicas {
    sets: Cache<ConfigMap>,
    secrets: Cache<Secret>,
    /// The most Secrets of one set that were ever seen together.
    pub(crate) most: Arc<AtomicUsize>,
}

impl Reconciler for Replicas {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        let Some(set) = self.sets.get(key) else { return Ok(Outcome::done()) };
        let Some(wanted) = wanted(&set) else { return Ok(Outcome::done()) };
        let owned = self.secrets.owned_by(&set.uid().unwrap_or_default());
        self.most.fetch_max(owned.len(), Ordering::Relaxed);
        let secrets = context.writer::<Secret>();
        for _ in owned.len()..wanted {
            secrets.create(&secret(&set, &format!("{}-{}", key.name, context.name_suffix("Secret")))).await?;
        }
        for surplus in owned.iter().skip(wanted) {
            secrets.delete(surplus).await?;
        }
        let count = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": key.name, "namespace": key.namespace}, "data": {"count": owned.len().to_string()}});
        context.writer::<ConfigMap>().apply("replicas", &count).await?;
        Ok(Outcome::done())
    }
}

fn wanted(set: &ConfigMap) -> Option<usize> {
    set.data.as_ref()?.get("wanted")?.parse().ok()
}

fn secret(set: &ConfigMap, name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.namespace = set.namespace();
    secret.metadata.labels = Some([("set".to_owned(), set.name_any())].into());
    secret.metadata.owner_references = set.controller_owner_ref(&()).map(|owner| vec![owner]);
    secret
}

/// An API with nothing on it, and controllers that can be started, killed and started again.
pub(crate) struct World {
    pub(crate) server: ApiServer,
    pub(crate) client: Client,
    pub(crate) faults: Faults,
    pub(crate) clock: Clock,
    pub(crate) most: Arc<AtomicUsize>,
}

impl World {
    pub(crate) async fn new() -> Self {
        Self::with_history(History::default()).await
    }

    pub(crate) async fn with_history(history: History) -> Self {
        let start = Timestamp::from_second(1_767_225_600).unwrap();
        let clock = Clock::starting_at(start);
        let options = windlass_apiserver::Options::new().seed(1).clock(clock.clone());
        let server = ApiServer::start(Store::in_memory(history), options).await.unwrap();
        let client = Client::new(server.service(), "default");
        Self { server, client, faults: Faults::new(), clock, most: Arc::default() }
    }

    pub(crate) fn manager(&self, seed: u64) -> Manager {
        let options = Options::new().clock(self.clock.clone()).seed(seed).faults(self.faults.clone());
        let client = Client::new(Troubled::new(self.server.service(), self.faults.clone()), "default");
        Manager::new(client, options)
    }

    /// Starts the controller, as a process would.
    pub(crate) fn start(&self, seed: u64) -> Running {
        self.run(self.manager(seed))
    }

    fn run(&self, manager: Manager) -> Running {
        let (sets, secrets) = (manager.cache(), manager.cache());
        let reconciler =
            Replicas { sets: sets.clone(), secrets: secrets.clone(), most: Arc::clone(&self.most) };
        manager.controller("replicas", &sets).owns(&secrets).register(reconciler);
        manager.start()
    }

    pub(crate) async fn want(&self, name: &str, count: usize) {
        let set = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"wanted": count.to_string()}});
        self.sets().patch(name, &PatchParams::apply("user").force(), &Patch::Apply(&set)).await.unwrap();
    }

    pub(crate) async fn create(&self, map: serde_json::Value) -> ConfigMap {
        self.sets().create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await.unwrap()
    }

    /// The names of the Secrets of a set.
    pub(crate) async fn secrets(&self, set: &str) -> Vec<String> {
        let api: Api<Secret> = Api::default_namespaced(self.client.clone());
        let found = api.list(&ListParams::default().labels(&format!("set={set}"))).await.unwrap();
        found.iter().map(ResourceExt::name_any).collect()
    }

    /// What the controller wrote about a set, or nothing if it has not written yet.
    pub(crate) async fn count(&self, set: &str) -> Option<String> {
        self.sets().get(set).await.unwrap().data?.remove("count")
    }

    pub(crate) fn sets(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    pub(crate) fn most(&self) -> usize {
        self.most.load(Ordering::Relaxed)
    }
}

#[tokio::test(start_paused = true)]
async fn a_controller_makes_what_is_wanted() {
    let world = World::new().await;
    world.want("a", 3).await;
    let running = world.start(1);
    let idle = running.manager().idle().await;
    assert_eq!(idle.until, None, "no timer is set");
    assert_eq!((world.secrets("a").await.len(), world.count("a").await.as_deref()), (3, Some("3")));

    world.want("a", 1).await;
    running.manager().idle().await;
    assert_eq!((world.secrets("a").await.len(), world.count("a").await.as_deref()), (1, Some("1")));
    running.stop(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn only_objects_with_the_label_of_this_process_are_reconciled() {
    let world = World::new().await;
    for (name, labels) in
        [("mine", json!({"for": "me"})), ("other", json!({"for": "you"})), ("bare", json!({}))]
    {
        world.create(json!({"metadata": {"name": name, "labels": labels}, "data": {"wanted": "2"}})).await;
    }
    let options = Options::new().clock(world.clock.clone()).seed(1).only_labelled("for", "me");
    let running = world.run(Manager::new(world.client.clone(), options));
    running.manager().idle().await;
    let counts = async || {
        let counts = ["mine", "other", "bare"].map(|name| world.secrets(name));
        futures_util::future::join_all(counts).await.iter().map(Vec::len).collect::<Vec<_>>()
    };
    assert_eq!(counts().await, [2, 0, 0]);

    let label = json!({"metadata": {"labels": {"for": "me"}}});
    world.sets().patch("bare", &PatchParams::default(), &Patch::Merge(&label)).await.unwrap();
    running.manager().idle().await;
    assert_eq!(counts().await, [2, 0, 2]);
    running.stop(Duration::from_secs(1)).await;
}

#[tokio::test(start_paused = true)]
async fn selectors_find_objects_by_their_labels() {
    let world = World::new().await;
    world.want("a", 2).await;
    world.want("b", 1).await;
    let running = world.start(1);
    running.manager().idle().await;
    let secrets: Cache<Secret> = running.manager().cache();
    let count = |selector: serde_json::Value| {
        secrets.select("default", &serde_json::from_value(selector).unwrap()).map(|found| found.len())
    };
    assert_eq!(count(json!({"matchLabels": {"set": "a"}})), Ok(2));
    assert_eq!(count(json!({"matchLabels": {"set": "a", "other": "x"}})), Ok(0));
    let not_a =
        json!([{"key": "set", "operator": "NotIn", "values": ["a"]}, {"key": "set", "operator": "Exists"}]);
    assert_eq!(count(json!({"matchExpressions": not_a})), Ok(1));
    assert_eq!(count(json!({"matchLabels": {"set": "a"}, "matchExpressions": not_a})), Ok(0));
    let wrong = count(json!({"matchExpressions": [{"key": "set", "operator": "Like"}]})).unwrap_err();
    assert!(wrong.to_string().starts_with("invalid selector: "), "{wrong}");
    assert_eq!(secrets.in_namespace("default").len(), secrets.list().len());
}

/// In real time on several threads, where nothing says in which order things happen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_time_and_threads_make_nothing_twice() {
    let server = ApiServer::start(Store::in_memory(History::default()), windlass_apiserver::Options::new());
    let server = server.await.unwrap();
    let client = Client::new(server.service(), "default");
    let world = World { server, client, faults: Faults::new(), clock: Clock::real(), most: Arc::default() };
    let running = world.start(1);
    for wanted in [2, 7, 4, 9] {
        for name in ["a", "b", "c"] {
            world.want(name, wanted).await;
        }
    }
    let settled = async {
        for name in ["a", "b", "c"] {
            while world.secrets(name).await.len() != 9 || world.count(name).await.as_deref() != Some("9") {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), settled).await.unwrap();
    running.manager().idle().await;
    assert!(world.most() <= 9);
    running.stop(Duration::from_secs(10)).await;
}
