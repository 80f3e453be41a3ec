//! What a MachineSet says of itself.

use jiff::Timestamp;
use windlass_api::cluster::{Machine, MachineSet, MachineSetStatus};
use windlass_api::conditions::{AVAILABLE, DELETING, READY, UP_TO_DATE, reason};
use windlass_api::names::{ACKNOWLEDGED_MOVE_ANNOTATION, PENDING_ACKNOWLEDGE_MOVE_ANNOTATION};

use super::aggregate::{
    machines_ready, machines_up_to_date, remediating, scaling_down, scaling_up, slow_deletions,
    status_versions,
};
use super::{Hold, annotation, is_out_of_service, is_updating, names_in};
use crate::condition::{self, Finding};
use crate::legacy;
use crate::pause::not_paused;
use crate::versions;

/// What the status is made from.
#[derive(Clone, Copy, Debug)]
pub struct StatusFacts<'a> {
    /// The MachineSet, with the status that it has.
    pub set: &'a MachineSet,
    /// The machines that it controls.
    pub machines: &'a [&'a Machine],
    /// Templates that do not exist and other things that keep it from creating machines, a line each.
    pub problems: &'a [String],
    /// Why it does not create the machines that are missing, or hand over those that are too many.
    pub hold: Option<&'a Hold>,
    /// What keeps machines that are too many from going, a line each.
    pub held: &'a [String],
    /// Whether this reconcile got to its end: otherwise the generation is not claimed to be observed.
    pub complete: bool,
    /// Its selector as text.
    pub selector: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// The status of a MachineSet, its conditions taken on from the one that it has.
pub fn status(facts: &StatusFacts<'_>) -> MachineSetStatus {
    let StatusFacts { set, machines, now, .. } = *facts;
    let deleting = set.metadata.deletion_timestamp.is_some();
    let wanted = match deleting {
        true => Some(0),
        false => set.replicas().map(|replicas| u32::try_from(replicas).unwrap_or(0)),
    };
    let there = u32::try_from(machines.len()).unwrap_or(u32::MAX);
    let count = |type_: &str| {
        let good = |machine: &&&Machine| {
            // One that is not out of service is not up to date either before its update is done.
            let counts =
                if type_ == UP_TO_DATE { !is_updating(machine) } else { !is_out_of_service(machine) };
            condition::is_true(&machine.status.conditions, type_) && counts
        };
        Some(i32::try_from(machines.iter().filter(good).count()).unwrap_or(i32::MAX))
    };
    let mut oldest_first: Vec<&Machine> = machines.to_vec();
    oldest_first.sort_by(|a, b| {
        let created = |machine: &Machine| machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
        created(a).cmp(&created(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    let versions = versions::of_machines(oldest_first.iter().map(|machine| {
        let kubelet = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
        (kubelet, Some(machine.spec.version.as_str()))
    }));

    let (mut problems, mut held) = (facts.problems.to_vec(), facts.held.to_vec());
    if let Some(hold) = facts.hold {
        let text = hold.to_string();
        let lines = text.lines().map(|line| line.trim_start_matches("* ").to_owned());
        if wanted.is_some_and(|wanted| there > wanted) { held.extend(lines) } else { problems.extend(lines) }
    }
    // Machines that arrived and are not counted yet are not too many.
    let waiting = uncounted(set, machines);
    let mut conditions = set.status.conditions.clone();
    for finding in [
        machines_ready(machines),
        machines_up_to_date(machines, now),
        scaling_up(there, wanted, &problems),
        scaling_down(there.saturating_sub(waiting), wanted, machines, &held, now),
        remediating(machines),
        deleting_finding(deleting, machines, now),
        not_paused(),
    ] {
        condition::set(&mut conditions, finding, set.metadata.generation, now);
    }
    let mut status = MachineSetStatus {
        conditions,
        selector: facts.selector.to_owned(),
        replicas: Some(i32::try_from(there).unwrap_or(i32::MAX)),
        ready_replicas: count(READY),
        available_replicas: count(AVAILABLE),
        up_to_date_replicas: count(UP_TO_DATE),
        versions: status_versions(versions),
        observed_generation: match facts.complete {
            true => set.metadata.generation,
            false => set.status.observed_generation,
        },
        deprecated: set.status.deprecated.clone(),
    };
    legacy::machine_set(&mut status, facts.problems, now);
    status
}

/// Machines that were handed over and are not counted in `spec.replicas` yet.
fn uncounted(set: &MachineSet, machines: &[&Machine]) -> u32 {
    let counted = annotation(&set.metadata, ACKNOWLEDGED_MOVE_ANNOTATION).map(names_in).unwrap_or_default();
    let waiting = machines.iter().filter(|machine| {
        annotation(&machine.metadata, PENDING_ACKNOWLEDGE_MOVE_ANNOTATION).is_some()
            && machine.metadata.name.as_ref().is_none_or(|name| !counted.contains(name))
    });
    u32::try_from(waiting.count()).unwrap_or(u32::MAX)
}

fn deleting_finding(deleting: bool, machines: &[&Machine], now: Timestamp) -> Finding {
    match (deleting, machines.len()) {
        (false, _) => Finding::no(DELETING, reason::NOT_DELETING),
        (true, 0) => Finding::yes(DELETING, reason::DELETING).because("Deletion completed"),
        (true, left) => {
            let slow = slow_deletions(machines, now);
            Finding::yes(DELETING, reason::DELETING).because(format!("Deleting {left} Machines{slow}"))
        }
    }
}
