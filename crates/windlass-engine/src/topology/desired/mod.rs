//! What a topology is built from, and what comes out: the objects as they should be.
//!
//! Objects of our own kinds have their types; those of providers are plain JSON, because their kinds are not known here.
//! Names of what exists already are kept, so that what is desired can be compared with what is there; what is new gets a
//! name from [`Names`].

mod clone;
mod control_plane;
mod health_check;
mod infrastructure;
mod names;
mod rotation;
mod templates;
mod workers;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference};
use kube_core::ObjectMeta;
use serde_json::Value;
use windlass_api::api_version;
use windlass_api::cluster::{
    Cluster, ClusterClass, ContractVersionedObjectReference, MachineDeployment, MachineHealthCheck,
    MachinePool, MachineTemplateSpec, TemplateMeta, Topology,
};
use windlass_api::hooks::HolderReference;
use windlass_api::identity::{Incomplete, controller_reference, owner_reference};
use windlass_api::names::{CLUSTER_NAME_LABEL, TOPOLOGY_OWNED_LABEL};

use super::observed::WorkerKind;
use super::patches::PatchError;
use super::upgrade::Decision;
use crate::contract::Contract;
pub use names::{NameError, NameSource, Names};
pub use rotation::{TemplateChange, template_change};
use templates::Pass;
pub use templates::{PatchVariables, TemplateItem, Templates};

/// A class with everything that it points to.
#[derive(Clone, Debug, PartialEq)]
pub struct Blueprint {
    /// The class.
    pub class: ClusterClass,
    /// Template of the infrastructure.
    pub infrastructure: Value,
    /// Template of the control plane.
    pub control_plane: Value,
    /// The contract that the control plane keeps at the version of its template.
    pub control_plane_contract: Contract,
    /// Template of the infrastructure of control plane machines, if the control plane has machines.
    pub control_plane_machines: Option<Value>,
    /// Templates of workers, by the kind and the name of their class.
    pub workers: BTreeMap<(WorkerKind, String), GroupBlueprint>,
}

/// The templates of a class of workers.
#[derive(Clone, Debug, PartialEq)]
pub struct GroupBlueprint {
    /// Template of bootstrap configs.
    pub bootstrap: Value,
    /// Template of the infrastructure.
    pub infrastructure: Value,
}

/// Names of what exists already.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CurrentNames {
    /// The infrastructure.
    pub infrastructure: Option<String>,
    /// The control plane.
    pub control_plane: Option<String>,
    /// The template of the infrastructure of control plane machines.
    pub control_plane_machines: Option<String>,
    /// At which version the control plane refers to that template, if its contract wants one said. It stays: a provider
    /// may have raised it.
    pub control_plane_machines_api_version: Option<String>,
    /// Worker groups, by their kind and their name in the topology.
    pub workers: BTreeMap<(WorkerKind, String), GroupNames>,
}

/// Names of a worker group's objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupNames {
    /// The group.
    pub object: Option<String>,
    /// Its bootstrap template or config.
    pub bootstrap: Option<String>,
    /// Its infrastructure template or object.
    pub infrastructure: Option<String>,
}

/// The objects as they should be.
#[derive(Clone, Debug, PartialEq)]
pub struct Desired {
    /// The infrastructure.
    pub infrastructure: Value,
    /// The template of the infrastructure of control plane machines.
    pub control_plane_machines: Option<Value>,
    /// The control plane.
    pub control_plane: Value,
    /// The health check of the control plane.
    pub control_plane_health_check: Option<MachineHealthCheck>,
    /// The worker groups, in the order of the topology.
    pub workers: Vec<DesiredGroup>,
}

/// The objects of a worker group as they should be.
#[derive(Clone, Debug, PartialEq)]
pub struct DesiredGroup {
    /// Name in the topology.
    pub topology_name: String,
    /// The group itself.
    pub workers: DesiredWorkers,
    /// The template of its bootstrap configs; of a MachinePool, the config.
    pub bootstrap: Value,
    /// The template of its infrastructure; of a MachinePool, the object.
    pub infrastructure: Value,
}

/// A worker group as it should be.
#[derive(Clone, Debug, PartialEq)]
pub enum DesiredWorkers {
    /// A MachineDeployment.
    MachineDeployment {
        /// The object.
        object: Box<MachineDeployment>,
        /// Its health check, if it should have one.
        health_check: Option<Box<MachineHealthCheck>>,
    },
    /// A MachinePool.
    MachinePool(Box<MachinePool>),
}

impl DesiredGroup {
    /// Whether it is a MachineDeployment or a MachinePool.
    pub const fn kind(&self) -> WorkerKind {
        match self.workers {
            DesiredWorkers::MachineDeployment { .. } => WorkerKind::MachineDeployment,
            DesiredWorkers::MachinePool(_) => WorkerKind::MachinePool,
        }
    }

    /// Makes the group refer to its bootstrap and infrastructure under the names that they have now.
    pub fn refer_to_parts(&mut self) {
        let template: &mut MachineTemplateSpec = match &mut self.workers {
            DesiredWorkers::MachineDeployment { object, .. } => &mut object.spec.template,
            DesiredWorkers::MachinePool(object) => &mut object.spec.template,
        };
        template.spec.bootstrap.config_ref = Some(reference(&self.bootstrap));
        template.spec.infrastructure_ref = reference(&self.infrastructure);
    }
}

