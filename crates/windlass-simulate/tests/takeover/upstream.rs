//! A cluster in the shape that releases of upstream give it: their fields, their defaults, their field managers.
//!
//! The cluster is brought up first, so that there are Nodes, Secrets and identities. Then everything stops, and each object
//! becomes what upstream would have applied, written here field by field. What Windlass leaves out of an intent that
//! upstream has in it, or the other way round, changes the object when Windlass takes over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::core::Request;
use serde_json::{Map, Value, json};
use windlass_api::cluster::{Cluster, MachineDeployment, MachineSet};
use windlass_api::conditions::TOPOLOGY_RECONCILED;
use windlass_api::names::{TOPOLOGY_MACHINE_DEPLOYMENT_FINALIZER, TOPOLOGY_MACHINE_SET_FINALIZER};
use windlass_apiserver::{Admission, Denial, Review};
use windlass_engine::condition;
use windlass_engine::topology::TAKE_OVER_ANNOTATION;
use windlass_simulate::{TopologyManifests, World, WorldOptions, key};
use windlass_testkit::touched;

use crate::{LONG, everything, is_settled, rest};

/// Releases that write objects in different shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Release {
    /// Stores defaults of kubeadm, has one manager for spec and metadata, refers to owners at v1beta1.
    V1_10,
    /// Stores no defaults of kubeadm any more.
    V1_11,
    /// Has a manager for metadata alone.
    V1_14,
}

impl Release {
    fn has_metadata_managers(self) -> bool {
        self == Self::V1_14
    }
}

/// The kinds of a Cluster that are taken over, besides its class and the templates of that.
const KINDS: [&str; 13] = [
    "Cluster",
    "DevCluster",
    "DevMachine",
    "DevMachinePool",
    "DevMachineTemplate",
    "KubeadmConfig",
    "KubeadmConfigTemplate",
    "KubeadmControlPlane",
    "Machine",
    "MachineDeployment",
    "MachineHealthCheck",
    "MachinePool",
    "MachineSet",
];

/// Finalizers that something took off an object that is not being deleted.
#[derive(Default)]
struct LostFinalizers(Mutex<Vec<String>>);

impl Admission for LostFinalizers {
    fn handles(&self, group: &str, _resource: &str) -> bool {
        group.ends_with("cluster.x-k8s.io")
    }

    fn validate<'a>(
        &'a self,
        review: &'a Review<'a>,
        object: &'a Value,
    ) -> BoxFuture<'a, Result<Vec<String>, Denial>> {
        let finalizers = |object: &Value| -> Vec<String> {
            serde_json::from_value(object["metadata"]["finalizers"].clone()).unwrap_or_default()
        };
        let left = finalizers(object);
        let before = review.old.map(finalizers).unwrap_or_default();
        for lost in before.into_iter().filter(|had| !left.contains(had)) {
            self.0.lock().unwrap().push(format!("{} {} lost {lost}", review.kind, review.name));
        }
        async { Ok(Vec::new()) }.boxed()
    }
}

