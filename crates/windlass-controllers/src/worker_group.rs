//! What the controllers of MachineDeployments and MachineSets have in common.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta, OwnerReference};
use serde_json::{Map, Value, json};
use windlass_api::cluster::{Cluster, MachineTemplateSpec};
use windlass_api::object::ObjectError;
use windlass_engine::machine_set::{HandoverError, NamingError, selector};
use windlass_engine::rollout::FactsError;
use windlass_runtime::{
    Cache, Context, Incomplete, Kind, ObjectKey, SelectorError, WriteError, describe_error, owner_reference,
};

use crate::external::{External, ExternalError, Externals};
use crate::in_place::InPlaceError;
use crate::references::is_current;
use crate::status::StatusError;

/// Why a group of machines could not be brought further.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WorkerError {
    /// Something could not be written.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// An object of a provider could not be read.
    #[error(transparent)]
    External(#[from] ExternalError),
    /// The object does not say what has to be known.
    #[error(transparent)]
    Facts(#[from] FactsError),
    /// Machines cannot be handed over.
    #[error(transparent)]
    Handover(#[from] HandoverError),
    /// It is unknown whether machines can be updated in place.
    #[error(transparent)]
    InPlace(#[from] InPlaceError),
    /// Machines cannot be named.
    #[error(transparent)]
    Naming(#[from] NamingError),
    /// The selector cannot be used.
    #[error("spec.selector: {0}")]
    Selector(#[from] SelectorError),
    /// An object does not say which one it is.
    #[error(transparent)]
    Incomplete(#[from] Incomplete),
    /// Its status cannot be written as a patch.
    #[error(transparent)]
    Status(#[from] StatusError),
    /// An object cannot be sent to an extension.
    #[error("an object for an extension: {0}")]
    Object(#[from] ObjectError),
    /// The API did not answer as it should.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What was read.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// The control plane that machines are to join is not there.
    #[error("control plane {0} does not exist")]
    NoControlPlane(String),
}

impl WorkerError {
    /// What users are told of it in conditions. A write that did not succeed is tried again, and worth a word only if the
    /// API will not have the object like this.
    pub(crate) fn for_users(&self) -> Option<String> {
        match self {
            Self::Write(error) if !error.is_rejected() => None,
            // The condition that it belongs to says it.
            Self::InPlace(_) => None,
            Self::Read { .. } => None,
            error => Some(error.to_string()),
        }
    }

    /// When to try again, where the failure says so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::InPlace(error) => error.retry_after(),
            _ => None,
        }
    }

    pub(crate) fn read(what: impl ToString, error: &kube::Error) -> Self {
        Self::Read { what: what.to_string(), why: describe_error(error) }
    }
}

/// The objects of a namespace that a group selects. A group without a selector selects nothing.
pub(crate) fn select<K: Kind>(
    cache: &Cache<K>,
    namespace: &str,
    given: &LabelSelector,
) -> Result<Vec<Arc<K>>, SelectorError> {
    select_where(cache, namespace, given, |_| true)
}

/// Those of the selected objects that `keep` keeps.
pub(crate) fn select_where<K: Kind>(
    cache: &Cache<K>,
    namespace: &str,
    given: &LabelSelector,
    keep: impl Fn(&K) -> bool,
) -> Result<Vec<Arc<K>>, SelectorError> {
    if selector(given)?.is_nothing() {
        return Ok(Vec::new());
    }
    cache.select_where(namespace, given, keep)
}

/// The least time between two looks at a group: a big one has machines that change all the time.
pub(crate) const PACE: Duration = Duration::from_millis(250);

/// The least time between two looks at a group of so many machines, where it is more than the pace: what a look costs
/// grows with them. A look shows what happened up to then, so that nothing is lost by looking later; the cap keeps a big
/// group from being slow to react.
pub(crate) fn rest(machines: usize) -> Duration {
    let millis = u64::try_from(machines).unwrap_or(u64::MAX);
    Duration::from_millis(millis).min(Duration::from_secs(2))
}

/// What an object of a group must carry before anything is done for it.
pub(crate) struct Marks<'a> {
    /// The finalizer by which the group's controller holds the object.
    pub(crate) finalizer: &'a str,
    /// The labels by which other controllers find the object.
    pub(crate) labels: BTreeMap<&'a str, &'a str>,
    /// An owner that it must have.
    pub(crate) owner: Option<OwnerReference>,
}

impl Marks<'_> {
    /// The patch that adds what is missing. Lists are written whole, so that it must be bound to what was read.
    pub(crate) fn missing(&self, meta: &ObjectMeta) -> Option<Value> {
        let mut patch = Map::new();
        let finalizers = || meta.finalizers.iter().flatten().map(String::as_str);
        if !finalizers().any(|finalizer| finalizer == self.finalizer) {
            let all: Vec<&str> = finalizers().chain([self.finalizer]).collect();
            patch.insert("finalizers".to_owned(), json!(all));
        }
        let has = |key: &str, value: &str| {
            meta.labels.as_ref().and_then(|labels| labels.get(key)).is_some_and(|there| there == value)
        };
        let labels: BTreeMap<_, _> = self.labels.iter().filter(|(key, value)| !has(key, value)).collect();
        if !labels.is_empty() {
            patch.insert("labels".to_owned(), json!(labels));
        }
        let owners = || meta.owner_references.iter().flatten();
        if let Some(owner) = &self.owner
            && !owners().any(|there| is_current(there, owner))
        {
            let others = owners().filter(|there| there.uid != owner.uid);
            let all: Vec<&OwnerReference> = others.chain([owner]).collect();
            patch.insert("ownerReferences".to_owned(), json!(all));
        }
        (!patch.is_empty()).then(|| json!({"metadata": patch}))
    }
}

/// The patch that removes a finalizer.
pub(crate) fn without_finalizer(meta: &ObjectMeta, finalizer: &str) -> Value {
    let left = meta.finalizers.iter().flatten().filter(|there| *there != finalizer);
    json!({"metadata": {"finalizers": left.collect::<Vec<_>>()}})
}

/// The patch that gives an object without a controller one.
pub(crate) fn adoption(meta: &ObjectMeta, controller: &OwnerReference) -> Value {
    let others = meta.owner_references.iter().flatten().filter(|owner| owner.uid != controller.uid);
    json!({"metadata": {"ownerReferences": others.chain([controller]).collect::<Vec<_>>()}})
}

/// The controller of an object.
pub(crate) fn controller(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// The templates that machines are made from, as far as they are there.
#[derive(Debug, Clone, Default)]
pub(crate) struct Templates {
    pub(crate) infrastructure: Option<External>,
    pub(crate) bootstrap: Option<External>,
    /// What is not there, a line each. Without all of them no machine can be made.
    pub(crate) problems: Vec<String>,
}

impl Templates {
    /// Reads the templates, and makes the Cluster own those without an owner: they then go with it.
    pub(crate) async fn read(
        externals: &Externals,
        context: &Context,
        cluster: &Cluster,
        template: &MachineTemplateSpec,
    ) -> Result<Self, WorkerError> {
        let namespace = &ObjectKey::of(cluster).namespace;
        let spec = &template.spec;
        let mut templates = Self::default();
        let infrastructure = Some(&spec.infrastructure_ref);
        for (reference, is_bootstrap) in [(infrastructure, false), (spec.bootstrap.config_ref.as_ref(), true)]
        {
            let Some(reference) = reference else { continue };
            let found = match externals.get(context, namespace, reference).await {
                Ok(Some(found)) => found,
                Ok(None) => {
                    templates.problems.push(format!("{reference} does not exist"));
                    continue;
                }
                Err(error @ (ExternalError::NoCrd { .. } | ExternalError::NoContract { .. })) => {
                    templates.problems.push(error.to_string());
                    continue;
                }
                Err(error) => return Err(error.into()),
            };
            let owners = found.object.metadata.owner_references.iter().flatten();
            if owners.count() == 0 && !found.is_deleting() {
                let patch = adoption(&found.object.metadata, &owner_reference(cluster)?);
                context.writer_of(&found.kind.resource).patch(&found.object, patch).await?;
            }
            let place = if is_bootstrap { &mut templates.bootstrap } else { &mut templates.infrastructure };
            *place = Some(found);
        }
        Ok(templates)
    }
}

/// Whether an object is one of the templates of a group of machines.
pub(crate) fn uses_template(template: &MachineTemplateSpec, kind: &str, name: &str) -> bool {
    let spec = &template.spec;
    let references = [Some(&spec.infrastructure_ref), spec.bootstrap.config_ref.as_ref()];
    references.into_iter().flatten().any(|reference| reference.kind == kind && reference.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(value: Value) -> ObjectMeta {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn only_what_is_missing_is_added() {
        let owner = OwnerReference { uid: "u".to_owned(), ..OwnerReference::default() };
        let marks = Marks {
            finalizer: "f",
            labels: BTreeMap::from([("a", "1"), ("b", "2")]),
            owner: Some(owner.clone()),
        };
        let there = meta(json!({"finalizers": ["other"], "labels": {"a": "1"}}));
        let patch = marks.missing(&there).unwrap();
        assert_eq!(patch["metadata"]["finalizers"], json!(["other", "f"]));
        assert_eq!(patch["metadata"]["labels"], json!({"b": "2"}));
        assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "u");
        let complete = meta(json!({"finalizers": ["f"], "labels": {"a": "1", "b": "2", "c": "3"},
            "ownerReferences": [owner]}));
        assert_eq!(marks.missing(&complete), None);
        assert_eq!(without_finalizer(&there, "f")["metadata"]["finalizers"], json!(["other"]));
    }

    #[test]
    fn big_groups_are_looked_at_less_often() {
        let rests = [0, 250, 1000, 10_000].map(|machines| rest(machines).as_millis());
        assert_eq!(rests, [0, 250, 1000, 2000]);
    }
}