/// Objects that cannot be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The Cluster has no topology.
    #[error("spec.topology is not set")]
    NoTopology,
    /// A worker group is of a class that does not exist.
    #[error("{field}: class {class:?} does not exist in the ClusterClass")]
    UnknownClass {
        /// The field that names the class.
        field: String,
        /// The class.
        class: String,
    },
    /// The Cluster does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// A name cannot be made.
    #[error(transparent)]
    Name(#[from] NameError),
    /// A patch cannot be applied.
    #[error(transparent)]
    Patch(#[from] Box<PatchError>),
}

/// What everything is built from.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// The Cluster.
    pub cluster: &'a Cluster,
    /// The class of the Cluster, with the templates that it refers to.
    pub blueprint: &'a Blueprint,
    /// What exists already.
    pub current: &'a CurrentNames,
    /// The versions.
    pub decision: &'a Decision,
}

impl Desired {
    /// Builds the objects, with the inline patches of the class.
    ///
    /// # Errors
    ///
    /// When the topology names what the class does not have, or a patch or a name cannot be evaluated.
    pub fn build(inputs: Inputs<'_>, names: &mut dyn NameSource) -> Result<Self, BuildError> {
        let (desired, mut templates) = Self::collect(inputs, names)?;
        let (class, topology) = (&inputs.blueprint.class, inputs.topology()?);
        let mut inline = class.spec.patches.iter().filter(|patch| patch.external.is_none()).peekable();
        if inline.peek().is_none() {
            return Ok(desired);
        }
        for patch in inline {
            templates.patch_inline(class, &topology.variables, patch)?;
        }
        Self::from_templates(inputs, templates)
    }

    /// The templates that the objects are built from, to be patched by extensions.
    ///
    /// # Errors
    ///
    /// When the topology names what the class does not have, or a name cannot be evaluated.
    pub fn templates(inputs: Inputs<'_>, names: &mut dyn NameSource) -> Result<Templates, BuildError> {
        Self::collect(inputs, names).map(|(_, templates)| templates)
    }

    /// Builds the objects from patched templates, with the names that patches were told.
    ///
    /// # Errors
    ///
    /// When the topology names what the class does not have, or a name cannot be evaluated.
    pub fn from_templates(inputs: Inputs<'_>, templates: Templates) -> Result<Self, BuildError> {
        templates::with_templates(inputs.cluster_name(), templates, |pass| Self::pass(inputs, pass))
    }

    fn collect(inputs: Inputs<'_>, names: &mut dyn NameSource) -> Result<(Self, Templates), BuildError> {
        templates::collect(inputs.cluster_name(), names, |pass| Self::pass(inputs, pass))
    }

    fn pass(inputs: Inputs<'_>, pass: &mut Pass<'_>) -> Result<Self, BuildError> {
        let topology = inputs.topology()?;
        let infrastructure = infrastructure::build(inputs, pass)?;
        let parts = control_plane::build(inputs, topology, pass)?;
        Ok(Self {
            infrastructure,
            control_plane_machines: parts.machines,
            control_plane: parts.control_plane,
            control_plane_health_check: parts.health_check,
            workers: workers::build(inputs, topology, pass)?,
        })
    }
}

impl<'a> Inputs<'a> {
    fn topology(&self) -> Result<&'a Topology, BuildError> {
        self.cluster.spec.topology.as_ref().ok_or(BuildError::NoTopology)
    }

    fn cluster_name(&self) -> &'a str {
        self.cluster.metadata.name.as_deref().unwrap_or_default()
    }

    fn namespace(&self) -> &'a str {
        self.cluster.metadata.namespace.as_deref().unwrap_or_default()
    }

    /// The Cluster as what refers to a template.
    fn cluster_holder(&self, field_path: &str) -> HolderReference {
        self.holder(Cluster::API_VERSION, Cluster::KIND, self.cluster_name(), field_path)
    }

    fn holder(&self, api_version: &str, kind: &str, name: &str, field_path: &str) -> HolderReference {
        HolderReference {
            api_version: api_version.to_owned(),
            kind: kind.to_owned(),
            namespace: self.namespace().to_owned(),
            name: name.to_owned(),
            field_path: field_path.to_owned(),
        }
    }

    /// The Cluster as the owner of an object.
    fn owner(&self) -> Result<OwnerReference, Incomplete> {
        owner_reference(self.cluster)
    }

    /// The Cluster as the owner that controls an object. The Cluster's own controller says the same of its
    /// infrastructure and its control plane: with anything else, the two would undo each other's writes forever.
    fn controlling_owner(&self) -> Result<OwnerReference, Incomplete> {
        controller_reference(self.cluster)
    }

    /// Metadata of an object of our own kinds.
    fn metadata(&self, name: String) -> Result<ObjectMeta, Incomplete> {
        Ok(ObjectMeta {
            namespace: Some(self.namespace().to_owned()),
            name: Some(name),
            labels: Some(self.labels()),
            owner_references: Some(vec![self.owner()?]),
            ..ObjectMeta::default()
        })
    }

    /// The labels that everything of a topology has.
    fn labels(&self) -> BTreeMap<String, String> {
        [
            (CLUSTER_NAME_LABEL.to_owned(), self.cluster_name().to_owned()),
            (TOPOLOGY_OWNED_LABEL.to_owned(), String::new()),
        ]
        .into()
    }
}

/// Labels and annotations of the class, those of the topology over them.
fn merged(class: &TemplateMeta, topology: &TemplateMeta) -> TemplateMeta {
    let mut merged = class.clone();
    merged.labels.extend(topology.labels.clone());
    merged.annotations.extend(topology.annotations.clone());
    merged
}

/// A reference to a provider's object. It needs no version.
pub fn reference(object: &Value) -> ContractVersionedObjectReference {
    let string = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    ContractVersionedObjectReference {
        api_group: api_version::group(string("/apiVersion")).to_owned(),
        kind: string("/kind").to_owned(),
        name: string("/metadata/name").to_owned(),
    }
}

fn match_labels(labels: BTreeMap<String, String>) -> LabelSelector {
    LabelSelector { match_labels: Some(labels), ..LabelSelector::default() }
}
