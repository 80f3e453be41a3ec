//! The Nodes of workload clusters: one watch per cluster, however many Machines ask.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures_util::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::{Api, ListParams, WatchEvent, WatchParams};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, timeout};
use windlass_api::cluster::Cluster;
use windlass_runtime::{Cache, Clock, ObjectKey};

use crate::workload::{NoAnswer, WorkloadAccess, answer};

/// A workload cluster does not answer, and since when.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub struct Silence {
    /// What happened instead.
    pub why: NoAnswer,
    /// Since when.
    pub since: Timestamp,
}

/// Called when a Node changed: the Cluster, what the Node was, what it is.
pub type OnNode = Arc<dyn Fn(&ObjectKey, Option<&Node>, Option<&Node>) + Send + Sync>;

/// Called when a workload cluster begins to answer, or stops.
pub type OnAnswer = Arc<dyn Fn(&ObjectKey) + Send + Sync>;

/// Finds Nodes of workload clusters. Cheap to clone; all clones share their watches.
#[derive(Clone)]
pub struct WorkloadNodes {
    inner: Arc<Inner>,
}

struct Inner {
    access: Arc<dyn WorkloadAccess>,
    clock: Clock,
    listeners: Mutex<Vec<OnNode>>,
    hearers: Mutex<Vec<OnAnswer>>,
    clusters: Mutex<BTreeMap<ObjectKey, Arc<Watched>>>,
}

/// What is known about the Nodes of one cluster.
struct Watched {
    state: Mutex<State>,
    /// Rings when a list has succeeded or failed.
    attempted: Notify,
}

struct State {
    nodes: BTreeMap<String, Arc<Node>>,
    by_provider_id: BTreeMap<String, String>,
    /// Nothing before the first attempt.
    answer: Option<Result<(), Silence>>,
    asked: Instant,
}

/// How long the first question waits for the first list.
const FIRST_LIST: Duration = Duration::from_secs(5);
/// How long to wait after a failure: at first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(15));
/// A cluster that does not answer and that no controller asks about for so long is no longer watched.
const FORGET: Duration = Duration::from_secs(600);

impl WorkloadNodes {
    /// Watches nothing yet.
    pub fn new(access: Arc<dyn WorkloadAccess>, clock: Clock) -> Self {
        let (listeners, hearers) = (Mutex::default(), Mutex::default());
        let inner = Inner { access, clock, listeners, hearers, clusters: Mutex::default() };
        Self { inner: Arc::new(inner) }
    }

    /// Calls a function for every change of a Node from now on.
    pub fn on_change(&self, listener: OnNode) {
        self.inner.listeners.lock().unwrap_or_else(PoisonError::into_inner).push(listener);
    }

    /// Calls a function whenever a workload cluster begins to answer, or stops, from now on.
    pub fn on_answer(&self, hearer: OnAnswer) {
        self.inner.hearers.lock().unwrap_or_else(PoisonError::into_inner).push(hearer);
    }

    /// Whether a workload cluster answers.
    ///
    /// # Errors
    ///
    /// If it does not.
    pub async fn answers(&self, cluster: &ObjectKey) -> Result<(), Silence> {
        self.read(cluster, |_| ()).await
    }

    /// The Node with an identity.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer.
    pub async fn by_provider_id(&self, cluster: &ObjectKey, id: &str) -> Result<Option<Arc<Node>>, Silence> {
        let read =
            |state: &State| state.by_provider_id.get(id).and_then(|name| state.nodes.get(name)).cloned();
        self.read(cluster, read).await
    }

    /// The Node with a name.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer.
    pub async fn by_name(&self, cluster: &ObjectKey, name: &str) -> Result<Option<Arc<Node>>, Silence> {
        self.read(cluster, |state| state.nodes.get(name).cloned()).await
    }

    /// All Nodes, by name.
    ///
    /// # Errors
    ///
    /// If the cluster does not answer.
    pub async fn all(&self, cluster: &ObjectKey) -> Result<Vec<Arc<Node>>, Silence> {
        self.read(cluster, |state| state.nodes.values().cloned().collect()).await
    }

