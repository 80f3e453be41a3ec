//! One reconcile of a topology.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;
use windlass_api::cluster::{
    Cluster, ClusterClass, Machine, MachineDeployment, MachineHealthCheck, MachinePool, MachineSet, Topology,
};
use windlass_api::conditions::{TOPOLOGY_RECONCILED, VARIABLES_READY};
use windlass_api::hooks::Hook;
use windlass_api::names::{CLUSTER_NAME_LABEL, OK_TO_DELETE_ANNOTATION};
use windlass_engine::condition;
use windlass_engine::features::Features;
use windlass_engine::pause::Pause;
use windlass_engine::topology::desired::{Desired, Inputs};
use windlass_engine::topology::pin;
use windlass_engine::topology::{
    Decision, HookCall, NoPath, Observed, Outcome as TopologyOutcome, is_taken_over,
};
use windlass_engine::waiting::WaitingOn;
use windlass_hooks::HookClient;
use windlass_runtime::{Cache, Context, Manager, ObjectKey, Outcome, Reconciler};

use super::apply::Applier;
use super::blueprint;
use super::class::ClassController;
use super::current::{Caches, Current};
use super::errors::TopologyError;
use super::hooks::{ClusterHooks, Decided};
use super::status::PlanShown;
use super::{finalizers, patches, status, sweep, variables};
use crate::extension_config::{Extensions, is_another};
use crate::external::Externals;
use crate::workload_nodes::WorkloadNodes;

/// Makes Clusters what their topologies say.
pub struct TopologyController {
    clusters: Cache<Cluster>,
    classes: Cache<ClusterClass>,
    machine_sets: Cache<MachineSet>,
    health_checks: Cache<MachineHealthCheck>,
    caches: Caches,
    hooks: HookClient,
    extensions: Extensions,
    features: Features,
    plan_shown: PlanShown,
}

/// Registers the controllers of topologies and of classes.
pub fn register(
    manager: &Manager,
    hooks: HookClient,
    externals: Externals,
    extensions: Extensions,
    features: Features,
    nodes: Option<WorkloadNodes>,
) {
    ClassController::register(manager, hooks.clone(), extensions.clone(), externals.clone());
    let clusters = manager.cache::<Cluster>();
    let classes = manager.cache::<ClusterClass>();
    let machines = manager.cache::<Machine>();
    let machine_deployments = manager.cache::<MachineDeployment>();
    let machine_pools = manager.cache::<MachinePool>();
    let machine_sets = manager.cache::<MachineSet>();
    let health_checks = manager.cache::<MachineHealthCheck>();
    let controller = TopologyController {
        clusters: clusters.clone(),
        classes: classes.clone(),
        machine_sets: machine_sets.clone(),
        health_checks: health_checks.clone(),
        caches: Caches {
            machine_deployments: machine_deployments.clone(),
            machine_pools: machine_pools.clone(),
            machines: machines.clone(),
            externals,
            nodes,
        },
        hooks,
        extensions,
        features,
        plan_shown: PlanShown::default(),
    };
    let (all, all_of_templates) = (clusters.clone(), clusters.clone());
    let (configs, waiting) = (controller.extensions.configs().clone(), clusters.clone());
    let registry = controller.hooks.registry().clone();
    let known_classes = classes.clone();
    manager
        .controller("topology", &clusters)
        .watches(&classes, move |class| users_of(&all, class))
        .watches(&machine_deployments, cluster_of)
        .watches(&machine_pools, cluster_of)
        .watches(&machine_sets, cluster_of)
        .watches(&health_checks, cluster_of)
        .watches_changes(&machines, |before, after| {
            // Machines change all the time; what matters here is which versions there are.
            let same = before.map(versions) == after.map(versions);
            if same { Vec::new() } else { before.or(after).map(cluster_of).unwrap_or_default() }
        })
        .watches_changes(&configs, move |before, after| {
            if let (Some(gone), None) = (before, after) {
                // It holds nothing any more when the Clusters are reconciled, whichever controller is first.
                registry.unregister(gone.name());
            }
            if is_another(before, after) { unreconciled(&waiting) } else { Vec::new() }
        })
        .on_dynamic(move |object| {
            let keys = cluster_of(object);
            if keys.is_empty() { users_of_template(&known_classes, &all_of_templates, object) } else { keys }
        })
        .register(controller);
}

/// The Clusters that may wait for an extension.
fn unreconciled(clusters: &Cache<Cluster>) -> Vec<ObjectKey> {
    let waits = |cluster: &Cluster| {
        cluster.spec.topology.is_some()
            && !condition::is_true(&cluster.status.conditions, TOPOLOGY_RECONCILED)
    };
    let clusters = clusters.list();
    clusters.iter().filter(|cluster| waits(cluster)).map(|cluster| ObjectKey::of(cluster.as_ref())).collect()
}

