//! The infrastructure of the cluster.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_api::cluster::Topology;

use super::clone::{self, Identity};
use super::{BuildError, Inputs, Names};
use crate::topology::patches::{Builtins, TemplateRole, apply_inline, values_for};

pub(super) fn build(
    inputs: Inputs<'_>,
    topology: &Topology,
    names: &mut Names<'_>,
) -> Result<Value, BuildError> {
    let class = &inputs.blueprint.class;
    let naming = &class.spec.infrastructure.naming.template;
    let name = names.of_cluster(inputs.current.infrastructure.as_ref(), naming)?;
    let builtin = Builtins::new(inputs.cluster).of_cluster();
    let variables = values_for(class, &topology.variables, &[], builtin);
    let template = apply_inline(
        class,
        TemplateRole::InfrastructureCluster,
        &inputs.blueprint.infrastructure,
        &variables,
    )?;
    let identity = Identity {
        namespace: inputs.namespace(),
        name,
        labels: inputs.labels(),
        annotations: BTreeMap::new(),
        owner: Some(inputs.controlling_owner()),
    };
    Ok(clone::object(&template, identity))
}
