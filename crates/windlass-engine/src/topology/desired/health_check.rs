//! Health checks of control planes and MachineDeployments.

use std::collections::BTreeMap;

use windlass_api::cluster::{
    ControlPlaneClass, ControlPlaneTopology, HealthCheckRemediation, HealthChecks, MachineDeploymentClass,
    MachineDeploymentHealthCheckRemediation, MachineDeploymentTopology, MachineHealthCheck,
    MachineHealthCheckSpec,
};
use windlass_api::identity::Incomplete;
use windlass_api::names::{CONTROL_PLANE_LABEL, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_OWNED_LABEL};

use super::{Inputs, match_labels};

/// The health check of a control plane with machines, if class or topology define one and it is not switched off.
pub(super) fn of_control_plane(
    inputs: Inputs<'_>,
    class: &ControlPlaneClass,
    topology: &ControlPlaneTopology,
    name: &str,
) -> Result<Option<MachineHealthCheck>, Incomplete> {
    let chosen = chosen(
        topology.health_check.as_ref().map(|own| (own.enabled, (&own.checks, &own.remediation))),
        class.health_check.as_ref().map(|class| (&class.checks, &class.remediation)),
    );
    let Some((checks, remediation)) = chosen.filter(|_| class.machine_infrastructure.is_some()) else {
        return Ok(None);
    };
    let selector = [(CONTROL_PLANE_LABEL.to_owned(), String::new())].into();
    build(inputs, name.to_owned(), selector, checks, remediation.clone()).map(Some)
}

/// The health check of a MachineDeployment, under the same name.
pub(super) fn of_machine_deployment(
    inputs: Inputs<'_>,
    class: &MachineDeploymentClass,
    topology: &MachineDeploymentTopology,
    machine_deployment: &str,
) -> Result<Option<Box<MachineHealthCheck>>, Incomplete> {
    let Some((checks, remediation)) = health_check(class, topology) else { return Ok(None) };
    let remediation = HealthCheckRemediation {
        trigger_if: remediation.trigger_if.clone(),
        template_ref: remediation.template_ref.clone(),
    };
    let selector = [(TOPOLOGY_DEPLOYMENT_NAME_LABEL.to_owned(), topology.name.clone())].into();
    let check = build(inputs, machine_deployment.to_owned(), selector, checks, remediation)?;
    Ok(Some(Box::new(check)))
}

/// What makes a Machine of a MachineDeployment unhealthy, and what happens then.
pub(super) fn health_check<'a>(
    class: &'a MachineDeploymentClass,
    topology: &'a MachineDeploymentTopology,
) -> Option<(&'a HealthChecks, &'a MachineDeploymentHealthCheckRemediation)> {
    chosen(
        topology.health_check.as_ref().map(|own| (own.enabled, (&own.checks, &own.remediation))),
        class.health_check.as_ref().map(|class| (&class.checks, &class.remediation)),
    )
}

/// What the topology says replaces all that the class says, if it says anything; it may also switch the check off.
fn chosen<'a, R: Default + PartialEq>(
    own: Option<(Option<bool>, (&'a HealthChecks, &'a R))>,
    class: Option<(&'a HealthChecks, &'a R)>,
) -> Option<(&'a HealthChecks, &'a R)> {
    match own {
        Some((Some(false), _)) => None,
        Some((_, (checks, remediation)))
            if *checks != HealthChecks::default() || *remediation != R::default() =>
        {
            Some((checks, remediation))
        }
        _ => class,
    }
}

fn build(
    inputs: Inputs<'_>,
    name: String,
    mut selector: BTreeMap<String, String>,
    checks: &HealthChecks,
    remediation: HealthCheckRemediation,
) -> Result<MachineHealthCheck, Incomplete> {
    selector.insert(TOPOLOGY_OWNED_LABEL.to_owned(), String::new());
    let spec = MachineHealthCheckSpec {
        cluster_name: inputs.cluster_name().to_owned(),
        selector: match_labels(selector),
        checks: checks.clone(),
        remediation,
    };
    Ok(MachineHealthCheck { metadata: inputs.metadata(name)?, spec, ..MachineHealthCheck::default() })
}
