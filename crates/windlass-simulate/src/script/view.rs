//! What a story shows when it is asked: machines, hooks, descriptions, plans.

use std::collections::BTreeMap;

use jiff::Timestamp;
use kube::ResourceExt;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, ClusterClass, Machine, MachineDeployment, MachinePool};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL,
    TOPOLOGY_POOL_NAME_LABEL, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_engine::describe::ClusterDescription;
use windlass_engine::topology::{Observed, Plan, PlanSource, Stop, WorkerKind, stops};
use windlass_plan::{PlanDocument, Source, UpgradePlan};
use windlass_version::Version;

use super::statement::{Group, Part};
use crate::extension::{self, HookRecord};
use crate::world::{World, key};

/// What a statement shows.
#[derive(Debug, Clone)]
pub enum Shown {
    /// A cluster.
    Description {
        /// What it is made of and what it waits on.
        cluster: Box<ClusterDescription>,
        /// When.
        now: Timestamp,
    },
    /// Machines.
    Machines(Vec<MachineRow>),
    /// Hooks that were called.
    Hooks(Vec<HookRecord>),
    /// A plan, and where it stops.
    Plan(Box<SteeredPlan>),
}

/// The plan of an upgrade from where a cluster is.
#[derive(Debug, Clone)]
pub struct SteeredPlan {
    /// The steps; none if everything is at the target.
    pub steps: Option<Box<UpgradePlan>>,
    /// Where annotations of the Cluster and its entries stop it.
    pub stops: Vec<Stop>,
    /// The Cluster.
    pub cluster: Cluster,
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Description { cluster, .. } => cluster.serialize(serializer),
            Self::Machines(rows) => rows.serialize(serializer),
            Self::Hooks(calls) => calls.serialize(serializer),
            Self::Plan(plan) => plan.steps.as_deref().map(PlanDocument::from).serialize(serializer),
        }
    }
}

/// A machine, or a pool of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineRow {
    /// The name of the Machine or of the pool.
    pub name: String,
    /// Name of its Cluster.
    pub cluster: String,
    /// `control-plane`, or its entry of the topology.
    pub group: String,
    /// The version that it is to have.
    pub version: String,
    /// The version that its kubelet runs, once it does; of a pool, all of them.
    pub kubelet: String,
    /// How it is, in one word.
    pub status: String,
}

/// The machines of a part, or of everything, by cluster, group and name.
pub(super) fn machines(world: &World, part: Option<&Part>) -> Vec<MachineRow> {
    let mut rows: Vec<MachineRow> =
        world.list::<Machine>().iter().filter(|machine| is_of(machine, part)).map(row).collect();
    for pool in world.list::<MachinePool>() {
        let row = pool_row(&pool);
        let is_mine = part.is_none_or(|part| {
            part.cluster == row.cluster
                && part.group.as_ref().is_none_or(|group| *group == Group::Workers(row.group.clone()))
        });
        if is_mine {
            rows.push(row);
        }
    }
    rows.sort_by(|a, b| (&a.cluster, &a.group, &a.name).cmp(&(&b.cluster, &b.group, &b.name)));
    rows
}

/// Whether a machine belongs to a part.
pub(super) fn is_of(machine: &Machine, part: Option<&Part>) -> bool {
    let Some(part) = part else { return true };
    let labels = machine.labels();
    let group = match &part.group {
        None => true,
        Some(Group::ControlPlane) => labels.contains_key(CONTROL_PLANE_LABEL),
        Some(Group::Workers(name)) => group_of(machine) == *name,
    };
    group && labels.get(CLUSTER_NAME_LABEL) == Some(&part.cluster)
}

/// The entry of the topology that a machine belongs to; without a topology, its MachineDeployment.
fn group_of(machine: &Machine) -> String {
    let labels = machine.labels();
    if labels.contains_key(CONTROL_PLANE_LABEL) {
        return "control-plane".to_owned();
    }
    let names = [TOPOLOGY_DEPLOYMENT_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL];
    names.iter().find_map(|name| labels.get(*name)).cloned().unwrap_or_default()
}

/// Whether a machine is available.
pub(super) fn is_available(machine: &Machine) -> bool {
    machine.metadata.deletion_timestamp.is_none()
        && machine.status.conditions.iter().any(|found| found.type_ == "Available" && found.status == "True")
}

fn row(machine: &Machine) -> MachineRow {
    let status = if machine.metadata.deletion_timestamp.is_some() {
        "Deleting".to_owned()
    } else if machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION) {
        "Updating".to_owned()
    } else if is_available(machine) {
        "Available".to_owned()
    } else {
        machine
            .status
            .phase
            .as_ref()
            .and_then(|phase| json!(phase).as_str().map(str::to_owned))
            .unwrap_or_default()
    };
    MachineRow {
        name: machine.name_any(),
        cluster: machine.labels().get(CLUSTER_NAME_LABEL).cloned().unwrap_or_default(),
        group: group_of(machine),
        version: machine.spec.version.clone(),
        kubelet: machine
            .status
            .node_info
            .as_ref()
            .map(|info| info.kubelet_version.clone())
            .unwrap_or_default(),
        status,
    }
}

