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
    /// Identifies it to etcd.
    pub id: u64,
    /// Its name, which is that of its Node; empty as long as it was added and has never been started.
    pub name: String,
    /// It does not vote yet.
    pub learner: bool,
    /// What it finds wrong with itself, such as `NOSPACE`.
    pub alarms: Vec<String>,
}

impl EtcdMember {
    /// What it is called: its name, or its identifier as long as it has none.
    pub fn label(&self) -> String {
        if self.name.is_empty() { format!("{:x}", self.id) } else { self.name.clone() }
    }
}

/// Why the etcd member of a Machine, or the Machine itself, cannot go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UnsafeRemoval {
    /// The members could not be listed.
    MembersUnknown,
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
    let remaining = members.iter().filter(|member| machine.node.as_deref() != Some(&member.name));
    check_remaining(remaining, machines)
}

/// Whether etcd keeps its quorum with these members alone.
fn check_remaining<'a>(
    remaining: impl Iterator<Item = &'a EtcdMember> + Clone,
    machines: &[ObservedMachine],
) -> Result<(), UnsafeRemoval> {
    if let Some(learner) = remaining.clone().find(|member| member.learner || member.name.is_empty()) {
        return Err(UnsafeRemoval::Learner { member: learner.label() });
    }
    let voting = remaining.clone().count();
    let healthy = remaining.filter(|member| is_healthy(member, machines)).count();
    if healthy < quorum(voting) { Err(UnsafeRemoval::Quorum { voting, healthy }) } else { Ok(()) }
}

/// The member that no Machine stands behind and that can be removed now: what an interrupted removal, or a machine that went
/// without one, leaves behind. As long as a Machine has no Node, a member may be its own. One that was never started is no part of
/// the quorum, and comes first.
pub(super) fn unexpected_member<'a>(
    machines: &'a [ObservedMachine],
    etcd: &'a Etcd,
) -> Option<&'a EtcdMember> {
    let members = etcd.members()?;
    let mut unexpected: Vec<&EtcdMember> = without_machine(machines, members).collect();
    unexpected.sort_by_key(|member| (&member.name, member.id));
    let removed = *unexpected.first()?;
    let remaining = members.iter().filter(|member| member.id != removed.id);
    (removed.name.is_empty() || check_remaining(remaining, machines).is_ok()).then_some(removed)
}

/// Members whose name is that of no Machine; none as long as a Machine has no Node, or there are no Machines.
pub(super) fn without_machine<'a>(
    machines: &'a [ObservedMachine],
    members: &'a [EtcdMember],
) -> impl Iterator<Item = &'a EtcdMember> {
    let are_known = !machines.is_empty() && machines.iter().all(|machine| machine.node.is_some());
    members.iter().filter(move |member| {
        are_known && machines.iter().all(|machine| machine.node.as_deref() != Some(member.name.as_str()))
    })
}

/// The members that may lead in place of that of a Machine, best first: healthy ones, those that will stay, and of these the
/// youngest, so that the leadership does not move again in the same rollout.
pub fn successors(machine: &str, machines: &[ObservedMachine]) -> Vec<String> {
    let mut others: Vec<&ObservedMachine> = machines
        .iter()
        .filter(|other| other.name != machine && other.deletion.is_none() && other.node.is_some())
        .collect();
    others.sort_by_key(|other| {
        (
            other.health(Component::EtcdMember) != Health::Healthy,
            other.remediation_requested,
            !other.outdated.is_empty(),
            std::cmp::Reverse((other.created, &other.name)),
        )
    });
    others.into_iter().filter_map(|other| other.node.clone()).collect()
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

/// Whether a member counts: etcd has no complaint about it, and its process is ready. What is not known does not count.
pub(super) fn is_healthy(member: &EtcdMember, machines: &[ObservedMachine]) -> bool {
    machines.iter().any(|machine| {
        machine.node.as_deref() == Some(&member.name)
            && [Component::EtcdMember, Component::EtcdPod]
                .into_iter()
                .all(|component| machine.health(component) == Health::Healthy)
    })
}
