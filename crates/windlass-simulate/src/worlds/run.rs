//! Plays a tale and checks it.

use std::fmt;
use std::time::Duration;

use kube::ResourceExt as _;
use kube::api::{ApiResource, DynamicObject};
use serde_json::{Value, json};
use tokio::runtime::Builder;
use windlass_api::api_version;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::hooks::Hook;
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::{
    BOOTSTRAP_API_VERSION, CLUSTER_API_VERSION, CONTROL_PLANE_API_VERSION, INFRASTRUCTURE_API_VERSION,
    PENDING_HOOKS_ANNOTATION, PIN_ANNOTATION, UPGRADE_STEP_ANNOTATION,
};
use windlass_inmemory::knobs::NEVER_READY_ANNOTATION;
use windlass_patch::merge_patch;
use windlass_version::Version;

use super::draw::{CLUSTER, EXTERNAL_UPDATER, Role, Tale, WRITTEN};
use super::end::{End, token_renewals};
use super::hooks::pair_hooks;
use super::rules::Rules;
use crate::chronicle::Chronicle;
use crate::extension::HookRecord;
use crate::script::{Action, ExternalUpdaterOrder, Play, PlayFailure, PlayOptions, Script};
use crate::upgrade::is_at;
use crate::world::{World, WorldError, key};

/// Longer than anything takes once everything is repaired.
const LONG: Duration = Duration::from_secs(6 * 3600);
/// What follows the last machine: hooks, and what is tidied up.
const SETTLING: Duration = Duration::from_secs(10 * 60);
/// How long nothing may be written when nothing is left to do.
const REST: Duration = Duration::from_secs(20 * 60);
/// How often an external updater does what it has taken over.
const ROUND: Duration = Duration::from_secs(10 * 60);
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
    let freedoms = tale.freedoms;
    let chronicle = if freedoms.counts_machines { Chronicle::new() } else { Chronicle::of_any_change() };
    play.world.observe(chronicle.clone());
    play.world.observe(Rules::new(freedoms));
    let (acts, mending) = (tale.first_line(Role::Act), tale.first_line(Role::Mending));
    let mut written = None;
    // What happened to a Cluster that is gone is another story.
    let mut since = 0;
    for statement in &script.statements {
        if written.is_none() && statement.line >= acts {
            written = Some(Originals::of(&play.world));
        }
        if freedoms.any_field && statement.line == mending {
            play.world.faults().clear_layers();
            written.take().unwrap_or_default().restore(&play.world).await?;
        }
        let (_, failure) = play.statement(statement).await;
        // What a tale wants to do to a machine that is not there is not done.
        let is_moot = statement.is_tried && matches!(failure, Some(PlayFailure::Invalid(_)));
        if let Some(cause) = failure.filter(|_| !is_moot) {
            return Err(Finding { line: Some(statement.line), what: cause.to_string() });
        }
        if matches!(statement.action, Action::Delete(_)) {
            since = u64::MAX;
        }
        if since == u64::MAX && play.world.get::<Cluster>(&key(CLUSTER)).is_none() {
            since = play.world.server().store().revision();
        }
        if play.world.faults().writes() > MOST_WRITES {
            let what = format!("{} writes: something runs in a loop", play.world.faults().writes());
            return Err(Finding { line: Some(statement.line), what });
        }
    }
    recover(&play).await?;
    let cluster =
        play.world.get::<Cluster>(&key(CLUSTER)).ok_or_else(|| Finding::at_the_end("no Cluster"))?;
    let wanted = cluster.spec.topology.map(|topology| topology.version).unwrap_or_default();
    let version = Version::parse(&wanted).map_err(|error| Finding::at_the_end(error.to_string()))?;
    raise_pins(&mut play, &wanted).await?;
    let goal = format!("{CLUSTER} is at {wanted}");
    until(&mut play, &goal, |world| is_at(world, &key(CLUSTER), &version)).await?;
    pass(&mut play.world, SETTLING).await?;
    check_rest(&mut play).await?;
    let story = chronicle.story_since(since, CLUSTER, &play.extension, is_answered);
    pair_hooks(&story).map_err(Finding::at_the_end)?;
    Ok(End::of(&play.world, CLUSTER))
}

