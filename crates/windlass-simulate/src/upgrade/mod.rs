//! A whole upgrade in virtual time: machine by machine, hook by hook.

mod observe;
mod preview;
mod report;
mod request;
mod stand_ins;
mod steering;
mod what_if;

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool};
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_api::names::{CLUSTER_NAME_LABEL, CONTROL_PLANE_LABEL, PENDING_HOOKS_ANNOTATION};
use windlass_api::runtime::DISCOVERED_CONDITION;
use windlass_engine::topology::{Entry, WorkerKind};
use windlass_manager::Controller;
use windlass_runtime::ObjectKey;
use windlass_version::Version;

use crate::extension::SimulatedExtension;
use crate::snapshot::NotRebuilt;
use crate::world::{World, WorldError, WorldOptions};
use observe::Journal;
pub use preview::{PreviewOptions, estimate_preview, live_of, preview_upgrade, simulate_preview};
pub use report::{
    ApprovalRecord, EstimateRecord, LanePoint, LaneRecord, MachineCounts, MachineRecord, OperationRecord,
    RetargetRecord, SkewRecord, StopRecord, UpgradeReport,
};
pub use request::{UpgradeRequest, simulate_upgrade};
pub use stand_ins::{Prepared, prepare};
use steering::Steered;
pub use steering::{Moment, NotARetarget, Retarget, UpgradeSteering};
pub use what_if::{Failing, Fate, NoSuchPart, NotAFailure, WhatIf};

/// How an upgrade is simulated.
#[derive(Clone)]
pub struct UpgradeOptions {
    /// The version that everything shall reach.
    pub to: String,
    /// What all chance comes from.
    pub seed: u64,
    /// How much virtual time creating the cluster may take, and upgrading it.
    pub limit: Duration,
    /// The extension that answers hooks.
    pub extension: SimulatedExtension,
    /// What a person does while it runs.
    pub steering: UpgradeSteering,
}

/// Why an upgrade could not be simulated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UpgradeError {
    /// The manifests have no Cluster with a topology, or more than one.
    #[error("{0}")]
    Manifests(String),
    /// The target is no version.
    #[error("{0}")]
    Target(windlass_version::ParseError),
    /// An extension of the manifests cannot be called.
    #[error("extension {name} cannot be called: {reason}")]
    Extension {
        /// Name of its ExtensionConfig.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The cluster could not be created.
    #[error("the cluster was not created: {0}")]
    Create(Box<WorldError>),
    /// The version was not accepted, or there is no way to it.
    #[error("the upgrade was refused: {0}")]
    Refused(Box<WorldError>),
    /// The version is below the one that the cluster is created with.
    #[error(
        "the upgrade was refused: {target} is below {start}, the version of the Cluster, and versions do not go back"
    )]
    Below {
        /// The version that was asked for.
        target: Version,
        /// The version of the Cluster.
        start: Version,
    },
    /// The upgrade did not end.
    #[error("the upgrade did not end: {0}")]
    Upgrade(Box<WorldError>),
    /// There is no runtime to simulate in.
    #[error("cannot start: {0}")]
    Runtime(String),
    /// A snapshot cannot be simulated.
    #[error("{0}")]
    Snapshot(#[from] NotRebuilt),
    /// What is assumed is about something that is not there.
    #[error("{0}")]
    Part(#[from] NoSuchPart),
    /// The world did not begin.
    #[error(transparent)]
    World(Box<WorldError>),
}

/// How much virtual time extensions get to be discovered. A call takes none.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// When worlds of simulations begin: times in reports count from there.
fn beginning() -> Timestamp {
    Timestamp::UNIX_EPOCH
}

/// Creates the cluster of the manifests, upgrades it, and reports what happened.
///
/// Needs a current-thread runtime with a paused clock, as every [`World`] does.
///
/// # Errors
///
/// When the manifests do not describe one cluster with a topology, when it cannot be created, or when the upgrade is
/// refused or does not end; the error then says what it waits on. One that the owner of the Cluster holds ends where it
/// stops.
pub fn upgrade<'a>(
    manifests: &'a [Value],
    options: &'a UpgradeOptions,
) -> LocalBoxFuture<'a, Result<UpgradeReport, UpgradeError>> {
    Box::pin(upgraded(manifests, options))
}

