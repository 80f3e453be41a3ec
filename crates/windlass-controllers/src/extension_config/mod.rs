//! The ExtensionConfig controller: discovers what extensions can do and keeps the registry of hooks up to date.

mod controller;
mod discoveries;
mod namespaces;

pub use controller::{ExtensionConfigController, ExtensionConfigError};
pub use namespaces::ClusterNamespaces;

use std::sync::Arc;

use tokio::sync::Mutex;
use windlass_api::runtime::{DISCOVERED_CONDITION, ExtensionConfig};
use windlass_hooks::HookClient;
use windlass_runtime::{Cache, Manager};

/// The extensions of a management cluster. Cheap to clone.
///
/// A controller asks it to [`warm_up`](Extensions::warm_up) before it calls a hook: as long as not all ExtensionConfigs have
/// been discovered once, it is unknown which extensions have to be called, and calling none would let something pass that
/// an extension wants to hold.
#[derive(Clone)]
pub struct Extensions {
    configs: Cache<ExtensionConfig>,
    hooks: HookClient,
    warming: Arc<Mutex<()>>,
}

impl Extensions {
    /// The extensions that a manager's API has, called with a client.
    pub fn new(manager: &Manager, hooks: HookClient) -> Self {
        Self { configs: manager.cache(), hooks, warming: Arc::default() }
    }

    pub(crate) fn configs(&self) -> &Cache<ExtensionConfig> {
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
        let configs = self.configs.list();
        let reachable = configs.iter().filter(|config| !config.is_deleting());
        let reachable: Vec<_> = reachable.map(|config| (ExtensionConfig::clone(config), None)).collect();
        self.hooks.warm_up(reachable).await;
    }
}

/// Whether hooks that wait are to be called again because of a change of an ExtensionConfig. What was edited counts when
/// the discovery that follows it has ended: only then the handlers are known that are to be called.
pub(crate) fn is_another(before: Option<&ExtensionConfig>, after: Option<&ExtensionConfig>) -> bool {
    let discovered = |config: &ExtensionConfig| {
        let condition = config.condition(DISCOVERED_CONDITION);
        let found = condition.map(|found| (found.status.clone(), found.observed_generation));
        (config.metadata.uid.clone(), config.is_deleting(), found, config.status.handlers.clone())
    };
    before.map(discovered) != after.map(discovered)
}
