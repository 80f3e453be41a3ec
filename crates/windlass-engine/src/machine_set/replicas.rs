//! Whether machines are missing or too many, and what is done about it.

use std::fmt;

use super::preflight::Failure;
use super::{Machine, Observed, deletion_order};

/// What a MachineSet does to have as many machines as it should.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replicas {
    /// There are as many as there should be, or the rest is on its way.
    Settled,
    /// Machines are missing.
    Create {
        /// How many are created now: all of them, or the next batch.
        count: u32,
    },
    /// Machines are missing and are not created.
    Hold {
        /// How many.
        count: u32,
        /// Why not.
        why: Hold,
    },
    /// Machines are too many.
    Delete {
        /// The names of those that go, the first first.
        machines: Vec<String>,
    },
    /// Machines are too many here and go on under another MachineSet.
    Move(Handover),
}

/// Why machines are not created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The MachineSet is an old one of an OnDelete rollout.
    CreateDisabled,
    /// Now is not the time for a new machine of this version.
    Preflight(Vec<Failure>),
}

/// Machines that go on under another MachineSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Handover {
    /// The MachineSet that takes them over.
    pub to: String,
    /// The names of those that are handed over.
    pub machines: Vec<String>,
    /// The names of those that are deleted instead: what is broken is not updated.
    pub delete: Vec<String>,
    /// The ones that would have been next but cannot be handed over now.
    pub passed_over: Vec<PassedOver>,
}

/// A machine that cannot be handed over now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassedOver {
    /// The name of the Machine.
    pub name: String,
    /// Why not.
    pub why: WhyPassedOver,
}

/// Why a machine cannot be handed over now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyPassedOver {
    /// An update of it is under way.
    Updating,
    /// It has no Node yet.
    NoNode,
    /// An external updater updates it and is not done.
    NotUpdated,
}

/// Why a MachineSet cannot shrink.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// The MachineSet that takes machines over does not exist.
    #[error("MachineSet {to} that takes over the Machines of {from} does not exist")]
    TargetMissing {
        /// The MachineSet that is too large.
        from: String,
        /// The other one.
        to: String,
    },
    /// It does not say that it does.
    #[error("MachineSet {to} does not accept Machines of {from}")]
    NotAccepted {
        /// The MachineSet that is too large.
        from: String,
        /// The other one.
        to: String,
    },
}

/// How many machines are created at least before the number that is wanted is read again: a typing mistake that is taken
/// back at once has made no more than these.
const SMALLEST_BATCH: u32 = 50;
/// How many are created at most: what takes longer than a few seconds would keep its MachineSet from being looked at.
const LARGEST_BATCH: u32 = 500;

/// How many machines are created at once where there are so many already. Batches grow with the machines that are there,
/// so that a large MachineSet does not take many more reconciles than a small one.
pub fn batch(machines: u32) -> u32 {
    machines.clamp(SMALLEST_BATCH, LARGEST_BATCH)
}

/// Decides on the number of machines. `preflight` has the checks that fail now for a new machine, or, where machines are
/// handed over, for a machine of the version of the MachineSet that takes them.
///
/// Machines on their way out are counted until they are gone: a machine is replaced when it has left.
///
/// # Errors
///
/// Machines are to be handed over to a MachineSet that does not accept them. None is deleted then.
pub fn replicas(observed: &Observed, preflight: &[Failure]) -> Result<Replicas, HandoverError> {
    let machines = u32::try_from(observed.machines.len()).unwrap_or(u32::MAX);
    if machines <= observed.replicas {
        let count = observed.replicas - machines;
        return Ok(match count {
            0 => Replicas::Settled,
            count if observed.create_disabled => Replicas::Hold { count, why: Hold::CreateDisabled },
            count if !preflight.is_empty() => {
                Replicas::Hold { count, why: Hold::Preflight(preflight.to_vec()) }
            }
            count => Replicas::Create { count: count.min(batch(machines)) },
        });
    }
    let surplus = machines - waiting(observed).min(machines);
    let surplus = surplus.saturating_sub(observed.replicas);
    if surplus == 0 {
        return Ok(Replicas::Settled);
    }
    match &observed.moves_to {
        None => Ok(delete(observed, surplus)),
        Some(target) => {
            let (from, to) = (observed.name.clone(), target.name.clone());
            match &target.receives_from {
                None => Err(HandoverError::TargetMissing { from, to }),
                Some(givers) if !givers.contains(&from) => Err(HandoverError::NotAccepted { from, to }),
                Some(_) if !preflight.is_empty() => {
                    Ok(Replicas::Hold { count: surplus, why: Hold::Preflight(preflight.to_vec()) })
                }
                Some(_) => Ok(hand_over(observed, to, surplus)),
            }
        }
    }
}

