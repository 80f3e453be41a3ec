//! One rollout of a MachineDeployment, from a change to its end.

mod limits;
mod run;

use std::time::Duration;

use jiff::Timestamp;
use serde::Serialize;

use crate::population::{Bounds, Counts, Step, seconds_between};
use crate::world::WorldError;
pub use limits::{Amount, InvalidAmount};
pub use run::{rollout, rollout_with};

/// What is rolled out, and how.
#[derive(Debug, Clone, PartialEq)]
pub struct RolloutOptions {
    /// How many machines there are.
    pub replicas: u32,
    /// How machines are replaced.
    pub strategy: Strategy,
    /// Whether an extension is there that updates machines in place.
    pub in_place: bool,
    /// What all chance comes from.
    pub seed: u64,
    /// Changes that come in the middle.
    pub changes: Vec<Change>,
    /// How long a rollout may take, in virtual time.
    pub limit: Duration,
}

/// How machines are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// By themselves, within limits.
    RollingUpdate {
        /// How many more machines than wanted there may be.
        max_surge: Amount,
        /// How many of the wanted machines may be unavailable.
        max_unavailable: Amount,
    },
    /// When a user deletes them: here, one after the other.
    OnDelete,
}

/// Something that the user does in the middle of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Change {
    /// After this step.
    pub at_step: usize,
    /// What.
    pub what: ChangeKind,
}

/// What a user does in the middle of a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChangeKind {
    /// Wants another number of machines.
    Scale(u32),
    /// Wants other machines, once more.
    Spec,
}

impl RolloutOptions {
    /// A rollout of so many machines, one at a time.
    pub fn new(replicas: u32) -> Self {
        let strategy =
            Strategy::RollingUpdate { max_surge: Amount::Number(1), max_unavailable: Amount::Number(0) };
        // Long enough for ten thousand machines one after the other.
        Self {
            replicas,
            strategy,
            in_place: false,
            seed: 0,
            changes: Vec::new(),
            limit: Duration::from_secs(7 * 24 * 3600),
        }
    }
}

/// What a rollout did.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RolloutReport {
    /// How many machines were created.
    pub created: usize,
    /// How many machines were deleted.
    pub deleted: usize,
    /// How many machines were updated in place.
    pub updated_in_place: usize,
    /// The most machines that there were at a time.
    pub max_machines: usize,
    /// The fewest machines that were available at a time.
    pub min_available: usize,
    /// What happened, one thing after the other.
    pub steps: Vec<Step>,
    /// How long it took.
    pub virtual_seconds: f64,
    /// How many reconciles it took, of all controllers.
    #[serde(skip)]
    pub reconciles: u64,
    /// How many writes it took.
    #[serde(skip)]
    pub writes: u64,
    /// How many events of watches were taken in, by all caches.
    #[serde(skip)]
    pub events: u64,
}

/// How far a rollout is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Progress<'a> {
    /// The machines that are to be rolled out are still being made.
    Preparing(Counts),
    /// Something happened to a machine.
    Step(&'a Step),
}

/// Why there is no report.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RolloutError {
    /// There is no runtime to run it on.
    #[error("cannot start a runtime: {0}")]
    Runtime(std::io::Error),
    /// It did not come to its end, or broke a rule.
    #[error(transparent)]
    World(#[from] WorldError),
}

impl RolloutReport {
    fn new(bounds: Bounds, steps: Vec<Step>, began: Timestamp, ended: Timestamp) -> Self {
        Self {
            created: bounds.created,
            deleted: bounds.deleted,
            updated_in_place: bounds.updated_in_place,
            max_machines: bounds.max_machines,
            min_available: bounds.min_available,
            steps,
            virtual_seconds: seconds_between(began, ended),
            reconciles: 0,
            writes: 0,
            events: 0,
        }
    }
}
