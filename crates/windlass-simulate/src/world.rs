//! A world: an API in memory, everything that acts on it, and a virtual clock.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::Request;
use kube::{Client, ResourceExt};
use serde_json::Value;
use tokio::time::{Instant, sleep, sleep_until};
use windlass_api::api_version;
use windlass_api::runtime::ExtensionConfig;
use windlass_apiserver::{Admission, ApiServer};
use windlass_engine::features::Features;
use windlass_inmemory::Provider;
use windlass_manager::{Controller, EmbeddedAdmission, Plane, Selection, convert_in_process};
use windlass_runtime::{
    Clock, Ended, Faults, Idle, Kind, Manager, ObjectKey, Options, Running, Troubled, named,
};
use windlass_store::{History, Resource, Scope, Store};

mod restore;

use crate::extension::SimulatedExtension;
use crate::recorder::{Observer, Recorder, Violation, decode, resource_of, resource_of_dynamic};

/// How often a condition is looked at while controllers are busy.
const GLANCE: Duration = Duration::from_secs(1);

/// Adds what acts in a world to a manager: called at the start and at every restart, as `main` would be.
pub type Setup = Arc<dyn Fn(&Start<'_>) + Send + Sync>;

/// What a [`Setup`] is given.
pub struct Start<'a> {
    /// Where controllers are registered.
    pub manager: &'a Manager,
    /// The API.
    pub client: &'a Client,
    /// The clock of the world, for APIs of workload clusters.
    pub clock: &'a Clock,
    /// What chance comes from. Another one after each restart.
    pub seed: u64,
    /// What the chance of the in-memory provider comes from: how long machines take. The same after each restart.
    pub machine_seed: u64,
    /// Which features are on.
    pub features: Features,
    /// The in-memory provider, if one was made at an earlier start: its workload clusters outlive those who manage them.
    pub provider: &'a Mutex<Option<Provider>>,
}

/// How a world begins.
#[derive(Clone)]
pub struct WorldOptions {
    /// What all chance comes from: the same seed, the same story.
    pub seed: u64,
    /// What the chance of machines comes from, if it is another.
    pub machine_seed: Option<u64>,
    /// When it begins.
    pub start: Timestamp,
    /// Which kinds there are besides those of Kubernetes: CustomResourceDefinitions.
    pub crds: Vec<Value>,
    /// What acts in it.
    pub setup: Setup,
    /// What acts before everything else in a world that is [restored](World::restored), until it has nothing more to do:
    /// what is outside of the management cluster, and was there all the time.
    pub prelude: Option<Setup>,
    /// Whether what is stored is defaulted and checked as `windlass up` does it.
    pub has_admission: bool,
    /// What else has a say in what is stored.
    pub admission: Vec<Arc<dyn Admission>>,
    /// Which features are on.
    pub features: Features,
}

impl WorldOptions {
    /// All kinds of Cluster API, admission, all controllers, and the in-memory provider; on the first day of 2026.
    pub fn new(seed: u64) -> Self {
        Self::extended_by(seed, &SimulatedExtension::new())
    }

    /// The same, with an extension that can be registered.
    pub fn extended_by(seed: u64, extension: &SimulatedExtension) -> Self {
        let plane = |extension: SimulatedExtension, start: &Start<'_>| {
            let mut slot = start.provider.lock().unwrap_or_else(PoisonError::into_inner);
            let provider =
                slot.get_or_insert_with(|| Provider::isolated(start.clock.clone(), start.machine_seed));
            Plane {
                client: start.client.clone(),
                hooks: extension.client_of(start.client),
                provider: Some(provider.clone()),
                features: start.features,
            }
        };
        let of_setup = extension.clone();
        let setup = move |start: &Start<'_>| plane(of_setup.clone(), start).register(start.manager);
        let of_prelude = extension.clone();
        let prelude = move |start: &Start<'_>| {
            let extensions = Selection::of([Controller::ExtensionConfig]);
            plane(of_prelude.clone(), start).register_selected(start.manager, &extensions);
        };
        let options = Self::with(seed, windlass_api::crds::manifests(), Arc::new(setup));
        Self { has_admission: true, prelude: Some(Arc::new(prelude)), ..options }
    }

    /// Only these kinds, and what is set up; no admission.
    pub fn with(seed: u64, crds: Vec<Value>, setup: Setup) -> Self {
        // Any day will do, as long as it is the same every time.
        let start = Timestamp::from_second(1_767_225_600).unwrap_or_default();
        Self {
            seed,
            machine_seed: None,
            start,
            crds,
            setup,
            prelude: None,
            has_admission: false,
            admission: Vec::new(),
            features: Features::default(),
        }
    }
}

