//! Manifests as a simulation can run them: infrastructure of real providers is replaced by that in memory.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_api::api_version;
use windlass_api::names::{INFRASTRUCTURE_API_VERSION, INFRASTRUCTURE_GROUP};
use windlass_runtime::ObjectKey;
use windlass_version::Version;

use crate::extension::PLAN_HANDLER;

/// Manifests that can be applied to a world.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The objects, the Cluster last.
    pub objects: Vec<Value>,
    /// The Cluster.
    pub cluster: ObjectKey,
    /// The version it is created with.
    pub version: Version,
    /// What was left out or replaced.
    pub warnings: Vec<String>,
}

/// Makes manifests ready for a simulation. Extensions stay as they are if they are live, and are left out if not.
///
/// # Errors
///
/// When they do not have exactly one Cluster with a topology, or when its class or one of the templates of that is missing: the
/// cluster would never come up.
pub fn prepare(manifests: &[Value], is_live: bool) -> Result<Prepared, String> {
    let kind = |object: &Value| object["kind"].as_str().unwrap_or_default().to_owned();
    let clusters: Vec<&Value> = manifests
        .iter()
        .filter(|object| kind(object) == "Cluster" && object["spec"]["topology"].is_object())
        .collect();
    let [cluster] = clusters.as_slice() else {
        return Err(format!(
            "the manifests must have one Cluster with spec.topology, there are {}",
            clusters.len()
        ));
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace = match text(&cluster["metadata"]["namespace"]).as_str() {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    };
    let key = ObjectKey::new(namespace, text(&cluster["metadata"]["name"]));
    let version = text(&cluster["spec"]["topology"]["version"]);
    let version = Version::parse(&version).map_err(|error| format!("spec.topology.version: {error}"))?;

    let mut warnings = BTreeSet::new();
    let mut namespaces = BTreeSet::new();
    let mut objects = Vec::new();
    for object in manifests.iter().filter(|object| !object.is_null() && !std::ptr::eq(*object, *cluster)) {
        let Some(object) = prepared(object, is_live, &mut warnings) else { continue };
        namespaces.insert(text(&object["metadata"]["namespace"]));
        objects.push(object);
    }
    find_references(cluster, &objects, is_live)?;
    namespaces.insert(key.namespace.clone());
    let mut all: Vec<Value> = namespaces
        .iter()
        .filter(|namespace| !namespace.is_empty() && *namespace != "default")
        .map(|namespace| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}))
        .collect();
    all.extend(objects);
    all.push((*cluster).clone());
    Ok(Prepared { objects: all, cluster: key, version, warnings: warnings.into_iter().collect() })
}

/// Whether what a topology is made from is there: its class, and the templates of that.
fn find_references(cluster: &Value, objects: &[Value], is_live: bool) -> Result<(), String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let namespace_of = |object: &Value| match text(&object["metadata"]["namespace"]).as_str() {
        "" => "default".to_owned(),
        namespace => namespace.to_owned(),
    };
    let find = |kind: &str, namespace: &str, name: &str| {
        objects.iter().find(|object| {
            object["kind"] == kind && object["metadata"]["name"] == name && namespace_of(object) == namespace
        })
    };
    let reference = &cluster["spec"]["topology"]["classRef"];
    let Some(name) = reference["name"].as_str() else { return Ok(()) };
    let namespace = reference["namespace"].as_str().map_or_else(|| namespace_of(cluster), str::to_owned);
    let missing = |kind: &str, name: &str, by: String| {
        Err(format!("{kind} {namespace}/{name}, which {by} refers to, is not in the manifests"))
    };
    let Some(class) = find("ClusterClass", &namespace, name) else {
        return missing("ClusterClass", name, format!("Cluster {}", text(&cluster["metadata"]["name"])));
    };
    let spec = &class["spec"];
    let mut parts =
        vec![&spec["infrastructure"], &spec["controlPlane"], &spec["controlPlane"]["machineInfrastructure"]];
    for workers in ["machineDeployments", "machinePools"] {
        for group in spec["workers"][workers].as_array().into_iter().flatten() {
            parts.extend([&group["bootstrap"], &group["infrastructure"]]);
        }
    }
    for template in parts.into_iter().map(|part| &part["templateRef"]) {
        if let (Some(kind), Some(of)) = (template["kind"].as_str(), template["name"].as_str())
            && find(kind, &namespace, of).is_none()
        {
            return missing(kind, of, format!("ClusterClass {name}"));
        }
    }
    let plane = &spec["controlPlane"]["templateRef"];
    if plane["kind"].as_str().is_some_and(|kind| kind != "KubeadmControlPlaneTemplate") {
        return Err(format!(
            "the control plane of ClusterClass {name} is a {}, and only a KubeadmControlPlaneTemplate can be simulated",
            text(&plane["kind"])
        ));
    }
    for workers in ["machineDeployments", "machinePools"] {
        let names = |groups: &Value| -> Vec<String> {
            groups.as_array().into_iter().flatten().map(|group| text(&group["class"])).collect()
        };
        let known = names(&spec["workers"][workers]);
        let used = names(&cluster["spec"]["topology"]["workers"][workers]);
        if let Some(unknown) = used.into_iter().find(|class| !known.contains(class)) {
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            let (topology, class) =
                (format!("spec.topology.workers.{workers}"), format!("ClusterClass {name} has {known}"));
            return Err(format!("{topology}: there is no class {unknown:?}, {class}"));
        }
    }
    if is_live {
        find_extensions(spec, name, objects)?;
    }
    Ok(())
}

