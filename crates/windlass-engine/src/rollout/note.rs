//! Why a plan changes the size of a MachineSet, or does not.

use std::fmt;

/// A reason, with its evidence. One MachineSet can have several in one plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    /// It is the MachineSet that machines are brought to, since this revision.
    BecameCurrent {
        /// The revision.
        revision: u64,
    },
    /// Machines arrived from old MachineSets and are counted now.
    Acknowledged {
        /// Their names, sorted.
        machines: Vec<String>,
    },
    /// It has more replicas than the MachineDeployment asks for.
    AboveReplicas {
        /// What the MachineDeployment asks for.
        replicas: u32,
    },
    /// There are fewer machines than allowed, so that it may grow.
    Room {
        /// Machines of all MachineSets.
        machines: u32,
        /// The most that there may be.
        ceiling: u32,
    },
    /// More machines are available than have to be.
    AboveFloor {
        /// Available machines of all MachineSets before this change.
        available: u32,
        /// How many have to be.
        floor: u32,
    },
    /// It loses machines that are missing or not available, which costs no availability.
    Unavailable,
    /// Machines are updated in place, so that no machine is added for them.
    SurgeDropped {
        /// How many machines are not added.
        machines: u32,
    },
    /// One machine is added all the same, because none may be missing while another is updated in place.
    SurgeKept,
    /// Its machines stay available while they are updated in place.
    StaysAvailable {
        /// How many are updated at a time.
        pace: u32,
    },
    /// No MachineSet can move, and unhealthy machines of old MachineSets are replaced only here.
    Deadlock {
        /// How many of its machines are not available.
        unavailable: u32,
    },
    /// The user deleted machines of it; they come back on the new MachineSet.
    DeletedByUser {
        /// How many.
        machines: u32,
    },
    /// The MachineDeployment was scaled down.
    ScaledDown {
        /// What it asks for.
        replicas: u32,
    },
    /// The MachineDeployment is paused: all its MachineSets keep their share.
    Proportional,
    /// An external updater updates its machines. Those that are done are handed over, and what is missing comes
    /// back on the new MachineSet.
    ExternallyUpdated {
        /// Those that are done, sorted.
        machines: Vec<String>,
    },
    /// Its machines were about to be handed over and no longer can be: they stay.
    HandoverTakenBack,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BecameCurrent { revision } => {
                write!(f, "this is now the current MachineSet, revision {revision}")
            }
            Self::Acknowledged { machines } => write!(f, "Machines {} arrived", machines.join(", ")),
            Self::AboveReplicas { replicas } => {
                write!(f, "the MachineDeployment asks for {replicas} replicas")
            }
            Self::Room { machines, ceiling } => write!(f, "{machines} Machines < {ceiling} allowed Machines"),
            Self::AboveFloor { available, floor } => {
                write!(f, "{available} available replicas > {floor} minimum available replicas")
            }
            Self::Unavailable => f.write_str("missing and unavailable Machines are removed first"),
            Self::SurgeDropped { machines } => {
                write!(f, "surge of {machines} dropped, Machines are updated in place")
            }
            Self::SurgeKept => f.write_str(
                "surge of 1 used, no Machine may be unavailable while another is updated in place",
            ),
            Self::StaysAvailable { pace } => {
                write!(f, "Machines stay available while they are updated in place, {pace} at a time")
            }
            Self::Deadlock { unavailable } => {
                write!(
                    f,
                    "{unavailable} unavailable Machines of an old MachineSet keep the rollout from going on"
                )
            }
            Self::DeletedByUser { machines } => write!(f, "{machines} Machines were deleted"),
            Self::ScaledDown { replicas } => {
                write!(f, "the MachineDeployment was scaled down to {replicas} replicas")
            }
            Self::Proportional => {
                f.write_str("the MachineDeployment is paused, MachineSets keep their share")
            }
            Self::ExternallyUpdated { machines } if machines.is_empty() => {
                f.write_str("Machines that are missing are created by the current MachineSet")
            }
            Self::ExternallyUpdated { machines } => {
                write!(f, "Machines {} are updated and handed over", machines.join(", "))
            }
            Self::HandoverTakenBack => {
                f.write_str("Machines can no longer be updated in place, they are not handed over")
            }
        }
    }
}
