//! The Cluster controller: what a Cluster is made of, what it says, and how it goes.
//!
//! What it decides is in [`windlass_engine::cluster`]; here it is read and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;
use windlass_api::api_version;
use windlass_api::cluster::{
    Cluster, ContractVersionedObjectReference, Machine, MachineDeployment, MachinePool, MachineSet,
};
use windlass_api::names::{CLUSTER_FINALIZER, CLUSTER_NAME_LABEL};
use windlass_engine::cluster::deletion::{Deletion, Descendant, DescendantKind, awaits_hook, next};
use windlass_engine::cluster::{Connection, ControlPlaneSeen, Descendants, Observed, decide};
use windlass_engine::contract;
use windlass_engine::pause::Pause;
use windlass_runtime::{
    Cache, Context, EventType, Kind, Manager, ObjectKey, Outcome, Reconciler, Trigger, WriteError,
};

use crate::external::{External, Externals};
use crate::pause;
use crate::references::{ReferrerError, claim, ignore_gone, read, release};
use crate::status;
use crate::worker_group::rest;
use crate::workload_nodes::WorkloadNodes;

/// How much time is between two looks at one Cluster: it has thousands of Machines below it.
const PACE: Duration = Duration::from_secs(1);

/// Reconciles Clusters.
pub struct Clusters {
    clusters: Cache<Cluster>,
    deployments: Cache<MachineDeployment>,
    sets: Cache<MachineSet>,
    pools: Cache<MachinePool>,
    machines: Cache<Machine>,
    externals: Externals,
    nodes: WorkloadNodes,
    topology: bool,
}

impl Clusters {
    /// Adds the Cluster controller to a manager. `topology` says whether the topology controller runs, too: it then asks
    /// extensions before a Cluster is deleted, and this one waits for it.
    pub fn register(manager: &Manager, externals: Externals, nodes: WorkloadNodes, topology: bool) {
        let clusters: Cache<Cluster> = manager.cache();
        let (deployments, sets) = (manager.cache(), manager.cache());
        let (pools, machines) = (manager.cache(), manager.cache());
        let referring = clusters.clone();
        let trigger = Trigger::new();
        let answered = trigger.clone();
        nodes.on_answer(Arc::new(move |cluster| answered.fire(cluster)));
        manager
            .controller("cluster", &clusters)
            .pace(PACE)
            .watches(&deployments, |group: &MachineDeployment| cluster_key(group, &group.spec.cluster_name))
            .watches(&sets, |set: &MachineSet| cluster_key(set, &set.spec.cluster_name))
            .watches(&pools, |pool: &MachinePool| cluster_key(pool, &pool.spec.cluster_name))
            .watches(&machines, |machine: &Machine| cluster_key(machine, &machine.spec.cluster_name))
            .on_dynamic(move |object| referring_to(&referring, object))
            .triggered_by(&trigger)
            .register(Self {
                clusters: clusters.clone(),
                deployments,
                sets,
                pools,
                machines,
                externals,
                nodes,
                topology,
            });
    }
}

fn cluster_key<K: kube::Resource>(object: &K, cluster: &str) -> Vec<ObjectKey> {
    vec![ObjectKey::new(ObjectKey::of(object).namespace, cluster)]
}

/// The Clusters that point to an object. It may be there before it has its owner.
fn referring_to(clusters: &Cache<Cluster>, object: &DynamicObject) -> Vec<ObjectKey> {
    let Some(types) = &object.types else { return Vec::new() };
    let group = api_version::group(&types.api_version);
    let name = object.name_any();
    let is = |reference: &ContractVersionedObjectReference| {
        reference.kind == types.kind && reference.api_group == group && reference.name == name
    };
    let found = clusters.in_namespace(&ObjectKey::of(object).namespace).into_iter().filter(|cluster| {
        [&cluster.spec.infrastructure_ref, &cluster.spec.control_plane_ref].into_iter().flatten().any(is)
    });
    found.map(|cluster| ObjectKey::of(cluster.as_ref())).collect()
}

impl Reconciler for Clusters {
    type Error = ReferrerError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, ReferrerError> {
        let Some(cluster) = self.clusters.get(key) else { return Ok(Outcome::done()) };
        let cluster = cluster.as_ref();
        if let Some(pause) = Pause::of(&cluster.metadata, Some(cluster)) {
            return Ok(pause::say(context, cluster, &cluster.status.conditions, pause).await?);
        }
        let deleting = cluster.metadata.deletion_timestamp.is_some();
        if !deleting && !cluster.finalizers().iter().any(|has| has == CLUSTER_FINALIZER) {
            let mut finalizers = cluster.finalizers().to_vec();
            finalizers.push(CLUSTER_FINALIZER.to_owned());
            let patch = json!({"metadata": {"finalizers": finalizers}});
            ignore_gone(context.writer().patch(cluster, patch).await)?;
            return Ok(Outcome::done());
        }

        let spec = &cluster.spec;
        let infrastructure = read(
            &self.externals,
            context,
            &key.namespace,
            spec.infrastructure_ref.as_ref(),
            contract::infrastructure_cluster,
        )
        .await;
        let control_plane = read(
            &self.externals,
            context,
            &key.namespace,
            spec.control_plane_ref.as_ref(),
            |object, contract| ControlPlaneSeen::of(object, contract::control_plane(object, contract)),
        )
        .await;
        claim(context, cluster, &key.name, infrastructure.external.as_ref()).await?;
        claim(context, cluster, &key.name, control_plane.external.as_ref()).await?;

        let belongs = Belongs::read(self, key);
        let descendants = belongs.descendants();
        let step = if deleting {
            let hook = awaits_hook(cluster, self.topology);
            let (control_plane, infrastructure) = (&control_plane.referenced, &infrastructure.referenced);
            Some(next(cluster, &descendants, control_plane, infrastructure, hook)?)
        } else {
            None
        };
        if let Some(step) = &step {
            let externals = (control_plane.external.as_ref(), infrastructure.external.as_ref());
            self.delete(context, cluster, step, externals).await?;
            if *step == Deletion::Release {
                release(context, cluster, CLUSTER_FINALIZER).await?;
                return Ok(Outcome::done());
            }
        }
        let connection = self.connection(cluster).await;
        let observed = Observed {
            cluster,
            connection,
            infrastructure: infrastructure.referenced,
            control_plane: control_plane.referenced,
            descendants,
            deletion: step,
        };
        self.write(context, cluster, &observed).await?;
        match infrastructure.error.or(control_plane.error) {
            Some(error) => Err(error.into()),
            None => {
                let again = observed.connection.look_again(context.now());
                let again = again.and_then(|wait| Duration::try_from(wait).ok());
                let outcome = again.map_or_else(Outcome::done, Outcome::after);
                Ok(outcome.resting(rest(belongs.machines.len())))
            }
        }
    }
}

