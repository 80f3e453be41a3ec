//! Templates that are not used any more.
//!
//! A change of what machines are made from makes a new template. The one before is needed as long as a MachineSet may
//! create machines from it. One that was created before a crash, and never referred to, is not needed at all. Both are
//! found by looking, so that no finalizer has to remember them.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use windlass_api::cluster::{Cluster, ContractVersionedObjectReference, MachineSet};
use windlass_api::names::{CLUSTER_NAME_LABEL, TOPOLOGY_OWNED_LABEL};
use windlass_engine::topology::desired::Blueprint;
use windlass_runtime::{Cache, Context, ObjectKey};

use super::blueprint::references;
use super::current::Current;
use super::errors::TopologyError;
use crate::external::resource;

/// Deletes templates of the topology that nothing refers to. Must come before anything is written: what was written
/// in this reconcile is not in the caches yet.
pub(super) async fn sweep(
    context: &Context,
    machine_sets: &Cache<MachineSet>,
    cluster: &Cluster,
    blueprint: &Blueprint,
    current: &Current,
) -> Result<(), TopologyError> {
    let namespace = ObjectKey::of(cluster).namespace;
    let of_cluster: BTreeMap<String, String> = [(CLUSTER_NAME_LABEL.to_owned(), cluster.name_any())].into();
    let mut owned = of_cluster.clone();
    owned.insert(TOPOLOGY_OWNED_LABEL.to_owned(), String::new());

    let mut used: BTreeSet<(String, String)> = BTreeSet::new();
    let mut uses = |reference: &ContractVersionedObjectReference| {
        used.insert((reference.kind.clone(), reference.name.clone()));
    };
    current.control_plane_machines.iter().for_each(&mut uses);
    for group in current.machine_deployments.values() {
        let machine = &group.spec.template.spec;
        machine.bootstrap.config_ref.iter().chain([&machine.infrastructure_ref]).for_each(&mut uses);
    }
    for set in machine_sets.labelled(&namespace, &of_cluster) {
        let machine = &set.spec.template.spec;
        machine.bootstrap.config_ref.iter().chain([&machine.infrastructure_ref]).for_each(&mut uses);
    }
    let kinds: BTreeSet<(&str, &str)> = references(&blueprint.class)
        .map(|reference| (reference.api_version.as_str(), reference.kind.as_str()))
        .collect();
    for (api_version, kind) in kinds {
        let resource = resource(api_version, kind);
        let cache = context.watch(&resource).await?;
        for template in cache.labelled(&namespace, &owned) {
            let in_use = used.contains(&(kind.to_owned(), template.name_any()));
            let is_ours =
                template.owner_references().iter().any(|owner| Some(&owner.uid) == cluster.uid().as_ref());
            if !in_use && is_ours && template.metadata.deletion_timestamp.is_none() {
                context.writer_of(&resource).delete(template.as_ref()).await?;
            }
        }
    }
    Ok(())
}