async fn upgraded(manifests: &[Value], options: &UpgradeOptions) -> Result<UpgradeReport, UpgradeError> {
    let target = Version::parse(&options.to).map_err(UpgradeError::Target)?;
    let prepared = prepare(manifests, options.extension.is_live()).map_err(UpgradeError::Manifests)?;
    if target.precedence(&prepared.version).is_lt() {
        return Err(UpgradeError::Below { target, start: prepared.version });
    }
    let world_options =
        WorldOptions { start: beginning(), ..WorldOptions::extended_by(options.seed, &options.extension) };
    let mut world =
        World::begin(world_options).await.map_err(|error| UpgradeError::World(Box::new(error)))?;
    let created = |error: WorldError| UpgradeError::Create(Box::new(error));
    if options.extension.is_live() {
        let (extensions, others): (Vec<Value>, Vec<Value>) =
            prepared.objects.iter().cloned().partition(|object| object["kind"] == "ExtensionConfig");
        let (namespaces, others): (Vec<Value>, Vec<Value>) = others.into_iter().partition(|object| {
            matches!(object["kind"].as_str(), Some("Namespace" | "Secret" | "ConfigMap"))
        });
        world.apply_objects(&namespaces).await.map_err(created)?;
        world.apply_objects(&extensions).await.map_err(created)?;
        discovered(&mut world, &extensions).await?;
        world.apply_objects(&others).await.map_err(created)?;
    } else {
        world.apply_object(&SimulatedExtension::config()).await.map_err(created)?;
        world.apply_objects(&prepared.objects).await.map_err(created)?;
    }
    let key = prepared.cluster.clone();
    let start = prepared.version.clone();
    let mut hopeless = None;
    world
        .run_until("the cluster is created", options.limit, |world| {
            hopeless = fails_for_ever(world, &key).filter(|_| !options.extension.is_live());
            hopeless.is_some() || is_at(world, &key, &start)
        })
        .await
        .map_err(created)?;
    if let Some(failing) = hopeless {
        let what = format!("reconcile the {} of {}", failing.controller, failing.key);
        return Err(created(WorldError::Refused { what, reason: failing.error }));
    }
    upgrade_world(&mut world, &key, options, prepared.warnings).await
}

/// Upgrades a cluster of a world from where it is, in mid-upgrade too, and reports what happens from then on.
///
/// # Errors
///
/// When the target is refused or there is no way to it, or when the upgrade does not end.
pub async fn upgrade_world(
    world: &mut World,
    cluster: &ObjectKey,
    options: &UpgradeOptions,
    warnings: Vec<String>,
) -> Result<UpgradeReport, UpgradeError> {
    let target = Version::parse(&options.to).map_err(UpgradeError::Target)?;
    let journal = Journal::begin(world, cluster);
    world.observe(journal.clone());
    options.extension.begin();
    let begun = Instant::now();
    let patch = json!({"spec": {"topology": {"version": target.to_string()}}});
    let refused = |error: WorldError| UpgradeError::Refused(Box::new(error));
    world.patch::<Cluster>(cluster, patch).await.map_err(refused)?;
    let gives_up = !options.extension.is_live();
    let steered =
        Steered { world, cluster, journal: &journal, target, begun, limit: options.limit, gives_up };
    let course = steered.run(&options.steering).await?;
    Ok(journal.report(options.extension.calls(), begun.elapsed(), warnings, course))
}

/// Waits until all extensions said what they can do. One that cannot be called would hold everything for days.
async fn discovered(world: &mut World, extensions: &[Value]) -> Result<(), UpgradeError> {
    for extension in extensions {
        let name = extension["metadata"]["name"].as_str().unwrap_or_default();
        let found = |world: &World| {
            let config = world.extension_config(name)?;
            config.condition(DISCOVERED_CONDITION).map(|condition| json!(condition))
        };
        let goal = format!("extension {name} is discovered");
        world
            .run_until(&goal, DISCOVERY_LIMIT, |world| found(world).is_some())
            .await
            .map_err(|error| UpgradeError::Create(Box::new(error)))?;
    }
    check_discovered(world, extensions)
}

/// Whether all extensions said what they can do.
fn check_discovered<'a>(
    world: &World,
    extensions: impl IntoIterator<Item = &'a Value>,
) -> Result<(), UpgradeError> {
    for extension in extensions {
        let name = extension["metadata"]["name"].as_str().unwrap_or_default();
        let config = world.extension_config(name);
        let condition =
            config.and_then(|config| config.condition(DISCOVERED_CONDITION).map(|found| json!(found)));
        if let Some(condition) = condition.filter(|condition| condition["status"] != "True") {
            let reason = condition["message"].as_str().unwrap_or_default().to_owned();
            return Err(UpgradeError::Extension { name: name.to_owned(), reason });
        }
    }
    Ok(())
}

/// How often a reconcile fails in a row before it counts as one that fails for ever: with the pauses in between, that takes minutes.
const HOPELESS: u32 = 12;

