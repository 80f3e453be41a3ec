//! What a rollout is planned from.

use std::collections::BTreeSet;

use jiff::Timestamp;

use super::{Amount, Limits, RollingUpdate};

/// A MachineDeployment, its MachineSets and its Machines at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// `spec.replicas` of the MachineDeployment.
    pub replicas: u32,
    /// How machines are brought to a new template.
    pub strategy: Strategy,
    /// `spec.rollout.after`: machines older than this are replaced once it has passed.
    pub after: Option<Timestamp>,
    /// `spec.paused`: sizes are kept in proportion, and nothing is rolled out.
    pub paused: bool,
    /// The MachineSets that the MachineDeployment controls, in any order.
    pub sets: Vec<Set>,
    /// The Machines of the MachineDeployment, in any order.
    pub machines: Vec<Machine>,
    /// The name that a new MachineSet gets, if one is needed.
    pub fresh_name: String,
    /// The time of the decision.
    pub now: Timestamp,
}

/// How machines are brought to a new template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Replaced (or updated in place) within limits.
    RollingUpdate(RollingUpdate),
    /// Replaced when the user deletes them.
    OnDelete,
    /// Updated in place by extensions; replaced only if there is a fallback.
    External {
        /// How many machines may be unavailable because they are updated; at least one always may.
        max_unavailable: Amount,
        /// How machines are replaced whose change no extension covers. Without it such machines stay as they are.
        fallback: Option<RollingUpdate>,
    },
}

impl Strategy {
    /// What the strategy lets be added and be missing, for that many replicas.
    ///
    /// In place there is nothing to surge, and a machine that is being updated is unavailable: `External` without its
    /// fallback counts on one missing machine at least.
    pub fn limits(self, replicas: u32) -> Limits {
        match self {
            Self::RollingUpdate(rolling) => rolling.resolve(replicas),
            Self::OnDelete => Limits { surge: 0, unavailable: 0 },
            Self::External { max_unavailable, .. } => {
                let unavailable = max_unavailable.rounded_down(replicas).max(1);
                Limits { surge: 0, unavailable: unavailable.min(replicas) }
            }
        }
    }
}

/// A MachineSet as the planner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Set {
    /// The name of the MachineSet.
    pub name: String,
    /// When it was created.
    pub created: Timestamp,
    /// Whether its template is that of the MachineDeployment, in everything that needs a rollout.
    pub matches: bool,
    /// Whether it is being deleted, and all its machines with it.
    pub deleting: bool,
    /// `spec.replicas`.
    pub spec: u32,
    /// `status.replicas`.
    pub status: u32,
    /// `status.availableReplicas`.
    pub available: u32,
    /// `status.upToDateReplicas`.
    pub up_to_date: u32,
    /// The revision annotation, 0 without one.
    pub revision: u64,
    /// Its annotation with the MachineSet that takes over its machines.
    pub moves_to: Option<String>,
    /// Its annotation with the only machines that it hands over, because an external updater has updated them.
    pub updated: Option<BTreeSet<String>>,
    /// Its annotation with the MachineSets that may hand machines over to it.
    pub receives_from: BTreeSet<String>,
    /// Its annotation with the machines that were handed over and are counted in `spec.replicas`.
    pub acknowledged: BTreeSet<String>,
    /// Its annotation with the replicas of the MachineDeployment when it was last written.
    pub desired_replicas: Option<u32>,
    /// Its annotation with the replicas and the surge of the MachineDeployment when it was last written.
    pub max_replicas: Option<u32>,
}

/// A Machine as the planner sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the Machine.
    pub name: String,
    /// The MachineSet that controls it.
    pub set: Option<String>,
    /// Whether it arrived from another MachineSet and was not released for its update yet.
    pub pending_acknowledge: bool,
    /// Whether it is being updated in place.
    pub updating: bool,
    /// Whether a health check wants it to be replaced.
    pub needs_remediation: bool,
    /// Whether an external updater has brought it to the template of the MachineDeployment, so that it only changes hands.
    pub reached: bool,
}
