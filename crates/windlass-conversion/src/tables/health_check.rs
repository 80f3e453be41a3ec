//! Health checks: on their own, in classes and in topologies.

use crate::rule::{Form, Pairing, Rule, at, moved, renamed, seconds, within};
use crate::tables::status::CONDITIONS;

pub(crate) const MACHINE_HEALTH_CHECK: &[Rule] = &[
    within("spec", HEALTH_CHECK),
    at("status.expectedMachines", Form::Count),
    at("status.currentHealthy", Form::Count),
    at("status.remediationsAllowed", Form::Count),
    CONDITIONS,
];

pub(crate) const HEALTH_CHECK: &[Rule] = &[
    renamed("enable", "enabled"),
    moved(
        "unhealthyConditions",
        "checks.unhealthyNodeConditions",
        Form::List(UNHEALTHY_CONDITION, Pairing::Place),
    ),
    moved(
        "unhealthyMachineConditions",
        "checks.unhealthyMachineConditions",
        Form::List(UNHEALTHY_CONDITION, Pairing::Place),
    ),
    seconds("nodeStartupTimeout", "checks.nodeStartupTimeoutSeconds"),
    renamed("maxUnhealthy", "remediation.triggerIf.unhealthyLessThanOrEqualTo"),
    renamed("unhealthyRange", "remediation.triggerIf.unhealthyInRange"),
    moved("remediationTemplate", "remediation.templateRef", Form::TemplateRef),
];

const UNHEALTHY_CONDITION: &[Rule] = &[seconds("timeout", "timeoutSeconds")];