/// Whether the extensions that a class names are there; a handler is called `<handler>.<ExtensionConfig>`.
fn find_extensions(class: &Value, name: &str, objects: &[Value]) -> Result<(), String> {
    let mut handlers = vec![&class["upgrade"]["external"]["generateUpgradePlanExtension"]];
    for patch in class["patches"].as_array().into_iter().flatten() {
        let external = &patch["external"];
        handlers.extend(
            ["generatePatchesExtension", "validateTopologyExtension", "discoverVariablesExtension"]
                .map(|field| &external[field]),
        );
    }
    for handler in handlers.into_iter().filter_map(Value::as_str).filter(|handler| !handler.is_empty()) {
        let config = handler.rsplit('.').next().unwrap_or_default();
        let is_there = objects
            .iter()
            .any(|object| object["kind"] == "ExtensionConfig" && object["metadata"]["name"] == config);
        if !is_there {
            return Err(format!(
                "ExtensionConfig {config}, which ClusterClass {name} refers to by handler {handler}, is not in the manifests"
            ));
        }
    }
    Ok(())
}

/// One object, or nothing if it has no place in a simulation.
fn prepared(object: &Value, is_live: bool, warnings: &mut BTreeSet<String>) -> Option<Value> {
    let (api_version, kind) = (object["apiVersion"].as_str()?, object["kind"].as_str()?);
    let mut object = object.clone();
    match (api_version::group(api_version), kind) {
        (_, "ExtensionConfig") if is_live => Some(object),
        (_, "ExtensionConfig") => {
            warnings.insert("extensions are not called: a stand-in lets every hook pass".to_owned());
            None
        }
        ("cluster.x-k8s.io", "ClusterClass") => {
            if !is_live {
                without_extensions(&mut object, warnings);
            }
            replace_references(&mut object);
            Some(object)
        }
        (INFRASTRUCTURE_GROUP, kind) if kind.starts_with("Dev") => {
            // The object stays as it is: patches of the class are written for it.
            let backend = &object["spec"]["template"]["spec"]["backend"];
            if backend["docker"].is_object() && backend["inMemory"].is_null() {
                warnings.insert(format!(
                    "the docker backend of {kind} is taken for inMemory: its machines start at once"
                ));
            }
            Some(object)
        }
        (INFRASTRUCTURE_GROUP, kind) => {
            let spec = json!({"backend": {"inMemory": {}}});
            warnings.insert(format!("{kind} is replaced by {}: its machines start at once", stand_in(kind)?));
            object["apiVersion"] = json!(INFRASTRUCTURE_API_VERSION);
            object["kind"] = json!(stand_in(kind)?);
            object["spec"] = json!({"template": {"spec": spec}});
            Some(object)
        }
        ("cluster.x-k8s.io" | "controlplane.cluster.x-k8s.io" | "bootstrap.cluster.x-k8s.io", _) => {
            Some(object)
        }
        ("", "Namespace" | "Secret" | "ConfigMap") => Some(object),
        (_, kind) => {
            warnings.insert(format!("{kind} of {api_version} is left out"));
            None
        }
    }
}

