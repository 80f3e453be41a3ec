//! The ClusterResourceSet controller: applies what ConfigMaps and Secrets hold to the clusters that a set selects.
//!
//! What it decides is in [`windlass_engine::cluster_resource_set`]; here it is read and written. What was applied is on record
//! in a ClusterResourceSetBinding with the name of the Cluster. Deleting a set removes its record; what was applied stays in
//! the clusters.

mod apply;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Resource, ResourceExt};
use serde_json::{Map, json};
use windlass_api::addons::{
    ClusterResourceSet, ClusterResourceSetBinding, ClusterResourceSetBindingSpec, ClusterResourceSetStrategy,
    ResourceKind, ResourceRef,
};
use windlass_api::cluster::Cluster;
use windlass_engine::cluster_resource_set::{
    Content, NotApplied, RESOURCE_SET_SECRET_TYPE, applied, hash, needs_apply, objects, record, record_of,
};
use windlass_engine::condition;
use windlass_engine::pause::{Pause, not_paused};
use windlass_runtime::{
    Cache, Context, Incomplete, Kind, Manager, ObjectKey, Outcome, Reconciler, SelectorError, WriteError,
    describe_error, owner_reference, uid_of,
};

use crate::pause;
use crate::references::{ignore_gone, release};
use crate::status::{self, StatusError};
use crate::workload::WorkloadAccess;

/// Finalizer of ClusterResourceSets.
pub const FINALIZER: &str = "addons.cluster.x-k8s.io";

/// How often a set looks whether what it applies has changed. ConfigMaps and Secrets are not watched: a controller should not
/// need the right to list every Secret there is.
const LOOK_AGAIN: Duration = Duration::from_secs(60);
/// How soon a cluster that did not answer, or something that is missing, is looked at again.
const RETRY: Duration = Duration::from_secs(20);

/// Reconciles ClusterResourceSets.
pub struct ClusterResourceSets {
    sets: Cache<ClusterResourceSet>,
    bindings: Cache<ClusterResourceSetBinding>,
    clusters: Cache<Cluster>,
    access: Arc<dyn WorkloadAccess>,
}

/// Why a reconcile of a ClusterResourceSet failed.
#[derive(Debug, thiserror::Error)]
pub enum ClusterResourceSetError {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// A change cannot be written as a patch.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// Its selector makes no sense.
    #[error("spec.clusterSelector: {0}")]
    Selector(#[from] SelectorError),
    /// An object does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// A ConfigMap or Secret could not be read.
    #[error("{} {}: {why}", .resource.kind, .resource.name)]
    Read {
        /// Which one.
        resource: ResourceRef,
        /// What the API said.
        why: String,
    },
}

impl ClusterResourceSets {
    /// Adds the ClusterResourceSet controller to a manager.
    pub fn register(manager: &Manager, access: Arc<dyn WorkloadAccess>) {
        let sets: Cache<ClusterResourceSet> = manager.cache();
        let bindings: Cache<ClusterResourceSetBinding> = manager.cache();
        let clusters: Cache<Cluster> = manager.cache();
        let (by_cluster, by_binding) = (sets.clone(), sets.clone());
        let of_namespace = |sets: &Cache<ClusterResourceSet>, namespace: &str| {
            sets.in_namespace(namespace).iter().map(|set| ObjectKey::of(set.as_ref())).collect()
        };
        manager
            .controller("clusterresourceset", &sets)
            .watches_changes(&clusters, move |before: Option<&Cluster>, after: Option<&Cluster>| {
                let cluster = after.or(before);
                let concerned = before.map(concern) != after.map(concern);
                cluster.filter(|_| concerned).map_or_else(Vec::new, |cluster| {
                    of_namespace(&by_cluster, &ObjectKey::of(cluster).namespace)
                })
            })
            .watches(&bindings, move |binding: &ClusterResourceSetBinding| {
                of_namespace(&by_binding, &ObjectKey::of(binding).namespace)
            })
            .register(Self { sets: sets.clone(), bindings, clusters, access });
    }
}

/// What of a Cluster a set looks at. The rest changes all the time while it is upgraded.
fn concern(cluster: &Cluster) -> impl PartialEq + use<> {
    (
        cluster.labels().clone(),
        cluster.metadata.deletion_timestamp.is_some(),
        cluster.status.initialization.control_plane_initialized,
        Pause::of(&cluster.metadata, Some(cluster)),
        cluster.metadata.uid.clone(),
    )
}

/// What a set refers to, as far as it could be read.
struct Readable {
    resource: ResourceRef,
    hash: String,
    objects: Vec<serde_json::Value>,
}

impl Reconciler for ClusterResourceSets {
    type Error = ClusterResourceSetError;

