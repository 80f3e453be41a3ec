//! When the hooks of updates in place are called again: as lifecycle hooks are, evenly after failures, as asked for while
//! an update runs and after an hour at most, and at once after an edit.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_api::cluster::Machine;
use windlass_api::hooks::Hook;
use windlass_api::runtime::ExtensionConfig;
use windlass_runtime::ObjectKey;
use windlass_simulate::{Amount, Reply, SimulatedExtension, SimulatedUpdater, WorkerGroup, key};

use crate::support::{Scene, external, said};

const HOUR: Duration = Duration::from_secs(3600);
/// Long enough for the pauses below.
const TRIES: Duration = Duration::from_secs(250);
/// The seconds between calls of a hook that fails.
const PAUSES: [u64; 8] = [1, 2, 4, 8, 16, 32, 60, 60];
/// What an extension says that does not know when it will be done.
const NEVER: u32 = i32::MAX.unsigned_abs();

fn one() -> WorkerGroup {
    WorkerGroup::new("w", 1).rolling_update(Amount::Number(0), Amount::Number(1))
}

/// The seconds between calls, to the nearest one: a controller may have been at something else.
fn pauses(calls: &[Instant]) -> Vec<u64> {
    let seconds = |pair: &[Instant]| (pair[1] - pair[0]).as_secs_f64().round() as u64;
    calls.windows(2).map(seconds).collect()
}

fn updates(updater: &SimulatedUpdater) -> Vec<Instant> {
    updater.calls().into_iter().map(|call| call.at).collect()
}

/// What the only worker says about its update.
fn updating(scene: &Scene) -> String {
    said(&scene.workers()[0].status.conditions, "Updating").map(|said| said.2).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn an_update_that_fails_is_tried_again_at_growing_intervals() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater");
    let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
    updater.fail(Some("disk is read-only"));
    scene.update_workers(1).await;
    let calls = updater.clone();
    scene.until("it is tried", HOUR, |_| !calls.calls().is_empty()).await;
    scene.pass(TRIES).await;
    assert_eq!(pauses(&updates(&updater))[..8], PAUSES);
    let message = updating(&scene);
    let failure =
        "handler \"updatemachine.updater\": answered Failure: disk is read-only; tried again after 1m";
    assert!(message.ends_with(failure), "{message}");
    updater.fail(None);
    scene.until_workers_are_done().await;
}

/// A failure policy that ignores silence does not make a machine count as updated, and is no reason to ask more often.
#[tokio::test(start_paused = true)]
async fn silence_that_is_ignored_is_tried_again_at_growing_intervals() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").ignorable();
    let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
    updater.silence(&[Hook::UpdateMachine]);
    scene.update_workers(1).await;
    scene.pass(TRIES).await;
    let message = updating(&scene);
    assert!(message.contains("handler \"updatemachine.updater\""), "{message}");
    assert!(message.ends_with("; tried again after 1m"), "{message}");
    updater.silence(&[]);
    scene.until_workers_are_done().await;
    assert_eq!(updater.finished(), 1);
}

#[tokio::test(start_paused = true)]
async fn no_update_is_left_alone_for_longer_than_an_hour() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(3 * HOUR).asking_to_wait(NEVER);
    let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.update_workers(1).await;
    let calls = updater.clone();
    scene.until("it is asked", HOUR, |_| !calls.calls().is_empty()).await;
    scene.pass(2 * HOUR + Duration::from_secs(60)).await;
    assert_eq!(pauses(&updates(&updater)), [3600, 3600]);
    let expected =
        "UpdateMachine (updatemachine.updater): installing; asked for 2147483647s, asked again after 1h";
    let message = updating(&scene);
    assert!(message.ends_with(expected), "{message}");
    scene.until_workers_are_done().await;
    assert_eq!(scene.worker_names(), before);
}