/// What stands in for a template of a real provider, by the end of its kind.
fn stand_in(kind: &str) -> Option<&'static str> {
    let ends = |end: &str| kind.ends_with(end);
    if ends("MachinePoolTemplate") {
        Some("DevMachinePoolTemplate")
    } else if ends("MachineTemplate") {
        Some("DevMachineTemplate")
    } else if ends("ClusterTemplate") {
        Some("DevClusterTemplate")
    } else {
        None
    }
}

/// Lets no extension plan upgrades or patch templates.
fn without_extensions(class: &mut Value, warnings: &mut BTreeSet<String>) {
    if class["spec"]["upgrade"]["external"].is_object() {
        class["spec"]["upgrade"]["external"]["generateUpgradePlanExtension"] = json!(PLAN_HANDLER);
        warnings.insert("upgrade plans are made by a stand-in that goes through every minor".to_owned());
    }
    if let Some(patches) = class["spec"]["patches"].as_array_mut() {
        let before = patches.len();
        patches.retain(|patch| !patch["external"].is_object());
        if patches.len() < before {
            warnings.insert("external patches are left out".to_owned());
        }
        if patches.is_empty()
            && let Some(spec) = class["spec"].as_object_mut()
        {
            spec.remove("patches");
        }
    }
}

/// Refers to stand-ins. Patches for what they stand in for select nothing any more.
fn replace_references(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let is_infrastructure = map
                .get("apiVersion")
                .and_then(Value::as_str)
                .is_some_and(|version| version.starts_with(INFRASTRUCTURE_GROUP));
            let kind = map.get("kind").and_then(Value::as_str).unwrap_or_default();
            if is_infrastructure
                && map.contains_key("name")
                && !kind.starts_with("Dev")
                && let Some(stand_in) = stand_in(kind)
            {
                map.insert("kind".to_owned(), json!(stand_in));
                map.insert("apiVersion".to_owned(), json!(INFRASTRUCTURE_API_VERSION));
            }
            map.values_mut().for_each(replace_references);
        }
        Value::Array(items) => items.iter_mut().for_each(replace_references),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn real_providers_are_replaced_and_the_rest_is_told() {
        let reference = |kind: &str| json!({"templateRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": kind, "name": "t"}});
        let manifests = [
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c", "namespace": "team"},
                "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.30.0"}}}),
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerMachineTemplate",
                "metadata": {"name": "t", "namespace": "team"}, "spec": {"template": {"spec": {"customImage": "x"}}}}),
            json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta1", "kind": "DockerClusterTemplate",
                "metadata": {"name": "t", "namespace": "team"}, "spec": {"template": {"spec": {}}}}),
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "k", "namespace": "team"}, "spec": {
                "infrastructure": reference("DockerClusterTemplate"),
                "upgrade": {"external": {"generateUpgradePlanExtension": "p.real"}},
                "patches": [{"name": "x", "external": {}}]}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}}),
        ];
        let prepared = prepare(&manifests, false).unwrap();
        let kinds: Vec<&str> = prepared.objects.iter().filter_map(|object| object["kind"].as_str()).collect();
        assert_eq!(
            kinds,
            ["Namespace", "DevMachineTemplate", "DevClusterTemplate", "ClusterClass", "Cluster"]
        );
        let class = &prepared.objects[3]["spec"];
        assert_eq!(class["infrastructure"]["templateRef"]["kind"], "DevClusterTemplate");
        assert_eq!(class["upgrade"]["external"]["generateUpgradePlanExtension"], PLAN_HANDLER);
        assert!(class.get("patches").is_none());
        assert_eq!(prepared.cluster, ObjectKey::new("team", "c"));
        assert_eq!(prepared.warnings.len(), 5, "{:?}", prepared.warnings);
    }

    #[test]
    fn live_extensions_stay() {
        let manifests = [
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
                "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.30.0"}}}),
            json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig", "metadata": {"name": "e"}}),
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "k"}, "spec": {
                "upgrade": {"external": {"generateUpgradePlanExtension": "p.e"}},
                "patches": [{"name": "x", "external": {"generatePatchesExtension": "g.e"}}]}}),
        ];
        let prepared = prepare(&manifests, true).unwrap();
        assert_eq!(prepared.objects[..2], manifests[1..]);
        assert_eq!(prepared.warnings, Vec::<String>::new());
    }

    #[test]
    fn docker_backends_of_dev_kinds_stay_and_are_told() {
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"topology": {"version": "v1.30.0"}}});
        let template = |backend: Value| {
            json!({"apiVersion": INFRASTRUCTURE_API_VERSION, "kind": "DevMachineTemplate",
            "metadata": {"name": "t"}, "spec": {"template": {"spec": {"backend": backend}}}})
        };
        let docker = template(json!({"docker": {"customImage": "x"}}));
        let prepared = prepare(&[cluster.clone(), docker.clone()], false).unwrap();
        assert_eq!(prepared.objects[0], docker, "patches of classes are written for it");
        assert_eq!(
            prepared.warnings,
            ["the docker backend of DevMachineTemplate is taken for inMemory: its machines start at once"]
        );
        let in_memory = template(json!({"inMemory": {}}));
        assert_eq!(prepare(&[cluster, in_memory], false).unwrap().warnings, Vec::<String>::new());
    }

    #[test]
    fn what_can_never_come_up_is_refused_at_once() {
        let cluster = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.30.0"}}});
        let bootstrap = json!({"templateRef": {"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2",
            "kind": "KubeadmConfigTemplate", "name": "b"}});
        let class = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass",
            "metadata": {"name": "k", "namespace": "default"},
            "spec": {"workers": {"machineDeployments": [{"class": "w", "bootstrap": bootstrap}]}}});
        let template = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
            "metadata": {"name": "b"}, "spec": {}});
        let refused = |manifests: &[Value]| prepare(manifests, false).unwrap_err();
        assert_eq!(
            refused(std::slice::from_ref(&cluster)),
            "ClusterClass default/k, which Cluster c refers to, is not in the manifests"
        );
        assert_eq!(
            refused(&[cluster.clone(), class.clone()]),
            "KubeadmConfigTemplate default/b, which ClusterClass k refers to, is not in the manifests"
        );
        assert!(prepare(&[cluster, class, template], false).is_ok());
    }

    #[test]
    fn what_a_class_does_not_have_and_cannot_have_is_refused_at_once() {
        let cluster = |workers: Value| {
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"topology": {"classRef": {"name": "k"}, "version": "v1.30.0", "workers": workers}}})
        };
        let class = |spec: Value| {
            json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "ClusterClass", "metadata": {"name": "k"},
            "spec": spec})
        };
        let refused =
            |cluster: Value, class: Value, is_live| prepare(&[cluster, class], is_live).unwrap_err();
        let workers = json!({"machineDeployments": [{"class": "large", "name": "a"}]});
        let small = json!({"workers": {"machineDeployments": [{"class": "small"}]}});
        assert_eq!(
            refused(cluster(workers.clone()), class(small), false),
            "spec.topology.workers.machineDeployments: there is no class \"large\", ClusterClass k has small"
        );
        let large = json!({"workers": {"machineDeployments": [{"class": "large"}]}});
        assert!(prepare(&[cluster(workers), class(large)], false).is_ok());

        let patched = json!({"patches": [{"name": "x", "external": {"generatePatchesExtension": "g.mine"}}]});
        assert_eq!(
            refused(cluster(json!({})), class(patched.clone()), true),
            "ExtensionConfig mine, which ClusterClass k refers to by handler g.mine, is not in the manifests"
        );
        assert!(prepare(&[cluster(json!({})), class(patched)], false).is_ok(), "it is not called");

        let other = json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "OtherControlPlaneTemplate",
            "metadata": {"name": "t"}, "spec": {}});
        let reference = json!({"controlPlane": {"templateRef": {"kind": "OtherControlPlaneTemplate", "name": "t",
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2"}}});
        let refused = prepare(&[cluster(json!({})), class(reference), other], false).unwrap_err();
        assert!(refused.ends_with("only a KubeadmControlPlaneTemplate can be simulated"), "{refused}");
    }

    #[test]
    fn there_must_be_one_cluster() {
        assert!(prepare(&[], false).unwrap_err().contains("there are 0"));
    }
}
