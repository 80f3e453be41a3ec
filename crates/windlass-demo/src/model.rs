//! What there is to see of an upgrade at a moment.

use std::time::Duration;

use windlass_engine::progress::Lane;

/// Where the demo is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The cluster comes up.
    Creating,
    /// It is upgraded.
    Upgrading,
    /// It is where it should be.
    Done,
}

/// What there is to see.
#[derive(Clone, Debug, PartialEq)]
pub struct Model {
    /// Where the demo is.
    pub phase: Phase,
    /// Version before.
    pub from: String,
    /// Version after.
    pub to: String,
    /// The versions on the way, both ends included.
    pub versions: Vec<String>,
    /// The control plane, then the worker groups.
    pub lanes: Vec<Lane>,
    /// What is done, what goes on, what comes.
    pub steps: Vec<PlanStep>,
    /// Calls of hooks, in their order.
    pub hooks: Vec<HookLine>,
    /// How many minors the slowest kubelet is behind an API server now.
    pub skew: u64,
    /// And at worst so far.
    pub worst_skew: u64,
    /// What it waits on, in the words of those who wait.
    pub waiting_on: Vec<String>,
    /// Machines that came during the upgrade.
    pub created: usize,
    /// Machines that went.
    pub deleted: usize,
    /// Machines that were updated in place.
    pub updated: usize,
    /// Time since the version was changed.
    pub elapsed: Duration,
    /// How many times faster than real the provider's delays are.
    pub speed: f64,
}

/// An operation of the plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// What it does.
    pub text: String,
    /// How far it is.
    pub state: StepState,
}

/// How far an operation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepState {
    /// Done.
    Done,
    /// Going on.
    Running,
    /// To come.
    Coming,
}

/// A call of a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookLine {
    /// When, since the version was changed.
    pub at: Duration,
    /// Which hook.
    pub hook: String,
    /// The versions it was told.
    pub versions: String,
    /// How long it asked to wait, in seconds.
    pub wait: u32,
}