/// A cluster of controllers and what they control, in virtual time.
///
/// Needs a current-thread runtime with a paused clock: then nothing takes any time that is not waited for on purpose,
/// and everything that happens depends on the seed alone.
pub struct World {
    server: ApiServer,
    client: Client,
    options: WorldOptions,
    clock: Clock,
    faults: Faults,
    recorder: Recorder,
    running: Option<Running>,
    starts: u64,
    provider: Mutex<Option<Provider>>,
}

/// Why a world could not go on.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorldError {
    /// The API could not be started.
    #[error("the API did not start: {reason}")]
    Start {
        /// Why.
        reason: String,
    },
    /// A manifest is not valid YAML, or not an object.
    #[error("invalid manifest: {reason}")]
    Manifest {
        /// What is wrong.
        reason: String,
    },
    /// The API refused something.
    #[error("cannot {what}: {reason}")]
    Refused {
        /// What was tried.
        what: String,
        /// Why not.
        reason: String,
    },
    /// A rule was broken.
    #[error("a rule is broken: {0}")]
    Violation(#[from] Violation),
    /// What was waited for did not happen.
    #[error(transparent)]
    NotReached(#[from] NotReached),
}

/// What was waited for, and what it waits on in turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReached {
    /// What was waited for.
    pub goal: String,
    /// How long.
    pub waited: Duration,
    /// Whether nothing will happen any more, so that waiting longer makes no difference.
    pub is_final: bool,
    /// What stands in the way, as far as it is known.
    pub waiting_on: Vec<String>,
}

