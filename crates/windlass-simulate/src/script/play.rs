//! Carries a story out, statement by statement, in a world.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::time::Instant;
use windlass_api::runtime::DISCOVERED_CONDITION;
use windlass_controllers::describe::describe_cluster;
use windlass_runtime::{Ended, WriteFault};

use super::goals::is_reached;
use super::happenings::{Happening, Witness};
use super::parse::Script;
use super::statement::{Action, CrashPoint, Goal, Statement};
use super::view::{self, Shown};
use crate::extension::SimulatedExtension;
use crate::external_updater::SimulatedExternalUpdater;
use crate::recorder::Violation;
use crate::updater::SimulatedUpdater;
use crate::world::{NotReached, World, WorldError, WorldOptions};

/// How much virtual time an extension gets to be discovered. A call takes none.
const DISCOVERY_LIMIT: Duration = Duration::from_secs(60);

/// What became of a statement.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// Its line in the story.
    pub line: usize,
    /// The statement, as it is written.
    pub statement: String,
    /// The comments above it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub comments: Vec<String>,
    /// When it began, in seconds of virtual time after the beginning of the story.
    pub start_seconds: u64,
    /// When it ended.
    pub end_seconds: u64,
    /// What happened meanwhile, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub happened: Vec<Happening>,
    /// What came of it, in a few words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What it shows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shown: Option<Shown>,
    /// Why it was refused or not reached, if it was only tried.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// Why a story did not go on to its end.
#[derive(Debug, thiserror::Error)]
#[error("line {line}: {cause}")]
pub struct PlayError {
    /// The statement.
    pub line: usize,
    /// What went wrong.
    pub cause: PlayFailure,
}

/// What went wrong with a statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlayFailure {
    /// It names something that does not exist.
    #[error("{0}")]
    Invalid(String),
    /// The API refused it, or there is no plan.
    #[error("{0}")]
    Refused(String),
    /// What was waited for did not happen.
    #[error(transparent)]
    NotReached(#[from] NotReached),
    /// A rule of upgrades was broken.
    #[error("a rule is broken: {0}")]
    Violation(#[from] Violation),
    /// The world did not begin.
    #[error("cannot start: {0}")]
    Start(String),
}

impl From<WorldError> for PlayFailure {
    fn from(error: WorldError) -> Self {
        match error {
            WorldError::NotReached(not_reached) => Self::NotReached(not_reached),
            WorldError::Violation(violation) => Self::Violation(violation),
            WorldError::Manifest { .. } => Self::Invalid(error.to_string()),
            WorldError::Start { reason } => Self::Start(reason),
            refused => Self::Refused(refused.to_string()),
        }
    }
}

/// How a story is played.
pub struct PlayOptions<'a> {
    /// What all chance comes from.
    pub seed: u64,
    /// Whether extensions that the story registers are called over HTTPS, where they are. Time in the story stands still
    /// until they answer.
    pub live_extensions: bool,
    /// Reads a file that the story names.
    pub read: &'a dyn Fn(&str) -> Result<String, String>,
}

/// Plays a story with all real controllers, in a runtime of its own in which hours pass at once. What became of each
/// statement is told as soon as it is done.
///
/// # Errors
///
/// The first statement that was refused, whose goal was not reached, or that makes no sense.
pub fn play(script: &Script, options: &PlayOptions<'_>, tell: impl FnMut(&Outcome)) -> Result<(), PlayError> {
    let cannot = |error: std::io::Error| PlayError { line: 1, cause: PlayFailure::Start(error.to_string()) };
    let runtime = Builder::new_current_thread().enable_time().start_paused(true).build().map_err(cannot)?;
    runtime.block_on(play_in(script, options, tell))
}

async fn play_in(
    script: &Script,
    options: &PlayOptions<'_>,
    mut tell: impl FnMut(&Outcome),
) -> Result<(), PlayError> {
    let started = Play::begin(options).await;
    let mut play = started.map_err(|cause| PlayError { line: 1, cause })?;
    for statement in &script.statements {
        let (outcome, failure) = play.statement(statement).await;
        tell(&outcome);
        if let Some(cause) = failure {
            return Err(PlayError { line: statement.line, cause });
        }
    }
    Ok(())
}

