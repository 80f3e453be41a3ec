//! How far the upgrade of a Cluster is. `describe`, `watch`, the page, the demo and simulations draw the values of this module;
//! none of them computes its own.
//!
//! - [`Progress`] is a moment of a live Cluster: lanes, step, elapsed, what is left, skew
//! - [`Verdict`] says in one word whether it goes on
//! - [`Record`] is what happened over time, fed by every write of a simulation or by every look at a live Cluster
//! - [`Samples`] is how long machines took, and what that says about those to come

mod durations;
mod lanes;
mod live;
mod machines;
mod record;
mod records;
#[cfg(test)]
mod tests;
mod verdict;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::Serialize;

use crate::describe::{Described, StepDescription, StepState, UpgradeDescription, WaitingDescription};
pub use durations::{ENOUGH, Estimate, Samples, rank, seconds};
pub use lanes::{Lane, Mark, lanes, skew};
pub use live::{LiveRecord, RecordDescription};
pub use machines::{MachineState, Part, Seen, shown_skew};
pub use record::Record;
pub use records::{LanePoint, LaneRecord, MachineCounts, MachineRecord, OperationRecord, SkewRecord};
pub use verdict::Verdict;
pub(crate) use verdict::moved;

/// How far an upgrade is. The fields are a contract with scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Progress {
    /// Whether it goes on, in one word.
    pub verdict: Verdict,
    /// The number of the step that runs or comes next, from one on; zero without an upgrade.
    pub step: usize,
    /// How many steps there are.
    pub steps: usize,
    /// How many machines have the version of the Cluster.
    pub machines_done: usize,
    /// How many machines there shall be.
    pub machines: usize,
    /// When it began, if something tells.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub began: Option<Time>,
    /// How long ago that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub elapsed_seconds: Option<u64>,
    /// How much longer machines take, without what is waited on besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<Estimate>,
    /// Of how many machines it is known how long they took. With none, it is assumed.
    pub samples: usize,
    /// How many minors the slowest kubelet is behind an API server.
    pub skew: u64,
    /// The same at worst, as far as events tell.
    pub worst_skew: u64,
    /// When something last happened to the parts that move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moved: Option<Time>,
    /// The control plane and the worker groups, with their machines.
    pub lanes: Vec<Lane>,
}

impl Progress {
    /// How far a Cluster is. `upgrade` and `waiting` are parts of its description.
    pub(crate) fn of(
        objects: Described<'_>,
        upgrade: Option<&UpgradeDescription>,
        waiting: Option<&WaitingDescription>,
        now: Timestamp,
    ) -> Self {
        let lanes = lanes(objects);
        let skew = skew(objects);
        let samples = Samples::of(objects.my_machines());
        let steps = upgrade.map(|upgrade| upgrade.steps.as_slice()).unwrap_or_default();
        let began = upgrade.and_then(|upgrade| upgrade.began.clone());
        let moved = upgrade.and_then(|_| moved(objects, steps, waiting, began.as_ref()));
        let verdict = Verdict::of(objects, upgrade, waiting, moved, &samples, now);
        let target = upgrade.map(|upgrade| upgrade.to.as_str());
        let (machines_done, machines) = lanes::counted(objects, &lanes, target);
        Self {
            verdict,
            step: number(steps),
            steps: steps.len(),
            machines_done,
            machines,
            elapsed_seconds: began.as_ref().map(|began| passed(began.0, now)),
            began,
            left: upgrade.and_then(|_| left(steps)),
            samples: samples.count(),
            skew,
            worst_skew: upgrade.map_or(skew, |upgrade| upgrade.worst_skew.max(skew)),
            moved: moved.map(Time),
            lanes,
        }
    }
}

/// Whole seconds from one time to another, none if it is later.
pub fn passed(since: Timestamp, now: Timestamp) -> u64 {
    u64::try_from(now.duration_since(since).as_secs()).unwrap_or_default()
}

/// The number of the step that runs or comes next.
fn number(steps: &[StepDescription]) -> usize {
    let open = steps.iter().position(|step| step.state != StepState::Done);
    open.map_or(steps.len(), |place| place + 1)
}

/// What is left of all steps: those that run go on together, the others come one after the other.
fn left(steps: &[StepDescription]) -> Option<Estimate> {
    let of = |state: StepState| steps.iter().filter(move |step| step.state == state);
    let running = of(StepState::Running).filter_map(|step| step.left);
    let running = running.reduce(|a, b| Estimate {
        p50_seconds: a.p50_seconds.max(b.p50_seconds),
        p95_seconds: a.p95_seconds.max(b.p95_seconds),
    });
    of(StepState::ToCome).filter_map(|step| step.left).chain(running).reduce(Estimate::and)
}
