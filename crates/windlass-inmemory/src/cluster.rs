//! DevCluster: an API of its own for every cluster.

use kube::ResourceExt;
use serde_json::json;
use windlass_api::infrastructure::{DevCluster, DevClusterStatus, DevInitializationStatus};
use windlass_engine::condition::{self, Finding};
use windlass_engine::pause::Pause;
use windlass_runtime::{Context, Manager, ObjectKey, Outcome, Reconciler};

use crate::provider::{
    DevError, FIELD_MANAGER, World, add_finalizer, cluster_name, host_of, remove_finalizer, status_intent,
};
use crate::workload::{PORT, WorkloadClusters};

/// Finalizer of what it provides: gone with the infrastructure.
pub const FINALIZER: &str = "devcluster.infrastructure.cluster.x-k8s.io";

/// Reconciles DevClusters.
pub(crate) struct DevClusters {
    world: World,
}

impl DevClusters {
    pub(crate) fn register(manager: &Manager, world: &World) {
        manager.controller("dev-cluster", &world.dev_clusters).register(Self { world: world.clone() });
    }
}

impl Reconciler for DevClusters {
    type Error = DevError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, DevError> {
        let Some(dev_cluster) = self.world.dev_clusters.get(key) else { return Ok(Outcome::done()) };
        let dev_cluster = dev_cluster.as_ref();
        let cluster = cluster_name(dev_cluster)
            .and_then(|name| self.world.clusters.get(&ObjectKey::new(&key.namespace, name)));
        if Pause::of(&dev_cluster.metadata, cluster.as_deref()).is_some() {
            return Ok(Outcome::done());
        }
        if dev_cluster.metadata.deletion_timestamp.is_some() {
            self.world.workloads.remove(&host_of(dev_cluster));
            return Ok(remove_finalizer(context, dev_cluster, FINALIZER).await?);
        }
        if add_finalizer(context, dev_cluster, FINALIZER).await? {
            return Ok(Outcome::done());
        }
        let mut status = dev_cluster.status.clone();
        self.world.workload(dev_cluster).await?;
        if !dev_cluster.spec.control_plane_endpoint.is_set() {
            let host = WorkloadClusters::host(&key.namespace, &key.name);
            let endpoint = json!({"spec": {"controlPlaneEndpoint": {"host": host, "port": PORT}}});
            context.writer::<DevCluster>().patch(dev_cluster, endpoint).await?;
        }
        let mut ready = Finding::yes("Ready", "Provisioned");
        if dev_cluster.spec.backend.in_memory.is_none() {
            ready = ready.because("the docker backend is taken for inMemory: no containers are started here");
        }
        status.initialization = DevInitializationStatus { provisioned: Some(true) };
        condition::set(&mut status.conditions, ready, dev_cluster.metadata.generation, context.now());
        if status != dev_cluster.status {
            let own = DevClusterStatus {
                conditions: status.conditions,
                initialization: status.initialization,
                ..DevClusterStatus::default()
            };
            let writer = context.writer::<DevCluster>();
            writer.apply_status(FIELD_MANAGER, &status_intent(dev_cluster, own)).await?;
        }
        tracing::debug!(cluster = %dev_cluster.name_any(), "workload cluster is there");
        Ok(Outcome::done())
    }
}
