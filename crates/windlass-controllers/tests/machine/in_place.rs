//! How a Machine is updated in place.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;
use windlass_api::cluster::Machine;
use windlass_api::hooks::{
    HookResponse, RetryResponse, UpdateMachine, UpdateMachineRequest, UpdateMachineResponse,
};
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::{
    IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION, IN_PLACE_DRAIN_ANNOTATION, IN_PLACE_VOLUME_DETACH_ANNOTATION,
    PENDING_HOOKS_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION,
};
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_extension::{Context, Extension};
use windlass_hooks::HookClient;
use windlass_hooks::transport::{InProcess, boxed};
use windlass_inmemory::knobs::{self, KUBELET_VERSION_ANNOTATION};

use super::world::{World, is_cordoned, message, phase};

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

/// Marks a Machine as its owner does whose extension asks for a drain.
async fn mark_for_drain(world: &World, name: &str) {
    let asked = json!({"metadata": {"annotations":
        {IN_PLACE_DRAIN_ANNOTATION: "", IN_PLACE_VOLUME_DETACH_ANNOTATION: ""}}});
    world.patch::<Machine>(name, asked).await;
    mark_all(world, name).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_is_drained_before_its_update_and_uncordoned_after_it() {
    let updater = Scripted::answering([
        UpdateMachineResponse::failure("disk is read-only"),
        UpdateMachineResponse::success(),
    ]);
    let world = World::start_with(updater.registered().await).await;
    world.with_control_plane().await;
    let stubborn = json!({knobs::DRAIN_NEVER_ENDS_ANNOTATION: ""});
    world.add_machine("w1", json!({}), json!({}), stubborn).await;
    world.until_ready("w1").await;
    mark_for_drain(&world, "w1").await;
    let machine = world.until_reason("w1", "Updating", "DrainingNode").await;
    assert!(message(&machine, "Updating").contains("w1-stubborn"), "{}", message(&machine, "Updating"));
    assert!(is_cordoned(&world.node("w1").await.unwrap()));
    world.seconds(1200).await;
    assert!(updater.asked.lock().unwrap().is_empty(), "no extension is called before the Node is drained");

    let release = json!({"metadata": {"annotations": {knobs::DRAIN_NEVER_ENDS_ANNOTATION: null}}});
    world.patch::<DevMachine>("w1", release).await;
    let machine = world.until_reason("w1", "Updating", "InPlaceUpdateFailed").await;
    let says = message(&machine, "Updating");
    assert!(says.contains("disk is read-only"), "{says}");
    assert!(says.ends_with("\nNode w1 stays cordoned until the update is done"), "{says}");
    assert!(is_cordoned(&world.node("w1").await.unwrap()));
    let machine = world.until_reason("w1", "Updating", "NotUpdating").await;
    assert!(!is_cordoned(&world.node("w1").await.unwrap()));
    for key in [IN_PLACE_DRAIN_ANNOTATION, IN_PLACE_VOLUME_DETACH_ANNOTATION] {
        assert!(!machine.annotations().contains_key(key), "{key}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_before_an_update_is_given_up_after_its_timeout() {
    let updater = Scripted::answering([UpdateMachineResponse::success()]);
    let world = World::start_with(updater.registered().await).await;
    world.with_control_plane().await;
    let stubborn = json!({knobs::DRAIN_NEVER_ENDS_ANNOTATION: ""});
    let spec = json!({"deletion": {"nodeDrainTimeoutSeconds": 300}});
    world.add_machine("w1", spec, json!({}), stubborn).await;
    world.until_ready("w1").await;
    mark_for_drain(&world, "w1").await;
    world.until_reason("w1", "Updating", "DrainingNode").await;
    world.seconds(280).await;
    assert!(updater.asked.lock().unwrap().is_empty());
    world.seconds(60).await;
    world.until_reason("w1", "Updating", "NotUpdating").await;
    assert_eq!(updater.asked.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn volumes_are_waited_for_after_the_drain_and_before_the_update() {
    let updater = Scripted::answering([UpdateMachineResponse::success()]);
    let world = World::start_with(updater.registered().await).await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    let client = world.workload().inside().clone();
    let attachments: Api<VolumeAttachment> = Api::all(client);
    let attachment = serde_json::from_value(json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "disk"},
        "spec": {"attacher": "csi", "nodeName": "w1", "source": {"persistentVolumeName": "pv1"}},
    }));
    attachments.create(&PostParams::default(), &attachment.unwrap()).await.unwrap();
    mark_for_drain(&world, "w1").await;
    world.until_reason("w1", "Updating", "WaitingForVolumeDetach").await;
    world.seconds(600).await;
    assert!(updater.asked.lock().unwrap().is_empty());
    attachments.delete("disk", &DeleteParams::default()).await.unwrap();
    world.until_reason("w1", "Updating", "NotUpdating").await;
}

#[tokio::test(start_paused = true)]
async fn an_update_that_does_not_affect_availability_leaves_the_machine_ready() {
    let retry = UpdateMachineResponse::blocking("rebooting", 30);
    let updater = Scripted::answering([retry, UpdateMachineResponse::success()]);
    let world = World::start_with(updater.registered().await).await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    let machine = world.until_ready("w1").await;
    let since = |machine: &Machine| {
        let found = windlass_engine::condition::find(&machine.status.conditions, "Available");
        found.map(|found| (found.status.clone(), found.last_transition_time.0))
    };
    let before = since(&machine);
    world.annotate("w1", IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION, Some("false")).await;
    mark_all(&world, "w1").await;
    let machine = world.until_reason("w1", "Updating", "InPlaceUpdating").await;
    assert_eq!(since(&machine), before);
    let machine = world.until_reason("w1", "Updating", "NotUpdating").await;
    assert_eq!(since(&machine), before, "it was available all the time");
    assert!(!machine.annotations().contains_key(IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION));
}