impl Clusters {
    /// Whether the workload cluster answers; there is none to ask before the control plane is initialized.
    async fn connection(&self, cluster: &Cluster) -> Connection {
        if cluster.status.initialization.control_plane_initialized != Some(true) {
            return Connection::NotSought;
        }
        match self.nodes.answers(&ObjectKey::of(cluster)).await {
            Ok(()) => Connection::Answers,
            Err(silence) => Connection::Silent { since: silence.since, why: silence.why.to_string() },
        }
    }

    async fn write(
        &self,
        context: &Context,
        cluster: &Cluster,
        observed: &Observed<'_>,
    ) -> Result<(), ReferrerError> {
        let decision = decide(observed, context.now());
        let mut read = None;
        if let Some(endpoint) = &decision.endpoint {
            let patch = json!({"spec": {"controlPlaneEndpoint": endpoint}});
            read = Some(context.writer::<Cluster>().patch(cluster, patch).await?);
        }
        let (read, after) = (read.as_ref().unwrap_or(cluster), &decision.status);
        status::write::<_, _, ReferrerError>(&context.writer(), read, &cluster.status, after).await?;
        if cluster.status.phase != decision.status.phase
            && let Some(phase) = &decision.status.phase
        {
            context.event(cluster, EventType::Normal, phase.as_str(), format!("Cluster is {phase}"));
        }
        Ok(())
    }

    /// Deletes what is next, and nothing that the Cluster does not own.
    async fn delete(
        &self,
        context: &Context,
        cluster: &Cluster,
        step: &Deletion,
        (control_plane, infrastructure): (Option<&External>, Option<&External>),
    ) -> Result<(), WriteError> {
        let owned = |external: &External| {
            external.object.owner_references().iter().any(|owner| Some(&owner.uid) == cluster.uid().as_ref())
        };
        let external = match step {
            Deletion::Workers(descendants) | Deletion::ControlPlaneMachines(descendants) => {
                for descendant in descendants.iter().filter(|descendant| descendant.delete) {
                    self.delete_descendant(context, descendant).await?;
                }
                return Ok(());
            }
            Deletion::ControlPlane(leaving) if leaving.delete => control_plane,
            Deletion::Infrastructure(leaving) if leaving.delete => infrastructure,
            _ => None,
        };
        if let Some(external) = external.filter(|external| owned(external)) {
            ignore_gone(context.writer_of(&external.kind.resource).delete(&external.object).await)?;
        }
        Ok(())
    }

    async fn delete_descendant(&self, context: &Context, descendant: &Descendant) -> Result<(), WriteError> {
        let key = ObjectKey::new(&context.key().namespace, &descendant.name);
        match descendant.kind {
            DescendantKind::MachineDeployment => delete(context, self.deployments.get(&key)).await,
            DescendantKind::MachineSet => delete(context, self.sets.get(&key)).await,
            DescendantKind::MachinePool => delete(context, self.pools.get(&key)).await,
            DescendantKind::Machine => delete(context, self.machines.get(&key)).await,
        }
    }
}

async fn delete<K: Kind + kube::Resource<DynamicType = ()>>(
    context: &Context,
    object: Option<Arc<K>>,
) -> Result<(), WriteError> {
    match object {
        Some(object) => ignore_gone(context.writer().delete(object.as_ref()).await),
        None => Ok(()),
    }
}

/// What carries the name of a Cluster.
struct Belongs {
    deployments: Vec<Arc<MachineDeployment>>,
    sets: Vec<Arc<MachineSet>>,
    pools: Vec<Arc<MachinePool>>,
    machines: Vec<Arc<Machine>>,
}

impl Belongs {
    fn read(controller: &Clusters, key: &ObjectKey) -> Self {
        let labels = BTreeMap::from([(CLUSTER_NAME_LABEL.to_owned(), key.name.clone())]);
        Self {
            deployments: controller.deployments.labelled(&key.namespace, &labels),
            sets: controller.sets.labelled(&key.namespace, &labels),
            pools: controller.pools.labelled(&key.namespace, &labels),
            machines: controller.machines.labelled(&key.namespace, &labels),
        }
    }

    fn descendants(&self) -> Descendants<'_> {
        Descendants {
            machine_deployments: self.deployments.iter().map(AsRef::as_ref).collect(),
            machine_sets: self.sets.iter().map(AsRef::as_ref).collect(),
            machine_pools: self.pools.iter().map(AsRef::as_ref).collect(),
            machines: self.machines.iter().map(AsRef::as_ref).collect(),
        }
    }
}
