//! Reads a snapshot from any management cluster, with `get` and `list`.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams};
use kube::discovery::{ApiGroup, Scope};
use serde_json::Value;
use windlass_api::api_version;
use windlass_api::names::{CLUSTER_GROUP, CLUSTER_NAME_LABEL, RUNTIME_GROUP};
use windlass_conversion::newest;
use windlass_runtime::describe_error;

use super::{Format, Snapshot, Unread, group_of, title};

/// How many objects are listed at a time.
const PAGE: u32 = 500;

/// Kinds of Cluster API that belong to a Cluster by its label.
const PARTS: [&str; 5] = ["MachineDeployment", "MachineSet", "Machine", "MachinePool", "MachineHealthCheck"];

/// Why there is no snapshot.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The API does not know the kinds of Cluster API.
    #[error("this API has no kind {kind} of {group}: is Cluster API installed there?")]
    NoKind {
        /// The kind.
        kind: String,
        /// The group that was asked for.
        group: String,
    },
    /// There is no such Cluster.
    #[error("there is no Cluster {name} in namespace {namespace}")]
    NotFound {
        /// Namespace that was looked in.
        namespace: String,
        /// Name that was looked for.
        name: String,
    },
    /// The API did not answer as it should.
    #[error("cannot read {what}: {why}")]
    Read {
        /// What was read.
        what: String,
        /// What went wrong.
        why: String,
    },
    /// An object of an older version makes no sense.
    #[error("{object}: {why}")]
    Convert {
        /// The object.
        object: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Snapshot {
    /// Reads a Cluster and everything it is made of. Nothing is written, and no Secret is read.
    ///
    /// # Errors
    ///
    /// When the Cluster does not exist, or when the API does not let it or its machines be read. What else cannot be read is
    /// on record in the snapshot.
    pub async fn read(
        client: &Client,
        namespace: &str,
        name: &str,
        now: Timestamp,
    ) -> Result<Self, SnapshotError> {
        let mut reader = Reader {
            client,
            namespace,
            cluster: name,
            groups: BTreeMap::new(),
            versions: BTreeMap::new(),
            objects: BTreeMap::new(),
            listed: BTreeSet::new(),
            unread: BTreeSet::new(),
        };
        let served = reader.all().await?;
        Ok(Self {
            format: Format::First,
            taken: now,
            namespace: namespace.to_owned(),
            cluster: name.to_owned(),
            served,
            objects: reader.objects.into_values().collect(),
            unread: reader.unread.into_iter().collect(),
        })
    }
}

/// Which object: group, kind, namespace, name.
type Place = (String, String, String, String);

struct Reader<'a> {
    client: &'a Client,
    namespace: &'a str,
    cluster: &'a str,
    groups: BTreeMap<String, Option<ApiGroup>>,
    /// At which version kinds of providers are read: the one at which the class has them, so that what was made from a
    /// template can be compared with it.
    versions: BTreeMap<(String, String), String>,
    objects: BTreeMap<Place, Value>,
    /// Kinds of which the objects of the Cluster are there already.
    listed: BTreeSet<(String, String)>,
    unread: BTreeSet<Unread>,
}

/// An object that another refers to.
struct Reference {
    group: String,
    kind: String,
    namespace: String,
    name: String,
}

