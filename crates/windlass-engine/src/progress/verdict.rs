//! Whether an upgrade goes on, in one word.

use std::fmt;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::ResourceExt;
use serde::Serialize;
use serde_json::Value;
use windlass_api::cluster::Machine;
use windlass_api::conditions::TOPOLOGY_RECONCILED;

use super::durations::Samples;
use super::machines::Part;
use super::passed;
use crate::condition;
use crate::describe::{Described, StepDescription, StepState, UpgradeDescription, WaitingDescription};
use crate::pause::Pause;

/// Machines that take seconds are no reason to speak of a stall after as many: others may have to do with it.
const SHORTEST_STALL_SECONDS: u64 = 60;

/// Whether an upgrade goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// There is none: everything has the version of the Cluster.
    UpToDate,
    /// Machines are being created, replaced or updated, or are about to be.
    Progressing,
    /// Something else than machines is waited on: a hook, an approval, a path.
    Waiting,
    /// Nothing has happened for longer than 19 of 20 machines take.
    Stalled,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UpToDate => "up to date",
            Self::Progressing => "progressing",
            Self::Waiting => "waiting",
            Self::Stalled => "stalled",
        })
    }
}

impl Verdict {
    /// The exit code that `--exit-code` gives scripts.
    pub fn exit_code(self) -> u8 {
        match self {
            Self::UpToDate => 0,
            Self::Progressing => 10,
            Self::Waiting => 11,
            Self::Stalled => 12,
        }
    }

    pub(super) fn of(
        objects: Described<'_>,
        upgrade: Option<&UpgradeDescription>,
        waiting: Option<&WaitingDescription>,
        moved: Option<Timestamp>,
        samples: &Samples,
        now: Timestamp,
    ) -> Self {
        let told = condition::find(&objects.cluster.status.conditions, TOPOLOGY_RECONCILED);
        if upgrade.is_none() && told.is_none_or(|told| told.status == "True") {
            return Self::UpToDate;
        }
        let is_for_others = |waiting: &WaitingDescription| !waiting.wait.is_for_machines();
        let is_paused = Pause::of(&objects.cluster.metadata, Some(objects.cluster)).is_some();
        if is_paused || waiting.is_some_and(is_for_others) {
            return Self::Waiting;
        }
        // A cluster that is created has no steps.
        let Some(upgrade) = upgrade else { return Self::Progressing };
        let running = upgrade.steps.iter().filter(|step| step.state == StepState::Running);
        let parts = running.flat_map(|step| step.parts());
        let slowest = parts.map(|part| samples.machine(part).p95_seconds).max();
        let slowest = slowest.unwrap_or_else(|| samples.machine(&Part::ControlPlane).p95_seconds);
        let limit = slowest.max(SHORTEST_STALL_SECONDS);
        match moved {
            Some(moved) if passed(moved, now) > limit => Self::Stalled,
            _ => Self::Progressing,
        }
    }
}

/// When something last happened to the parts that move: a machine came, went or changed a condition, or a step or a wait began.
pub(crate) fn moved(
    objects: Described<'_>,
    steps: &[StepDescription],
    waiting: Option<&WaitingDescription>,
    began: Option<&Time>,
) -> Option<Timestamp> {
    let running: Vec<&Part> =
        steps.iter().filter(|step| step.state == StepState::Running).flat_map(|step| step.parts()).collect();
    let mine = |machine: &&Machine| {
        let part = Part::of(machine.labels());
        running.is_empty() || part.is_some_and(|part| running.contains(&&part))
    };
    let machines = objects.my_machines().filter(mine).filter_map(machine_moved);
    let started = steps.iter().filter_map(|step| step.started.as_ref().map(|time| time.0));
    let others = began.map(|time| time.0).into_iter().chain(waiting.map(|waiting| waiting.wait.since.0));
    let control_plane = objects.control_plane.filter(|_| running.contains(&&Part::ControlPlane));
    machines.chain(started).chain(others).chain(control_plane.and_then(control_plane_moved)).max()
}

/// When something last happened to a machine.
pub(super) fn machine_moved(machine: &Machine) -> Option<Timestamp> {
    let metadata = &machine.metadata;
    let times = [metadata.creation_timestamp.as_ref(), metadata.deletion_timestamp.as_ref()];
    let conditions = machine.status.conditions.iter().map(|found| found.last_transition_time.0);
    times.into_iter().flatten().map(|time| time.0).chain(conditions).max()
}

fn control_plane_moved(control_plane: &Value) -> Option<Timestamp> {
    let conditions = control_plane.pointer("/status/conditions")?.clone();
    let conditions: Vec<Condition> = serde_json::from_value(conditions).ok()?;
    conditions.iter().map(|found| found.last_transition_time.0).max()
}
