//! Finalizers of Cluster API's topology controllers on worker groups.
//!
//! They delete the templates of a MachineDeployment or MachineSet before it goes. Here templates that are not used any more are found
//! by looking, so nothing has to be held for them; but what Cluster API has made, or its MachineDeployment controller still makes, has
//! the finalizers, and nothing else takes them off.

use std::collections::BTreeMap;

use kube::{Resource, ResourceExt};
use windlass_api::cluster::{Cluster, MachineDeployment, MachineSet};
use windlass_api::names::{
    CLUSTER_NAME_LABEL, TOPOLOGY_MACHINE_DEPLOYMENT_FINALIZER, TOPOLOGY_MACHINE_SET_FINALIZER,
};
use windlass_runtime::{Cache, Context, Kind, ObjectKey, WriteError};

use crate::references;

/// Lets the worker groups of a Cluster go that are being deleted.
pub(super) async fn release(
    context: &Context,
    machine_deployments: &Cache<MachineDeployment>,
    machine_sets: &Cache<MachineSet>,
    cluster: &Cluster,
) -> Result<(), WriteError> {
    release_all(context, machine_deployments, TOPOLOGY_MACHINE_DEPLOYMENT_FINALIZER, cluster).await?;
    release_all(context, machine_sets, TOPOLOGY_MACHINE_SET_FINALIZER, cluster).await
}

async fn release_all<K: Kind + Resource<DynamicType = ()>>(
    context: &Context,
    cache: &Cache<K>,
    finalizer: &str,
    cluster: &Cluster,
) -> Result<(), WriteError> {
    let namespace = ObjectKey::of(cluster).namespace;
    let of_cluster: BTreeMap<String, String> = [(CLUSTER_NAME_LABEL.to_owned(), cluster.name_any())].into();
    for object in cache.labelled(&namespace, &of_cluster) {
        if object.meta().deletion_timestamp.is_some() {
            references::release(context, object.as_ref(), finalizer).await?;
        }
    }
    Ok(())
}
