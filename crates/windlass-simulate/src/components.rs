//! Everything that acts in a management cluster, as `windlass up` runs it.

use std::sync::Arc;

use kube::Client;
use windlass_controllers::cluster::Clusters;
use windlass_controllers::control_plane::ControlPlaneReconciler;
use windlass_controllers::external::Externals;
use windlass_controllers::health_check::HealthChecks;
use windlass_controllers::machine::{Machines, NoUpdater, Parts};
use windlass_controllers::machine_pool::MachinePools;
use windlass_controllers::workload::{KubeconfigAccess, Resolved, WorkloadAccess};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_controllers::{machine_deployment, machine_set};
use windlass_dev::{Provider, Resolution};
use windlass_reconcile::Manager;

/// Registers the in-memory provider and all controllers. Workload clusters of the provider are those that were there
/// before: they do not die with those who manage them.
pub fn register_all(manager: &Manager, client: &Client, provider: &Provider) {
    provider.register(manager);
    let workloads = provider.workloads().clone();
    let resolver = move |server: &str| match workloads.resolve(server) {
        Resolution::Elsewhere => Resolved::Elsewhere,
        Resolution::Down => Resolved::Down,
        Resolution::Client(client) => Resolved::Client(client),
    };
    let access: Arc<dyn WorkloadAccess> =
        Arc::new(KubeconfigAccess::new(client.clone()).resolving(Arc::new(resolver)));
    let externals = Externals::new();
    let nodes = WorkloadNodes::new(Arc::clone(&access), manager.clock().clone());
    Clusters::register(manager, externals.clone(), false);
    machine_deployment::register(manager, &externals);
    machine_set::register(manager, &externals);
    MachinePools::register(manager, externals.clone(), nodes.clone());
    HealthChecks::register(manager, nodes.clone());
    ControlPlaneReconciler::register(manager, externals.clone(), Arc::clone(&access));
    Machines::register(manager, Parts { externals, access, nodes, updater: Arc::new(NoUpdater) });
}
