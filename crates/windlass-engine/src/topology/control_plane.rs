//! Which version the control plane gets, and what happens around it.

use windlass_api::hooks::Hook;
use windlass_version::Version;

use super::hooks::{HookCall, HookLedger};
use super::observed::{ControlPlane, Observed, WorkerGroup};
use super::plan::{NextStep, Plan};
use super::redirect::{Redirect, redirect};
use super::step_name::StepName;
use super::workers;
use crate::waiting::WaitingOn;

/// What happens to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPlaneDecision {
    /// The version it shall have.
    pub version: Version,
    /// Where it is.
    pub phase: ControlPlanePhase,
    /// Whether it still has to go further than that version. While it has, nothing of it is changed, so that
    /// no machine is replaced now and again for the next version.
    pub pending: bool,
    /// What it waits for before it goes on.
    pub waiting: Option<WaitingOn>,
    /// What keeps the next step of workers from starting, where that is no hook.
    pub holds_workers: Option<WaitingOn>,
    /// The version of the step that it gives up for a later patch.
    pub redirected_from: Option<Version>,
}

/// Where the control plane is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlPlanePhase {
    /// It is created now.
    Creating,
    /// No machine of it runs yet.
    Provisioning,
    /// Its machines are on their way to its version.
    Upgrading,
    /// It gets its next version now.
    Starting,
    /// Workers have to reach its version before it goes on.
    WaitingForWorkers,
    /// Nothing of it is on its way.
    Idle,
}

impl ControlPlaneDecision {
    /// Whether it runs, at the target, with nothing under way.
    pub fn is_stable(&self) -> bool {
        let moving = matches!(
            self.phase,
            ControlPlanePhase::Provisioning | ControlPlanePhase::Upgrading | ControlPlanePhase::Starting
        );
        !moving && !self.pending
    }

    /// Whether the object and its template may be written.
    pub fn may_be_written(&self) -> bool {
        !self.pending || matches!(self.phase, ControlPlanePhase::Starting | ControlPlanePhase::Creating)
    }

    /// Whether workers may go to its version: its machines have it, and it does not leave it.
    pub(super) fn lets_workers_move(&self) -> bool {
        matches!(self.phase, ControlPlanePhase::WaitingForWorkers | ControlPlanePhase::Idle)
    }
}

/// Decides on the control plane. `Err` is a hook to be called first.
///
/// What was begun is ended first: machines that are on their way, then the hooks that were promised. What comes next,
/// and the hooks before it, is the first operation of the plan. Before anything starts come, in this order: a path, what
/// the owner of the Cluster asks for (see [`Steering`](super::Steering)), the hook. What is marked in `hooks` must be
/// written before the control plane is.
pub(super) fn decide(
    observed: &Observed,
    plan: &Plan,
    hooks: &mut HookLedger<'_>,
) -> Result<ControlPlaneDecision, Box<HookCall>> {
    let Some(current) = &observed.control_plane else {
        return Ok(ControlPlaneDecision {
            version: observed.version.clone(),
            phase: ControlPlanePhase::Creating,
            pending: false,
            waiting: None,
            holds_workers: None,
            redirected_from: None,
        });
    };
    let rows = Rows { observed, plan, current };
    if current.is_provisioning() {
        let waiting = WaitingOn::ControlPlaneProvisioning { control_plane: full_name(current) };
        return Ok(rows.keep(ControlPlanePhase::Provisioning, Some(waiting)));
    }
    if current.is_upgrading() {
        return rows.moving(hooks);
    }
    if let Some(step) = recorded_step(observed, current, hooks) {
        if let Some(no_path) = plan.no_path() {
            return Ok(rows.keep(ControlPlanePhase::Idle, Some(WaitingOn::Path(no_path.clone()))));
        }
        if matches!(plan.next_step(), Some(NextStep::ControlPlane { to, .. }) if to == step) {
            return Ok(start(observed, step));
        }
        // The step is not the next one any more, because the class, the plan or the target changed in between. It never
        // began, so nothing has to be said after it.
        for hook in [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade] {
            hooks.pending.remove(hook);
        }
    }
    // A step that was taken is told, wherever the upgrade goes from here.
    if hooks.pending.contains(Hook::AfterControlPlaneUpgrade)
        && !hooks.settles(rows.call(Hook::AfterControlPlaneUpgrade, None, &current.version))?
    {
        return Ok(rows.held(hooks, Hook::AfterControlPlaneUpgrade));
    }
    if let Some(no_path) = plan.no_path() {
        return Ok(rows.keep(ControlPlanePhase::Idle, Some(WaitingOn::Path(no_path.clone()))));
    }
    rows.acknowledge_raise(hooks)?;
    if let Some(step @ NextStep::Workers { .. }) = plan.next_step() {
        return rows.workers(&step, hooks);
    }
    if hooks.pending.contains(Hook::BeforeWorkersUpgrade) {
        // The plan has no step of workers here any more. It never began, so nothing is said before or after it.
        hooks.pending.remove(Hook::BeforeWorkersUpgrade);
        hooks.pending.remove(Hook::AfterWorkersUpgrade);
    }
    // Before an upgrade begins, its first step waits for rollouts of any kind, unless its owner says not to.
    let is_running = hooks.pending.contains(Hook::AfterClusterUpgrade);
    let rolling = observed.workers.iter().filter(|group| is_running && group.is_upgrading());
    let rolling: Vec<&WorkerGroup> = rolling.collect();
    if !rolling.is_empty() {
        let groups = rolling.into_iter().map(WorkerGroup::id).collect();
        return Ok(rows.keep(ControlPlanePhase::Idle, Some(WaitingOn::WorkersRollout { groups })));
    }
    if hooks.pending.contains(Hook::AfterWorkersUpgrade)
        && !after_workers(
            observed,
            current,
            rows.call(Hook::AfterWorkersUpgrade, None, &current.version),
            hooks,
        )?
    {
        return Ok(rows.held(hooks, Hook::AfterWorkersUpgrade));
    }
    let Some(step @ NextStep::ControlPlane { to, .. }) = plan.next_step() else {
        return Ok(rows.keep(ControlPlanePhase::Idle, None));
    };
    rows.next(&step, to, hooks)
}

