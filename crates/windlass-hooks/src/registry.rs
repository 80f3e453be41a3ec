//! Which handlers there are, where they are, and which extensions are ready.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use windlass_api::RegisteredName;
use windlass_api::hooks::{FailurePolicy, Hook, Settings};
use windlass_api::label_selector::Selector;
use windlass_api::runtime::{ClientConfig, ExtensionConfig, HandlerStatus};

use crate::cache::HandlerSet;
use crate::discovery::{DEFAULT_TIMEOUT, DiscoveryError, MAX_TIMEOUT_SECONDS};
use crate::transport::{ClientIdentity, Endpoint};
use crate::url::{UrlError, hook_url};

/// The handlers of all extensions, in order of their full names. Clones share their content.
#[derive(Clone, Debug, Default)]
pub struct Registry(Arc<RwLock<State>>);

#[derive(Debug, Default)]
struct State {
    warm: bool,
    changes: u64,
    extensions: BTreeMap<String, Extension>,
}

#[derive(Debug)]
struct Extension {
    uid: Option<String>,
    generation: Option<i64>,
    handlers: Vec<Arc<Registration>>,
    readiness: Readiness,
    /// The number of the last change of its spec or its handlers.
    changed: u64,
}

/// A handler and everything that is needed to call it.
#[derive(Clone, Debug)]
pub struct Registration {
    /// Full name.
    pub name: RegisteredName,
    /// What it is for.
    pub hook: Hook,
    /// Which namespaces it is for.
    pub selector: Selector,
    /// Where it is.
    pub client_config: Arc<ClientConfig>,
    /// Whom to trust there and who we are.
    pub endpoint: Endpoint,
    /// How long to wait for it.
    pub timeout: Duration,
    /// What becomes of a call that does not get through.
    pub failure_policy: FailurePolicy,
    /// Settings of the extension, which go under those of each request.
    pub settings: Arc<Settings>,
    /// Revision of the ExtensionConfig.
    pub revision: Arc<str>,
}

/// Whether an extension can be called, as far as its last discovery tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// The last discovery worked.
    Ready {
        /// How many handlers it found.
        handlers: usize,
    },
    /// The last discovery failed. Handlers of an earlier one are still called.
    NotReady(DiscoveryError),
}

impl Registry {
    /// A registry that knows nothing yet, not even that there is nothing to know.
    pub fn new() -> Self {
        Self::default()
    }

    /// Says that every ExtensionConfig has been looked at. Before that, calls are errors: no handler would
    /// be found, and something would pass that a handler wants to hold.
    pub fn mark_warm(&self) {
        self.write().warm = true;
    }

    /// Whether every ExtensionConfig has been looked at.
    pub fn is_warm(&self) -> bool {
        self.read().warm
    }

    /// The handlers of a hook, each with the number of the last change of its extension: another set when one comes or
    /// goes, when it is called elsewhere or with other settings, and when the spec of its ExtensionConfig is edited.
    pub(crate) fn handler_set(&self, hook: Hook) -> HandlerSet {
        let state = self.read();
        let of_extension = |extension: &Extension| {
            let changed = extension.changed;
            let handlers = extension.handlers.iter().filter(|handler| handler.hook == hook);
            handlers.map(|handler| (handler.name.clone(), changed)).collect::<Vec<_>>()
        };
        state.extensions.values().flat_map(of_extension).collect()
    }

    /// Replaces the handlers of an extension, all at once or, if one of them is wrong, not at all. An older
    /// generation than the one that is registered is left aside.
    ///
    /// # Errors
    ///
    /// When the ExtensionConfig or one of its handlers cannot be used.
    pub fn register(
        &self,
        config: &ExtensionConfig,
        handlers: &[HandlerStatus],
        client_identity: Option<ClientIdentity>,
    ) -> Result<(), RegistrationError> {
        let handlers = registrations(config, handlers, client_identity)?;
        let readiness = Readiness::Ready { handlers: handlers.len() };
        self.update(config, Some(handlers), readiness);
        Ok(())
    }

    /// Says that discovery of an extension failed. Handlers that are registered stay. If there are none,
    /// because the process has just started, those in the status are taken.
    pub fn not_ready(
        &self,
        config: &ExtensionConfig,
        error: DiscoveryError,
        client_identity: Option<ClientIdentity>,
    ) {
        let known = self.read().extensions.get(config.name()).is_some_and(|e| !e.handlers.is_empty());
        let handlers =
            if known { None } else { registrations(config, &config.status.handlers, client_identity).ok() };
        self.update(config, handlers, Readiness::NotReady(error));
    }

