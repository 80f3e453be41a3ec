//! Strategy External: an external updater does the whole update.

use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::names::EXTERNAL_UPDATE_ANNOTATION;
use windlass_runtime::WriteFault;
use windlass_simulate::{
    Covered, Reply, SimulatedExtension, SimulatedExternalUpdater, WorkerGroup, World, is_complete, key,
};

use crate::support::{LONG, Scene, control_planes, external, has_reached, kubelet, place, said, workers};

const MINUTE: Duration = Duration::from_secs(60);

/// Waits until an external updater was asked so often.
async fn until_asked(scene: &mut Scene, updater: &SimulatedExternalUpdater, times: usize) {
    let updater = updater.clone();
    scene.until("the updater is asked", LONG, move |_| updater.calls().len() >= times).await;
}

fn is_recorded(world: &World) -> bool {
    let deployment: MachineDeployment = world.get(&key("c-w")).unwrap();
    deployment.annotations().contains_key(EXTERNAL_UPDATE_ANNOTATION)
}

#[tokio::test(start_paused = true)]
async fn who_accepts_updates_the_machines_and_they_only_change_hands() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_external_updater("night-shift", Reply::accept());
    let mut scene = Scene::with_external_updaters(1, WorkerGroup::new("w", 3), &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.population.begin(scene.world.now());
    scene.update_workers_by(1, external(None)).await;
    until_asked(&mut scene, &updater, 1).await;
    scene.pass(30 * MINUTE).await;
    // Nothing moves before the external updater has done something, and it is not asked again.
    assert_eq!((scene.worker_names(), updater.calls().len()), (before.clone(), 1));
    let (status, reason, message) = scene.said("ExternalUpdate").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("True", "Accepted"));
    assert!(
        message.starts_with("externalupdate.night-shift updates 3 Machines: in the night\n* waiting for "),
        "{message}"
    );
    let call = &updater.calls()[0];
    assert_eq!(call.machines.iter().collect::<std::collections::BTreeSet<_>>(), before.iter().collect());
    let request = &call.request;
    assert_eq!(request["owner"]["kind"], "MachineDeployment");
    assert_eq!(
        (&request["owner"]["name"], &request["cluster"]["metadata"]["name"]),
        (&json!("c-w"), &json!("c"))
    );
    assert_eq!(request["desired"]["machine"]["spec"]["version"], "v1.33.1");
    assert_eq!(request["desired"]["infrastructureMachine"]["kind"], "DevMachine");
    assert_eq!(request["desired"]["bootstrapConfig"]["kind"], "KubeadmConfig");
    assert!(request["machines"][0].get("status").is_none());

    for (done, name) in before.iter().enumerate() {
        updater.update(&scene.world, name).await.unwrap();
        scene.pass(MINUTE).await;
        let up_to_date = scene.deployment().status.up_to_date_replicas;
        assert_eq!(up_to_date, i32::try_from(done + 1).ok(), "as soon as a machine is done it counts");
    }
    scene.until_workers_are_done().await;
    assert_eq!(scene.worker_names(), before);
    assert!(scene.workers().iter().all(|machine| kubelet(machine) == "v1.33.1"));
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.min_available), (0, 0, 3), "nobody was unavailable");
    scene.pass(MINUTE).await;
    assert!(!is_recorded(&scene.world));
    assert_eq!(scene.said("ExternalUpdate"), None);
}

#[tokio::test(start_paused = true)]
async fn an_acceptance_can_be_withdrawn_and_the_next_one_is_asked() {
    let extension = SimulatedExtension::new();
    let first = extension.add_external_updater("a", Reply::refuse("no licence"));
    let second = extension.add_external_updater("b", Reply::accept_for(600));
    let mut scene =
        Scene::with_external_updaters(1, WorkerGroup::new("w", 1), &extension, &[&first, &second]).await;
    let before = scene.worker_names();
    scene.update_workers_by(1, external(None)).await;
    until_asked(&mut scene, &second, 1).await;
    scene.pass(60 * MINUTE).await;
    let calls = second.calls();
    assert!((6..8).contains(&calls.len()), "{} calls in an hour, every ten minutes", calls.len());
    let pauses: Vec<u64> = calls.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
    assert!(pauses.iter().all(|pause| (600..620).contains(pause)), "{pauses:?}");
    assert_eq!(first.calls().len(), 1, "who has refused is not asked while another is at it");

    second.reply(Reply::refuse("a disk broke"));
    scene.pass(15 * MINUTE).await;
    // None accepts, nothing is replaced, and people see why.
    assert_eq!(scene.worker_names(), before);
    let (status, reason, message) = scene.said("ExternalUpdate").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("False", "Refused"));
    let refusals = ["* externalupdate.a refuses: no licence", "* externalupdate.b refuses: a disk broke"];
    assert!(refusals.iter().all(|refusal| message.contains(refusal)), "{message}");
    let (_, reason, message) = scene.said("RollingOut").unwrap();
    assert_eq!(reason, "RolloutBlocked");
    assert!(refusals.iter().all(|refusal| message.contains(refusal)), "{message}");

    // They are asked again now and then, and one has learnt.
    first.reply(Reply::accept());
    let asked = first.calls().len();
    until_asked(&mut scene, &first, asked + 1).await;
    scene.pass(MINUTE).await;
    first.update(&scene.world, &before[0]).await.unwrap();
    scene.until_workers_are_done().await;
    assert_eq!((scene.worker_names(), kubelet(&scene.workers()[0]).as_str()), (before, "v1.33.1"));
}

