//! Which version the control plane gets, and what happens around it.

use windlass_api::hooks::Hook;
use windlass_version::Version;

use super::hooks::{HookCall, HookLedger};
use super::observed::{ControlPlane, Observed, WorkerGroup};
use super::plan::{NextStep, Plan};
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
/// and the hooks before it, is the first operation of the plan. What is marked in `hooks.pending` must be written before
/// the control plane is.
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
        });
    };
    let pending = current.version != observed.version;
    let keep =
        |phase, waiting| ControlPlaneDecision { version: current.version.clone(), phase, pending, waiting };
    if current.is_provisioning() {
        let waiting = WaitingOn::ControlPlaneProvisioning { control_plane: full_name(current) };
        return Ok(keep(ControlPlanePhase::Provisioning, Some(waiting)));
    }
    if current.is_upgrading() {
        let waiting = WaitingOn::ControlPlaneUpgrade {
            control_plane: full_name(current),
            to: current.version.clone(),
            running: current.running.clone(),
        };
        return Ok(keep(ControlPlanePhase::Upgrading, Some(waiting)));
    }
    if let Some(no_path) = plan.no_path() {
        return Ok(keep(ControlPlanePhase::Idle, Some(WaitingOn::Path(no_path.clone()))));
    }
    let next = plan.next_step();
    if let Some(step) = recorded_step(observed, current, hooks) {
        if matches!(next, Some(NextStep::ControlPlane { to, .. }) if to == step) {
            return Ok(start(observed, step));
        }
        // The step is not the next one any more, because the class or the plan changed in between. It never
        // began, so nothing has to be said after it.
        for hook in [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade, Hook::AfterWorkersUpgrade] {
            hooks.pending.remove(hook);
        }
    }

    let call = |hook, from: Option<&Version>, to: &Version| HookCall {
        hook,
        from: from.cloned(),
        to: Some(to.clone()),
        control_plane_plan: plan.control_plane().to_vec(),
        workers_plan: plan.workers(),
    };
    let held = |hooks: &HookLedger<'_>, hook| keep(ControlPlanePhase::Idle, hooks.held_by(hook).cloned());

    if hooks.pending.contains(Hook::AfterControlPlaneUpgrade)
        && !hooks.settles(call(Hook::AfterControlPlaneUpgrade, None, &current.version))?
    {
        return Ok(held(hooks, Hook::AfterControlPlaneUpgrade));
    }
    if let Some(step @ NextStep::Workers { .. }) = next {
        if announces_workers(observed, plan, &step, hooks) {
            let from = observed.oldest_workers().unwrap_or(&current.version);
            if !hooks.settles(call(Hook::BeforeWorkersUpgrade, Some(from), &current.version))? {
                return Ok(held(hooks, Hook::BeforeWorkersUpgrade));
            }
        }
        let missing = observed.workers.iter().filter(|group| plan.due(group).is_some());
        let groups = missing.map(WorkerGroup::id).collect();
        let waiting = WaitingOn::WorkersVersion { version: current.version.clone(), groups };
        return Ok(keep(ControlPlanePhase::WaitingForWorkers, Some(waiting)));
    }
    if hooks.pending.contains(Hook::BeforeWorkersUpgrade) {
        // The plan has no step of workers here any more. It never began, so nothing is said before or after it.
        hooks.pending.remove(Hook::BeforeWorkersUpgrade);
        hooks.pending.remove(Hook::AfterWorkersUpgrade);
    }
    let rolling: Vec<&WorkerGroup> = observed.workers.iter().filter(|group| group.is_upgrading()).collect();
    if !rolling.is_empty() {
        let groups = rolling.into_iter().map(WorkerGroup::id).collect();
        return Ok(keep(ControlPlanePhase::Idle, Some(WaitingOn::WorkersRollout { groups })));
    }
    if hooks.pending.contains(Hook::AfterWorkersUpgrade)
        && !after_workers(observed, current, call(Hook::AfterWorkersUpgrade, None, &current.version), hooks)?
    {
        return Ok(held(hooks, Hook::AfterWorkersUpgrade));
    }
    let Some(step @ NextStep::ControlPlane { to, .. }) = next else {
        return Ok(keep(ControlPlanePhase::Idle, None));
    };
    if step.has(Hook::BeforeClusterUpgrade) {
        if !observed.upgrade_holds.is_empty() {
            let keys = observed.upgrade_holds.iter().cloned().collect();
            hooks.held.push(WaitingOn::UpgradeHolds { keys });
            return Ok(held(hooks, Hook::BeforeClusterUpgrade));
        }
        let from = Some(&current.version);
        if !hooks.passes(call(Hook::BeforeClusterUpgrade, from, &observed.version))? {
            return Ok(held(hooks, Hook::BeforeClusterUpgrade));
        }
        hooks.pending.insert(Hook::AfterClusterUpgrade);
    }
    if step.has(Hook::BeforeControlPlaneUpgrade)
        && !hooks.passes(call(Hook::BeforeControlPlaneUpgrade, Some(&current.version), to))?
    {
        return Ok(held(hooks, Hook::BeforeControlPlaneUpgrade));
    }
    for hook in plan.promised_by_control_plane() {
        hooks.pending.insert(hook);
    }
    Ok(start(observed, to))
}

/// Whether BeforeWorkersUpgrade is to be called now. A step of workers that no step of the control plane has promised,
/// because the plan begins with it, is promised here, as soon as one of its groups may go.
fn announces_workers(
    observed: &Observed,
    plan: &Plan,
    step: &NextStep<'_>,
    hooks: &mut HookLedger<'_>,
) -> bool {
    if !step.has(Hook::BeforeWorkersUpgrade) {
        return false;
    }
    let is_promised = hooks.pending.contains(Hook::BeforeWorkersUpgrade);
    let may_go = |group: &WorkerGroup| !workers::is_withheld(observed, group) && plan.due(group).is_some();
    if !is_promised && !observed.workers.iter().any(may_go) {
        return false;
    }
    hooks.pending.insert(Hook::BeforeWorkersUpgrade);
    hooks.pending.insert(Hook::AfterWorkersUpgrade);
    true
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
