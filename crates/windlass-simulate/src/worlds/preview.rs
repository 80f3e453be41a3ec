//! The law of previews: what a simulation says from a snapshot is what then happens.

use std::collections::BTreeMap;
use std::time::Duration;

use kube::ResourceExt;
use tokio::runtime::Builder;
use windlass_api::cluster::Machine;
use windlass_api::names::{
    ROLLOUT_FALLBACK_ANNOTATION, ROLLOUT_STRATEGY_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_random::{Generator, mix};

use super::draw::{CLUSTER, Line, Role, Tale};
use super::run::Finding;
use crate::extension::SimulatedExtension;
use crate::script::{Action, Play, PlayOptions, Script, Statement, UpdaterOrder, obey};
use crate::snapshot::{RebuildOptions, Snapshot};
use crate::updater::SimulatedUpdater;
use crate::upgrade::{
    PreviewOptions, UpgradeError, UpgradeOptions, UpgradeReport, UpgradeSteering, WhatIf, preview_upgrade,
    upgrade_world,
};
use crate::world::{World, key};

/// How much virtual time an upgrade gets. One that an entry of the topology holds never ends.
const LIMIT: Duration = Duration::from_secs(12 * 3600);

/// How far times may be apart. Objects keep times in whole seconds, and what looks for Nodes every few seconds begins anew with
/// the process.
const TOLERANCE_SECONDS: u64 = 3;

/// When a snapshot is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Before the upgrade begins.
    Before,
    /// While it runs, after a time that comes from the seed.
    MidUpgrade,
}

/// A topology, a snapshot of it, and what became of it.
#[derive(Debug)]
pub struct Foretold {
    /// The snapshot.
    pub snapshot: Snapshot,
    /// The target.
    pub to: String,
    /// The seed of the controllers from then on.
    pub seed: u64,
    /// The seed of machines.
    pub machine_seed: u64,
    /// What happened then.
    pub happened: Result<UpgradeReport, String>,
    /// What extensions that update machines in place were told to do.
    pub updaters: Vec<(String, UpdaterOrder)>,
}

/// Brings the topology of a tale up, takes a snapshot, and lets happen what happens.
///
/// # Errors
///
/// When the tale cannot be played.
pub fn happen(tale: &Tale, taken: Taken) -> Result<Foretold, Finding> {
    in_virtual_time(happen_in(tale, taken))?
}

/// What a preview of the snapshot says.
///
/// # Errors
///
/// When there is no runtime for it.
pub fn foretell(foretold: &Foretold) -> Result<Result<UpgradeReport, String>, Finding> {
    in_virtual_time(foretell_in(foretold))
}

/// Takes a snapshot of the topology of a tale, previews the upgrade, and compares that with what happens: operation by operation,
/// machine by machine, hook by hook, with times that are at most three seconds apart.
///
/// # Errors
///
/// The first difference.
pub fn foretold(tale: &Tale, taken: Taken) -> Result<Foretold, Finding> {
    let then = happen(tale, taken)?;
    let said = foretell(&then)?;
    match difference(&said, &then.happened) {
        None => Ok(then),
        Some(what) => Err(Finding { line: None, what }),
    }
}

fn in_virtual_time<T>(work: impl Future<Output = T>) -> Result<T, Finding> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| Finding { line: None, what: error.to_string() })?;
    Ok(runtime.block_on(work))
}

