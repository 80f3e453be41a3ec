//! The whole management plane around an upgrade: everything that acts, and a runtime in which hours pass at once.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::runtime::Builder;
use windlass_controllers::cluster::Clusters;
use windlass_controllers::control_plane::ControlPlaneReconciler;
use windlass_controllers::extension_config::ExtensionConfigController;
use windlass_controllers::external::Externals;
use windlass_controllers::health_check::HealthChecks;
use windlass_controllers::machine::{Machines, NoUpdater, Parts};
use windlass_controllers::machine_pool::MachinePools;
use windlass_controllers::workload::{KubeconfigAccess, Resolved, WorkloadAccess};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_controllers::{machine_deployment, machine_set, topology};
use windlass_dev::{Provider, Resolution};

use super::{UpgradeError, UpgradeOptions, UpgradeReport, upgrade};
use crate::extension::SimulatedExtension;
use crate::world::{Setup, Start};

/// How much virtual time is given. Machines in memory take seconds, those of users minutes.
const LIMIT: Duration = Duration::from_secs(7 * 24 * 3600);

/// What to simulate.
#[derive(Debug, Clone, PartialEq)]
pub struct UpgradeRequest {
    /// One Cluster with a topology, its ClusterClass, and the templates of that.
    pub manifests: Vec<Value>,
    /// The version that everything shall reach.
    pub to: String,
    /// What all chance comes from.
    pub seed: u64,
}

/// Simulates an upgrade with all real controllers, in a runtime of its own.
///
/// # Errors
///
/// As [`upgrade`].
pub fn simulate_upgrade(request: &UpgradeRequest) -> Result<UpgradeReport, UpgradeError> {
    let extension = SimulatedExtension::new();
    let options = UpgradeOptions {
        to: request.to.clone(),
        seed: request.seed,
        limit: LIMIT,
        setup: with_topologies(&extension),
        extension,
    };
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| UpgradeError::Runtime(error.to_string()))?;
    runtime.block_on(upgrade(&request.manifests, &options))
}

/// Everything that `windlass up` runs, topologies and their extensions included.
pub fn with_topologies(extension: &SimulatedExtension) -> Setup {
    let extension = extension.clone();
    Arc::new(move |start: &Start<'_>| {
        let manager = start.manager;
        let provider = Provider::new(start.clock.clone(), start.seed);
        provider.register(manager);
        let workloads = provider.workloads().clone();
        let resolver = move |server: &str| match workloads.resolve(server) {
            Resolution::Elsewhere => Resolved::Elsewhere,
            Resolution::Down => Resolved::Down,
            Resolution::Client(client) => Resolved::Client(client),
        };
        let access: Arc<dyn WorkloadAccess> =
            Arc::new(KubeconfigAccess::new(start.client.clone()).resolving(Arc::new(resolver)));
        let externals = Externals::new();
        let nodes = WorkloadNodes::new(Arc::clone(&access), manager.clock().clone());
        let hooks = extension.client();
        let extensions = ExtensionConfigController::register(manager, hooks.clone());
        topology::register(manager, hooks, externals.clone(), extensions);
        Clusters::register(manager, externals.clone(), true);
        machine_deployment::register(manager, &externals);
        machine_set::register(manager, &externals);
        MachinePools::register(manager, externals.clone(), nodes.clone());
        HealthChecks::register(manager, nodes.clone());
        ControlPlaneReconciler::register(manager, externals.clone(), Arc::clone(&access));
        Machines::register(manager, Parts { externals, access, nodes, updater: Arc::new(NoUpdater) });
    })
}
