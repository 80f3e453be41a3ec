//! Everything that acts is killed between any two writes of an update in place, and started again.

use std::time::Duration;

use windlass_api::cluster::Machine;
use windlass_engine::machine_set::is_updating;
use windlass_runtime::WriteFault;
use windlass_simulate::{
    Amount, Covered, SimulatedExtension, SimulatedUpdater, WorkerGroup, World, is_complete,
};

use crate::support::{LONG, Scene, external, has_reached, kubelet, place, workers};

/// What became of updates that were interrupted at a write.
async fn interrupted(
    scene: &mut Scene,
    number: u64,
    fault: WriteFault,
    done: impl Fn(&World) -> bool,
) -> bool {
    let at = scene.world.faults().writes() + number;
    scene.world.faults().on_write(at, fault);
    let over = |world: &World| world.has_crashed() || done(world);
    scene.until("it is killed or done", LONG, over).await;
    let killed = scene.world.has_crashed();
    if killed {
        scene.world.restart().await;
    }
    scene.until(&format!("{fault:?} at write {number}: it is done"), LONG, done).await;
    killed
}

/// An updater says that it is done, and we are killed before that is written: it has to be asked once more, as the
/// contract has it. In no other case is it asked after it was done.
fn check_calls(updaters: &[&SimulatedUpdater], seen: &mut usize, fault: WriteFault, number: u64) {
    let repeated =
        |updater: &&SimulatedUpdater| updater.calls().iter().filter(|call| call.after_completion).count();
    let all: usize = updaters.iter().map(repeated).sum();
    let allowed = usize::from(fault == WriteFault::CrashBefore);
    assert!(all - *seen <= allowed, "{fault:?} at write {number}: {} calls too many", all - *seen);
    *seen = all;
}

#[tokio::test(start_paused = true)]
async fn a_worker_is_never_lost_and_never_updated_twice() {
    let extension = SimulatedExtension::new();
    let first = extension
        .add_updater("a")
        .covering([Covered::Machine("version".into())])
        .taking(Duration::from_secs(5));
    let second = extension
        .add_updater("b")
        .covering([Covered::Bootstrap("files".into())])
        .taking(Duration::from_secs(5));
    let group = WorkerGroup::new("w", 1).rolling_update(Amount::Number(0), Amount::Number(1));
    let mut scene = Scene::new(1, group, &extension, &[&first, &second]).await;
    let before = scene.worker_names();
    let (mut round, mut seen) = (0, 0);
    loop {
        round += 1;
        let (number, fault) = place(round);
        let content = format!("round {round}");
        scene
            .update_workers_with(round, |objects| {
                objects[0]["spec"]["template"]["spec"]["files"] =
                    serde_json::json!([{"path": "/etc/motd", "content": content}]);
            })
            .await;
        let version = format!("v1.33.{round}");
        let done = |world: &World| has_updated_its_worker(world, &version);
        let killed = interrupted(&mut scene, number, fault, done).await;
        assert_eq!(scene.worker_names(), before, "{fault:?} at write {number}: the same machine");
        let finished = usize::try_from(round).unwrap();
        assert_eq!(
            (first.finished(), second.finished()),
            (finished, finished),
            "{fault:?} at write {number}"
        );
        check_calls(&[&first, &second], &mut seen, fault, number);
        if !killed {
            break;
        }
    }
    let bounds = scene.population.bounds();
    assert_eq!((bounds.created, bounds.deleted), (0, 0));
    assert!(round > 40, "an update has more than {round} places between writes");
}

/// Whether the only worker runs a version, and nothing is left to do for it.
fn has_updated_its_worker(world: &World, version: &str) -> bool {
    let machines = workers(world);
    let at = |machine: &Machine| kubelet(machine) == version && !is_updating(machine);
    machines.len() == 1 && machines.iter().all(at) && is_complete(world, "c-w")
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_machine_is_never_lost_and_never_updated_twice() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(5));
    let mut scene = Scene::new(1, WorkerGroup::new("w", 0), &extension, &[&updater]).await;
    let before = scene.control_plane_names();
    let (mut round, mut seen) = (0, 0);
    loop {
        round += 1;
        let (number, fault) = place(round);
        scene.update_control_plane(round, external(None)).await;
        let version = format!("v1.33.{round}");
        let done = |world: &World| has_reached(world, &version, 1);
        let killed = interrupted(&mut scene, number, fault, done).await;
        assert_eq!(scene.control_plane_names(), before, "{fault:?} at write {number}: the same machine");
        assert_eq!(updater.finished(), usize::try_from(round).unwrap(), "{fault:?} at write {number}");
        check_calls(&[&updater], &mut seen, fault, number);
        if !killed {
            break;
        }
    }
    assert!(round > 20, "an update has more than {round} places between writes");
}

/// The Node is drained before the update and uncordoned after it, whenever we are killed; no extension is called while pods
/// may still run.
#[tokio::test(start_paused = true)]
async fn a_worker_that_is_drained_is_uncordoned_in_the_end() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("a").taking(Duration::from_secs(5));
    let updater = updater.requiring(&["Drain", "VolumeDetach"]);
    let group = WorkerGroup::new("w", 1).rolling_update(Amount::Number(0), Amount::Number(1));
    let mut scene = Scene::new(1, group, &extension, &[&updater]).await;
    let before = scene.worker_names();
    let (mut round, mut seen) = (0, 0);
    loop {
        round += 1;
        let (number, fault) = place(round);
        scene.update_workers(round).await;
        let version = format!("v1.33.{round}");
        let done = |world: &World| has_updated_its_worker(world, &version);
        let killed = interrupted(&mut scene, number, fault, done).await;
        assert_eq!(scene.worker_names(), before, "{fault:?} at write {number}: the same machine");
        assert_eq!(updater.finished(), usize::try_from(round).unwrap(), "{fault:?} at write {number}");
        assert_eq!(scene.cordoned().await, Vec::<String>::new(), "{fault:?} at write {number}");
        check_calls(&[&updater], &mut seen, fault, number);
        if !killed {
            break;
        }
    }
    assert!(round > 20, "an update has more than {round} places between writes");
}
