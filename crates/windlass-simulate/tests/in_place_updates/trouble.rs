//! Updates that fail, take for ever, or are overtaken by events.

use std::time::Duration;

use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_api::names::{IN_PLACE_AFTER_DEADLINE_ANNOTATION, IN_PLACE_DEADLINE_ANNOTATION};
use windlass_simulate::{Amount, SimulatedExtension, WorkerGroup, key};

use crate::support::{LONG, Scene, kubelet, said, workers};

fn one() -> WorkerGroup {
    WorkerGroup::new("w", 1).rolling_update(Amount::Number(0), Amount::Number(1))
}

#[tokio::test(start_paused = true)]
async fn an_update_that_fails_says_why_and_one_of_two_hours_is_waited_for() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(2 * 3600));
    let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
    let before = scene.worker_names();
    updater.fail(Some("disk is read-only"));
    scene.update_workers(1).await;
    scene.pass(Duration::from_secs(1800)).await;
    let machine = &scene.workers()[0];
    let (status, reason, message) = said(&machine.status.conditions, "Updating").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "InPlaceUpdateFailed"));
    assert!(message.contains("disk is read-only"), "{message}");
    updater.fail(None);
    let began = scene.world.now();
    scene
        .until("it is under way", LONG, |world| {
            let machines = workers(world);
            said(&machines[0].status.conditions, "Updating").is_some_and(|said| said.2.contains("installing"))
        })
        .await;
    scene.until_workers_are_done().await;
    let took = scene.world.now().duration_since(began).as_secs();
    assert!((7200..12000).contains(&took), "{took} s");
    assert_eq!((scene.worker_names(), kubelet(&scene.workers()[0])), (before, "v1.33.1".to_owned()));
    assert!(updater.calls().iter().all(|call| !call.after_completion));
}

#[tokio::test(start_paused = true)]
async fn after_the_deadline_the_user_has_the_choice() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(LONG * 30);
    let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
    let before = scene.worker_names();
    let with = |then: &'static str| {
        move |objects: &mut [serde_json::Value]| {
            objects[2]["spec"]["template"]["metadata"]["annotations"] =
                json!({IN_PLACE_DEADLINE_ANNOTATION: "10m", IN_PLACE_AFTER_DEADLINE_ANNOTATION: then});
        }
    };
    scene.update_workers_with(1, with("KeepTrying")).await;
    scene.pass(Duration::from_secs(3600)).await;
    let (_, reason, message) = said(&scene.workers()[0].status.conditions, "Updating").unwrap();
    assert_eq!(reason, "InPlaceUpdateOverdue");
    let asked =
        "extensions are asked on: UpdateMachine (updatemachine.updater): installing; asked again after 1m";
    assert!(message.contains(asked), "{message}");
    let tries = updater.calls().len();
    scene.pass(Duration::from_secs(600)).await;
    assert!(updater.calls().len() > tries);

    scene.update_workers_with(1, with("Stop")).await;
    scene.pass(Duration::from_secs(600)).await;
    let (_, _, message) = said(&scene.workers()[0].status.conditions, "Updating").unwrap();
    assert!(message.contains("no extension is asked any more"), "{message}");
    let tries = updater.calls().len();
    scene.pass(Duration::from_secs(3600)).await;
    assert_eq!(updater.calls().len(), tries);
    assert_eq!(scene.worker_names(), before);

    scene.update_workers_with(1, with("Replace")).await;
    scene.until_workers_are_done().await;
    assert_ne!(scene.worker_names(), before);
    assert_eq!(kubelet(&scene.workers()[0]), "v1.33.1");
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_deleted_while_it_is_updated_goes_and_is_replaced() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(LONG * 30);
    let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.update_workers(1).await;
    let calls = updater.clone();
    scene.until("the update is under way", LONG, |_| !calls.calls().is_empty()).await;
    scene.world.delete::<Machine>(&key(&before[0])).await.unwrap();
    scene.until_workers_are_done().await;
    assert_ne!(scene.worker_names(), before);
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted), (1, 1));
}
