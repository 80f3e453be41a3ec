//! What becomes of a Cluster's endpoint and status.

use jiff::Timestamp;
use windlass_api::cluster::{
    ApiEndpoint, ClusterPhase, ClusterStatus, FailureDomain, MachinesStatus, StatusVersion,
};

use super::Observed;
use super::conditions;
use crate::condition;
use crate::contract::InfrastructureCluster;
use crate::legacy;
use crate::machine_set::aggregate::status_versions;
use crate::referenced::Referenced;
use crate::versions;

/// What becomes of a Cluster.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The endpoint, if it is known now and was not before.
    pub endpoint: Option<ApiEndpoint>,
    /// The status, with what others put into it.
    pub status: ClusterStatus,
}

/// Decides what becomes of a Cluster. What was reached once is not taken back: provisioned and initialized are about
/// the past, conditions about the present.
pub fn decide(observed: &Observed<'_>, now: Timestamp) -> Decision {
    let cluster = observed.cluster;
    let infrastructure = observed.infrastructure.object();
    let endpoint = endpoint(observed, infrastructure);
    let mut status = cluster.status.clone();

    let initialization = &mut status.initialization;
    if is_provisioned(observed, infrastructure) {
        initialization.infrastructure_provisioned = Some(true);
    }
    if is_initialized(observed) {
        initialization.control_plane_initialized = Some(true);
    }
    if let Some(infrastructure) = infrastructure {
        status.failure_domains = failure_domains(infrastructure);
    }
    status.control_plane = control_plane(observed);
    status.workers = Some(workers(observed));
    status.phase =
        Some(phase(observed, &status, endpoint.as_ref().unwrap_or(&cluster.spec.control_plane_endpoint)));
    status.observed_generation = cluster.metadata.generation;
    for finding in conditions::findings(observed, &status, now) {
        condition::set(&mut status.conditions, finding, cluster.metadata.generation, now);
    }
    let available = conditions::available(observed, &status.conditions);
    condition::set(&mut status.conditions, available, cluster.metadata.generation, now);
    // Another controller has put its condition where it came.
    condition::sort(&mut status.conditions);
    legacy::cluster(&mut status, now);
    Decision { endpoint, status }
}

/// Where the control plane is reached: the infrastructure says so, or the control plane itself. Once set it stays.
fn endpoint(observed: &Observed<'_>, infrastructure: Option<&InfrastructureCluster>) -> Option<ApiEndpoint> {
    if observed.cluster.spec.control_plane_endpoint.is_set() {
        return None;
    }
    let told = infrastructure.filter(|infrastructure| infrastructure.provisioned);
    let told = told.and_then(|infrastructure| infrastructure.endpoint.clone());
    let told = told.or_else(|| observed.control_plane.object()?.facts.endpoint.clone());
    told.map(|(host, port)| ApiEndpoint { host, port: Some(port) })
}

/// A Cluster without infrastructure has nothing to wait for, unless its topology is still to bring it.
fn is_provisioned(observed: &Observed<'_>, infrastructure: Option<&InfrastructureCluster>) -> bool {
    match &observed.infrastructure {
        Referenced::None => observed.cluster.spec.topology.is_none(),
        _ => infrastructure.is_some_and(|infrastructure| infrastructure.provisioned),
    }
}

/// The control plane says so; where there is none, the first of its Machines that is a Node does.
fn is_initialized(observed: &Observed<'_>) -> bool {
    match &observed.control_plane {
        Referenced::None => {
            let mut machines = observed.descendants.control_plane_machines();
            machines.any(|machine| machine.status.node_ref.is_some())
        }
        referenced => referenced.object().is_some_and(|control_plane| control_plane.facts.initialized),
    }
}

fn failure_domains(infrastructure: &InfrastructureCluster) -> Vec<FailureDomain> {
    let domains = infrastructure.failure_domains.iter();
    let domain = |(name, domain): (&String, &crate::contract::FailureDomain)| FailureDomain {
        name: name.clone(),
        control_plane: Some(domain.control_plane),
        attributes: domain.attributes.clone(),
    };
    domains.map(domain).collect()
}