/// A world, and everything in it that a story tells what to do.
pub(crate) struct Play<'a> {
    pub(crate) world: World,
    pub(crate) extension: SimulatedExtension,
    pub(super) updaters: BTreeMap<String, SimulatedUpdater>,
    pub(super) external_updaters: BTreeMap<String, SimulatedExternalUpdater>,
    pub(super) options: &'a PlayOptions<'a>,
    witness: Witness,
    begun: Instant,
    /// How many calls of hooks were told, and shown.
    calls_told: usize,
    calls_shown: usize,
}

/// What a statement came to, if it did.
pub(crate) enum Done {
    /// Nothing to say.
    Quietly,
    /// A few words.
    Note(String),
    /// Something to look at.
    Shown(Shown),
}

impl<'a> Play<'a> {
    pub(crate) async fn begin(options: &'a PlayOptions<'a>) -> Result<Self, PlayFailure> {
        let extension = match options.live_extensions {
            true => SimulatedExtension::beside_live(),
            false => Ok(SimulatedExtension::new()),
        };
        let extension = extension.map_err(|error| PlayFailure::Start(error.to_string()))?;
        // Times of the API count from the beginning of the story, as those of its output do.
        let start = Timestamp::UNIX_EPOCH;
        let world_options = WorldOptions { start, ..WorldOptions::extended_by(options.seed, &extension) };
        let world = World::begin(world_options).await?;
        let witness = Witness::new(world.now());
        world.observe(witness.clone());
        extension.follow(&world);
        extension.begin();
        let mut play = Self {
            world,
            extension,
            updaters: BTreeMap::new(),
            external_updaters: BTreeMap::new(),
            options,
            witness,
            begun: Instant::now(),
            calls_told: 0,
            calls_shown: 0,
        };
        play.register(&SimulatedExtension::config()).await?;
        Ok(play)
    }

    /// Registers an extension, and waits until it is discovered.
    pub(super) async fn register(&mut self, config: &Value) -> Result<(), PlayFailure> {
        self.world.apply_object(config).await?;
        let name = config["metadata"]["name"].as_str().unwrap_or_default();
        let is_discovered = |world: &World| {
            let config = world.extension_config(name);
            config.is_some_and(|config| {
                config.condition(DISCOVERED_CONDITION).is_some_and(|found| json!(found)["status"] == "True")
            })
        };
        let goal = format!("extension {name} is discovered");
        Ok(self.world.run_until(&goal, DISCOVERY_LIMIT, is_discovered).await?)
    }

    pub(crate) async fn statement(&mut self, statement: &Statement) -> (Outcome, Option<PlayFailure>) {
        let start_seconds = self.begun.elapsed().as_secs();
        let done = self.act(&statement.action).await;
        let calls = self.extension.calls();
        let happened = self.witness.take(&calls[self.calls_told..]);
        self.calls_told = calls.len();
        let mut outcome = Outcome {
            line: statement.line,
            statement: statement.source.clone(),
            comments: statement.comments.clone(),
            start_seconds,
            end_seconds: self.begun.elapsed().as_secs(),
            happened,
            note: None,
            shown: None,
            failed: None,
        };
        let mut failure = None;
        match done {
            Ok(Done::Quietly) => {}
            Ok(Done::Note(note)) => outcome.note = Some(note),
            Ok(Done::Shown(shown)) => outcome.shown = Some(shown),
            Err(PlayFailure::Refused(why)) if statement.is_tried => {
                outcome.failed = Some(format!("refused: {why}"))
            }
            Err(PlayFailure::NotReached(why)) if statement.is_tried => outcome.failed = Some(why.to_string()),
            Err(cause) => failure = Some(cause),
        }
        (outcome, failure)
    }