async fn happen_in(tale: &Tale, taken: Taken) -> Result<Foretold, Finding> {
    let beginning = tale.lines.iter().take_while(|line| line.role != Role::Fault);
    let story = Tale { lines: beginning.filter_map(without_external).collect(), ..tale.clone() };
    let script = Script::parse(&story.to_string())
        .map_err(|error| Finding { line: Some(error.line), what: error.to_string() })?;
    let read = |file: &str| Err(format!("a tale has no file {file}"));
    let options = PlayOptions { seed: tale.seed, read: &read, live_extensions: false };
    let begun = Play::begin(&options).await;
    let mut play = begun.map_err(|cause| Finding { line: Some(1), what: cause.to_string() })?;
    let mut to = None;
    let mut updaters = Vec::new();
    for statement in &script.statements {
        if let Action::Upgrade { to: target, .. } = &statement.action {
            to = Some(target.clone());
            break;
        }
        if let Action::Updater { name, order } = &statement.action {
            updaters.push((name.clone(), order.clone()));
        }
        told(&mut play, statement).await?;
    }
    let to = to.ok_or_else(|| Finding { line: None, what: "the tale has no upgrade".to_owned() })?;
    if taken == Taken::MidUpgrade {
        let upgrade = script.statements.iter().find(|it| matches!(it.action, Action::Upgrade { .. }));
        if let Some(upgrade) = upgrade {
            told(&mut play, upgrade).await?;
        }
        let seconds = Generator::with_seed(mix(tale.seed, &["mid-upgrade"], 0)).u64(1..=90);
        pass(&mut play.world, Duration::from_secs(seconds)).await?;
        // How long an extension is at work on a machine already is known to the extension alone.
        while play.world.list::<Machine>().iter().any(is_updating) {
            pass(&mut play.world, Duration::from_secs(1)).await?;
        }
    }
    play.world.kill().await;
    let snapshot = Snapshot::read(play.world.client(), "default", CLUSTER, play.world.now()).await;
    let snapshot = snapshot.map_err(|error| Finding { line: None, what: error.to_string() })?;
    // Another one than that of the controllers before: those would have drawn the names already that are there.
    let seed = mix(tale.seed, &["preview"], 1);
    play.world.resume_with(seed);
    let options = upgrade_options(&to, seed, &play.extension);
    let happened = upgrade_world(&mut play.world, &key(CLUSTER), &options, Vec::new()).await;
    Ok(Foretold {
        snapshot,
        to,
        seed,
        machine_seed: tale.seed,
        happened: happened.map(comparable).map_err(said),
        updaters,
    })
}

/// A line without strategy External: what an external updater will do, and when, cannot be foretold.
fn without_external(line: &Line) -> Option<Line> {
    if line.text.starts_with("external updater") {
        return None;
    }
    let markers = [ROLLOUT_STRATEGY_ANNOTATION, ROLLOUT_FALLBACK_ANNOTATION];
    let text = line.text.lines().filter(|line| !markers.iter().any(|marker| line.contains(marker)));
    Some(Line { text: text.collect::<Vec<_>>().join("\n"), role: line.role })
}

async fn told(play: &mut Play<'_>, statement: &Statement) -> Result<(), Finding> {
    let (_, failure) = play.statement(statement).await;
    match failure {
        Some(cause) => Err(Finding { line: Some(statement.line), what: cause.to_string() }),
        None => Ok(()),
    }
}

async fn foretell_in(foretold: &Foretold) -> Result<UpgradeReport, String> {
    let extension = SimulatedExtension::new();
    let mut updaters: BTreeMap<&str, SimulatedUpdater> = BTreeMap::new();
    for (name, order) in &foretold.updaters {
        obey(updaters.entry(name).or_insert_with(|| extension.add_updater(name)), order);
    }
    let assumed = updaters.values().map(SimulatedUpdater::config).collect();
    let preview = PreviewOptions {
        rebuild: RebuildOptions::default(),
        upgrade: upgrade_options(&foretold.to, foretold.seed, &extension),
        machine_seed: Some(foretold.machine_seed),
        what_if: WhatIf::default(),
        assumed,
    };
    let report = preview_upgrade(&foretold.snapshot, &preview).await.map_err(said)?;
    Ok(comparable(report))
}

fn upgrade_options(to: &str, seed: u64, extension: &SimulatedExtension) -> UpgradeOptions {
    UpgradeOptions {
        to: to.to_owned(),
        seed,
        limit: LIMIT,
        extension: extension.clone(),
        steering: UpgradeSteering::default(),
    }
}

/// What was assumed is known to be so here, and stores count their revisions each for itself.
fn comparable(mut report: UpgradeReport) -> UpgradeReport {
    report.hooks.iter_mut().for_each(|call| call.revision = 0);
    UpgradeReport { warnings: Vec::new(), ..report }
}

fn said(error: UpgradeError) -> String {
    error.to_string()
}

