//! Answers that cannot be used: they are told, and nothing changes.

use std::time::Duration;

use serde_json::json;
use windlass_api::hooks::Hook;
use windlass_simulate::{Amount, SimulatedExtension, WorkerGroup};

use crate::support::Scene;

#[tokio::test(start_paused = true)]
async fn bad_answers_are_told_and_change_nothing() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater");
    let group = WorkerGroup::new("w", 1).rolling_update(Amount::Number(1), Amount::Number(0));
    let mut scene = Scene::new(1, group, &extension, &[&updater]).await;
    let before = scene.worker_names();
    let of_set = |patch_type: &str, patch: serde_json::Value| json!({"status": "Success", "machineSetPatch": {"patchType": patch_type, "patch": patch}});
    let replace = |path: &str| json!([{"op": "replace", "path": path, "value": "x"}]);
    let cases = [
        (
            of_set("JSONPatch", replace("/spec/template/spec/absent/field")),
            "does not apply: operation at index 0",
        ),
        (of_set("JSONPatch", json!("%%%")), "neither base64 nor JSON"),
        (of_set("Strategic", json!({})), "patchType \\\"Strategic\\\" of MachineSet is unknown"),
        (json!({"status": "Failure", "message": "out of licences"}), "out of licences"),
    ];
    for (index, (answer, expected)) in cases.into_iter().enumerate() {
        updater.answer_with(Some(answer));
        scene.update_workers(u32::try_from(index).unwrap() + 1).await;
        scene.pass(Duration::from_secs(120)).await;
        let said = scene.said("CanUpdateInPlace");
        let (status, reason, message) = said.unwrap_or_else(|| panic!("nothing is said: {expected}"));
        assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NoUsableAnswer"), "{message}");
        assert!(message.contains(&expected.replace('\\', "")), "{message}");
        assert_eq!(scene.worker_names(), before, "{expected}");
        assert!(updater.calls().is_empty());
    }
    // One that does not answer at all is no better.
    updater.answer_with(None);
    updater.silence(&[Hook::CanUpdateMachineSet]);
    scene.update_workers(20).await;
    scene.pass(Duration::from_secs(120)).await;
    assert_eq!(scene.said("CanUpdateInPlace").unwrap().0, "Unknown");
    assert_eq!(scene.worker_names(), before);
    // When it has recovered, its answer counts: it covers nothing, and the machine is replaced.
    updater.silence(&[]);
    updater.answer_with(Some(json!({"status": "Success"})));
    scene.until_workers_are_done().await;
    assert_ne!(scene.worker_names(), before);
}

#[tokio::test(start_paused = true)]
async fn silence_that_is_ignored_is_neither_covered_nor_done() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").ignorable();
    let mut scene = Scene::new(1, WorkerGroup::new("w", 1), &extension, &[&updater]).await;
    let before = scene.worker_names();
    updater.silence(&[Hook::CanUpdateMachineSet]);
    scene
        .update_workers_with(1, |objects| {
            objects[2]["spec"]["rollout"]["strategy"] = json!({"type": "External"});
        })
        .await;
    scene.pass(Duration::from_secs(600)).await;
    let (status, _, message) = scene.said("CanUpdateInPlace").unwrap();
    assert_eq!(status, "False");
    assert!(message.contains("canupdatemachineset.updater was not reached"), "{message}");
    // It says what it can, and then does not answer when it shall do it.
    updater.silence(&[Hook::UpdateMachine]);
    scene.pass(Duration::from_secs(3600)).await;
    let machine = &scene.workers()[0];
    let (status, reason, message) = crate::support::said(&machine.status.conditions, "Updating").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "InPlaceUpdateFailed"));
    assert!(message.contains("handler \"updatemachine.updater\": no answer within"), "{message}");
    assert_eq!(crate::support::kubelet(machine), "v1.33.0");
    updater.silence(&[]);
    scene.until_workers_are_done().await;
    assert_eq!((scene.worker_names(), updater.finished()), (before, 1));
}
