//! How controllers under test reach workload clusters.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use kube::Client;
use windlass_controllers::workload::{KubeconfigAccess, NoAnswer, Resolved, WorkloadAccess};
use windlass_etcd::{Channel, MemoryEtcd};
use windlass_inmemory::{Provider, Resolution};
use windlass_runtime::ObjectKey;

use crate::World;

impl World {
    /// Every Cluster has the workload API of this world.
    pub fn one_workload(&self) -> Arc<dyn WorkloadAccess> {
        Arc::new(OneWorkload(self.workload().clone(), self.etcd().clone()))
    }

    /// The in-memory provider, as a new process has it: it knows nothing but the time.
    pub fn provider(&self) -> Provider {
        Provider::new(self.clock().clone(), 1)
    }

    /// Clusters have the workload clusters of the in-memory provider, by their kubeconfig Secret.
    pub fn workloads_of(&self, provider: &Provider) -> Arc<dyn WorkloadAccess> {
        let workloads = provider.workloads().clone();
        let resolve = move |server: &str| match workloads.resolve(server) {
            Resolution::Elsewhere => Resolved::Elsewhere,
            Resolution::Down => Resolved::Down,
            Resolution::Open { client, etcd } => {
                Resolved::InProcess { client, etcd: Arc::new(move |node| etcd.channel(node)) }
            }
        };
        Arc::new(KubeconfigAccess::new(self.client.clone()).resolving(Arc::new(resolve)))
    }
}

struct OneWorkload(Client, MemoryEtcd);

impl WorkloadAccess for OneWorkload {
    fn client<'a>(&'a self, _: &'a ObjectKey) -> BoxFuture<'a, Result<Client, NoAnswer>> {
        Box::pin(std::future::ready(Ok(self.0.clone())))
    }

    fn etcd<'a>(&'a self, _: &'a ObjectKey, node: &'a str) -> BoxFuture<'a, Result<Channel, NoAnswer>> {
        Box::pin(std::future::ready(Ok(self.1.channel(node))))
    }
}