fn versions(machine: &Machine) -> (String, Option<String>) {
    let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.clone());
    (machine.spec.version.clone(), kubelet)
}

fn cluster_of<K: kube::Resource>(object: &K) -> Vec<ObjectKey> {
    let name = object.labels().get(CLUSTER_NAME_LABEL);
    let namespace = ObjectKey::of(object).namespace;
    name.map(|name| ObjectKey::new(namespace, name)).into_iter().collect()
}

fn users_of(clusters: &Cache<Cluster>, class: &ClusterClass) -> Vec<ObjectKey> {
    let key = ObjectKey::of(class);
    let uses = |cluster: &Arc<Cluster>| class_key(cluster).is_some_and(|used| used == key);
    clusters
        .list()
        .iter()
        .filter(|cluster| uses(cluster))
        .map(|cluster| ObjectKey::of(cluster.as_ref()))
        .collect()
}

fn users_of_template(
    classes: &Cache<ClusterClass>,
    clusters: &Cache<Cluster>,
    template: &DynamicObject,
) -> Vec<ObjectKey> {
    let (namespace, name) = (ObjectKey::of(template).namespace, template.name_any());
    let kind = template.types.as_ref().map(|types| types.kind.clone()).unwrap_or_default();
    let refers = |class: &ClusterClass| {
        blueprint::references(class).any(|reference| reference.kind == kind && reference.name == name)
    };
    let of_namespace = classes.in_namespace(&namespace);
    of_namespace.iter().filter(|class| refers(class)).flat_map(|class| users_of(clusters, class)).collect()
}

fn class_key(cluster: &Cluster) -> Option<ObjectKey> {
    let class = &cluster.spec.topology.as_ref()?.class_ref;
    let namespace =
        if class.namespace.is_empty() { ObjectKey::of(cluster).namespace } else { class.namespace.clone() };
    Some(ObjectKey::new(namespace, &class.name))
}

impl Reconciler for TopologyController {
    type Error = TopologyError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, TopologyError> {
        let Some(cluster) = self.clusters.get(key) else { return Ok(Outcome::done()) };
        let (cluster, ignored_pins) = self.with_features(cluster);
        let Some(topology) = &cluster.spec.topology else { return Ok(Outcome::done()) };
        if let Some(pause) = Pause::of(&cluster.metadata, Some(&cluster)) {
            status::write(context, &cluster, &self.plan_shown, &TopologyOutcome::Paused(pause)).await?;
            return Ok(Outcome::done());
        }
        finalizers::release(context, &self.caches.machine_deployments, &self.machine_sets, &cluster).await?;
        self.extensions.warm_up().await;
        if cluster.metadata.deletion_timestamp.is_some() {
            return self.delete(context, &cluster).await;
        }
        match self.topology(context, &cluster, topology).await {
            Ok((mut observed, Decided { decision, plan_again })) => {
                observed.ignored_pins = ignored_pins;
                let outcome = TopologyOutcome::Decided { observed: &observed, decision: &decision };
                status::write(context, &cluster, &self.plan_shown, &outcome).await?;
                after(&decision, plan_again, context.now())
            }
            Err(error) if error.is_conflict() => Err(error),
            Err(error) => {
                let outcome = match &error {
                    TopologyError::TakeOver(lost) => TopologyOutcome::Refused(lost),
                    error => TopologyOutcome::Failed(context.steady(error)),
                };
                status::write(context, &cluster, &self.plan_shown, &outcome).await?;
                // A hook that failed has a pace of its own, which is slower at first than that of other failures.
                error.retry_after().map(Outcome::after).ok_or(error)
            }
        }
    }
}

/// When to reconcile again: hooks say when they are called next, and for what waits otherwise, an event comes. Failures
/// that name no time are tried again with growing delays.
fn after(
    decision: &Decision,
    plan_again: Option<Duration>,
    now: Timestamp,
) -> Result<Outcome, TopologyError> {
    // A path that does not exist comes with a change of the class or the Cluster, not by trying again.
    let is_refused = |waiting: &&WaitingOn| matches!(waiting, WaitingOn::Path(NoPath::Refused(_)));
    let failures = decision.failures();
    let failures: Vec<String> =
        failures.into_iter().filter(|waiting| !is_refused(waiting)).map(ToString::to_string).collect();
    match decision.retry_after(now).into_iter().chain(plan_again).min() {
        Some(again) => Ok(Outcome::after(again)),
        None if failures.is_empty() => Ok(Outcome::done()),
        None => Err(TopologyError::Held(failures.join("; "))),
    }
}

