//! The MachineHealthCheck controller: marks Machines that are not well for too long.
//!
//! What it decides is in [`windlass_engine::health_check`]; here it is read and written.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine, MachineHealthCheck, TemplateReference};
use windlass_engine::health_check::{
    LimitError, Mark, NodeState, Observed, Remedy, Target, decide, is_left_alone,
};
use windlass_engine::pause::Pause;
use windlass_runtime::{
    Cache, Context, EventType, Incomplete, Manager, ObjectKey, Outcome, Reconciler, SelectorError, Trigger,
    WriteError, describe_error, owner_reference,
};

use crate::external::{ExternalError, FromTemplate, resource};
use crate::pause;
use crate::references::{adopt, ignore_gone};
use crate::status::{self, StatusError};
use crate::workload_nodes::WorkloadNodes;

/// How much time is between two looks of one health check: Machines change often while they come up.
const PACE: Duration = Duration::from_secs(1);
/// How soon a workload cluster that does not answer is asked again.
const SILENCE: Duration = Duration::from_secs(30);

/// Reconciles MachineHealthChecks.
pub struct HealthChecks {
    checks: Cache<MachineHealthCheck>,
    clusters: Cache<Cluster>,
    machines: Cache<Machine>,
    nodes: WorkloadNodes,
}

/// Why a reconcile of a health check failed.
#[derive(Debug, thiserror::Error)]
pub enum HealthCheckError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Its status cannot be written as a patch.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Its selector makes no sense.
    #[error(transparent)]
    Selector(#[from] SelectorError),
    /// Its limit makes no sense.
    #[error(transparent)]
    Limit(#[from] LimitError),
    /// The template of what remediates cannot be used.
    #[error("spec.remediation.templateRef: {0}")]
    Template(#[from] ExternalError),
    /// An object does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// The template of what remediates is not there.
    #[error("spec.remediation.templateRef: {0} does not exist")]
    NoTemplate(TemplateReference),
}

impl HealthChecks {
    /// Adds the MachineHealthCheck controller to a manager.
    pub fn register(manager: &Manager, nodes: WorkloadNodes) {
        let checks: Cache<MachineHealthCheck> = manager.cache();
        let (clusters, machines): (Cache<Cluster>, Cache<Machine>) = (manager.cache(), manager.cache());
        let trigger = Trigger::new();
        let (by_node, wake) = (checks.clone(), trigger.clone());
        nodes.on_change(Arc::new(move |cluster, _, _| {
            for key in of_cluster(&by_node, &cluster.namespace, &cluster.name) {
                wake.fire(&key);
            }
        }));
        let (by_cluster, by_machine) = (checks.clone(), checks.clone());
        manager
            .controller("machinehealthcheck", &checks)
            .pace(PACE)
            .watches(&clusters, move |cluster: &Cluster| {
                of_cluster(&by_cluster, &ObjectKey::of(cluster).namespace, &cluster.name_any())
            })
            .watches(&machines, move |machine: &Machine| {
                of_cluster(&by_machine, &ObjectKey::of(machine).namespace, &machine.spec.cluster_name)
            })
            .triggered_by(&trigger)
            .register(Self { checks: checks.clone(), clusters, machines, nodes });
    }
}

/// The health checks of a Cluster.
fn of_cluster(checks: &Cache<MachineHealthCheck>, namespace: &str, cluster: &str) -> Vec<ObjectKey> {
    let found = checks.in_namespace(namespace).into_iter().filter(|check| check.spec.cluster_name == cluster);
    found.map(|check| ObjectKey::of(check.as_ref())).collect()
}

impl Reconciler for HealthChecks {
    type Error = HealthCheckError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, HealthCheckError> {
        let Some(check) = self.checks.get(key) else { return Ok(Outcome::done()) };
        let check = check.as_ref();
        let cluster_key = ObjectKey::new(&key.namespace, &check.spec.cluster_name);
        let Some(cluster) = self.clusters.get(&cluster_key) else { return Ok(Outcome::done()) };
        let going = |deletion: &Option<_>| deletion.is_some();
        if going(&check.metadata.deletion_timestamp) || going(&cluster.metadata.deletion_timestamp) {
            return Ok(Outcome::done());
        }
        if let Some(pause) = Pause::of(&check.metadata, Some(&cluster)) {
            return Ok(pause::say(context, check, &check.status.conditions, pause).await?);
        }
        if adopt(context, check, &cluster, None).await? {
            return Ok(Outcome::done());
        }
        let selected = self.machines.select(&key.namespace, &check.spec.selector)?;
        let machines: Vec<Arc<Machine>> = selected
            .into_iter()
            .filter(|machine| machine.spec.cluster_name == check.spec.cluster_name && !is_left_alone(machine))
            .collect();
        let nodes = self.nodes_of(&cluster).await;
        let targets =
            machines.iter().map(|machine| Target { machine, node: node_of(machine, nodes.as_ref()) });
        let observed = Observed { check, cluster: &cluster, targets: targets.collect() };
        let decision = decide(&observed, context.now())?;

        let by_name: BTreeMap<String, &Arc<Machine>> =
            machines.iter().map(|machine| (machine.name_any(), machine)).collect();
        for mark in &decision.marks {
            if let Some(machine) = by_name.get(&mark.machine) {
                self.mark(context, check, machine, mark).await?;
            }
        }
        let after = &decision.status;
        status::write::<_, _, HealthCheckError>(&context.writer(), check, &check.status, after).await?;
        let silent =
            if nodes.is_none() && !machines.is_empty() { Outcome::after(SILENCE) } else { Outcome::done() };
        Ok(Outcome::at(decision.look_again, context.now()).or(silent))
    }
}

/// The Nodes of a workload cluster, by name; nothing if it does not answer, or there is no API to ask yet.
type Nodes = BTreeMap<String, Arc<Node>>;

fn node_of<'a>(machine: &Machine, nodes: Option<&'a Nodes>) -> NodeState<'a> {
    match (&machine.status.node_ref, nodes) {
        (None, _) => NodeState::None,
        (Some(_), None) => NodeState::NoAnswer,
        (Some(reference), Some(nodes)) => {
            nodes.get(&reference.name).map_or(NodeState::Gone, |node| NodeState::Found(node))
        }
    }
}