/// The rows of the decision, with what all of them look at.
struct Rows<'a> {
    observed: &'a Observed,
    plan: &'a Plan,
    current: &'a ControlPlane,
}

impl Rows<'_> {
    fn keep(&self, phase: ControlPlanePhase, waiting: Option<WaitingOn>) -> ControlPlaneDecision {
        ControlPlaneDecision {
            version: self.current.version.clone(),
            phase,
            pending: self.current.version != self.observed.version,
            waiting,
            holds_workers: None,
            redirected_from: None,
        }
    }

    fn held(&self, hooks: &HookLedger<'_>, hook: Hook) -> ControlPlaneDecision {
        self.keep(ControlPlanePhase::Idle, hooks.held_by(hook).cloned())
    }

    /// Nothing starts because of something that is no hook.
    fn gated(&self, hooks: &mut HookLedger<'_>, waiting: WaitingOn) -> ControlPlaneDecision {
        hooks.hold(waiting.clone());
        self.keep(ControlPlanePhase::Idle, Some(waiting))
    }

    fn call(&self, hook: Hook, from: Option<&Version>, to: &Version) -> HookCall {
        Self::call_with(self.plan, hook, from, to)
    }

    fn call_with(plan: &Plan, hook: Hook, from: Option<&Version>, to: &Version) -> HookCall {
        HookCall {
            hook,
            from: from.cloned(),
            to: Some(to.clone()),
            control_plane_plan: plan.control_plane().to_vec(),
            workers_plan: plan.workers(),
        }
    }

    /// Machines are on their way. The step ends, unless it goes to another version from here.
    fn moving(&self, hooks: &mut HookLedger<'_>) -> Result<ControlPlaneDecision, Box<HookCall>> {
        let current = self.current;
        let waiting = WaitingOn::ControlPlaneUpgrade {
            control_plane: full_name(current),
            to: current.version.clone(),
            running: current.running.clone(),
            says: current.blocked.clone().unwrap_or_default(),
        };
        let moving = self.keep(ControlPlanePhase::Upgrading, Some(waiting));
        // Only steps of an upgrade are steered: nothing is promised for others.
        if !hooks.pending.contains(Hook::AfterClusterUpgrade) {
            return Ok(moving);
        }
        let Some(redirect) = redirect(self.observed, current) else { return Ok(moving) };
        let redirected_from = Some(current.version.clone());
        if redirect.is_given_up() {
            // No machine came up with the step, so nothing is said after it.
            let promised =
                [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade];
            promised.into_iter().for_each(|hook| hooks.pending.remove(hook));
            return Ok(ControlPlaneDecision { redirected_from, ..start(self.observed, &redirect.to) });
        }
        let Redirect { from, to, plan } = redirect;
        if let Some(waiting) = self.observed.steering.gate(&StepName::ControlPlane(to.clone())) {
            hooks.hold(waiting);
            return Ok(moving);
        }
        let call = Self::call_with(&plan, Hook::BeforeControlPlaneUpgrade, Some(&from), &to);
        if !hooks.passes(call)? {
            return Ok(moving);
        }
        // The workers' step after the former version has not begun.
        hooks.pending.remove(Hook::BeforeWorkersUpgrade);
        hooks.pending.remove(Hook::AfterWorkersUpgrade);
        for hook in plan.promised_by_control_plane() {
            hooks.pending.insert(hook);
        }
        Ok(ControlPlaneDecision { redirected_from, ..start(self.observed, &to) })
    }

    /// Asks extensions about a target that was raised while the upgrade runs, as soon as nothing of the control plane
    /// moves. Until they let it pass, only steps beyond the target that they know are held.
    fn acknowledge_raise(&self, hooks: &mut HookLedger<'_>) -> Result<(), Box<HookCall>> {
        let is_raised =
            hooks.pending.contains(Hook::AfterClusterUpgrade) && self.plan.has_before_cluster_upgrade();
        if !is_raised {
            return Ok(());
        }
        let target = &self.observed.version;
        if let Some(waiting) = self.upgrade_gate(target) {
            hooks.hold(waiting);
            return Ok(());
        }
        if hooks.passes(self.call(Hook::BeforeClusterUpgrade, Some(&self.current.version), target))? {
            hooks.acknowledged_target = Some(target.clone());
        }
        Ok(())
    }

    /// What keeps an upgrade to a target from being begun or extended, before extensions are asked.
    fn upgrade_gate(&self, target: &Version) -> Option<WaitingOn> {
        if let Some(waiting) = self.observed.steering.gate(&StepName::Cluster(target.clone())) {
            return Some(waiting);
        }
        let keys: Vec<String> = self.observed.upgrade_holds.iter().cloned().collect();
        (!keys.is_empty()).then_some(WaitingOn::UpgradeHolds { keys })
    }

    /// Workers come next: they go to the version that the control plane has.
    fn workers(
        &self,
        step: &NextStep<'_>,
        hooks: &mut HookLedger<'_>,
    ) -> Result<ControlPlaneDecision, Box<HookCall>> {
        let Self { observed, plan, current } = self;
        let missing: Vec<&WorkerGroup> =
            observed.workers.iter().filter(|group| plan.due(group).is_some()).collect();
        let waiting = WaitingOn::WorkersVersion {
            version: current.version.clone(),
            groups: missing.iter().map(|group| group.id()).collect(),
            says: missing.iter().find_map(|group| group.blocked()).unwrap_or_default().to_owned(),
        };
        if is_workers_turn(observed, plan, step, hooks) {
            if let Some(waiting) = observed.steering.gate(&StepName::Workers(current.version.clone())) {
                let gated = self.gated(hooks, waiting.clone());
                return Ok(ControlPlaneDecision { holds_workers: Some(waiting), ..gated });
            }
            // A step of workers that no step of the control plane has promised, because the plan begins with it, is
            // promised here.
            hooks.pending.insert(Hook::BeforeWorkersUpgrade);
            hooks.pending.insert(Hook::AfterWorkersUpgrade);
            let from = observed.oldest_workers().unwrap_or(&current.version);
            if !hooks.settles(self.call(Hook::BeforeWorkersUpgrade, Some(from), &current.version))? {
                return Ok(self.held(hooks, Hook::BeforeWorkersUpgrade));
            }
        }
        Ok(self.keep(ControlPlanePhase::WaitingForWorkers, Some(waiting)))
    }

    /// The control plane comes next.
    fn next(
        &self,
        step: &NextStep<'_>,
        to: &Version,
        hooks: &mut HookLedger<'_>,
    ) -> Result<ControlPlaneDecision, Box<HookCall>> {
        let Self { observed, plan, current } = self;
        let is_running = hooks.pending.contains(Hook::AfterClusterUpgrade);
        let begins = step.has(Hook::BeforeClusterUpgrade);
        if begins && !is_running {
            if let Some(waiting) = rollouts_before(observed) {
                return Ok(self.gated(hooks, waiting));
            }
            if let Some(waiting) = self.upgrade_gate(&observed.version) {
                return Ok(self.gated(hooks, waiting));
            }
        }
        if let Some(waiting) = observed.steering.gate(&StepName::ControlPlane(to.clone())) {
            return Ok(self.gated(hooks, waiting));
        }
        let from = Some(&current.version);
        if begins && is_running && hooks.acknowledged_target.as_ref() != Some(&observed.version) {
            // The step is beyond what extensions know, and they, or the owner, hold it.
            return Ok(self.keep(ControlPlanePhase::Idle, hooks.held.first().cloned()));
        }
        if begins && !is_running {
            if !hooks.passes(self.call(Hook::BeforeClusterUpgrade, from, &observed.version))? {
                return Ok(self.held(hooks, Hook::BeforeClusterUpgrade));
            }
            hooks.pending.insert(Hook::AfterClusterUpgrade);
            hooks.acknowledged_target = Some(observed.version.clone());
        }
        if step.has(Hook::BeforeControlPlaneUpgrade)
            && !hooks.passes(self.call(Hook::BeforeControlPlaneUpgrade, from, to))?
        {
            return Ok(self.held(hooks, Hook::BeforeControlPlaneUpgrade));
        }
        for hook in plan.promised_by_control_plane() {
            hooks.pending.insert(hook);
        }
        Ok(start(observed, to))
    }
}

