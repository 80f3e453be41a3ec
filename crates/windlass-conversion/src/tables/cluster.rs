//! Cluster.

use crate::rule::{Form, Pairing, Rule, at, each, flag, renamed, within};
use crate::tables::status::{CONDITIONS, FAILURES};
use crate::tables::topology::{HEALTH, STRATEGY, TIMEOUTS};

pub(crate) const CLUSTER: &[Rule] = &[
    at("spec.paused", Form::Flag),
    at("spec.clusterNetwork.apiServerPort", Form::NonZero),
    at("spec.controlPlaneEndpoint.port", Form::NonZero),
    at("spec.infrastructureRef", Form::ProviderRef),
    at("spec.controlPlaneRef", Form::ProviderRef),
    within("spec.topology", TOPOLOGY),
    flag("status.infrastructureReady", "status.initialization.infrastructureProvisioned"),
    flag("status.controlPlaneReady", "status.initialization.controlPlaneInitialized"),
    at("status.failureDomains", Form::NamedObjects),
    renamed("status.v1beta2.controlPlane", "status.controlPlane"),
    renamed("status.v1beta2.workers", "status.workers"),
    CONDITIONS,
    FAILURES,
];

const TOPOLOGY: &[Rule] = &[
    renamed("class", "classRef.name"),
    renamed("classNamespace", "classRef.namespace"),
    Rule::Lost("rolloutAfter"),
    each("variables", Pairing::Key("name"), VARIABLE),
    within("controlPlane", &[TIMEOUTS, HEALTH, OVERRIDES]),
    each("workers.machineDeployments", Pairing::Key("name"), &[STRATEGY, TIMEOUTS, HEALTH, OVERRIDES]),
    each("workers.machinePools", Pairing::Key("name"), &[TIMEOUTS, OVERRIDES]),
];

const VARIABLE: &[Rule] = &[Rule::Lost("definitionFrom")];
const OVERRIDES: Rule = each("variables.overrides", Pairing::Key("name"), VARIABLE);