fn pool_row(pool: &MachinePool) -> MachineRow {
    let label = |name: &str| pool.labels().get(name).cloned().unwrap_or_default();
    let running = pool
        .status
        .versions
        .iter()
        .map(|found| format!("{} x {}", found.replicas.unwrap_or_default(), found.version));
    let (ready, wanted) =
        (pool.status.ready_replicas.unwrap_or_default(), pool.replicas().unwrap_or_default());
    MachineRow {
        name: pool.name_any(),
        cluster: label(CLUSTER_NAME_LABEL),
        group: label(TOPOLOGY_POOL_NAME_LABEL),
        version: pool.spec.template.spec.version.clone(),
        kubelet: running.collect::<Vec<_>>().join(", "),
        status: format!("{ready}/{wanted} ready"),
    }
}

/// The plan of an upgrade from where a cluster is.
pub(super) fn plan(world: &World, name: &str, to: &str) -> Result<SteeredPlan, String> {
    let cluster: Cluster = world.get(&key(name)).ok_or_else(|| format!("there is no Cluster {name}"))?;
    let parse = |version: &str| Version::parse(version).map_err(|error| error.to_string());
    let is_mine =
        |labels: &BTreeMap<String, String>| labels.get(CLUSTER_NAME_LABEL).map(String::as_str) == Some(name);
    let control_plane = world.list::<KubeadmControlPlane>().into_iter().find(|found| is_mine(found.labels()));
    let Some(control_plane) = control_plane else {
        return Err(format!("Cluster {name} has no control plane yet"));
    };
    let from = parse(&control_plane.spec.version)?;
    let Some(topology) = &cluster.spec.topology else {
        return Err(format!("Cluster {name} has no topology: nothing plans its upgrades"));
    };
    let class = world.get::<ClusterClass>(&key(&topology.class_ref.name)).map(|class| json!(class));
    let source = source(&class.unwrap_or_default(), &from, to);
    let observed = Observed::of_manifest(&cluster, &from, &parse(to)?, PlanSource::Known(source));
    let mut observed = observed.map_err(|error| error.to_string())?;
    // Where the groups really are, which need not be where the manifest would have them.
    let (deployments, pools) = (world.list::<MachineDeployment>(), world.list::<MachinePool>());
    let mut versions: BTreeMap<(WorkerKind, String), Version> = BTreeMap::new();
    let deployments = deployments.iter().map(|group| {
        (
            WorkerKind::MachineDeployment,
            group.labels(),
            TOPOLOGY_DEPLOYMENT_NAME_LABEL,
            &group.spec.template.spec.version,
        )
    });
    let pools = pools.iter().map(|pool| {
        (WorkerKind::MachinePool, pool.labels(), TOPOLOGY_POOL_NAME_LABEL, &pool.spec.template.spec.version)
    });
    for (kind, labels, label, version) in deployments.chain(pools) {
        if let Some(entry) = labels.get(label).filter(|_| is_mine(labels)) {
            versions.insert((kind, entry.clone()), parse(version)?);
        }
    }
    for group in &mut observed.workers {
        match versions.remove(&(group.kind, group.topology_name.clone())) {
            Some(version) => {
                if let Some(object) = &mut group.object {
                    object.version = Some(version);
                }
            }
            None => group.object = None,
        }
    }
    let steps = match Plan::compute(&observed) {
        Plan::None(no_path) => return Err(no_path.to_string()),
        Plan::Steps(plan) => Some(plan),
        Plan::NotNeeded => None,
    };
    Ok(SteeredPlan { steps, stops: stops(&observed), cluster })
}

/// Where the versions between come from, as the topology controller would find them.
fn source(class: &Value, from: &Version, to: &str) -> Source {
    let strings = |list: &Value, read: &dyn Fn(&Value) -> Option<String>| -> Vec<String> {
        list.as_array().into_iter().flatten().filter_map(read).collect()
    };
    if class["spec"]["upgrade"]["external"]["generateUpgradePlanExtension"].is_string() {
        let question =
            json!({"fromControlPlaneKubernetesVersion": from.to_string(), "toKubernetesVersion": to});
        let answer = extension::plan(&question);
        let read = |step: &Value| step["version"].as_str().map(str::to_owned);
        return Source::given(strings(&answer["controlPlaneUpgrades"], &read), Vec::new());
    }
    match strings(&class["spec"]["kubernetesVersions"], &|version| version.as_str().map(str::to_owned)) {
        versions if versions.is_empty() => Source::OneMinor,
        versions => Source::Versions(versions),
    }
}
