//! Lifecycle hooks as values: which are pending, which is to be called, what came of it.

use std::collections::BTreeMap;
use std::fmt;

use windlass_api::hooks::Hook;
use windlass_version::Version;

use super::control_plane::ControlPlanePhase;
use super::observed::Observed;
use super::upgrade::Decision;
use super::workers::{GroupAction, GroupDecision};
use crate::pending_hooks::PendingHooks;
use crate::waiting::{HeldByHook, Retry, WaitingOn};

/// A hook that must be called before anything else is decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookCall {
    /// Which hook.
    pub hook: Hook,
    /// `fromKubernetesVersion`, for hooks that have it.
    pub from: Option<Version>,
    /// `toKubernetesVersion` or `kubernetesVersion`, for hooks that have either.
    pub to: Option<Version>,
    /// Control plane versions that remain.
    pub control_plane_plan: Vec<Version>,
    /// Worker versions that remain, over all groups.
    pub workers_plan: Vec<Version>,
}

impl HookCall {
    /// A call of a hook that is not about versions.
    pub fn bare(hook: Hook) -> Self {
        Self { hook, from: None, to: None, control_plane_plan: Vec::new(), workers_plan: Vec::new() }
    }

    /// The versions that the call is about: a wait for one pair of versions says nothing about another.
    pub fn versions(&self) -> Vec<String> {
        self.from.iter().chain(&self.to).map(Version::to_string).collect()
    }
}

impl fmt::Display for HookCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.from, &self.to) {
            (Some(from), Some(to)) => write!(f, "{} {from} -> {to}", self.hook),
            (None, Some(version)) | (Some(version), None) => write!(f, "{} {version}", self.hook),
            (None, None) => write!(f, "{}", self.hook),
        }
    }
}

/// What calling a hook came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookAnswer {
    /// Every handler let it pass, or there is none.
    Passed,
    /// A handler asks to wait.
    Blocked {
        /// When the hook is called again.
        retry: Retry,
        /// What the handlers asked for, which may be more than anything waits.
        asked_seconds: u32,
        /// The handlers that ask to wait, by their full names.
        handlers: Vec<String>,
        /// What the handlers said.
        message: String,
    },
    /// A handler failed. Versions stay as they are until it is repaired.
    Failed {
        /// What went wrong.
        error: String,
        /// When the hook is called again, if at a known time.
        retry: Option<Retry>,
    },
}

impl HookAnswer {
    /// What is waited on after the answer to a call, if the hook does not let pass.
    pub fn waiting(self, call: HookCall) -> Option<WaitingOn> {
        let HookCall { hook, from, to, .. } = call;
        match self {
            Self::Passed => None,
            Self::Blocked { retry, asked_seconds, handlers, message } => {
                let held = HeldByHook { hook, from, to, handlers, message, retry, asked_seconds };
                Some(WaitingOn::Hook(Box::new(held)))
            }
            Self::Failed { error, retry } => Some(WaitingOn::HookFailed { hook, error, retry }),
        }
    }
}

/// The answers of one reconcile. Every hook is called once at most for the same versions: when the plan changes in
/// between, a hook that has let one version pass is asked about the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HookAnswers(BTreeMap<Hook, (Vec<String>, HookAnswer)>);

impl HookAnswers {
    /// Nothing was called yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the answer to a call.
    pub fn insert(&mut self, call: &HookCall, answer: HookAnswer) {
        self.0.insert(call.hook, (call.versions(), answer));
    }

    fn to(&self, call: &HookCall) -> Option<&HookAnswer> {
        self.0.get(&call.hook).filter(|(versions, _)| *versions == call.versions()).map(|(_, answer)| answer)
    }
}

impl Decision {
    /// Whether a step begins with the decision: a part that exists gets another version than it has. The plan of an
    /// extension must be of now then.
    pub fn begins_step(&self, observed: &Observed) -> bool {
        let starting = self.control_plane.phase == ControlPlanePhase::Starting;
        let moves = |group: &GroupDecision| matches!(group.action, GroupAction::Upgrade { .. });
        observed.control_plane.is_some() && (starting || self.workers.iter().any(moves))
    }
}

/// The hooks while a decision is made: what was answered, what is still pending, what holds something.
pub(super) struct HookLedger<'a> {
    answers: &'a HookAnswers,
    pub(super) pending: PendingHooks,
    /// The target for which BeforeClusterUpgrade has passed, while an upgrade runs.
    pub(super) acknowledged_target: Option<Version>,
    pub(super) held: Vec<WaitingOn>,
}

impl<'a> HookLedger<'a> {
    pub(super) fn new(pending: PendingHooks, answers: &'a HookAnswers) -> Self {
        Self { answers, pending, acknowledged_target: None, held: Vec::new() }
    }

    /// Something that is no hook holds something.
    pub(super) fn hold(&mut self, waiting: WaitingOn) {
        if !self.held.contains(&waiting) {
            self.held.push(waiting);
        }
    }

    /// Whether a hook lets pass. `Err` is the call to make before that is known.
    pub(super) fn passes(&mut self, call: HookCall) -> Result<bool, Box<HookCall>> {
        let waiting = match self.answers.to(&call) {
            None => return Err(Box::new(call)),
            Some(answer) => match answer.clone().waiting(call) {
                None => return Ok(true),
                Some(waiting) => waiting,
            },
        };
        self.held.push(waiting);
        Ok(false)
    }

    /// As [`passes`](Self::passes) for a pending hook, which is no longer pending once it passes.
    pub(super) fn settles(&mut self, call: HookCall) -> Result<bool, Box<HookCall>> {
        let hook = call.hook;
        let passes = self.passes(call)?;
        if passes {
            self.pending.remove(hook);
        }
        Ok(passes)
    }

    /// What a hook holds in this reconcile, if it does.
    pub(super) fn held_by(&self, hook: Hook) -> Option<&WaitingOn> {
        self.held.iter().find(|waiting| waiting.hook() == Some(hook))
    }
}
