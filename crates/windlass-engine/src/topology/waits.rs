//! The one thing that a whole topology waits on, of all that its parts wait on.

use windlass_api::hooks::Hook;

use super::condition::is_upgrading;
use super::control_plane::ControlPlanePhase;
use super::observed::{GroupId, Observed};
use super::upgrade::Decision;
use super::workers::GroupDecision;
use crate::waiting::WaitingOn;

impl Decision {
    /// What the upgrade waits on, if it does: what has to be repaired, else what extensions and annotations hold, else
    /// the part that is on its way, else what keeps a worker group back.
    ///
    /// A topology that is up to date waits on nothing here, even if its machines are still starting: that is told by the
    /// conditions of the Cluster.
    pub fn waiting(&self, observed: &Observed) -> Option<WaitingOn> {
        let first = self.failures().first().copied().or(self.creation.as_ref());
        if let Some(first) = first {
            return Some(first.clone());
        }
        if !is_upgrading(self) {
            return None;
        }
        let moving = self.control_plane_on_its_way(observed).or_else(|| self.workers_on_their_way());
        // What is held while other steps go on is not yet in the way.
        let holds_later_steps_only = moving.is_some() && self.control_plane.holds_workers.is_none();
        if let Some(held) = self.held.first().filter(|held| {
            !(holds_later_steps_only && matches!(held.hook(), None | Some(Hook::BeforeClusterUpgrade)))
        }) {
            return Some(held.clone());
        }
        moving.or_else(|| self.worker_groups_wait().cloned()).or_else(|| self.control_plane.waiting.clone())
    }

    /// What keeps a worker group back. Groups that wait for other parts of the upgrade only come after one that waits for
    /// something else: that is what all of them wait for.
    fn worker_groups_wait(&self) -> Option<&WaitingOn> {
        let is_for_others = |waiting: &&WaitingOn| {
            matches!(
                waiting,
                WaitingOn::ControlPlaneVersion { .. }
                    | WaitingOn::ControlPlaneAtTarget { .. }
                    | WaitingOn::Turn { .. }
                    | WaitingOn::MachineDeployments { .. }
            )
        };
        let mut waits = self.workers.iter().filter_map(GroupDecision::waiting);
        waits.clone().find(|waiting| !is_for_others(waiting)).or_else(|| waits.next())
    }

    fn control_plane_on_its_way(&self, observed: &Observed) -> Option<WaitingOn> {
        match self.control_plane.phase {
            ControlPlanePhase::Starting => {
                let current = observed.control_plane.as_ref()?;
                Some(WaitingOn::ControlPlaneUpgrade {
                    control_plane: format!("{}/{}", current.kind, current.name),
                    to: self.control_plane.version.clone(),
                    running: current.running.clone(),
                    says: String::new(),
                })
            }
            ControlPlanePhase::Upgrading | ControlPlanePhase::Provisioning => {
                self.control_plane.waiting.clone()
            }
            ControlPlanePhase::Creating | ControlPlanePhase::WaitingForWorkers | ControlPlanePhase::Idle => {
                None
            }
        }
    }

    /// The groups on their way to the version that is farthest behind in the order of the topology.
    fn workers_on_their_way(&self) -> Option<WaitingOn> {
        let moving = |group: &&GroupDecision| group.is_upgrading() && group.pin.is_none();
        let version = self.workers.iter().find(moving)?.version.clone();
        let there = self.workers.iter().filter(moving).filter(|group| group.version == version);
        let blocked = there.clone().find_map(|group| group.blocked.clone());
        let groups: Vec<GroupId> = there.map(|group| group.id.clone()).collect();
        Some(WaitingOn::WorkersVersion { version, groups, says: blocked.unwrap_or_default() })
    }
}
