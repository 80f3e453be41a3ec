//! From a snapshot to the objects of a world in memory. Nothing here reads or writes anything.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::names::{
    CLUSTER_NAME_LABEL, CLUSTER_SECRET_TYPE, IN_PLACE_EXTENSIONS_ANNOTATION, KCP_CLEANUP_ANNOTATION,
    MACHINE_POOL_NAME_LABEL, PRE_DRAIN_DELETE_HOOK_PREFIX, PRE_TERMINATE_DELETE_HOOK_PREFIX,
    UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_inmemory::{DURATIONS_ANNOTATION, Durations};
use windlass_runtime::ObjectKey;
use windlass_version::Version;

use super::roles::{Role, Roles};
use super::{Snapshot, machines, title};
use crate::extension::PLAN_HANDLER;

/// How a snapshot becomes a world.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RebuildOptions {
    /// Whether extensions are called where they are. If not, they are left out.
    pub live_extensions: bool,
    /// How long machines of other providers take to come and to go.
    pub durations: Durations,
}

/// What a world begins with.
#[derive(Clone, Debug, PartialEq)]
pub struct Rebuilt {
    /// The objects, as they are in the store of the world.
    pub objects: Vec<Value>,
    /// Namespaces, which the API of the world has to make itself.
    pub namespaces: Vec<Value>,
    /// The CRDs.
    pub crds: Vec<Value>,
    /// The Cluster.
    pub cluster: ObjectKey,
    /// The version that it has now.
    pub version: Version,
    /// When the world begins.
    pub now: Timestamp,
    /// Extensions that update machines in place at this moment, by name.
    pub updaters: BTreeSet<String>,
    /// What was replaced, left out or assumed.
    pub notes: Vec<String>,
}

/// Why a snapshot cannot become a world.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NotRebuilt {
    /// It has no such Cluster.
    #[error("the snapshot has no Cluster {0}")]
    NoCluster(ObjectKey),
    /// The Cluster is not made by a class.
    #[error("Cluster {0} has no topology: its parts are upgraded one by one")]
    NoTopology(ObjectKey),
    /// Its version is none.
    #[error("spec.topology.version of Cluster {cluster}: {error}")]
    Version {
        /// The Cluster.
        cluster: ObjectKey,
        /// What is wrong with it.
        error: windlass_version::ParseError,
    },
    /// What a topology is made from is not there.
    #[error("{object}, which {by} refers to, is not there")]
    Missing {
        /// What.
        object: String,
        /// The class or the Cluster.
        by: String,
    },
    /// Something else than kubeadm manages the control plane.
    #[error(
        "the control plane of Cluster {cluster} is a {kind}, and only a KubeadmControlPlane can be simulated"
    )]
    ControlPlane {
        /// The Cluster.
        cluster: ObjectKey,
        /// The kind.
        kind: String,
    },
    /// Something else than kubeadm bootstraps machines.
    #[error("{of} is bootstrapped by a {kind}, and only kubeadm can be simulated")]
    Bootstrap {
        /// The kind.
        kind: String,
        /// Whose machines.
        of: String,
    },
    /// What extensions make of templates is not known without them.
    #[error(
        "ClusterClass {class} has templates patched by {}: what they make of templates is known with --live-extensions \
         only, and without it every machine would look outdated", .handlers.join(", ")
    )]
    ExternalPatches {
        /// The class.
        class: String,
        /// The handlers.
        handlers: Vec<String>,
    },
    /// Two objects of different kinds would have one stand-in.
    #[error(
        "two kinds of infrastructure have a {kind} of the name {name}: they cannot be told apart in a simulation"
    )]
    Clash {
        /// The kind that stands in for both.
        kind: String,
        /// The name.
        name: String,
    },
    /// An object does not have the shape of its kind.
    #[error("{object}: {why}")]
    Malformed {
        /// The object.
        object: String,
        /// What is wrong with it.
        why: String,
    },
}

