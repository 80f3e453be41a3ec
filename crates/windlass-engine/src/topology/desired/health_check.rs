//! Health checks of control planes and MachineDeployments.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_api::cluster::{
    ControlPlaneClass, ControlPlaneTopology, HealthCheckRemediation, HealthChecks, MachineDeploymentClass,
    MachineDeploymentHealthCheckRemediation, MachineDeploymentTopology, MachineHealthCheck,
};
use windlass_api::names::{CONTROL_PLANE_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_OWNED_LABEL};

use super::{Inputs, name_of};

/// The health check of a control plane with machines, if class or topology define one and it is not switched off.
/// What the topology says replaces what the class says.
pub(super) fn of_control_plane(
    inputs: Inputs<'_>,
    class: &ControlPlaneClass,
    topology: &ControlPlaneTopology,
    control_plane: &Value,
) -> Option<Value> {
    class.machine_infrastructure.as_ref()?;
    let own = topology.health_check.as_ref();
    if own.is_some_and(|check| check.enabled == Some(false)) {
        return None;
    }
    let own = own.filter(|check| says_something(&check.checks) || check.remediation != Default::default());
    let (checks, remediation) = match (own, &class.health_check) {
        (Some(own), _) => (&own.checks, &own.remediation),
        (None, Some(class)) => (&class.checks, &class.remediation),
        (None, None) => return None,
    };
    let selector = [(CONTROL_PLANE_LABEL.to_owned(), String::new())].into();
    Some(build(inputs, name_of(control_plane), selector, checks, remediation))
}

/// The health check of a MachineDeployment.
pub(super) fn of_machine_deployment(
    inputs: Inputs<'_>,
    class: &MachineDeploymentClass,
    topology: &MachineDeploymentTopology,
    machine_deployment: &Value,
) -> Option<Value> {
    let (checks, remediation) = definition(class, topology)?;
    let remediation = HealthCheckRemediation {
        trigger_if: remediation.trigger_if.clone(),
        template_ref: remediation.template_ref.clone(),
    };
    let selector = [(TOPOLOGY_DEPLOYMENT_NAME_LABEL.to_owned(), topology.name.clone())].into();
    Some(build(inputs, name_of(machine_deployment), selector, checks, &remediation))
}

/// What makes a Machine of a MachineDeployment unhealthy, and what happens then.
pub(super) fn definition<'a>(
    class: &'a MachineDeploymentClass,
    topology: &'a MachineDeploymentTopology,
) -> Option<(&'a HealthChecks, &'a MachineDeploymentHealthCheckRemediation)> {
    let own = topology.health_check.as_ref();
    if own.is_some_and(|check| check.enabled == Some(false)) {
        return None;
    }
    let own = own.filter(|check| says_something(&check.checks) || check.remediation != Default::default());
    match (own, &class.health_check) {
        (Some(own), _) => Some((&own.checks, &own.remediation)),
        (None, Some(class)) => Some((&class.checks, &class.remediation)),
        (None, None) => None,
    }
}

fn says_something(checks: &HealthChecks) -> bool {
    *checks != HealthChecks::default()
}

fn build(
    inputs: Inputs<'_>,
    name: &str,
    mut selector: BTreeMap<String, String>,
    checks: &HealthChecks,
    remediation: &HealthCheckRemediation,
) -> Value {
    selector.insert(TOPOLOGY_OWNED_LABEL.to_owned(), String::new());
    let mut spec = json!({
        "clusterName": inputs.cluster_name(),
        "selector": {"matchLabels": selector},
        "checks": checks,
    });
    if *remediation != HealthCheckRemediation::default() {
        spec["remediation"] = json!(remediation);
    }
    json!({
        "apiVersion": MachineHealthCheck::API_VERSION,
        "kind": MachineHealthCheck::KIND,
        "metadata": {
            "namespace": inputs.namespace(),
            "name": name,
            "labels": inputs.labels(),
            "ownerReferences": [inputs.owner()],
        },
        "spec": spec,
    })
}
