//! Requests with objects that do not exist, and say so.
//!
//! Every object is called `windlass-conformance-test` and carries a label and an annotation, so that an
//! extension, and the reader of its logs, can tell them from real ones.

use serde::Serialize;
use serde_json::{Value, json};
use windlass_api::hooks::{self, HookRequest, Settings, UpgradePlan};
use windlass_api::names::{CLUSTER_API_VERSION, CLUSTER_NAME_LABEL};
use windlass_api::{Hook, Object};

use crate::options::Options;

/// Name and namespace of every synthetic object, and key of its mark.
pub(crate) const NAME: &str = "windlass-conformance-test";
/// What the mark says.
pub(crate) const MARK: &str = "windlass conformance test, safe to ignore";
/// The uid of the synthetic Cluster, which an extension may quote.
pub(crate) const CLUSTER_UID: &str = "57494e44-4c41-4000-8000-000000000000";

/// A request of a hook, as JSON.
pub(crate) fn request(hook: Hook, options: &Options, settings: &Settings) -> Value {
    let (from, to) = ends(options);
    let upgrade_plan =
        UpgradePlan { control_plane: versions_after_first(options), workers: vec![to.clone()] };
    let cluster = object(cluster(options, &from));
    /// A request with the fields that the hook's has, from the variables of the same names.
    macro_rules! request {
        ($request:ident { $($field:ident),* }) => {
            json(hooks::$request { $($field,)* ..Default::default() }, settings)
        };
    }
    let (from_kubernetes_version, to_kubernetes_version) = (from.clone(), to.clone());
    // Hooks that come after something are told what was reached.
    let kubernetes_version = to.clone();
    match hook {
        Hook::Discovery => json(hooks::DiscoveryRequest::default(), settings),
        Hook::BeforeClusterCreate => request!(BeforeClusterCreateRequest { cluster }),
        Hook::AfterControlPlaneInitialized => request!(AfterControlPlaneInitializedRequest { cluster }),
        Hook::BeforeClusterUpgrade => request!(BeforeClusterUpgradeRequest {
            cluster,
            from_kubernetes_version,
            to_kubernetes_version,
            upgrade_plan
        }),
        Hook::BeforeControlPlaneUpgrade => request!(BeforeControlPlaneUpgradeRequest {
            cluster,
            from_kubernetes_version,
            to_kubernetes_version,
            upgrade_plan
        }),
        Hook::BeforeWorkersUpgrade => request!(BeforeWorkersUpgradeRequest {
            cluster,
            from_kubernetes_version,
            to_kubernetes_version,
            upgrade_plan
        }),
        Hook::AfterControlPlaneUpgrade => {
            request!(AfterControlPlaneUpgradeRequest { cluster, kubernetes_version })
        }
        Hook::AfterWorkersUpgrade => request!(AfterWorkersUpgradeRequest { cluster, kubernetes_version }),
        Hook::AfterClusterUpgrade => request!(AfterClusterUpgradeRequest { cluster, kubernetes_version }),
        Hook::BeforeClusterDelete => request!(BeforeClusterDeleteRequest { cluster }),
        Hook::GeneratePatches => with_settings(generate_patches(&items(options, 1), options), settings),
        Hook::ValidateTopology => with_settings(validate_topology(&items(options, 1), options), settings),
        Hook::DiscoverVariables => json(hooks::DiscoverVariablesRequest::default(), settings),
        Hook::GenerateUpgradePlan => {
            let workers = Some(from.clone());
            json(hooks::GenerateUpgradePlanRequest::new(cluster, from.clone(), workers, to.clone()), settings)
        }
        Hook::CanUpdateMachine => {
            let change = Change::Version;
            with_settings(
                can_update("CanUpdateMachine", &machine_objects(None), &machine_objects(Some(change))),
                settings,
            )
        }
        Hook::CanUpdateMachineSet => {
            let change = Change::Version;
            with_settings(
                can_update(
                    "CanUpdateMachineSet",
                    &machine_set_objects(None),
                    &machine_set_objects(Some(change)),
                ),
                settings,
            )
        }
        Hook::UpdateMachine => {
            let mut request = type_meta("UpdateMachine");
            request["desired"] = machine_objects(Some(Change::Version));
            with_settings(request, settings)
        }
        Hook::ExternalUpdate => {
            let mut request = type_meta("ExternalUpdate");
            request["cluster"] = self::cluster(options, &to);
            request["owner"] = json!({"apiVersion": CLUSTER_API_VERSION, "kind": "MachineDeployment",
                "namespace": NAME, "name": NAME});
            request["machines"] = json!([machine_objects(None)["machine"]]);
            request["desired"] = machine_objects(Some(Change::Version));
            with_settings(request, settings)
        }
    }
}

fn json<R: HookRequest + Serialize>(request: R, settings: &Settings) -> Value {
    serde_json::to_value(request.with_default_settings(settings)).unwrap_or_default()
}

