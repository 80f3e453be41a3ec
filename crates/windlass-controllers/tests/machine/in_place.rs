//! How a Machine is updated in place.

use std::sync::{Arc, Mutex};

use futures_util::future::BoxFuture;
use jiff::SignedDuration;
use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::{PENDING_HOOKS_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION};
use windlass_controllers::machine::{UpdateMachine, Updater};
use windlass_dev::knobs::KUBELET_VERSION_ANNOTATION;
use windlass_engine::machine::in_place::HookAnswer;

use super::world::{World, message, phase};

/// Answers as it is told, and remembers what it was asked.
#[derive(Clone, Default)]
struct Scripted {
    answers: Arc<Mutex<Vec<HookAnswer>>>,
    asked: Arc<Mutex<Vec<UpdateMachine>>>,
}

impl Updater for Scripted {
    fn update(&self, update: UpdateMachine) -> BoxFuture<'_, HookAnswer> {
        self.asked.lock().unwrap().push(update);
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
        Box::pin(std::future::ready(answer))
    }
}

async fn mark_all(world: &World, name: &str) {
    let mark = json!({"metadata": {"annotations": {UPDATE_IN_PROGRESS_ANNOTATION: ""}}});
    world.patch::<Machine>(name, mark.clone()).await;
    world.patch::<DevMachine>(name, mark.clone()).await;
    world.patch::<windlass_api::bootstrap::KubeadmConfig>(name, mark).await;
    world.patch::<Machine>(name, json!({"spec": {"version": "v1.32.0"}})).await;
    world.annotate(name, PENDING_HOOKS_ANNOTATION, Some("Other,UpdateMachine")).await;
}

#[tokio::test(start_paused = true)]
async fn the_hook_is_asked_until_it_is_done_and_the_marks_go() {
    let retry = HookAnswer::Retry { message: "rebooting".to_owned(), after: SignedDuration::from_secs(30) };
    let updater = Scripted::default();
    updater.answers.lock().unwrap().extend([retry.clone(), retry, HookAnswer::Done]);
    let world = World::start_with(Arc::new(updater.clone())).await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;

    mark_all(&world, "w1").await;
    let machine = world.until_reason("w1", "Updating", "InPlaceUpdating").await;
    assert_eq!(phase(&machine), "Updating");
    let machine = world
        .until("w1", "rebooting", |machine| {
            machine.is_some_and(|m| message(m, "Updating").contains("rebooting"))
        })
        .await
        .unwrap();
    assert!(message(&machine, "Ready").contains("rebooting"), "an updating machine is not ready");
    world
        .patch::<DevMachine>(
            "w1",
            json!({"metadata": {"annotations": {KUBELET_VERSION_ANNOTATION: "v1.32.0"}}}),
        )
        .await;
    let machine = world.until_reason("w1", "Updating", "NotUpdating").await;
    assert_eq!(machine.annotations().get(PENDING_HOOKS_ANNOTATION).map(String::as_str), Some("Other"));
    assert!(!machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION));
    let dev_machine = world.dev_machine("w1").await.unwrap();
    assert!(!dev_machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION));
    let asked = updater.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 3, "once for each answer, however often the Machine was looked at");
    let machine = &asked[0].desired.machine;
    assert_eq!(machine.pointer("/spec/version").and_then(|version| version.as_str()), Some("v1.32.0"));
    assert!(machine.status().is_none());
    let machine = world.until_ready("w1").await;
    assert_eq!(machine.status.node_info.unwrap().kubelet_version, "v1.32.0");
}

#[tokio::test(start_paused = true)]
async fn a_failing_hook_is_asked_again_for_ever_and_says_why() {
    let updater = Scripted::default();
    updater.answers.lock().unwrap().push(HookAnswer::Failed { message: "disk is read-only".to_owned() });
    let world = World::start_with(Arc::new(updater.clone())).await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    mark_all(&world, "w1").await;
    let machine = world.until_reason("w1", "Updating", "InPlaceUpdateFailed").await;
    assert!(message(&machine, "Updating").contains("disk is read-only"));
    world.seconds(3600).await;
    assert!(updater.asked.lock().unwrap().len() > 2);
    *updater.answers.lock().unwrap() = vec![HookAnswer::Done];
    world.until_reason("w1", "Updating", "NotUpdating").await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_its_owner_has_not_released_waits() {
    let updater = Scripted::default();
    let world = World::start_with(Arc::new(updater.clone())).await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    world.annotate("w1", UPDATE_IN_PROGRESS_ANNOTATION, Some("")).await;
    let machine = world.until_reason("w1", "Updating", "InPlaceUpdating").await;
    assert!(message(&machine, "Updating").contains("owner of the Machine"));
    world.seconds(600).await;
    assert!(updater.asked.lock().unwrap().is_empty());
}