/// Machines of workers that are rolled out for an earlier change. An upgrade that began now would replace them twice.
fn rollouts_before(observed: &Observed) -> Option<WaitingOn> {
    let is_waited_for = |group: &&WorkerGroup| {
        let rolling_out = group.object.as_ref().is_some_and(|object| object.rolling_out || object.upgrading);
        rolling_out && group.in_topology && !observed.steering.ignored_rollouts.contains(&group.topology_name)
    };
    let rolling: Vec<&WorkerGroup> = observed.workers.iter().filter(is_waited_for).collect();
    (!rolling.is_empty()).then(|| WaitingOn::RolloutsBefore {
        groups: rolling.iter().map(|group| group.id()).collect(),
        entries: rolling.iter().map(|group| group.topology_name.clone()).collect(),
    })
}

/// Whether BeforeWorkersUpgrade is to be called now: it was promised, or one of the groups may go.
fn is_workers_turn(observed: &Observed, plan: &Plan, step: &NextStep<'_>, hooks: &HookLedger<'_>) -> bool {
    let may_go = |group: &WorkerGroup| !workers::is_withheld(observed, group) && plan.due(group).is_some();
    step.has(Hook::BeforeWorkersUpgrade)
        && (hooks.pending.contains(Hook::BeforeWorkersUpgrade) || observed.workers.iter().any(may_go))
}

