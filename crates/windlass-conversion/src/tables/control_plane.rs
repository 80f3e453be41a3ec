//! KubeadmControlPlane and its template.

use crate::path::{get, put};
use crate::rule::{Code, Form, Rule, flag, moved, renamed, seconds, within};
use crate::tables::kubeadm::KUBEADM_CONFIG_SPEC;
use crate::tables::status::{
    CONDITIONS, FAILURES, OWN_COUNTERS, READY_BY_COUNT, READY_REPLICAS, UNAVAILABLE_REPLICAS,
    UPDATED_REPLICAS, completing,
};

pub(crate) const KUBEADM_CONTROL_PLANE: &[Rule] = &[
    within("spec", CONTROL_PLANE_SPEC),
    flag("status.initialized", "status.initialization.controlPlaneInitialized"),
    READY_BY_COUNT,
    UPDATED_REPLICAS,
    READY_REPLICAS,
    UNAVAILABLE_REPLICAS,
    OWN_COUNTERS,
    renamed("status.lastRemediation.timestamp", "status.lastRemediation.time"),
    CONDITIONS,
    FAILURES,
    completing!("updatedReplicas", "readyReplicas", "unavailableReplicas"),
];

pub(crate) const KUBEADM_CONTROL_PLANE_TEMPLATE: &[Rule] =
    &[within("spec.template.spec", CONTROL_PLANE_SPEC), Rule::Code(DEFAULT_STRATEGY)];

const CONTROL_PLANE_SPEC: &[Rule] = &[
    within("kubeadmConfigSpec", KUBEADM_CONFIG_SPEC),
    moved("machineTemplate.infrastructureRef", "machineTemplate.spec.infrastructureRef", Form::ProviderRef),
    renamed("machineTemplate.readinessGates", "machineTemplate.spec.readinessGates"),
    renamed("machineTemplate.taints", "machineTemplate.spec.taints"),
    seconds("machineTemplate.nodeDrainTimeout", "machineTemplate.spec.deletion.nodeDrainTimeoutSeconds"),
    seconds(
        "machineTemplate.nodeVolumeDetachTimeout",
        "machineTemplate.spec.deletion.nodeVolumeDetachTimeoutSeconds",
    ),
    seconds(
        "machineTemplate.nodeDeletionTimeout",
        "machineTemplate.spec.deletion.nodeDeletionTimeoutSeconds",
    ),
    renamed("rolloutBefore", "rollout.before"),
    renamed("rolloutAfter", "rollout.after"),
    renamed("rolloutStrategy", "rollout.strategy"),
    renamed("remediationStrategy.maxRetry", "remediation.maxRetry"),
    moved("remediationStrategy.retryPeriod", "remediation.retryPeriodSeconds", Form::PlainSeconds),
    seconds("remediationStrategy.minHealthyPeriod", "remediation.minHealthyPeriodSeconds"),
    renamed("machineNamingStrategy", "machineNaming"),
];

/// A strategy without a type is a rolling update; the schema of v1beta2 wants it said.
const DEFAULT_STRATEGY: Code = Code {
    up: |_, made, _, _| {
        let strategy = "spec.template.spec.rollout.strategy";
        if get(made, strategy).is_some_and(|strategy| strategy.get("type").is_none_or(|ty| ty == "")) {
            drop(crate::path::take(made, &format!("{strategy}.type")));
            put(made, &format!("{strategy}.type"), "RollingUpdate".into());
        }
        Ok(())
    },
    down: |_, _, _| Ok(()),
};
