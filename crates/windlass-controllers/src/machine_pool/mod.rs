//! The MachinePool controller: a group whose infrastructure looks after its instances.
//!
//! What it decides is in [`windlass_engine::machine_pool`]; here it is read and written.

mod instances;
mod nodes;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};
use windlass_api::api_version;
use windlass_api::cluster::{Cluster, ContractVersionedObjectReference, Machine, MachinePool};
use windlass_api::names::MACHINE_POOL_FINALIZER;
use windlass_engine::contract;
use windlass_engine::machine_pool::{
    Decision, Deletion, NodesSeen, Observed, decide, deletion, is_machine_of,
};
use windlass_engine::pause::Pause;
use windlass_runtime::{Cache, Context, Manager, ObjectKey, Outcome, Reconciler, Trigger, WriteError};

use crate::external::{External, Externals};
use crate::pause;
use crate::references::{ReferrerError, adopt, claim, ignore_gone, read, release};
use crate::status;
use crate::workload::WorkloadAccess;
use crate::workload_nodes::{Silence, WorkloadNodes};

/// How much time is between two looks at one pool: it has many Nodes.
const PACE: Duration = Duration::from_secs(1);
/// How soon a workload cluster that does not answer is asked again.
const SILENCE: Duration = Duration::from_secs(30);

/// Reconciles MachinePools.
pub struct MachinePools {
    pools: Cache<MachinePool>,
    clusters: Cache<Cluster>,
    machines: Cache<Machine>,
    externals: Externals,
    nodes: WorkloadNodes,
    access: Arc<dyn WorkloadAccess>,
}

impl MachinePools {
    /// Adds the MachinePool controller to a manager.
    pub fn register(
        manager: &Manager,
        externals: Externals,
        nodes: WorkloadNodes,
        access: Arc<dyn WorkloadAccess>,
    ) {
        let pools: Cache<MachinePool> = manager.cache();
        let (clusters, machines): (Cache<Cluster>, Cache<Machine>) = (manager.cache(), manager.cache());
        let kind = pools.kind().clone();
        let trigger = Trigger::new();
        let (by_node, wake) = (pools.clone(), trigger.clone());
        nodes.on_change(Arc::new(move |cluster, _, _| {
            for key in of_cluster(&by_node, &cluster.namespace, &cluster.name) {
                wake.fire(&key);
            }
        }));
        let (by_cluster, referring) = (pools.clone(), pools.clone());
        manager
            .controller("machinepool", &pools)
            .pace(PACE)
            .watches(&clusters, move |cluster: &Cluster| {
                of_cluster(&by_cluster, &ObjectKey::of(cluster).namespace, &cluster.name_any())
            })
            .watches(&machines, move |machine: &Machine| kind.controller_of(machine).into_iter().collect())
            .on_dynamic(move |object| concerned(&referring, object))
            .triggered_by(&trigger)
            .register(Self { pools: pools.clone(), clusters, machines, externals, nodes, access });
    }
}

fn of_cluster(pools: &Cache<MachinePool>, namespace: &str, cluster: &str) -> Vec<ObjectKey> {
    let found = pools.in_namespace(namespace).into_iter().filter(|pool| pool.spec.cluster_name == cluster);
    found.map(|pool| ObjectKey::of(pool.as_ref())).collect()
}

/// The pools that point to an object, which may be there before it has its owner, and the pool that it is an instance of.
fn concerned(pools: &Cache<MachinePool>, object: &DynamicObject) -> Vec<ObjectKey> {
    let Some(types) = &object.types else { return Vec::new() };
    let group = api_version::group(&types.api_version);
    let name = object.name_any();
    let is = |reference: &ContractVersionedObjectReference| {
        reference.kind == types.kind && reference.api_group == group && reference.name == name
    };
    let found = pools.in_namespace(&ObjectKey::of(object).namespace).into_iter().filter(|pool| {
        let template = &pool.spec.template.spec;
        is(&template.infrastructure_ref)
            || template.bootstrap.config_ref.as_ref().is_some_and(is)
            || is_machine_of(pool, object.labels())
    });
    found.map(|pool| ObjectKey::of(pool.as_ref())).collect()
}

