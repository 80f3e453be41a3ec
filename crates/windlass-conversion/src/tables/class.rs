//! ClusterClass.

use crate::rule::{Form, Pairing, Rule, at, each, moved, renamed, within};
use crate::tables::status::CONDITIONS;
use crate::tables::topology::{HEALTH, STRATEGY, TIMEOUTS};

pub(crate) const CLUSTER_CLASS: &[Rule] = &[
    moved("spec.infrastructure.ref", "spec.infrastructure.templateRef", Form::TemplateRef),
    renamed("spec.infrastructureNamingStrategy", "spec.infrastructure.naming"),
    within("spec.controlPlane", CONTROL_PLANE),
    each(
        "spec.workers.machineDeployments",
        Pairing::Key("class"),
        &[STRATEGY, TIMEOUTS, HEALTH, NAMING, WORKER_TEMPLATE],
    ),
    each("spec.workers.machinePools", Pairing::Key("class"), &[TIMEOUTS, NAMING, WORKER_TEMPLATE]),
    each("spec.variables", Pairing::Key("name"), VARIABLE),
    each("spec.patches", Pairing::Key("name"), PATCH),
    each("status.variables", Pairing::Key("name"), STATUS_VARIABLE),
    CONDITIONS,
];

const CONTROL_PLANE: &[Rule] = &[
    moved("ref", "templateRef", Form::TemplateRef),
    moved("machineInfrastructure.ref", "machineInfrastructure.templateRef", Form::TemplateRef),
    TIMEOUTS,
    HEALTH,
    NAMING,
];

const NAMING: Rule = renamed("namingStrategy", "naming");

const WORKER_TEMPLATE: Rule = Rule::All(&[
    renamed("template.metadata", "metadata"),
    moved("template.bootstrap.ref", "bootstrap.templateRef", Form::TemplateRef),
    moved("template.infrastructure.ref", "infrastructure.templateRef", Form::TemplateRef),
]);

const VARIABLE: &[Rule] =
    &[renamed("metadata", "deprecatedV1Beta1Metadata"), at("schema.openAPIV3Schema", Form::Schema)];

const STATUS_VARIABLE: &[Rule] =
    &[at("definitionsConflict", Form::Flag), each("definitions", Pairing::Key("from"), VARIABLE)];

const PATCH: &[Rule] = &[
    renamed("external.generateExtension", "external.generatePatchesExtension"),
    renamed("external.validateExtension", "external.validateTopologyExtension"),
    each(
        "definitions",
        Pairing::Place,
        &[within(
            "selector.matchResources",
            &[at("controlPlane", Form::Flag), at("infrastructureCluster", Form::Flag)],
        )],
    ),
];