/// What is known of the Machines of the control plane. The plan of an upgrade is another controller's, and stays.
fn control_plane(observed: &Observed<'_>) -> Option<MachinesStatus> {
    let before = observed.cluster.status.control_plane.clone();
    let upgrade_plan = before.map(|before| before.upgrade_plan).unwrap_or_default();
    if let Some(control_plane) = observed.control_plane.object() {
        let facts = &control_plane.facts;
        return Some(MachinesStatus {
            desired_replicas: facts.replicas,
            replicas: facts.status_replicas,
            up_to_date_replicas: facts.up_to_date_replicas,
            ready_replicas: facts.ready_replicas,
            available_replicas: facts.available_replicas,
            versions: control_plane.versions.clone(),
            upgrade_plan,
        });
    }
    let mut counts = Counts::default();
    for machine in observed.descendants.control_plane_machines() {
        counts.machine(machine);
    }
    let known = counts.replicas > 0 || !upgrade_plan.is_empty();
    known.then(|| MachinesStatus { upgrade_plan, ..counts.into_status() })
}

/// The sum over all groups of workers and over Machines that belong to none.
fn workers(observed: &Observed<'_>) -> MachinesStatus {
    let mut counts = Counts::default();
    for group in &observed.descendants.machine_deployments {
        let status = &group.status;
        counts.group(group.replicas(), status.replicas, &status.versions);
        counts.states(status.up_to_date_replicas, status.ready_replicas, status.available_replicas);
    }
    for pool in &observed.descendants.machine_pools {
        let status = &pool.status;
        counts.group(pool.replicas(), status.replicas, &status.versions);
        counts.states(status.up_to_date_replicas, status.ready_replicas, status.available_replicas);
    }
    for set in observed.descendants.standalone_sets() {
        let status = &set.status;
        counts.group(set.replicas(), status.replicas, &status.versions);
        counts.states(status.up_to_date_replicas, status.ready_replicas, status.available_replicas);
    }
    for machine in observed.descendants.standalone_machines() {
        counts.machine(machine);
    }
    let before = observed.cluster.status.workers.clone();
    let upgrade_plan = before.map(|before| before.upgrade_plan).unwrap_or_default();
    MachinesStatus { upgrade_plan, ..counts.into_status() }
}

#[derive(Default)]
struct Counts {
    desired: i32,
    replicas: i32,
    up_to_date: i32,
    ready: i32,
    available: i32,
    versions: Vec<(String, u32)>,
}

impl Counts {
    fn group(&mut self, desired: Option<i32>, replicas: Option<i32>, versions: &[StatusVersion]) {
        self.desired += desired.unwrap_or_default();
        self.replicas += replicas.unwrap_or_default();
        let counted = versions.iter().map(|entry| {
            let replicas = entry.replicas.and_then(|replicas| u32::try_from(replicas).ok());
            (entry.version.clone(), replicas.unwrap_or_default())
        });
        self.versions.extend(counted);
    }

    fn states(&mut self, up_to_date: Option<i32>, ready: Option<i32>, available: Option<i32>) {
        self.up_to_date += up_to_date.unwrap_or_default();
        self.ready += ready.unwrap_or_default();
        self.available += available.unwrap_or_default();
    }

    fn machine(&mut self, machine: &windlass_api::cluster::Machine) {
        let is = |type_: &str| i32::from(condition::is_true(&machine.status.conditions, type_));
        let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
        let spec = Some(machine.spec.version.as_str());
        let versions = versions::of_machines([(kubelet, spec)]);
        let versions: Vec<StatusVersion> = status_versions(versions);
        self.group(Some(1), Some(1), &versions);
        let types = [
            windlass_api::conditions::UP_TO_DATE,
            windlass_api::conditions::READY,
            windlass_api::conditions::AVAILABLE,
        ];
        let [up_to_date, ready, available] = types.map(is);
        self.states(Some(up_to_date), Some(ready), Some(available));
    }

    fn into_status(self) -> MachinesStatus {
        let counted = self.versions.iter().map(|(version, replicas)| (version.as_str(), *replicas));
        MachinesStatus {
            desired_replicas: Some(self.desired),
            replicas: Some(self.replicas),
            up_to_date_replicas: Some(self.up_to_date),
            ready_replicas: Some(self.ready),
            available_replicas: Some(self.available),
            versions: status_versions(versions::of_groups(counted)),
            upgrade_plan: Vec::new(),
        }
    }
}

fn phase(observed: &Observed<'_>, status: &ClusterStatus, endpoint: &ApiEndpoint) -> ClusterPhase {
    let spec = &observed.cluster.spec;
    if observed.cluster.metadata.deletion_timestamp.is_some() {
        ClusterPhase::Deleting
    } else if status.initialization.infrastructure_provisioned == Some(true) && endpoint.is_set() {
        ClusterPhase::Provisioned
    } else if spec.infrastructure_ref.is_some() || spec.control_plane_ref.is_some() {
        ClusterPhase::Provisioning
    } else {
        ClusterPhase::Pending
    }
}