impl Snapshot {
    /// The objects of a world that is where the Cluster was. Machines of any provider become machines in memory; everything
    /// else stays as it is.
    ///
    /// # Errors
    ///
    /// When the Cluster has no topology, when something of it is missing without which nothing could go on, or when it is
    /// managed by something that cannot be simulated.
    pub fn rebuild(&self, options: &RebuildOptions) -> Result<Rebuilt, NotRebuilt> {
        let key = ObjectKey::new(self.namespace.clone(), self.cluster.clone());
        let version = self.check(&key, options)?;
        let mut rebuilding = Rebuilding {
            options,
            roles: Roles::of(&self.objects)?,
            parts: Parts::of(self)?,
            uids: self.objects.iter().filter_map(|object| object["metadata"]["uid"].as_str()).collect(),
            notes: self.unread.iter().map(ToString::to_string).collect(),
        };
        let (mut objects, mut namespaces): (Vec<Value>, BTreeMap<String, Value>) = Default::default();
        for object in &self.objects {
            if object["kind"] == "Namespace" {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                let labels = &object["metadata"]["labels"];
                namespaces.insert(name.clone(), namespace(&name, labels));
            } else if let Some(object) = rebuilding.object(object) {
                objects.push(object);
            }
        }
        if let Some(secret) = rebuilding.parts.clusters.get(&key.name).and_then(kubeconfig) {
            objects.push(secret);
        }
        find_clash(&objects)?;
        for name in objects.iter().filter_map(|object| object["metadata"]["namespace"].as_str()) {
            namespaces.entry(name.to_owned()).or_insert_with(|| namespace(name, &Value::Null));
        }
        let replaced: Vec<(&str, Role)> = rebuilding.roles.replaced().collect();
        for (kind, role) in &replaced {
            rebuilding.notes.insert(format!("{kind} is replaced by {}", role.kind()));
        }
        let crds = crds(!replaced.is_empty());
        let updaters = if options.live_extensions { BTreeSet::new() } else { rebuilding.parts.updaters() };
        if !updaters.is_empty() {
            let names: Vec<&str> = updaters.iter().map(String::as_str).collect();
            rebuilding.notes.insert(format!(
                "{}, at work on machines now, is assumed to be done at once and to cover what comes",
                names.join(", ")
            ));
        }
        Ok(Rebuilt {
            objects,
            namespaces: namespaces.into_values().collect(),
            crds,
            cluster: key,
            version,
            now: self.taken,
            updaters,
            notes: rebuilding.notes.into_iter().collect(),
        })
    }

    /// Whether the Cluster can be simulated, and its version.
    fn check(&self, key: &ObjectKey, options: &RebuildOptions) -> Result<Version, NotRebuilt> {
        let is_it = |object: &&Value| object["metadata"]["name"] == key.name.as_str();
        let cluster =
            self.of_kind("Cluster").find(is_it).ok_or_else(|| NotRebuilt::NoCluster(key.clone()))?;
        let topology = &cluster["spec"]["topology"];
        if !topology.is_object() {
            return Err(NotRebuilt::NoTopology(key.clone()));
        }
        let version = topology["version"].as_str().unwrap_or_default();
        let version =
            Version::parse(version).map_err(|error| NotRebuilt::Version { cluster: key.clone(), error })?;
        if let Some(kind) =
            cluster["spec"]["controlPlaneRef"]["kind"].as_str().filter(|kind| *kind != "KubeadmControlPlane")
        {
            return Err(NotRebuilt::ControlPlane { cluster: key.clone(), kind: kind.to_owned() });
        }
        let class_name = topology["classRef"]["name"].as_str().unwrap_or_default();
        let missing = |object: String, by: &Value| NotRebuilt::Missing { object, by: title(by) };
        let Some(class) = self.of_kind("ClusterClass").find(|class| class["metadata"]["name"] == class_name)
        else {
            return Err(missing(format!("ClusterClass {class_name}"), cluster));
        };
        let class_title = title(class);
        let is_absent = |unread: &&super::Unread| matches!(unread, super::Unread::Absent { referred_by, .. } if *referred_by == class_title);
        if let Some(super::Unread::Absent { object, .. }) = self.unread.iter().find(is_absent) {
            return Err(missing(object.clone(), class));
        }
        let patches = class["spec"]["patches"].as_array().into_iter().flatten();
        let handlers: Vec<String> = patches
            .filter_map(|patch| patch["external"]["generatePatchesExtension"].as_str().map(str::to_owned))
            .collect();
        if !handlers.is_empty() && !options.live_extensions {
            return Err(NotRebuilt::ExternalPatches { class: class_name.to_owned(), handlers });
        }
        Ok(version)
    }
}