/// Puts settings into a request that was made as JSON.
pub(crate) fn with_settings(mut request: Value, settings: &Settings) -> Value {
    if !settings.is_empty() {
        request["settings"] = json!(settings);
    }
    request
}

fn type_meta(hook: &str) -> Value {
    json!({"kind": format!("{hook}Request"), "apiVersion": windlass_api::names::HOOKS_API_VERSION})
}

fn ends(options: &Options) -> (String, String) {
    let text = |version: Option<&windlass_version::Version>, otherwise: &str| {
        version.map_or_else(|| otherwise.to_owned(), ToString::to_string)
    };
    let versions = &options.kubernetes_versions;
    (text(versions.first(), "v1.33.0"), text(versions.last(), "v1.34.0"))
}

fn versions_after_first(options: &Options) -> Vec<String> {
    options.kubernetes_versions.iter().skip(1).map(ToString::to_string).collect()
}

fn object(value: Value) -> Object {
    Object::try_from(value).unwrap_or_default()
}

fn metadata(name: &str) -> Value {
    json!({
        "name": name,
        "namespace": NAME,
        "labels": {NAME: "safe-to-ignore", CLUSTER_NAME_LABEL: NAME},
        "annotations": {NAME: MARK},
    })
}

/// A Cluster with a managed topology.
pub(crate) fn cluster(options: &Options, version: &str) -> Value {
    let mut metadata = metadata(NAME);
    metadata["uid"] = json!(CLUSTER_UID);
    json!({
        "apiVersion": CLUSTER_API_VERSION,
        "kind": "Cluster",
        "metadata": metadata,
        "spec": {
            "topology": {
                "classRef": {"name": NAME},
                "version": version,
                "controlPlane": {"replicas": 1},
                "workers": {"machineDeployments": [{"class": "default", "name": "md-0", "replicas": 1}]},
                "variables": options.variables,
            },
        },
    })
}

/// A template of a topology and who refers to it.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) uid: String,
    pub(crate) holder: Value,
    pub(crate) object: Value,
}

/// Templates of a topology. Another salt gives other uids.
pub(crate) fn items(options: &Options, salt: u32) -> Vec<Item> {
    let template = |api_version: &str, kind: &str, name: &str, spec: Value| {
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": metadata(&format!("{NAME}-{name}")),
            "spec": {"template": {"spec": spec}},
        })
    };
    let infrastructure = "infrastructure.cluster.x-k8s.io/v1beta2";
    let holder = |api_version: &str, kind: &str, field: &str| json!({"apiVersion": api_version, "kind": kind, "namespace": NAME, "name": NAME, "fieldPath": field});
    let control_plane = "controlplane.cluster.x-k8s.io/v1beta2";
    let deployment = |field: &str| holder(CLUSTER_API_VERSION, "MachineDeployment", field);
    let kubeadm = json!({"clusterConfiguration": {}, "initConfiguration": {}, "joinConfiguration": {}});
    let mut pairs = vec![
        (
            holder(CLUSTER_API_VERSION, "Cluster", "spec.infrastructureRef"),
            template(infrastructure, "DevClusterTemplate", "cluster", json!({"backend": {"inMemory": {}}})),
        ),
        (
            holder(CLUSTER_API_VERSION, "Cluster", "spec.controlPlaneRef"),
            template(
                control_plane,
                "KubeadmControlPlaneTemplate",
                "control-plane",
                json!({"kubeadmConfigSpec": kubeadm}),
            ),
        ),
        (
            holder(control_plane, "KubeadmControlPlane", "spec.machineTemplate.spec.infrastructureRef"),
            template(
                infrastructure,
                "DevMachineTemplate",
                "control-plane",
                json!({"backend": {"inMemory": {}}}),
            ),
        ),
        (
            deployment("spec.template.spec.bootstrap.configRef"),
            template(
                "bootstrap.cluster.x-k8s.io/v1beta2",
                "KubeadmConfigTemplate",
                "md-0",
                json!({"joinConfiguration": {}}),
            ),
        ),
        (
            deployment("spec.template.spec.infrastructureRef"),
            template(infrastructure, "DevMachineTemplate", "md-0", json!({"backend": {"inMemory": {}}})),
        ),
    ];
    for (index, given) in options.templates.iter().enumerate() {
        let mut holder = deployment("spec.template.spec.infrastructureRef");
        holder["name"] = json!(format!("{NAME}-given-{index}"));
        pairs.push((holder, Value::from(given.clone())));
    }
    pairs
        .into_iter()
        .enumerate()
        .map(|(index, (holder, object))| Item {
            uid: format!("{salt:08x}-0000-4000-8000-{index:012x}"),
            holder,
            object,
        })
        .collect()
}