#[tokio::test(start_paused = true)]
async fn an_edit_asks_an_update_again_at_once() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(48 * HOUR).asking_to_wait(3000);
    let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
    let machine = scene.worker_names().pop().unwrap();
    scene.update_workers(1).await;
    let calls = updater.clone();
    scene.until("it is asked", HOUR, |_| !calls.calls().is_empty()).await;
    scene.pass(Duration::from_secs(130)).await;
    let settings = json!({"spec": {"settings": {"mode": "lenient"}}});
    let approved = json!({"metadata": {"annotations": {"example.com/approved": "yes"}}});
    for edit in ["the ExtensionConfig", "an annotation of the Machine"] {
        let before = updater.calls().len();
        if edit == "the ExtensionConfig" {
            let name = ObjectKey::new("", "updater");
            scene.world.patch::<ExtensionConfig>(&name, settings.clone()).await.unwrap();
        } else {
            scene.world.patch::<Machine>(&key(&machine), approved.clone()).await.unwrap();
        }
        scene.pass(Duration::from_secs(2)).await;
        assert_eq!(updater.calls().len(), before + 1, "an edit of {edit} asks once more");
        scene.pass(Duration::from_secs(600)).await;
        assert_eq!(updater.calls().len(), before + 1, "and not again before its time");
    }
}

#[tokio::test(start_paused = true)]
async fn questions_that_fail_are_asked_again_at_growing_intervals() {
    let failure = json!({"status": "Failure", "message": "out of licences"});
    let unusable = |part: &str| json!({"status": "Success", part: {"patchType": "Strategic", "patch": {}}});
    let cases: [(&str, Value, &str); 4] = [
        ("workers", failure.clone(), "answered Failure: out of licences"),
        ("workers", unusable("machineSetPatch"), "patchType \"Strategic\" of MachineSet is unknown"),
        ("control plane", failure, "answered Failure: out of licences"),
        ("control plane", unusable("machinePatch"), "patchType \"Strategic\" of Machine is unknown"),
    ];
    for (of, answer, expected) in cases {
        let extension = SimulatedExtension::new();
        let updater = extension.add_updater("updater");
        let mut scene = Scene::new(1, one(), &extension, &[&updater]).await;
        updater.answer_with(Some(answer));
        let conditions = |scene: &Scene| match of {
            "workers" => scene.deployment().status.conditions,
            _ => scene.control_plane().status.conditions,
        };
        match of {
            "workers" => scene.update_workers(1).await,
            _ => scene.update_control_plane(1, external(None)).await,
        }
        let asked = updater.clone();
        scene.until("it is asked", HOUR, |_| asked.asked() > 0).await;
        scene.pass(TRIES).await;
        assert_eq!(pauses(&updater.asked_at())[..8], PAUSES, "{of}: {expected}");
        let (_, _, message) = said(&conditions(&scene), "CanUpdateInPlace").unwrap();
        assert!(message.contains(".updater\""), "{of}: {message}");
        assert!(message.contains(expected), "{of}: {message}");
        assert!(message.contains("; tried again after 1m"), "{of}: {message}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_external_updater_that_fails_is_asked_again_at_growing_intervals() {
    for of_workers in [true, false] {
        let extension = SimulatedExtension::new();
        let fail = Reply::Fail { message: "database is locked".to_owned() };
        let updater = extension.add_external_updater("night-shift", fail);
        let mut scene = Scene::with_external_updaters(1, one(), &extension, &[&updater]).await;
        if of_workers {
            scene.update_workers_by(1, external(None)).await;
        } else {
            scene.update_control_plane(1, external(None)).await;
        }
        let asked = updater.clone();
        scene.until("it is asked", HOUR, |_| !asked.calls().is_empty()).await;
        scene.pass(TRIES).await;
        let calls: Vec<Instant> = updater.calls().into_iter().map(|call| call.at).collect();
        assert_eq!(pauses(&calls)[..8], PAUSES, "workers: {of_workers}");
        let conditions = match of_workers {
            true => scene.deployment().status.conditions,
            false => scene.control_plane().status.conditions,
        };
        let (_, _, message) = said(&conditions, "ExternalUpdate").unwrap();
        let failure = "handler \"externalupdate.night-shift\": answered Failure: database is locked; tried again after 1m";
        assert!(message.contains(failure), "{message}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_external_updater_is_asked_again_after_an_hour_at_most() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_external_updater("night-shift", Reply::accept_for(NEVER));
    let mut scene = Scene::with_external_updaters(1, one(), &extension, &[&updater]).await;
    scene.update_workers_by(1, external(None)).await;
    let asked = updater.clone();
    scene.until("it is asked", HOUR, |_| !asked.calls().is_empty()).await;
    scene.pass(2 * HOUR + Duration::from_secs(60)).await;
    let calls: Vec<Instant> = updater.calls().into_iter().map(|call| call.at).collect();
    assert_eq!(pauses(&calls), [3600, 3600]);
}
