//! Objects of providers: found by group, kind and name, read by contract, cloned from templates, watched as they turn up.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, ApiResource, DynamicObject, ObjectMeta, TypeMeta};
use kube::core::PartialObjectMeta;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::api_version;
use windlass_api::cluster::ContractVersionedObjectReference;
use windlass_api::names::{
    CLONED_FROM_GROUP_KIND_ANNOTATION, CLONED_FROM_NAME_ANNOTATION, CLUSTER_NAME_LABEL,
};
use windlass_engine::contract::Contract;
use windlass_runtime::{Cache, Context, GroupKind, ObjectKey, WatchKindError, describe_error};

/// Why an object of a provider could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExternalError {
    /// There is no such kind.
    #[error("there is no CRD {crd} for {kind}")]
    NoCrd {
        /// The name of the CRD that was looked for.
        crd: String,
        /// The kind.
        kind: String,
    },
    /// Nothing says which version of the kind to use.
    #[error("CRD {crd} has no label cluster.x-k8s.io/v1beta2 or v1beta1 that names a version")]
    NoContract {
        /// The name of the CRD.
        crd: String,
    },
    /// Nothing says which contract a version of the kind keeps.
    #[error("CRD {crd} lists {version} neither in label cluster.x-k8s.io/v1beta2 nor in v1beta1")]
    NoContractOfVersion {
        /// The name of the CRD.
        crd: String,
        /// The version.
        version: String,
    },
    /// The API did not answer as it should.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What was read.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// The kind cannot be watched.
    #[error(transparent)]
    Watch(#[from] WatchKindError),
    /// Something that should be a template is none.
    #[error("{0} is no template: {1}")]
    NoTemplate(String, &'static str),
}

/// A kind of a provider: in which version it is used, and which contract that keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExternalKind {
    /// How its objects are reached.
    pub resource: ApiResource,
    /// What can be read of them.
    pub contract: Contract,
}

impl ExternalKind {
    fn new(group: &str, version: &str, kind: &str, contract: Contract) -> Self {
        Self { resource: resource(&api_version::join(group, version), kind), contract }
    }
}

/// How objects of a kind are reached whose group and version are known.
pub(crate) fn resource(api_version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(&api_version::kind(api_version, kind), &plural(kind))
}

/// An object of a provider.
#[derive(Debug, Clone)]
pub struct External {
    /// In which version the object was read, and which contract it keeps.
    pub kind: Arc<ExternalKind>,
    /// The object, as the cache or the API had it.
    pub object: Arc<DynamicObject>,
}

impl External {
    /// What contracts read: `spec` and `status`.
    pub fn data(&self) -> &Value {
        &self.object.data
    }

    /// Whether it is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.object.metadata.deletion_timestamp.is_some()
    }

    /// Whether it has an annotation.
    pub fn has_annotation(&self, key: &str) -> bool {
        self.object.metadata.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(key))
    }
}

/// All objects of one kind of a provider.
#[derive(Debug, Clone)]
pub(crate) struct AllOfKind {
    kind: Arc<ExternalKind>,
    cache: Cache<DynamicObject>,
}

impl AllOfKind {
    /// One of them, if it is there.
    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<External> {
        let object = self.cache.get(&ObjectKey::new(namespace, name))?;
        Some(External { kind: Arc::clone(&self.kind), object })
    }

