//! Saying what was found and decided: conditions of Machines, and the status of the control plane.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, StatusVersion};
use windlass_api::conditions::OWNER_REMEDIATED;
use windlass_api::control_plane::{
    KubeadmControlPlane, KubeadmControlPlaneInitializationStatus, KubeadmControlPlaneStatus,
    LastRemediationStatus,
};
use windlass_api::names::KUBEADM_CONTROL_PLANE_FIELD_MANAGER;
use windlass_engine::condition::{self, Finding};
use windlass_engine::control_plane::conditions::{self, MachineConditions};
use windlass_engine::control_plane::{
    Decision, Observed, ObservedMachine, RemediationOutcome, Step, desired,
};
use windlass_engine::external_update::EXTERNAL_UPDATE;
use windlass_engine::in_place::CAN_UPDATE_IN_PLACE;
use windlass_engine::legacy;
use windlass_engine::pause::not_paused;
use windlass_engine::versions;
use windlass_engine::waiting::{Wait, WaitingOn};
use windlass_runtime::{EventType, ObjectKey, WriteError};

use super::ask::Decided;
use super::health::Inspection;
use super::{ControlPlaneError, Scope};
use crate::{status, waits};

/// Writes the conditions of Machines that are the control plane's to say.
pub(super) async fn machines(
    scope: &Scope<'_>,
    machines: &[Arc<Machine>],
    observed: &Observed,
    decision: &Decision,
    inspection: &Inspection,
) -> Result<(), WriteError> {
    for (machine, seen) in machines.iter().zip(&observed.machines) {
        let mut findings = vec![conditions::up_to_date(seen, kubelet(machine))];
        findings.extend(inspection.findings.get(&seen.name).into_iter().flatten().map(|(_, f)| f.clone()));
        findings.extend(remediation(seen, decision));
        let types: Vec<String> = findings.iter().map(|finding| finding.type_.clone()).collect();
        let mut all = machine.status.conditions.clone();
        let mut changed = false;
        for finding in findings {
            let generation = machine.metadata.generation;
            changed |= condition::set(&mut all, finding, generation, scope.context.now());
        }
        if !changed {
            continue;
        }
        let ours: Vec<&Condition> = all.iter().filter(|condition| types.contains(&condition.type_)).collect();
        let intent = json!({
            "apiVersion": Machine::API_VERSION, "kind": Machine::KIND,
            "metadata": {"name": machine.name_any(), "namespace": machine.namespace(), "uid": machine.uid()},
            "status": {"conditions": ours},
        });
        let writer = scope.context.writer::<Machine>();
        match writer.apply_status(KUBEADM_CONTROL_PLANE_FIELD_MANAGER, &intent).await {
            // It went meanwhile.
            Err(error) if error.is_not_found() => {}
            other => drop(other?),
        }
    }
    Ok(())
}

/// `OwnerRemediated`, which a health check asks for and the owner answers.
fn remediation(machine: &ObservedMachine, decision: &Decision) -> Option<Finding> {
    if !machine.remediation_requested {
        return None;
    }
    if machine.deletion.is_some() {
        return Some(Finding::no(OWNER_REMEDIATED, "MachineDeleting"));
    }
    match &decision.remediation {
        Some(RemediationOutcome::Start(record)) if record.machine == machine.name => {
            Some(Finding::no(OWNER_REMEDIATED, "MachineDeleting").because("The Machine is being deleted"))
        }
        Some(RemediationOutcome::Blocked { machine: name, why }) if *name == machine.name => {
            Some(Finding::no(OWNER_REMEDIATED, why.reason()).because(why))
        }
        // Others are worse off, and come first.
        _ => Some(Finding::no(OWNER_REMEDIATED, "WaitingForRemediation")),
    }
}

