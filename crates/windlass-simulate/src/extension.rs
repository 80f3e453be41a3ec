//! An extension that lives in the simulation: it answers every lifecycle hook, and remembers what it was asked.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::{Request, Response};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use tower::{ServiceExt, service_fn};
use windlass_api::hooks::{Hook, HookTag};
use windlass_api::names::{HOOKS_API_VERSION, RUNTIME_API_VERSION};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{Endpoint, InProcess, boxed};
use windlass_version::Version;

use crate::live::LiveTransport;

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
}

/// An extension in the process. Cheap to clone; all clones are one, also across restarts of the world.
#[derive(Clone, Default)]
pub struct SimulatedExtension {
    transport: InProcess,
    inner: Arc<Mutex<Inner>>,
    is_live: bool,
}

#[derive(Default)]
struct Inner {
    begun: Option<Instant>,
    calls: Vec<HookRecord>,
    /// How often a hook still asks to wait, for how long, and what it says.
    waits: BTreeMap<Hook, (u32, u32, String)>,
    failing: BTreeMap<Hook, String>,
}

impl SimulatedExtension {
    /// An extension that lets everything pass.
    pub fn new() -> Self {
        let extension = Self::default();
        let inner = Arc::clone(&extension.inner);
        extension.transport.add(
            NAME,
            service_fn(move |request: Request<Bytes>| {
                let answer = lock(&inner).answer(&request);
                std::future::ready(Ok::<_, Infallible>(Response::new(Bytes::from(answer.to_string()))))
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
        HookClient::builder(boxed(self.transport.clone())).build()
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
    fn answer(&mut self, request: &Request<Bytes>) -> Value {
        let Some((hook, handler)) = Hook::from_path(request.uri().path()) else {
            return json!({"status": "Failure", "message": "there is no such hook"});
        };
        if hook == Hook::Discovery {
            return discovery();
        }
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        if hook == Hook::GenerateUpgradePlan {
            return plan(&body);
        }
        let text = |field: &str| body[field].as_str().map(str::to_owned);
        let failing = self.failing.get(&hook).cloned();
        let wait = self.waits.get_mut(&hook).filter(|(times, _, _)| *times > 0 && failing.is_none());
        let (retry_after_seconds, message) = match wait {
            Some((times, seconds, message)) => {
                *times -= 1;
                (*seconds, message.clone())
            }
            None => (0, failing.clone().unwrap_or_default()),
        };
        let status = if failing.is_some() { "Failure" } else { "Success" };
        let begun = *self.begun.get_or_insert_with(Instant::now);
        self.calls.push(HookRecord {
            hook: hook.name(),
            handler: handler.map_or_else(String::new, |handler| format!("{handler}.{NAME}")),
            at_seconds: begun.elapsed().as_secs(),
            status,
            retry_after_seconds,
            from: text("fromKubernetesVersion"),
            to: text("toKubernetesVersion").or_else(|| text("kubernetesVersion")),
        });
        json!({"status": status, "message": message, "retryAfterSeconds": retry_after_seconds})
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
fn plan(body: &Value) -> Value {
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
