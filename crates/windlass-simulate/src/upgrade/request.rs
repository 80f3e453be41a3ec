//! An upgrade to simulate, and a runtime in which hours pass at once.

use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Builder;

use super::{UpgradeError, UpgradeOptions, UpgradeReport, UpgradeSteering, upgrade};
use crate::extension::SimulatedExtension;

/// How much virtual time is given. Machines in memory take seconds, those of users minutes.
pub(super) const LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct UpgradeRequest {
    /// One Cluster with a topology, its ClusterClass, and the templates of that.
    pub manifests: Vec<Value>,
    /// The version that everything shall reach.
    pub to: String,
    /// What all chance comes from.
    pub seed: u64,
    /// Whether the extensions of the manifests are really called, over HTTPS.
    pub live_extensions: bool,
    /// What a person does while it runs.
    pub steering: UpgradeSteering,
}

/// Simulates an upgrade with all real controllers, in a runtime of its own.
///
/// # Errors
///
/// As [`upgrade`].
pub fn simulate_upgrade(request: &UpgradeRequest) -> Result<UpgradeReport, UpgradeError> {
    let extension = if request.live_extensions {
        SimulatedExtension::live().map_err(|error| UpgradeError::Runtime(error.to_string()))?
    } else {
        SimulatedExtension::new()
    };
    let options = UpgradeOptions {
        to: request.to.clone(),
        seed: request.seed,
        limit: LIMIT,
        extension,
        steering: request.steering.clone(),
    };
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| UpgradeError::Runtime(error.to_string()))?;
    runtime.block_on(upgrade(&request.manifests, &options))
}