/// Objects that stand-ins are made from.
struct Parts {
    clusters: BTreeMap<String, Cluster>,
    /// By the name of their infrastructure.
    machines: BTreeMap<String, Machine>,
    /// By the name of their infrastructure.
    pools: BTreeMap<String, MachinePool>,
}

impl Parts {
    fn of(snapshot: &Snapshot) -> Result<Self, NotRebuilt> {
        let mut parts = Self { clusters: BTreeMap::new(), machines: BTreeMap::new(), pools: BTreeMap::new() };
        for object in snapshot.of_kind("Cluster") {
            let cluster: Cluster = read(object)?;
            parts.clusters.insert(cluster.metadata.name.clone().unwrap_or_default(), cluster);
        }
        for object in snapshot.of_kind("Machine") {
            let machine: Machine = read(object)?;
            parts.machines.insert(machine.spec.infrastructure_ref.name.clone(), machine);
        }
        for object in snapshot.of_kind("MachinePool") {
            let pool: MachinePool = read(object)?;
            parts.pools.insert(pool.spec.template.spec.infrastructure_ref.name.clone(), pool);
        }
        Ok(parts)
    }

    /// The extensions that are at work on machines now.
    fn updaters(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for machine in self.machines.values() {
            let annotations = machine.annotations();
            let recorded =
                annotations.get(IN_PLACE_EXTENSIONS_ANNOTATION).map(String::as_str).unwrap_or_default();
            let recorded: Vec<&str> =
                recorded.split(',').map(str::trim).filter(|name| !name.is_empty()).collect();
            if recorded.is_empty() && annotations.contains_key(UPDATE_IN_PROGRESS_ANNOTATION) {
                // Upstream does not say which extension it is.
                names.insert("updater".to_owned());
            }
            names.extend(recorded.into_iter().map(str::to_owned));
        }
        names
    }
}

fn read<K: DeserializeOwned>(object: &Value) -> Result<K, NotRebuilt> {
    serde_json::from_value(object.clone())
        .map_err(|error| NotRebuilt::Malformed { object: title(object), why: error.to_string() })
}

struct Rebuilding<'a> {
    options: &'a RebuildOptions,
    roles: Roles,
    parts: Parts,
    uids: BTreeSet<&'a str>,
    notes: BTreeSet<String>,
}

impl Rebuilding<'_> {
    /// An object as the world has it; nothing if it has no place there.
    fn object(&mut self, object: &Value) -> Option<Value> {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        if kind == "ExtensionConfig" && !self.options.live_extensions {
            self.notes.insert(
                "extensions are not called: every hook is assumed to pass, and machines to be replaced"
                    .to_owned(),
            );
            return None;
        }
        let labels = &object["metadata"]["labels"];
        if kind == "Machine" && labels.get(MACHINE_POOL_NAME_LABEL).is_some() {
            self.notes
                .insert("Machines of MachinePools are left out: their provider looks after them".to_owned());
            return None;
        }
        let replaced = self.roles.replaces(object);
        let role = self.roles.role(object);
        let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let mut made = object.clone();
        self.roles.rename(&mut made);
        self.owners(&mut made);
        match replaced {
            Some(Role::Cluster) => {
                let label =
                    made["metadata"]["labels"][CLUSTER_NAME_LABEL].as_str().unwrap_or(&name).to_owned();
                made = machines::cluster(made, self.parts.clusters.get(&label));
            }
            Some(Role::Machine) => made = machines::machine(made, self.parts.machines.get(&name)),
            Some(Role::Pool) => made = machines::pool(made, self.parts.pools.get(&name)),
            Some(_) => {}
            None => self.release(&kind, &mut made),
        }
        if role == Some(Role::Cluster) && self.options.durations != Durations::default() {
            let text = serde_json::to_string(&self.options.durations).unwrap_or_default();
            made["metadata"]["annotations"][DURATIONS_ANNOTATION] = json!(text);
        }
        if kind == "ClusterClass" && !self.options.live_extensions {
            self.without_plan_extension(&mut made);
        }
        Some(made)
    }

    /// Owners that are not part of the snapshot are taken away: the garbage collector would take the object away with them.
    fn owners(&self, object: &mut Value) {
        if let Some(owners) = object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut) {
            owners.retain(|owner| owner["uid"].as_str().is_some_and(|uid| self.uids.contains(uid)));
        }
    }

    /// What other programs hold an object with, that do not act in the world: assumed to be released at once.
    fn release(&mut self, kind: &str, object: &mut Value) {
        let mut released = BTreeSet::new();
        if let Some(finalizers) = object.pointer_mut("/metadata/finalizers").and_then(Value::as_array_mut) {
            finalizers.retain(|finalizer| {
                let name = finalizer.as_str().unwrap_or_default();
                let is_known = name.contains("cluster.x-k8s.io") || name == "foregroundDeletion";
                if !is_known {
                    released.insert(format!("finalizer {name}"));
                }
                is_known
            });
        }
        if kind == "Machine"
            && let Some(annotations) =
                object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut)
        {
            annotations.retain(|key, _| {
                let holds = [PRE_DRAIN_DELETE_HOOK_PREFIX, PRE_TERMINATE_DELETE_HOOK_PREFIX]
                    .iter()
                    .any(|prefix| key.starts_with(prefix));
                let is_foreign = holds && key != KCP_CLEANUP_ANNOTATION;
                if is_foreign {
                    released.insert(format!("annotation {key}"));
                }
                !is_foreign
            });
        }
        for what in released {
            self.notes.insert(format!(
                "{what} of {kind} is assumed to be released at once by the program that set it"
            ));
        }
    }

    /// Lets a stand-in plan upgrades where an extension does.
    fn without_plan_extension(&mut self, class: &mut Value) {
        let handler = class.pointer_mut("/spec/upgrade/external/generateUpgradePlanExtension");
        if let Some(handler) = handler.filter(|handler| handler.as_str().is_some_and(|name| !name.is_empty()))
        {
            *handler = json!(PLAN_HANDLER);
            self.notes.insert(
                "upgrade plans are made by a stand-in for the extension, through the first release of every minor"
                    .to_owned(),
            );
        }
    }
}