    /// Those of a namespace that have all of these labels.
    pub(crate) fn labelled(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<External> {
        let found = self.cache.labelled(namespace, labels).into_iter();
        found.map(|object| External { kind: Arc::clone(&self.kind), object }).collect()
    }
}

/// How long what a CRD said counts. A provider is upgraded while we run, but rarely.
const CRD_TTL: Duration = Duration::from_secs(60);

/// Finds objects of providers. Cheap to clone; all clones share what they know about kinds.
#[derive(Debug, Clone, Default)]
pub struct Externals {
    kinds: Arc<Mutex<BTreeMap<Wanted, Learnt>>>,
}

/// A kind, at a version or at the one that keeps the newest contract.
type Wanted = (GroupKind, Option<String>);

/// What a CRD said, and until when that counts.
type Learnt = (Instant, Arc<ExternalKind>);

impl Externals {
    /// Nothing is known yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Which version of a kind to use, from the labels of its CRD.
    pub async fn kind(
        &self,
        context: &Context,
        group: &str,
        kind: &str,
    ) -> Result<Arc<ExternalKind>, ExternalError> {
        let known = (GroupKind::new(group, kind), None);
        let kinds = || self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, found)) = kinds().get(&known).cloned()
            && Instant::now() < until
        {
            return Ok(found);
        }
        let (crd, labels) = Self::labels(context, group, kind).await?;
        let Some((contract, version)) = Contract::of_crd(&labels) else {
            return Err(ExternalError::NoContract { crd });
        };
        let found = Arc::new(ExternalKind::new(group, &version, kind, contract));
        kinds().insert(known, (Instant::now() + CRD_TTL, Arc::clone(&found)));
        Ok(found)
    }

    /// A kind at a version that is given, as a class gives it, with the contract that this version keeps.
    pub async fn kind_at(
        &self,
        context: &Context,
        api_version: &str,
        kind: &str,
    ) -> Result<Arc<ExternalKind>, ExternalError> {
        let (group, version) = api_version::split(api_version);
        let known = (GroupKind::new(group, kind), Some(version.to_owned()));
        let kinds = || self.kinds.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((until, found)) = kinds().get(&known).cloned()
            && Instant::now() < until
        {
            return Ok(found);
        }
        let (crd, labels) = Self::labels(context, group, kind).await?;
        let Some(contract) = Contract::of_version(&labels, version) else {
            return Err(ExternalError::NoContractOfVersion { crd, version: version.to_owned() });
        };
        let found = Arc::new(ExternalKind::new(group, version, kind, contract));
        kinds().insert(known, (Instant::now() + CRD_TTL, Arc::clone(&found)));
        Ok(found)
    }

    /// The name of the CRD of a kind, and its labels.
    async fn labels(
        context: &Context,
        group: &str,
        kind: &str,
    ) -> Result<(String, BTreeMap<String, String>), ExternalError> {
        let crd = format!("{}.{group}", plural(kind));
        let read: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(context.client().clone());
        let read = read.get_metadata_opt(&crd).await;
        let read = read.map_err(|error| ExternalError::Read {
            what: format!("CRD {crd}"),
            why: describe_error(&error),
        })?;
        let Some(read) = read else {
            return Err(ExternalError::NoCrd { crd, kind: kind.to_owned() });
        };
        Ok((crd, read.metadata.labels.unwrap_or_default()))
    }

    /// Reads an object from the cache of its kind, which is watched from now on: the controller hears of its changes.
    /// Nothing if there is no such object.
    pub async fn get(
        &self,
        context: &Context,
        namespace: &str,
        reference: &ContractVersionedObjectReference,
    ) -> Result<Option<External>, ExternalError> {
        Ok(self.all(context, &reference.api_group, &reference.kind).await?.get(namespace, &reference.name))
    }

    /// All objects of a kind, which is watched from now on: for controllers that read many of them.
    pub(crate) async fn all(
        &self,
        context: &Context,
        group: &str,
        kind: &str,
    ) -> Result<AllOfKind, ExternalError> {
        let kind = self.kind(context, group, kind).await?;
        let cache = context.watch(&kind.resource).await?;
        Ok(AllOfKind { kind, cache })
    }

    /// Reads an object from the API. Slower than [`Externals::get`], and never older than the last write.
    pub async fn get_live(
        &self,
        context: &Context,
        namespace: &str,
        reference: &ContractVersionedObjectReference,
    ) -> Result<Option<External>, ExternalError> {
        let kind = self.kind(context, &reference.api_group, &reference.kind).await?;
        let key = ObjectKey::new(namespace, &reference.name);
        let object = context.get_of(&kind.resource, &key).await;
        let object = object.map_err(|error| ExternalError::Read {
            what: reference.to_string(),
            why: describe_error(&error),
        })?;
        Ok(object.map(|object| External { kind, object: Arc::new(object) }))
    }
}

/// How an object is made from a template.
#[derive(Debug, Clone)]
pub struct FromTemplate<'a> {
    /// The template.
    pub template: &'a DynamicObject,
    /// The name of the new object.
    pub name: &'a str,
    /// The Cluster that it belongs to.
    pub cluster: &'a str,
    /// Who owns it, for the time being or for ever.
    pub owner: Option<OwnerReference>,
    /// Labels, besides those of the template; these win.
    pub labels: BTreeMap<String, String>,
    /// Annotations, besides those of the template; these win.
    pub annotations: BTreeMap<String, String>,
}

