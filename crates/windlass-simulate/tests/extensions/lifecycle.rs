//! Hooks around the life of a Cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevCluster;
use windlass_api::names::{OK_TO_DELETE_ANNOTATION, PENDING_HOOKS_ANNOTATION};
use windlass_extension::hooks::{
    BeforeControlPlaneUpgrade, BeforeControlPlaneUpgradeRequest, BeforeControlPlaneUpgradeResponse,
    HookResponse,
};
use windlass_extension::{Context, Extension};
use windlass_hooks::transport::InProcess;
use windlass_simulate::{TopologyManifests, World, WorldOptions, key};

use crate::recorder::{Log, config, options, recorder};

const LONG: Duration = Duration::from_secs(24 * 3600);

fn manifests() -> TopologyManifests {
    TopologyManifests::new("c1", "v1.30.0", 1).versions(["v1.30.0", "v1.31.0"])
}

async fn world(log: &Log) -> World {
    let transport = InProcess::new();
    transport.add("recorder", recorder(log));
    let world = World::begin(options(1, &transport)).await.unwrap();
    world.apply_object(&config("recorder")).await.unwrap();
    world.apply_objects(&manifests().objects()).await.unwrap();
    world
}

fn condition(world: &World, type_: &str) -> (String, String, String) {
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let found = cluster.status.conditions.into_iter().find(|found| found.type_ == type_);
    found.map(|found| (found.status, found.reason, found.message)).unwrap_or_default()
}

fn is_ready(world: &World) -> bool {
    let pending =
        world.get::<Cluster>(&key("c1")).unwrap().annotations().contains_key(PENDING_HOOKS_ANNOTATION);
    let machines = world.list::<Machine>();
    condition(world, "TopologyReconciled").0 == "True"
        && !pending
        && !machines.is_empty()
        && machines.iter().all(|machine| {
            machine.status.conditions.iter().any(|found| found.type_ == "Ready" && found.status == "True")
        })
}

#[tokio::test(start_paused = true)]
async fn creation_waits_for_its_hook_and_initialization_is_told_once() {
    let log = Log::default();
    log.wait("BeforeClusterCreate", 2, 600, "quota is being raised");
    let mut world = world(&log).await;
    world
        .run_until("the topology says that it waits", LONG, |world| {
            condition(world, "TopologyReconciled").1 == "ClusterCreating"
        })
        .await
        .unwrap();
    let (_, _, message) = condition(&world, "TopologyReconciled");
    assert!(message.contains("BeforeClusterCreate (create.recorder): quota is being raised"), "{message}");
    assert!(world.list::<DevCluster>().is_empty(), "nothing is made before");
    world.run_until("the cluster is ready", LONG, is_ready).await.unwrap();
    assert_eq!(
        log.hooks(),
        ["BeforeClusterCreate", "BeforeClusterCreate", "BeforeClusterCreate", "AfterControlPlaneInitialized"]
    );
    for (hook, request) in log.asked() {
        let fields: Vec<&String> = request.as_object().unwrap().keys().collect();
        assert!(
            fields.iter().all(|field| ["kind", "apiVersion", "cluster"].contains(&field.as_str())),
            "{hook}: {fields:?}"
        );
        assert_eq!(request["cluster"]["spec"]["topology"]["version"], "v1.30.0");
        let initialized = &request["cluster"]["status"]["initialization"]["controlPlaneInitialized"];
        assert_eq!(initialized == true, hook == "AfterControlPlaneInitialized");
    }
}

#[tokio::test(start_paused = true)]
async fn deletion_waits_for_its_hook() {
    let log = Log::default();
    log.wait("BeforeClusterDelete", 2, 900, "the load balancer drains");
    let mut world = world(&log).await;
    world.run_until("the cluster is ready", LONG, is_ready).await.unwrap();
    world.delete::<Cluster>(&key("c1")).await.unwrap();
    world
        .run_until("the topology says that it waits", LONG, |world| {
            condition(world, "TopologyReconciled").2.contains("the load balancer drains")
        })
        .await
        .unwrap();
    assert_eq!(condition(&world, "TopologyReconciled").1, "Deleting");
    assert!(!world.list::<Machine>().is_empty(), "nothing is deleted before");
    assert!(world.list::<Machine>().iter().all(|machine| machine.metadata.deletion_timestamp.is_none()));
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    assert!(!cluster.annotations().contains_key(OK_TO_DELETE_ANNOTATION));
    world
        .run_until("everything is gone", LONG, |world| {
            world.get::<Cluster>(&key("c1")).is_none()
                && world.list::<Machine>().is_empty()
                && world.list::<DevCluster>().is_empty()
        })
        .await
        .unwrap();
    let deletions: Vec<_> =
        log.asked().into_iter().filter(|(hook, _)| hook == "BeforeClusterDelete").collect();
    assert_eq!(deletions.len(), 3, "twice held, once passed, and not asked again");
    assert!(
        deletions.iter().all(|(_, request)| request["cluster"]["metadata"]["deletionTimestamp"].is_string())
    );
}

