//! Control planes.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_simulate::{Covered, SimulatedExtension, WorkerGroup, World};

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

#[tokio::test(start_paused = true)]
async fn with_a_surge_one_machine_is_added_and_two_of_three_are_updated() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(60));
    let mut scene = Scene::new(3, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    scene.update_control_plane(1, json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}})).await;
    scene.until_control_plane_is(1, 3).await;
    let kept = scene.control_plane_names().into_iter().filter(|name| before.contains(name)).count();
    assert_eq!((kept, updater.finished()), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn what_nobody_covers_stops_an_external_rollout_until_there_is_a_fallback() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").covering([Covered::Machine("version")]);
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
    assert!(message.contains("* KubeadmConfig spec.files") && message.contains(": nobody"), "{message}");
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
