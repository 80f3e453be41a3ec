//! Which version each worker group gets, and which of them go first.

use windlass_api::hooks::Hook;
use windlass_version::Version;

use super::control_plane::ControlPlaneDecision;
use super::hooks::HookLedger;
use super::observed::{GroupId, Observed, WorkerGroup, WorkerKind};
use super::plan::Plan;
use super::step_name::StepName;
use crate::waiting::WaitingOn;

/// What happens to one worker group of the topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDecision {
    /// What it is called.
    pub id: GroupId,
    /// Name of its entry in the topology.
    pub topology_name: String,
    /// The version it shall have.
    pub version: Version,
    /// What is done.
    pub action: GroupAction,
    /// Whether machines of it are on their way to a version, from before this decision.
    pub upgrading: bool,
    /// The versions that remain for it, the one it gets now included.
    pub stops: Vec<Version>,
    /// The version that its entry keeps it at. It takes no part in the upgrade.
    pub pin: Option<Version>,
    /// What it says about a rollout that it cannot go on with by itself.
    pub blocked: Option<String>,
}

/// What is done with a worker group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GroupAction {
    /// It is created.
    Create,
    /// It is created later; nothing of it exists before.
    CreateLater(WaitingOn),
    /// It is where it shall be, and is kept as the topology describes it.
    Keep,
    /// It gets its next version.
    Upgrade {
        /// The version it leaves.
        from: Version,
    },
    /// It upgrades later; nothing of it is changed before, so that machines are not replaced twice.
    Later(WaitingOn),
}

impl GroupDecision {
    /// Whether a version is still to come, after what is done now.
    pub const fn is_pending(&self) -> bool {
        matches!(self.action, GroupAction::Later(_))
    }

    /// Whether it waits because its owner asked for it.
    pub const fn is_deferred(&self) -> bool {
        matches!(&self.action, GroupAction::Later(waiting) if waiting.is_deferral())
    }

    /// Whether machines of it are, or are about to be, on their way.
    pub const fn is_upgrading(&self) -> bool {
        self.upgrading || matches!(self.action, GroupAction::Upgrade { .. })
    }

    /// Whether an upgrade is not over because of it.
    pub const fn is_unfinished(&self) -> bool {
        self.pin.is_none() && (self.is_upgrading() || !self.may_be_written())
    }

    /// Whether it is not created yet although the topology has it.
    pub const fn is_create_pending(&self) -> bool {
        matches!(self.action, GroupAction::CreateLater(_))
    }

    /// Whether the object and its templates may be written.
    pub const fn may_be_written(&self) -> bool {
        !self.is_pending() && !self.is_create_pending()
    }

    /// What it waits for.
    pub const fn waiting(&self) -> Option<&WaitingOn> {
        match &self.action {
            GroupAction::Later(waiting) | GroupAction::CreateLater(waiting) => Some(waiting),
            GroupAction::Create | GroupAction::Keep | GroupAction::Upgrade { .. } => None,
        }
    }
}

/// Decides on every group of the topology, in the order of the topology.
pub(super) fn decide(
    observed: &Observed,
    plan: &Plan,
    control_plane: &ControlPlaneDecision,
    hooks: &HookLedger<'_>,
) -> Vec<GroupDecision> {
    let gate = Gate { observed, plan, control_plane, hooks };
    let mut decisions = Vec::with_capacity(observed.workers.len());
    for kind in [WorkerKind::MachineDeployment, WorkerKind::MachinePool] {
        let unfinished: Vec<GroupId> = match kind {
            WorkerKind::MachineDeployment => Vec::new(),
            WorkerKind::MachinePool => {
                decisions.iter().filter(|d| gate.is_unfinished(d)).map(id_of).collect()
            }
        };
        let mut turn: Vec<GroupId> = observed
            .workers
            .iter()
            .filter(|group| group.kind == kind && group.is_upgrading() && !group.is_pinned())
            .map(WorkerGroup::id)
            .collect();
        for group in observed.workers.iter().filter(|group| group.kind == kind && group.in_topology) {
            let decision = gate.decide(group, &unfinished, &turn);
            let takes_turn = matches!(decision.action, GroupAction::Upgrade { .. }) && decision.pin.is_none();
            if takes_turn && !turn.contains(&decision.id) {
                turn.push(decision.id.clone());
            }
            decisions.push(decision);
        }
    }
    decisions
}

/// What the owner of a group asks for: to leave it out, or to stop the sequence at it or before it. The sequence is that
/// of all MachineDeployments and then all MachinePools.
fn withheld(observed: &Observed, group: &WorkerGroup) -> Option<WaitingOn> {
    if group.defer {
        return Some(WaitingOn::Deferred);
    }
    let sequence = observed.workers.iter().filter(|other| other.in_topology);
    let before =
        sequence.take_while(|other| (other.kind, &other.topology_name) != (group.kind, &group.topology_name));
    let holding = before.chain(std::iter::once(group)).find(|other| other.hold)?;
    Some(WaitingOn::SequenceHeld { by: holding.topology_name.clone() })
}

/// Whether a group does not go now, because its owner asked for it or because it is on its way out.
pub(super) fn is_withheld(observed: &Observed, group: &WorkerGroup) -> bool {
    !group.in_topology || withheld(observed, group).is_some()
}

fn id_of(decision: &GroupDecision) -> GroupId {
    decision.id.clone()
}

struct Gate<'a> {
    observed: &'a Observed,
    plan: &'a Plan,
    control_plane: &'a ControlPlaneDecision,
    hooks: &'a HookLedger<'a>,
}