    /// Forgets everything about the workload clusters of Clusters that are gone. A watch of a cluster that has gone without
    /// a word lasts until it times out, and another Cluster of the same name would wait for its end.
    pub fn forget_with(&self, clusters: &Cache<Cluster>) {
        let nodes = self.clone();
        clusters.on_gone(move |gone| nodes.forget(&ObjectKey::of(gone)));
    }

    /// Stops watching a cluster.
    pub fn forget(&self, cluster: &ObjectKey) {
        self.inner.access.forget(cluster);
        self.inner.clusters().remove(cluster);
    }

    async fn read<T>(&self, cluster: &ObjectKey, read: impl FnOnce(&State) -> T) -> Result<T, Silence> {
        let watched = self.watched(cluster);
        let first = async {
            loop {
                let attempted = watched.attempted.notified();
                if watched.state().answer.is_some() {
                    return;
                }
                attempted.await;
            }
        };
        // Whether it took too long or not, the state says it.
        let _ = timeout(FIRST_LIST, first).await;
        let mut state = watched.state();
        state.asked = Instant::now();
        match &state.answer {
            Some(Ok(())) => Ok(read(&state)),
            Some(Err(silence)) => Err(silence.clone()),
            None => Err(Silence { why: NoAnswer::TimedOut(FIRST_LIST), since: self.inner.clock.now() }),
        }
    }

    fn watched(&self, cluster: &ObjectKey) -> Arc<Watched> {
        let mut clusters = self.inner.clusters();
        if let Some(watched) = clusters.get(cluster) {
            return Arc::clone(watched);
        }
        let state = State {
            nodes: BTreeMap::new(),
            by_provider_id: BTreeMap::new(),
            answer: None,
            asked: Instant::now(),
        };
        let watched = Arc::new(Watched { state: Mutex::new(state), attempted: Notify::new() });
        clusters.insert(cluster.clone(), Arc::clone(&watched));
        let (inner, watching, cluster) =
            (Arc::downgrade(&self.inner), Arc::downgrade(&watched), cluster.clone());
        tokio::spawn(async move { keep(inner, watching, cluster).await });
        watched
    }
}

impl Inner {
    fn clusters(&self) -> MutexGuard<'_, BTreeMap<ObjectKey, Arc<Watched>>> {
        self.clusters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell_answer(&self, cluster: &ObjectKey) {
        let hearers = self.hearers.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for hearer in hearers {
            hearer(cluster);
        }
    }

    fn tell(&self, cluster: &ObjectKey, before: Option<&Node>, after: Option<&Node>) {
        let listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clone();
        for listener in listeners {
            listener(cluster, before, after);
        }
    }
}

impl Watched {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the cluster does not answer; true if that is news.
    fn fail(&self, why: NoAnswer, now: Timestamp) -> bool {
        let mut state = self.state();
        let is_news = !matches!(state.answer, Some(Err(_)));
        let since = match &state.answer {
            Some(Err(silence)) => silence.since,
            _ => now,
        };
        state.answer = Some(Err(Silence { why, since }));
        drop(state);
        self.attempted.notify_waiters();
        is_news
    }

    fn put(&self, node: Node) -> Option<Arc<Node>> {
        let name = node.name_any();
        let id = node.spec.as_ref().and_then(|spec| spec.provider_id.clone());
        let mut state = self.state();
        if let Some(id) = id {
            state.by_provider_id.insert(id, name.clone());
        }
        state.nodes.insert(name, Arc::new(node))
    }

    fn remove(&self, node: &Node) -> Option<Arc<Node>> {
        let name = node.name_any();
        let name = name.as_str();
        let mut state = self.state();
        let removed = state.nodes.remove(name)?;
        let id = removed.spec.as_ref().and_then(|spec| spec.provider_id.as_ref());
        if let Some(id) = id
            && state.by_provider_id.get(id).map(String::as_str) == Some(name)
        {
            state.by_provider_id.remove(id);
        }
        Some(removed)
    }
}