fn is_updating(machine: &Machine) -> bool {
    machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION)
}

async fn pass(world: &mut World, time: Duration) -> Result<(), Finding> {
    let end = tokio::time::Instant::now() + time;
    let ran = world.run_until("time passes", time, |_| false).await;
    if let Err(error @ crate::world::WorldError::Violation(_)) = ran {
        return Err(Finding { line: None, what: error.to_string() });
    }
    tokio::time::sleep_until(end).await;
    Ok(())
}

/// How what was said differs from what happened, in words; nothing if it does not.
pub fn difference(
    said: &Result<UpgradeReport, String>,
    happened: &Result<UpgradeReport, String>,
) -> Option<String> {
    let (said, happened) = match (said, happened) {
        (Err(said), Err(happened)) if said == happened => return None,
        (Ok(said), Ok(happened)) if is_same(said, happened) => return None,
        (Ok(said), Ok(happened)) => (lines(said), lines(happened)),
        (said, happened) => {
            let text = |result: &Result<UpgradeReport, String>| match result {
                Ok(report) => lines(report).join("\n"),
                Err(error) => format!("error: {error}"),
            };
            return Some(format!("foretold:\n{}\nhappened:\n{}", text(said), text(happened)));
        }
    };
    let at = said.iter().zip(&happened).position(|(said, happened)| said != happened);
    let at = at.unwrap_or(said.len().min(happened.len()));
    let line = |lines: &[String]| lines.get(at).cloned().unwrap_or_else(|| "nothing more".to_owned());
    Some(format!(
        "line {at}: foretold {:?}, happened {:?}\nforetold:\n  {}\nhappened:\n  {}",
        line(&said),
        line(&happened),
        said.join("\n  "),
        happened.join("\n  ")
    ))
}

/// Whether the same happens to the same machines in the same order, at the same times.
fn is_same(said: &UpgradeReport, happened: &UpgradeReport) -> bool {
    let apart =
        times(said).into_iter().zip(times(happened)).map(|(said, happened)| said.abs_diff(happened)).max();
    untimed(said.clone()) == untimed(happened.clone()) && apart.unwrap_or_default() <= TOLERANCE_SECONDS
}

fn times(report: &UpgradeReport) -> Vec<u64> {
    let mut times = vec![report.virtual_seconds];
    for operation in &report.operations {
        times.extend([operation.start_seconds, operation.end_seconds]);
        times.extend(
            operation.machines.iter().flat_map(|machine| [machine.start_seconds, machine.end_seconds]),
        );
    }
    times.extend(report.hooks.iter().map(|call| call.at_seconds));
    times
}

/// What happens, and in which order, without when.
pub fn untimed(mut report: UpgradeReport) -> UpgradeReport {
    for operation in &mut report.operations {
        (operation.start_seconds, operation.end_seconds) = (0, 0);
        for machine in &mut operation.machines {
            (machine.start_seconds, machine.end_seconds) = (0, 0);
        }
    }
    report.hooks.iter_mut().for_each(|call| call.at_seconds = 0);
    report.stopped.iter_mut().for_each(|stopped| stopped.at_seconds = 0);
    UpgradeReport { lanes: Vec::new(), skew: Vec::new(), virtual_seconds: 0, ..report }
}

/// A report line by line.
fn lines(report: &UpgradeReport) -> Vec<String> {
    let mut lines = Vec::new();
    for operation in &report.operations {
        let part = operation.group.as_deref().unwrap_or("control plane");
        let (start, end) = (operation.start_seconds, operation.end_seconds);
        lines.push(format!("{start}-{end} {part} {} -> {}", operation.from, operation.to));
        for machine in &operation.machines {
            let (start, end) = (machine.start_seconds, machine.end_seconds);
            lines.push(format!("{start}-{end} {part} {} {}", machine.action, machine.name));
        }
    }
    lines.extend(report.hooks.iter().map(|call| format!("{} {call}", call.at_seconds)));
    lines.push(format!("{:?}, skew {}, {} s", report.machines, report.worst_skew, report.virtual_seconds));
    lines.extend(report.stopped.iter().map(|stopped| format!("{stopped:?}")));
    lines
}
