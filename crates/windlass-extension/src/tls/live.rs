//! The TLS configuration that new connections get, replaced while the server runs.

use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use tokio::time::{MissedTickBehavior, interval};
use tracing::{info, warn};

use super::{Material, Tls, TlsError};

/// The configuration of now.
pub(crate) struct LiveTls {
    source: Tls,
    config: ArcSwap<ServerConfig>,
    taken_over: Mutex<Material>,
}

impl LiveTls {
    pub(crate) fn load(source: Tls) -> Result<Self, TlsError> {
        let material = source.read()?;
        let config = ArcSwap::from_pointee(material.server_config()?);
        Ok(Self { source, config, taken_over: Mutex::new(material) })
    }

    pub(crate) fn source(&self) -> &Tls {
        &self.source
    }

    pub(crate) fn config(&self) -> Arc<ServerConfig> {
        self.config.load_full()
    }

    /// Looks at the files again and again, for ever. Without files there is nothing to do.
    pub(crate) async fn follow_files(self: Arc<Self>) {
        if !self.source.has_files() {
            return std::future::pending().await;
        }
        let mut ticks = interval(self.source.reload_interval);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut complained = String::new();
        loop {
            ticks.tick().await;
            let live = Arc::clone(&self);
            let outcome = tokio::task::spawn_blocking(move || live.reload()).await;
            match outcome {
                Ok(Ok(false)) => complained.clear(),
                Ok(Ok(true)) => {
                    complained.clear();
                    info!("certificate changed; new connections get the new one");
                }
                // Said once per reason: a rotation in two steps is complete at the next look.
                Ok(Err(error)) if complained != error.to_string() => {
                    warn!(%error, "certificate changed and cannot be used; keeping the old one");
                    complained = error.to_string();
                }
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }

    /// Takes over what is in the files now. Tells whether it was anything new.
    fn reload(&self) -> Result<bool, TlsError> {
        let material = self.source.read()?;
        let mut taken_over = self.taken_over.lock().unwrap_or_else(PoisonError::into_inner);
        if *taken_over == material {
            return Ok(false);
        }
        self.config.store(Arc::new(material.server_config()?));
        *taken_over = material;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tls::DevelopmentCertificate;

    #[test]
    fn a_half_finished_rotation_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (certificate, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let old = DevelopmentCertificate::generate(["localhost"]).unwrap();
        let new = DevelopmentCertificate::generate(["localhost"]).unwrap();
        std::fs::write(&certificate, old.certificate_pem()).unwrap();
        std::fs::write(&key, old.key_pem()).unwrap();
        let live = LiveTls::load(Tls::files(&certificate, &key)).unwrap();
        let before = live.config();
        assert!(!live.reload().unwrap());

        std::fs::write(&certificate, new.certificate_pem()).unwrap();
        assert!(live.reload().is_err());
        assert!(Arc::ptr_eq(&before, &live.config()));

        std::fs::write(&key, new.key_pem()).unwrap();
        assert!(live.reload().unwrap());
        assert!(!Arc::ptr_eq(&before, &live.config()));
        assert!(!live.reload().unwrap());

        std::fs::remove_file(&key).unwrap();
        assert!(live.reload().is_err());
    }
}
