//! The server: a store, what it holds, and the service that answers requests about it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::Instant;
use windlass_clock::Clock;
use windlass_random::{Randomness, name_suffix, uuid};
use windlass_store as store;

use crate::admission::Admission;
use crate::api::Failure;
use crate::budget::{Budgets, Origin};
use crate::controllers;
use crate::identity::Identity;
use crate::openapi;
use crate::registry::{Conversions, ConvertFn, Registry, Resource};
use crate::service::Service;
use crate::stored::meta;
use crate::tokens::{API, TokenKey, Verified};
use crate::webhook::{self, Directory, ServiceResolver};

/// How to run a server.
#[derive(Clone, Default)]
pub struct Options {
    clock: Clock,
    seed: Option<u64>,
    limits: Limits,
    admission: Vec<Arc<dyn Admission>>,
    conversions: Conversions,
    token_key: Option<[u8; 32]>,
    ca_bundle: String,
    service_resolver: Option<ServiceResolver>,
}

impl Options {
    /// Defaults for use inside a process.
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the time of day comes from.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Makes uids and generated names the same in every run. Tokens are never made from it.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// What requests may take.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Adds something that has a say in writes. They are asked in the order in which they were added.
    #[must_use]
    pub fn admission(mut self, hook: Arc<dyn Admission>) -> Self {
        self.admission.push(hook);
        self
    }

    /// The key that tokens of service accounts are signed with. Without one, tokens are good until the
    /// server stops.
    #[must_use]
    pub fn token_key(mut self, key: [u8; 32]) -> Self {
        self.token_key = Some(key);
        self
    }

    /// The certificates that clients in the cluster trust the server by, as PEM.
    #[must_use]
    pub fn ca_bundle(mut self, pem: impl Into<String>) -> Self {
        self.ca_bundle = pem.into();
        self
    }

    /// Says where the services are that webhooks name. Without it, and for services that it does not know,
    /// the addresses in EndpointSlices and Endpoints and the names of external Services are used.
    #[must_use]
    pub fn service_resolver(mut self, resolver: ServiceResolver) -> Self {
        self.service_resolver = Some(resolver);
        self
    }

    /// Converts between the versions of a kind, whatever its CRD says about conversion. What is written in another version
    /// than the stored one is admitted, defaulted and validated as the stored one.
    #[must_use]
    pub fn conversion(mut self, group: &str, kind: &str, convert: ConvertFn) -> Self {
        self.conversions.insert(format!("{group}/{kind}"), convert);
        self
    }
}

/// What requests may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The longest body of a request, in bytes.
    pub body: usize,
    /// How many requests, watches not counted, are worked on at the same time. Clients in this process have as many
    /// again, and so for the bounds below.
    pub requests: usize,
    /// How many requests, watches not counted, one user may have under way, also while their bodies arrive.
    pub requests_per_user: usize,
    /// How long a body may take to arrive.
    pub body_patience: Duration,
    /// How many watches one user may have.
    pub watches_per_user: usize,
    /// How many bytes of answers may be kept for clients that have not taken them yet.
    pub answer_bytes: u64,
    /// The same for one user.
    pub answer_bytes_per_user: u64,
}

impl Default for Limits {
    fn default() -> Self {
        // The body is as large as the API server allows. The numbers are far above what controllers and
        // a few people need, and low enough that one client can neither use up all memory nor take all places.
        Self {
            body: 3 * 1024 * 1024,
            requests: 400,
            requests_per_user: 300,
            body_patience: Duration::from_secs(60),
            watches_per_user: 2000,
            answer_bytes: 256 << 20,
            answer_bytes_per_user: 64 << 20,
        }
    }
}

/// A Kubernetes API over a store. Cheap to clone; all clones are one server. When the last one is gone,
/// its controllers stop and its watches end.
#[derive(Clone)]
pub struct ApiServer {
    inner: Arc<Inner>,
    _running: Arc<StopOnDrop>,
}

/// What the server is made of. Controllers hold it without keeping the server alive.
pub(crate) struct Inner {
    pub(crate) store: store::Store,
    registry: ArcSwap<Registry>,
    rebuild: Mutex<()>,
    pub(crate) clock: Clock,
    started: (Instant, Timestamp),
    pub(crate) randomness: Randomness,
    pub(crate) limits: Limits,
    pub(crate) admission: Vec<Arc<dyn Admission>>,
    conversions: Conversions,
    pub(crate) budgets: Budgets,
    pub(crate) stopped: watch::Sender<bool>,
    pub(crate) token_key: TokenKey,
    pub(crate) ca_bundle: String,
    pub(crate) openapi: openapi::Cache,
    pub(crate) directory: Directory,
    pub(crate) webhooks: webhook::Cache,
}

struct StopOnDrop(Arc<Inner>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.stopped.send_replace(true);
    }
}

