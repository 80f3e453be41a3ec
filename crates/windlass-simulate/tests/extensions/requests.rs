//! What is in requests, of every hook: the Cluster with its status, and nowhere what only the user who applies an object
//! needs.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::Request;
use kube::ResourceExt;
use serde_json::{Value, json};
use tower::{ServiceExt, service_fn};
use windlass_api::bootstrap::KubeadmConfigTemplate;
use windlass_api::cluster::{Cluster, ClusterClass};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::hooks::{Hook, HookTag};
use windlass_hooks::transport::{InProcess, boxed};
use windlass_simulate::{
    ClusterManifests, Reply, SimulatedExternalUpdater, SimulatedUpdater, Startup, WorkerGroup, World,
    is_complete, key,
};

use crate::cluster::{LONG, is_reconciled};
use crate::patches::{Patcher, manifests};
use crate::plans::Planner;
use crate::recorder::{Log, config, options, recorder};

/// Every request as it is sent: the hook and the body.
type Wire = Arc<Mutex<Vec<(Hook, Value)>>>;

/// A transport that notes what goes to another one.
fn noting(extensions: &InProcess, wire: &Wire) -> InProcess {
    let (extensions, wire) = (extensions.clone(), Arc::clone(wire));
    InProcess::new().or_else(boxed(service_fn(move |request: Request<Bytes>| {
        let (hook, _) = Hook::from_path(request.uri().path()).unwrap();
        wire.lock().unwrap().push((hook, serde_json::from_slice(request.body()).unwrap()));
        extensions.clone().oneshot(request)
    })))
}

