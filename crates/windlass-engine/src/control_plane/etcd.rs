//! What is known of etcd, and whether a member can go.

use std::fmt;

use super::observed::{Component, Health, ObservedMachine};

/// etcd of the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Etcd {
    /// Runs elsewhere; nothing of it is on the Machines.
    External,
    /// Runs on the Machines, one member each.
    Managed {
        /// The members, if they could be listed.
        members: Option<Vec<EtcdMember>>,
    },
}

impl Etcd {
    /// Whether it runs on the Machines.
    pub const fn is_managed(&self) -> bool {
        matches!(self, Self::Managed { .. })
    }

    /// The members, where they are known.
    pub fn members(&self) -> Option<&[EtcdMember]> {
        match self {
            Self::Managed { members: Some(members) } => Some(members),
            _ => None,
        }
    }
}

/// A member of the etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EtcdMember {
    /// Its name, which is that of its Node.
    pub name: String,
    /// It does not vote yet.
    pub learner: bool,
    /// It can be removed from here. Where it cannot, its Machine must stay: a member that is left behind counts against
    /// the quorum for ever.
    pub removable: bool,
}

/// Why the etcd member of a Machine, or the Machine itself, cannot go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsafeRemoval {
    /// The members could not be listed.
    MembersUnknown,
    /// The member cannot be removed from here.
    NotRemovable {
        /// The name by which etcd knows the member.
        member: String,
    },
    /// A member does not vote yet; changing members now could cost the quorum.
    Learner {
        /// The name by which etcd knows the learner.
        member: String,
    },
    /// Too few healthy members would remain.
    Quorum {
        /// Voting members after the removal.
        voting: usize,
        /// Those of them that are healthy.
        healthy: usize,
    },
    /// No other Machine has all its control plane components.
    NoHealthyMachine,
}

impl fmt::Display for UnsafeRemoval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MembersUnknown => f.write_str("the members of etcd are not known"),
            Self::NotRemovable { member } => {
                write!(f, "etcd member {member} cannot be removed from here, and must not be left behind")
            }
            Self::Learner { member } => write!(f, "etcd member {member} is still a learner"),
            Self::Quorum { voting, healthy } => write!(
                f,
                "etcd would keep {healthy} healthy of {voting} members, and needs {}",
                quorum(*voting)
            ),
            Self::NoHealthyMachine => {
                f.write_str("no other Machine has all its control plane components healthy")
            }
        }
    }
}

/// How many of `voting` members must work.
pub const fn quorum(voting: usize) -> usize {
    voting / 2 + 1
}

/// Whether the Machine can go: another one serves the API, and etcd keeps its quorum.
///
/// # Errors
///
/// With the reason, if it cannot.
pub fn check_removal(
    machine: &ObservedMachine,
    machines: &[ObservedMachine],
    etcd: &Etcd,
) -> Result<(), UnsafeRemoval> {
    let serves = |other: &&ObservedMachine| {
        other.name != machine.name
            // A Machine that is being deleted serves until its own hook is taken off.
            && other.deletion.as_ref().is_none_or(|deletion| deletion.has_cleanup_hook)
            && Component::of(etcd)
                .filter(|component| !component.is_etcd())
                .all(|component| other.health(component) == Health::Healthy)
    };
    if !machines.iter().any(|other| serves(&other)) {
        return Err(UnsafeRemoval::NoHealthyMachine);
    }
    if !etcd.is_managed() {
        return Ok(());
    }
    let members = etcd.members().ok_or(UnsafeRemoval::MembersUnknown)?;
    check_removable(machine, etcd)?;
    let mut remaining = members.iter().filter(|member| machine.node.as_deref() != Some(&member.name));
    if let Some(learner) = remaining.clone().find(|member| member.learner) {
        return Err(UnsafeRemoval::Learner { member: learner.name.clone() });
    }
    let voting = remaining.clone().count();
    let healthy = remaining.by_ref().filter(|member| is_healthy(member, machines)).count();
    if healthy < quorum(voting) { Err(UnsafeRemoval::Quorum { voting, healthy }) } else { Ok(()) }
}

/// Whether the member of the Machine can be removed at all, now or later.
///
/// # Errors
///
/// If it cannot.
pub fn check_removable(machine: &ObservedMachine, etcd: &Etcd) -> Result<(), UnsafeRemoval> {
    let mut members = etcd.members().into_iter().flatten();
    match members.find(|member| machine.node.as_deref() == Some(&member.name) && !member.removable) {
        Some(member) => Err(UnsafeRemoval::NotRemovable { member: member.name.clone() }),
        None => Ok(()),
    }
}

/// Whether etcd keeps its quorum if one more member comes and does not work.
pub(super) fn survives_unhealthy_addition(machines: &[ObservedMachine], etcd: &Etcd) -> bool {
    match etcd {
        Etcd::External => true,
        Etcd::Managed { members: None } => false,
        Etcd::Managed { members: Some(members) } => {
            let healthy = members.iter().filter(|member| is_healthy(member, machines)).count();
            // From one member the only way up leads through two, which bear no failure.
            members.len() <= 1 || healthy >= quorum(members.len() + 1)
        }
    }
}

fn is_healthy(member: &EtcdMember, machines: &[ObservedMachine]) -> bool {
    machines.iter().any(|machine| {
        machine.node.as_deref() == Some(&member.name)
            && machine.health(Component::EtcdMember) == Health::Healthy
    })
}
