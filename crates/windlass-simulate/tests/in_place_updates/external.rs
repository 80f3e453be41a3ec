//! Strategy External of workers: machines are replaced only if the user says so.

use std::time::Duration;

use serde_json::json;
use windlass_simulate::{Covered, SimulatedExtension, WorkerGroup};

use crate::support::{Scene, external, kubelet};

#[tokio::test(start_paused = true)]
async fn a_single_worker_is_updated_in_place_and_what_is_not_covered_stops_the_rollout() {
    let extension = SimulatedExtension::new();
    let updater = extension
        .add_updater("updater")
        .covering([Covered::Machine("version".into())])
        .taking(Duration::from_secs(60));
    let mut scene = Scene::new(1, WorkerGroup::new("w", 1), &extension, &[&updater]).await;
    let before = scene.worker_names();
    let strategy = |fallback| {
        move |objects: &mut [serde_json::Value]| {
            objects[2]["spec"]["rollout"]["strategy"] = external(fallback);
        }
    };
    // One machine, no spare capacity.
    scene.update_workers_with(1, strategy(None)).await;
    scene.until_workers_are_done().await;
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.updated_in_place, bounds.min_available), (0, 0, 1, 0));
    assert_eq!((scene.worker_names(), kubelet(&scene.workers()[0]).as_str()), (before.clone(), "v1.33.1"));

    // A change that nobody covers: nothing happens, and the fields are named.
    let with_files = |fallback: Option<serde_json::Value>| {
        move |objects: &mut [serde_json::Value]| {
            strategy(fallback)(objects);
            objects[0]["spec"]["template"]["spec"]["files"] =
                json!([{"path": "/etc/motd", "content": "hello"}]);
        }
    };
    scene.update_workers_with(2, with_files(None)).await;
    scene.pass(Duration::from_secs(3600)).await;
    assert_eq!(scene.worker_names(), before);
    assert_eq!(kubelet(&scene.workers()[0]), "v1.33.1");
    let (status, reason, message) = scene.said("RollingOut").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "RolloutBlocked"));
    assert!(
        message.contains("no extension covers KubeadmConfigTemplate spec.template.spec.files"),
        "{message}"
    );
    let (status, reason, _) = scene.said("CanUpdateInPlace").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NotCovered"));

    // The answer is remembered, and forgotten when the settings of the extension change.
    let asked = updater.asked();
    let mut config = updater.config();
    config["spec"]["settings"] = json!({"mood": "other"});
    scene.world.apply_objects(&[config]).await.unwrap();
    scene.pass(Duration::from_secs(60)).await;
    assert_eq!(updater.asked(), asked + 1);
    scene.pass(Duration::from_secs(60)).await;
    assert_eq!(updater.asked(), asked + 1);

    // With a fallback the machine is replaced.
    scene.update_workers_with(2, with_files(Some(json!({"maxSurge": 1, "maxUnavailable": 0})))).await;
    scene.until_workers_are_done().await;
    assert_ne!(scene.worker_names(), before);
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.updated_in_place), (1, 1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_extension_that_comes_later_ends_the_standstill() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("late").taking(Duration::from_secs(10));
    let mut scene = Scene::new(1, WorkerGroup::new("w", 1), &extension, &[]).await;
    let before = scene.worker_names();
    scene.update_workers_with(1, |objects| objects[2]["spec"]["rollout"]["strategy"] = external(None)).await;
    scene.pass(Duration::from_secs(60)).await;
    let (_, reason, message) = scene.said("RollingOut").unwrap();
    assert_eq!(reason, "RolloutBlocked");
    assert!(message.contains("no extension updates Machines in place"), "{message}");
    assert_eq!(scene.said("CanUpdateInPlace"), None, "there is nobody to say anything");
    scene.world.apply_objects(&[updater.config()]).await.unwrap();
    scene.until_workers_are_done().await;
    assert_eq!(scene.worker_names(), before);
    assert_eq!(updater.finished(), 1);
}