    async fn act(&mut self, action: &Action) -> Result<Done, PlayFailure> {
        match action {
            Action::Advance(time) => self.advance(*time).await,
            Action::Until { goal, within } => self.until(goal, *within).await,
            Action::Crash(point) => self.crash(*point).await,
            Action::Describe(name) => {
                let described =
                    describe_cluster(self.world.client(), "default", name, self.world.now()).await;
                let cluster = described.map_err(|error| PlayFailure::Invalid(error.to_string()))?;
                let now = self.world.now();
                Ok(Done::Shown(Shown::Description { cluster: Box::new(cluster), now }))
            }
            Action::ListMachines(part) => {
                Ok(Done::Shown(Shown::Machines(view::machines(&self.world, part.as_ref()))))
            }
            Action::ListHooks => {
                let calls = self.extension.calls();
                let shown = calls[self.calls_shown..].to_vec();
                self.calls_shown = calls.len();
                Ok(Done::Shown(Shown::Hooks(shown)))
            }
            Action::Plan { cluster, to } => {
                let plan = view::plan(&self.world, cluster, to).map_err(PlayFailure::Refused)?;
                Ok(Done::Shown(Shown::Plan(Box::new(plan))))
            }
            change => self.change(change).await,
        }
    }

    async fn advance(&mut self, time: Duration) -> Result<Done, PlayFailure> {
        match self.world.run_until("time passes", time, |_| false).await {
            // Nothing to do is no reason for time to stand still.
            Err(WorldError::NotReached(NotReached { waited, .. })) => {
                tokio::time::sleep(time.saturating_sub(waited)).await;
                Ok(Done::Quietly)
            }
            Err(error) => Err(error.into()),
            Ok(()) => Ok(Done::Quietly),
        }
    }

    async fn until(&mut self, goal: &Goal, within: Duration) -> Result<Done, PlayFailure> {
        let begun = Instant::now();
        match goal {
            Goal::Idle => self.world.run_until_idle(within).await?,
            Goal::HookCalled { hook, times } => {
                let (extension, hook) = (self.extension.clone(), hook.name());
                let count = move || extension.calls().iter().filter(|call| call.hook == hook).count();
                let before = count();
                self.world.run_until(&goal.to_string(), within, |_| count() >= before + times).await?;
            }
            goal => {
                self.world.run_until(&goal.to_string(), within, |world| is_reached(goal, world)).await?;
            }
        }
        Ok(Done::Note(format!("reached after {}", spoken(begun.elapsed()))))
    }

    async fn crash(&mut self, point: CrashPoint) -> Result<Done, PlayFailure> {
        let (number, within, fault) = match point {
            CrashPoint::Now => {
                self.world.restart().await;
                return Ok(Done::Note("the controllers were killed, and run again".to_owned()));
            }
            CrashPoint::Before(number, within) => (number, within, WriteFault::CrashBefore),
            CrashPoint::After(number, within) => (number, within, WriteFault::CrashAfter),
        };
        let faults = self.world.faults().clone();
        faults.keep_journal();
        let at = faults.writes() + number;
        faults.on_write(at, fault);
        let ended = self.world.run_to_the_end(within).await;
        faults.forget();
        if ended != Some(Ended::Crashed) {
            let writes = faults.writes() + number - at;
            return Err(PlayFailure::Refused(format!(
                "there were only {writes} writes within {}",
                spoken(within)
            )));
        }
        let journal = faults.journal();
        let write = journal.iter().find(|write| write.number == at).map(|write| {
            let by = write.by.as_ref().map(|(controller, _)| format!(" by {controller}")).unwrap_or_default();
            format!("{} {} {}{by}", write.verb, write.kind.kind, write.key)
        });
        self.world.restart().await;
        let when = if fault == WriteFault::CrashBefore { "before" } else { "after" };
        let write = write.unwrap_or_else(|| format!("write {number}"));
        Ok(Done::Note(format!("the controllers were killed {when} this write, and run again: {write}")))
    }
}

/// A duration as people say it.
pub fn spoken(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 3600, seconds / 60 % 60, seconds % 60) {
        (0, 0, seconds) => format!("{seconds}s"),
        (0, minutes, seconds) => format!("{minutes}m{seconds:02}s"),
        (hours, minutes, seconds) => format!("{hours}h{minutes:02}m{seconds:02}s"),
    }
}