impl Gate<'_> {
    fn decide(&self, group: &WorkerGroup, unfinished: &[GroupId], turn: &[GroupId]) -> GroupDecision {
        let target = &self.observed.version;
        let (version, action) = match group.version() {
            at if group.is_pinned() => self.pinned(group, at),
            // An object without a version was written by a client that knows none; it gets the target's.
            None if group.object.is_some() => (target.clone(), GroupAction::Keep),
            None => (target.clone(), self.create()),
            Some(current) if current == target => (current.clone(), GroupAction::Keep),
            Some(current) => match self.next(group, unfinished, turn) {
                Ok(next) => (next, GroupAction::Upgrade { from: current.clone() }),
                Err(waiting) => (current.clone(), GroupAction::Later(waiting)),
            },
        };
        GroupDecision {
            id: group.id(),
            topology_name: group.topology_name.clone(),
            version,
            action,
            upgrading: group.is_upgrading(),
            stops: self.plan.stops(group).to_vec(),
            pin: group.pin.clone(),
            blocked: group.blocked().map(str::to_owned),
        }
    }

    /// A group that is kept at a version goes there by itself, outside of any upgrade: as soon as the control plane has
    /// that version, and never back.
    fn pinned(&self, group: &WorkerGroup, at: Option<&Version>) -> (Version, GroupAction) {
        let pin = group.pin.as_ref().unwrap_or(&self.observed.version).clone();
        let Some(at) = at else {
            let action = if group.object.is_some() { GroupAction::Keep } else { self.create() };
            return (pin, action);
        };
        if !pin.compare(at).is_progress() {
            return (at.clone(), GroupAction::Keep);
        }
        let reached = self.observed.control_plane.as_ref().is_some_and(|current| current.has_reached(&pin));
        let step =
            StepName::Group { kind: group.kind, entry: group.topology_name.clone(), version: pin.clone() };
        if !reached {
            return (at.clone(), GroupAction::Later(WaitingOn::ControlPlaneVersion { next: pin }));
        }
        // Machines of another minor than the control plane's do not join it. A rollout that cannot end would hold the
        // upgrade; the pin may be changed as long as the group does not move.
        let is_running = self.hooks.pending.contains(Hook::AfterClusterUpgrade);
        if is_running && self.control_plane.version.minor() != pin.minor() {
            return (at.clone(), GroupAction::Keep);
        }
        match self.observed.steering.gate(&step) {
            Some(waiting) => (at.clone(), GroupAction::Later(waiting)),
            None => (pin, GroupAction::Upgrade { from: at.clone() }),
        }
    }

    /// New workers are created at the target, once the control plane is there: machines of another version
    /// would be replaced right away.
    fn create(&self) -> GroupAction {
        if let Some(waiting) = self.held_by_hooks() {
            return GroupAction::CreateLater(waiting);
        }
        if self.control_plane.is_stable() {
            return GroupAction::Create;
        }
        let target = self.observed.version.clone();
        GroupAction::CreateLater(WaitingOn::ControlPlaneAtTarget { target })
    }

    fn next(
        &self,
        group: &WorkerGroup,
        unfinished: &[GroupId],
        turn: &[GroupId],
    ) -> Result<Version, WaitingOn> {
        if let Some(waiting) = withheld(self.observed, group) {
            return Err(waiting);
        }
        if let Some(no_path) = self.plan.no_path() {
            return Err(WaitingOn::Path(no_path.clone()));
        }
        if let Some(waiting) = self.held_by_hooks() {
            return Err(waiting);
        }
        if let Some(waiting) = &self.control_plane.holds_workers {
            return Err(waiting.clone());
        }
        let Some(next) = self.plan.due(group) else {
            let next = self.plan.stops(group).first().unwrap_or(&self.observed.version);
            return Err(WaitingOn::ControlPlaneVersion { next: next.clone() });
        };
        if !self.control_plane.lets_workers_move() {
            let waiting = self.control_plane.waiting.clone();
            return Err(waiting.unwrap_or_else(|| WaitingOn::ControlPlaneVersion { next: next.clone() }));
        }
        if !unfinished.is_empty() {
            return Err(WaitingOn::MachineDeployments { groups: unfinished.to_vec() });
        }
        let concurrency = self.observed.concurrency.max(1);
        if turn.len() >= concurrency {
            return Err(WaitingOn::Turn { concurrency, upgrading: turn.to_vec() });
        }
        let step =
            StepName::Group { kind: group.kind, entry: group.topology_name.clone(), version: next.clone() };
        match self.observed.steering.gate(&step) {
            Some(waiting) => Err(waiting),
            None => Ok(next.clone()),
        }
    }

    fn held_by_hooks(&self) -> Option<WaitingOn> {
        [Hook::AfterControlPlaneUpgrade, Hook::BeforeWorkersUpgrade]
            .into_iter()
            .find_map(|hook| self.hooks.held_by(hook))
            .cloned()
    }

    /// Whether MachinePools wait for a MachineDeployment: it is on its way, or it is its turn later in this
    /// step. Those that are deferred stand outside of the sequence.
    fn is_unfinished(&self, decision: &GroupDecision) -> bool {
        let waits = |waiting: &WaitingOn| {
            matches!(waiting, WaitingOn::Turn { .. } | WaitingOn::Held { .. } | WaitingOn::Approval { .. })
        };
        decision.pin.is_none()
            && (decision.is_upgrading()
                || matches!(&decision.action, GroupAction::Later(waiting) if waits(waiting)))
    }
}
