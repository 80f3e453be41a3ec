//! Who belongs to whom: a Machine to its Cluster, a provider's objects to their Machine.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::ResourceExt;
use serde_json::{Map, json};
use windlass_api::api_version;
use windlass_api::cluster::{Cluster, Machine, MachineSet};
use windlass_api::names::{CLUSTER_GROUP, CLUSTER_NAME_LABEL};
use windlass_runtime::{Context, Incomplete, WriteError, controller_reference, owner_reference, uid_of};

use super::FINALIZER;
use super::observe::Seen;
use crate::external::External;
use crate::references::{self, ignore_gone, is_current};

/// Gives a Machine its label, its finalizer and, if it has no controller, its Cluster as owner; true if that was needed.
pub(super) async fn adopt(
    context: &Context,
    machine: &Machine,
    cluster: Option<&Cluster>,
) -> Result<bool, WriteError> {
    if machine.metadata.deletion_timestamp.is_some() {
        return Ok(false);
    }
    let mut metadata = Map::new();
    if !machine.finalizers().iter().any(|has| has == FINALIZER) {
        let mut finalizers = machine.finalizers().to_vec();
        finalizers.push(FINALIZER.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if machine.labels().get(CLUSTER_NAME_LABEL) != Some(&machine.spec.cluster_name) {
        metadata.insert("labels".to_owned(), json!({CLUSTER_NAME_LABEL: machine.spec.cluster_name}));
    }
    let controlled = machine.owner_references().iter().any(|owner| owner.controller == Some(true));
    if let Some(cluster) = cluster
        && !controlled
        && !machine.owner_references().iter().any(|owner| Some(&owner.uid) == cluster.uid().as_ref())
    {
        let mut owners = machine.owner_references().to_vec();
        owners.push(owner_reference(cluster)?);
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    if metadata.is_empty() {
        return Ok(false);
    }
    context.writer().patch(machine, json!({"metadata": metadata})).await?;
    Ok(true)
}

/// Makes a Machine the controller of its infrastructure machine and its bootstrap config.
pub(super) async fn claim(context: &Context, machine: &Machine, seen: &Seen) -> Result<(), WriteError> {
    for external in seen.externals() {
        if external.is_deleting() {
            continue;
        }
        if let Some(patch) = claimed(machine, external)? {
            let written = context.writer_of(&external.kind.resource).patch(&external.object, patch).await;
            ignore_gone(written)?;
        }
    }
    Ok(())
}

/// What has to change for an object to belong to a Machine.
fn claimed(machine: &Machine, external: &External) -> Result<Option<serde_json::Value>, Incomplete> {
    let uid = uid_of(machine)?;
    let object = external.object.as_ref();
    let maker = machine.owner_references().iter().find(|owner| owner.controller == Some(true));
    let is_maker = |owner: &OwnerReference| {
        // Machines move between MachineSets; what they leave behind is not kept.
        maker.is_some_and(|maker| maker.uid == owner.uid)
            || (owner.kind == MachineSet::KIND && api_version::group(&owner.api_version) == CLUSTER_GROUP)
    };
    let controller = controller_reference(machine)?;
    let owners = object.owner_references();
    let mut metadata = Map::new();
    if !owners.iter().any(|owner| is_current(owner, &controller)) || owners.iter().any(is_maker) {
        let mut wanted: Vec<OwnerReference> =
            owners.iter().filter(|owner| !is_maker(owner) && owner.uid != uid).cloned().collect();
        wanted.push(controller);
        metadata.insert("ownerReferences".to_owned(), json!(wanted));
    }
    if object.labels().get(CLUSTER_NAME_LABEL) != Some(&machine.spec.cluster_name) {
        metadata.insert("labels".to_owned(), json!({CLUSTER_NAME_LABEL: machine.spec.cluster_name}));
    }
    Ok((!metadata.is_empty()).then(|| json!({"metadata": metadata})))
}

/// Lets a Machine go.
pub(super) async fn release(context: &Context, machine: &Machine) -> Result<(), WriteError> {
    references::release(context, machine, FINALIZER).await
}
