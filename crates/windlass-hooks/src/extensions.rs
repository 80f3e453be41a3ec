//! From ExtensionConfigs to registered handlers.

use std::collections::BTreeMap;

use tokio::task::JoinSet;
use tracing::Instrument;
use windlass_api::hooks::{Discovery, DiscoveryRequest};
use windlass_api::runtime::{ExtensionConfig, HandlerStatus};

use crate::call::Target;
use crate::client::HookClient;
use crate::discovery::{DiscoveryError, check_handlers};
use crate::transport::{ClientIdentity, Endpoint};

/// Extensions that are asked at the same time when the process starts.
const CONCURRENT_DISCOVERIES: usize = 16;

impl HookClient {
    /// Asks an extension for its handlers, filled in and checked. Registers nothing.
    ///
    /// # Errors
    ///
    /// Why the extension is not ready.
    pub async fn discover(
        &self,
        config: &ExtensionConfig,
        client_identity: Option<&ClientIdentity>,
    ) -> Result<Vec<HandlerStatus>, DiscoveryError> {
        let client_config = &config.spec.client_config;
        let endpoint = Endpoint::new(config.name(), client_config.ca_bundle.clone())
            .with_client_identity(client_identity.cloned());
        let timeout = self.0.discovery_timeout;
        let target = Target { client_config, endpoint: &endpoint, handler: None, timeout };
        let span = tracing::debug_span!("discovery", extension = config.name());
        let request = DiscoveryRequest::default();
        let response = self.0.caller.call::<Discovery>(target, &request).instrument(span).await?;
        Ok(check_handlers(config, &response.handlers)?)
    }

    /// Discovers the handlers of an extension and registers them in the place of those that it had. They are
    /// what belongs into the status.
    ///
    /// # Errors
    ///
    /// Why the extension is not ready. The registry says so from then on; handlers that were registered
    /// before stay, and those in the status are registered if there were none.
    pub async fn refresh(
        &self,
        config: &ExtensionConfig,
        client_identity: Option<ClientIdentity>,
    ) -> Result<Vec<HandlerStatus>, DiscoveryError> {
        let discovered = self.discover(config, client_identity.as_ref()).await;
        let registered = discovered.and_then(|handlers| {
            self.registry().register(config, &handlers, client_identity.clone())?;
            Ok(handlers)
        });
        if let Err(error) = &registered {
            tracing::warn!(extension = config.name(), reason = %error.reason(), %error, "not ready");
            self.registry().not_ready(config, error.clone(), client_identity);
        }
        registered
    }

    /// Looks at all ExtensionConfigs when the process starts, and lets calls happen from then on. Extensions
    /// that are down do not keep the others or the process waiting for longer than one discovery takes.
    ///
    /// Returns what each extension came to, by name.
    pub async fn warm_up(
        &self,
        configs: impl IntoIterator<Item = (ExtensionConfig, Option<ClientIdentity>)>,
    ) -> BTreeMap<String, Result<Vec<HandlerStatus>, DiscoveryError>> {
        let mut waiting = configs.into_iter();
        let mut running = JoinSet::new();
        let mut results = BTreeMap::new();
        loop {
            while running.len() < CONCURRENT_DISCOVERIES {
                let Some((config, identity)) = waiting.next() else { break };
                let client = self.clone();
                running.spawn(async move {
                    let result = client.refresh(&config, identity).await;
                    (config.name().to_owned(), result)
                });
            }
            match running.join_next().await {
                Some(Ok((name, result))) => drop(results.insert(name, result)),
                // Cannot happen: nothing in there panics, and it is never cancelled. The name is lost with it.
                Some(Err(error)) => tracing::error!(%error, "discovery of an extension was cut off"),
                None => break,
            }
        }
        self.registry().mark_warm();
        results
    }
}