/// Machines that arrived and are not counted in `spec.replicas` yet; none is deleted because of them.
fn waiting(observed: &Observed) -> u32 {
    let waiting = observed
        .machines
        .iter()
        .filter(|machine| machine.pending_acknowledge && !observed.acknowledged.contains(&machine.name));
    u32::try_from(waiting.count()).unwrap_or(u32::MAX)
}

/// The machines whose update in place starts now: they arrived, the MachineDeployment has counted them, and nothing was
/// started yet. One that is on its way out is not updated any more.
pub fn updates_to_start(observed: &Observed) -> Vec<String> {
    let ready = observed.machines.iter().filter(|machine| {
        let counted = !machine.pending_acknowledge || observed.acknowledged.contains(&machine.name);
        machine.updating && !machine.update_started && !machine.deleting && counted
    });
    let mut names: Vec<String> = ready.map(|machine| machine.name.clone()).collect();
    names.sort();
    names
}

/// The machines that arrived updated and were counted: nothing is left to be done for them.
pub fn arrivals_to_release(observed: &Observed) -> Vec<String> {
    let counted = observed.machines.iter().filter(|machine| {
        machine.pending_acknowledge && !machine.updating && observed.acknowledged.contains(&machine.name)
    });
    counted.map(|machine| machine.name.clone()).collect()
}

fn in_order(observed: &Observed) -> Vec<&Machine> {
    deletion_order(&observed.machines, observed.order, observed.now)
}

fn delete(observed: &Observed, surplus: u32) -> Replicas {
    let first = in_order(observed).into_iter().take(surplus as usize);
    let machines: Vec<String> =
        first.filter(|machine| !machine.deleting).map(|machine| machine.name.clone()).collect();
    if machines.is_empty() { Replicas::Settled } else { Replicas::Delete { machines } }
}

fn hand_over(observed: &Observed, to: String, surplus: u32) -> Replicas {
    let mut handover = Handover { to, machines: Vec::new(), delete: Vec::new(), passed_over: Vec::new() };
    let mut left = surplus;
    let mut order = in_order(observed);
    // One that is not available costs nothing while it is updated; those that go before all others still do.
    order.sort_by_key(|machine| {
        !machine.deleting
            && !machine.marked
            && !machine.updating
            && !machine.is_unhealthy()
            && machine.available
    });
    for machine in order {
        if left == 0 {
            break;
        }
        let name = machine.name.clone();
        match machine {
            machine if machine.deleting => left -= 1,
            machine if machine.waits_for_remediation() => {
                handover.delete.push(name);
                left -= 1;
            }
            machine if machine.updating => {
                handover.passed_over.push(PassedOver { name, why: WhyPassedOver::Updating });
            }
            machine if !machine.has_node => {
                handover.passed_over.push(PassedOver { name, why: WhyPassedOver::NoNode });
            }
            _ if observed.updated.as_ref().is_some_and(|updated| !updated.contains(&name)) => {
                handover.passed_over.push(PassedOver { name, why: WhyPassedOver::NotUpdated });
            }
            _ => {
                handover.machines.push(name);
                left -= 1;
            }
        }
    }
    let idle = handover.machines.is_empty() && handover.delete.is_empty() && handover.passed_over.is_empty();
    if idle { Replicas::Settled } else { Replicas::Move(handover) }
}

impl fmt::Display for PassedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            WhyPassedOver::Updating => "is being updated",
            WhyPassedOver::NoNode => "has no Node yet",
            WhyPassedOver::NotUpdated => "is not updated yet",
        };
        write!(f, "Machine {} {why} and cannot be handed over", self.name)
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateDisabled => f.write_str("Machines are created by the current MachineSet only"),
            Self::Preflight(failures) => {
                for (index, failure) in failures.iter().enumerate() {
                    write!(f, "{}* {failure}", if index == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
        }
    }
}
