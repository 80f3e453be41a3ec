//! Control planes.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::cluster::Machine;
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::hooks::Hook;
use windlass_api::names::{IN_PLACE_AFTER_DEADLINE_ANNOTATION, IN_PLACE_DEADLINE_ANNOTATION};
use windlass_simulate::{Covered, SimulatedExtension, WorkerGroup, World, key};

use crate::support::{LONG, Scene, control_planes, external, kubelet, said};

fn no_surge() -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0}})
}

/// No two control plane machines are updated at a time.
fn one_at_a_time(world: &World) {
    let updating = control_planes(world)
        .iter()
        .filter(|machine| windlass_engine::machine_set::is_updating(machine))
        .count();
    assert!(updating <= 1, "{updating} machines are updated at a time");
}

async fn updated_in_place(replicas: u32, strategy: Value) {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(60));
    let mut scene = Scene::new(replicas, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    scene.update_control_plane(1, strategy).await;
    let mut told = false;
    scene
        .until("an update began", LONG, |world| {
            one_at_a_time(world);
            let plane: windlass_api::control_plane::KubeadmControlPlane =
                world.get(&windlass_simulate::key("c-control-plane")).unwrap();
            told |= said(&plane.status.conditions, "CanUpdateInPlace").is_some();
            control_planes(world).iter().any(windlass_engine::machine_set::is_updating)
        })
        .await;
    assert!(told);
    let (status, reason, message) =
        said(&scene.control_plane().status.conditions, "CanUpdateInPlace").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Covered"));
    assert!(message.contains("* Machine spec.version: canupdatemachine.updater"), "{message}");
    scene.until_control_plane_is(1, replicas).await;
    assert_eq!(scene.control_plane_names(), before, "the same machines");
    assert!(control_planes(&scene.world).iter().all(|machine| kubelet(machine) == "v1.33.1"));
    assert_eq!(updater.finished(), replicas as usize);
    assert!(updater.calls().iter().all(|call| !call.after_completion));
    // One after the other: no update begins before the one before it is done.
    let mut order: Vec<String> = updater.calls().into_iter().map(|call| call.machine).collect();
    order.dedup();
    assert_eq!(order.len(), replicas as usize, "{order:?}");
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_of_one_is_updated_in_place() {
    updated_in_place(1, external(None)).await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_of_three_is_updated_in_place() {
    updated_in_place(3, no_surge()).await;
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_of_five_is_updated_in_place() {
    updated_in_place(5, no_surge()).await;
}

/// Facts 3.3 and the text of the hooks: "for control plane machines, if maxSurge is one, a new machine must be created
/// first". Other than workers, control planes do that whether or not one may be unavailable; with maxSurge 0, or with
/// strategy External, all are updated in place.
#[tokio::test(start_paused = true)]
async fn with_a_surge_one_machine_is_added_first_and_two_of_three_are_updated() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(60));
    let mut scene = Scene::new(3, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    scene.update_control_plane(1, json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})).await;
    scene.until_control_plane_is(1, 3).await;
    let kept = scene.control_plane_names().into_iter().filter(|name| before.contains(name)).count();
    assert_eq!((kept, updater.finished()), (2, 2));
}

/// The same where the extension says that a machine stays available: none is added.
#[tokio::test(start_paused = true)]
async fn with_a_surge_machines_that_stay_available_are_updated_without_one_more() {
    for replicas in [1, 3] {
        let extension = SimulatedExtension::new();
        let updater = extension.add_updater("updater").taking(Duration::from_secs(60)).harmless();
        let mut scene = Scene::new(replicas, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
        let before = scene.control_plane_names();
        let surge = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
        scene.update_control_plane(1, surge).await;
        scene
            .until("the control plane is updated", LONG, |world| {
                one_at_a_time(world);
                assert_eq!(control_planes(world).len(), replicas as usize, "none is added");
                crate::support::has_reached(world, "v1.33.1", replicas)
            })
            .await;
        assert_eq!(scene.control_plane_names(), before);
        assert_eq!(updater.finished(), replicas as usize);
    }
}

#[tokio::test(start_paused = true)]
async fn what_nobody_covers_stops_an_external_rollout_until_there_is_a_fallback() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").covering([Covered::Machine("version".into())]);
    let mut scene = Scene::new(1, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    let spec = json!({"spec": {"kubeadmConfigSpec": {"files": [{"path": "/etc/motd", "content": "hello"}]},
        "rollout": {"strategy": external(None)}}});
    let key = windlass_simulate::key("c-control-plane");
    scene.world.patch::<windlass_api::control_plane::KubeadmControlPlane>(&key, spec).await.unwrap();
    scene.pass(Duration::from_secs(3600)).await;
    assert_eq!(scene.control_plane_names(), before);
    let conditions = scene.control_plane().status.conditions;
    let (status, reason, message) = said(&conditions, "CanUpdateInPlace").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "NotCovered"));
    assert!(
        message.contains("* KubeadmConfig spec.files") && message.contains(": no extension"),
        "{message}"
    );
    assert!(!message.contains("hello"), "{message}");
    scene.update_control_plane(0, external(Some(json!({"maxSurge": 1})))).await;
    scene
        .until("the machine is replaced", LONG, |world| {
            let machines = control_planes(world);
            machines.len() == 1
                && machines.iter().all(|machine| machine.metadata.name.as_ref() != before.first())
        })
        .await;
    assert!(updater.calls().is_empty());
}