    async fn reconcile(
        &self,
        key: &ObjectKey,
        context: &Context,
    ) -> Result<Outcome, ClusterResourceSetError> {
        let Some(set) = self.sets.get(key) else { return Ok(Outcome::done()) };
        let set = set.as_ref();
        if let Some(pause) = Pause::of(&set.metadata, None) {
            return Ok(pause::say(context, set, &set.status.conditions, pause).await?);
        }
        self.forget_clusters_that_are_gone(context, key).await?;
        if set.metadata.deletion_timestamp.is_some() {
            self.forget(context, set).await?;
            release(context, set, FINALIZER).await?;
            return Ok(Outcome::done());
        }
        if !set.finalizers().iter().any(|has| has == FINALIZER) {
            let mut finalizers = set.finalizers().to_vec();
            finalizers.push(FINALIZER.to_owned());
            let patch = json!({"metadata": {"finalizers": finalizers}});
            ignore_gone(context.writer::<ClusterResourceSet>().patch(set, patch).await)?;
            return Ok(Outcome::done());
        }
        let selected = self.clusters.select(&key.namespace, &set.spec.cluster_selector)?;
        let clusters: Vec<&Cluster> = selected
            .iter()
            .map(AsRef::as_ref)
            .filter(|cluster| cluster.metadata.deletion_timestamp.is_none())
            .collect();
        let (readable, mut problems) = self.read(context, set).await?;
        for cluster in &clusters {
            // A cluster that has no API server yet is no problem; its condition changes when it has.
            let reachable = cluster.status.initialization.control_plane_initialized == Some(true);
            if reachable && Pause::of(&cluster.metadata, Some(cluster)).is_none() {
                self.apply_to(context, set, cluster, &readable, &mut problems).await?;
            }
        }
        let mut status = set.status.clone();
        let generation = set.metadata.generation;
        condition::set(&mut status.conditions, applied(&problems), generation, context.now());
        condition::set(&mut status.conditions, not_paused(), generation, context.now());
        status.observed_generation = generation;
        status::write::<_, _, ClusterResourceSetError>(&context.writer(), set, &set.status, &status).await?;
        Ok(if !problems.is_empty() {
            Outcome::after(RETRY)
        } else if set.spec.strategy == Some(ClusterResourceSetStrategy::Reconcile) && !clusters.is_empty() {
            Outcome::routinely(LOOK_AGAIN)
        } else {
            Outcome::done()
        })
    }
}

impl ClusterResourceSets {
    /// Reads what the set refers to, and makes the set an owner of it, so that both move together.
    async fn read(
        &self,
        context: &Context,
        set: &ClusterResourceSet,
    ) -> Result<(Vec<Readable>, Vec<NotApplied>), ClusterResourceSetError> {
        let (mut readable, mut problems) = (Vec::new(), Vec::new());
        for resource in &set.spec.resources {
            let key = ObjectKey::new(ObjectKey::of(set).namespace, &resource.name);
            let content = match resource.kind {
                ResourceKind::Secret => read::<Secret>(context, set, &key, resource).await?,
                _ => read::<ConfigMap>(context, set, &key, resource).await?,
            };
            let parsed = content.and_then(|content| Ok((hash(&content), objects(resource, &content)?)));
            match parsed {
                Ok((hash, objects)) => readable.push(Readable { resource: resource.clone(), hash, objects }),
                Err(problem) => problems.push(problem),
            }
        }
        Ok((readable, problems))
    }

    /// Applies to one cluster what it does not have yet.
    async fn apply_to(
        &self,
        context: &Context,
        set: &ClusterResourceSet,
        cluster: &Cluster,
        readable: &[Readable],
        problems: &mut Vec<NotApplied>,
    ) -> Result<(), ClusterResourceSetError> {
        let key = ObjectKey::of(cluster);
        let current = self.bindings.get(&key);
        let before = current.as_ref().map(|binding| binding.spec.clone()).unwrap_or_default();
        let name = set.name_any();
        let strategy = set.spec.strategy.as_ref();
        let is_due =
            |one: &&Readable| needs_apply(strategy, record_of(&before, &name, &one.resource), &one.hash);
        let due: Vec<&Readable> = readable.iter().filter(is_due).collect();
        if due.is_empty() {
            return Ok(());
        }
        let client = match self.access.client(&key).await {
            Ok(client) => client,
            Err(error) => {
                problems.push(NotApplied::NoAnswer { cluster: key.name, why: context.steady(error) });
                return Ok(());
            }
        };
        let mut after = ClusterResourceSetBindingSpec { cluster_name: cluster.name_any(), ..before };
        for one in due {
            let outcome = apply::all(&client, &one.objects, strategy).await;
            record(&mut after, &name, &one.resource, (outcome.is_ok(), &one.hash), context.now());
            if let Err(why) = outcome {
                let (cluster, resource) = (cluster.name_any(), one.resource.clone());
                problems.push(NotApplied::Refused { cluster, resource, why: context.steady(why) });
            }
        }
        self.write(context, set, &key, current.as_deref(), after).await
    }