impl Reconciler for MachinePools {
    type Error = ReferrerError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, ReferrerError> {
        let Some(pool) = self.pools.get(key) else { return Ok(Outcome::done()) };
        let pool = pool.as_ref();
        let cluster = self.clusters.get(&ObjectKey::new(&key.namespace, &pool.spec.cluster_name));
        let deleting = pool.metadata.deletion_timestamp.is_some();
        if let Some(pause) = Pause::of(&pool.metadata, cluster.as_deref()) {
            return Ok(pause::say(context, pool, &pool.status.conditions, pause).await?);
        }
        match &cluster {
            // It waits for its Cluster, whose arrival is an event.
            None if !deleting => return Ok(Outcome::done()),
            Some(cluster) if adopt(context, pool, cluster, Some(MACHINE_POOL_FINALIZER)).await? => {
                return Ok(Outcome::done());
            }
            _ => {}
        }
        let template = &pool.spec.template.spec;
        let config = template.bootstrap.config_ref.as_ref();
        let bootstrap =
            read(&self.externals, context, &key.namespace, config, contract::bootstrap_config).await;
        let reference = Some(&template.infrastructure_ref);
        let infrastructure =
            read(&self.externals, context, &key.namespace, reference, contract::infrastructure_machine_pool)
                .await;
        let nodes = self.nodes_of(cluster.as_deref()).await;
        let found: Vec<&Node> = match &nodes {
            Some(Ok(nodes)) => nodes.iter().map(AsRef::as_ref).collect(),
            _ => Vec::new(),
        };
        let why = nodes.as_ref().and_then(|nodes| nodes.as_ref().err()).map(ToString::to_string);
        let seen = match (&nodes, &why) {
            (None, _) => NodesSeen::NotSought,
            (Some(_), Some(why)) => NodesSeen::NoAnswer(why),
            (Some(_), None) => NodesSeen::Found(&found),
        };
        let observed = Observed {
            pool,
            bootstrap: bootstrap.referenced,
            infrastructure: infrastructure.referenced,
            nodes: seen,
        };
        let decision = decide(&observed, context.now());
        claim(context, pool, &pool.spec.cluster_name, bootstrap.external.as_ref()).await?;
        claim(context, pool, &pool.spec.cluster_name, infrastructure.external.as_ref()).await?;
        if deleting {
            let step = deletion(&observed.infrastructure, &observed.bootstrap);
            let released = self
                .delete(context, pool, &step, infrastructure.external.as_ref(), bootstrap.external.as_ref())
                .await?;
            if released {
                return Ok(Outcome::done());
            }
        }
        let shown = match (deleting, observed.infrastructure.object()) {
            (false, Some(made)) => self.show_instances(context, pool, made, &found).await,
            _ => Ok(()),
        };
        self.tend_nodes(context, pool, &decision, &found).await;
        self.write(context, pool, &decision).await?;
        if let Some(error) = infrastructure.error.or(bootstrap.error) {
            return Err(error.into());
        }
        shown?;
        let silent = if why.is_some() { Outcome::after(SILENCE) } else { Outcome::done() };
        Ok(Outcome::at(decision.look_again, context.now()).or(silent))
    }
}

impl MachinePools {
    /// The Nodes of the Cluster; nothing if there is no API to ask yet.
    async fn nodes_of(&self, cluster: Option<&Cluster>) -> Option<Result<Vec<Arc<Node>>, Silence>> {
        let initialized =
            |cluster: &&Cluster| cluster.status.initialization.control_plane_initialized == Some(true);
        let cluster = cluster.filter(initialized)?;
        Some(self.nodes.all(&ObjectKey::of(cluster)).await)
    }

    async fn write(
        &self,
        context: &Context,
        pool: &MachinePool,
        decision: &Decision,
    ) -> Result<(), ReferrerError> {
        let mut written = None;
        if !decision.spec.is_empty() {
            let mut patch = json!({"spec": {}});
            if let Some(ids) = &decision.spec.provider_ids {
                // An empty list is no list: upstream's schema refuses one.
                patch["spec"]["providerIDList"] = if ids.is_empty() { Value::Null } else { json!(ids) };
            }
            if let Some(secret) = &decision.spec.data_secret_name {
                patch["spec"]["template"] = json!({"spec": {"bootstrap": {"dataSecretName": secret}}});
            }
            written = Some(context.writer::<MachinePool>().patch(pool, patch).await?);
        }
        let read = written.as_ref().unwrap_or(pool);
        status::write(&context.writer(), read, &pool.status, &decision.status).await
    }
    /// Deletes what is next; true if the pool is gone with that.
    async fn delete(
        &self,
        context: &Context,
        pool: &MachinePool,
        step: &Deletion,
        infrastructure: Option<&External>,
        bootstrap: Option<&External>,
    ) -> Result<bool, WriteError> {
        let external = match step {
            Deletion::Release => {
                release(context, pool, MACHINE_POOL_FINALIZER).await?;
                return Ok(true);
            }
            Deletion::Infrastructure(leaving) if leaving.delete => infrastructure,
            Deletion::Bootstrap(leaving) if leaving.delete => bootstrap,
            _ => None,
        };
        if let Some(external) = external {
            ignore_gone(context.writer_of(&external.kind.resource).delete(&external.object).await)?;
        }
        Ok(false)
    }
}
