//! What a MachineHealthCheck says, and how it marks Machines.

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_core::ResourceExt;
use windlass_api::AnyObject;
use windlass_api::cluster::{Cluster, Machine, MachineHealthCheck, MachineHealthCheckStatus, MachineStatus};
use windlass_api::conditions as types;
use windlass_api::conditions::reason;
use windlass_api::names::SKIP_REMEDIATION_ANNOTATION;

use super::{Allowance, Health, LimitError, NodeState, Unhealthy, health};
use crate::condition::{self, Finding};
use crate::legacy;
use crate::pause::{Pause, not_paused};

/// What is known when a health check is decided upon.
#[derive(Clone, Debug)]
pub struct Observed<'a> {
    /// The health check.
    pub check: &'a MachineHealthCheck,
    /// Its Cluster.
    pub cluster: &'a Cluster,
    /// The Machines that it selects, without those that are left alone.
    pub targets: Vec<Target<'a>>,
}

/// A Machine that a health check looks at.
#[derive(Clone, Copy, Debug)]
pub struct Target<'a> {
    /// The Machine.
    pub machine: &'a Machine,
    /// Its Node.
    pub node: NodeState<'a>,
}

/// What becomes of a health check and of its Machines.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The status of the health check.
    pub status: MachineHealthCheckStatus,
    /// The Machines whose conditions change.
    pub marks: Vec<Mark>,
    /// The Machines that are unhealthy, and why.
    pub unhealthy: Vec<(String, Unhealthy)>,
    /// When to look again, if nothing happens before.
    pub look_again: Option<Timestamp>,
}

/// What changes about one Machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The Machine that the change is for.
    pub machine: String,
    /// Its conditions from now on.
    pub conditions: Vec<Condition>,
    /// The same for readers of v1beta1.
    pub deprecated: Option<AnyObject>,
    /// What is asked for with that.
    pub remedy: Remedy,
}

/// What is done about a Machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Nothing, or nothing new.
    None,
    /// Its owner is asked to remediate it.
    Owner,
    /// An object made from the template of the health check remediates it.
    External,
    /// That object is no longer needed.
    ExternalDone,
}

/// Whether users want a Machine left alone.
pub fn is_left_alone(machine: &Machine) -> bool {
    let annotations = machine.metadata.annotations.as_ref();
    Pause::of(&machine.metadata, None).is_some()
        || annotations.is_some_and(|annotations| annotations.contains_key(SKIP_REMEDIATION_ANNOTATION))
}

/// Decides what becomes of a health check and of its Machines.
///
/// # Errors
///
/// A limit of the health check cannot be used. Nothing is marked then.
pub fn decide(observed: &Observed<'_>, now: Timestamp) -> Result<Decision, LimitError> {
    let Observed { check, cluster, targets } = observed;
    let results: Vec<(&Target<'_>, Health)> = targets
        .iter()
        .map(|target| (target, health(target.machine, target.node, cluster, &check.spec.checks, now)))
        .collect();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    let unhealthy: Vec<(String, Unhealthy)> = results
        .iter()
        .filter_map(|(target, health)| match health {
            Health::Unhealthy(why) => Some((name(target.machine), why.clone())),
            _ => None,
        })
        .collect();
    let healthy = results.iter().filter(|(_, health)| matches!(health, Health::Healthy { .. })).count();
    let trigger = &check.spec.remediation.trigger_if;
    let allowance = Allowance::of(trigger, count(targets.len()), count(unhealthy.len()))?;

    let external = check.spec.remediation.template_ref.is_some();
    let marks = results
        .iter()
        .filter_map(|(target, health)| mark(target.machine, health, allowance.allowed, external, now))
        .collect();
    let look_again = results.iter().filter_map(|(_, health)| match health {
        Health::Healthy { look_again } | Health::Pending { look_again } => *look_again,
        Health::Unhealthy(_) => None,
    });
    let integer = |number: usize| Some(i32::try_from(number).unwrap_or(i32::MAX));
    let mut names: Vec<String> = targets.iter().map(|target| name(target.machine)).collect();
    names.sort_unstable();
    let mut status = MachineHealthCheckStatus {
        expected_machines: integer(targets.len()),
        current_healthy: integer(healthy),
        remediations_allowed: Some(if allowance.allowed {
            i32::try_from(allowance.left).unwrap_or(i32::MAX)
        } else {
            0
        }),
        observed_generation: check.metadata.generation,
        targets: names,
        ..check.status.clone()
    };
    for finding in [verdict(&allowance, unhealthy.len()), not_paused()] {
        condition::set(&mut status.conditions, finding, check.metadata.generation, now);
    }
    legacy::health_check(&mut status, now);
    Ok(Decision { status, marks, unhealthy, look_again: look_again.min() })
}

fn verdict(allowance: &Allowance, unhealthy: usize) -> Finding {
    if allowance.allowed {
        return Finding::yes(types::REMEDIATION_ALLOWED, reason::REMEDIATION_ALLOWED);
    }
    let (least, most) = allowance.bounds;
    let bounds = if least == 0 { format!("at most {most}") } else { format!("{least} to {most}") };
    Finding::no(types::REMEDIATION_ALLOWED, reason::TOO_MANY_UNHEALTHY).because(format!(
        "Remediation is not allowed: {unhealthy} Machines are unhealthy, it is for {bounds}"
    ))
}

/// What changes about a Machine; nothing if it is marked already.
fn mark(machine: &Machine, health: &Health, allowed: bool, external: bool, now: Timestamp) -> Option<Mark> {
    let before = &machine.status.conditions;
    let mut conditions = before.clone();
    let generation = machine.metadata.generation;
    let mut remedy = Remedy::None;
    match health {
        Health::Healthy { .. } => {
            let fine = Finding::yes(types::HEALTH_CHECK_SUCCEEDED, reason::HEALTH_CHECK_SUCCEEDED);
            condition::set(&mut conditions, fine, generation, now);
            // A Machine that recovered is not remediated any more, unless it is going already.
            if machine.metadata.deletion_timestamp.is_none() {
                condition::remove(&mut conditions, types::OWNER_REMEDIATED);
                if condition::remove(&mut conditions, types::EXTERNALLY_REMEDIATED) {
                    remedy = Remedy::ExternalDone;
                }
            }
        }
        // A Machine that never was a Node is neither; what was said of it before may be out of date.
        Health::Pending { .. } => return None,
        Health::Unhealthy(why) => {
            let finding = Finding::no(types::HEALTH_CHECK_SUCCEEDED, why.reason()).because(why);
            condition::set(&mut conditions, finding, generation, now);
            let marker = if external { types::EXTERNALLY_REMEDIATED } else { types::OWNER_REMEDIATED };
            let asked = condition::is_false(before, marker);
            if allowed && !asked && machine.metadata.deletion_timestamp.is_none() {
                remedy = if external { Remedy::External } else { Remedy::Owner };
                let waits = Finding::no(marker, reason::WAITING_FOR_REMEDIATION);
                condition::set(&mut conditions, waits, generation, now);
            }
        }
    }
    (conditions != *before).then(|| {
        let mut status = MachineStatus { conditions, ..machine.status.clone() };
        legacy::machine(&mut status, now);
        let MachineStatus { conditions, deprecated, .. } = status;
        Mark { machine: name(machine), conditions, deprecated, remedy }
    })
}

fn name(machine: &Machine) -> String {
    machine.name_any()
}