impl FromTemplate<'_> {
    /// Makes the object: what is in `spec.template`, in the namespace of the template, with a note of where it came from.
    /// A template without one is an empty template: that is what is left of one in v1beta1 that has only empty parts.
    ///
    /// # Errors
    ///
    /// If the kind of the template does not end in `Template`.
    pub fn object(self) -> Result<DynamicObject, ExternalError> {
        let template = self.template;
        let template_name = ObjectKey::of(template).name;
        let Some(types) = &template.types else {
            return Err(ExternalError::NoTemplate(template_name, "it has no apiVersion and kind"));
        };
        let Some(kind) = types.kind.strip_suffix("Template") else {
            let about = format!("{} {template_name}", types.kind);
            return Err(ExternalError::NoTemplate(about, "its kind does not end in Template"));
        };
        let inner = template.data.pointer("/spec/template").unwrap_or(&Value::Null);
        let texts = |field: &str| -> BTreeMap<String, String> {
            let texts = inner["metadata"][field].as_object().into_iter().flatten();
            texts.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
        };
        let mut labels = texts("labels");
        labels.extend(self.labels);
        labels.insert(CLUSTER_NAME_LABEL.to_owned(), self.cluster.to_owned());
        let mut annotations = texts("annotations");
        annotations.extend(self.annotations);
        let group = api_version::group(&types.api_version);
        annotations.insert(CLONED_FROM_GROUP_KIND_ANNOTATION.to_owned(), format!("{}.{group}", types.kind));
        annotations.insert(CLONED_FROM_NAME_ANNOTATION.to_owned(), template_name);
        Ok(DynamicObject {
            types: Some(TypeMeta { api_version: types.api_version.clone(), kind: kind.to_owned() }),
            metadata: ObjectMeta {
                name: Some(self.name.to_owned()),
                namespace: template.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: Some(annotations),
                owner_references: self.owner.map(|owner| vec![owner]),
                ..ObjectMeta::default()
            },
            // An empty spec may be refused where none is accepted.
            data: match inner.get("spec").filter(|spec| spec.as_object().is_none_or(|spec| !spec.is_empty()))
            {
                Some(spec) => json!({"spec": spec}),
                None => json!({}),
            },
        })
    }
}

/// The plural of a kind as CRDs are named by it: the rule that `kubectl` and controller-gen guess by.
pub fn plural(kind: &str) -> String {
    let lower = kind.to_lowercase();
    match lower.chars().last() {
        Some('s' | 'x') => format!("{lower}es"),
        Some('y') => format!("{}ies", &lower[..lower.len() - 1]),
        _ => format!("{lower}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(kind: &str, spec: Value) -> DynamicObject {
        serde_json::from_value(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind,
            "metadata": {"name": "t1", "namespace": "ns", "uid": "u", "labels": {"not": "copied"}}, "spec": spec,
        }))
        .unwrap()
    }

    fn from(template: &DynamicObject) -> FromTemplate<'_> {
        FromTemplate {
            template,
            name: "m1",
            cluster: "c1",
            owner: None,
            labels: BTreeMap::from([("a".to_owned(), "ours".to_owned())]),
            annotations: BTreeMap::new(),
        }
    }

    #[test]
    fn an_object_is_what_is_in_its_template() {
        let spec = json!({"template": {"metadata": {"labels": {"a": "theirs", "b": "theirs"}}, "spec": {"size": 3}}});
        let template = template("DevMachineTemplate", spec);
        let object = serde_json::to_value(from(&template).object().unwrap()).unwrap();
        let expected = json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachine",
            "metadata": {
                "name": "m1", "namespace": "ns",
                "labels": {"a": "ours", "b": "theirs", "cluster.x-k8s.io/cluster-name": "c1"},
                "annotations": {
                    "cluster.x-k8s.io/cloned-from-groupkind": "DevMachineTemplate.infrastructure.cluster.x-k8s.io",
                    "cluster.x-k8s.io/cloned-from-name": "t1",
                },
            },
            "spec": {"size": 3},
        });
        assert_eq!(object, expected);
    }

    #[test]
    fn what_is_no_template_is_refused() {
        let machine = template("DevMachine", json!({"template": {}}));
        assert!(from(&machine).object().unwrap_err().to_string().contains("does not end in Template"));
    }

    #[test]
    fn a_template_with_nothing_in_it_makes_an_empty_object() {
        for spec in [json!({}), json!({"template": {}}), json!({"template": {"spec": {}}})] {
            let template = template("DevMachineTemplate", spec);
            let object = from(&template).object().unwrap();
            assert_eq!(object.data, json!({}), "{template:?}");
            assert_eq!(object.metadata.labels.unwrap()["cluster.x-k8s.io/cluster-name"], "c1");
        }
    }

    #[test]
    fn plurals_are_those_of_crds() {
        let cases = [("DevMachine", "devmachines"), ("Proxy", "proxies"), ("Gas", "gases"), ("Box", "boxes")];
        for (kind, expected) in cases {
            assert_eq!(plural(kind), expected);
        }
    }
}