/// The reconcile of the topology, if it fails again and again. Nothing comes from outside in a simulation, so that it would do so for
/// days; a live extension may come back.
fn fails_for_ever(world: &World, cluster: &ObjectKey) -> Option<windlass_runtime::Failing> {
    let failing = world.manager()?.failing();
    failing.into_iter().find(|failing| {
        let is_topology = failing.controller == Controller::Topology.name();
        is_topology && failing.key == *cluster && failing.failures >= HOPELESS
    })
}

/// Why there is no way to the target, if the Cluster says so: waiting would not change it.
fn without_path(world: &World, key: &ObjectKey) -> Option<String> {
    let conditions = world.get::<Cluster>(key)?.status.conditions;
    let topology = conditions.into_iter().find(|found| found.type_ == TOPOLOGY_RECONCILED)?;
    topology.message.starts_with("no upgrade path").then_some(topology.message)
}

/// Whether all machines of a cluster have a version and are available, and nothing about the topology is open. Those of
/// worker groups that are kept at a version have that one.
pub fn is_at(world: &World, key: &ObjectKey, version: &Version) -> bool {
    let Some(cluster) = world.get::<Cluster>(key) else { return false };
    let reconciled = cluster
        .status
        .conditions
        .iter()
        .any(|condition| condition.type_ == TOPOLOGY_RECONCILED && condition.status == "True");
    let settled = cluster.metadata.generation.is_some()
        && !cluster.annotations().contains_key(PENDING_HOOKS_ANNOTATION);
    let Some(topology) = cluster.spec.topology.as_ref().filter(|_| reconciled && settled) else {
        return false;
    };
    let pins: BTreeMap<(WorkerKind, &str), String> = Entry::all(topology)
        .iter()
        .filter_map(|entry| Some(((entry.kind, entry.name), entry.pin().ok()??.to_string())))
        .collect();
    let text = version.to_string();
    let wanted = |kind: WorkerKind, labels: &BTreeMap<String, String>| -> String {
        let entry = labels.get(kind.entry_label());
        entry.and_then(|entry| pins.get(&(kind, entry.as_str()))).unwrap_or(&text).clone()
    };
    let mine = |labels: &BTreeMap<String, String>| labels.get(CLUSTER_NAME_LABEL) == Some(&key.name);
    // A live cluster may have machines besides, which no topology made.
    let of_topology = |kind: WorkerKind, labels: &BTreeMap<String, String>| {
        mine(labels) && labels.contains_key(kind.entry_label())
    };
    let machines: Vec<Machine> = world
        .list::<Machine>()
        .into_iter()
        .filter(|machine| {
            let labels = machine.labels();
            of_topology(WorkerKind::MachineDeployment, labels)
                || mine(labels) && labels.contains_key(CONTROL_PLANE_LABEL)
        })
        .collect();
    let available = |machine: &Machine| {
        machine.metadata.deletion_timestamp.is_none()
            && machine.spec.version == wanted(WorkerKind::MachineDeployment, machine.labels())
            && machine
                .status
                .conditions
                .iter()
                .any(|found| found.type_ == "Available" && found.status == "True")
    };
    let deployments: Vec<MachineDeployment> = world
        .list()
        .into_iter()
        .filter(|group: &MachineDeployment| of_topology(WorkerKind::MachineDeployment, group.labels()))
        .collect();
    let workers_wanted: i32 = deployments.iter().filter_map(MachineDeployment::replicas).sum();
    let control_plane_wanted = topology.control_plane.replicas.unwrap_or(1);
    let pools: Vec<MachinePool> = world
        .list()
        .into_iter()
        .filter(|pool: &MachinePool| of_topology(WorkerKind::MachinePool, pool.labels()))
        .collect();
    let pools_done = pools.iter().all(|pool| {
        let text = wanted(WorkerKind::MachinePool, pool.labels());
        pool.spec.template.spec.version == text
            && pool.status.ready_replicas == pool.replicas()
            && pool.status.versions.iter().all(|running| running.version == text)
    });
    let has_version = |group: &MachineDeployment| {
        group.spec.template.spec.version == wanted(WorkerKind::MachineDeployment, group.labels())
    };
    let count = usize::try_from(workers_wanted + control_plane_wanted).unwrap_or_default();
    let entries = (topology.workers.machine_deployments.len(), topology.workers.machine_pools.len());
    (deployments.len(), pools.len()) == entries
        && deployments.iter().all(has_version)
        && machines.len() == count
        && machines.iter().all(available)
        && pools_done
}
