//! What a person does while a simulated upgrade runs: gives it another target, approves steps.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};
use windlass_api::GoDuration;
use windlass_api::cluster::Cluster;
use windlass_engine::steer::{Change, Verb};
use windlass_engine::topology::StepName;
use windlass_engine::waiting::Wait;
use windlass_runtime::ObjectKey;
use windlass_version::Version;

use super::observe::Journal;
use super::report::{ApprovalRecord, RetargetRecord, StopRecord};
use super::{UpgradeError, fails_for_ever, is_at, without_path};
use crate::world::{NotReached, World, WorldError};

/// The reason of a stop that the owner of the Cluster did not ask for.
const STALLED: &str = "Stalled";

/// What a person does while an upgrade runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSteering {
    /// Other targets, in the order in which they are set.
    pub retargets: Vec<Retarget>,
    /// How long after a step begins to wait for its approval that is given. Nothing if none is given.
    pub approve_after: Option<Duration>,
}

/// Another target for an upgrade that runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Retarget {
    /// The target.
    pub to: Version,
    /// When it is set.
    pub at: Moment,
}

/// A moment of an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A step begins.
    Step(StepName),
    /// So much time after the upgrade began.
    After(Duration),
}

impl fmt::Display for Retarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.at {
            Moment::Step(step) => write!(f, "{}@{step}", self.to),
            Moment::After(time) => write!(f, "{}@{}", self.to, GoDuration::from(*time)),
        }
    }
}

/// A string that is not a target and a moment.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{given:?} is not VERSION@STEP or VERSION@TIME, as v1.34.0@control-plane/v1.32.0 or v1.34.0@10m are: {why}"
)]
pub struct NotARetarget {
    given: String,
    why: String,
}

impl FromStr for Retarget {
    type Err = NotARetarget;

    fn from_str(given: &str) -> Result<Self, NotARetarget> {
        let refuse = |why: String| NotARetarget { given: given.to_owned(), why };
        let (to, at) = given.split_once('@').ok_or_else(|| refuse("there is no @".to_owned()))?;
        let to = Version::parse(to).map_err(|error| refuse(error.to_string()))?;
        let at = if at.contains('/') {
            match at
                .parse()
                .map_err(|error: windlass_engine::topology::NotAStep| refuse(error.to_string()))?
            {
                step @ (StepName::ControlPlane(_) | StepName::Group { .. }) => Moment::Step(step),
                other => {
                    return Err(refuse(format!("{other} is not a step of the control plane or of a group")));
                }
            }
        } else {
            let time: GoDuration =
                at.parse().map_err(|error: windlass_api::GoDurationError| refuse(error.to_string()))?;
            Moment::After(time.to_std().ok_or_else(|| refuse("the time is negative".to_owned()))?)
        };
        Ok(Self { to, at })
    }
}

/// An upgrade that runs, and the person who looks after it.
pub(super) struct Steered<'a> {
    pub(super) world: &'a mut World,
    pub(super) cluster: &'a ObjectKey,
    pub(super) journal: &'a Journal,
    pub(super) target: Version,
    pub(super) begun: Instant,
    pub(super) limit: Duration,
    /// Whether a topology that fails again and again ends it before the limit.
    pub(super) gives_up: bool,
}

/// What was done, and how it ended.
#[derive(Default)]
pub(super) struct Course {
    pub(super) retargets: Vec<RetargetRecord>,
    pub(super) approvals: Vec<ApprovalRecord>,
    pub(super) stopped: Option<StopRecord>,
    pub(super) warnings: Vec<String>,
}

/// Why the upgrade is looked at.
enum Event {
    Done,
    NoPath(String),
    /// Only the owner of the Cluster can let it go on.
    Waits(Wait),
    /// It is time for the next target.
    Moment,
    /// Nothing lets it go on in the time it has.
    Stalled(NotReached),
}

