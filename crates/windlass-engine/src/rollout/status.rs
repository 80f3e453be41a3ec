//! What a MachineDeployment says of itself.

use std::collections::BTreeSet;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::cluster::{
    Machine, MachineDeployment, MachineDeploymentPhase, MachineDeploymentStatus, MachineSet,
};
use windlass_api::conditions::{AVAILABLE, DELETING, ROLLING_OUT, UP_TO_DATE, reason};

use super::{Blocked, Progress, strategy};
use crate::condition::{self, Finding};
use crate::external_update::EXTERNAL_UPDATE;
use crate::in_place::{CAN_UPDATE_IN_PLACE, Said};
use crate::legacy;
use crate::machine_set::aggregate::{
    machines_ready, machines_up_to_date, remediating, scaling_down, scaling_up, status_versions,
};
use crate::pause::not_paused;
use crate::versions;

/// The reason of condition `RollingOut` while a rollout stands still because machines may not be replaced.
pub const ROLLOUT_BLOCKED: &str = "RolloutBlocked";

/// What the status is made from.
#[derive(Clone, Copy, Debug)]
pub struct StatusFacts<'a> {
    /// The MachineDeployment, with the status that it has.
    pub deployment: &'a MachineDeployment,
    /// The MachineSets that it controls.
    pub sets: &'a [&'a MachineSet],
    /// The machines of those.
    pub machines: &'a [&'a Machine],
    /// Templates that do not exist and other things that keep it from creating machines, a line each.
    pub problems: &'a [String],
    /// Why the rollout stands still, if it does.
    pub blocked: Option<&'a Blocked>,
    /// What was found out about updating machines in place.
    pub in_place: &'a Said,
    /// What there is to say about external updaters.
    pub external_update: &'a Said,
    /// Whether this reconcile got to its end: otherwise the generation is not claimed to be observed.
    pub complete: bool,
    /// Its selector as text.
    pub selector: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// The status of a MachineDeployment, its conditions taken on from the one that it has.
