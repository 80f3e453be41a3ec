//! What a MachineSet decides from.

use std::collections::BTreeSet;

use jiff::Timestamp;

/// A MachineSet and its Machines at one moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The name of the MachineSet.
    pub name: String,
    /// `spec.replicas`.
    pub replicas: u32,
    /// Which machines go first when there are too many.
    pub order: DeletionOrder,
    /// Whether its annotation forbids it to create machines.
    pub create_disabled: bool,
    /// Its annotation with the machines that were handed over to it and are counted in `spec.replicas`.
    pub acknowledged: BTreeSet<String>,
    /// The MachineSet that takes over its machines, if its annotation names one.
    pub moves_to: Option<Target>,
    /// The only machines that it hands over, because an external updater has updated them; any machine if there is none of this.
    pub updated: Option<BTreeSet<String>>,
    /// The machines that it controls, in any order, also those that are being deleted.
    pub machines: Vec<Machine>,
    /// The time of the decision.
    pub now: Timestamp,
}

/// The MachineSet that takes over machines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The name of the MachineSet that machines are handed to.
    pub name: String,
    /// What its annotation says of whom it receives machines from; none if it does not exist.
    pub receives_from: Option<BTreeSet<String>>,
}

/// Which machines go first when there are too many. Those that are marked, updating or unhealthy always go before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DeletionOrder {
    /// Any: by name, so that the same machines are picked again.
    #[default]
    Random,
    /// The youngest.
    Newest,
    /// The oldest.
    Oldest,
}

/// A Machine as its MachineSet sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The name of the Machine, which decides where nothing else does.
    pub name: String,
    /// When it was created, if the API server said so.
    pub created: Option<Timestamp>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether its user wants it to go first.
    pub marked: bool,
    /// Whether its user asks for remediation.
    pub remediate_requested: bool,
    /// Whether it is being updated in place.
    pub updating: bool,
    /// Whether it arrived from another MachineSet and was not released for its update yet.
    pub pending_acknowledge: bool,
    /// Whether its update was started and has not ended: its hook is pending.
    pub update_started: bool,
    /// Condition `Available`: known to be true.
    pub available: bool,
    /// Whether it has a Node.
    pub has_node: bool,
    /// Condition `NodeHealthy`: known to be false.
    pub node_unhealthy: bool,
    /// Condition `HealthCheckSucceeded`: known to be false.
    pub health_check_failed: bool,
    /// Condition `OwnerRemediated`, if it is there and false: its reason.
    pub owner_remediated: Option<OwnerRemediated>,
}

/// What condition `OwnerRemediated` says while it is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnerRemediated {
    /// A health check asks for remediation, or it was put off.
    Waiting,
    /// The machine is being deleted because of it.
    MachineDeleting,
}

impl Machine {
    /// Whether it is not known to work: without a Node, or with a condition that says so.
    pub fn is_unhealthy(&self) -> bool {
        !self.has_node || self.node_unhealthy || self.health_check_failed
    }

    /// Whether a health check wants its owner to remediate it.
    pub fn waits_for_remediation(&self) -> bool {
        self.health_check_failed && self.owner_remediated.is_some()
    }
}
