//! Everything that acts is killed at every write of a rollout, and started again.

use std::time::Duration;

use kube::ResourceExt;
use windlass_api::cluster::Machine;
use windlass_api::infrastructure::DevMachine;
use windlass_runtime::WriteFault;
use windlass_simulate::{Limits, WorkerGroup, World, is_complete, key};

use crate::support::{LONG, Workers};

/// Rolls one machine out and kills everything at a write. Whether it came to that: the rollout may be over before.
async fn kill_at(workers: &mut Workers, number: u64, fault: WriteFault) -> bool {
    workers.population.begin(workers.world.now());
    let at = workers.world.faults().writes() + number;
    workers.world.faults().on_write(at, fault);
    workers.change_spec().await;
    let deployment = workers.deployment_name();
    let over = |world: &World| world.has_crashed() || is_complete(world, &deployment);
    workers.world.run_until("it is killed or done", LONG, over).await.unwrap();
    let killed = workers.world.has_crashed();
    if killed {
        assert_eq!(workers.world.faults().writes(), at, "nothing is written after that");
        workers.world.restart().await;
    }
    workers.until_complete().await.unwrap_or_else(|error| panic!("{fault:?} at write {number}: {error}"));
    let used: Vec<_> = workers.shape().into_iter().filter(|(_, _, owned)| *owned > 0).collect();
    assert_eq!(used, [(workers.template_name(), Some(1), 1)], "{fault:?} at write {number}");
    let bounds = workers.population.bounds();
    assert_eq!((bounds.created, bounds.deleted), (1, 1), "{fault:?} at write {number}: one machine, once");
    killed
}

#[tokio::test(start_paused = true)]
async fn a_rollout_killed_at_any_write_ends_the_same() {
    let mut workers = Workers::new(1, WorkerGroup::new("w", 1)).await;
    workers.population.limit(Some(Limits { max_machines: 2, min_available: 1 }));
    let mut number = 1;
    // Before a write and after it: what comes between two writes, a call or a decision, is lost or not yet begun.
    while kill_at(&mut workers, number, WriteFault::CrashBefore).await
        && kill_at(&mut workers, number, WriteFault::CrashAfter).await
    {
        number += 1;
    }
    assert!(number > 30, "a rollout has more than {number} writes");
}

#[tokio::test(start_paused = true)]
async fn answers_that_are_lost_make_no_machine_twice() {
    let mut workers = Workers::new(2, WorkerGroup::new("w", 2)).await;
    workers.population.limit(Some(Limits { max_machines: 3, min_available: 2 }));
    workers.world.faults().delay_watches(Duration::ZERO..=Duration::from_millis(300), 5);
    let now = workers.world.faults().writes();
    for number in (now..now + 400).step_by(5) {
        workers.world.faults().on_write(number, WriteFault::FailAfter);
    }
    workers.change_spec().await;
    workers.until_complete().await.unwrap();
    let bounds = workers.population.bounds();
    assert_eq!((bounds.created, bounds.deleted), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn workload_clusters_are_built_anew_when_the_provider_dies_too() {
    let mut workers = Workers::new(3, WorkerGroup::new("w", 2)).await;
    let before: Vec<_> = workers.machines().into_iter().map(|machine| machine.metadata.name).collect();
    workers.world.forget_workloads();
    workers.world.restart().await;
    // Long enough that an illness would show.
    workers.world.run_until("never", Duration::from_secs(120), |_| false).await.unwrap_err();
    workers.until_complete().await.unwrap();
    let after: Vec<_> = workers.machines().into_iter().map(|machine| machine.metadata.name).collect();
    assert_eq!(after, before, "the same machines");
}

#[tokio::test(start_paused = true)]
async fn workload_clusters_do_not_await_machines_that_were_being_deleted() {
    let mut workers = Workers::new(4, WorkerGroup::new("w", 2)).await;
    // A deletion is seen late: who comes after it still finds the machine in the cache.
    workers.world.faults().delay_watches(Duration::from_millis(100)..=Duration::from_millis(500), 6);
    for seed in 0..12 {
        workers.world.kill().await;
        workers.world.forget_workloads();
        let gone = workers.machines()[0].clone();
        workers.world.delete::<Machine>(&key(&gone.name_any())).await.unwrap();
        workers.world.delete::<DevMachine>(&key(&gone.spec.infrastructure_ref.name)).await.unwrap();
        workers.world.restart_with(seed).await;
        let name = key(&gone.name_any());
        // The seed that the world began with draws the same names again: the next machine may be called like the last.
        let replaced =
            |world: &World| world.get::<Machine>(&name).is_none_or(|found| found.uid() != gone.uid());
        workers.world.run_until("the machine is gone", LONG, replaced).await.unwrap();
        let complete = workers.until_complete().await;
        assert!(complete.is_ok(), "seed {seed}: {complete:?}");
    }
}