impl TopologyController {
    /// The Cluster as features that are off leave it, and the pins that have no effect.
    fn with_features(&self, cluster: Arc<Cluster>) -> (Arc<Cluster>, Vec<String>) {
        let ignored = match &cluster.spec.topology {
            Some(topology) if !self.features.worker_version_pinning => pin::written(topology),
            _ => Vec::new(),
        };
        if ignored.is_empty() {
            return (cluster, ignored);
        }
        let mut without = Cluster::clone(&cluster);
        without.spec.topology.iter_mut().for_each(pin::clear);
        (Arc::new(without), ignored)
    }

    async fn topology(
        &self,
        context: &Context,
        cluster: &Cluster,
        topology: &Topology,
    ) -> Result<(Observed, Decided), TopologyError> {
        let class = self.class(cluster)?;
        let mut cluster = cluster.clone();
        let mut topology = topology.clone();
        variables::default_and_validate(&class, &mut topology, None).map_err(TopologyError::Variables)?;
        cluster.spec.topology = Some(topology);
        let blueprint = blueprint::load(context, &self.caches.externals, &class).await?;
        let current = Current::load(context, &self.caches, &cluster, &blueprint).await?;
        sweep::sweep(context, &self.machine_sets, &cluster, &blueprint, &current).await?;

        let mut observed = current.observe(&self.caches, &cluster)?;
        let hooks = ClusterHooks::new(&self.hooks, &cluster)?;
        let decided = hooks.decide(&class, &mut observed).await;
        let decision = &decided.decision;
        if decision.creation.is_some() {
            return Ok((observed, decided));
        }
        let names = current.names();
        let inputs = Inputs { cluster: &cluster, blueprint: &blueprint, current: &names, decision };
        let mut names = |what: &str| context.name_suffix(what);
        let desired = if patches::are_external(&class) {
            let mut templates = Desired::templates(inputs, &mut names)?;
            patches::apply(context, &self.hooks, &hooks, inputs, &mut templates).await?;
            Desired::from_templates(inputs, templates)?
        } else {
            Desired::build(inputs, &mut names)?
        };
        let applier = Applier {
            context,
            cluster: &cluster,
            current: &current,
            control_plane_contract: blueprint.control_plane_contract,
            health_checks: &self.health_checks,
            is_taken_over: is_taken_over(&cluster),
        };
        applier.marks(decision).await?;
        applier.all(desired, decision).await?;
        Ok((observed, decided))
    }

    fn class(&self, cluster: &Cluster) -> Result<Arc<ClusterClass>, TopologyError> {
        let key = class_key(cluster).unwrap_or_else(|| ObjectKey::new("", ""));
        let Some(class) = self.classes.get(&key) else {
            return Err(TopologyError::NoClass { class: key.to_string() });
        };
        let not_ready = |why: String| Err(TopologyError::ClassNotReady { class: key.to_string(), why });
        if class.status.observed_generation != class.metadata.generation {
            return not_ready("its last change was not reconciled yet".to_owned());
        }
        match condition::find(&class.status.conditions, VARIABLES_READY) {
            Some(found) if found.status == "True" => Ok(class),
            Some(found) => not_ready(found.message.clone()),
            None => not_ready("its variables are not known yet".to_owned()),
        }
    }

    /// Lets extensions hold the deletion; what deletes the parts is the Cluster's own controller.
    async fn delete(&self, context: &Context, cluster: &Cluster) -> Result<Outcome, TopologyError> {
        if cluster.annotations().contains_key(OK_TO_DELETE_ANNOTATION) {
            status::write(context, cluster, &self.plan_shown, &TopologyOutcome::Deleting { waiting: None })
                .await?;
            return Ok(Outcome::done());
        }
        let hooks = ClusterHooks::new(&self.hooks, cluster)?;
        let call = HookCall::bare(Hook::BeforeClusterDelete);
        let Some(waiting) = hooks.call(&call).await.waiting(call) else {
            let patch = json!({"metadata": {
                "uid": cluster.uid(),
                "annotations": {OK_TO_DELETE_ANNOTATION: ""},
            }});
            let key = ObjectKey::of(cluster);
            context.writer::<Cluster>().patch_unconditionally(&key, patch).await?;
            return Ok(Outcome::done());
        };
        status::write(
            context,
            cluster,
            &self.plan_shown,
            &TopologyOutcome::Deleting { waiting: Some(&waiting) },
        )
        .await?;
        let again = waiting.retry_after(context.now()).map(Outcome::after);
        again.ok_or_else(|| TopologyError::Held(waiting.to_string()))
    }
}
