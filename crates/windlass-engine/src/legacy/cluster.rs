use jiff::Timestamp;
use windlass_api::cluster::ClusterStatus;
use windlass_api::conditions::{self as types, reason};

use super::{Derived, Legacy, Severity};
use crate::condition;

const CONTROL_PLANE_READY: &str = "ControlPlaneReady";
const TYPES: [&str; 5] = [
    types::READY,
    types::INFRASTRUCTURE_READY,
    types::CONTROL_PLANE_INITIALIZED,
    CONTROL_PLANE_READY,
    types::TOPOLOGY_RECONCILED,
];

/// Completes the status of a Cluster.
///
/// Only the Cluster controller may write it. The old conditions are one value to server-side apply: the topology controller,
/// which applies its condition without a lock, could bring back an old `ControlPlaneInitialized`, and a kubeadm bootstrap
/// provider of that time would initialize a second control plane.
pub fn cluster(status: &mut ClusterStatus, now: Timestamp) {
    let all = &status.conditions;
    let done = status.initialization;
    let infrastructure = Legacy::of(
        types::INFRASTRUCTURE_READY,
        all,
        types::INFRASTRUCTURE_READY,
        Severity::since_done(done.infrastructure_provisioned),
    );
    let initialized =
        Legacy::of(types::CONTROL_PLANE_INITIALIZED, all, types::CONTROL_PLANE_INITIALIZED, Severity::Info);
    let control_plane = Legacy::of(
        CONTROL_PLANE_READY,
        all,
        types::CONTROL_PLANE_AVAILABLE,
        Severity::since_done(done.control_plane_initialized),
    );
    // A topology that is not there yet leaves the cluster as ready as it is.
    let ready = Legacy::ready(&[control_plane.as_ref(), infrastructure.as_ref()]);
    let found = vec![ready, infrastructure, initialized, control_plane, topology(status)];
    Derived { types: &TYPES, found, counters: &[] }.write(&mut status.deprecated, now);
}

/// What the topology waits on changes with every step, and is said by another controller: repeating it would cost a write of
/// the Cluster each time. Its failures are repeated.
fn topology(status: &ClusterStatus) -> Option<Legacy> {
    let type_ = types::TOPOLOGY_RECONCILED;
    let found = condition::find(&status.conditions, type_)?;
    let failed = found.reason == reason::RECONCILE_FAILED;
    let severity = if failed { Severity::Error } else { Severity::Info };
    let mut legacy = Legacy::of(type_, &status.conditions, type_, severity)?;
    if !failed {
        legacy.message.clear();
    }
    Some(legacy)
}
