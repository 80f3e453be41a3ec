//! Workers, where all goes well.

use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;
use windlass_api::names::{IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION, UPDATE_IN_PROGRESS_ANNOTATION};
use windlass_engine::condition;
use windlass_engine::machine_set::is_updating;
use windlass_simulate::{
    Amount, Change, ChangeKind, Covered, Progress, RolloutOptions, SimulatedExtension, Strategy, WorkerGroup,
    World, is_complete, rollout_with,
};

use crate::support::{LONG, Scene, kubelet, said, workers};

#[tokio::test(start_paused = true)]
async fn workers_are_told_about_then_updated_in_place_and_run_the_new_version() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(90));
    let group = WorkerGroup::new("w", 3).rolling_update(Amount::Number(0), Amount::Number(1));
    let mut scene = Scene::new(1, group, &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.update_workers(1).await;
    let deployment = scene.deployment().name_any();
    let told = |world: &World| {
        let md: windlass_api::cluster::MachineDeployment =
            world.get(&windlass_simulate::key(&deployment)).unwrap();
        let told = condition::is_true(&md.status.conditions, "CanUpdateInPlace");
        let began = workers(world)
            .iter()
            .any(|machine| machine.annotations().contains_key(UPDATE_IN_PROGRESS_ANNOTATION));
        assert!(told || !began, "nothing begins before it is told");
        told
    };
    scene.until("it is told", LONG, told).await;
    let (_, reason, message) = scene.said("CanUpdateInPlace").unwrap();
    assert_eq!(reason, "Covered");
    assert!(
        message.ends_with("\n* MachineSet spec.template.spec.version: canupdatemachineset.updater"),
        "{message}"
    );
    scene.until_workers_are_done().await;
    let after = scene.workers();
    assert_eq!(after.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), before);
    for machine in &after {
        assert_eq!((machine.spec.version.as_str(), kubelet(machine).as_str()), ("v1.33.1", "v1.33.1"));
        assert!(condition::is_true(&machine.status.conditions, "UpToDate"));
    }
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.updated_in_place), (0, 0, 3));
    assert_eq!((bounds.max_machines, bounds.min_available), (3, 2));
    assert_eq!(updater.finished(), 3);
    assert!(updater.calls().iter().all(|call| !call.after_completion));
    // However often the MachineDeployment was looked at, the question was the same.
    assert_eq!(updater.asked(), 1);
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(scene.said("CanUpdateInPlace"), None, "nothing is to be updated any more");
}

#[tokio::test(start_paused = true)]
async fn where_no_worker_may_be_missing_one_is_added_and_the_others_are_updated() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(30));
    let group = WorkerGroup::new("w", 3).rolling_update(Amount::Number(3), Amount::Number(0));
    let mut scene = Scene::new(1, group, &extension, &[&updater]).await;
    scene.update_workers(1).await;
    scene.until_workers_are_done().await;
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.updated_in_place), (1, 1, 2));
    assert_eq!((bounds.max_machines, bounds.min_available), (4, 3));

    // The same machines once more, now with more of them at a time.
    scene.population.begin(scene.world.now());
    scene
        .update_workers_with(2, |objects| {
            objects[2]["spec"]["rollout"]["strategy"] =
                json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 2}});
        })
        .await;
    scene.until_workers_are_done().await;
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.updated_in_place), (0, 0, 3));
    assert_eq!((bounds.max_machines, bounds.min_available), (3, 1));
}