#[tokio::test(start_paused = true)]
async fn whoever_says_ok_to_delete_is_not_kept_waiting() {
    let log = Log::default();
    log.wait("BeforeClusterDelete", u32::MAX, 900, "never");
    let mut world = world(&log).await;
    world.run_until("the cluster is ready", LONG, is_ready).await.unwrap();
    let patch = json!({"metadata": {"annotations": {OK_TO_DELETE_ANNOTATION: ""}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
    world.delete::<Cluster>(&key("c1")).await.unwrap();
    let gone = |world: &World| world.get::<Cluster>(&key("c1")).is_none();
    world.run_until("the cluster is gone", LONG, gone).await.unwrap();
    assert!(!log.hooks().contains(&"BeforeClusterDelete".to_owned()));
}

/// The target is taken back after everything was decided and before the step is promised: while the last hook before it
/// answers.
#[tokio::test(start_paused = true)]
async fn a_target_that_is_taken_back_while_a_hook_answers_is_not_gone_beyond() {
    let transport = InProcess::new();
    let mut world = World::begin(options(1, &transport)).await.unwrap();
    let (client, calls) = (world.client().clone(), Arc::new(AtomicUsize::new(0)));
    let counted = Arc::clone(&calls);
    let gate = move |_: Context, _: BeforeControlPlaneUpgradeRequest| {
        let clusters: Api<Cluster> = Api::namespaced(client.clone(), "default");
        counted.fetch_add(1, Ordering::SeqCst);
        async move {
            let back = Patch::Merge(json!({"spec": {"topology": {"version": "v1.30.0"}}}));
            clusters.patch("c1", &PatchParams::default(), &back).await.unwrap();
            BeforeControlPlaneUpgradeResponse::success()
        }
    };
    let gate = Extension::new("gate").on(BeforeControlPlaneUpgrade, "gate", gate).build().unwrap();
    transport.add("gate", gate);
    world.apply_object(&config("gate")).await.unwrap();
    world.apply_objects(&manifests().objects()).await.unwrap();
    world.run_until("the cluster is ready", LONG, is_ready).await.unwrap();
    let version = json!({"spec": {"topology": {"version": "v1.31.0"}}});
    world.patch::<Cluster>(&key("c1"), version).await.unwrap();
    let asked = |_: &World| calls.load(Ordering::SeqCst) > 0;
    world.run_until("the hook answers", LONG, asked).await.unwrap();
    let error = world.run_until("never", Duration::from_secs(600), |_| false).await.unwrap_err();
    assert!(error.to_string().contains("not reached"), "{error}");
    assert!(is_ready(&world), "{:?}", condition(&world, "TopologyReconciled"));
    assert_eq!(world.list::<KubeadmControlPlane>()[0].spec.version, "v1.30.0");
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn an_annotation_holds_an_upgrade_without_any_extension() {
    let hold = "before-upgrade.hook.cluster.cluster.x-k8s.io/change-window";
    let mut world = World::begin(WorldOptions::new(1)).await.unwrap();
    world.apply_objects(&manifests().annotation(hold, "").objects()).await.unwrap();
    world.run_until("the cluster is ready", LONG, is_ready).await.unwrap();
    let version = json!({"spec": {"topology": {"version": "v1.31.0"}}});
    world.patch::<Cluster>(&key("c1"), version).await.unwrap();
    world
        .run_until("the topology says that it waits", LONG, |world| {
            condition(world, "TopologyReconciled").2.contains(hold)
        })
        .await
        .unwrap();
    let (_, reason, message) = condition(&world, "TopologyReconciled");
    assert_eq!(reason, "ClusterUpgrading");
    assert!(message.contains("BeforeClusterUpgrade: removal of annotation"), "{message}");
    assert!(world.list::<Machine>().iter().all(|machine| machine.spec.version == "v1.30.0"));
    // As long as it is held, the upgrade may be taken back and asked for again.
    for version in ["v1.30.0", "v1.31.0"] {
        let patch = json!({"spec": {"topology": {"version": version}}});
        world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
    }
    let release = json!({"metadata": {"annotations": {hold: null}}});
    world.patch::<Cluster>(&key("c1"), release).await.unwrap();
    world
        .run_until("the upgrade is done", LONG, |world| {
            is_ready(world) && world.list::<Machine>().iter().all(|machine| machine.spec.version == "v1.31.0")
        })
        .await
        .unwrap();
}