impl fmt::Display for NotReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (goal, seconds) = (&self.goal, self.waited.as_secs());
        match self.is_final {
            true => write!(f, "{goal}: not reached, and nothing will happen any more after {seconds} s")?,
            false => write!(f, "{goal}: not reached within {seconds} s")?,
        }
        for line in &self.waiting_on {
            write!(f, "\n  waiting on {line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for NotReached {}

impl World {
    /// Begins a world: an API with the CRDs and nothing else, and everything that acts on it.
    pub async fn begin(options: WorldOptions) -> Result<Self, WorldError> {
        let mut world = Self::empty(options).await?;
        for crd in &world.options.crds {
            world.define(crd).await?;
        }
        world.start();
        Ok(world)
    }

    async fn empty(options: WorldOptions) -> Result<Self, WorldError> {
        let clock = Clock::starting_at(options.start);
        let store = Store::in_memory(History::default());
        let mut server_options = windlass_apiserver::Options::new().seed(options.seed).clock(clock.clone());
        server_options = convert_in_process(server_options, &store);
        let admission = EmbeddedAdmission::with_features(options.features);
        if options.has_admission {
            server_options = admission.add_to(server_options);
        }
        for hook in &options.admission {
            server_options = server_options.admission(Arc::clone(hook));
        }
        let server = ApiServer::start(store, server_options)
            .await
            .map_err(|failure| WorldError::Start { reason: failure.to_string() })?;
        let client = Client::new(server.service(), "default");
        admission.connect(client.clone());
        let recorder = Recorder::start(server.store(), clock.clone())
            .map_err(|expired| WorldError::Start { reason: expired.to_string() })?;
        let faults = Faults::new();
        faults.seed_layers(options.seed);
        Ok(Self {
            server,
            client,
            options,
            clock,
            faults,
            recorder,
            running: None,
            starts: 0,
            provider: Mutex::default(),
        })
    }

    /// Creates a CRD. Applying one would keep track of who owns each of its thousands of fields.
    async fn define(&self, crd: &Value) -> Result<(), WorldError> {
        let path = Request::new("/apis/apiextensions.k8s.io/v1/customresourcedefinitions");
        let refused = |error: kube::Error| self.refused("define a kind", &error);
        let request = path.create(&PostParams::default(), crd.to_string().into_bytes());
        let request = request.map_err(|error| refused(kube::Error::BuildRequest(error)))?;
        self.client.request::<DynamicObject>(request).await.map(|_| ()).map_err(refused)
    }

    /// Starts everything that acts, as a new process would.
    fn start(&mut self) {
        self.running = Some(self.started(&Arc::clone(&self.options.setup)));
        self.starts += 1;
    }

    fn started(&self, setup: &Setup) -> Running {
        let seed = self.options.seed.wrapping_add(self.starts.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let options = Options::new().clock(self.clock.clone()).seed(seed).faults(self.faults.clone());
        // Troubles strike those who act, and not the user who tells them what to do.
        let troubled = Troubled::new(self.server.service(), self.faults.clone());
        let client = Client::new(named(troubled), "default");
        let manager = Manager::new(client.clone(), options);
        let provider = &self.provider;
        let start = Start {
            manager: &manager,
            client: &client,
            clock: &self.clock,
            seed,
            machine_seed: self.options.machine_seed.unwrap_or(seed),
            features: self.options.features,
            provider,
        };
        setup(&start);
        manager.start()
    }

    /// Kills everything that acts, as `kill -9` would, and starts it again. The API and what is in it stay, and so do
    /// the workload clusters of the in-memory provider.
    pub async fn restart(&mut self) {
        self.kill().await;
        self.start();
    }

    /// Kills everything that acts, and starts it again with a seed of its own.
    pub async fn restart_with(&mut self, seed: u64) {
        self.options.seed = seed;
        self.starts = 0;
        self.restart().await;
    }

    /// Forgets the workload clusters of the in-memory provider, as the end of its process would. It builds them anew
    /// after the next restart.
    pub fn forget_workloads(&self) {
        *self.provider.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Kills everything that acts.
    pub async fn kill(&mut self) {
        self.running = None;
        // Aborted tasks go at their next turn.
        sleep(Duration::from_millis(1)).await;
    }

    /// Applies the objects of a YAML text, in their order, as `kubectl apply --server-side` does.
    pub async fn apply(&self, yaml: &str) -> Result<(), WorldError> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(yaml)
            .map_err(|error| WorldError::Manifest { reason: error.without_snippet().to_string() })?;
        let objects: Vec<Value> = documents.into_iter().filter(|document| !document.is_null()).collect();
        self.apply_objects(&objects).await
    }

    /// Applies objects in the name of the user, in their order.
    pub async fn apply_objects(&self, objects: &[Value]) -> Result<(), WorldError> {
        for object in objects {
            self.apply_object(object).await?;
        }
        Ok(())
    }

    /// Applies one object in the name of the user.
    pub async fn apply_object(&self, object: &Value) -> Result<DynamicObject, WorldError> {
        let wrong = |reason: &str| WorldError::Manifest { reason: reason.to_owned() };
        let api_version =
            object["apiVersion"].as_str().ok_or_else(|| wrong("an object has no apiVersion"))?;
        let kind = object["kind"].as_str().ok_or_else(|| wrong("an object has no kind"))?;
        let name = object["metadata"]["name"].as_str().ok_or_else(|| wrong("an object has no name"))?;
        let (resource, namespaced) = self.resource(api_version, kind).await?;
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or("default");
        let path = <DynamicObject as kube::Resource>::url_path(&resource, namespaced.then_some(namespace));
        let parameters = PatchParams::apply("user").force();
        let request = Request::new(path).patch(name, &parameters, &Patch::Apply(object));
        let refused = |error: kube::Error| self.refused(&format!("apply {kind} {name}"), &error);
        let request = request.map_err(|error| refused(kube::Error::BuildRequest(error)))?;
        self.client.request(request).await.map_err(refused)
    }

    /// Merges a patch into an object in the name of the user.
    pub async fn patch<K: Kind>(&self, key: &ObjectKey, patch: Value) -> Result<K, WorldError>
    where
        K::DynamicType: Default,
    {
        self.patch_of(&K::DynamicType::default(), key, patch).await
    }

    /// Merges a patch into an object of a kind known at run time.
    pub async fn patch_of<K: Kind>(
        &self,
        dynamic: &K::DynamicType,
        key: &ObjectKey,
        patch: Value,
    ) -> Result<K, WorldError> {
        let path = Request::new(K::url_path(dynamic, key.namespace()));
        let refused = |error: kube::Error| self.refused(&format!("patch {} {key}", K::kind(dynamic)), &error);
        let parameters = PatchParams { field_manager: Some("user".to_owned()), ..PatchParams::default() };
        let request = path.patch(&key.name, &parameters, &Patch::Merge(patch));
        let request = request.map_err(|error| refused(kube::Error::BuildRequest(error)))?;
        self.client.request(request).await.map_err(refused)
    }

    /// Deletes an object in the name of the user.
    pub async fn delete<K: Kind>(&self, key: &ObjectKey) -> Result<(), WorldError>
    where
        K::DynamicType: Default,
    {
        self.delete_of::<K>(&K::DynamicType::default(), key).await
    }

    /// Deletes an object of a kind known at run time.
    pub async fn delete_of<K: Kind>(
        &self,
        dynamic: &K::DynamicType,
        key: &ObjectKey,
    ) -> Result<(), WorldError> {
        let path = Request::new(K::url_path(dynamic, key.namespace()));
        let refused =
            |error: kube::Error| self.refused(&format!("delete {} {key}", K::kind(dynamic)), &error);
        let request = path.delete(&key.name, &kube::api::DeleteParams::background());
        let request = request.map_err(|error| refused(kube::Error::BuildRequest(error)))?;
        self.client.request_status::<K>(request).await.map(|_| ()).map_err(refused)
    }

    /// All objects of a kind, as they are in the store now.
    pub fn list<K: Kind>(&self) -> Vec<K>
    where
        K::DynamicType: Default,
    {
        let Ok(resource) = Resource::new(&resource_of::<K>()) else { return Vec::new() };
        let snapshot = self.server.store().snapshot();
        snapshot.list(&Scope::Resource(resource)).filter_map(|object| decode(object.value())).collect()
    }

    /// One object, as it is in the store now.
    pub fn get<K: Kind>(&self, key: &ObjectKey) -> Option<K>
    where
        K::DynamicType: Default,
    {
        self.get_of(&K::DynamicType::default(), key)
    }

    /// One object of a kind known at run time.
    pub fn get_of<K: Kind>(&self, dynamic: &K::DynamicType, key: &ObjectKey) -> Option<K> {
        let resource = Resource::new(&resource_of_dynamic::<K>(dynamic)).ok()?;
        let key = windlass_store::Key::new(&resource, &key.namespace, &key.name).ok()?;
        decode(self.server.store().get(&key)?.value())
    }

    /// An ExtensionConfig, as it is in the store now.
    pub fn extension_config(&self, name: &str) -> Option<ExtensionConfig> {
        self.get(&ObjectKey::new("", name))
    }

    /// Looks at every write from now on. A rule that is broken ends the next [`World::run_until`].
    pub fn observe(&self, observer: impl Observer) {
        self.recorder.add(observer);
    }

    /// Lets time pass until something is true, for at most `limit`.
    ///
    /// # Errors
    ///
    /// If it does not become true, with what is waited on; if a rule is broken.
    pub async fn run_until(
        &mut self,
        goal: &str,
        limit: Duration,
        mut reached: impl FnMut(&Self) -> bool,
    ) -> Result<(), WorldError> {
        let (begun, deadline) = (Instant::now(), Instant::now() + limit);
        loop {
            let idle = self.glance(deadline).await;
            if let Some(violation) = self.recorder.violation() {
                return Err(violation.into());
            }
            if reached(self) {
                return Ok(());
            }
            let next = idle.map(|idle| idle.routine);
            let is_final = next == Some(None);
            if is_final || Instant::now() >= deadline {
                let (goal, waited) = (goal.to_owned(), begun.elapsed());
                return Err(NotReached { goal, waited, is_final, waiting_on: self.waiting_on() }.into());
            }
            if let Some(until) = next.flatten() {
                let wait = Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default();
                sleep_until((Instant::now() + wait).min(deadline)).await;
            }
        }
    }

    /// Lets time pass until nothing will happen any more, except for matters of routine.
    pub async fn run_until_idle(&mut self, limit: Duration) -> Result<(), WorldError> {
        let deadline = Instant::now() + limit;
        loop {
            let idle = self.glance(deadline).await;
            if let Some(violation) = self.recorder.violation() {
                return Err(violation.into());
            }
            match idle.map(|idle| idle.until) {
                Some(None) => return Ok(()),
                Some(Some(until)) => {
                    let wait = Duration::try_from(until.duration_since(self.clock.now())).unwrap_or_default();
                    sleep_until((Instant::now() + wait).min(deadline)).await;
                }
                None => {}
            }
            if Instant::now() >= deadline {
                let goal = "nothing left to do".to_owned();
                let waiting_on = self.waiting_on();
                return Err(NotReached { goal, waited: limit, is_final: false, waiting_on }.into());
            }
        }
    }

    /// Waits until all tasks are idle, or for a moment.
    async fn glance(&mut self, deadline: Instant) -> Option<Idle> {
        let Some(manager) = self.running.as_ref().map(|running| running.manager().clone()) else {
            sleep_until(deadline).await;
            return None;
        };
        tokio::select! {
            biased;
            idle = manager.idle() => Some(idle),
            () = sleep_until((Instant::now() + GLANCE).min(deadline)) => None,
        }
    }

    /// Lets everything run until it ends by itself, which only a fault can make it do, or until it has nothing to do
    /// before `limit`. Says how it ended, if it did.
    pub async fn run_to_the_end(&mut self, limit: Duration) -> Option<Ended> {
        let running = self.running.as_mut()?;
        tokio::select! {
            biased;
            ended = running.ended() => {
                self.running = None;
                Some(ended)
            }
            () = sleep(limit) => None,
        }
    }

    /// Whether everything that acts was stopped by a fault.
    pub fn has_crashed(&self) -> bool {
        self.running.as_ref().is_none_or(Running::has_ended)
    }

    /// What those who act say that they wait on.
    pub fn waiting_on(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let Some(running) = &self.running {
            for failing in running.manager().failing() {
                lines.push(format!("{} {}: {}", failing.controller, failing.key, failing.error));
            }
            for watch in running.manager().watches().into_iter().filter(|watch| !watch.connected) {
                let reason = watch.last_error.unwrap_or_else(|| "not connected".to_owned());
                lines.push(format!("the watch of {}: {reason}", watch.kind));
            }
        }
        lines.extend(crate::waiting::lines(self));
        lines
    }

    /// The in-memory provider that acts now, if there is one.
    pub fn provider(&self) -> Option<Provider> {
        self.provider.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Faults to inject.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// The manager of everything that acts, while it does.
    pub fn manager(&self) -> Option<&Manager> {
        self.running.as_ref().map(Running::manager)
    }

    /// How many reconciles there were since the last start, of all controllers.
    pub fn reconciles(&self) -> u64 {
        let metrics = self.manager().map(Manager::metrics).unwrap_or_default();
        metrics.values().map(|metrics| metrics.reconciles).sum()
    }

    /// How many events of watches were taken in since the last start, by all caches.
    pub fn events(&self) -> u64 {
        self.manager().map(Manager::watches).unwrap_or_default().iter().map(|watch| watch.events).sum()
    }

    /// A client that may do everything.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The API.
    pub fn server(&self) -> &ApiServer {
        &self.server
    }

    /// The clock of the API and of everything that acts.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The time.
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn resource(&self, api_version: &str, kind: &str) -> Result<(ApiResource, bool), WorldError> {
        let (group, version) = api_version::split(api_version);
        let path =
            if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
        let what = format!("find {kind} in {api_version}");
        let request = http::Request::get(path).body(Vec::new()).map_err(kube::Error::HttpError);
        let list: Value = match request {
            Ok(request) => self.client.request(request).await,
            Err(error) => Err(error),
        }
        .map_err(|error| self.refused(&what, &error))?;
        let resources = list["resources"].as_array().cloned().unwrap_or_default();
        let found = resources.iter().find(|resource| {
            resource["kind"] == kind && !resource["name"].as_str().unwrap_or_default().contains('/')
        });
        let Some(found) = found else {
            return Err(WorldError::Refused { what, reason: "there is no such kind".to_owned() });
        };
        let resource = ApiResource {
            group: group.to_owned(),
            version: version.to_owned(),
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            plural: found["name"].as_str().unwrap_or_default().to_owned(),
        };
        Ok((resource, found["namespaced"] == true))
    }

    fn refused(&self, what: &str, error: &kube::Error) -> WorldError {
        WorldError::Refused { what: what.to_owned(), reason: windlass_runtime::describe_error(error) }
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now())
            .field("starts", &self.starts)
            .finish_non_exhaustive()
    }
}

/// The key of an object in the namespace in which worlds have everything.
pub fn key(name: &str) -> ObjectKey {
    ObjectKey::new("default", name)
}

pub(crate) fn name_of<K: kube::Resource>(object: &K) -> String {
    object.name_any()
}
