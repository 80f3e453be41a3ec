//! An extension that lives in the simulation: it answers every lifecycle hook, and remembers what it was asked.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use kube::Client;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};
use tower::{ServiceExt, service_fn};
use windlass_api::hooks::{Hook, HookTag};
use windlass_api::names::{HOOKS_API_VERSION, RUNTIME_API_VERSION};
use windlass_controllers::extension_config::ClusterNamespaces;
use windlass_hooks::HookClient;
use windlass_hooks::transport::{BoxTransport, Endpoint, InProcess, boxed};
use windlass_store::Store;
use windlass_version::Version;

use crate::external_updater::{Reply as ExternalUpdateReply, SimulatedExternalUpdater};
use crate::flapping::{HANGS_FOR, Told, flapping};
use crate::live::LiveTransport;
use crate::updater::SimulatedUpdater;
use crate::world::World;

/// Name of its ExtensionConfig.
pub(crate) const NAME: &str = "simulation";
/// Its handler that plans upgrades.
pub(crate) const PLAN_HANDLER: &str = "generateupgradeplan.simulation";

/// A call of a hook, as reports show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HookRecord {
    /// Which hook.
    pub hook: &'static str,
    /// Full name of the handler.
    pub handler: String,
    /// When, in seconds after the beginning.
    pub at_seconds: u64,
    /// What was answered.
    pub status: &'static str,
    /// How long the caller was asked to wait; 0 is not at all.
    pub retry_after_seconds: u32,
    /// The version that was left, where the hook is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The version that is gone to or was reached, where the hook is told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Name of the Cluster that it was about.
    #[serde(skip)]
    pub cluster: String,
    /// The last revision of the world's store before the call, if the extension follows a world.
    #[serde(skip)]
    pub revision: u64,
}

impl HookRecord {
    /// Whether the caller was told to go on.
    pub fn is_passed(&self) -> bool {
        self.status == "Success" && self.retry_after_seconds == 0
    }
}

impl fmt::Display for HookRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{} {from} -> {to}", self.hook),
            (_, Some(to)) => write!(f, "{} {to}", self.hook),
            _ => f.write_str(self.hook),
        }
    }
}

/// What an extension can do wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misbehaviour {
    /// Asks to wait for so many seconds, each time.
    Blocks(u32),
    /// Says that it failed.
    Fails,
    /// Does not answer in time.
    Hangs,
    /// Answers with something that is no answer.
    Babbles,
    /// Does all of that, one after the other.
    Flaps,
}

/// An extension in the process. Cheap to clone; all clones are one, also across restarts of the world.
#[derive(Clone, Default)]
pub struct SimulatedExtension {
    transport: InProcess,
    inner: Arc<Mutex<Inner>>,
    /// What goes wrong with its answers, once it follows a world.
    faults: Told,
    is_live: bool,
}

#[derive(Default)]
struct Inner {
    begun: Option<Instant>,
    calls: Vec<HookRecord>,
    /// How often a hook still asks to wait, for how long, and what it says.
    waits: BTreeMap<Hook, (u32, u32, String)>,
    failing: BTreeMap<Hook, String>,
    /// How it misbehaves, except where it has relented: at a hook about a version.
    misbehaviour: Option<Misbehaviour>,
    relented: BTreeSet<(Hook, Option<String>)>,
    asked: u32,
    store: Option<Store>,
}

/// What the caller gets.
enum Reply {
    Answer(Value),
    Babble,
    Silence,
}

impl SimulatedExtension {
    /// An extension that lets everything pass.
    pub fn new() -> Self {
        Self::default().answering()
    }

    /// The same beside extensions where they are: what their ExtensionConfigs say is called over HTTPS, as by
    /// [`SimulatedExtension::live`].
    ///
    /// # Errors
    ///
    /// When there is no thread for it.
    pub fn beside_live() -> std::io::Result<Self> {
        Ok(Self { is_live: false, ..Self::live()? }.answering())
    }

    /// Answers itself what is asked of its own name.
    fn answering(self) -> Self {
        let extension = self;
        let inner = Arc::clone(&extension.inner);
        extension.transport.add(
            NAME,
            service_fn(move |request: Request<Bytes>| {
                let reply = lock(&inner).answer(&request);
                async move {
                    let body = match reply {
                        Reply::Answer(answer) => Bytes::from(answer.to_string()),
                        Reply::Babble => Bytes::from_static(b"<html>it works</html>"),
                        Reply::Silence => {
                            sleep(HANGS_FOR).await;
                            Bytes::new()
                        }
                    };
                    Ok::<_, Infallible>(Response::new(body))
                }
            }),
        );
        extension
    }

    /// Extensions where they are, instead of a stand-in: their ExtensionConfigs say where, and they are called over
    /// HTTPS. The clock of the world stands still while they answer.
    ///
    /// # Errors
    ///
    /// When there is no thread for it.
    pub fn live() -> std::io::Result<Self> {
        let mut extension = Self { is_live: true, ..Self::default() };
        let (inner, live) = (Arc::clone(&extension.inner), LiveTransport::new()?);
        let recorded = service_fn(move |request: Request<Bytes>| {
            let (inner, live) = (Arc::clone(&inner), live.clone());
            async move {
                let asked = Asked::of(&request);
                let answer = live.oneshot(request).await;
                if let Some(asked) = asked {
                    lock(&inner).record(asked, answer.as_ref().ok().map(Response::body));
                }
                answer
            }
        });
        extension.transport = InProcess::new().or_else(boxed(recorded));
        Ok(extension)
    }

