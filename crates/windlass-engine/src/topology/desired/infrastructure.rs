//! The infrastructure of the cluster.

use std::collections::BTreeMap;

use serde_json::Value;

use super::clone::{self, Identity};
use super::templates::{Asked, Part, Pass};
use super::{BuildError, Inputs};
use crate::topology::patches::Builtins;

pub(super) fn build(inputs: Inputs<'_>, pass: &mut Pass<'_>) -> Result<Value, BuildError> {
    let naming = &inputs.blueprint.class.spec.infrastructure.naming.template;
    let name = pass.names.of_cluster(inputs.current.infrastructure.as_ref(), naming)?;
    let template = pass.template(Asked {
        part: Part::InfrastructureCluster,
        holder: inputs.cluster_holder("spec.infrastructureRef"),
        template: &inputs.blueprint.infrastructure,
        overrides: &[],
        builtin: &Builtins::new(inputs.cluster).of_cluster(),
    });
    let identity = Identity {
        namespace: inputs.namespace(),
        name,
        labels: inputs.labels(),
        annotations: BTreeMap::new(),
        owner: Some(inputs.controlling_owner()?),
    };
    Ok(clone::object(&template, identity))
}
