use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use windlass_api::cluster::{
    MachineDeploymentStatus, MachineHealthCheckStatus, MachinePoolStatus, MachineSetStatus,
};
use windlass_api::conditions as types;

use super::{BOOTSTRAP_READY, Derived, Legacy, Severity};
use crate::condition;

pub(super) const RESIZED: &str = "Resized";
const MACHINE_SET_READY: &str = "MachineSetReady";
const MACHINES_CREATED: &str = "MachinesCreated";
const REPLICAS_READY: &str = "ReplicasReady";

/// Completes the status of a MachineDeployment.
pub fn machine_deployment(status: &mut MachineDeploymentStatus, now: Timestamp) {
    let all = &status.conditions;
    let available = Legacy::of(types::AVAILABLE, all, types::AVAILABLE, Severity::Warning);
    let set = Legacy::of(MACHINE_SET_READY, all, types::MACHINES_READY, Severity::Info);
    let ready = Legacy::ready(&[available.as_ref(), set.as_ref()]);
    let counters = [
        ("updatedReplicas", status.up_to_date_replicas.unwrap_or(0)),
        ("readyReplicas", status.ready_replicas.unwrap_or(0)),
        ("availableReplicas", status.available_replicas.unwrap_or(0)),
        ("unavailableReplicas", missing(status.replicas, status.available_replicas)),
    ];
    let types = [types::READY, types::AVAILABLE, MACHINE_SET_READY];
    let found = vec![ready, available, set];
    Derived { types: &types, found, counters: &counters }.write(&mut status.deprecated, now);
}

/// Completes the status of a MachineSet. `problems` are what keeps it from creating machines, a line each.
pub fn machine_set(status: &mut MachineSetStatus, problems: &[String], now: Timestamp) {
    let created = match problems.is_empty() {
        true => Legacy::yes(MACHINES_CREATED),
        false => Legacy::no(MACHINES_CREATED, Severity::Error, "MachineCreationFailed", problems.join("\n")),
    };
    let resized = resized(&status.conditions);
    let machines =
        Legacy::of(types::MACHINES_READY, &status.conditions, types::MACHINES_READY, Severity::Info);
    let ready = Legacy::ready(&[Some(&created), resized.as_ref(), machines.as_ref()]);
    let replicas = status.replicas.unwrap_or(0);
    let counters = [
        // Every machine of a set has the labels of its template: they are written by the set.
        ("fullyLabeledReplicas", replicas),
        ("readyReplicas", status.ready_replicas.unwrap_or(0)),
        ("availableReplicas", status.available_replicas.unwrap_or(0)),
    ];
    let types = [types::READY, MACHINES_CREATED, RESIZED, types::MACHINES_READY];
    let found = vec![ready, Some(created), resized, machines];
    Derived { types: &types, found, counters: &counters }.write(&mut status.deprecated, now);
}

/// Completes the status of a MachinePool.
pub fn machine_pool(status: &mut MachinePoolStatus, now: Timestamp) {
    let all = &status.conditions;
    let (bootstrap, infrastructure) = Legacy::of_parts(all, status.initialization);
    let replicas = Legacy::of(REPLICAS_READY, all, types::AVAILABLE, Severity::Info);
    let ready = Legacy::ready(&[bootstrap.as_ref(), infrastructure.as_ref(), replicas.as_ref()]);
    let counters = [
        ("readyReplicas", status.ready_replicas.unwrap_or(0)),
        ("availableReplicas", status.available_replicas.unwrap_or(0)),
        ("unavailableReplicas", missing(status.replicas, status.available_replicas)),
    ];
    let types = [types::READY, BOOTSTRAP_READY, types::INFRASTRUCTURE_READY, REPLICAS_READY];
    let found = vec![ready, bootstrap, infrastructure, replicas];
    Derived { types: &types, found, counters: &counters }.write(&mut status.deprecated, now);
}

/// Completes the status of a MachineHealthCheck.
pub fn health_check(status: &mut MachineHealthCheckStatus, now: Timestamp) {
    let type_ = types::REMEDIATION_ALLOWED;
    let found = vec![Legacy::of(type_, &status.conditions, type_, Severity::Warning)];
    Derived { types: &[type_], found, counters: &[] }.write(&mut status.deprecated, now);
}

/// `Resized`: neither scaling up nor down.
pub(super) fn resized(conditions: &[Condition]) -> Option<Legacy> {
    let mut known = false;
    for type_ in [types::SCALING_UP, types::SCALING_DOWN] {
        let Some(scaling) = condition::find(conditions, type_) else { continue };
        known = true;
        if scaling.status == "True" {
            return Some(Legacy::no(RESIZED, Severity::Warning, type_, &scaling.message));
        }
    }
    known.then(|| Legacy::yes(RESIZED))
}

/// How many of those that are there are not counted.
pub(super) fn missing(there: Option<i32>, counted: Option<i32>) -> i32 {
    there.unwrap_or(0).saturating_sub(counted.unwrap_or(0)).max(0)
}