impl Reader<'_> {
    async fn all(&mut self) -> Result<String, SnapshotError> {
        let Some((resource, _)) = self.resource(CLUSTER_GROUP, "Cluster").await? else {
            return Err(SnapshotError::NoKind {
                kind: "Cluster".to_owned(),
                group: CLUSTER_GROUP.to_owned(),
            });
        };
        let served = resource.api_version;
        let (namespace, name) = (self.namespace.to_owned(), self.cluster.to_owned());
        let Some(cluster) = self.get(CLUSTER_GROUP, "Cluster", &namespace, &name).await? else {
            return Err(SnapshotError::NotFound { namespace, name });
        };
        for kind in PARTS {
            self.list(CLUSTER_GROUP, kind, true).await?;
        }
        let class = &cluster["spec"]["topology"]["classRef"];
        if let Some(class_name) = class["name"].as_str() {
            let of = class["namespace"].as_str().filter(|of| !of.is_empty()).unwrap_or(&namespace).to_owned();
            let found = self.get(CLUSTER_GROUP, "ClusterClass", &of, class_name).await?;
            self.note_absent(found.as_ref(), &format!("ClusterClass {of}/{class_name}"), &cluster);
        }
        self.follow().await?;
        self.besides().await;
        Ok(served)
    }

    /// Reads what objects refer to, and what that refers to in turn.
    async fn follow(&mut self) -> Result<(), SnapshotError> {
        let mut followed: BTreeSet<Place> = BTreeSet::new();
        loop {
            let next: Vec<(Place, Value)> = self
                .objects
                .iter()
                .filter(|(place, _)| !followed.contains(*place))
                .map(|(place, object)| (place.clone(), object.clone()))
                .collect();
            if next.is_empty() {
                return Ok(());
            }
            // Classes first: they say at which version kinds of providers are read.
            for is_class in [true, false] {
                for (_, object) in
                    next.iter().filter(|(_, object)| (object["kind"] == "ClusterClass") == is_class)
                {
                    for reference in references(object) {
                        self.refer(object, reference).await?;
                    }
                }
            }
            followed.extend(next.into_iter().map(|(place, _)| place));
        }
    }

    async fn refer(
        &mut self,
        by: &Value,
        (reference, version): (Reference, Option<String>),
    ) -> Result<(), SnapshotError> {
        let Reference { group, kind, namespace, name } = reference;
        if let Some(version) = version {
            let instance = kind.strip_suffix("Template").unwrap_or(&kind).to_owned();
            for kind in [kind.clone(), instance] {
                self.versions.entry((group.clone(), kind)).or_insert_with(|| version.clone());
            }
        }
        if namespace == self.namespace {
            self.list(&group, &kind, false).await?;
        }
        let place = (group.clone(), kind.clone(), namespace.clone(), name.clone());
        if !self.objects.contains_key(&place) {
            let found = self.get(&group, &kind, &namespace, &name).await?;
            self.note_absent(found.as_ref(), &format!("{kind} {namespace}/{name}"), by);
        }
        Ok(())
    }

    /// What helps, and may be missing: extensions, and labels of namespaces, by which extensions are selected.
    async fn besides(&mut self) {
        if let Err(error) = self.list(RUNTIME_GROUP, "ExtensionConfig", false).await {
            self.unread.insert(refused("ExtensionConfigs", &error));
        }
        let namespaces: BTreeSet<String> = self
            .objects
            .keys()
            .map(|(_, _, namespace, _)| namespace.clone())
            .filter(|name| !name.is_empty())
            .collect();
        for namespace in namespaces {
            if let Err(error) = self.get("", "Namespace", "", &namespace).await {
                self.unread.insert(refused(&format!("Namespace {namespace}"), &error));
            }
        }
    }

    fn note_absent(&mut self, found: Option<&Value>, object: &str, by: &Value) {
        if found.is_none() {
            let (object, referred_by) = (object.to_owned(), title(by));
            self.unread.insert(Unread::Absent { object, referred_by });
        }
    }

    /// How the objects of a kind are reached; nothing if there is no such kind.
    async fn resource(
        &mut self,
        group: &str,
        kind: &str,
    ) -> Result<Option<(ApiResource, Scope)>, SnapshotError> {
        if group.is_empty() {
            // All that is read of the core of Kubernetes.
            let gvk = kube::api::GroupVersionKind::gvk("", "v1", kind);
            return Ok(Some((ApiResource::from_gvk(&gvk), Scope::Cluster)));
        }
        if !self.groups.contains_key(group) {
            let found = match kube::discovery::group(self.client, group).await {
                Ok(found) => Some(found),
                Err(kube::Error::Discovery(_)) => None,
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                Err(error) => return Err(read_error(&format!("what {group} has"), &error)),
            };
            self.groups.insert(group.to_owned(), found);
        }
        let Some(Some(found)) = self.groups.get(group) else { return Ok(None) };
        let wanted = self.versions.get(&(group.to_owned(), kind.to_owned()));
        // Of the kinds of Cluster API, the newest version that we know.
        let known = windlass_conversion::versions(group, kind);
        let versions = known.iter().rev().copied().chain(wanted.map(String::as_str));
        let at = |version: &str| {
            let mut resources = found.versioned_resources(version).into_iter();
            resources.find(|(resource, _)| resource.kind == kind)
        };
        let at_known =
            versions.filter(|version| found.versions().any(|served| served == *version)).find_map(at);
        let found = at_known.or_else(|| found.recommended_kind(kind));
        Ok(found.map(|(resource, capabilities)| (resource, capabilities.scope)))
    }

    /// Reads one object. Nothing if it does not exist.
    async fn get(
        &mut self,
        group: &str,
        kind: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Value>, SnapshotError> {
        let Some((resource, scope)) = self.resource(group, kind).await? else { return Ok(None) };
        let api = self.api(&resource, &scope, namespace);
        let what = || format!("{kind} {name}");
        let found = api.get_opt(name).await.map_err(|error| read_error(&what(), &error))?;
        found.map(|found| self.keep(&resource, found)).transpose()
    }

    /// Reads the objects of a kind that have the label of the Cluster; all of them, if they belong to no namespace.
    async fn list(&mut self, group: &str, kind: &str, is_needed: bool) -> Result<(), SnapshotError> {
        if !self.listed.insert((group.to_owned(), kind.to_owned())) {
            return Ok(());
        }
        let Some((resource, scope)) = self.resource(group, kind).await? else { return Ok(()) };
        let api = self.api(&resource, &scope, self.namespace);
        let mut parameters = ListParams::default().limit(PAGE);
        if scope == Scope::Namespaced {
            parameters = parameters.labels(&format!("{CLUSTER_NAME_LABEL}={}", self.cluster));
        }
        loop {
            let page = match api.list(&parameters).await {
                Ok(page) => page,
                // What is referred to is read one by one then.
                Err(kube::Error::Api(status))
                    if status.code == 403 && !is_needed && scope == Scope::Namespaced =>
                {
                    return Ok(());
                }
                Err(error) => return Err(read_error(&format!("{kind}s"), &error)),
            };
            let next = page.metadata.continue_.filter(|next| !next.is_empty());
            for object in page.items {
                self.keep(&resource, object)?;
            }
            let Some(next) = next else { return Ok(()) };
            parameters = parameters.continue_token(&next);
        }
    }

    fn api(&self, resource: &ApiResource, scope: &Scope, namespace: &str) -> Api<DynamicObject> {
        match scope {
            Scope::Namespaced => Api::namespaced_with(self.client.clone(), namespace, resource),
            Scope::Cluster => Api::all_with(self.client.clone(), resource),
        }
    }

    /// Keeps an object, in its newest version if it is of a kind of Cluster API.
    fn keep(&mut self, resource: &ApiResource, object: DynamicObject) -> Result<Value, SnapshotError> {
        let name = object.metadata.name.clone().unwrap_or_default();
        let namespace = object.metadata.namespace.clone().unwrap_or_default();
        let wrong = |why: String| SnapshotError::Convert { object: format!("{} {name}", resource.kind), why };
        let mut object = serde_json::to_value(object).map_err(|error| wrong(error.to_string()))?;
        object["apiVersion"] = resource.api_version.clone().into();
        object["kind"] = resource.kind.clone().into();
        let object = newest(object).map_err(|error| wrong(error.to_string()))?;
        let place = (group_of(&object).to_owned(), resource.kind.clone(), namespace, name);
        self.objects.insert(place, object.clone());
        Ok(object)
    }
}

