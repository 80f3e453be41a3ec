//! Machines that health checks ask their MachineSet to replace.

use super::preflight::Failure;
use super::{Machine, Observed, OwnerRemediated};
use crate::rollout::Amount;

/// What else remediation depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Whether the MachineSet is the current one of its MachineDeployment, or belongs to none.
    pub current: bool,
    /// `spec.remediation.maxInFlight` of the MachineDeployment.
    pub max_in_flight: Option<Amount>,
    /// The checks that fail now for a new machine.
    pub preflight: Vec<Failure>,
}

/// What becomes of the machines that wait for remediation. Every one of them is in exactly one list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remediation {
    /// Those that are deleted now, in this order. Condition `OwnerRemediated` says so before.
    pub delete: Vec<String>,
    /// Those that wait, and why.
    pub deferred: Vec<(String, Deferred)>,
    /// Those of an old MachineSet: they go when it is their turn in the rollout.
    pub cannot: Vec<String>,
}

/// Why a machine is not remediated now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deferred {
    /// As many as may be are being remediated.
    MaxInFlight(u32),
    /// A new machine could not be created now.
    Preflight(Vec<Failure>),
}

/// Decides which machines are remediated. First those for which users asked, then the newest: what was healthy for long
/// is more likely to come back.
pub fn remediation(observed: &Observed, policy: &Policy) -> Remediation {
    let mut waiting: Vec<&Machine> = observed
        .machines
        .iter()
        .filter(|machine| machine.waits_for_remediation() && !machine.deleting)
        .collect();
    waiting.sort_by(|a, b| {
        let asked = b.remediate_requested.cmp(&a.remediate_requested);
        asked.then_with(|| b.created.cmp(&a.created)).then_with(|| a.name.cmp(&b.name))
    });
    let name = |machine: &Machine| machine.name.clone();
    if !policy.current {
        return Remediation { cannot: waiting.into_iter().map(name).collect(), ..Remediation::default() };
    }
    let under_way = observed.machines.iter().filter(|machine| {
        machine.deleting && machine.owner_remediated == Some(OwnerRemediated::MachineDeleting)
    });
    let under_way = u32::try_from(under_way.count()).unwrap_or(u32::MAX);
    let max = policy.max_in_flight.map(|amount| amount.rounded_up(observed.replicas));
    let mut free = max.map_or(u32::MAX, |max| max.saturating_sub(under_way));
    let mut remediation = Remediation::default();
    for machine in waiting {
        if free == 0 {
            remediation.deferred.push((name(machine), Deferred::MaxInFlight(max.unwrap_or(0))));
        } else if !policy.preflight.is_empty() {
            remediation.deferred.push((name(machine), Deferred::Preflight(policy.preflight.clone())));
        } else {
            remediation.delete.push(name(machine));
            free -= 1;
        }
    }
    remediation
}

impl std::fmt::Display for Deferred {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::MaxInFlight(max) => {
                write!(f, "Waiting because there are already {max} Machines being remediated (maxInFlight)")
            }
            Self::Preflight(failures) => {
                f.write_str("Waiting for preflight checks to pass:")?;
                failures.iter().try_for_each(|failure| write!(f, "\n* {failure}"))
            }
        }
    }
}
