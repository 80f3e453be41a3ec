//! The one thing that a whole topology waits on, of all that its parts wait on.

use super::condition::is_upgrading;
use super::control_plane::ControlPlanePhase;
use super::observed::{GroupId, Observed};
use super::upgrade::Decision;
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
        if let Some(held) = self.held.first() {
            return Some(held.clone());
        }
        self.control_plane_on_its_way(observed)
            .or_else(|| self.workers_on_their_way())
            .or_else(|| self.workers.iter().find_map(|group| group.waiting().cloned()))
            .or_else(|| self.control_plane.waiting.clone())
    }

    fn control_plane_on_its_way(&self, observed: &Observed) -> Option<WaitingOn> {
        match self.control_plane.phase {
            ControlPlanePhase::Starting => {
                let current = observed.control_plane.as_ref()?;
                Some(WaitingOn::ControlPlaneUpgrade {
                    control_plane: format!("{}/{}", current.kind, current.name),
                    to: self.control_plane.version.clone(),
                    running: current.running.clone(),
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
        let mut moving = self.workers.iter().filter(|group| group.is_upgrading()).peekable();
        let version = moving.peek()?.version.clone();
        let groups: Vec<GroupId> =
            moving.filter(|group| group.version == version).map(|group| group.id.clone()).collect();
        Some(WaitingOn::WorkersVersion { version, groups })
    }
}