/// What an object refers to, and at which version where it says so.
fn references(object: &Value) -> Vec<(Reference, Option<String>)> {
    let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
    let spec = &object["spec"];
    let found: Vec<&Value> = match object["kind"].as_str().unwrap_or_default() {
        "ClusterClass" => {
            let control_plane = &spec["controlPlane"];
            let mut parts =
                vec![&spec["infrastructure"], control_plane, &control_plane["machineInfrastructure"]];
            for workers in ["machineDeployments", "machinePools"] {
                for group in spec["workers"][workers].as_array().into_iter().flatten() {
                    parts.extend([&group["bootstrap"], &group["infrastructure"]]);
                }
            }
            parts.into_iter().map(|part| &part["templateRef"]).collect()
        }
        "Cluster" => vec![&spec["infrastructureRef"], &spec["controlPlaneRef"]],
        "Machine" => vec![&spec["infrastructureRef"], &spec["bootstrap"]["configRef"]],
        "MachineDeployment" | "MachineSet" | "MachinePool" => {
            let template = &spec["template"]["spec"];
            vec![&template["infrastructureRef"], &template["bootstrap"]["configRef"]]
        }
        _ => vec![&spec["machineTemplate"]["spec"]["infrastructureRef"]],
    };
    let read = |reference: &Value| {
        let api_version = reference["apiVersion"].as_str();
        let (group, version) = match (reference["apiGroup"].as_str(), api_version) {
            (Some(group), _) => (group, None),
            (None, Some(api_version)) => {
                let (group, version) = api_version::split(api_version);
                (group, Some(version.to_owned()))
            }
            (None, None) => return None,
        };
        if group.is_empty() {
            // Objects of the core group are no provider's, and Secrets are not read.
            return None;
        }
        let (kind, name) = (reference["kind"].as_str()?, reference["name"].as_str()?);
        let reference = Reference {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Some((reference, version))
    };
    found.into_iter().filter_map(read).collect()
}

fn refused(what: &str, error: &SnapshotError) -> Unread {
    let why = match error {
        SnapshotError::Read { why, .. } => why.clone(),
        other => other.to_string(),
    };
    Unread::Refused { what: what.to_owned(), why }
}

fn read_error(what: &str, error: &kube::Error) -> SnapshotError {
    SnapshotError::Read { what: what.to_owned(), why: describe_error(error) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_name_groups_with_or_without_a_version_and_never_the_core_group() {
        let machine = |infrastructure: Value, bootstrap: Value| {
            json!({"kind": "Machine", "metadata": {"name": "m", "namespace": "n"},
                "spec": {"infrastructureRef": infrastructure, "bootstrap": {"configRef": bootstrap}}})
        };
        let found = references(&machine(
            json!({"apiGroup": "infra.io", "kind": "Box", "name": "b"}),
            json!({"apiVersion": "boot.io/v1beta1", "kind": "Config", "name": "c"}),
        ));
        let found: Vec<(&str, &str, Option<&str>)> = found
            .iter()
            .map(|(reference, version)| {
                (reference.group.as_str(), reference.kind.as_str(), version.as_deref())
            })
            .collect();
        assert_eq!(found, [("infra.io", "Box", None), ("boot.io", "Config", Some("v1beta1"))]);
        // It may be a Secret.
        let core = json!({"apiVersion": "v1", "kind": "Secret", "name": "s"});
        assert!(references(&machine(core.clone(), core)).is_empty());
    }
}