/// `windlass simulate rollout --replicas 6 --max-surge 3 --max-unavailable 1 --in-place --change-spec --at-step ...`
#[tokio::test(start_paused = true)]
async fn no_worker_is_added_whenever_the_template_changes_again() {
    for at_step in 1..=12 {
        let mut options = RolloutOptions::new(6);
        options.strategy =
            Strategy::RollingUpdate { max_surge: Amount::Number(3), max_unavailable: Amount::Number(1) };
        options.in_place = true;
        options.changes = vec![Change { at_step, what: ChangeKind::Spec }];
        let report = rollout_with(&options, &mut |_: Progress<'_>| {}).await.unwrap();
        let counts = (report.created, report.deleted, report.max_machines, report.min_available);
        assert_eq!(counts, (0, 0, 6, 5), "changed at step {at_step}");
    }
}

#[tokio::test(start_paused = true)]
async fn two_extensions_cover_a_change_together_and_are_called_one_after_the_other() {
    let extension = SimulatedExtension::new();
    let versions = extension
        .add_updater("a-versions")
        .covering([Covered::Machine("version".into())])
        .taking(Duration::from_secs(60));
    let files = extension
        .add_updater("b-files")
        .covering([Covered::Bootstrap("files".into())])
        .taking(Duration::from_secs(60));
    let bystander = extension.add_updater("c-nothing").covering([]);
    let group = WorkerGroup::new("w", 2).rolling_update(Amount::Number(0), Amount::Number(1));
    let mut scene = Scene::new(1, group, &extension, &[&versions, &files, &bystander]).await;
    let before = scene.worker_names();
    scene
        .update_workers_with(1, |objects| {
            objects[0]["spec"]["template"]["spec"]["files"] =
                json!([{"path": "/etc/motd", "content": "hello"}]);
        })
        .await;
    let deployment = scene.deployment().name_any();
    scene
        .until("it is told", LONG, |world| {
            let md: windlass_api::cluster::MachineDeployment =
                world.get(&windlass_simulate::key(&deployment)).unwrap();
            said(&md.status.conditions, "CanUpdateInPlace").is_some()
        })
        .await;
    let (_, _, message) = scene.said("CanUpdateInPlace").unwrap();
    for line in [
        "\n* KubeadmConfigTemplate spec.template.spec.files",
        ": canupdatemachineset.b-files",
        "\n* MachineSet spec.template.spec.version: canupdatemachineset.a-versions",
    ] {
        assert!(message.contains(line), "{message}");
    }
    assert!(!message.contains("hello"), "fields, never values: {message}");
    scene.until_workers_are_done().await;
    assert_eq!(scene.worker_names(), before);
    assert_eq!((versions.finished(), files.finished(), bystander.calls().len()), (2, 2, 0));
    for name in before {
        let of = |calls: Vec<windlass_simulate::UpdateCall>| -> Vec<tokio::time::Instant> {
            calls.iter().filter(|call| call.machine == name).map(|call| call.at).collect()
        };
        assert!(of(versions.calls()).last().unwrap() < of(files.calls()).first().unwrap());
        assert!(!versions.calls().iter().chain(&files.calls()).any(|call| call.after_completion));
    }
}

/// The most machines that are updated at a time, while the rollout goes on.
async fn most_at_a_time(scene: &mut Scene) -> usize {
    let deployment = scene.deployment().name_any();
    let mut most = 0;
    let done = |world: &World| {
        most = most.max(workers(world).iter().filter(|machine| is_updating(machine)).count());
        is_complete(world, &deployment)
    };
    scene.until("the rollout is complete", LONG, done).await;
    most
}

#[tokio::test(start_paused = true)]
async fn workers_that_stay_available_are_updated_without_one_more() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(60)).harmless();
    let group = WorkerGroup::new("w", 3).rolling_update(Amount::Number(1), Amount::Number(0));
    let mut scene = Scene::new(1, group, &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.update_workers(1).await;
    scene
        .until("an update began", LONG, |world| {
            workers(world).iter().any(|machine| {
                condition::is_true(&machine.status.conditions, "Updating")
                    && machine.annotations().contains_key(IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION)
            })
        })
        .await;
    let updating: Vec<_> = scene.workers().into_iter().filter(is_updating).collect();
    assert!(condition::is_true(&updating[0].status.conditions, "Available"), "{:?}", updating[0].status);
    let (_, _, message) = scene.said("CanUpdateInPlace").unwrap();
    assert!(message.ends_with("\n* canupdatemachineset.updater does not affect availability"), "{message}");
    assert_eq!(most_at_a_time(&mut scene).await, 1);
    assert_eq!(scene.worker_names(), before);
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.updated_in_place), (0, 0, 3));
    assert_eq!((bounds.max_machines, bounds.min_available), (3, 3));
    assert_eq!(updater.finished(), 3);
    let left = scene
        .workers()
        .iter()
        .filter(|machine| machine.annotations().contains_key(IN_PLACE_AFFECTS_AVAILABILITY_ANNOTATION))
        .count();
    assert_eq!(left, 0, "the annotation goes with the update");
}