/// Variables of every topology request.
fn variables(options: &Options) -> Vec<Value> {
    let (version, _) = ends(options);
    let builtin = json!({
        "name": "builtin",
        "value": {
            "cluster": {
                "name": NAME,
                "namespace": NAME,
                "uid": CLUSTER_UID,
                "topology": {"version": version, "classRef": {"name": NAME, "namespace": NAME}},
            },
            "controlPlane": {"version": version, "name": NAME, "replicas": 1},
        },
    });
    std::iter::once(builtin).chain(options.variables.iter().map(|variable| json!(variable))).collect()
}

/// Asks for patches of these items.
pub(crate) fn generate_patches(items: &[Item], options: &Options) -> Value {
    let mut request = type_meta("GeneratePatches");
    request["variables"] = json!(variables(options));
    request["items"] = items
        .iter()
        .map(|item| json!({"uid": item.uid, "holderReference": item.holder, "object": item.object}))
        .collect();
    request
}

/// Asks whether these items are valid.
pub(crate) fn validate_topology(items: &[Item], options: &Options) -> Value {
    let mut request = type_meta("ValidateTopology");
    request["variables"] = json!(variables(options));
    request["items"] =
        items.iter().map(|item| json!({"holderReference": item.holder, "object": item.object})).collect();
    request
}

/// A change between what a Machine is and what it shall be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// The Kubernetes version.
    Version,
    /// A file in the bootstrap config.
    BootstrapFile,
    /// A field of the infrastructure that no extension knows.
    Unsupported,
}

impl Change {
    pub(crate) const ALL: [Self; 3] = [Self::Version, Self::BootstrapFile, Self::Unsupported];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Version => "a change of version",
            Self::BootstrapFile => "a change of a bootstrap file",
            Self::Unsupported => "a change that no extension knows",
        }
    }
}

/// Specs of a Machine, its infrastructure and its bootstrap config, before or after a change.
fn machine_specs(change: Option<Change>) -> (Value, Value, Value) {
    let version = if change == Some(Change::Version) { "v1.33.1" } else { "v1.33.0" };
    let content = if change == Some(Change::BootstrapFile) { "second" } else { "first" };
    let mut infrastructure = json!({"backend": {"inMemory": {}}});
    if change == Some(Change::Unsupported) {
        infrastructure["windlassConformanceTestUnknownField"] = json!("changed");
    }
    let bootstrap = json!({
        "files": [{"path": "/etc/windlass-conformance-test", "content": content}],
        "joinConfiguration": {},
    });
    (json!({"clusterName": NAME, "version": version}), infrastructure, bootstrap)
}

/// A Machine with what belongs to it.
pub(crate) fn machine_objects(change: Option<Change>) -> Value {
    let (machine, infrastructure, bootstrap) = machine_specs(change);
    let object = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": metadata(NAME), "spec": spec});
    json!({
        "machine": object(CLUSTER_API_VERSION, "Machine", machine),
        "infrastructureMachine":
            object("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachine", infrastructure),
        "bootstrapConfig": object("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig", bootstrap),
    })
}

/// A MachineSet with its templates: the same change, one level up.
pub(crate) fn machine_set_objects(change: Option<Change>) -> Value {
    let (machine, infrastructure, bootstrap) = machine_specs(change);
    let object = |api_version: &str, kind: &str, spec: Value| {
        json!({
            "apiVersion": api_version,
            "kind": kind,
            "metadata": metadata(NAME),
            "spec": {"template": {"spec": spec}},
        })
    };
    let mut machine_set = object(CLUSTER_API_VERSION, "MachineSet", machine);
    machine_set["spec"]["clusterName"] = json!(NAME);
    machine_set["spec"]["replicas"] = json!(1);
    json!({
        "machineSet": machine_set,
        "infrastructureMachineTemplate":
            object("infrastructure.cluster.x-k8s.io/v1beta2", "DevMachineTemplate", infrastructure),
        "bootstrapConfigTemplate":
            object("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfigTemplate", bootstrap),
    })
}

/// Asks how much of a change can be made in place.
pub(crate) fn can_update(hook: &str, current: &Value, desired: &Value) -> Value {
    let mut request = type_meta(hook);
    request["current"] = current.clone();
    request["desired"] = desired.clone();
    request
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_request_is_of_its_kind_carries_settings_and_is_marked() {
        let options = Options::default();
        let settings = Settings::from([("a".to_owned(), "b".to_owned())]);
        for hook in Hook::ALL.into_iter().filter(|hook| !hook.is_singleton()) {
            let request = request(hook, &options, &settings);
            assert_eq!(request["kind"], hook.request_kind());
            assert_eq!(request["settings"]["a"], "b", "{hook}");
            let marked = request.to_string().contains(MARK);
            assert!(marked || hook == Hook::DiscoverVariables, "{hook} has objects without a mark");
        }
    }

    #[test]
    fn salts_change_uids_and_nothing_else() {
        let options = Options::default();
        let (first, second) = (items(&options, 1), items(&options, 2));
        for (one, other) in first.iter().zip(&second) {
            assert_ne!(one.uid, other.uid);
            assert_eq!((&one.holder, &one.object), (&other.holder, &other.object));
        }
    }
}