impl HealthChecks {
    async fn nodes_of(&self, cluster: &Cluster) -> Option<Nodes> {
        if cluster.status.initialization.control_plane_initialized != Some(true) {
            return Some(Nodes::new());
        }
        match self.nodes.all(&ObjectKey::of(cluster)).await {
            Ok(nodes) => Some(nodes.into_iter().map(|node| (node.name_any(), node)).collect()),
            Err(silence) => {
                tracing::debug!(cluster = %cluster.name_any(), %silence, "nothing is known of the Nodes");
                None
            }
        }
    }

    /// Marks a Machine. Others write its conditions, too: the patch is refused if it is no longer as it was read.
    async fn mark(
        &self,
        context: &Context,
        check: &MachineHealthCheck,
        machine: &Machine,
        mark: &Mark,
    ) -> Result<(), HealthCheckError> {
        if let Some(template) = &check.spec.remediation.template_ref {
            match mark.remedy {
                Remedy::External => request(context, check, machine, template).await?,
                Remedy::ExternalDone => withdraw(context, machine, template).await?,
                Remedy::Owner | Remedy::None => {}
            }
        }
        let patch = json!({"status": {"conditions": mark.conditions, "deprecated": mark.deprecated}});
        ignore_gone(context.writer().patch_status(machine, patch).await)?;
        if matches!(mark.remedy, Remedy::Owner | Remedy::External) {
            let message = format!("MachineHealthCheck {} asks for remediation", check.name_any());
            context.event(machine, EventType::Warning, "MachineMarkedUnhealthy", message);
        }
        Ok(())
    }
}

/// Makes the object that remediates a Machine; it has the name of the Machine, so there is one at most.
async fn request(
    context: &Context,
    check: &MachineHealthCheck,
    machine: &Machine,
    reference: &TemplateReference,
) -> Result<(), HealthCheckError> {
    let namespace = ObjectKey::of(machine).namespace;
    let key = ObjectKey::new(&namespace, &reference.name);
    let template: Option<DynamicObject> = context
        .get_of(&resource(&reference.api_version, &reference.kind), &key)
        .await
        .map_err(|error| ExternalError::Read { what: reference.to_string(), why: describe_error(&error) })?;
    let Some(template) = template else { return Err(HealthCheckError::NoTemplate(reference.clone())) };
    let name = machine.name_any();
    let object = FromTemplate {
        template: &template,
        name: &name,
        cluster: &check.spec.cluster_name,
        owner: Some(owner_reference(machine)?),
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    }
    .object()?;
    let kind = reference.kind.strip_suffix("Template").unwrap_or(&reference.kind);
    let resource = resource(&reference.api_version, kind);
    // Asked for before, by this controller: it has the name of the Machine.
    if matches!(context.get_of::<DynamicObject>(&resource, &ObjectKey::of(machine)).await, Ok(Some(_))) {
        return Ok(());
    }
    match context.writer_of(&resource).create(&object).await {
        Err(error) if error.is_already_exists() => Ok(()),
        created => Ok(created.map(drop)?),
    }
}

/// Takes back what was asked for: the Machine recovered.
async fn withdraw(
    context: &Context,
    machine: &Machine,
    reference: &TemplateReference,
) -> Result<(), HealthCheckError> {
    let kind = reference.kind.strip_suffix("Template").unwrap_or(&reference.kind);
    let resource = resource(&reference.api_version, kind);
    let key = ObjectKey::of(machine);
    let object: Option<DynamicObject> = context.get_of(&resource, &key).await.map_err(|error| {
        ExternalError::Read { what: format!("{kind} {key}"), why: describe_error(&error) }
    })?;
    match object {
        Some(object) => Ok(ignore_gone(context.writer_of(&resource).delete(&object).await)?),
        None => Ok(()),
    }
}
