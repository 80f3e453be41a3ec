//! Discovery of one extension.

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};
use windlass_api::runtime::{
    CaBundle, DISCOVERED_CONDITION, DISCOVERED_REASON, ExtensionConfig, HandlerStatus, InjectCaError,
    NOT_DISCOVERED_REASON, SecretReference,
};
use windlass_engine::condition::{self, Finding};
use windlass_engine::pause::Pause;
use windlass_hooks::{HookClient, Readiness};
use windlass_runtime::{Cache, Context, Manager, ObjectKey, Outcome, Reconciler, WriteError, describe_error};

use super::Extensions;
use super::discoveries::Discoveries;

/// Field manager of the status.
const MANAGER: &str = "windlass-extensionconfig";
/// Where a Secret has the certificates.
const CA_KEY: &str = "ca.crt";

/// Keeps the registry of hooks up to date with the ExtensionConfigs.
pub struct ExtensionConfigController {
    configs: Cache<ExtensionConfig>,
    hooks: HookClient,
    discoveries: Discoveries,
}

/// Why an ExtensionConfig could not be reconciled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExtensionConfigError {
    /// The annotation that names a Secret is wrong.
    #[error(transparent)]
    Annotation(#[from] InjectCaError),
    /// The Secret does not have what is needed.
    #[error("secret {secret}: {why}")]
    Secret {
        /// The Secret.
        secret: SecretReference,
        /// What is wrong with it.
        why: String,
    },
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
}

impl ExtensionConfigController {
    /// Registers the controller, and returns the extensions for the controllers that call hooks.
    pub fn register(manager: &Manager, hooks: HookClient) -> Extensions {
        let extensions = Extensions::new(manager, hooks.clone());
        let configs = extensions.configs.clone();
        let controller = Self { configs: configs.clone(), hooks, discoveries: Discoveries::default() };
        manager.controller("extensionconfig", &configs).register(controller);
        extensions
    }

    /// Asks the extension for its handlers, unless that happened when the process started, just now.
    async fn discover(&self, config: &ExtensionConfig) -> Result<Vec<HandlerStatus>, String> {
        let is_ready = self.hooks.registry().readiness().get(config.name()).is_some_and(Readiness::is_ready);
        if config.is_discovered() && is_ready && !self.discoveries.knows(config) {
            return Ok(config.status.handlers.clone());
        }
        self.hooks.refresh(config, None).await.map_err(|error| error.to_string())
    }

    /// Copies the certificates of a Secret, if an annotation asks for it: Secrets are not watched, so it is read at every
    /// discovery. True if something was written: the change
    /// comes back as an event.
    async fn inject_ca(
        &self,
        context: &Context,
        config: &ExtensionConfig,
    ) -> Result<bool, ExtensionConfigError> {
        let Some(secret) = config.inject_ca_from()? else { return Ok(false) };
        let fail = |why: String| ExtensionConfigError::Secret { secret: secret.clone(), why };
        let key = ObjectKey::new(&secret.namespace, &secret.name);
        let found = context.get::<Secret>(&key).await.map_err(|error| fail(describe_error(&error)))?;
        let found = found.ok_or_else(|| fail("it does not exist".to_owned()))?;
        let data = found.data.unwrap_or_default();
        let pem = data.get(CA_KEY).ok_or_else(|| fail(format!("it has no key {CA_KEY}")))?;
        let bundle = CaBundle::new(pem.0.clone());
        if bundle == config.spec.client_config.ca_bundle {
            return Ok(false);
        }
        let patch = json!({"spec": {"clientConfig": {"caBundle": bundle}}});
        context.writer::<ExtensionConfig>().patch(config, patch).await?;
        Ok(true)
    }
}

impl Reconciler for ExtensionConfigController {
    type Error = ExtensionConfigError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, ExtensionConfigError> {
        let Some(config) = self.configs.get(key).filter(|config| !config.is_deleting()) else {
            self.hooks.registry().unregister(&key.name);
            self.discoveries.forget(&key.name);
            return Ok(Outcome::done());
        };
        if Pause::of(&config.metadata, None).is_some() {
            return Ok(Outcome::done());
        }
        let injected = self.inject_ca(context, &config).await;
        match injected {
            Ok(true) => return Ok(Outcome::done()),
            Ok(false) => {}
            Err(error @ ExtensionConfigError::Write(_)) => return Err(error),
            Err(error) => {
                write_status(context, &config, Err(error.to_string())).await?;
                return Err(error);
            }
        }
        let discovery = match self.discoveries.recent(&config) {
            Some(recent) => recent,
            None => {
                let discovered = self.discover(&config).await;
                self.discoveries.remember(&config, discovered)
            }
        };
        let left = discovery.left();
        let outcome = if discovery.result.is_ok() { Outcome::routinely(left) } else { Outcome::after(left) };
        write_status(context, &config, discovery.result).await?;
        Ok(outcome)
    }
}

/// A discovery that failed leaves the handlers of the last one alone.
async fn write_status(
    context: &Context,
    config: &ExtensionConfig,
    discovered: Result<Vec<HandlerStatus>, String>,
) -> Result<(), WriteError> {
    let known = &config.status.handlers;
    let (finding, handlers) = match discovered {
        Ok(handlers) => (Finding::yes(DISCOVERED_CONDITION, DISCOVERED_REASON), handlers),
        Err(error) => {
            (Finding::no(DISCOVERED_CONDITION, NOT_DISCOVERED_REASON).because(error), known.clone())
        }
    };
    // Conditions of others are not ours to apply.
    let mut conditions: Vec<Condition> =
        config.condition(DISCOVERED_CONDITION).cloned().into_iter().collect();
    let is_said = !condition::set(&mut conditions, finding, config.metadata.generation, context.now());
    if is_said && handlers == *known {
        return Ok(());
    }
    let mut status = json!({"conditions": conditions});
    if !handlers.is_empty() {
        status["handlers"] = json!(handlers);
    }
    let intent: Value = json!({
        "apiVersion": ExtensionConfig::API_VERSION,
        "kind": ExtensionConfig::KIND,
        "metadata": {"name": config.name(), "uid": config.metadata.uid},
        "status": status,
    });
    context.writer::<ExtensionConfig>().apply_status(MANAGER, &intent).await?;
    Ok(())
}
