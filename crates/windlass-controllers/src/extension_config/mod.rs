//! The ExtensionConfig controller: discovers what extensions can do and keeps the registry of hooks up to date.

mod controller;
mod namespaces;

pub use controller::{ExtensionConfigController, ExtensionConfigError};
pub use namespaces::ClusterNamespaces;

use std::sync::Arc;

use kube::api::{ApiResource, DynamicObject, GroupVersionKind};
use tokio::sync::Mutex;
use windlass_api::runtime::ExtensionConfig;
use windlass_hooks::HookClient;
use windlass_reconcile::{Cache, Manager};

/// The extensions of a management cluster. Cheap to clone.
///
/// Whoever calls hooks asks it to [`warm_up`](Extensions::warm_up) before: as long as not all ExtensionConfigs have
/// been looked at once, nobody knows who has to be called, and calling nobody would let something pass that an
/// extension wants to hold.
#[derive(Clone)]
pub struct Extensions {
    configs: Cache<DynamicObject>,
    hooks: HookClient,
    warming: Arc<Mutex<()>>,
}

impl Extensions {
    /// The extensions that a manager's API has, called with a client.
    pub fn new(manager: &Manager, hooks: HookClient) -> Self {
        Self { configs: manager.cache_of(&resource()), hooks, warming: Arc::default() }
    }

    pub(crate) fn configs(&self) -> &Cache<DynamicObject> {
        &self.configs
    }

    /// How they are called.
    pub fn hooks(&self) -> &HookClient {
        &self.hooks
    }

    /// Discovers all extensions, once per process. An extension that is down is not ready and says so; nothing else
    /// waits for it.
    pub async fn warm_up(&self) {
        if self.hooks.registry().is_warm() {
            return;
        }
        let _turn = self.warming.lock().await;
        if self.hooks.registry().is_warm() {
            return;
        }
        let configs: Vec<ExtensionConfig> =
            self.configs.list().iter().filter_map(|object| config_of(object)).collect();
        let reachable = configs.into_iter().filter(|config| !config.is_deleting());
        self.hooks.warm_up(reachable.map(|config| (config, None))).await;
    }
}

/// How ExtensionConfigs are reached.
pub(crate) fn resource() -> ApiResource {
    let gvk = GroupVersionKind::gvk("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig");
    ApiResource::from_gvk_with_plural(&gvk, "extensionconfigs")
}

pub(crate) fn config_of(object: &DynamicObject) -> Option<ExtensionConfig> {
    serde_json::from_value(serde_json::to_value(object).ok()?).ok()
}