    /// Forgets an extension.
    pub fn unregister(&self, extension: &str) {
        self.write().extensions.remove(extension);
    }

    /// A handler by its full name.
    pub fn get(&self, name: &str) -> Option<Arc<Registration>> {
        let (_, extension) = name.split_once('.')?;
        let state = self.read();
        let handlers = &state.extensions.get(extension)?.handlers;
        handlers.iter().find(|handler| handler.name.as_str() == name).cloned()
    }

    /// The handlers of a hook, in the order in which they are called.
    pub fn handlers(&self, hook: Hook) -> Vec<Arc<Registration>> {
        let state = self.read();
        let all = state.extensions.values().flat_map(|extension| &extension.handlers);
        let mut handlers: Vec<_> = all.filter(|handler| handler.hook == hook).cloned().collect();
        handlers.sort_by(|a, b| a.name.cmp(&b.name));
        handlers
    }

    /// Whether each extension is ready, in order of their names.
    pub fn readiness(&self) -> BTreeMap<String, Readiness> {
        let state = self.read();
        state.extensions.iter().map(|(name, extension)| (name.clone(), extension.readiness.clone())).collect()
    }

    fn update(
        &self,
        config: &ExtensionConfig,
        handlers: Option<Vec<Arc<Registration>>>,
        readiness: Readiness,
    ) {
        let metadata = &config.metadata;
        let mut state = self.write();
        let before = state.extensions.get(config.name());
        // Two reconciles may overtake each other. An object that was created anew starts again at 1.
        if before.is_some_and(|known| known.uid == metadata.uid && known.generation > metadata.generation) {
            return;
        }
        let old = before.map_or(&[][..], |known| &known.handlers);
        let handlers = handlers.unwrap_or_else(|| old.to_vec());
        let same_handlers =
            old.iter().map(|handler| handler.essence()).eq(handlers.iter().map(|h| h.essence()));
        let same = before.filter(|known| {
            same_handlers && known.uid == metadata.uid && known.generation == metadata.generation
        });
        let changed = same.map_or(state.changes + 1, |known| known.changed);
        let (uid, generation) = (metadata.uid.clone(), metadata.generation);
        let extension = Extension { uid, generation, handlers, readiness, changed };
        state.extensions.insert(config.name().to_owned(), extension);
        state.changes = state.changes.max(changed);
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, State> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, State> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registration {
    /// What makes a difference to who is called. The revision does not: every discovery changes it.
    fn essence(&self) -> impl PartialEq {
        (
            self.name.clone(),
            self.hook,
            self.selector.clone(),
            self.client_config.clone(),
            self.settings.clone(),
        )
    }
}

/// Makes all registrations of an extension, or none.
fn registrations(
    config: &ExtensionConfig,
    handlers: &[HandlerStatus],
    client_identity: Option<ClientIdentity>,
) -> Result<Vec<Arc<Registration>>, RegistrationError> {
    let ExtensionConfig { metadata, spec, .. } = config;
    let error = |problem: String| RegistrationError { extension: config.name().to_owned(), problem };
    let selector = Selector::compile(spec.namespace_selector.as_ref())
        .map_err(|problem| error(format!("namespaceSelector: {problem}")))?;
    // A wrong address would be found at each call; better once, here.
    hook_url(&spec.client_config, Hook::Discovery, None, DEFAULT_TIMEOUT)
        .map_err(|problem: UrlError| error(problem.to_string()))?;
    let client_config = Arc::new(spec.client_config.clone());
    let endpoint = Endpoint::new(config.name(), spec.client_config.ca_bundle.clone())
        .with_client_identity(client_identity);
    let settings = Arc::new(spec.settings.clone());
    // An ExtensionConfig from a file has no resourceVersion, and mostly no generation either: it never changes.
    let revision: Arc<str> = match &metadata.resource_version {
        Some(version) => version.as_str().into(),
        None => metadata.generation.unwrap_or(0).to_string().into(),
    };
    let registration = |handler: &HandlerStatus| {
        let name: RegisteredName = handler
            .name
            .parse()
            .map_err(|problem: windlass_api::handler_name::HandlerNameError| error(problem.to_string()))?;
        if name.extension_config() != config.name() {
            return Err(error(format!("handler {:?} belongs to another extension", handler.name)));
        }
        let hook = handler
            .request_hook
            .resolve()
            .map_err(|unknown| error(format!("handler {:?}: {unknown}", handler.name)))?;
        Ok(Arc::new(Registration {
            name,
            hook,
            selector: selector.clone(),
            client_config: Arc::clone(&client_config),
            endpoint: endpoint.clone(),
            timeout: timeout(handler.timeout_seconds),
            // What is not Ignore fails: to ignore must be asked for.
            failure_policy: handler
                .failure_policy
                .clone()
                .filter(|policy| *policy == FailurePolicy::Ignore)
                .unwrap_or(FailurePolicy::Fail),
            settings: Arc::clone(&settings),
            revision: Arc::clone(&revision),
        }))
    };
    handlers.iter().map(registration).collect()
}

/// The status of an ExtensionConfig can be edited by hand, so the limits of discovery are kept here too.
fn timeout(seconds: Option<i32>) -> Duration {
    match seconds {
        Some(seconds @ 1..) => Duration::from_secs(seconds.min(MAX_TIMEOUT_SECONDS).unsigned_abs().into()),
        _ => DEFAULT_TIMEOUT,
    }
}

/// Why an extension cannot be registered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("ExtensionConfig {extension:?}: {problem}")]
pub struct RegistrationError {
    /// Name of the ExtensionConfig.
    pub extension: String,
    /// What is wrong.
    pub problem: String,
}

impl Readiness {
    /// Whether the last discovery worked.
    pub fn is_ready(&self) -> bool {
        matches!(self, Self::Ready { .. })
    }
}

impl fmt::Display for Readiness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ready { handlers: 1 } => f.write_str("ready with 1 handler"),
            Self::Ready { handlers } => write!(f, "ready with {handlers} handlers"),
            Self::NotReady(error) => write!(f, "not ready ({}): {error}", error.reason()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::CallFailure;

    fn config(name: &str, generation: i64, handlers: &[(&str, &str)]) -> ExtensionConfig {
        let handlers: Vec<_> = handlers
            .iter()
            .map(|(name, hook)| {
                let hook = json!({"apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1", "hook": hook});
                json!({"name": name, "requestHook": hook})
            })
            .collect();
        serde_json::from_value(json!({
            "metadata": {"name": name, "uid": "u", "generation": generation, "resourceVersion": "7"},
            "spec": {"clientConfig": {"url": "https://h"}, "namespaceSelector": {}},
            "status": {"handlers": handlers},
        }))
        .unwrap()
    }

    fn register(registry: &Registry, config: &ExtensionConfig) -> Result<(), RegistrationError> {
        registry.register(config, &config.status.handlers, None)
    }

    fn names(registry: &Registry, hook: Hook) -> Vec<String> {
        registry.handlers(hook).iter().map(|handler| handler.name.to_string()).collect()
    }

    fn down() -> DiscoveryError {
        DiscoveryError::Call(CallFailure::TimedOut { timeout: DEFAULT_TIMEOUT })
    }

    #[test]
    fn handlers_are_ordered_by_their_full_names() {
        let registry = Registry::new();
        let hook = "BeforeClusterUpgrade";
        register(&registry, &config("zeta", 1, &[("b.zeta", hook), ("a.zeta", hook)])).unwrap();
        let mixed = [("c.alpha", hook), ("a.alpha", hook), ("other.alpha", "UpdateMachine")];
        register(&registry, &config("alpha", 1, &mixed)).unwrap();
        assert_eq!(names(&registry, Hook::BeforeClusterUpgrade), ["a.alpha", "a.zeta", "b.zeta", "c.alpha"]);
        assert_eq!(names(&registry, Hook::UpdateMachine), ["other.alpha"]);
        assert_eq!(registry.get("c.alpha").unwrap().name.as_str(), "c.alpha");
        for unknown in ["c.zeta", "c", "", "c.alpha.x"] {
            assert!(registry.get(unknown).is_none(), "{unknown}");
        }
    }

    #[test]
    fn a_wrong_handler_leaves_those_that_were_there() {
        let registry = Registry::new();
        register(&registry, &config("e", 1, &[("a.e", "UpdateMachine")])).unwrap();
        for wrong in [
            config("e", 2, &[("b.e", "UpdateMachine"), ("c.e", "BeforeLunch")]),
            config("e", 2, &[("b.other", "UpdateMachine")]),
            config("e", 2, &[("b", "UpdateMachine")]),
        ] {
            assert!(register(&registry, &wrong).is_err());
            assert_eq!(names(&registry, Hook::UpdateMachine), ["a.e"]);
        }
        register(&registry, &config("e", 2, &[("b.e", "UpdateMachine")])).unwrap();
        assert_eq!(names(&registry, Hook::UpdateMachine), ["b.e"]);
    }

    #[test]
    fn an_extension_that_is_not_ready_keeps_its_handlers() {
        let registry = Registry::new();
        register(&registry, &config("e", 1, &[("a.e", "UpdateMachine")])).unwrap();
        registry.not_ready(&config("e", 1, &[("old.e", "UpdateMachine")]), down(), None);
        assert_eq!(names(&registry, Hook::UpdateMachine), ["a.e"]);
        assert_eq!(
            registry.readiness()["e"].to_string(),
            "not ready (TimedOut): discovery failed: no answer within 10 s"
        );
    }

    #[test]
    fn after_a_restart_handlers_come_from_the_status() {
        let registry = Registry::new();
        registry.not_ready(&config("e", 1, &[("a.e", "UpdateMachine")]), down(), None);
        assert_eq!(names(&registry, Hook::UpdateMachine), ["a.e"]);
        assert!(!registry.readiness()["e"].is_ready());
    }

    #[test]
    fn an_older_generation_does_not_replace_a_newer_one() {
        let registry = Registry::new();
        register(&registry, &config("e", 2, &[("new.e", "UpdateMachine")])).unwrap();
        register(&registry, &config("e", 1, &[("old.e", "UpdateMachine")])).unwrap();
        assert_eq!(names(&registry, Hook::UpdateMachine), ["new.e"]);
        let mut recreated = config("e", 1, &[("recreated.e", "UpdateMachine")]);
        recreated.metadata.uid = Some("other".to_owned());
        register(&registry, &recreated).unwrap();
        assert_eq!(names(&registry, Hook::UpdateMachine), ["recreated.e"]);
    }

    #[test]
    fn a_set_of_handlers_is_another_one_after_an_edit_and_not_after_a_discovery() {
        let registry = Registry::new();
        let set = || registry.handler_set(Hook::UpdateMachine);
        let mut config_of_e = config("e", 1, &[("a.e", "UpdateMachine")]);
        register(&registry, &config_of_e).unwrap();
        let first = set();
        config_of_e.metadata.resource_version = Some("8".to_owned());
        register(&registry, &config_of_e).unwrap();
        registry.not_ready(&config_of_e, down(), None);
        register(&registry, &config("other", 1, &[("a.other", "BeforeClusterUpgrade")])).unwrap();
        assert_eq!(set(), first, "nothing has changed for this hook");
        config_of_e.spec.settings.insert("a".to_owned(), "b".to_owned());
        register(&registry, &config_of_e).unwrap();
        let second = set();
        assert_ne!(second, first, "the settings are others");
        config_of_e.metadata.generation = Some(2);
        registry.not_ready(&config_of_e, down(), None);
        let third = set();
        assert_ne!(third, second, "the spec was edited, even if the extension does not answer");
        registry.unregister("e");
        registry.unregister("e");
        assert_eq!(set(), []);
        register(&registry, &config_of_e).unwrap();
        assert!(![first, second, third].contains(&set()), "no number comes twice");
    }

    #[test]
    fn timeouts_have_a_default_and_a_limit() {
        for (given, seconds) in [(None, 10), (Some(0), 10), (Some(-5), 10), (Some(1), 1), (Some(300), 30)] {
            assert_eq!(timeout(given), Duration::from_secs(seconds), "{given:?}");
        }
    }

    #[test]
    fn configs_that_cannot_work_say_why() {
        let mut config = config("e", 1, &[]);
        config.spec.client_config.url = Some("http://h".to_owned());
        assert_eq!(
            register(&Registry::new(), &config).unwrap_err().to_string(),
            "ExtensionConfig \"e\": url must start with https://, not with \"http\""
        );
        config.spec.client_config.url = Some("https://h".to_owned());
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "Like"}]});
        config.spec.namespace_selector = serde_json::from_value(selector).unwrap();
        assert_eq!(
            register(&Registry::new(), &config).unwrap_err().to_string(),
            "ExtensionConfig \"e\": namespaceSelector: matchExpressions[0].operator: unknown operator \"Like\""
        );
    }
}
