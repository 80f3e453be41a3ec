//! When an extension is asked again which handlers it has.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use windlass_api::runtime::{ExtensionConfig, HandlerStatus};
use windlass_hooks::cache::retry_after;

/// How often an extension is asked that has answered, and at most how often one that has not. An extension that goes down
/// is noticed after this and the time that a discovery may take, and one that comes back after this.
pub(super) const INTERVAL: Duration = Duration::from_secs(30);

/// What the last discovery of every extension came to, by the name of its ExtensionConfig. It only saves calls: a process
/// that starts discovers everything.
#[derive(Debug, Default)]
pub(super) struct Discoveries(Mutex<BTreeMap<String, Discovery>>);

/// A discovery.
#[derive(Clone, Debug)]
pub(super) struct Discovery {
    /// UID and generation of the ExtensionConfig: an edit makes it be discovered again.
    of: (Option<String>, Option<i64>),
    /// Failures in a row.
    failures: u32,
    next: Instant,
    /// What belongs into the status.
    pub(super) result: Result<Vec<HandlerStatus>, String>,
}

impl Discovery {
    /// How long until the next one.
    pub(super) fn left(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }
}

impl Discoveries {
    /// The last discovery, if it is too early for the next.
    pub(super) fn recent(&self, config: &ExtensionConfig) -> Option<Discovery> {
        let known = self.lock().get(config.name()).cloned()?;
        (known.of == of(config) && !known.left().is_zero()).then_some(known)
    }

    /// Whether the extension was discovered before, in this edition of its ExtensionConfig.
    pub(super) fn knows(&self, config: &ExtensionConfig) -> bool {
        self.lock().get(config.name()).is_some_and(|known| known.of == of(config))
    }

    /// Remembers a discovery that has just ended.
    pub(super) fn remember(
        &self,
        config: &ExtensionConfig,
        result: Result<Vec<HandlerStatus>, String>,
    ) -> Discovery {
        let mut known = self.lock();
        let before = known.get(config.name()).filter(|known| known.of == of(config));
        let failures = match &result {
            Ok(_) => 0,
            Err(_) => before.map_or(0, |before| before.failures) + 1,
        };
        // An extension that is applied together with its Deployment comes up in seconds: it is asked soon at first.
        let wait = if failures == 0 { INTERVAL } else { retry_after(failures).min(INTERVAL) };
        let discovery = Discovery { of: of(config), failures, next: Instant::now() + wait, result };
        known.insert(config.name().to_owned(), discovery.clone());
        discovery
    }

    /// Forgets an extension that is gone.
    pub(super) fn forget(&self, name: &str) {
        self.lock().remove(name);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Discovery>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn of(config: &ExtensionConfig) -> (Option<String>, Option<i64>) {
    (config.metadata.uid.clone(), config.metadata.generation)
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;
    use windlass_api::runtime::ExtensionConfigSpec;

    use super::*;

    fn config(generation: i64) -> ExtensionConfig {
        let mut config = ExtensionConfig::new("e", ExtensionConfigSpec::default());
        config.metadata.generation = Some(generation);
        config
    }

    #[tokio::test(start_paused = true)]
    async fn an_extension_is_asked_every_half_minute_and_sooner_at_first_if_it_does_not_answer() {
        let discoveries = Discoveries::default();
        let down = || Err("down".to_owned());
        let failures: Vec<u64> =
            (0..8).map(|_| discoveries.remember(&config(1), down()).left().as_secs()).collect();
        assert_eq!(failures, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(discoveries.remember(&config(1), Ok(Vec::new())).left(), INTERVAL);
        assert_eq!(discoveries.remember(&config(1), down()).left().as_secs(), 1, "counted anew");
    }

    #[tokio::test(start_paused = true)]
    async fn a_discovery_counts_until_the_next_is_due_or_the_spec_is_edited() {
        let discoveries = Discoveries::default();
        assert!(discoveries.recent(&config(1)).is_none());
        discoveries.remember(&config(1), Ok(Vec::new()));
        advance(INTERVAL - Duration::from_millis(1)).await;
        assert!(discoveries.recent(&config(1)).is_some());
        assert!(discoveries.recent(&config(2)).is_none(), "it was edited");
        advance(Duration::from_millis(1)).await;
        assert!(discoveries.recent(&config(1)).is_none(), "it is due");
        discoveries.remember(&config(1), Ok(Vec::new()));
        discoveries.forget("e");
        assert!(discoveries.recent(&config(1)).is_none(), "it is gone");
    }
}
