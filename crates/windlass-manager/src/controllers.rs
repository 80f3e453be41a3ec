//! Everything that acts in a management cluster.

use std::sync::Arc;

use kube::Client;
use windlass_controllers::bootstrap::KubeadmConfigs;
use windlass_controllers::cluster::Clusters;
use windlass_controllers::cluster_resource_set::ClusterResourceSets;
use windlass_controllers::control_plane::ControlPlaneReconciler;
use windlass_controllers::extension_config::{ClusterNamespaces, ExtensionConfigController};
use windlass_controllers::external::Externals;
use windlass_controllers::health_check::HealthChecks;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_controllers::machine::{Machines, Parts};
use windlass_controllers::machine_pool::MachinePools;
use windlass_controllers::workload::{KubeconfigAccess, Resolved, WorkloadAccess};
use windlass_controllers::workload_nodes::WorkloadNodes;
use windlass_controllers::{machine_deployment, machine_set, topology};
use windlass_engine::features::Features;
use windlass_hooks::HookClient;
use windlass_hooks::transport::{HttpsTransport, boxed};
use windlass_inmemory::{Provider, Resolution};
use windlass_runtime::Manager;

use crate::selection::{Controller, Selection};

/// What acts in a management cluster, and through what.
pub struct Plane {
    /// The API of the management cluster.
    pub client: Client,
    /// How extensions are called.
    pub hooks: HookClient,
    /// The in-memory provider, where there is one. Its workload clusters do not die with those who manage them: give
    /// the same one again after a restart in the process.
    pub provider: Option<Provider>,
    /// Which features are on.
    pub features: Features,
}

/// Calls extensions over HTTPS; which are called about a namespace depends on its labels in this API.
pub(crate) fn hook_client(client: Client) -> HookClient {
    HookClient::builder(boxed(HttpsTransport::new())).namespaces(ClusterNamespaces::new(client)).build()
}

impl Plane {
    /// Registers the provider and all controllers.
    pub fn register(&self, manager: &Manager) {
        self.register_selected(manager, &Selection::all());
    }

    /// Registers the provider and the controllers that are selected.
    pub fn register_selected(&self, manager: &Manager, selection: &Selection) {
        if let Some(provider) = &self.provider {
            provider.register(manager);
        }
        self.register_controllers(manager, selection);
    }

    /// Registers the controllers that are selected, and leaves it to others to register the provider.
    pub fn register_controllers(&self, manager: &Manager, selection: &Selection) {
        let access = self.workload_access();
        let externals = Externals::new();
        let nodes = WorkloadNodes::new(Arc::clone(&access), manager.clock().clone());
        nodes.forget_with(&manager.cache());
        // Who looks after no ExtensionConfigs knows no extensions either.
        let mut in_place = InPlaceExtensions::none();
        if selection.has(Controller::ExtensionConfig) {
            let extensions = ExtensionConfigController::register(manager, self.hooks.clone());
            in_place = InPlaceExtensions::of(extensions.clone());
            if selection.has(Controller::Topology) {
                let (hooks, externals) = (self.hooks.clone(), externals.clone());
                topology::register(manager, hooks, externals, extensions, self.features, Some(nodes.clone()));
            }
        }
        if selection.has(Controller::Cluster) {
            Clusters::register(manager, externals.clone(), nodes.clone(), true);
        }
        if selection.has(Controller::MachineDeployment) {
            machine_deployment::register(manager, &externals, &in_place);
        }
        if selection.has(Controller::MachineSet) {
            machine_set::register(manager, &externals, self.features);
        }
        if selection.has(Controller::MachinePool) {
            MachinePools::register(manager, externals.clone(), nodes.clone(), Arc::clone(&access));
        }
        if selection.has(Controller::MachineHealthCheck) {
            HealthChecks::register(manager, nodes.clone());
        }
        if selection.has(Controller::KubeadmControlPlane) {
            ControlPlaneReconciler::register(
                manager,
                externals.clone(),
                Arc::clone(&access),
                in_place.clone(),
            );
        }
        if selection.has(Controller::KubeadmConfig) {
            KubeadmConfigs::register(manager, externals.clone(), Arc::clone(&access));
        }
        if selection.has(Controller::ClusterResourceSet) {
            ClusterResourceSets::register(manager, Arc::clone(&access));
        }
        if selection.has(Controller::Machine) {
            Machines::register(manager, Parts { externals, access, nodes, in_place });
        }
    }

    /// Workload clusters by their kubeconfig Secret; those of the in-memory provider are in this process.
    fn workload_access(&self) -> Arc<dyn WorkloadAccess> {
        let access = KubeconfigAccess::new(self.client.clone());
        let Some(provider) = &self.provider else { return Arc::new(access) };
        let workloads = provider.workloads().clone();
        let resolver = move |server: &str| match workloads.resolve(server) {
            Resolution::Elsewhere => Resolved::Elsewhere,
            Resolution::Down => Resolved::Down,
            Resolution::Open { client, etcd } => {
                Resolved::InProcess { client, etcd: Arc::new(move |node| etcd.channel(node)) }
            }
        };
        Arc::new(access.resolving(Arc::new(resolver)))
    }
}