    /// Whether extensions are called where they are.
    pub fn is_live(&self) -> bool {
        self.is_live
    }

    /// Adds an extension of another name beside it, which updates machines in place. It has to be registered, with
    /// [`SimulatedUpdater::config`].
    pub fn add_updater(&self, name: &str) -> SimulatedUpdater {
        SimulatedUpdater::add_to(&self.transport, name)
    }

    /// Adds an extension of another name beside it, which accepts whole updates or refuses them. It has to be registered,
    /// with [`SimulatedExternalUpdater::config`].
    pub fn add_external_updater(&self, name: &str, reply: ExternalUpdateReply) -> SimulatedExternalUpdater {
        SimulatedExternalUpdater::add_to(&self.transport, name, reply)
    }

    /// Lets a hook ask to wait so many times, each time for so many seconds.
    pub fn block(&self, hook: Hook, times: u32, seconds: u32, message: &str) {
        lock(&self.inner).waits.insert(hook, (times, seconds, message.to_owned()));
    }

    /// Lets a hook fail until further notice, or not any more.
    pub fn fail(&self, hook: Hook, message: Option<&str>) {
        match message {
            Some(message) => lock(&self.inner).failing.insert(hook, message.to_owned()),
            None => lock(&self.inner).failing.remove(&hook),
        };
    }

    /// Misbehaves at every hook about every version, until it [relents](Self::relent) there.
    pub fn misbehave(&self, how: Misbehaviour) {
        let mut inner = lock(&self.inner);
        inner.misbehaviour = Some(how);
        inner.relented.clear();
    }

    /// Misbehaves no more.
    pub fn behave(&self) {
        lock(&self.inner).misbehaviour = None;
    }

    /// Lets a hook pass from now on.
    pub fn pass(&self, hook: Hook) {
        let mut inner = lock(&self.inner);
        inner.waits.remove(&hook);
        inner.failing.remove(&hook);
    }

    /// Lets a hook pass when it is called again about this version.
    pub fn relent(&self, hook: Hook, version: Option<&str>) {
        lock(&self.inner).relented.insert((hook, version.map(str::to_owned)));
    }

    /// Notes with every call what had been written in this world before it, and has its troubles with hooks.
    pub fn follow(&self, world: &World) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = Some(world.faults().clone());
        lock(&self.inner).store = Some(world.server().store().clone());
    }

    /// Forgets what was called, and counts time from now on.
    pub fn begin(&self) {
        let mut inner = lock(&self.inner);
        inner.begun = Some(Instant::now());
        inner.calls.clear();
    }

    /// What was called, in order.
    pub fn calls(&self) -> Vec<HookRecord> {
        lock(&self.inner).calls.clone()
    }

    /// A client that calls it, as a new process would make one.
    pub fn client(&self) -> HookClient {
        HookClient::builder(self.transport()).build()
    }

    /// The same for selectors of namespaces: their labels are those that the API has.
    pub fn client_of(&self, api: &Client) -> HookClient {
        let namespaces = ClusterNamespaces::new(api.clone());
        HookClient::builder(self.transport()).namespaces(namespaces).build()
    }

    fn transport(&self) -> BoxTransport {
        flapping(boxed(self.transport.clone()), Arc::clone(&self.faults))
    }

    /// The object that registers it.
    pub fn config() -> Value {
        json!({"apiVersion": RUNTIME_API_VERSION, "kind": "ExtensionConfig", "metadata": {"name": NAME},
            "spec": {"clientConfig": {"url": format!("https://{NAME}.invalid")}, "namespaceSelector": {}}})
    }
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn answer(&mut self, request: &Request<Bytes>) -> Reply {
        let Some((hook, handler)) = Hook::from_path(request.uri().path()) else {
            return Reply::Answer(json!({"status": "Failure", "message": "there is no such hook"}));
        };
        if hook == Hook::Discovery {
            return Reply::Answer(discovery());
        }
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        if hook == Hook::GenerateUpgradePlan {
            return Reply::Answer(plan(&body));
        }
        let handler = handler.map_or_else(String::new, |handler| format!("{handler}.{NAME}"));
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        let mut record = HookRecord {
            hook: hook.name(),
            handler,
            at_seconds: self.begun.get_or_insert_with(Instant::now).elapsed().as_secs(),
            status: "Success",
            retry_after_seconds: 0,
            from: text("fromKubernetesVersion"),
            to: text("toKubernetesVersion").or_else(|| text("kubernetesVersion")),
            cluster: body["cluster"]["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            revision: self.store.as_ref().map_or(0, Store::revision),
        };
        let reply = self.reply(hook, &mut record);
        self.calls.push(record);
        reply
    }

    fn reply(&mut self, hook: Hook, record: &mut HookRecord) -> Reply {
        if !self.relented.contains(&(hook, record.to.clone()))
            && let Some(how) = self.misbehaviour
        {
            return self.misbehaved(how, record);
        }
        let failing = self.failing.get(&hook).cloned();
        let wait = self.waits.get_mut(&hook).filter(|(times, _, _)| *times > 0 && failing.is_none());
        let (retry_after_seconds, message) = match wait {
            Some((times, seconds, message)) => {
                *times -= 1;
                (*seconds, message.clone())
            }
            None => (0, failing.clone().unwrap_or_default()),
        };
        if failing.is_some() {
            record.status = "Failure";
        }
        record.retry_after_seconds = retry_after_seconds;
        let status = record.status;
        Reply::Answer(json!({"status": status, "message": message, "retryAfterSeconds": retry_after_seconds}))
    }

    fn misbehaved(&mut self, how: Misbehaviour, record: &mut HookRecord) -> Reply {
        self.asked += 1;
        let how = match (how, self.asked % 4) {
            (Misbehaviour::Flaps, 0) => Misbehaviour::Hangs,
            (Misbehaviour::Flaps, 1) => Misbehaviour::Fails,
            (Misbehaviour::Flaps, 2) => Misbehaviour::Blocks(5),
            (Misbehaviour::Flaps, _) => Misbehaviour::Babbles,
            (how, _) => how,
        };
        let answer = |status: &str, message: &str, seconds: u32| {
            Reply::Answer(json!({"status": status, "message": message, "retryAfterSeconds": seconds}))
        };
        match how {
            Misbehaviour::Blocks(seconds) => {
                record.retry_after_seconds = seconds;
                answer("Success", "not yet", seconds)
            }
            Misbehaviour::Hangs => {
                record.status = "Silence";
                Reply::Silence
            }
            Misbehaviour::Babbles => {
                record.status = "Babble";
                Reply::Babble
            }
            Misbehaviour::Fails | Misbehaviour::Flaps => {
                record.status = "Failure";
                answer("Failure", "out of order", 0)
            }
        }
    }
}

