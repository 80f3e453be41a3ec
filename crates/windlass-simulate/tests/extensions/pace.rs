//! When hooks are called again: evenly after failures, as asked for while they hold something, and at once after an edit.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use tokio::time::Instant;
use tower::{ServiceExt, service_fn};
use windlass_api::cluster::{Cluster, ClusterClass};
use windlass_api::hooks::{Hook, HookTag};
use windlass_api::runtime::ExtensionConfig;
use windlass_engine::condition;
use windlass_hooks::transport::InProcess;
use windlass_simulate::{HookRecord, SimulatedExtension, TopologyManifests, World, WorldOptions, key};

use crate::cluster::{LONG, is_reconciled, pass, told, upgrade_to};
use crate::patches::{Patcher, manifests};
use crate::recorder::{config, options};

/// When a hook is called that fails from the beginning, in seconds after the first time.
const EVENLY: [u64; 9] = [0, 1, 3, 7, 15, 31, 63, 123, 183];

/// A world in which a cluster is being made.
async fn beginning(extension: &SimulatedExtension) -> World {
    let world = World::begin(WorldOptions::extended_by(1, extension)).await.unwrap();
    world.apply_object(&SimulatedExtension::config()).await.unwrap();
    let manifests = TopologyManifests::new("c1", "v1.30.0", 1)
        .machine_deployment("web", 1)
        .versions(["v1.30.0", "v1.31.0"]);
    world.apply_objects(&manifests.objects()).await.unwrap();
    world
}

async fn world(extension: &SimulatedExtension) -> World {
    let mut world = beginning(extension).await;
    world.run_until("the cluster is ready", LONG, is_reconciled).await.unwrap();
    extension.begin();
    world
}

/// When a hook was called, in seconds after the first time.
fn times(extension: &SimulatedExtension, hook: Hook) -> Vec<u64> {
    let calls: Vec<HookRecord> =
        extension.calls().into_iter().filter(|call| call.hook == hook.name()).collect();
    let first = calls.first().map_or(0, |call| call.at_seconds);
    calls.iter().map(|call| call.at_seconds - first).collect()
}

