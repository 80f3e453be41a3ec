//! Machines of a pool: they show what its infrastructure has made, one for each object that the provider keeps for an instance.
//!
//! A MachineDeployment asks for Machines and infrastructure follows; here the infrastructure is first. A provider that keeps
//! objects for its instances names their kind in `status.infrastructureMachineKind`, and takes Machines away with them.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use windlass_api::cluster::{Bootstrap, ContractVersionedObjectReference, Machine, MachinePool, MachineSpec};
use windlass_api::names::{CLUSTER_NAME_LABEL, MACHINE_POOL_NAME_LABEL};

use super::nodes::{kubelet, provider_id};
use crate::hash::label_value;

/// The labels by which a provider says which pool an infrastructure machine belongs to, and which its Machine has, too.
pub fn labels_of_machines(pool: &MachinePool) -> BTreeMap<String, String> {
    let name = pool.metadata.name.as_deref().unwrap_or_default();
    BTreeMap::from([
        (CLUSTER_NAME_LABEL.to_owned(), pool.spec.cluster_name.clone()),
        (MACHINE_POOL_NAME_LABEL.to_owned(), label_value(name)),
    ])
}

/// Whether labels are those of a machine of this pool.
pub fn is_machine_of(pool: &MachinePool, labels: &BTreeMap<String, String>) -> bool {
    labels_of_machines(pool).iter().all(|(key, value)| labels.get(key) == Some(value))
}

/// An infrastructure machine that a provider keeps for an instance of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// The object.
    pub infrastructure: ContractVersionedObjectReference,
    /// How its Node says which machine it is, once that is known.
    pub provider_id: Option<String>,
    /// Whether it is on its way out.
    pub deleting: bool,
}

/// The Machine that shows an instance; nothing for an instance that goes and was never shown.
///
/// Its version is that of its kubelet: a pool brings its instances to a version in its own time. While there is no Node to ask,
/// what was known stays.
pub fn machine_of(
    pool: &MachinePool,
    instance: &Instance,
    existing: Option<&Machine>,
    nodes: &[&Node],
) -> Option<Machine> {
    if existing.is_none() && instance.deleting {
        return None;
    }
    let id = instance.provider_id.as_deref().filter(|id| !id.is_empty());
    let node = id.and_then(|id| nodes.iter().find(|node| provider_id(node) == id));
    let runs = node.and_then(|node| kubelet(node)).filter(|version| !version.is_empty());
    let version = runs.or(existing.map(|machine| machine.spec.version.as_str())).unwrap_or_default();
    let template = &pool.spec.template.metadata;
    let mut labels = template.labels.clone();
    labels.extend(labels_of_machines(pool));
    let name = existing.map_or(Some(&instance.infrastructure.name), |machine| machine.metadata.name.as_ref());
    Some(Machine {
        metadata: ObjectMeta {
            name: name.cloned(),
            namespace: pool.metadata.namespace.clone(),
            uid: existing.and_then(|machine| machine.metadata.uid.clone()),
            labels: Some(labels),
            annotations: Some(template.annotations.clone()),
            owner_references: Some(vec![controller_reference(pool)]),
            ..ObjectMeta::default()
        },
        spec: MachineSpec {
            cluster_name: pool.spec.cluster_name.clone(),
            // The pool is bootstrapped as a whole: no instance waits for data of its own.
            bootstrap: Bootstrap { config_ref: None, data_secret_name: Some(String::new()) },
            infrastructure_ref: instance.infrastructure.clone(),
            version: version.to_owned(),
            ..MachineSpec::default()
        },
        ..Machine::default()
    })
}

fn controller_reference(pool: &MachinePool) -> OwnerReference {
    OwnerReference {
        api_version: MachinePool::API_VERSION.to_owned(),
        kind: MachinePool::KIND.to_owned(),
        name: pool.metadata.name.clone().unwrap_or_default(),
        uid: pool.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}