fn namespace(name: &str, labels: &Value) -> Value {
    let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    if labels.is_object() {
        namespace["metadata"]["labels"] = labels.clone();
    }
    namespace
}

/// How controllers reach the workload cluster, which is in memory. The real Secret is not read.
fn kubeconfig(cluster: &Cluster) -> Option<Value> {
    let server = format!("https://{}", cluster.spec.control_plane_endpoint.address()?);
    let name = cluster.metadata.name.clone().unwrap_or_default();
    let text = json!({"apiVersion": "v1", "kind": "Config", "current-context": name,
        "clusters": [{"name": name, "cluster": {"server": server}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": ""}}]});
    Some(json!({"apiVersion": "v1", "kind": "Secret", "type": CLUSTER_SECRET_TYPE,
        "metadata": {"name": format!("{name}-kubeconfig"), "namespace": cluster.metadata.namespace,
            "labels": {CLUSTER_NAME_LABEL: name}, "uid": format!("preview-{name}-kubeconfig")},
        "data": {"value": base64(text.to_string().as_bytes())}}))
}

fn base64(bytes: &[u8]) -> Value {
    // The type of Kubernetes writes bytes as Secrets have them.
    json!(k8s_openapi::ByteString(bytes.to_vec()))
}

fn find_clash(objects: &[Value]) -> Result<(), NotRebuilt> {
    let mut places = BTreeSet::new();
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (kind, metadata) = (text(&object["kind"]), &object["metadata"]);
        let place = (kind.clone(), text(&metadata["namespace"]), text(&metadata["name"]));
        if !places.insert(place) {
            return Err(NotRebuilt::Clash { kind, name: text(&metadata["name"]) });
        }
    }
    Ok(())
}

/// All CRDs. Stand-ins keep the fields of what they stand in for, so that patches of classes find them.
fn crds(has_stand_ins: bool) -> Vec<Value> {
    let mut crds = windlass_api::crds::manifests();
    let is_dev =
        |crd: &&mut Value| crd["spec"]["names"]["kind"].as_str().is_some_and(|kind| kind.starts_with("Dev"));
    for crd in crds.iter_mut().filter(|_| has_stand_ins).filter(is_dev) {
        for version in crd["spec"]["versions"].as_array_mut().into_iter().flatten() {
            let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
            version["schema"]["openAPIV3Schema"] = any;
        }
    }
    crds
}
