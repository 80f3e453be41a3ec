//! The next step of a control plane.

use jiff::Timestamp;
use windlass_version::{Minor, Version};

use super::etcd;
use super::observed::{Observed, ObservedMachine};
use super::placement;
use super::remediation::{self, RemediationOutcome, RemediationRecord};
use super::rollout;
use crate::waiting::WaitingOn;

/// What was decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What happens next.
    pub step: Step,
    /// What became of the Machine that should be remediated next; none if all are healthy.
    pub remediation: Option<RemediationOutcome>,
    /// The record of a remediation on the control plane has done its service and is to be removed.
    pub remediation_done: bool,
}

/// The next step: one action, a reason to wait, or nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Do this, then decide again.
    Act(Action),
    /// Do nothing, because of this.
    Wait(WaitingOn),
    /// All is as it should be.
    Settled,
}

/// The one thing that is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create the Machine that starts the cluster.
    Initialize {
        /// Where it goes.
        failure_domain: Option<String>,
        /// The remediation whose replacement it is.
        remediation_for: Option<RemediationRecord>,
    },
    /// Create a Machine that joins.
    Join {
        /// Where it goes.
        failure_domain: Option<String>,
        /// What for.
        reason: JoinReason,
        /// The remediation whose replacement it is.
        remediation_for: Option<RemediationRecord>,
    },
    /// Delete a Machine.
    Delete {
        /// The Machine that goes.
        machine: String,
        /// What for.
        reason: DeleteReason,
    },
    /// Write the record to the control plane, then delete the Machine that it names.
    Remediate(RemediationRecord),
    /// Ask extensions whether they can update the Machine in place, and decide again with the answer.
    AskInPlace {
        /// The Machine that is asked about.
        machine: String,
    },
    /// Ask external updaters whether one of them accepts the update of all outdated Machines, and decide
    /// again with the answer.
    AskExternal,
    /// Start the in-place update of a Machine, or go on with one that was started halfway.
    TriggerInPlace {
        /// The Machine that is updated.
        machine: String,
    },
    /// Remove the etcd member of a Machine that is being deleted, then take our hook off it.
    ReleaseMachine {
        /// The Machine that is released.
        machine: String,
        /// The member to remove; none if there is none, or no member is left to remove it from.
        member: Option<String>,
        /// The members that may lead afterwards, best first, if the removed one leads now.
        successors: Vec<String>,
    },
    /// Remove an etcd member that no Machine stands behind.
    RemoveMember {
        /// The number by which etcd knows the member.
        id: u64,
        /// Its name: that of its Node.
        member: String,
    },
    /// Deletion: delete all these Machines, and take our hook off them. etcd goes as a whole.
    DeleteAll {
        /// Machines to delete.
        delete: Vec<String>,
        /// Machines whose hook is taken off.
        release: Vec<String>,
    },
    /// Deletion: nothing is left, the finalizer goes.
    Finish,
}

/// Why a Machine is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinReason {
    /// There are fewer than `spec.replicas`.
    ScaleUp,
    /// An outdated one is to be replaced.
    Rollout,
}

/// Why a Machine is removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteReason {
    /// There are more than `spec.replicas`.
    ScaleDown,
    /// It is outdated.
    Rollout,
}

/// Decides what happens next. What is done in one step ends the decision, so that no two Machines change at a time.
pub fn decide(observed: &Observed, now: Timestamp) -> Decision {
    if observed.deleting {
        return Decision { step: deletion(observed), remediation: None, remediation_done: false };
    }
    let remediation = remediation::remediate(observed, now);
    let remediation_done =
        observed.remediation_in_progress.is_some() && remediation::pending(observed).is_none();
    Decision { step: step(observed, remediation.as_ref()), remediation, remediation_done }
}

