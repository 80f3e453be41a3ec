//! How a Machine is updated in place.

use std::sync::{Arc, Mutex};

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_api::hooks::{
    HookResponse, RetryResponse, UpdateMachine, UpdateMachineRequest, UpdateMachineResponse,
};
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::{PENDING_HOOKS_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION};
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_extension::{Context, Extension};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{InProcess, boxed};
use windlass_inmemory::knobs::KUBELET_VERSION_ANNOTATION;

use super::world::{World, message, phase};

/// An extension that answers as it is told, and remembers what it was asked.
#[derive(Clone, Default)]
struct Scripted {
    answers: Arc<Mutex<Vec<UpdateMachineResponse>>>,
    asked: Arc<Mutex<Vec<UpdateMachineRequest>>>,
}

impl Scripted {
    fn answering(answers: impl IntoIterator<Item = UpdateMachineResponse>) -> Self {
        let scripted = Self::default();
        scripted.answers.lock().unwrap().extend(answers);
        scripted
    }

    /// It is registered and discovered, and called in this process.
    async fn registered(&self) -> InPlaceExtensions {
        let scripted = self.clone();
        let update = move |_: Context, request: UpdateMachineRequest| {
            scripted.asked.lock().unwrap().push(request);
            let mut answers = scripted.answers.lock().unwrap();
            let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0].clone() };
            std::future::ready(answer)
        };
        let extension =
            Extension::new("updater").on(UpdateMachine, "update-machine", update).build().unwrap();
        let transport = InProcess::new();
        transport.add("updater", extension);
        let hooks = HookClient::builder(boxed(transport)).build();
        let config = serde_json::from_value(json!({
            "apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
            "metadata": {"name": "updater"},
            "spec": {"clientConfig": {"url": "https://updater.invalid"}, "namespaceSelector": {}},
        }));
        hooks.warm_up([(config.unwrap(), None)]).await;
        InPlaceExtensions::discovered(hooks)
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
    let retry = UpdateMachineResponse::blocking("rebooting", 30);
    let updater = Scripted::answering([retry.clone(), retry, UpdateMachineResponse::success()]);
    let world = World::start_with(updater.registered().await).await;
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
    assert_eq!(asked.len(), 3, "once for each answer, however often the Machine was reconciled");
    let machine = &asked[0].desired.machine;
    assert_eq!(machine.pointer("/spec/version").and_then(|version| version.as_str()), Some("v1.32.0"));
    assert!(machine.status().is_none());
    let machine = world.until_ready("w1").await;
    assert_eq!(machine.status.node_info.unwrap().kubelet_version, "v1.32.0");
}

#[tokio::test(start_paused = true)]
async fn a_failing_hook_is_asked_again_for_ever_and_says_why() {
    let updater = Scripted::answering([UpdateMachineResponse::failure("disk is read-only")]);
    let world = World::start_with(updater.registered().await).await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    mark_all(&world, "w1").await;
    let machine = world.until_reason("w1", "Updating", "InPlaceUpdateFailed").await;
    assert!(message(&machine, "Updating").contains("disk is read-only"));
    world.seconds(3600).await;
    assert!(updater.asked.lock().unwrap().len() > 2);
    *updater.answers.lock().unwrap() = vec![UpdateMachineResponse::success()];
    world.until_reason("w1", "Updating", "NotUpdating").await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_its_owner_has_not_released_waits() {
    let updater = Scripted::default();
    let world = World::start_with(updater.registered().await).await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    world.annotate("w1", UPDATE_IN_PROGRESS_ANNOTATION, Some("")).await;
    let machine = world.until_reason("w1", "Updating", "InPlaceUpdating").await;
    assert!(message(&machine, "Updating").contains("owner of the Machine"));
    world.seconds(600).await;
    assert!(updater.asked.lock().unwrap().is_empty());
}