/// A lifecycle hook that an extension outside was asked about.
struct Asked {
    hook: Hook,
    handler: String,
    body: Value,
}

impl Asked {
    fn of(request: &Request<Bytes>) -> Option<Self> {
        let (hook, handler) = Hook::from_path(request.uri().path())?;
        if hook.tag() != HookTag::Lifecycle {
            return None;
        }
        let extension = request.extensions().get().map(Endpoint::extension).unwrap_or_default();
        let handler = handler.map_or_else(String::new, |handler| format!("{handler}.{extension}"));
        Some(Self { hook, handler, body: serde_json::from_slice(request.body()).unwrap_or_default() })
    }
}

impl Inner {
    /// Remembers a call of an extension outside. No answer is a failure.
    fn record(&mut self, asked: Asked, answer: Option<&Bytes>) {
        let answer: Value = answer.and_then(|body| serde_json::from_slice(body).ok()).unwrap_or_default();
        let text = |field: &str| asked.body[field].as_str().map(str::to_owned);
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let retry = answer["retryAfterSeconds"].as_u64().and_then(|seconds| u32::try_from(seconds).ok());
        self.calls.push(HookRecord {
            hook: asked.hook.name(),
            handler: asked.handler.clone(),
            at_seconds: begun.elapsed().as_secs(),
            status: if answer["status"] == "Success" { "Success" } else { "Failure" },
            retry_after_seconds: retry.unwrap_or_default(),
            from: text("fromKubernetesVersion"),
            to: text("toKubernetesVersion").or_else(|| text("kubernetesVersion")),
            cluster: asked.body["cluster"]["metadata"]["name"].as_str().unwrap_or_default().to_owned(),
            revision: self.store.as_ref().map_or(0, Store::revision),
        });
    }
}

fn discovery() -> Value {
    let lifecycle = Hook::ALL
        .into_iter()
        .filter(|hook| hook.tag() == HookTag::Lifecycle || *hook == Hook::GenerateUpgradePlan);
    let handlers: Vec<Value> = lifecycle
        .map(|hook| {
            json!({"name": hook.path_segment(),
                "requestHook": {"apiVersion": HOOKS_API_VERSION, "hook": hook.name()}})
        })
        .collect();
    json!({"status": "Success", "handlers": handlers})
}

/// A plan through the first release of every minor.
pub(crate) fn plan(body: &Value) -> Value {
    let read = |field: &str| body[field].as_str().and_then(|text| Version::parse(text).ok());
    let (Some(from), Some(to)) = (read("fromControlPlaneKubernetesVersion"), read("toKubernetesVersion"))
    else {
        return json!({"status": "Failure", "message": "versions are missing"});
    };
    let mut steps = Vec::new();
    let mut minor = from.minor();
    while minor.next() < to.minor() {
        minor = minor.next();
        steps.push(json!({"version": Version::new(minor.major, minor.minor, 0).to_string()}));
    }
    if from != to {
        steps.push(json!({"version": to.to_string()}));
    }
    json!({"status": "Success", "controlPlaneUpgrades": steps})
}
