//! Machines as their MachineSet wants them.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use windlass_api::cluster::{Bootstrap, ContractVersionedObjectReference, Machine, MachineSet, MachineSpec};
use windlass_api::identity::{Incomplete, controller_reference, name_of};
use windlass_api::names::{CLUSTER_NAME_LABEL, MACHINE_DEPLOYMENT_NAME_LABEL, MACHINE_SET_NAME_LABEL};

use crate::hash::label_value;

/// The objects of a provider that a new machine is made with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// The bootstrap config, if its template was cloned.
    pub bootstrap: Option<ContractVersionedObjectReference>,
    /// The infrastructure.
    pub infrastructure: ContractVersionedObjectReference,
}

/// A new machine.
///
/// # Errors
///
/// The MachineSet does not say which one it is.
pub fn new_machine(set: &MachineSet, name: &str, parts: Parts) -> Result<Machine, Incomplete> {
    let template = &set.spec.template;
    let bootstrap = Bootstrap {
        config_ref: parts.bootstrap,
        data_secret_name: template.spec.bootstrap.data_secret_name.clone(),
    };
    let spec = MachineSpec {
        cluster_name: set.spec.cluster_name.clone(),
        bootstrap,
        infrastructure_ref: parts.infrastructure,
        ..template.spec.clone()
    };
    Ok(Machine { metadata: metadata(set, name, None)?, spec, ..Machine::default() })
}

/// What a MachineSet wants of a machine that it has: labels and annotations, and what can be changed without replacing or
/// updating it. Version, failure domain and references stay as they are on the machine.
///
/// A machine on its way out gets only what its deletion may need.
///
/// # Errors
///
/// The MachineSet or the machine does not say which one it is.
pub fn synced_machine(set: &MachineSet, machine: &Machine) -> Result<Machine, Incomplete> {
    let template = &set.spec.template.spec;
    let spec = MachineSpec {
        min_ready_seconds: template.min_ready_seconds,
        readiness_gates: template.readiness_gates.clone(),
        deletion: template.deletion,
        taints: template.taints.clone(),
        // These two are filled in by the controller of the machine, and stay its own.
        provider_id: String::new(),
        bootstrap: Bootstrap {
            data_secret_name: template.bootstrap.data_secret_name.clone(),
            config_ref: machine.spec.bootstrap.config_ref.clone(),
        },
        ..machine.spec.clone()
    };
    let mut metadata = metadata(set, name_of(machine)?, machine.metadata.uid.clone())?;
    if machine.metadata.deletion_timestamp.is_some() {
        metadata.labels = as_they_are(machine.metadata.labels.as_ref(), metadata.labels.as_ref());
        metadata.annotations =
            as_they_are(machine.metadata.annotations.as_ref(), metadata.annotations.as_ref());
    }
    Ok(Machine { metadata, spec, ..Machine::default() })
}

/// What a MachineSet wants of a machine that was handed over to it and is updated in place: as [`synced_machine`], with
/// the version and the failure domain of its template.
///
/// # Errors
///
/// The MachineSet or the machine does not say which one it is.
pub fn updated_machine(set: &MachineSet, machine: &Machine) -> Result<Machine, Incomplete> {
    let mut updated = synced_machine(set, machine)?;
    let template = &set.spec.template.spec;
    updated.spec.version.clone_from(&template.version);
    // A template that does not care leaves the machine where it is.
    if !template.failure_domain.is_empty() {
        updated.spec.failure_domain.clone_from(&template.failure_domain);
    }
    Ok(updated)
}

/// What is there of what is wanted. It stays in the intent, so that it stays on the machine.
fn as_they_are(
    there: Option<&BTreeMap<String, String>>,
    wanted: Option<&BTreeMap<String, String>>,
) -> Option<BTreeMap<String, String>> {
    let kept =
        there.into_iter().flatten().filter(|(key, _)| wanted.is_some_and(|wanted| wanted.contains_key(*key)));
    Some(kept.map(|(key, value)| (key.clone(), value.clone())).collect())
}

/// The labels of the machines of a MachineSet, and of the objects of providers that belong to them.
///
/// # Errors
///
/// The MachineSet has no name.
pub fn machine_labels(set: &MachineSet) -> Result<BTreeMap<String, String>, Incomplete> {
    let mut labels = set.spec.template.metadata.labels.clone();
    labels.insert(CLUSTER_NAME_LABEL.to_owned(), set.spec.cluster_name.clone());
    let deployment =
        set.metadata.labels.as_ref().and_then(|labels| labels.get(MACHINE_DEPLOYMENT_NAME_LABEL));
    if let Some(deployment) = deployment {
        labels.insert(MACHINE_DEPLOYMENT_NAME_LABEL.to_owned(), deployment.clone());
    }
    labels.insert(MACHINE_SET_NAME_LABEL.to_owned(), label_value(name_of(set)?));
    Ok(labels)
}

fn metadata(set: &MachineSet, name: &str, uid: Option<String>) -> Result<ObjectMeta, Incomplete> {
    Ok(ObjectMeta {
        name: Some(name.to_owned()),
        namespace: set.metadata.namespace.clone(),
        uid,
        labels: Some(machine_labels(set)?),
        annotations: Some(set.spec.template.metadata.annotations.clone()),
        owner_references: Some(vec![controller_reference(set)?]),
        ..ObjectMeta::default()
    })
}