#[tokio::test(start_paused = true)]
async fn with_a_fallback_machines_are_replaced_when_all_refuse_and_nobody_is_asked_in_between() {
    let extension = SimulatedExtension::new();
    let first = extension.add_external_updater("a", Reply::refuse("no"));
    let second = extension.add_external_updater("b", Reply::refuse("never"));
    let mut scene =
        Scene::with_external_updaters(1, WorkerGroup::new("w", 3), &extension, &[&first, &second]).await;
    let before = scene.worker_names();
    let fallback = external(Some(json!({"maxSurge": 1, "maxUnavailable": 0})));
    scene.update_workers_by(1, fallback).await;
    scene.until_workers_are_done().await;
    assert!(scene.worker_names().iter().all(|name| !before.contains(name)));
    assert_eq!((first.calls().len(), second.calls().len()), (1, 1));
    scene.pass(MINUTE).await;
    assert!(!is_recorded(&scene.world));
}

#[tokio::test(start_paused = true)]
async fn extensions_that_cover_a_change_come_first() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").covering([Covered::Machine("version".into())]);
    let external_updater = extension.add_external_updater("z", Reply::accept());
    let mut scene = Scene::new(1, WorkerGroup::new("w", 1), &extension, &[&updater]).await;
    scene.world.apply_objects(&[external_updater.config()]).await.unwrap();
    let before = scene.worker_names();
    scene.update_workers_by(1, external(None)).await;
    scene.until_workers_are_done().await;
    assert_eq!((updater.finished(), external_updater.calls().len()), (1, 0));
    // What they do not cover is left to others.
    scene
        .update_workers_with(2, |objects| {
            objects[2]["spec"]["rollout"]["strategy"] = external(None);
            objects[0]["spec"]["template"]["spec"]["files"] =
                json!([{"path": "/etc/motd", "content": "hello"}]);
        })
        .await;
    until_asked(&mut scene, &external_updater, 1).await;
    scene.pass(MINUTE).await;
    let asked = updater.asked();
    external_updater.update(&scene.world, &before[0]).await.unwrap();
    scene.until_workers_are_done().await;
    assert_eq!((scene.worker_names(), updater.finished()), (before, 1));
    assert_eq!(updater.asked(), asked, "nobody else is asked while somebody is at it");
}

