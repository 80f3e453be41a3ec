//! An external updater in the simulation: it accepts whole updates, or refuses them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::Request;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::api_version;
use windlass_api::cluster::Machine;
use windlass_api::hooks::Hook;
use windlass_api::names::{HOOKS_API_VERSION, RUNTIME_API_VERSION};
use windlass_hooks::transport::InProcess;

use crate::in_process::answer;
use crate::world::{World, key};

/// An extension that accepts whole updates. It answers as it is told, and works when it is told to. Cheap to clone; all
/// clones are one, also across restarts of the world.
#[derive(Clone)]
pub struct SimulatedExternalUpdater {
    name: String,
    inner: Arc<Mutex<Inner>>,
}

/// What it answers when it is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// It accepts, and wants to be asked again after so many seconds; 0 is not again.
    Accept {
        /// Why.
        reason: String,
        /// When to ask again.
        retry_after_seconds: u32,
    },
    /// It does not.
    Refuse {
        /// Why not.
        reason: String,
    },
    /// It fails.
    Fail {
        /// With this message.
        message: String,
    },
    /// It does not answer at all.
    Silence,
}

impl Reply {
    /// Accepts, and is not asked again.
    pub fn accept() -> Self {
        Self::accept_for(0)
    }

    /// Accepts, and wants to be asked again after so many seconds.
    pub fn accept_for(retry_after_seconds: u32) -> Self {
        Self::Accept { reason: "in the night".to_owned(), retry_after_seconds }
    }

    /// Refuses.
    pub fn refuse(reason: &str) -> Self {
        Self::Refuse { reason: reason.to_owned() }
    }
}

/// A call of ExternalUpdate.
#[derive(Debug, Clone, PartialEq)]
pub struct ExternalUpdateCall {
    /// When.
    pub at: Instant,
    /// The names of the Machines.
    pub machines: Vec<String>,
    /// The whole request.
    pub request: Value,
}

struct Inner {
    reply: Reply,
    ignorable: bool,
    calls: Vec<ExternalUpdateCall>,
    /// What it is to bring machines to: `desired` of the last request that it accepted.
    accepted: Option<Value>,
}

impl SimulatedExternalUpdater {
    /// Adds one to a transport, under the name of its ExtensionConfig.
    pub fn add_to(transport: &InProcess, name: &str, reply: Reply) -> Self {
        let inner = Inner { reply, ignorable: false, calls: Vec::new(), accepted: None };
        let updater = Self { name: name.to_owned(), inner: Arc::new(Mutex::new(inner)) };
        let inner = Arc::clone(&updater.inner);
        answer(transport, name, move |request| lock(&inner).answer(request));
        updater
    }

    /// Its failures to answer are not minded.
    #[must_use]
    pub fn ignorable(self) -> Self {
        lock(&self.inner).ignorable = true;
        self
    }

    /// Answers this from now on.
    pub fn reply(&self, reply: Reply) {
        lock(&self.inner).reply = reply;
    }

    /// What it was asked, in order.
    pub fn calls(&self) -> Vec<ExternalUpdateCall> {
        lock(&self.inner).calls.clone()
    }

    /// Brings a Machine and its objects to what it has accepted, as its owner shall see it.
    ///
    /// # Errors
    ///
    /// A write was refused.
    pub async fn update(&self, world: &World, name: &str) -> Result<(), kube::Error> {
        let accepted = lock(&self.inner).accepted.clone();
        let (Some(desired), Some(machine)) = (accepted, world.get::<Machine>(&key(name))) else {
            return Ok(());
        };
        let spec = &machine.spec;
        let config = spec.bootstrap.config_ref.as_ref();
        let parts = [("infrastructureMachine", Some(&spec.infrastructure_ref)), ("bootstrapConfig", config)];
        for (part, reference) in parts {
            let Some(reference) = reference.filter(|_| desired.get(part).is_some()) else { continue };
            write(world, &desired[part], &reference.name).await?;
        }
        // The Machine comes last: it says that all is done.
        write(world, &desired["machine"], name).await
    }

    /// The object that registers it.
    pub fn config(&self) -> Value {
        json!({"apiVersion": RUNTIME_API_VERSION, "kind": "ExtensionConfig", "metadata": {"name": self.name},
            "spec": {"clientConfig": {"url": format!("https://{}.invalid", self.name)}, "namespaceSelector": {}}})
    }
}

/// Writes what is desired into an object. What providers have written into Machines and infrastructure stays; of a bootstrap
/// config, which this controller alone writes, nothing does.
async fn write(world: &World, desired: &Value, name: &str) -> Result<(), kube::Error> {
    let text = |field: &str| desired[field].as_str().unwrap_or_default();
    let resource = ApiResource::from_gvk(&api_version::kind(text("apiVersion"), text("kind")));
    let api: Api<DynamicObject> = Api::default_namespaced_with(world.client().clone(), &resource);
    let mut patch = json!({"spec": desired["spec"]});
    if text("kind") == "KubeadmConfig" {
        let present = api.get(name).await?;
        let fields = present.data["spec"].as_object().into_iter().flatten();
        for (field, _) in fields.filter(|(field, _)| desired["spec"].get(field).is_none()) {
            patch["spec"][field] = Value::Null;
        }
    }
    if let Some(metadata) = desired.get("metadata") {
        patch["metadata"] = metadata.clone();
    }
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.map(drop)
}

fn lock(inner: &Mutex<Inner>) -> MutexGuard<'_, Inner> {
    inner.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    fn answer(&mut self, request: &Request<Bytes>) -> Option<Value> {
        let body: Value = serde_json::from_slice(request.body()).unwrap_or_default();
        match Hook::from_path(request.uri().path()) {
            Some((Hook::Discovery, _)) => {
                let hook = Hook::ExternalUpdate;
                let policy = if self.ignorable { "Ignore" } else { "Fail" };
                Some(
                    json!({"status": "Success", "handlers": [{"name": hook.path_segment(), "failurePolicy": policy,
                    "requestHook": {"apiVersion": HOOKS_API_VERSION, "hook": hook.name()}}]}),
                )
            }
            Some((Hook::ExternalUpdate, _)) => self.external_update(body),
            _ => Some(json!({"status": "Failure", "message": "that is not what this extension is for"})),
        }
    }

    fn external_update(&mut self, request: Value) -> Option<Value> {
        let machines = request["machines"].as_array().into_iter().flatten();
        let machines = machines.filter_map(|machine| machine["metadata"]["name"].as_str().map(str::to_owned));
        let desired = request["desired"].clone();
        self.calls.push(ExternalUpdateCall { at: Instant::now(), machines: machines.collect(), request });
        match &self.reply {
            Reply::Silence => None,
            Reply::Fail { message } => Some(json!({"status": "Failure", "message": message})),
            Reply::Refuse { reason } => {
                self.accepted = None;
                Some(json!({"status": "Success", "accepted": false, "reason": reason}))
            }
            Reply::Accept { reason, retry_after_seconds } => {
                self.accepted = Some(desired);
                Some(json!({"status": "Success", "accepted": true, "reason": reason,
                    "retryAfterSeconds": retry_after_seconds}))
            }
        }
    }
}