#[tokio::test(start_paused = true)]
async fn one_extension_that_affects_availability_is_enough_and_external_ignores_what_they_say() {
    let extension = SimulatedExtension::new();
    let harmless = extension.add_updater("a").covering([Covered::Machine("version".into())]).harmless();
    let usual = extension.add_updater("b").covering([Covered::Bootstrap("files".into())]);
    let group = WorkerGroup::new("w", 2).rolling_update(Amount::Number(1), Amount::Number(0));
    let mut scene = Scene::new(1, group, &extension, &[&harmless, &usual]).await;
    let files = |objects: &mut [serde_json::Value]| {
        objects[0]["spec"]["template"]["spec"]["files"] = json!([{"path": "/etc/motd", "content": "hello"}]);
    };
    scene.update_workers_with(1, files).await;
    scene.until_workers_are_done().await;
    assert_eq!(scene.population.bounds().created, 1, "one is added first, as without the flag");

    scene.population.begin(scene.world.now());
    scene
        .update_workers_with(2, |objects| {
            files(objects);
            objects[2]["spec"]["rollout"]["strategy"] = crate::support::external(None);
        })
        .await;
    scene.until_workers_are_done().await;
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.updated_in_place, bounds.min_available), (0, 2, 1));
}

/// A drained worker is out of service, also where its extension says that it is not.
#[tokio::test(start_paused = true)]
async fn workers_are_drained_before_their_update_where_the_extension_asks_for_it() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(60)).harmless();
    let updater = updater.requiring(&["Drain", "VolumeDetach"]);
    let group = WorkerGroup::new("w", 2).rolling_update(Amount::Number(0), Amount::Number(1));
    let mut scene = Scene::new(1, group, &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.update_workers(1).await;
    scene.until("an update began", LONG, |_| !updater.calls().is_empty()).await;
    let first = updater.calls()[0].machine.clone();
    assert_eq!(scene.cordoned().await, [first]);
    scene.until_workers_are_done().await;
    assert_eq!(scene.worker_names(), before);
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.updated_in_place, bounds.min_available), (0, 2, 1));
    assert_eq!(scene.cordoned().await, Vec::<String>::new());
    for machine in scene.workers() {
        let left =
            machine.annotations().keys().filter(|key| key.contains("in-place-updates.internal")).count();
        assert_eq!(left, 0, "{:?}", machine.annotations());
    }
}

#[tokio::test(start_paused = true)]
async fn what_an_extension_patches_outside_of_the_specification_does_not_stop_the_update() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(5));
    let patch = json!([
        {"op": "add", "path": "/status/replicas", "value": 7},
        {"op": "replace", "path": "/spec/template/spec/version", "value": "v1.33.1"},
    ]);
    updater.answer_with(Some(json!({"status": "Success",
        "machineSetPatch": {"patchType": "JSONPatch", "patch": patch}})));
    let group = WorkerGroup::new("w", 2).rolling_update(Amount::Number(0), Amount::Number(1));
    let mut scene = Scene::new(1, group, &extension, &[&updater]).await;
    let before = scene.worker_names();
    scene.update_workers(1).await;
    scene.until("an update began", LONG, |_| !updater.calls().is_empty()).await;
    let (_, reason, message) = scene.said("CanUpdateInPlace").unwrap();
    assert_eq!(reason, "Covered");
    assert!(
        message
            .contains("MachineSet status.replicas: canupdatemachineset.updater changes it, which is dropped")
    );
    scene.until_workers_are_done().await;
    assert_eq!(scene.worker_names(), before);
}
