use jiff::Timestamp;
use windlass_api::conditions as types;
use windlass_api::control_plane::KubeadmControlPlaneStatus;

use super::groups::{RESIZED, missing, resized};
use super::{Derived, Legacy, Severity};

const MACHINES_SPEC_UP_TO_DATE: &str = "MachinesSpecUpToDate";

/// Completes the status of a control plane.
///
/// `status.ready` of v1beta1 is made from `readyReplicas` when the object is converted.
pub fn control_plane(status: &mut KubeadmControlPlaneStatus, now: Timestamp) {
    let all = &status.conditions;
    let warned = |type_| Legacy::of(type_, all, type_, Severity::Warning);
    // `Available` meant that the API server had been reached once.
    let available = Legacy::of(types::AVAILABLE, all, types::INITIALIZED, Severity::Info);
    let mut up_to_date =
        Legacy::of(MACHINES_SPEC_UP_TO_DATE, all, types::MACHINES_UP_TO_DATE, Severity::Warning);
    if let Some(behind) = up_to_date.as_mut().filter(|found| !found.reason.is_empty()) {
        "RollingUpdateInProgress".clone_into(&mut behind.reason);
    }
    let certificates = warned(types::CERTIFICATES_AVAILABLE);
    let machines = Legacy::of(types::MACHINES_READY, all, types::MACHINES_READY, Severity::Info);
    let resized = resized(all);
    let parts = [&up_to_date, &resized, &machines, &available, &certificates].map(Option::as_ref);
    let ready = Legacy::ready(&parts);
    let found = vec![
        ready,
        available,
        certificates,
        up_to_date,
        machines,
        resized,
        warned(types::CONTROL_PLANE_COMPONENTS_HEALTHY),
        warned(types::ETCD_CLUSTER_HEALTHY),
    ];
    let counters = [
        ("updatedReplicas", status.up_to_date_replicas.unwrap_or(0)),
        ("readyReplicas", status.ready_replicas.unwrap_or(0)),
        ("unavailableReplicas", missing(status.replicas, status.ready_replicas)),
    ];
    let types = [
        types::READY,
        types::AVAILABLE,
        types::CERTIFICATES_AVAILABLE,
        MACHINES_SPEC_UP_TO_DATE,
        types::MACHINES_READY,
        RESIZED,
        types::CONTROL_PLANE_COMPONENTS_HEALTHY,
        types::ETCD_CLUSTER_HEALTHY,
    ];
    Derived { types: &types, found, counters: &counters }.write(&mut status.deprecated, now);
}