    /// Writes the record of a cluster. The set owns it, so that it is there for as long as one of its sets.
    async fn write(
        &self,
        context: &Context,
        set: &ClusterResourceSet,
        key: &ObjectKey,
        current: Option<&ClusterResourceSetBinding>,
        spec: ClusterResourceSetBindingSpec,
    ) -> Result<(), ClusterResourceSetError> {
        let writer = context.writer::<ClusterResourceSetBinding>();
        let Some(current) = current else {
            let mut made = ClusterResourceSetBinding::new(&key.name, spec);
            made.metadata.namespace = Some(key.namespace.clone());
            made.metadata.owner_references = Some(vec![owner_reference(set)?]);
            writer.create(&made).await?;
            return Ok(());
        };
        let mut patch = Map::new();
        if current.spec != spec {
            patch.insert("spec".to_owned(), json!(spec));
        }
        let uid = uid_of(set)?;
        if !current.owner_references().iter().any(|owner| owner.uid == uid) {
            let mut owners = current.owner_references().to_vec();
            owners.push(owner_reference(set)?);
            patch.insert("metadata".to_owned(), json!({"ownerReferences": owners}));
        }
        Ok(ignore_gone(writer.patch(current, patch.into()).await)?)
    }

    /// Removes what is on record about a set that goes.
    async fn forget(
        &self,
        context: &Context,
        set: &ClusterResourceSet,
    ) -> Result<(), ClusterResourceSetError> {
        let (name, uid) = (set.name_any(), uid_of(set)?);
        let writer = context.writer::<ClusterResourceSetBinding>();
        for binding in self.bindings.in_namespace(&ObjectKey::of(set).namespace) {
            let mut spec = binding.spec.clone();
            spec.bindings.retain(|one| one.cluster_resource_set_name != name);
            if spec == binding.spec {
                continue;
            }
            if spec.bindings.is_empty() {
                ignore_gone(writer.delete(&binding).await)?;
                continue;
            }
            let owners: Vec<_> =
                binding.owner_references().iter().filter(|owner| owner.uid != uid).cloned().collect();
            let patch = json!({"metadata": {"ownerReferences": owners}, "spec": spec});
            ignore_gone(writer.patch(&binding, patch).await)?;
        }
        Ok(())
    }

    /// Removes records of clusters that are gone: another cluster of the same name has nothing of it.
    async fn forget_clusters_that_are_gone(
        &self,
        context: &Context,
        key: &ObjectKey,
    ) -> Result<(), ClusterResourceSetError> {
        for binding in self.bindings.in_namespace(&key.namespace) {
            let cluster = ObjectKey::new(&key.namespace, &binding.spec.cluster_name);
            let going =
                self.clusters.get(&cluster).is_none_or(|one| one.metadata.deletion_timestamp.is_some());
            if going && binding.metadata.deletion_timestamp.is_none() {
                ignore_gone(context.writer::<ClusterResourceSetBinding>().delete(&binding).await)?;
            }
        }
        Ok(())
    }
}

fn unread(resource: &ResourceRef, error: &kube::Error) -> ClusterResourceSetError {
    ClusterResourceSetError::Read { resource: resource.clone(), why: describe_error(error) }
}

/// What a resource of a set may be.
trait Resources: Kind + Resource<DynamicType = ()> {
    /// What it brings, or why nothing of it is applied.
    fn content(&self) -> Result<Content, NotApplied>;
}

impl Resources for ConfigMap {
    fn content(&self) -> Result<Content, NotApplied> {
        let mut content = self.data.clone().unwrap_or_default();
        content.extend(texts(self.binary_data.clone()));
        Ok(content)
    }
}

impl Resources for Secret {
    fn content(&self) -> Result<Content, NotApplied> {
        let type_ = self.type_.clone().unwrap_or_default();
        if type_ != RESOURCE_SET_SECRET_TYPE {
            return Err(NotApplied::WrongSecretType { name: self.name_any(), type_ });
        }
        Ok(texts(self.data.clone()))
    }
}

/// Reads what a resource brings, and makes the set an owner of it.
async fn read<K: Resources>(
    context: &Context,
    set: &ClusterResourceSet,
    key: &ObjectKey,
    resource: &ResourceRef,
) -> Result<Result<Content, NotApplied>, ClusterResourceSetError> {
    let found = context.get::<K>(key).await.map_err(|error| unread(resource, &error))?;
    let Some(found) = found else { return Ok(Err(NotApplied::Missing(resource.clone()))) };
    let content = found.content();
    if content.is_ok() {
        own(context, set, &found).await?;
    }
    Ok(content)
}

/// Makes a set an owner of what it refers to.
async fn own<K: Kind + Resource<DynamicType = ()>>(
    context: &Context,
    set: &ClusterResourceSet,
    object: &K,
) -> Result<(), ClusterResourceSetError> {
    let uid = uid_of(set)?;
    if object.owner_references().iter().any(|owner| owner.uid == uid) {
        return Ok(());
    }
    let mut owners = object.owner_references().to_vec();
    owners.push(owner_reference(set)?);
    let patch = json!({"metadata": {"ownerReferences": owners}});
    Ok(ignore_gone(context.writer::<K>().patch(object, patch).await)?)
}

/// What is no text is no manifest either, and is left to the parser to refuse.
fn texts(data: Option<std::collections::BTreeMap<String, ByteString>>) -> Content {
    let text = |bytes: ByteString| String::from_utf8_lossy(&bytes.0).into_owned();
    data.unwrap_or_default().into_iter().map(|(key, bytes)| (key, text(bytes))).collect()
}