#[tokio::test(start_paused = true)]
async fn who_does_not_answer_has_neither_accepted_nor_withdrawn() {
    let extension = SimulatedExtension::new();
    let strict = extension.add_external_updater("strict", Reply::Silence);
    let mut scene = Scene::with_external_updaters(1, WorkerGroup::new("w", 1), &extension, &[&strict]).await;
    let before = scene.worker_names();
    let fallback = || external(Some(json!({"maxSurge": 1, "maxUnavailable": 0})));
    scene.update_workers_by(1, fallback()).await;
    scene.pass(30 * MINUTE).await;
    // What it would say is unknown: nothing is replaced, although there is a fallback.
    assert_eq!(scene.worker_names(), before);
    let (status, reason, message) = scene.said("ExternalUpdate").unwrap();
    assert_eq!((status.as_str(), reason.as_str()), ("Unknown", "NoUsableAnswer"));
    assert!(message.contains("externalupdate.strict"), "{message}");
    strict.reply(Reply::Fail { message: "database is locked".to_owned() });
    scene.pass(10 * MINUTE).await;
    assert!(scene.said("ExternalUpdate").unwrap().2.contains("database is locked"));
    // It accepts, and then goes down for two hours: no controller replaces what it is working on.
    strict.reply(Reply::accept_for(300));
    scene.pass(10 * MINUTE).await;
    strict.reply(Reply::Silence);
    scene.pass(120 * MINUTE).await;
    let (status, _, message) = scene.said("ExternalUpdate").unwrap();
    assert_eq!((status.as_str(), scene.worker_names()), ("True", before.clone()));
    assert!(message.contains("asked again"), "{message}");
    strict.reply(Reply::accept());
    scene.pass(10 * MINUTE).await;
    strict.update(&scene.world, &before[0]).await.unwrap();
    scene.until_workers_are_done().await;
    assert_eq!(scene.worker_names(), before);

    // The silence of one that is ignored counts as a refusal, never as an acceptance.
    let lax = extension.add_external_updater("aa-lax", Reply::Silence).ignorable();
    scene.world.apply_objects(&[lax.config()]).await.unwrap();
    strict.reply(Reply::refuse("not tonight"));
    scene.update_workers_by(2, external(None)).await;
    scene.pass(5 * MINUTE).await;
    let message = scene.said("ExternalUpdate").unwrap().2;
    assert!(message.contains("aa-lax refuses: it was not reached"), "{message}");
    assert_eq!(scene.worker_names(), before);
    scene.update_workers_by(2, fallback()).await;
    scene.until_workers_are_done().await;
    assert_ne!(scene.worker_names(), before);
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_goes_meanwhile_comes_back_new_and_scaling_works() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_external_updater("i", Reply::accept());
    let mut scene = Scene::with_external_updaters(1, WorkerGroup::new("w", 3), &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.update_workers_by(1, external(None)).await;
    until_asked(&mut scene, &updater, 1).await;
    scene.pass(MINUTE).await;
    scene.world.delete::<Machine>(&key(&before[0])).await.unwrap();
    let gone = before[0].clone();
    scene
        .until("another machine has come", LONG, move |world| {
            let machines = workers(world);
            machines.len() == 3
                && machines.iter().all(|machine| machine.name_any() != gone)
                && machines.iter().filter(|machine| kubelet(machine) == "v1.33.1").count() == 1
        })
        .await;
    assert_eq!(updater.calls().len(), 1, "it has been asked about all that are left");
    // One more is made from the new template, one fewer is one of the old ones.
    let scale = |replicas: u32| json!({"spec": {"replicas": replicas}});
    scene.world.patch::<MachineDeployment>(&key("c-w"), scale(4)).await.unwrap();
    scene
        .until("there are four", LONG, |world| {
            workers(world).iter().filter(|machine| kubelet(machine) == "v1.33.1").count() == 2
        })
        .await;
    scene.world.patch::<MachineDeployment>(&key("c-w"), scale(3)).await.unwrap();
    scene.until("there are three", LONG, |world| workers(world).len() == 3).await;
    scene.pass(10 * MINUTE).await;
    let left: Vec<String> = scene
        .workers()
        .iter()
        .filter(|machine| kubelet(machine) == "v1.33.0")
        .map(ResourceExt::name_any)
        .collect();
    assert_eq!((left.len(), scene.workers().len()), (1, 3));
    updater.update(&scene.world, &left[0]).await.unwrap();
    scene
        .until("all are up to date", LONG, |world| {
            workers(world).len() == 3 && workers(world).iter().all(|machine| kubelet(machine) == "v1.33.1")
        })
        .await;
    scene.pass(MINUTE).await;
    assert!(scene.worker_names().contains(&left[0]) && !is_recorded(&scene.world));
}

#[tokio::test(start_paused = true)]
async fn control_planes_of_one_and_three_are_updated_externally() {
    for replicas in [1, 3] {
        let extension = SimulatedExtension::new();
        let updater = extension.add_external_updater("i", Reply::refuse("not yet"));
        let mut scene =
            Scene::with_external_updaters(replicas, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
        let before = scene.control_plane_names();
        scene.update_control_plane(1, external(None)).await;
        scene.pass(5 * MINUTE).await;
        let conditions = scene.control_plane().status.conditions;
        let (status, reason, message) = said(&conditions, "ExternalUpdate").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), ("False", "Refused"));
        assert!(message.contains("externalupdate.i refuses: not yet"), "{message}");
        updater.reply(Reply::accept_for(120));
        scene.pass(15 * MINUTE).await;
        let (status, _, message) = said(&scene.control_plane().status.conditions, "ExternalUpdate").unwrap();
        assert_eq!(status, "True", "{message}");
        let call = updater.calls().pop().unwrap();
        assert_eq!(
            (call.machines.len(), &call.request["owner"]["kind"]),
            (before.len(), &json!("KubeadmControlPlane"))
        );
        for name in &before {
            updater.update(&scene.world, name).await.unwrap();
            scene.pass(5 * MINUTE).await;
        }
        scene.until_control_plane_is(1, replicas).await;
        assert_eq!(scene.control_plane_names(), before);
        assert!(control_planes(&scene.world).iter().all(|machine| kubelet(machine) == "v1.33.1"));
        scene.pass(5 * MINUTE).await;
        let plane: KubeadmControlPlane = scene.control_plane();
        assert!(!plane.annotations().contains_key(EXTERNAL_UPDATE_ANNOTATION));
        assert_eq!(said(&plane.status.conditions, "ExternalUpdate"), None);
        // With a fallback a refusal replaces the machines.
        updater.reply(Reply::refuse("no more"));
        scene.update_control_plane(2, external(Some(json!({"maxSurge": 1})))).await;
        scene.until_control_plane_is(2, replicas).await;
        assert!(scene.control_plane_names().iter().all(|name| !before.contains(name)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_machine_that_is_deleted_meanwhile_comes_back_new() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_external_updater("i", Reply::accept());
    let mut scene = Scene::with_external_updaters(3, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    scene.update_control_plane(1, external(None)).await;
    until_asked(&mut scene, &updater, 1).await;
    scene.pass(MINUTE).await;
    scene.world.delete::<Machine>(&key(&before[0])).await.unwrap();
    let gone = before[0].clone();
    scene
        .until("another machine has come", LONG, move |world| {
            let machines = control_planes(world);
            machines.len() == 3 && machines.iter().all(|machine| machine.name_any() != gone)
        })
        .await;
    for name in &before[1..] {
        updater.update(&scene.world, name).await.unwrap();
    }
    scene.until_control_plane_is(1, 3).await;
    let kept = scene.control_plane_names().into_iter().filter(|name| before.contains(name)).count();
    assert_eq!(kept, 2);
}

/// Kills everything at the n-th write of an update that an external updater makes, and goes on.
async fn interrupted(
    scene: &mut Scene,
    updater: &SimulatedExternalUpdater,
    names: &[String],
    number: u64,
    fault: WriteFault,
    done: impl Fn(&World) -> bool,
) -> bool {
    let at = scene.world.faults().writes() + number;
    scene.world.faults().on_write(at, fault);
    let asked = updater.calls().len();
    let calls = updater.clone();
    let over = move |world: &World| world.has_crashed() || calls.calls().len() > asked;
    scene.until("it is killed or asked", LONG, over).await;
    let mut killed = scene.world.has_crashed();
    if killed {
        scene.world.restart().await;
        let calls = updater.clone();
        scene.until("it is asked", LONG, move |_| calls.calls().len() > asked).await;
    }
    for name in names {
        updater.update(&scene.world, name).await.unwrap();
    }
    scene.until("it is killed or done", LONG, |world| world.has_crashed() || done(world)).await;
    if scene.world.has_crashed() {
        killed = true;
        scene.world.restart().await;
    }
    scene.until(&format!("{fault:?} at write {number}: it is done"), LONG, done).await;
    killed
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_loses_neither_a_worker_nor_an_acceptance() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_external_updater("i", Reply::accept());
    let mut scene = Scene::with_external_updaters(1, WorkerGroup::new("w", 2), &extension, &[&updater]).await;
    let before = scene.worker_names();
    let mut round = 0;
    loop {
        round += 1;
        let (number, fault) = place(round);
        scene.update_workers_by(round, external(None)).await;
        let version = format!("v1.33.{round}");
        let done = |world: &World| {
            let machines = workers(world);
            machines.len() == 2
                && machines.iter().all(|machine| kubelet(machine) == version)
                && is_complete(world, "c-w")
                && !is_recorded(world)
        };
        let asked = updater.calls().len();
        let killed = interrupted(&mut scene, &updater, &before, number, fault, done).await;
        assert_eq!(scene.worker_names(), before, "{fault:?} at write {number}: the same machines");
        let calls = updater.calls().len() - asked;
        // An answer that was lost with the crash is asked for once more.
        assert!((1..=2).contains(&calls), "{fault:?} at write {number}: {calls} calls");
        if !killed {
            break;
        }
    }
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted), (0, 0));
    assert!(round > 20, "an update has more than {round} places between writes");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_loses_no_control_plane_machine() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_external_updater("i", Reply::accept());
    let mut scene = Scene::with_external_updaters(1, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    let mut round = 0;
    loop {
        round += 1;
        let (number, fault) = place(round);
        scene.update_control_plane(round, external(None)).await;
        let version = format!("v1.33.{round}");
        let done = |world: &World| {
            let plane: KubeadmControlPlane = world.get(&key("c-control-plane")).unwrap();
            has_reached(world, &version, 1) && !plane.annotations().contains_key(EXTERNAL_UPDATE_ANNOTATION)
        };
        let killed = interrupted(&mut scene, &updater, &before, number, fault, done).await;
        assert_eq!(scene.control_plane_names(), before, "{fault:?} at write {number}: the same machine");
        if !killed {
            break;
        }
    }
    assert!(round > 10, "an update has more than {round} places between writes");
}
