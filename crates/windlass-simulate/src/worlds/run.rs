//! Plays a tale and checks it.

use std::fmt;
use std::time::Duration;

use kube::ResourceExt as _;
use tokio::runtime::Builder;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::hooks::Hook;
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::{PENDING_HOOKS_ANNOTATION, PIN_ANNOTATION, UPGRADE_STEP_ANNOTATION};
use windlass_inmemory::knobs::NEVER_READY_ANNOTATION;
use windlass_version::Version;

use super::draw::{CLUSTER, Tale};
use super::end::End;
use super::hooks::pair_hooks;
use crate::chronicle::Chronicle;
use crate::extension::HookRecord;
use crate::script::{Play, PlayFailure, PlayOptions, Script};
use crate::upgrade::is_at;
use crate::world::{World, WorldError, key};

/// Longer than anything takes once everything is repaired.
const LONG: Duration = Duration::from_secs(6 * 3600);
/// What follows the last machine: hooks, and what is tidied up.
const SETTLING: Duration = Duration::from_secs(10 * 60);
/// How long nothing may be written when nothing is left to do.
const REST: Duration = Duration::from_secs(20 * 60);
/// More writes than any tale needs: beyond it, a controller runs in a loop.
const MOST_WRITES: u64 = 30_000;

/// What is wrong with a world.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The line of the story at which it was found; after its end, nothing.
    pub line: Option<usize>,
    /// What.
    pub what: String,
}

impl Finding {
    fn at_the_end(what: impl Into<String>) -> Self {
        Self { line: None, what: what.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "line {line}: {}", self.what),
            None => write!(f, "at the end: {}", self.what),
        }
    }
}

/// Plays a tale with all real controllers, checks the rules of upgrades after every write, and then that everything is as the
/// user wants it and stays so.
///
/// # Errors
///
/// The first thing that is wrong.
pub fn live(tale: &Tale) -> Result<End, Finding> {
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build();
    let runtime = runtime.map_err(|error| Finding::at_the_end(error.to_string()))?;
    runtime.block_on(live_in(tale))
}

/// Plays a tale with its faults and without them: the end must be the same, unless the user did not get to do the same.
///
/// # Errors
///
/// What is wrong with either, and how they differ.
pub fn same_end(tale: &Tale) -> Result<End, Finding> {
    let end = live(tale)?;
    if tale.has_faults() {
        let calm = live(&tale.without_faults())?;
        if let Some(difference) = end.difference(&calm) {
            return Err(Finding::at_the_end(difference));
        }
    }
    Ok(end)
}

async fn live_in(tale: &Tale) -> Result<End, Finding> {
    let script = Script::parse(&tale.to_string())
        .map_err(|error| Finding { line: Some(error.line), what: error.to_string() })?;
    let read = |file: &str| Err(format!("a tale has no file {file}"));
    let options = PlayOptions { seed: tale.seed, read: &read, live_extensions: false };
    let begun = Play::begin(&options).await;
    let mut play = begun.map_err(|cause| Finding { line: Some(1), what: cause.to_string() })?;
    let chronicle = if tale.counts_machines { Chronicle::new() } else { Chronicle::of_any_change() };
    play.world.observe(chronicle.clone());
    for statement in &script.statements {
        let (_, failure) = play.statement(statement).await;
        // What a tale wants to do to a machine that is not there is not done.
        let is_moot = statement.is_tried && matches!(failure, Some(PlayFailure::Invalid(_)));
        if let Some(cause) = failure.filter(|_| !is_moot) {
            return Err(Finding { line: Some(statement.line), what: cause.to_string() });
        }
        if play.world.faults().writes() > MOST_WRITES {
            let what = format!("{} writes: something runs in a loop", play.world.faults().writes());
            return Err(Finding { line: Some(statement.line), what });
        }
    }
    recover(&play).await?;
    let world = &mut play.world;
    let cluster = world.get::<Cluster>(&key(CLUSTER)).ok_or_else(|| Finding::at_the_end("no Cluster"))?;
    let wanted = cluster.spec.topology.map(|topology| topology.version).unwrap_or_default();
    let version = Version::parse(&wanted).map_err(|error| Finding::at_the_end(error.to_string()))?;
    raise_pins(world, &wanted).await?;
    let goal = format!("{CLUSTER} is at {wanted}");
    let reached = world.run_until(&goal, LONG, |world| is_at(world, &key(CLUSTER), &version)).await;
    reached.map_err(|error| Finding::at_the_end(error.to_string()))?;
    pass(world, SETTLING).await?;
    check_rest(&mut play).await?;
    let story = chronicle.story_with(CLUSTER, &play.extension, is_answered);
    pair_hooks(&story).map_err(Finding::at_the_end)?;
    Ok(End::of(&play.world, CLUSTER))
}

