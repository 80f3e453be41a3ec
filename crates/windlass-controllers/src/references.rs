//! Objects of providers that an object points to: read by contract, claimed, deleted.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{Resource, ResourceExt};
use serde_json::{Map, Value, json};
use windlass_api::cluster::{Cluster, ContractVersionedObjectReference, Machine};
use windlass_api::names::{CLUSTER_NAME_LABEL, UPDATE_IN_PROGRESS_ANNOTATION};
use windlass_engine::contract::Contract;
use windlass_engine::referenced::Referenced;
use windlass_runtime::{
    Context, Incomplete, Kind, WriteError, controller_reference, owner_reference, uid_of,
};

use crate::external::{External, ExternalError, Externals};
use crate::status::StatusError;

/// Why a reconcile of an object that points to objects of providers failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReferrerError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// Its status cannot be written as a patch.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// An object of a provider could not be read.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// An object does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
}

/// A provider's object, as the engine sees it and as it is.
pub(crate) struct Read<T> {
    pub(crate) referenced: Referenced<T>,
    pub(crate) external: Option<External>,
    /// Why it could not be read.
    pub(crate) error: Option<ExternalError>,
}

/// Reads the object that is pointed to, if any. What cannot be read is said, and no failure.
pub(crate) async fn read<T>(
    externals: &Externals,
    context: &Context,
    namespace: &str,
    reference: Option<&ContractVersionedObjectReference>,
    read: impl Fn(&Value, Contract) -> T,
) -> Read<T> {
    let Some(reference) = reference.filter(|reference| !reference.name.is_empty()) else {
        return Read { referenced: Referenced::None, external: None, error: None };
    };
    let reference = reference.clone();
    match externals.get(context, namespace, &reference).await {
        Ok(None) => Read { referenced: Referenced::Missing(reference), external: None, error: None },
        Ok(Some(external)) => {
            let referenced = Referenced::Found {
                reference,
                object: read(external.data(), external.kind.contract),
                deleting: external.is_deleting(),
                updating: external.has_annotation(UPDATE_IN_PROGRESS_ANNOTATION),
            };
            Read { referenced, external: Some(external), error: None }
        }
        Err(error) => {
            let referenced = Referenced::Unreadable { reference, why: error.to_string() };
            Read { referenced, external: None, error: Some(error) }
        }
    }
}

/// The names of the objects of providers that a Machine points to.
pub(crate) fn part_names(machine: &Machine) -> Vec<String> {
    let spec = &machine.spec;
    let config =
        spec.bootstrap.config_ref.as_ref().filter(|config| config.name != spec.infrastructure_ref.name);
    [Some(&spec.infrastructure_ref), config].into_iter().flatten().map(|to| to.name.clone()).collect()
}

/// Makes an object the controller of a provider's object, and labels that with the Cluster.
pub(crate) async fn claim<K: Kind + Resource<DynamicType = ()>>(
    context: &Context,
    owner: &K,
    cluster: &str,
    external: Option<&External>,
) -> Result<(), WriteError> {
    let Some(external) = external.filter(|external| !external.is_deleting()) else { return Ok(()) };
    let object = external.object.as_ref();
    let mut metadata = Map::new();
    if object.labels().get(CLUSTER_NAME_LABEL).map(String::as_str) != Some(cluster) {
        metadata.insert("labels".to_owned(), json!({CLUSTER_NAME_LABEL: cluster}));
    }
    let uid = uid_of(owner)?;
    let owners = object.owner_references();
    let controller = controller_reference(owner)?;
    if !owners.iter().any(|reference| is_current(reference, &controller)) {
        let mut wanted: Vec<OwnerReference> =
            owners.iter().filter(|reference| reference.uid != uid).cloned().collect();
        // Another object may control it for a while, as the shim of a topology does; there is one controller at most.
        for reference in &mut wanted {
            reference.controller = None;
        }
        wanted.push(controller);
        metadata.insert("ownerReferences".to_owned(), json!(wanted));
    }
    if metadata.is_empty() {
        return Ok(());
    }
    let patch = json!({"metadata": metadata});
    ignore_gone(context.writer_of(&external.kind.resource).patch(object, patch).await)
}

/// Whether a reference is to the same owner as another, and controls as that does, in the same version: the garbage collector asks for
/// owners in the version of the reference, and older ones are not served for ever.
pub(crate) fn is_current(reference: &OwnerReference, wanted: &OwnerReference) -> bool {
    reference.uid == wanted.uid
        && reference.api_version == wanted.api_version
        && (wanted.controller != Some(true) || reference.controller == Some(true))
}

/// Gives an object its finalizer, its label and its Cluster as owner; true if that was needed.
pub(crate) async fn adopt<K: Kind + Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    cluster: &Cluster,
    finalizer: Option<&str>,
) -> Result<bool, WriteError> {
    if object.meta().deletion_timestamp.is_some() {
        return Ok(false);
    }
    let mut metadata = Map::new();
    if let Some(finalizer) = finalizer
        && !object.finalizers().iter().any(|has| has == finalizer)
    {
        let mut finalizers = object.finalizers().to_vec();
        finalizers.push(finalizer.to_owned());
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if object.labels().get(CLUSTER_NAME_LABEL) != Some(&cluster.name_any()) {
        metadata.insert("labels".to_owned(), json!({CLUSTER_NAME_LABEL: cluster.name_any()}));
    }
    let wanted = owner_reference(cluster)?;
    if !object.owner_references().iter().any(|owner| is_current(owner, &wanted)) {
        let others = object.owner_references().iter().filter(|owner| owner.uid != wanted.uid);
        let mut owners: Vec<OwnerReference> = others.cloned().collect();
        owners.push(wanted);
        metadata.insert("ownerReferences".to_owned(), json!(owners));
    }
    if metadata.is_empty() {
        return Ok(false);
    }
    ignore_gone(context.writer::<K>().patch(object, json!({"metadata": metadata})).await)?;
    Ok(true)
}

/// Takes a finalizer off an object.
pub(crate) async fn release<K: Kind + Resource<DynamicType = ()>>(
    context: &Context,
    object: &K,
    finalizer: &str,
) -> Result<(), WriteError> {
    if !object.finalizers().iter().any(|has| has == finalizer) {
        return Ok(());
    }
    let finalizers: Vec<&String> = object.finalizers().iter().filter(|has| *has != finalizer).collect();
    ignore_gone(context.writer::<K>().patch(object, json!({"metadata": {"finalizers": finalizers}})).await)
}

/// What is gone needs no change any more.
pub(crate) fn ignore_gone<T>(written: Result<T, WriteError>) -> Result<(), WriteError> {
    match written {
        Err(error) if error.is_not_found() => Ok(()),
        written => written.map(drop),
    }
}
