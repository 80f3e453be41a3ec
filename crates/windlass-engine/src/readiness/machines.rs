//! Machines that would not be left alone.

use serde_json::Value;
use windlass_api::conditions::{HEALTH_CHECK_SUCCEEDED, OWNER_REMEDIATED};
use windlass_api::hooks::Hook;
use windlass_api::names::{
    PENDING_HOOKS_ANNOTATION, SKIP_REMEDIATION_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};

use super::object::{annotation, condition, full_name, is_paused_itself, name, namespace};
use super::{Finding, Level, Objects};

pub(super) fn findings(objects: &Objects) -> Vec<Finding> {
    let mut findings = Vec::new();
    for machine in &objects.machines {
        let about = format!("Machine {}", full_name(machine));
        findings.extend(updating(machine).map(|what| Finding::new(Level::Note, &about, what, "")));
        if let Some(evidence) = unhealthy(machine) {
            let remedy = format!(
                "kubectl annotate machine {} -n {} {SKIP_REMEDIATION_ANNOTATION}= to keep it",
                name(machine),
                namespace(machine)
            );
            let what = format!("{evidence}: it is remediated in the first minute");
            findings.push(Finding::new(Level::Warning, &about, what, remedy));
        }
    }
    for (kind, objects) in [
        ("Machine", &objects.machines),
        ("MachineDeployment", &objects.machine_deployments),
        ("MachinePool", &objects.machine_pools),
        ("MachineHealthCheck", &objects.machine_health_checks),
        ("control plane", &objects.control_planes),
        ("ClusterClass", &objects.cluster_classes),
    ] {
        for object in objects.iter().filter(|object| is_paused_itself(object)) {
            let about = format!("{kind} {}", full_name(object));
            findings.push(Finding::new(Level::Note, about, "is paused and stays untouched", ""));
        }
    }
    findings
}

/// How far an update in place is that another program has begun.
fn updating(machine: &Value) -> Option<&'static str> {
    annotation(machine, UPDATE_IN_PROGRESS_ANNOTATION)?;
    let pending = annotation(machine, PENDING_HOOKS_ANNOTATION).unwrap_or_default();
    let has_hook = pending.split(',').any(|hook| hook.trim() == Hook::UpdateMachine.name());
    Some(match has_hook {
        true => "is being updated in place: Windlass finishes the update",
        false => "is marked for an update in place that has not begun: Windlass begins and finishes it",
    })
}

/// What says that a Machine is to be remediated.
fn unhealthy(machine: &Value) -> Option<&'static str> {
    if annotation(machine, SKIP_REMEDIATION_ANNOTATION).is_some() || is_paused_itself(machine) {
        return None;
    }
    let is_false = |kind| condition(machine, kind) == Some("False");
    match (is_false(OWNER_REMEDIATED), is_false(HEALTH_CHECK_SUCCEEDED)) {
        (true, _) => Some("is marked for remediation (OwnerRemediated is False)"),
        (false, true) => Some("has failed its health check (HealthCheckSucceeded is False)"),
        (false, false) => None,
    }
}