/// Keeps the Nodes of a cluster up to date, until no controller reads them any more.
async fn keep(inner: Weak<Inner>, watched: Weak<Watched>, cluster: ObjectKey) {
    let mut wait = RETRY.0;
    loop {
        let (Some(inner), Some(watched)) = (inner.upgrade(), watched.upgrade()) else { return };
        match list(&inner, &watched, &cluster).await {
            Ok((nodes, version)) => {
                wait = RETRY.0;
                drop((inner, watched));
                follow(&nodes, version, &cluster).await;
            }
            Err(why) => {
                if watched.fail(why, inner.clock.now()) {
                    inner.tell_answer(&cluster);
                }
                if watched.state().asked.elapsed() > FORGET {
                    inner.clusters().remove(&cluster);
                    return;
                }
                drop((inner, watched));
                sleep(wait).await;
                wait = (wait * 2).min(RETRY.1);
            }
        }
    }
}

/// What following a watch needs, without keeping anything alive.
struct Following {
    inner: Weak<Inner>,
    watched: Weak<Watched>,
    api: Api<Node>,
}

async fn list(
    inner: &Arc<Inner>,
    watched: &Arc<Watched>,
    cluster: &ObjectKey,
) -> Result<(Following, String), NoAnswer> {
    let client = inner.access.client(cluster).await?;
    let api: Api<Node> = Api::all(client);
    let found = answer(api.list(&ListParams::default())).await?;
    let found = found.ok_or_else(|| NoAnswer::Refused("the API does not know Nodes".to_owned()))?;
    let version = found.metadata.resource_version;
    let version = version.ok_or_else(|| NoAnswer::Refused("the list has no resourceVersion".to_owned()))?;
    let mut changes = Vec::new();
    let is_news;
    {
        let mut state = watched.state();
        let before = std::mem::take(&mut state.nodes);
        state.by_provider_id.clear();
        for node in found.items {
            let name = node.name_any();
            if let Some(id) = node.spec.as_ref().and_then(|spec| spec.provider_id.clone()) {
                state.by_provider_id.insert(id, name.clone());
            }
            let node = Arc::new(node);
            changes.push((before.get(&name).cloned(), Some(Arc::clone(&node))));
            state.nodes.insert(name, node);
        }
        let gone = before.iter().filter(|(name, _)| !state.nodes.contains_key(*name));
        changes.extend(gone.map(|(_, node)| (Some(Arc::clone(node)), None)));
        is_news = state.answer.replace(Ok(())) != Some(Ok(()));
    }
    watched.attempted.notify_waiters();
    if is_news {
        inner.tell_answer(cluster);
    }
    for (before, after) in changes {
        if before.as_ref().map(|node| &node.metadata.resource_version)
            != after.as_ref().map(|node| &node.metadata.resource_version)
        {
            inner.tell(cluster, before.as_deref(), after.as_deref());
        }
    }
    Ok((Following { inner: Arc::downgrade(inner), watched: Arc::downgrade(watched), api }, version))
}

/// Watches until the watch fails or the server has forgotten where we were.
async fn follow(following: &Following, mut version: String, cluster: &ObjectKey) {
    loop {
        let events = match answer(following.api.watch(&WatchParams::default(), &version)).await {
            Ok(Some(events)) => events,
            Ok(None) | Err(_) => return,
        };
        let mut events = pin!(events);
        while let Some(event) = events.next().await {
            let (Some(inner), Some(watched)) = (following.inner.upgrade(), following.watched.upgrade())
            else {
                return;
            };
            match event {
                Ok(WatchEvent::Added(node) | WatchEvent::Modified(node)) => {
                    // Without one the watch cannot go on; everything is listed anew.
                    let Some(now) = node.metadata.resource_version.clone() else { return };
                    version = now;
                    let after = node.clone();
                    let before = watched.put(node);
                    inner.tell(cluster, before.as_deref(), Some(&after));
                }
                Ok(WatchEvent::Deleted(node)) => {
                    let Some(now) = node.metadata.resource_version.clone() else { return };
                    version = now;
                    if let Some(before) = watched.remove(&node) {
                        inner.tell(cluster, Some(&before), None);
                    }
                }
                Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
                Ok(WatchEvent::Error(_)) | Err(_) => return,
            }
        }
        if following.watched.upgrade().is_none() {
            return;
        }
    }
}

impl fmt::Debug for WorkloadNodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clusters = self.inner.clusters();
        let counts =
            clusters.iter().map(|(cluster, watched)| (cluster.to_string(), watched.state().nodes.len()));
        f.debug_map().entries(counts).finish()
    }
}