/// Writes the status of the control plane, if it changed.
pub(super) async fn control_plane(
    scope: &Scope<'_>,
    machines: &[Arc<Machine>],
    observed: &Observed,
    decided: &Decided,
) -> Result<(), ControlPlaneError> {
    let decision = &decided.decision;
    let views: Vec<MachineConditions<'_>> = machines
        .iter()
        .zip(&observed.machines)
        .map(|(machine, seen)| MachineConditions {
            machine: seen,
            conditions: &machine.status.conditions,
            kubelet: kubelet(machine),
        })
        .collect();
    keep_wait(scope, decision).await?;
    let status = desired_status(scope, machines, observed, decided, &views);
    let Some(patch) = status::patch(&scope.control_plane.status, &status)? else { return Ok(()) };
    if let Step::Wait(waiting @ WaitingOn::Preflight { .. }) = &decision.step {
        let message = waiting.sentence().to_string();
        scope.context.event(scope.control_plane, EventType::Warning, "ControlPlaneUnhealthy", message);
    }
    let writer = scope.context.writer::<KubeadmControlPlane>();
    let key = ObjectKey::of(scope.control_plane);
    // Without a lock: the action before may have changed the object, and its status is ours alone.
    writer.patch_status_unconditionally(&key, patch).await?;
    Ok(())
}

/// Keeps what the control plane waits on, if that has changed.
async fn keep_wait(scope: &Scope<'_>, decision: &Decision) -> Result<(), WriteError> {
    let control_plane = scope.control_plane;
    let annotations = control_plane.metadata.annotations.as_ref();
    let wait = match &decision.step {
        Step::Wait(on) => Some(Wait::of(on, Wait::read(annotations).as_ref(), scope.context.now())),
        Step::Act(_) | Step::Settled => None,
    };
    let Some(value) = Wait::change(wait.as_ref(), annotations) else { return Ok(()) };
    waits::write(scope.context, control_plane, value).await
}

fn desired_status(
    scope: &Scope<'_>,
    machines: &[Arc<Machine>],
    observed: &Observed,
    decided: &Decided,
    views: &[MachineConditions<'_>],
) -> KubeadmControlPlaneStatus {
    let decision = &decided.decision;
    let before = &scope.control_plane.status;
    let generation = scope.control_plane.metadata.generation;
    let now = scope.context.now();
    let mut all = before.conditions.clone();
    let mut findings = conditions::conditions(observed, decision, views);
    findings.push(not_paused());
    for finding in findings {
        condition::set(&mut all, finding, generation, now);
    }
    decided.said.write(CAN_UPDATE_IN_PLACE, &mut all, generation, now);
    decided.external_update.write(EXTERNAL_UPDATE, &mut all, generation, now);
    let counters = conditions::counters(views);
    let counted = versions::of_machines(
        machines.iter().map(|machine| (kubelet(machine), Some(machine.spec.version.as_str()))),
    );
    let versions: Vec<StatusVersion> = counted
        .into_iter()
        .map(|count| StatusVersion { version: count.version, replicas: i32::try_from(count.replicas).ok() })
        .collect();
    let mut status = KubeadmControlPlaneStatus {
        conditions: all,
        initialization: KubeadmControlPlaneInitializationStatus {
            control_plane_initialized: observed
                .initialized
                .then_some(true)
                .or(before.initialization.control_plane_initialized),
        },
        selector: desired::selector(scope.control_plane, &scope.cluster_name()),
        replicas: Some(counters.replicas),
        ready_replicas: Some(counters.ready),
        available_replicas: Some(counters.available),
        up_to_date_replicas: Some(counters.up_to_date),
        version: versions.first().map(|oldest| oldest.version.clone()).unwrap_or_default(),
        versions,
        observed_generation: generation,
        last_remediation: last_remediation(observed, decision).or_else(|| before.last_remediation.clone()),
        deprecated: before.deprecated.clone(),
    };
    legacy::control_plane(&mut status, now);
    status
}

fn last_remediation(observed: &Observed, decision: &Decision) -> Option<LastRemediationStatus> {
    let started = match &decision.remediation {
        Some(RemediationOutcome::Start(record)) => Some(record),
        _ => None,
    };
    let carried = observed.machines.iter().filter_map(|machine| machine.remediation_for.as_ref());
    let all = started.into_iter().chain(&observed.remediation_in_progress).chain(carried);
    let last = all.max_by_key(|record| record.timestamp)?;
    Some(LastRemediationStatus {
        machine: last.machine.clone(),
        time: Some(Time(last.timestamp)),
        retry_count: i32::try_from(last.retry_count).ok(),
    })
}

fn kubelet(machine: &Machine) -> Option<&str> {
    let version = machine.status.node_info.as_ref().map(|info| info.kubelet_version.as_str());
    version.filter(|version| !version.is_empty())
}