/// Lets time pass until something is true, while an external updater does what it has taken over.
async fn until(
    play: &mut Play<'_>,
    goal: &str,
    mut reached: impl FnMut(&World) -> bool,
) -> Result<(), Finding> {
    let updates = Action::ExternalUpdater {
        name: EXTERNAL_UPDATER.to_owned(),
        order: ExternalUpdaterOrder::Updates(None),
    };
    let rounds = if play.has_external_updater() { LONG.as_secs() / ROUND.as_secs() } else { 1 };
    let time = if rounds > 1 { ROUND } else { LONG };
    for round in 1..=rounds {
        match play.world.run_until(goal, time, &mut reached).await {
            Ok(()) => return Ok(()),
            Err(WorldError::NotReached(_)) if round < rounds => {}
            Err(error) => return Err(Finding::at_the_end(error.to_string())),
        }
        // It may not have been asked yet, or be done.
        match play.change(&updates).await {
            Ok(_) | Err(PlayFailure::Invalid(_) | PlayFailure::Refused(_)) => {}
            Err(error) => return Err(Finding::at_the_end(error.to_string())),
        }
    }
    Ok(())
}

/// What the user had written before any field of it was changed.
#[derive(Default)]
struct Originals(Vec<(ApiResource, String, Value)>);

impl Originals {
    fn of(world: &World) -> Self {
        let kinds = WRITTEN.map(|(_, kind, name)| (kind, name)).into_iter().chain([(Cluster::KIND, CLUSTER)]);
        let found = kinds.filter_map(|(kind, name)| {
            let resource = resource(kind);
            let object: DynamicObject = world.get_of(&resource, &key(name))?;
            Some((resource, name.to_owned(), object.data["spec"].clone()))
        });
        Self(found.collect())
    }

    /// Takes back every change of a field, except for the version that is wanted.
    async fn restore(self, world: &World) -> Result<(), Finding> {
        for (resource, name, mut spec) in self.0 {
            let present: Option<DynamicObject> = world.get_of(&resource, &key(&name));
            let Some(present) = present.map(|object| object.data["spec"].clone()) else { continue };
            if resource.kind == Cluster::KIND {
                spec["topology"]["version"] = present["topology"]["version"].clone();
            }
            let patch = merge_patch::between(&present, &spec);
            let patch = patch.map_err(|error| Finding::at_the_end(error.to_string()))?;
            let Some(patch) = patch else { continue };
            let patched =
                world.patch_of::<DynamicObject>(&resource, &key(&name), json!({"spec": patch})).await;
            patched
                .map_err(|error| Finding::at_the_end(format!("a change cannot be taken back: {error}")))?;
        }
        Ok(())
    }
}

/// What the API calls a kind that the user of a tale writes.
fn resource(kind: &str) -> ApiResource {
    let api_version = match kind {
        "Cluster" | "ClusterClass" => CLUSTER_API_VERSION,
        "KubeadmControlPlaneTemplate" => CONTROL_PLANE_API_VERSION,
        "KubeadmConfigTemplate" => BOOTSTRAP_API_VERSION,
        _ => INFRASTRUCTURE_API_VERSION,
    };
    ApiResource::from_gvk(&api_version::kind(api_version, kind))
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
            let patch = json!({"metadata": {"annotations": {NEVER_READY_ANNOTATION: null}}});
            let patched = play.world.patch::<DevMachine>(&key(&machine.name_any()), patch).await;
            patched.map_err(|error| Finding::at_the_end(error.to_string()))?;
        }
    }
    Ok(())
}

/// Pins that the user could not take away are raised to the version of the Cluster, once the control plane has it: then no
/// group stays behind.
async fn raise_pins(play: &mut Play<'_>, wanted: &str) -> Result<(), Finding> {
    let cluster =
        play.world.get::<Cluster>(&key(CLUSTER)).ok_or_else(|| Finding::at_the_end("no Cluster"))?;
    let mut workers = json!(cluster.spec.topology.map(|topology| topology.workers));
    let mut is_pinned = false;
    let lists = workers.as_object_mut().into_iter().flat_map(|lists| lists.values_mut());
    for entry in lists.filter_map(|list| list.as_array_mut()).flatten() {
        if let Some(pin) =
            entry.pointer_mut("/metadata/annotations").and_then(|all| all.get_mut(PIN_ANNOTATION))
        {
            *pin = json!(wanted);
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
    until(play, &goal, reached).await?;
    let patch = json!({"spec": {"topology": {"workers": workers}}});
    let patched = play.world.patch::<Cluster>(&key(CLUSTER), patch).await;
    patched.map(drop).map_err(|error| Finding::at_the_end(error.to_string()))
}

/// Nothing is open, nothing fails, and nothing is written any more.
async fn check_rest(play: &mut Play<'_>) -> Result<(), Finding> {
    let world = &mut play.world;
    world.faults().keep_journal();
    let before = world.faults().writes();
    pass(world, REST).await?;
    let journal = world.faults().journal();
    let renews = token_renewals(world);
    if let Some(write) = journal.iter().find(|write| write.number > before && !renews(write)) {
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
