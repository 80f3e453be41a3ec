//! Machine and the kinds that own machines.

use crate::rule::{Form, Rule, at, flag, moved, renamed, within};
use crate::tables::status::{
    AVAILABLE_REPLICAS, CONDITIONS, FAILURES, FULLY_LABELED_REPLICAS, OWN_COUNTERS, READY_REPLICAS,
    UNAVAILABLE_REPLICAS, UPDATED_REPLICAS, completing,
};
use crate::tables::topology::TIMEOUTS;

/// The spec of a Machine, on its own and in a template.
const MACHINE_SPEC: &[Rule] =
    &[at("infrastructureRef", Form::ProviderRef), at("bootstrap.configRef", Form::ProviderRef), TIMEOUTS];

const INITIALIZATION: Rule = Rule::All(&[
    flag("status.bootstrapReady", "status.initialization.bootstrapDataSecretCreated"),
    flag("status.infrastructureReady", "status.initialization.infrastructureProvisioned"),
]);

pub(crate) const MACHINE: &[Rule] = &[
    Rule::Kept("spec.minReadySeconds"),
    within("spec", MACHINE_SPEC),
    INITIALIZATION,
    at("status.nodeRef", Form::NodeRef),
    at("status.phase", Form::Phase),
    Rule::Kept("status.failureDomain"),
    CONDITIONS,
    FAILURES,
];

pub(crate) const MACHINE_SET: &[Rule] = &[
    moved("spec.minReadySeconds", "spec.template.spec.minReadySeconds", Form::NonZero),
    renamed("spec.deletePolicy", "spec.deletion.order"),
    renamed("spec.machineNamingStrategy", "spec.machineNaming"),
    within("spec.template.spec", MACHINE_SPEC),
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    FULLY_LABELED_REPLICAS,
    OWN_COUNTERS,
    CONDITIONS,
    FAILURES,
    completing!("readyReplicas", "availableReplicas", "fullyLabeledReplicas"),
];

pub(crate) const MACHINE_DEPLOYMENT: &[Rule] = &[
    at("spec.paused", Form::Flag),
    renamed("spec.minReadySeconds", "spec.template.spec.minReadySeconds"),
    renamed("spec.strategy.remediation.maxInFlight", "spec.remediation.maxInFlight"),
    renamed("spec.strategy.rollingUpdate.deletePolicy", "spec.deletion.order"),
    renamed("spec.strategy", "spec.rollout.strategy"),
    renamed("spec.rolloutAfter", "spec.rollout.after"),
    renamed("spec.machineNamingStrategy", "spec.machineNaming"),
    Rule::Lost("spec.revisionHistoryLimit"),
    Rule::Lost("spec.progressDeadlineSeconds"),
    within("spec.template.spec", MACHINE_SPEC),
    UPDATED_REPLICAS,
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    UNAVAILABLE_REPLICAS,
    OWN_COUNTERS,
    CONDITIONS,
    completing!("updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas"),
];

pub(crate) const MACHINE_POOL: &[Rule] = &[
    renamed("spec.minReadySeconds", "spec.template.spec.minReadySeconds"),
    within("spec.template.spec", MACHINE_SPEC),
    INITIALIZATION,
    READY_REPLICAS,
    AVAILABLE_REPLICAS,
    UNAVAILABLE_REPLICAS,
    OWN_COUNTERS,
    CONDITIONS,
    FAILURES,
    completing!("readyReplicas", "availableReplicas", "unavailableReplicas"),
];
