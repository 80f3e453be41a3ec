use jiff::Timestamp;
use windlass_api::cluster::MachineStatus;
use windlass_api::conditions::{self as types, ConditionStatus, reason};

use super::{BOOTSTRAP_READY, Derived, Legacy, Severity};
use crate::condition;

const PRE_DRAIN: &str = "PreDrainDeleteHookSucceeded";
const DRAINING: &str = "DrainingSucceeded";
const VOLUMES: &str = "VolumeDetachSucceeded";
const PRE_TERMINATE: &str = "PreTerminateDeleteHookSucceeded";
const TYPES: [&str; 10] = [
    types::READY,
    BOOTSTRAP_READY,
    types::INFRASTRUCTURE_READY,
    types::NODE_HEALTHY,
    types::HEALTH_CHECK_SUCCEEDED,
    types::OWNER_REMEDIATED,
    PRE_DRAIN,
    DRAINING,
    VOLUMES,
    PRE_TERMINATE,
];

/// Completes the status of a Machine, which has the conditions of everyone.
pub fn machine(status: &mut MachineStatus, now: Timestamp) {
    let all = &status.conditions;
    let (bootstrap, infrastructure) = Legacy::of_parts(all, status.initialization);
    let warned = |type_| Legacy::of(type_, all, type_, Severity::Warning);
    let (healthy, remediated) = (warned(types::HEALTH_CHECK_SUCCEEDED), warned(types::OWNER_REMEDIATED));
    let steps = deletion(status);
    let mut parts = vec![bootstrap.as_ref(), infrastructure.as_ref()];
    parts.extend(steps.iter().filter(|step| step.type_ == DRAINING).map(Some));
    parts.extend([healthy.as_ref(), remediated.as_ref()]);
    let ready = Legacy::ready(&parts);
    let mut found = vec![ready, bootstrap, infrastructure, node(status), healthy, remediated];
    found.extend(steps.into_iter().map(Some));
    Derived { types: &TYPES, found, counters: &[] }.write(&mut status.deprecated, now);
}

/// A Node that is still to come was `False` in v1beta1, and is unknown now.
fn node(status: &MachineStatus) -> Option<Legacy> {
    let type_ = types::NODE_HEALTHY;
    let mut node = Legacy::of(type_, &status.conditions, type_, Severity::Warning)?;
    if node.status == ConditionStatus::Unknown && node.reason == reason::NODE_DOES_NOT_EXIST {
        (node.status, node.severity) = (ConditionStatus::False, Severity::Info);
    }
    Some(node)
}

/// The steps of a deletion, in their order, with the reason of condition `Deleting` while each of them is waited on.
const STEPS: [(&str, &str); 4] = [
    (PRE_DRAIN, reason::WAITING_FOR_PRE_DRAIN_HOOK),
    (DRAINING, reason::DRAINING_NODE),
    (VOLUMES, reason::WAITING_FOR_VOLUME_DETACH),
    (PRE_TERMINATE, reason::WAITING_FOR_PRE_TERMINATE_HOOK),
];

/// Steps that come after all of these.
const LATER: [&str; 4] = [
    reason::WAITING_FOR_INFRASTRUCTURE_DELETION,
    reason::WAITING_FOR_BOOTSTRAP_DELETION,
    reason::DELETING_NODE,
    reason::DELETION_COMPLETED,
];

/// How far a deletion is: what it waits on has not succeeded, everything before it has.
fn deletion(status: &MachineStatus) -> Vec<Legacy> {
    let Some(deleting) = condition::find(&status.conditions, types::DELETING) else { return Vec::new() };
    if deleting.status != "True" {
        return Vec::new();
    }
    let at = STEPS.iter().position(|(_, waited_on)| *waited_on == deleting.reason);
    let is_later = LATER.contains(&deleting.reason.as_str());
    let passed = at.unwrap_or(if is_later { STEPS.len() } else { 0 });
    let mut steps: Vec<Legacy> = STEPS.iter().take(passed).map(|(type_, _)| Legacy::yes(type_)).collect();
    if let Some((type_, waited_on)) = at.and_then(|at| STEPS.get(at)) {
        steps.push(Legacy::no(type_, Severity::Info, waited_on, &deleting.message));
    }
    steps
}