pub fn status(facts: &StatusFacts<'_>) -> MachineDeploymentStatus {
    let StatusFacts { deployment, sets, machines, problems, now, .. } = *facts;
    let deleting = deployment.metadata.deletion_timestamp.is_some();
    let wanted = match deleting {
        true => Some(0),
        false => deployment.replicas().map(|replicas| u32::try_from(replicas).unwrap_or(0)),
    };
    let sum = |value: &dyn Fn(&MachineSet) -> Option<i32>| {
        sets.iter().filter_map(|set| value(set)).fold(0, i32::saturating_add)
    };
    let replicas = sum(&|set| set.status.replicas);
    let ready = sum(&|set| set.status.ready_replicas);
    let available = sum(&|set| set.status.available_replicas);
    let up_to_date = sum(&|set| set.status.up_to_date_replicas);
    let there = u32::try_from(replicas).unwrap_or(0);

    let mut conditions = deployment.status.conditions.clone();
    for finding in [
        available_finding(deployment, available),
        rolling_out(machines, facts.blocked),
        machines_ready(machines),
        machines_up_to_date(machines, now),
        scaling_up(there, wanted, problems),
        scaling_down(there, wanted, machines, &[], now),
        remediating(machines),
        deleting_finding(deleting, sets.len()),
        not_paused(),
    ] {
        condition::set(&mut conditions, finding, deployment.metadata.generation, now);
    }
    facts.in_place.write(CAN_UPDATE_IN_PLACE, &mut conditions, deployment.metadata.generation, now);
    facts.external_update.write(EXTERNAL_UPDATE, &mut conditions, deployment.metadata.generation, now);
    let mut oldest_first: Vec<&MachineSet> = sets.to_vec();
    oldest_first.sort_by(|a, b| {
        let created = |set: &MachineSet| set.metadata.creation_timestamp.as_ref().map(|time| time.0);
        created(a).cmp(&created(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    let versions = oldest_first.iter().flat_map(|set| &set.status.versions);
    let versions = versions
        .map(|version| (version.version.as_str(), u32::try_from(version.replicas.unwrap_or(0)).unwrap_or(0)));
    let mut status = MachineDeploymentStatus {
        conditions,
        observed_generation: match facts.complete {
            true => deployment.metadata.generation,
            false => deployment.status.observed_generation,
        },
        selector: facts.selector.to_owned(),
        replicas: Some(replicas),
        ready_replicas: Some(ready),
        available_replicas: Some(available),
        up_to_date_replicas: Some(up_to_date),
        versions: status_versions(versions::of_groups(versions)),
        phase: Some(phase(wanted, ready)),
        deprecated: deployment.status.deprecated.clone(),
    };
    legacy::machine_deployment(&mut status, now);
    status
}

/// What of a status says whether the rollout is over.
pub fn progress(deployment: &MachineDeployment, status: &MachineDeploymentStatus) -> Progress {
    let count = |number: Option<i32>| u32::try_from(number.unwrap_or(0)).unwrap_or(0);
    Progress {
        desired: count(deployment.replicas()),
        replicas: count(status.replicas),
        up_to_date: count(status.up_to_date_replicas),
        available: count(status.available_replicas),
        observed: status.observed_generation >= deployment.metadata.generation,
    }
}

fn phase(wanted: Option<u32>, ready: i32) -> MachineDeploymentPhase {
    let Some(wanted) = wanted else { return MachineDeploymentPhase::UnknownPhase };
    match u32::try_from(ready).unwrap_or(0).cmp(&wanted) {
        std::cmp::Ordering::Less => MachineDeploymentPhase::ScalingUp,
        std::cmp::Ordering::Equal => MachineDeploymentPhase::Running,
        std::cmp::Ordering::Greater => MachineDeploymentPhase::ScalingDown,
    }
}

fn available_finding(deployment: &MachineDeployment, available: i32) -> Finding {
    if deployment.metadata.deletion_timestamp.is_some() {
        return Finding::no(AVAILABLE, reason::NOT_AVAILABLE).because("Deletion in progress");
    }
    let Some(replicas) = deployment.replicas().map(|replicas| u32::try_from(replicas).unwrap_or(0)) else {
        return Finding::unknown(AVAILABLE, reason::WAITING_FOR_REPLICAS_SET)
            .because("Waiting for spec.replicas to be set");
    };
    let limits = match strategy(deployment) {
        Ok(strategy) => strategy.limits(replicas),
        Err(error) => return Finding::unknown(AVAILABLE, reason::INTERNAL_ERROR).because(error),
    };
    let floor = limits.floor(replicas);
    if u32::try_from(available).unwrap_or(0) >= floor {
        return Finding::yes(AVAILABLE, reason::AVAILABLE);
    }
    Finding::no(AVAILABLE, reason::NOT_AVAILABLE).because(format!(
        "{available} available replicas, at least {floor} required ({replicas} replicas, {} may be unavailable)",
        limits.unavailable
    ))
}

/// What an object says about a rollout that it cannot go on with by itself, from its condition `RollingOut`.
pub fn blocked(conditions: &[Condition]) -> Option<String> {
    let told = condition::find(conditions, ROLLING_OUT).filter(|told| told.reason == ROLLOUT_BLOCKED)?;
    let last = told.message.lines().last()?;
    Some(last.trim_start_matches("* ").to_owned())
}

/// Condition `RollingOut`: how many machines are not up to date, why, and why nothing is done about it.
fn rolling_out(machines: &[&Machine], blocked: Option<&Blocked>) -> Finding {
    let outdated = machines.iter().filter_map(|machine| {
        let condition = condition::find(&machine.status.conditions, UP_TO_DATE)?;
        condition::is_false(&machine.status.conditions, UP_TO_DATE).then_some(condition)
    });
    let outdated: Vec<_> = outdated.collect();
    let reasons: BTreeSet<&str> = outdated
        .iter()
        .flat_map(|condition| condition.message.lines())
        .filter(|line| line.starts_with("* "))
        .collect();
    let mut lines: Vec<String> = Vec::new();
    if !outdated.is_empty() {
        let plural = if outdated.len() == 1 { "" } else { "s" };
        lines.push(format!("Rolling out {} not up-to-date replica{plural}", outdated.len()));
        // What people ask first is the version.
        let (versions, others): (Vec<&str>, Vec<&str>) =
            reasons.into_iter().partition(|line| line.starts_with("* Version"));
        lines.extend(versions.into_iter().chain(others).map(str::to_owned));
    }
    if let Some(blocked) = blocked {
        lines.push(blocked.to_string());
        return Finding::yes(ROLLING_OUT, ROLLOUT_BLOCKED).because(lines.join("\n"));
    }
    if lines.is_empty() {
        return Finding::no(ROLLING_OUT, reason::NOT_ROLLING_OUT);
    }
    Finding::yes(ROLLING_OUT, reason::ROLLING_OUT).because(lines.join("\n"))
}

fn deleting_finding(deleting: bool, sets: usize) -> Finding {
    match (deleting, sets) {
        (false, _) => Finding::no(DELETING, reason::NOT_DELETING),
        (true, 0) => Finding::yes(DELETING, reason::DELETING).because("Deletion completed"),
        (true, left) => {
            Finding::yes(DELETING, reason::DELETING).because(format!("Deleting {left} MachineSets"))
        }
    }
}