/// A step that was recorded and marked, but whose write to the control plane did not happen: the process ended
/// in between. Its hooks have been called, so the step is taken without calling them again.
fn recorded_step<'a>(
    observed: &'a Observed,
    current: &ControlPlane,
    hooks: &HookLedger<'_>,
) -> Option<&'a Version> {
    let step = observed.upgrade_step.as_ref()?;
    let ahead = step.compare(&current.version).is_progress();
    (ahead && hooks.pending.contains(Hook::AfterControlPlaneUpgrade)).then_some(step)
}

fn start(observed: &Observed, next: &Version) -> ControlPlaneDecision {
    ControlPlaneDecision {
        version: next.clone(),
        phase: ControlPlanePhase::Starting,
        pending: *next != observed.version,
        waiting: None,
        holds_workers: None,
        redirected_from: None,
    }
}

/// At the target, a wait that AfterWorkersUpgrade asks for is ignored: there is nothing left to hold back.
fn after_workers(
    observed: &Observed,
    current: &ControlPlane,
    call: HookCall,
    hooks: &mut HookLedger<'_>,
) -> Result<bool, Box<HookCall>> {
    if hooks.settles(call)? {
        return Ok(true);
    }
    let ignored = current.version == observed.version
        && matches!(hooks.held_by(Hook::AfterWorkersUpgrade), Some(WaitingOn::Hook(_)));
    if ignored {
        hooks.held.retain(|waiting| waiting.hook() != Some(Hook::AfterWorkersUpgrade));
        hooks.pending.remove(Hook::AfterWorkersUpgrade);
    }
    Ok(ignored)
}

fn full_name(control_plane: &ControlPlane) -> String {
    format!("{}/{}", control_plane.kind, control_plane.name)
}