fn step(observed: &Observed, remediation: Option<&RemediationOutcome>) -> Step {
    if let Some(waiting) = prerequisites(observed) {
        return Step::Wait(waiting);
    }
    if let Some(member) = etcd::unexpected_member(&observed.machines, &observed.etcd) {
        return Step::Act(Action::RemoveMember { id: member.id, member: member.label() });
    }
    let deletion = deleting_machine(observed);
    if let Some(Step::Act(action)) = deletion {
        return Step::Act(action);
    }
    let half_triggered = observed.machines.iter().find(|machine| {
        machine.update_in_progress && !machine.update_hook_pending && machine.deletion.is_none()
    });
    if let Some(machine) = half_triggered {
        return Step::Act(Action::TriggerInPlace { machine: machine.name.clone() });
    }
    if let Some(RemediationOutcome::Start(record)) = remediation {
        return Step::Act(Action::Remediate(record.clone()));
    }
    if let Some(waiting) = deletion {
        return waiting;
    }
    if let Some(machine) = observed.machines.iter().find(|machine| machine.is_updating()) {
        return Step::Wait(WaitingOn::InPlaceUpdate { machine: machine.name.clone() });
    }
    if observed.machines.iter().any(ObservedMachine::needs_rollout) {
        return rollout::roll_out(observed);
    }
    let (present, replicas) = (observed.machines.len(), observed.replicas as usize);
    if present == 0 && replicas > 0 {
        return Step::Act(Action::Initialize {
            failure_domain: placement::failure_domain_for_new(observed).map(str::to_owned),
            remediation_for: remediation::pending(observed).cloned(),
        });
    }
    match present.cmp(&replicas) {
        std::cmp::Ordering::Less => rollout::scale_up(observed, JoinReason::ScaleUp),
        std::cmp::Ordering::Equal => Step::Settled,
        std::cmp::Ordering::Greater => rollout::scale_down(observed, DeleteReason::ScaleDown),
    }
}

fn prerequisites(observed: &Observed) -> Option<WaitingOn> {
    if !observed.infrastructure_provisioned {
        Some(WaitingOn::ClusterInfrastructure)
    } else if observed.machines.is_empty() && !observed.certificates_available {
        Some(WaitingOn::Certificates)
    } else if !observed.endpoint {
        Some(WaitingOn::Endpoint)
    } else {
        None
    }
}

/// The Machine whose deletion is oldest: released if it is its turn, else waited for. One that never joined goes
/// before all others, as nothing depends on it.
fn deleting_machine(observed: &Observed) -> Option<Step> {
    let (machine, deletion) = observed
        .machines
        .iter()
        .filter_map(|machine| Some((machine, machine.deletion.as_ref()?)))
        .min_by_key(|(machine, deletion)| {
            (!deletion.has_cleanup_hook, machine.node.is_some(), deletion.since, &machine.name)
        })?;
    let waiting = Step::Wait(WaitingOn::MachineDeletion {
        machine: machine.name.clone(),
        since: deletion.since,
        hooks: deletion.other_hooks.clone(),
    });
    if !deletion.has_cleanup_hook || !deletion.at_pre_terminate {
        return Some(waiting);
    }
    if !deletion.other_hooks.is_empty() && cleans_up_last(machine) {
        return Some(waiting);
    }
    let alone = observed.machines.len() == 1;
    let member = machine.node.clone().filter(|node| {
        !alone && observed.etcd.members().is_some_and(|all| all.iter().any(|m| m.name == *node))
    });
    if !alone
        && machine.node.is_some()
        && let Err(why) = etcd::check_removal(machine, &observed.machines, &observed.etcd)
    {
        return Some(Step::Wait(WaitingOn::UnsafeRemoval { machine: machine.name.clone(), why }));
    }
    let successors = match member {
        Some(_) => etcd::successors(&machine.name, &observed.machines),
        None => Vec::new(),
    };
    Some(Step::Act(Action::ReleaseMachine { machine: machine.name.clone(), member, successors }))
}

/// From this minor on a kubelet talks to the API server of its own Machine, which stops with its etcd member: all that
/// others do on the Machine must be done before. A version that cannot be read is taken for a new one.
fn cleans_up_last(machine: &ObservedMachine) -> bool {
    const LOCAL_API_SERVER: Minor = Minor { major: 1, minor: 31 };
    machine
        .version
        .as_deref()
        .and_then(|version| Version::parse(version).ok())
        .is_none_or(|version| version.minor() >= LOCAL_API_SERVER)
}

fn deletion(observed: &Observed) -> Step {
    if observed.machines.is_empty() {
        return Step::Act(Action::Finish);
    }
    if !observed.workers.is_empty() {
        return Step::Wait(WaitingOn::WorkersDeletion { names: observed.workers.clone() });
    }
    let names = |belongs: &dyn Fn(&ObservedMachine) -> bool| {
        observed
            .machines
            .iter()
            .filter(|machine| belongs(machine))
            .map(|machine| machine.name.clone())
            .collect::<Vec<_>>()
    };
    let delete = names(&|machine| machine.deletion.is_none());
    let release =
        names(&|machine| machine.deletion.as_ref().is_some_and(|deletion| deletion.has_cleanup_hook));
    if delete.is_empty() && release.is_empty() {
        return Step::Wait(WaitingOn::MachinesDeletion { names: names(&|_| true) });
    }
    Step::Act(Action::DeleteAll { delete, release })
}