impl ApiServer {
    /// Starts a server: makes what every cluster has if it is not there, and starts the controllers on
    /// the runtime of the caller.
    pub fn start(store: store::Store, options: Options) -> BoxFuture<'static, Result<Self, Failure>> {
        // Boxed, so that it is compiled here and not again in every crate that starts a server.
        Box::pin(Self::started(store, options))
    }

    async fn started(store: store::Store, options: Options) -> Result<Self, Failure> {
        let token_key = match options.token_key {
            Some(key) => key,
            None => secret()?,
        };
        let directory = Directory { store: store.clone(), resolver: options.service_resolver };
        let inner = Arc::new(Inner {
            store,
            registry: ArcSwap::from_pointee(Registry::new()),
            rebuild: Mutex::new(()),
            started: (Instant::now(), options.clock.now()),
            clock: options.clock,
            randomness: Randomness::new(options.seed),
            limits: options.limits,
            admission: options.admission,
            conversions: options.conversions,
            budgets: Budgets::new(&options.limits),
            stopped: watch::channel(false).0,
            token_key: TokenKey::new(token_key),
            ca_bundle: options.ca_bundle,
            openapi: openapi::Cache::default(),
            directory,
            webhooks: webhook::Cache::default(),
        });
        let running = Arc::new(StopOnDrop(Arc::clone(&inner)));
        inner.rebuild_registry();
        controllers::seed(&inner).await?;
        controllers::start(&inner);
        Ok(Self { inner, _running: running })
    }

    /// A service that acts as cluster admin, for `kube::Client::new` in this process. What it may take is counted
    /// apart from what clients take that connect from outside, so that those cannot stop controllers.
    pub fn service(&self) -> Service {
        Service::new(self.clone(), Identity::admin(), Origin::Process)
    }

    /// A service that acts for a user outside of this process.
    pub fn service_for(&self, identity: Identity) -> Service {
        Service::new(self.clone(), identity, Origin::Network)
    }

    /// How many bytes of answers are kept for clients outside of this process that have not taken them yet.
    pub fn answer_bytes(&self) -> u64 {
        self.inner.budgets.of(Origin::Network).answer_bytes()
    }

    /// The store.
    pub fn store(&self) -> &store::Store {
        &self.inner.store
    }

    /// Ends all watches and controllers. Requests are answered as long as the store is open.
    pub fn stop(&self) {
        self.inner.stopped.send_replace(true);
    }

    /// Who a token of a service account is for, if it is good and the account is still there.
    pub(crate) fn verify_token(&self, token: &str) -> Option<Identity> {
        self.inner.verify_token(token, &[API.to_owned()]).map(|(identity, _)| identity)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

/// Bytes that cannot be guessed.
pub(crate) fn secret() -> Result<[u8; 32], Failure> {
    let mut bytes = [0; 32];
    getrandom::fill(&mut bytes).map_err(Failure::internal)?;
    Ok(bytes)
}

impl Inner {
    /// The time by which tokens are issued and expire. It does not go back while the server runs: otherwise a clock
    /// that is set back would make every token good for as much longer.
    pub(crate) fn token_time(&self) -> Timestamp {
        let (instant, time) = self.started;
        let passed = time.checked_add(instant.elapsed()).unwrap_or(Timestamp::MAX);
        self.clock.now().max(passed)
    }

    /// Who a token of a service account is for, if it is good and the account is still there.
    pub(crate) fn verify_token(&self, token: &str, audiences: &[String]) -> Option<(Identity, Vec<String>)> {
        let Verified { identity, audiences, bound } =
            self.token_key.verify(token, self.token_time(), audiences)?;
        let (namespace, name) = Identity::service_account(&identity.username)?;
        let is_there = |resource: &str, name: &str, uid: &str| {
            let resource = self.registry().get("", "v1", resource).cloned()?;
            let namespace = if resource.namespaced { namespace } else { "" };
            let object = self.store.get(&resource.key(namespace, name).ok()?)?;
            (meta(&object).uid == uid).then_some(())
        };
        is_there("serviceaccounts", name, &identity.uid)?;
        if let Some(bound) = &bound {
            is_there(&bound.resource, &bound.name, &bound.uid)?;
        }
        Some((identity, audiences))
    }

    /// The resources as they are now.
    pub(crate) fn registry(&self) -> Arc<Registry> {
        self.registry.load_full()
    }

    /// Reads all CRDs again. A request that changed one calls this before it is answered.
    pub(crate) fn rebuild_registry(&self) {
        let _one_at_a_time = self.rebuild.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.registry();
        let Some(crds) = before.get("apiextensions.k8s.io", "v1", "customresourcedefinitions") else {
            return;
        };
        let snapshot = self.store.snapshot();
        let objects = snapshot.list(&crds.scope(None)).map(AsRef::as_ref);
        self.registry.store(Arc::new(
            before.rebuilt(objects, &self.conversions, |crd| webhook::conversion_of(crd, &self.directory)),
        ));
    }

    /// The uid of a new object. With a seed, an object that is created again under its name has another.
    pub(crate) fn uid(&self, resource: &Resource, namespace: &str, name: &str) -> String {
        uuid(&mut self.randomness.generator(&["uid", &resource.group, &resource.plural, namespace, name]))
    }

    /// The end of a name that is generated from a prefix.
    pub(crate) fn suffix(&self, resource: &Resource, namespace: &str, prefix: &str) -> String {
        let owner = ["generateName", &resource.group, &resource.plural, namespace, prefix];
        name_suffix(&mut self.randomness.generator(&owner))
    }
}

impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("store", &self.inner.store).finish_non_exhaustive()
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options").field("limits", &self.limits).finish_non_exhaustive()
    }
}