/// As `kubectl apply` leaves it.
fn applied(mut objects: Vec<Value>) -> Vec<Value> {
    for object in &mut objects {
        let repeated = object.to_string();
        object["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] =
            json!(repeated);
        object["metadata"]["annotations"]["example.com/kept"] = json!("yes");
    }
    objects
}

/// Checks all requests of the hooks, each of which must be there.
fn check(wire: &Wire, hooks: &[Hook]) {
    let sent = wire.lock().unwrap().clone();
    for hook in hooks {
        let requests: Vec<&Value> = sent.iter().filter(|(of, _)| of == hook).map(|(_, body)| body).collect();
        assert!(!requests.is_empty(), "{hook} was not called");
        for request in requests {
            let text = request.to_string();
            for unwanted in ["last-applied-configuration", "managedFields"] {
                assert!(!text.contains(unwanted), "{hook} has {unwanted}: {request:#}");
            }
            // Annotations of templates do not come to machines, and nothing is said about variables.
            let without = [Hook::DiscoverVariables, Hook::CanUpdateMachine, Hook::UpdateMachine];
            let has_annotations = text.contains("example.com/kept");
            assert!(has_annotations || without.contains(hook), "{hook} has no annotations: {request:#}");
            if matches!(hook.tag(), HookTag::Lifecycle) || *hook == Hook::GenerateUpgradePlan {
                assert!(request["cluster"]["status"].is_object(), "{hook}: {request:#}");
                assert_eq!(request["cluster"]["apiVersion"], "cluster.x-k8s.io/v1beta2", "{hook}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn requests_about_a_topology_have_the_status_and_nothing_that_repeats_the_object() {
    let (wire, transport, log) = (Wire::default(), InProcess::new(), Log::default());
    let (planner, patcher) = (Planner::default(), Patcher::default());
    *planner.through.lock().unwrap() = "v1.31.0".to_owned();
    transport.add("recorder", recorder(&log));
    transport.add("planner", planner.extension());
    transport.add("patcher", patcher.extension());
    let mut world = World::begin(options(1, &noting(&transport, &wire))).await.unwrap();
    for name in ["recorder", "planner", "patcher"] {
        world.apply_object(&config(name)).await.unwrap();
    }
    world.apply_objects(&applied(manifests())).await.unwrap();
    let external =
        json!({"spec": {"upgrade": {"external": {"generateUpgradePlanExtension": "plan.planner"}}}});
    world.patch::<ClusterClass>(&key("quick"), external).await.unwrap();
    world.run_until("the cluster is ready", LONG, is_reconciled).await.unwrap();
    let version = json!({"spec": {"topology": {"version": "v1.32.0"}}});
    world.patch::<Cluster>(&key("c1"), version).await.unwrap();
    world.run_until("the upgrade begins", LONG, |world| !is_reconciled(world)).await.unwrap();
    world.run_until("the upgrade is done", LONG, is_reconciled).await.unwrap();
    world.delete::<Cluster>(&key("c1")).await.unwrap();
    world.run_until("it is gone", LONG, |world| world.get::<Cluster>(&key("c1")).is_none()).await.unwrap();

    let lifecycle = Hook::ALL.into_iter().filter(|hook| hook.tag() == HookTag::Lifecycle);
    let others =
        [Hook::GenerateUpgradePlan, Hook::GeneratePatches, Hook::ValidateTopology, Hook::DiscoverVariables];
    check(&wire, &lifecycle.chain(others).collect::<Vec<_>>());
}

/// The templates that a patch gets are those of the class, under their own names: it is the same for every Cluster. What a
/// Cluster adds, labels of its topology and where an object was cloned from, comes after all patches, and no patch takes it away.
#[tokio::test(start_paused = true)]
async fn patches_see_the_templates_of_the_class() {
    let (wire, transport, patcher) = (Wire::default(), InProcess::new(), Patcher::default());
    transport.add("patcher", patcher.extension());
    let mut world = World::begin(options(1, &noting(&transport, &wire))).await.unwrap();
    world.apply_object(&config("patcher")).await.unwrap();
    world.apply_objects(&applied(manifests())).await.unwrap();
    world.run_until("the cluster is ready", LONG, is_reconciled).await.unwrap();
    let sent = wire.lock().unwrap().clone();
    let (_, request) = sent.iter().find(|(hook, _)| *hook == Hook::GeneratePatches).unwrap();
    let items = request["items"].as_array().unwrap();
    for item in items {
        let metadata = &item["object"]["metadata"];
        assert!(metadata["name"].as_str().unwrap().starts_with("quick"), "{metadata:#}");
        assert_eq!(metadata["annotations"], json!({"example.com/kept": "yes"}));
        assert_eq!(metadata["labels"], Value::Null, "{metadata:#}");
    }
    let kinds: BTreeSet<&str> = items.iter().filter_map(|item| item["object"]["kind"].as_str()).collect();
    assert!(
        kinds.contains("KubeadmControlPlaneTemplate") && kinds.contains("KubeadmConfigTemplate"),
        "{kinds:?}"
    );
    let control_plane = json!(world.list::<KubeadmControlPlane>().pop().unwrap());
    let is_owned =
        |found: &KubeadmConfigTemplate| found.labels().contains_key("topology.cluster.x-k8s.io/owned");
    let template = world.list::<KubeadmConfigTemplate>().into_iter().find(is_owned).unwrap();
    for made in [control_plane, json!(template)] {
        let metadata = &made["metadata"];
        assert_eq!(metadata["labels"]["cluster.x-k8s.io/cluster-name"], "c1");
        let cloned = metadata["annotations"]["cluster.x-k8s.io/cloned-from-name"].as_str();
        assert!(cloned.is_some_and(|name| name.starts_with("quick")), "{metadata:#}");
    }
}

#[tokio::test(start_paused = true)]
async fn requests_about_machines_have_nothing_that_repeats_the_object() {
    let (wire, transport) = (Wire::default(), InProcess::new());
    let updater = SimulatedUpdater::add_to(&transport, "updater");
    let night_shift = SimulatedExternalUpdater::add_to(&transport, "night-shift", Reply::accept());
    let mut world = World::begin(options(1, &noting(&transport, &wire))).await.unwrap();
    world.apply_object(&updater.config()).await.unwrap();
    let mut group = WorkerGroup::new("w", 3);
    let cluster = ClusterManifests::new("c", "v1.33.0", 1)
        .startup(Startup { vm: 1.0, node: 1.0, jitter: 0.0 })
        .workers(group.clone());
    world.apply_objects(&applied(cluster.objects())).await.unwrap();
    let is_up = |world: &World| is_complete(world, "c-w");
    world.run_until("all machines are up", LONG, is_up).await.unwrap();

    group = group.generation(2).version("v1.33.1");
    world.apply_objects(&applied(cluster.worker_objects(&group))).await.unwrap();
    let seen = |hook: Hook| {
        let wire = Arc::clone(&wire);
        move |_: &World| wire.lock().unwrap().iter().any(|(sent, _)| *sent == hook)
    };
    world.run_until("a worker is updated", LONG, seen(Hook::UpdateMachine)).await.unwrap();
    let spec = json!({"spec": {"version": "v1.33.1"}});
    world.patch::<KubeadmControlPlane>(&key("c-control-plane"), spec).await.unwrap();
    world.run_until("the control plane is asked about", LONG, seen(Hook::CanUpdateMachine)).await.unwrap();
    world.run_until("the workers are done", LONG, is_up).await.unwrap();

    world
        .delete::<windlass_api::runtime::ExtensionConfig>(&windlass_runtime::ObjectKey::new("", "updater"))
        .await
        .unwrap();
    world.apply_object(&night_shift.config()).await.unwrap();
    group = group.generation(3).version("v1.33.2");
    let mut objects = applied(cluster.worker_objects(&group));
    objects[2]["spec"]["rollout"]["strategy"] = json!({"type": "External"});
    world.apply_objects(&objects).await.unwrap();
    world.run_until("an external updater is asked", LONG, seen(Hook::ExternalUpdate)).await.unwrap();

    check(
        &wire,
        &[Hook::CanUpdateMachineSet, Hook::CanUpdateMachine, Hook::UpdateMachine, Hook::ExternalUpdate],
    );
}