#[tokio::test(start_paused = true)]
async fn bad_answers_about_a_control_plane_are_told_and_change_nothing() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater");
    let mut scene = Scene::new(1, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    let of_machine = |patch_type: &str, patch: Value| json!({"status": "Success", "machinePatch": {"patchType": patch_type, "patch": patch}});
    let replace = |path: &str| json!([{"op": "replace", "path": path, "value": "x"}]);
    let cases = [
        (of_machine("JSONPatch", replace("/spec/absent/field")), "does not apply: operation at index 0"),
        (of_machine("JSONPatch", json!("%%%")), "neither base64 nor JSON"),
        (of_machine("Strategic", json!({})), "patchType \"Strategic\" of Machine is unknown"),
        (json!({"status": "Failure", "message": "out of licences"}), "out of licences"),
    ];
    for (index, (answer, expected)) in cases.into_iter().enumerate() {
        updater.answer_with(Some(answer));
        scene
            .update_control_plane(u32::try_from(index).unwrap() + 1, external(Some(json!({"maxSurge": 1}))))
            .await;
        scene.pass(Duration::from_secs(120)).await;
        let conditions = scene.control_plane().status.conditions;
        let (status, reason, message) = said(&conditions, "CanUpdateInPlace").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NoUsableAnswer"), "{message}");
        assert!(message.contains(expected), "{message}");
        // Although there is a fallback: it is unknown whether it is needed.
        assert_eq!(scene.control_plane_names(), before, "{expected}");
        assert!(updater.calls().is_empty());
    }
    updater.answer_with(None);
    updater.silence(&[Hook::CanUpdateMachine]);
    scene.update_control_plane(20, external(Some(json!({"maxSurge": 1})))).await;
    scene.pass(Duration::from_secs(120)).await;
    assert_eq!(said(&scene.control_plane().status.conditions, "CanUpdateInPlace").unwrap().0, "Unknown");
    assert_eq!(scene.control_plane_names(), before);
    // An answer that covers nothing is one: the machine is replaced.
    updater.silence(&[]);
    updater.answer_with(Some(json!({"status": "Success"})));
    scene.until_control_plane_is(20, 1).await;
    assert_ne!(scene.control_plane_names(), before);
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_machine_is_deleted_or_remediated_while_it_is_updated() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(LONG * 30);
    let mut scene = Scene::new(3, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    scene.update_control_plane(1, no_surge()).await;
    let calls = updater.clone();
    scene.until("an update is under way", LONG, |_| !calls.calls().is_empty()).await;
    let first = updater.calls()[0].machine.clone();
    scene.world.delete::<Machine>(&key(&first)).await.unwrap();
    let second = {
        let (calls, gone) = (updater.clone(), first.clone());
        scene
            .until("the next update is under way", LONG, move |world| {
                one_at_a_time(world);
                calls.calls().iter().any(|call| call.machine != gone)
            })
            .await;
        updater.calls().iter().find(|call| call.machine != first).unwrap().machine.clone()
    };
    assert!(!scene.control_plane_names().contains(&first));
    assert_eq!(scene.control_plane_names().len(), 3, "what was deleted has come back before the next one");
    // The next one is too slow for its user, who wants it to be replaced.
    let annotations =
        json!({IN_PLACE_DEADLINE_ANNOTATION: "10m", IN_PLACE_AFTER_DEADLINE_ANNOTATION: "Replace"});
    let patch = json!({"spec": {"machineTemplate": {"metadata": {"annotations": annotations}}}});
    scene.world.patch::<KubeadmControlPlane>(&key("c-control-plane"), patch).await.unwrap();
    let gone = second.clone();
    scene
        .until("it is replaced", LONG, move |world| {
            one_at_a_time(world);
            let machines = control_planes(world);
            machines.len() == 3
                && machines.iter().all(|machine| machine.metadata.name.as_deref() != Some(&gone))
        })
        .await;
    scene.until_control_plane_is(1, 3).await;
    assert_eq!(updater.finished(), 0);
    assert!(scene.control_plane_names().iter().all(|name| !before.contains(name)));
}
