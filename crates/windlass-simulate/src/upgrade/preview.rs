//! An upgrade of a live cluster, in a world that goes on from a snapshot of it.

use futures_util::future::LocalBoxFuture;
use serde_json::Value;
use tokio::runtime::Builder;
use windlass_controllers::steer::Live;
use windlass_engine::progress::rank;
use windlass_runtime::ObjectKey;
use windlass_version::Version;

use super::request::LIMIT;
use super::what_if::WhatIf;
use super::{
    EstimateRecord, UpgradeError, UpgradeOptions, UpgradeReport, UpgradeSteering, check_discovered,
    upgrade_world,
};
use crate::extension::SimulatedExtension;
use crate::insights::insights;
use crate::snapshot::{RebuildOptions, Snapshot};
use crate::world::{World, WorldError, WorldOptions};

/// How an upgrade of a live cluster is previewed.
#[derive(Clone)]
pub struct PreviewOptions {
    /// How the snapshot becomes a world.
    pub rebuild: RebuildOptions,
    /// What is done there.
    pub upgrade: UpgradeOptions,
    /// What durations of machines come from, if it is another seed than that of the controllers.
    pub machine_seed: Option<u64>,
    /// What is assumed to be otherwise than it is.
    pub what_if: WhatIf,
    /// ExtensionConfigs of extensions that are assumed to exist, where those of the cluster are not called.
    pub assumed: Vec<Value>,
}

impl PreviewOptions {
    /// An upgrade to a version, with the extensions of the cluster called where they are, or assumed to let everything pass.
    ///
    /// # Errors
    ///
    /// When extensions are to be called and there is no thread for it.
    pub fn new(
        rebuild: RebuildOptions,
        to: String,
        seed: u64,
        steering: UpgradeSteering,
    ) -> Result<Self, UpgradeError> {
        let extension = match rebuild.live_extensions {
            true => SimulatedExtension::live().map_err(|error| UpgradeError::Runtime(error.to_string()))?,
            false => SimulatedExtension::new(),
        };
        let upgrade = UpgradeOptions { to, seed, limit: LIMIT, extension, steering };
        Ok(Self { rebuild, upgrade, machine_seed: None, what_if: WhatIf::default(), assumed: Vec::new() })
    }
}

/// Upgrades the cluster of a snapshot from exactly where it was, and reports what happens.
///
/// Needs a current-thread runtime with a paused clock, as every [`World`] does.
///
/// # Errors
///
/// When the snapshot cannot be rebuilt, or as [`upgrade_world`].
pub fn preview_upgrade<'a>(
    snapshot: &'a Snapshot,
    options: &'a PreviewOptions,
) -> LocalBoxFuture<'a, Result<UpgradeReport, UpgradeError>> {
    Box::pin(previewed(snapshot, options))
}

/// The same in a runtime of its own, with what stands in the way before anything happens.
///
/// # Errors
///
/// As [`preview_upgrade`].
pub fn simulate_preview(
    snapshot: &Snapshot,
    options: &PreviewOptions,
) -> Result<UpgradeReport, UpgradeError> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| UpgradeError::Runtime(error.to_string()))?;
    let mut report = runtime.block_on(preview_upgrade(snapshot, options))?;
    if let Ok(to) = Version::parse(&options.upgrade.to) {
        report.insights = insights(snapshot, &to, report.virtual_seconds, snapshot.taken);
    }
    Ok(report)
}

/// How long an upgrade takes, over so many runs in which machines draw their durations from seeds of their own. A run that
/// stops counts as long as it went.
///
/// # Errors
///
/// As [`preview_upgrade`].
pub fn estimate_preview(
    snapshot: &Snapshot,
    runs: u64,
    options: impl Fn() -> Result<PreviewOptions, UpgradeError>,
) -> Result<EstimateRecord, UpgradeError> {
    let mut lengths = Vec::new();
    for run in 0..runs {
        // The controllers keep their seed: only machines differ.
        let options = options()?;
        let seed = options.upgrade.seed.wrapping_add(run);
        let report = simulate_preview(snapshot, &PreviewOptions { machine_seed: Some(seed), ..options })?;
        lengths.push(report.virtual_seconds);
    }
    lengths.sort_unstable();
    Ok(EstimateRecord { runs, p50_seconds: rank(&lengths, 50), p95_seconds: rank(&lengths, 95) })
}

/// Where the Cluster of a snapshot is, as a management cluster would show it. Nothing is simulated.
///
/// # Errors
///
/// When the snapshot cannot be rebuilt.
pub fn live_of(snapshot: &Snapshot) -> Result<Live, UpgradeError> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| UpgradeError::Runtime(error.to_string()))?;
    runtime.block_on(async {
        let rebuild = RebuildOptions { live_extensions: true, ..RebuildOptions::default() };
        let rebuilt = snapshot.rebuild(&rebuild)?;
        let options = WorldOptions {
            start: rebuilt.now,
            crds: rebuilt.crds.clone(),
            prelude: None,
            ..WorldOptions::new(0)
        };
        let world = World::restored(options, &rebuilt.namespaces, &rebuilt.objects).await;
        let world = world.map_err(|error| UpgradeError::World(Box::new(error)))?;
        let ObjectKey { namespace, name } = &rebuilt.cluster;
        let live = Live::read(world.client(), namespace, name).await;
        live.map_err(|error| UpgradeError::Manifests(error.to_string()))
    })
}

async fn previewed(snapshot: &Snapshot, preview: &PreviewOptions) -> Result<UpgradeReport, UpgradeError> {
    let PreviewOptions { rebuild, upgrade: options, machine_seed, what_if, assumed } = preview;
    let mut rebuilt = snapshot.rebuild(rebuild)?;
    what_if.apply(&mut rebuilt)?;
    let failed = |error: WorldError| UpgradeError::World(Box::new(error));
    let mut manifests = rebuilt.namespaces.clone();
    if !options.extension.is_live() {
        manifests.push(SimulatedExtension::config());
        manifests.extend(assumed.iter().cloned());
        manifests.extend(what_if.extensions(&options.extension));
        let is_assumed =
            |name: &&String| assumed.iter().any(|config| config["metadata"]["name"] == name.as_str());
        let others = rebuilt.updaters.iter().filter(|name| !is_assumed(name));
        let others: Vec<Value> = others.map(|name| options.extension.add_updater(name).config()).collect();
        manifests.extend(others);
    }
    let world_options = WorldOptions {
        start: rebuilt.now,
        crds: rebuilt.crds.clone(),
        machine_seed: *machine_seed,
        ..WorldOptions::extended_by(options.seed, &options.extension)
    };
    let world = World::restored(world_options, &manifests, &rebuilt.objects).await;
    let mut world = world.map_err(failed)?;
    if options.extension.is_live() {
        let is_extension = |object: &&Value| object["kind"] == "ExtensionConfig";
        check_discovered(&world, rebuilt.objects.iter().filter(is_extension))?;
    }
    world.resume();
    upgrade_world(&mut world, &rebuilt.cluster, options, rebuilt.notes).await
}
