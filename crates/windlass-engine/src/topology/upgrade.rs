//! One decision over the whole topology: who gets which version, which hook is called, what is waited for.

use std::time::Duration;

use jiff::Timestamp;
use windlass_api::hooks::Hook;
use windlass_version::{Comparison, Version};

use super::control_plane::{self, ControlPlaneDecision};
use super::hooks::{HookAnswers, HookCall, HookLedger};
use super::observed::Observed;
use super::plan::Plan;
use super::workers::{self, GroupDecision};
use crate::pending_hooks::PendingHooks;
use crate::waiting::WaitingOn;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Call a hook, and decide again with its answer.
    Call(Box<HookCall>),
    /// Everything is known.
    Act(Box<Decision>),
}

/// What to write, and what everything waits for.
///
/// The marks (`pending_hooks` and `upgrade_step`) are written before anything else: what they promise must be
/// on record before the control plane moves, or a crash in between would lose a hook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Set while nothing of the topology may be created yet.
    pub creation: Option<WaitingOn>,
    /// What remains.
    pub plan: Plan,
    /// The control plane.
    pub control_plane: ControlPlaneDecision,
    /// The worker groups of the topology, MachineDeployments first.
    pub workers: Vec<GroupDecision>,
    /// The hooks that are pending from now on.
    pub pending_hooks: PendingHooks,
    /// The step that is under way, for those who must not act on another version.
    pub upgrade_step: Option<Version>,
    /// The target for which BeforeClusterUpgrade has passed, while an upgrade runs.
    pub acknowledged_target: Option<Version>,
    /// Whether an upgrade ends with this decision.
    pub ends_upgrade: bool,
    /// The approvals that are left when it has ended, for a later one.
    pub approvals_left: Option<String>,
    /// Hooks and annotations that hold something, in the order in which they were met.
    pub held: Vec<WaitingOn>,
}

impl Decision {
    /// When to decide again if nothing happens before: the earliest time that any hook asked for.
    pub fn retry_after(&self, now: Timestamp) -> Option<Duration> {
        self.held.iter().filter_map(|waiting| waiting.retry_after(now)).min()
    }

    /// What an operator has to repair, once each.
    pub fn failures(&self) -> Vec<&WaitingOn> {
        let path = self.control_plane.waiting.iter().filter(|waiting| matches!(waiting, WaitingOn::Path(_)));
        self.held.iter().filter(|waiting| waiting.is_failure()).chain(path).collect()
    }
}

/// Decides from what is observed and from the hooks that were answered in this reconcile.
///
/// Nothing is remembered between two decisions: a process that starts anew after a crash gets the same answer.
pub fn decide(observed: &Observed, answers: &HookAnswers) -> Next {
    match try_decide(observed, answers) {
        Ok(decision) => Next::Act(Box::new(decision)),
        Err(call) => Next::Call(call),
    }
}

fn try_decide(observed: &Observed, answers: &HookAnswers) -> Result<Decision, Box<HookCall>> {
    let mut hooks = HookLedger::new(observed.pending_hooks.clone(), answers);
    hooks.acknowledged_target = acknowledged(observed);
    let plan = Plan::compute(observed);
    let mut creation = None;
    if !observed.created {
        if hooks.passes(HookCall::bare(Hook::BeforeClusterCreate))? {
            hooks.pending.insert(Hook::AfterControlPlaneInitialized);
        } else {
            creation = hooks.held_by(Hook::BeforeClusterCreate).cloned();
        }
    }
    let control_plane = control_plane::decide(observed, &plan, &mut hooks)?;
    let workers = workers::decide(observed, &plan, &control_plane, &hooks);

    if hooks.pending.contains(Hook::AfterControlPlaneInitialized) && observed.control_plane_initialized {
        hooks.settles(HookCall::bare(Hook::AfterControlPlaneInitialized))?;
    }
    let unfinished = hooks.pending.contains(Hook::AfterControlPlaneUpgrade)
        || hooks.pending.contains(Hook::AfterWorkersUpgrade)
        || plan.no_path().is_some()
        || !control_plane.is_stable()
        || observed.workers.iter().any(|group| group.is_upgrading() && !group.is_pinned())
        || workers.iter().any(GroupDecision::is_unfinished);
    if hooks.pending.contains(Hook::AfterClusterUpgrade) && !unfinished {
        hooks.settles(HookCall {
            to: Some(observed.version.clone()),
            ..HookCall::bare(Hook::AfterClusterUpgrade)
        })?;
    }

    let is_running = hooks.pending.contains(Hook::AfterClusterUpgrade);
    let upgrade_step = is_running.then(|| control_plane.version.clone());
    let ends_upgrade = observed.pending_hooks.contains(Hook::AfterClusterUpgrade) && !is_running;
    Ok(Decision {
        creation,
        plan,
        control_plane,
        workers,
        pending_hooks: hooks.pending,
        upgrade_step,
        acknowledged_target: hooks.acknowledged_target.filter(|_| is_running),
        ends_upgrade,
        approvals_left: observed.steering.approvals_after(&observed.version),
        held: hooks.held,
    })
}

/// The target for which BeforeClusterUpgrade counts as passed. A lower one is part of what was let pass.
fn acknowledged(observed: &Observed) -> Option<Version> {
    if !observed.pending_hooks.contains(Hook::AfterClusterUpgrade) {
        return None;
    }
    let target = &observed.version;
    let kept = observed.acknowledged_target.as_ref().unwrap_or(target);
    Some(if target.compare(kept) == Comparison::Less { target } else { kept }.clone())
}