impl Steered<'_> {
    /// Runs to the end, or to where only the owner of the Cluster can let the upgrade go on.
    pub(super) async fn run(mut self, steering: &UpgradeSteering) -> Result<Course, UpgradeError> {
        let mut course = Course::default();
        let mut retargets = steering.retargets.iter();
        let mut next = retargets.next();
        let mut approved = BTreeSet::new();
        loop {
            match self.event(next, &approved).await? {
                Event::Done => break,
                Event::Stalled(not_reached) => {
                    course.stopped = Some(StopRecord {
                        at_seconds: self.journal.last_seconds(),
                        reason: STALLED.to_owned(),
                        waits_for: not_reached.waiting_on.join("\n"),
                    });
                    break;
                }
                Event::NoPath(reason) => {
                    let what = format!("upgrade to {}", self.target);
                    return Err(UpgradeError::Refused(Box::new(WorldError::Refused { what, reason })));
                }
                Event::Moment => {
                    if let Some(retarget) = next {
                        self.retarget(&retarget.to).await?;
                        let at_seconds = self.begun.elapsed().as_secs();
                        course.retargets.push(RetargetRecord { at_seconds, to: retarget.to.to_string() });
                    }
                    next = retargets.next();
                }
                Event::Waits(wait) => {
                    let step: Option<StepName> = wait.step.as_deref().and_then(|step| step.parse().ok());
                    if let (Some(step), Some(after)) = (step, steering.approve_after) {
                        sleep(after).await;
                        self.approve(&step).await?;
                        let at_seconds = self.begun.elapsed().as_secs();
                        course.approvals.push(ApprovalRecord { at_seconds, step: step.to_string() });
                        approved.insert(step.to_string());
                    } else if let Some(Retarget { at: Moment::After(time), .. }) = next {
                        // The next target may let it go on.
                        sleep_until(self.begun + *time).await;
                    } else {
                        let at_seconds = self.begun.elapsed().as_secs();
                        course.stopped =
                            Some(StopRecord { at_seconds, reason: wait.reason, waits_for: wait.what });
                        break;
                    }
                }
            }
        }
        let ended = if course.stopped.is_some() { "stopped" } else { "ended" };
        let left = next.into_iter().chain(retargets);
        course.warnings =
            left.map(|left| format!("the target {left} was not set: the upgrade {ended} before")).collect();
        Ok(course)
    }

    /// Lets time pass until there is something to do or to tell.
    async fn event(
        &mut self,
        next: Option<&Retarget>,
        approved: &BTreeSet<String>,
    ) -> Result<Event, UpgradeError> {
        let Self { world, cluster, journal, target, begun, limit, gives_up } = self;
        let is_due = || match next.map(|next| &next.at) {
            Some(Moment::Step(step)) => journal.has_begun(step),
            Some(Moment::After(time)) => begun.elapsed() >= *time,
            None => false,
        };
        let time_left = match next.map(|next| &next.at) {
            Some(Moment::After(time)) => time.saturating_sub(begun.elapsed()).min(*limit),
            _ => *limit,
        };
        let look = |world: &World| {
            if is_due() {
                return Some(Event::Moment);
            }
            if is_at(world, cluster, target) {
                return Some(Event::Done);
            }
            if let Some(reason) = without_path(world, cluster) {
                return Some(Event::NoPath(reason));
            }
            if *gives_up && next.is_none() && fails_for_ever(world, cluster).is_some() {
                let (goal, waited) = ("the upgrade is done".to_owned(), begun.elapsed());
                let waiting_on = world.waiting_on();
                return Some(Event::Stalled(NotReached { goal, waited, is_final: true, waiting_on }));
            }
            let wait = world.get::<Cluster>(cluster).as_ref().and_then(Wait::of_cluster)?;
            let is_given = wait.step.as_ref().is_some_and(|step| approved.contains(step));
            (wait.is_for_owner() && !is_given).then_some(Event::Waits(wait))
        };
        let mut found = None;
        let ran = world
            .run_until("the upgrade is done", time_left, |world| {
                found = look(world);
                found.is_some()
            })
            .await;
        match (found, ran) {
            (Some(event), Ok(())) => Ok(event),
            (_, Err(error)) => match (error, next) {
                (WorldError::NotReached(_), Some(Retarget { at: Moment::After(time), .. })) => {
                    sleep_until(*begun + *time).await;
                    Ok(Event::Moment)
                }
                (WorldError::NotReached(not_reached), None) => Ok(Event::Stalled(not_reached)),
                (error, _) => Err(UpgradeError::Upgrade(Box::new(error))),
            },
            (None, Ok(())) => Ok(Event::Done),
        }
    }

    async fn retarget(&mut self, to: &Version) -> Result<(), UpgradeError> {
        self.change(&Verb::Target(to.clone())).await?;
        self.target = to.clone();
        Ok(())
    }

    async fn approve(&mut self, step: &StepName) -> Result<(), UpgradeError> {
        self.change(&Verb::Approve(step.clone())).await
    }

    /// Makes the change of a verb; one that is made already is none.
    async fn change(&mut self, verb: &Verb) -> Result<(), UpgradeError> {
        let Some(cluster) = self.world.get::<Cluster>(self.cluster) else { return Ok(()) };
        let Ok(change) = Change::of(verb, &cluster) else { return Ok(()) };
        let refused = |error: WorldError| UpgradeError::Refused(Box::new(error));
        self.world.patch::<Cluster>(self.cluster, change.patch).await.map(|_| ()).map_err(refused)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retarget_is_a_version_and_a_moment() {
        for given in
            ["v1.34.0@control-plane/v1.32.0", "v1.34.0@MachineDeployment/md-0/v1.32.0", "v1.34.0@10m0s"]
        {
            assert_eq!(given.parse::<Retarget>().map(|retarget| retarget.to_string()), Ok(given.to_owned()));
        }
        for (given, why) in [
            ("v1.34.0", "there is no @"),
            ("latest@10m", "latest"),
            ("v1.34.0@soon", "soon"),
            ("v1.34.0@-5m", "negative"),
            ("v1.34.0@control-plane/latest", "not the name of a step"),
            ("v1.34.0@cluster/v1.34.0", "is not a step of the control plane"),
        ] {
            let error = given.parse::<Retarget>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