/// Whether a hook has had its say. AfterWorkersUpgrade may ask to wait at the last version, and is not waited for.
fn is_answered(call: &HookRecord) -> bool {
    call.is_passed() || (call.hook == Hook::AfterWorkersUpgrade.name() && call.status == "Success")
}

/// Lets time pass.
async fn pass(world: &mut World, time: Duration) -> Result<(), Finding> {
    match world.run_until("time passes", time, |_| false).await {
        Ok(()) | Err(WorldError::NotReached(_)) => Ok(()),
        Err(error) => Err(Finding::at_the_end(error.to_string())),
    }
}

/// No machine is ill any more: whatever the tale did to one.
async fn recover(play: &Play<'_>) -> Result<(), Finding> {
    for machine in play.world.list::<DevMachine>() {
        if machine.annotations().contains_key(NEVER_READY_ANNOTATION) {
            let patch = serde_json::json!({"metadata": {"annotations": {NEVER_READY_ANNOTATION: null}}});
            let patched = play.world.patch::<DevMachine>(&key(&machine.name_any()), patch).await;
            patched.map_err(|error| Finding::at_the_end(error.to_string()))?;
        }
    }
    Ok(())
}

/// Pins that the user could not take away are raised to the version of the Cluster, once the control plane has it: then no
/// group stays behind.
async fn raise_pins(world: &mut World, wanted: &str) -> Result<(), Finding> {
    let cluster = world.get::<Cluster>(&key(CLUSTER)).ok_or_else(|| Finding::at_the_end("no Cluster"))?;
    let mut workers = serde_json::json!(cluster.spec.topology.map(|topology| topology.workers));
    let mut is_pinned = false;
    let lists = workers.as_object_mut().into_iter().flat_map(|lists| lists.values_mut());
    for entry in lists.filter_map(|list| list.as_array_mut()).flatten() {
        if let Some(pin) =
            entry.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(PIN_ANNOTATION))
        {
            *pin = serde_json::json!(wanted);
            is_pinned = true;
        }
    }
    if !is_pinned {
        return Ok(());
    }
    let reached = |world: &World| {
        let mut control_planes = world.list::<KubeadmControlPlane>().into_iter();
        control_planes.all(|found| found.status.versions.iter().all(|running| running.version == wanted))
    };
    let goal = format!("the control plane is at {wanted}, with a pin");
    world.run_until(&goal, LONG, reached).await.map_err(|error| Finding::at_the_end(error.to_string()))?;
    let patch = serde_json::json!({"spec": {"topology": {"workers": workers}}});
    let patched = world.patch::<Cluster>(&key(CLUSTER), patch).await;
    patched.map(drop).map_err(|error| Finding::at_the_end(error.to_string()))
}

/// Nothing is open, nothing fails, and nothing is written any more.
async fn check_rest(play: &mut Play<'_>) -> Result<(), Finding> {
    let world = &mut play.world;
    world.faults().keep_journal();
    let before = world.faults().writes();
    pass(world, REST).await?;
    let journal = world.faults().journal();
    if let Some(write) = journal.iter().find(|write| write.number > before) {
        let by = write.by.as_ref().map_or("?", |(controller, _)| controller.as_str());
        let (verb, kind, name) = (write.verb, &write.kind.kind, &write.key);
        let count = world.faults().writes() - before;
        return Err(Finding::at_the_end(format!(
            "{count} writes at rest, the first by {by}: {verb} {kind} {name}"
        )));
    }
    let cluster = world.get::<Cluster>(&key(CLUSTER)).ok_or_else(|| Finding::at_the_end("no Cluster"))?;
    for annotation in [PENDING_HOOKS_ANNOTATION, UPGRADE_STEP_ANNOTATION] {
        if let Some(value) = cluster.annotations().get(annotation) {
            return Err(Finding::at_the_end(format!("{annotation} is left: {value}")));
        }
    }
    let failing = world.manager().map(windlass_runtime::Manager::failing).unwrap_or_default();
    if let Some(failing) = failing.first() {
        return Err(Finding::at_the_end(format!(
            "{} {} fails: {}",
            failing.controller, failing.key, failing.error
        )));
    }
    let leaving =
        world.list::<Machine>().into_iter().find(|machine| machine.metadata.deletion_timestamp.is_some());
    match leaving {
        Some(machine) => Err(Finding::at_the_end(format!("Machine {} is not released", machine.name_any()))),
        None => Ok(()),
    }
}
