//! The kinds of the development provider.

use crate::rule::{Form, Rule, at, flag};
use crate::tables::status::CONDITIONS;

pub(crate) const DEV_CLUSTER: &[Rule] = &[
    at("spec.controlPlaneEndpoint.port", Form::NonZero),
    at("spec.backend.docker.failureDomains", Form::NamedObjects),
    PROVISIONED,
    at("status.failureDomains", Form::NamedObjects),
    CONDITIONS,
];

pub(crate) const DEV_CLUSTER_TEMPLATE: &[Rule] = &[
    at("spec.template.spec.controlPlaneEndpoint.port", Form::NonZero),
    at("spec.template.spec.backend.docker.failureDomains", Form::NamedObjects),
];

pub(crate) const DEV_MACHINE: &[Rule] = &[PROVISIONED, CONDITIONS];

const PROVISIONED: Rule = flag("status.ready", "status.initialization.provisioned");
