//! What comes next: a simulation of a cluster from where it is, made when something has changed, one at a time.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use kube::Client;
use windlass_controllers::fleet::ClusterView;
use windlass_simulate::{
    PreviewOptions, RebuildOptions, Snapshot, UpgradeReport, UpgradeSteering, simulate_preview,
};

/// Namespace and name of a cluster.
pub(crate) type ClusterKey = (String, String);

/// What a forecast is made for: it is made anew when another step runs or the target is another.
#[derive(Clone, PartialEq, Eq)]
struct Occasion {
    to: String,
    step: usize,
    machines_done: usize,
}

/// A forecast, and when its cluster was read.
#[derive(Clone)]
pub(crate) struct Foretold {
    pub(crate) report: Arc<UpgradeReport>,
    pub(crate) taken: Timestamp,
}

/// Forecasts of clusters that are looked at.
pub(crate) struct Forecasts {
    client: Client,
    kept: Mutex<BTreeMap<ClusterKey, (Occasion, Option<Foretold>)>>,
    /// A simulation takes a core: one at a time.
    turn: Arc<tokio::sync::Semaphore>,
}

impl Forecasts {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, kept: Mutex::default(), turn: Arc::new(tokio::sync::Semaphore::new(1)) }
    }

    /// The last forecast of a cluster whose upgrade runs, and begins another if that is not of now any more.
    pub(crate) fn of(self: &Arc<Self>, view: &ClusterView) -> Option<Foretold> {
        let key = (view.described.namespace.clone(), view.described.name.clone());
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(upgrade) = &view.described.upgrade else {
            kept.remove(&key);
            return None;
        };
        let progress = &view.described.progress;
        let occasion =
            Occasion { to: upgrade.to.clone(), step: progress.step, machines_done: progress.machines_done };
        let last = kept.get(&key).cloned();
        if last.as_ref().is_none_or(|(of, _)| *of != occasion)
            && let Ok(turn) = Arc::clone(&self.turn).try_acquire_owned()
        {
            let (this, to) = (Arc::clone(self), upgrade.to.clone());
            kept.insert(key.clone(), (occasion, last.as_ref().and_then(|(_, foretold)| foretold.clone())));
            tokio::spawn(async move {
                let foretold = this.simulated(&key, &to).await.ok();
                let mut kept = this.kept.lock().unwrap_or_else(PoisonError::into_inner);
                if let Some((_, of_key)) = kept.get_mut(&key).filter(|_| foretold.is_some()) {
                    *of_key = foretold;
                }
                drop(turn);
            });
        }
        last.and_then(|(_, foretold)| foretold)
    }

    /// What an upgrade to a version would do to a cluster, waiting for its turn.
    pub(crate) async fn what_if(&self, key: &ClusterKey, to: &str) -> Result<UpgradeReport, String> {
        let _turn = self.turn.acquire().await.map_err(|error| error.to_string())?;
        self.simulated(key, to).await.map(|foretold| Arc::unwrap_or_clone(foretold.report))
    }

    async fn simulated(&self, (namespace, name): &ClusterKey, to: &str) -> Result<Foretold, String> {
        let taken = Timestamp::now();
        let snapshot = Snapshot::read(&self.client, namespace, name, taken).await;
        let snapshot = snapshot.map_err(|error| error.to_string())?;
        let to = to.to_owned();
        // The runtime of a simulation has its own, paused clock.
        let simulation = tokio::task::spawn_blocking(move || {
            let (durations, learned) = snapshot.durations();
            let rebuild = RebuildOptions { live_extensions: false, durations };
            let options = PreviewOptions::new(rebuild, to, 0, UpgradeSteering::default());
            let report = options.and_then(|options| simulate_preview(&snapshot, &options));
            report.map_err(|error| error.to_string()).map(|mut report| {
                report.warnings.push(format!("where their provider does not say it, {learned}"));
                report
            })
        });
        let report = simulation.await.map_err(|error| error.to_string())??;
        Ok(Foretold { report: Arc::new(report), taken })
    }
}