fn count(extension: &SimulatedExtension, hook: Hook) -> usize {
    times(extension, hook).len()
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_is_called_at_growing_intervals() {
    let of_deletion = |hook: &Hook| *hook == Hook::BeforeClusterDelete;
    let lifecycle = Hook::ALL.into_iter().filter(|hook| hook.tag() == HookTag::Lifecycle);
    for hook in lifecycle.filter(|hook| !of_deletion(hook)) {
        let extension = SimulatedExtension::new();
        let is_of_creation = matches!(hook, Hook::BeforeClusterCreate | Hook::AfterControlPlaneInitialized);
        let mut world = if is_of_creation {
            extension.fail(hook, Some("the disk is full"));
            beginning(&extension).await
        } else {
            let world = world(&extension).await;
            extension.fail(hook, Some("the disk is full"));
            upgrade_to(&world, "v1.31.0").await;
            world
        };
        let fails = |world: &World| told(world).contains("the disk is full");
        world.run_until("it fails", LONG, fails).await.unwrap();
        pass(&mut world, 250).await;
        assert_eq!(times(&extension, hook)[..9], EVENLY, "{hook}");
        let handler = format!("{}.simulation", hook.path_segment());
        let message = told(&world);
        assert!(
            message.contains(&format!("handler {handler:?}: answered Failure: the disk is full")),
            "{message}"
        );
        assert!(message.ends_with("; tried again after 1m"), "{message}");
        extension.pass(hook);
        world.run_until("the upgrade is done", LONG, is_reconciled).await.unwrap();
    }
}

/// Hooks that patch and check templates and declare variables. One of them fails, the others answer.
#[tokio::test(start_paused = true)]
async fn patches_that_fail_are_asked_for_at_growing_intervals() {
    for hook in [Hook::GeneratePatches, Hook::ValidateTopology, Hook::DiscoverVariables] {
        let calls: Arc<Mutex<Vec<Instant>>> = Arc::default();
        let (transport, noted) = (InProcess::new(), Arc::clone(&calls));
        let extension = Patcher::default().extension();
        let failing = service_fn(move |request: Request<Bytes>| {
            let (extension, noted) = (extension.clone(), Arc::clone(&noted));
            async move {
                if Hook::from_path(request.uri().path()).is_none_or(|(called, _)| called != hook) {
                    return extension.oneshot(request).await;
                }
                noted.lock().unwrap().push(Instant::now());
                let answer = json!({"status": "Failure", "message": "the disk is full"});
                Ok(Response::new(Bytes::from(answer.to_string())))
            }
        });
        transport.add("patcher", failing);
        let mut world = World::begin(options(1, &transport)).await.unwrap();
        world.apply_object(&config("patcher")).await.unwrap();
        world.apply_objects(&manifests()).await.unwrap();
        let noted = Arc::clone(&calls);
        world.run_until("it is called", LONG, |_| !noted.lock().unwrap().is_empty()).await.unwrap();
        pass(&mut world, 250).await;
        let calls = calls.lock().unwrap().clone();
        // While the class and the Cluster are being completed, what is asked about may change once more.
        let began = calls.iter().filter(|at| **at - calls[0] < Duration::from_millis(900)).max().unwrap();
        let counted = calls.iter().filter(|at| *at >= began);
        let times: Vec<u64> = counted.map(|at| (*at - *began).as_secs()).collect();
        assert_eq!(times[..9], EVENLY, "{hook}");
        let failure = "answered Failure: the disk is full; tried again after 1m";
        let told = if hook == Hook::DiscoverVariables { class_told(&world) } else { told(&world) };
        assert!(told.contains("patcher\"") && told.contains(failure), "{hook}: {told}");
    }
}

/// What the class says about its variables.
fn class_told(world: &World) -> String {
    let conditions = world.get::<ClusterClass>(&key("quick")).unwrap().status.conditions;
    condition::find(&conditions, "VariablesReady").unwrap().message.clone()
}

#[tokio::test(start_paused = true)]
async fn a_deletion_that_a_failing_hook_holds_is_tried_again_at_growing_intervals() {
    let extension = SimulatedExtension::new();
    let mut world = world(&extension).await;
    extension.fail(Hook::BeforeClusterDelete, Some("still in use"));
    world.delete::<Cluster>(&key("c1")).await.unwrap();
    pass(&mut world, 100).await;
    assert_eq!(times(&extension, Hook::BeforeClusterDelete), [0, 1, 3, 7, 15, 31, 63]);
    assert!(told(&world).contains("still in use; tried again after 1m"), "{}", told(&world));
}

#[tokio::test(start_paused = true)]
async fn no_hook_holds_a_cluster_for_longer_than_an_hour_without_being_asked_again() {
    let extension = SimulatedExtension::new();
    let mut world = world(&extension).await;
    extension.block(Hook::BeforeClusterUpgrade, u32::MAX, 2_147_483_647, "never");
    upgrade_to(&world, "v1.31.0").await;
    pass(&mut world, 2 * 3600 + 60).await;
    assert_eq!(times(&extension, Hook::BeforeClusterUpgrade), [0, 3600, 7200]);
    let expected = "BeforeClusterUpgrade (beforeclusterupgrade.simulation): never; \
                    asked for 2147483647s, asked again after 1h";
    assert!(told(&world).contains(expected), "{}", told(&world));
    extension.pass(Hook::BeforeClusterUpgrade);
    world.run_until("the upgrade is done", LONG, is_reconciled).await.unwrap();
}

/// Edits that make hooks be called at once.
async fn edit(world: &World, which: usize) {
    let annotation =
        |value: Option<&str>| json!({"metadata": {"annotations": {"example.com/approved": value}}});
    match which {
        0 => {
            world.patch::<Cluster>(&key("c1"), annotation(Some("yes"))).await.unwrap();
        }
        1 => {
            world.patch::<Cluster>(&key("c1"), annotation(None)).await.unwrap();
        }
        2 => {
            let network =
                json!({"spec": {"topology": {"controlPlane": {"metadata": {"labels": {"a": "b"}}}}}});
            world.patch::<Cluster>(&key("c1"), network).await.unwrap();
        }
        _ => {
            let settings = json!({"spec": {"settings": {"mode": "lenient"}}});
            let name = windlass_runtime::ObjectKey::new("", "simulation");
            world.patch::<ExtensionConfig>(&name, settings).await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_edit_asks_a_hook_again_at_once_that_holds_or_fails() {
    for fails in [false, true] {
        let extension = SimulatedExtension::new();
        let mut world = world(&extension).await;
        let hook = Hook::BeforeClusterUpgrade;
        if fails {
            extension.fail(hook, Some("no"));
        } else {
            extension.block(hook, u32::MAX, 3000, "not yet");
        }
        upgrade_to(&world, "v1.31.0").await;
        // A failing hook is at its slowest by then, and everything that controllers write is written.
        pass(&mut world, 130).await;
        for which in 0..4 {
            let before = count(&extension, hook);
            edit(&world, which).await;
            pass(&mut world, 1).await;
            let asked = count(&extension, hook) - before;
            assert!(
                (1..=2).contains(&asked),
                "edit {which} of a hook that fails: {fails}, asked {asked} times"
            );
            if !fails {
                pass(&mut world, 60).await;
                assert_eq!(count(&extension, hook), before + asked, "and not again before its time");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_controllers_write_asks_no_hook_again() {
    let extension = SimulatedExtension::new();
    let mut world = world(&extension).await;
    extension.block(Hook::AfterControlPlaneUpgrade, u32::MAX, 3000, "not yet");
    upgrade_to(&world, "v1.31.0").await;
    let holds = |world: &World| told(world).contains("AfterControlPlaneUpgrade");
    world.run_until("it holds", LONG, holds).await.unwrap();
    let clusters: Api<Cluster> = Api::namespaced(world.client().clone(), "default");
    let status = Patch::Merge(json!({"status": {"phase": "Failed"}}));
    clusters.patch_status("c1", &PatchParams::default(), &status).await.unwrap();
    let own = json!({"metadata": {"annotations": {"upgrade.windlass.dev/waiting-on": "x"}}});
    world.patch::<Cluster>(&key("c1"), own).await.unwrap();
    pass(&mut world, 2900).await;
    assert_eq!(count(&extension, Hook::AfterControlPlaneUpgrade), 1);
}