fn manifests() -> Vec<Value> {
    let manifests =
        TopologyManifests::new("c1", "v1.33.0", 3).machine_deployment("a", 2).machine_pool("p", 2);
    let mut objects = manifests.objects();
    let metadata = json!({"labels": {"team": "blue"}, "annotations": {"note": "mine"}});
    let checks = json!({"enabled": true, "checks": {"nodeStartupTimeoutSeconds": 900,
        "unhealthyNodeConditions": [{"type": "Ready", "status": "Unknown", "timeoutSeconds": 300}]}});
    for object in &mut objects {
        let kind = object["kind"].clone();
        if kind == "KubeadmControlPlaneTemplate" {
            object["spec"]["template"]["spec"]["kubeadmConfigSpec"] =
                json!({"clusterConfiguration": {"apiServer": {"extraArgs": [{"name": "v", "value": "2"}]}}});
        } else if kind == "KubeadmConfigTemplate" {
            object["spec"]["template"]["spec"]["joinConfiguration"] =
                json!({"nodeRegistration": {"kubeletExtraArgs": [{"name": "v", "value": "2"}]}});
        } else if kind == "Cluster" {
            let topology = &mut object["spec"]["topology"];
            let control_plane = &mut topology["controlPlane"];
            control_plane["metadata"] = metadata.clone();
            control_plane["deletion"] = json!({"nodeDrainTimeoutSeconds": 60});
            control_plane["healthCheck"] = checks.clone();
            let group = &mut topology["workers"]["machineDeployments"][0];
            group["metadata"] = metadata.clone();
            group["deletion"] = json!({"order": "Oldest", "nodeDrainTimeoutSeconds": 60,
                "nodeVolumeDetachTimeoutSeconds": 30, "nodeDeletionTimeoutSeconds": 20});
            group["minReadySeconds"] = json!(5);
            group["healthCheck"] = checks.clone();
            group["rollout"] = json!({"strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}});
        }
    }
    objects
}

fn resource(object: &Value) -> ApiResource {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = object["kind"].as_str().unwrap();
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(group, version, kind),
        &format!("{}s", kind.to_lowercase()),
    )
}

async fn apply(world: &World, manager: &str, intent: &Value) {
    let resource = resource(intent);
    let name = intent["metadata"]["name"].as_str().unwrap();
    let path = <DynamicObject as kube::Resource>::url_path(&resource, Some("default"));
    let parameters = PatchParams::apply(manager).force();
    let request = Request::new(path).patch(name, &parameters, &Patch::Apply(intent)).unwrap();
    let _: DynamicObject = world.client().request(request).await.unwrap();
}

/// A copy of the fields that are listed, as far as they are there.
fn copy(object: &Value, pointers: &[&str]) -> Value {
    let metadata = &object["metadata"];
    let mut copy = json!({"apiVersion": object["apiVersion"], "kind": object["kind"],
        "metadata": {"name": metadata["name"], "namespace": metadata["namespace"], "uid": metadata["uid"]}});
    for pointer in pointers {
        let Some(value) = object.pointer(pointer) else { continue };
        let mut at = &mut copy;
        for part in pointer.split('/').skip(1) {
            at = &mut at[part];
        }
        *at = value.clone();
    }
    copy
}

const METADATA: [&str; 2] = ["/metadata/labels", "/metadata/annotations"];

/// What the controllers of a release have applied to an object, by manager.
fn applied(object: &Value, release: Release) -> Vec<(&'static str, Value)> {
    let of_control_plane = object.pointer("/metadata/labels/cluster.x-k8s.io~1control-plane").is_some();
    let owner = match of_control_plane {
        true => ("capi-kubeadmcontrolplane", "capi-kubeadmcontrolplane-metadata"),
        false => ("capi-machineset", "capi-machineset-metadata"),
    };
    let machine = [
        "/metadata/finalizers",
        "/metadata/ownerReferences",
        "/spec/clusterName",
        "/spec/version",
        "/spec/failureDomain",
        "/spec/bootstrap/configRef",
        "/spec/infrastructureRef",
        "/spec/minReadySeconds",
        "/spec/readinessGates",
        "/spec/taints",
        "/spec/deletion/nodeDrainTimeoutSeconds",
        "/spec/deletion/nodeVolumeDetachTimeoutSeconds",
        "/spec/deletion/nodeDeletionTimeoutSeconds",
    ];
    let with_metadata = |pointers: &[&'static str]| [&METADATA[..], pointers].concat();
    let is_clone = object.pointer("/metadata/labels/topology.cluster.x-k8s.io~1owned").is_some();
    match object["kind"].as_str().unwrap() {
        "Machine" => {
            let mut intent = copy(object, &with_metadata(&machine));
            if of_control_plane && release != Release::V1_14 {
                let record = "controlplane.cluster.x-k8s.io/kubeadm-cluster-configuration";
                intent["metadata"]["annotations"][record] = json!("{\"apiServer\":{}}");
            }
            vec![(owner.0, intent)]
        }
        "MachineSet" => {
            let mut intent =
                copy(object, &with_metadata(&["/metadata/finalizers", "/metadata/ownerReferences", "/spec"]));
            // Its topology controllers delete the templates of MachineSets that go.
            let finalizers = intent["metadata"]["finalizers"].as_array_mut().unwrap();
            finalizers.push(json!(TOPOLOGY_MACHINE_SET_FINALIZER));
            if release == Release::V1_10 {
                let annotations = intent["metadata"]["annotations"].as_object_mut().unwrap();
                annotations.remove("cluster.x-k8s.io/disable-machine-create");
            }
            vec![("capi-machinedeployment", intent)]
        }
        "MachineDeployment" => {
            let mut intent = copy(object, &with_metadata(&["/metadata/ownerReferences", "/spec"]));
            let annotations = intent["metadata"]["annotations"].as_object_mut().unwrap();
            annotations.remove("machinedeployment.clusters.x-k8s.io/revision");
            vec![("capi-topology", intent)]
        }
        // Those of a pool are made by the topology.
        "KubeadmConfig" | "DevMachine" if !is_of_pool(object) && release.has_metadata_managers() => {
            let spec = copy(object, &["/metadata/ownerReferences", "/spec"]);
            vec![(owner.0, without_what_the_provider_sets(spec)), (owner.1, copy(object, &METADATA))]
        }
        "KubeadmConfig" | "DevMachine" if !is_of_pool(object) => {
            let whole = copy(object, &with_metadata(&["/metadata/ownerReferences", "/spec"]));
            vec![(owner.0, without_what_the_provider_sets(whole))]
        }
        "KubeadmControlPlane"
        | "DevCluster"
        | "MachineHealthCheck"
        | "DevMachineTemplate"
        | "KubeadmConfigTemplate"
        | "MachinePool"
        | "DevMachinePool"
        | "KubeadmConfig"
            if is_clone =>
        {
            let mut intent = copy(object, &with_metadata(&["/metadata/ownerReferences", "/spec"]));
            if let Some(spec) = intent["spec"].as_object_mut() {
                // Set by the provider, by a webhook, and by the controller of pools.
                for field in ["controlPlaneEndpoint", "rollout", "providerIDList"] {
                    spec.remove(field);
                }
            }
            if let Some(Value::Object(bootstrap)) = intent.pointer_mut("/spec/template/spec/bootstrap") {
                bootstrap.remove("dataSecretName");
            }
            if let Some(Value::Object(annotations)) = intent.pointer_mut("/metadata/annotations") {
                annotations.remove("inmemory.infrastructure.cluster.x-k8s.io/instances");
            }
            vec![("capi-topology", intent)]
        }
        _ => Vec::new(),
    }
}

fn without_what_the_provider_sets(mut intent: Value) -> Value {
    if let Some(spec) = intent["spec"].as_object_mut() {
        spec.remove("providerID");
    }
    intent
}

/// What a release has stored besides: defaults of its webhooks, which no apply has in it.
fn stored_besides(object: &Value, release: Release) -> Value {
    let node = json!({"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}});
    match object["kind"].as_str().unwrap() {
        "Machine" if object.pointer("/spec/deletion/nodeDeletionTimeoutSeconds").is_none() => {
            json!({"spec": {"deletion": {"nodeDeletionTimeoutSeconds": 10}}})
        }
        "MachineSet" if release == Release::V1_10 => json!({"metadata": {"annotations":
            {"cluster.x-k8s.io/disable-machine-create": null}}}),
        "MachineDeployment" => {
            let mut finalizers = object["metadata"]["finalizers"].as_array().unwrap().clone();
            finalizers.push(json!(TOPOLOGY_MACHINE_DEPLOYMENT_FINALIZER));
            json!({"metadata": {"finalizers": finalizers}})
        }
        "KubeadmConfig" if release == Release::V1_10 => {
            let is_init = object.pointer("/spec/joinConfiguration").is_none();
            let part = if is_init { "initConfiguration" } else { "joinConfiguration" };
            json!({"spec": {"format": "cloud-config", part: node}})
        }
        "KubeadmControlPlane" if release == Release::V1_10 => {
            json!({"spec": {"kubeadmConfigSpec": {"format": "cloud-config"}}})
        }
        "KubeadmConfigTemplate" if release == Release::V1_10 => {
            json!({"spec": {"template": {"spec": {"format": "cloud-config", "joinConfiguration": node}}}})
        }
        _ => json!({}),
    }
}

/// Gives every object of the cluster the shape of a release.
async fn written_by(world: &World, release: Release) {
    for mut object in everything(world).into_values() {
        if object["metadata"]["namespace"] != "default"
            || !object["apiVersion"].as_str().unwrap().contains("cluster.x-k8s.io/")
        {
            continue;
        }
        if release == Release::V1_10
            && let Some(owners) =
                object.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut)
        {
            for owner in owners {
                let version = owner["apiVersion"].as_str().unwrap().replace("v1beta2", "v1beta1");
                owner["apiVersion"] = json!(version);
            }
        }
        // How the control plane is found is filled in by the bootstrap provider: it is nothing that an owner applies.
        let mut owned = object.clone();
        if let Some(Value::Object(join)) = owned.pointer_mut("/spec/joinConfiguration") {
            join.remove("discovery");
        }
        let applied = applied(&owned, release);
        let Some((first, _)) = applied.first() else { continue };
        let entry = |manager: &str, operation: &str, fields: Value| {
            json!({"manager": manager, "operation": operation, "apiVersion": object["apiVersion"],
                "fieldsType": "FieldsV1", "fieldsV1": fields})
        };
        let mut managers = vec![entry(first, "Apply", json!({"f:metadata": {"f:name": {}}}))];
        let is_part = first.starts_with("capi-")
            && *first != "capi-topology"
            && ["KubeadmConfig", "DevMachine"].iter().any(|kind| object["kind"] == *kind);
        if is_part && !release.has_metadata_managers() {
            // They were created with their labels before those were applied.
            let labels: Map<String, Value> = object["metadata"]["labels"]
                .as_object()
                .unwrap()
                .keys()
                .map(|label| (format!("f:{label}"), json!({})))
                .collect();
            managers.push(entry("manager", "Update", json!({"f:metadata": {"f:labels": labels}})));
        }
        let mut patch = stored_besides(&object, release);
        patch["metadata"]["managedFields"] = json!(managers);
        let name = key(object["metadata"]["name"].as_str().unwrap());
        world.patch_of::<DynamicObject>(&resource(&object), &name, patch).await.unwrap();
        for (manager, intent) in &applied {
            apply(world, manager, intent).await;
        }
    }
}

/// Everything but the KubeadmConfig of the pool and its Secret: the bootstrap token in them is replaced before it expires.
fn without_tokens(world: &World) -> BTreeMap<String, Value> {
    let all = everything(world).into_iter();
    let has_token = |name: &str| {
        ["kubeadmconfigs", "secrets"].iter().any(|kind| name.contains(&format!("{kind} default/c1-p-")))
    };
    all.filter(|(name, _)| !has_token(name)).collect()
}

fn revisions(world: &World) -> Vec<(String, Value)> {
    let revision = |object: Value| object["metadata"]["resourceVersion"].clone();
    without_tokens(world).into_iter().map(|(name, object)| (name, revision(object))).collect()
}

async fn taken_over(release: Release) {
    let finalizers = Arc::new(LostFinalizers::default());
    let mut options = WorldOptions::new(7);
    options.admission.push(Arc::clone(&finalizers) as Arc<dyn Admission>);
    let mut world = World::begin(options).await.unwrap();
    world.apply_objects(&manifests()).await.unwrap();
    world.run_until("created", LONG, |world| is_settled(world, 5)).await.unwrap();
    rest(&mut world).await;
    world.kill().await;
    written_by(&world, release).await;

    let before = without_tokens(&world);
    world.restart().await;
    rest(&mut world).await;
    assert_eq!(touched(&before, &without_tokens(&world)), [""; 0], "{release:?}");
    let first = revisions(&world);
    for _ in 0..2 {
        world.restart().await;
        rest(&mut world).await;
        let now = revisions(&world);
        let written: Vec<_> = now.iter().filter(|object| !first.contains(object)).collect();
        assert!(written.is_empty(), "{release:?}: a restart has nothing to write: {written:?}");
    }
    let lost = std::mem::take(&mut *finalizers.0.lock().unwrap());
    assert_eq!(lost, [""; 0], "{release:?}");
    let taken = everything(&world);
    let kinds: BTreeSet<&str> = taken.values().filter_map(|object| object["kind"].as_str()).collect();
    for kind in KINDS {
        assert!(kinds.contains(kind), "{release:?}: there is no {kind} to be taken over: {kinds:?}");
    }
    assert_eq!(
        old_owners(&taken),
        [""; 0],
        "{release:?}: the garbage collector asks for owners in these versions"
    );
    let parts = taken.into_iter().filter(|(name, object)| is_part(name) && !is_of_pool(object));
    let parts: Vec<(String, Value)> = parts.collect();
    assert_eq!(parts.len(), 10, "{release:?}: of five Machines");
    for (name, object) in parts {
        let managers = object["metadata"]["managedFields"].as_array().unwrap();
        let label = "/fieldsV1/f:metadata/f:labels/f:team";
        let of_label: Vec<&str> = managers
            .iter()
            .filter(|entry| entry.pointer(label).is_some())
            .filter_map(|entry| entry["manager"].as_str())
            .collect();
        assert!(
            matches!(of_label[..], [manager] if manager.ends_with("-metadata")),
            "{release:?}: a label with several managers cannot be taken off: {name}: {of_label:?}"
        );
    }
}

/// Objects that refer to an owner at v1beta1, which a later release no longer serves.
fn old_owners(objects: &BTreeMap<String, Value>) -> Vec<String> {
    let is_old = |owner: &Value| owner["apiVersion"].as_str().unwrap().ends_with("cluster.x-k8s.io/v1beta1");
    let owners =
        |object: &Value| object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
    let old = objects.iter().filter(|(_, object)| owners(object).iter().any(is_old));
    old.map(|(name, object)| format!("{name}: {}", object["metadata"]["ownerReferences"])).collect()
}

fn is_of_pool(object: &Value) -> bool {
    object.pointer("/metadata/labels/topology.cluster.x-k8s.io~1pool-name").is_some()
}

fn is_part(name: &str) -> bool {
    name.contains("/kubeadmconfigs ") || name.contains("/devmachines ")
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_1_10_is_taken_over_without_touching_a_machine() {
    taken_over(Release::V1_10).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_1_11_is_taken_over_without_touching_a_machine() {
    taken_over(Release::V1_11).await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_1_14_is_taken_over_without_touching_a_machine() {
    taken_over(Release::V1_14).await;
}

/// Upstream's topology controllers have finalizers of their own, and do not run any more: what is deleted later goes all the same.
#[tokio::test(start_paused = true)]
async fn what_is_deleted_after_a_take_over_is_not_held_by_upstreams_topology_controllers() {
    let mut world = World::begin(WorldOptions::new(9)).await.unwrap();
    world.apply_objects(&manifests()).await.unwrap();
    world.run_until("created", LONG, |world| is_settled(world, 5)).await.unwrap();
    rest(&mut world).await;
    world.kill().await;
    written_by(&world, Release::V1_14).await;
    let before: BTreeSet<String> = world.list::<MachineSet>().iter().map(ResourceExt::name_any).collect();
    assert!(world.list::<MachineSet>()[0].finalizers().contains(&TOPOLOGY_MACHINE_SET_FINALIZER.to_owned()));
    world.restart().await;

    let target = json!({"spec": {"topology": {"version": "v1.34.0"}}});
    world.patch::<Cluster>(&key("c1"), target).await.unwrap();
    let has_new_sets_only = |world: &World| {
        let now: BTreeSet<String> = world.list::<MachineSet>().iter().map(ResourceExt::name_any).collect();
        !now.is_empty() && now.is_disjoint(&before)
    };
    world
        .run_until("rolled out", LONG, |world| is_settled(world, 5) && has_new_sets_only(world))
        .await
        .unwrap();

    let no_group = json!({"spec": {"topology": {"workers": {"machineDeployments": null}}}});
    world.patch::<Cluster>(&key("c1"), no_group).await.unwrap();
    let has_group = |world: &World| !world.list::<MachineDeployment>().is_empty();
    world.run_until("the group is gone", LONG, |world| !has_group(world)).await.unwrap();
}

/// The same where nothing else is deleted first.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_was_taken_over_can_be_deleted() {
    let mut world = World::begin(WorldOptions::new(10)).await.unwrap();
    world.apply_objects(&manifests()).await.unwrap();
    world.run_until("created", LONG, |world| is_settled(world, 5)).await.unwrap();
    rest(&mut world).await;
    world.kill().await;
    written_by(&world, Release::V1_14).await;
    world.restart().await;
    world.delete::<Cluster>(&key("c1")).await.unwrap();
    world.run_until("deleted", LONG, |world| world.list::<Cluster>().is_empty()).await.unwrap();
    assert_eq!((world.list::<MachineDeployment>().len(), world.list::<MachineSet>().len()), (0, 0));
}

/// What upstream applied and the topology does not have stays until the owner of the Cluster lets it go.
#[tokio::test(start_paused = true)]
async fn a_field_that_the_first_apply_would_remove_is_kept_and_named() {
    let mut world = World::begin(WorldOptions::new(8)).await.unwrap();
    world.apply_objects(&manifests()).await.unwrap();
    world.run_until("created", LONG, |world| is_settled(world, 5)).await.unwrap();
    rest(&mut world).await;
    world.kill().await;
    written_by(&world, Release::V1_14).await;
    let deployment = |world: &World| world.list::<MachineDeployment>().remove(0);
    let (manager, mut intent) =
        applied(&serde_json::to_value(deployment(&world)).unwrap(), Release::V1_14).remove(0);
    intent["spec"]["remediation"] = json!({"maxInFlight": 2});
    apply(&world, manager, &intent).await;
    let upstream = json!({"metadata": {"managedFields": [{"manager": "manager", "operation": "Update",
        "apiVersion": "cluster.x-k8s.io/v1beta2", "fieldsType": "FieldsV1", "subresource": "status",
        "fieldsV1": {"f:status": {"f:phase": {}}}}]}});
    world.patch::<Cluster>(&key("c1"), upstream).await.unwrap();

    let before = without_tokens(&world);
    for _ in 0..2 {
        world.restart().await;
        rest(&mut world).await;
        assert_eq!(touched(&before, &without_tokens(&world)), [""; 0]);
        let cluster = world.get::<Cluster>(&key("c1")).unwrap();
        let said = condition::find(&cluster.status.conditions, TOPOLOGY_RECONCILED).unwrap();
        assert_eq!(said.reason, "TakeOverRefused");
        let named = format!(
            "MachineDeployment {} would remove or change spec.remediation,",
            deployment(&world).name_any()
        );
        assert!(said.message.contains(&named), "{}", said.message);
        assert!(
            said.message.ends_with("kubectl annotate cluster c1 -n default upgrade.windlass.dev/take-over=")
        );
    }

    let agreed = json!({"metadata": {"annotations": {TAKE_OVER_ANNOTATION: ""}}});
    world.patch::<Cluster>(&key("c1"), agreed).await.unwrap();
    let is_gone = |world: &World| {
        serde_json::to_value(deployment(world)).unwrap().pointer("/spec/remediation/maxInFlight").is_none()
    };
    world.run_until("let go", LONG, |world| is_gone(world) && is_settled(world, 5)).await.unwrap();
}
