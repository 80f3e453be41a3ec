//! Created, scaled, rolled out, deleted.

use kube::ResourceExt;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_api::infrastructure::DevMachine;
use windlass_simulate::{Limits, WorkerGroup, is_complete, key};

use crate::support::{LONG, Workers};

#[tokio::test(start_paused = true)]
async fn workers_are_made_scaled_rolled_out_and_deleted() {
    let mut workers = Workers::new(1, WorkerGroup::new("w", 3)).await;
    assert_eq!(workers.shape(), [("c-w-1".to_owned(), Some(3), 3)]);
    for machine in workers.machines() {
        assert!(machine.status.node_ref.is_some() && !machine.spec.provider_id.is_empty(), "{machine:?}");
    }

    workers.change(|group| group.replicas(5)).await;
    workers.until_complete().await.unwrap();
    assert_eq!(workers.machines().len(), 5);
    let before: Vec<String> = workers.machines().iter().map(|machine| machine.name_any()).collect();
    workers.change(|group| group.replicas(2)).await;
    workers.until_complete().await.unwrap();
    let kept: Vec<String> = workers.machines().iter().map(|machine| machine.name_any()).collect();
    assert_eq!(kept.len(), 2);
    assert!(kept.iter().all(|name| before.contains(name)), "machines go, none come");

    workers.population.begin(workers.world.now());
    workers.population.limit(Some(Limits { max_machines: 3, min_available: 2 }));
    workers.change_spec().await;
    workers.until_complete().await.unwrap();
    let bounds = workers.population.bounds();
    assert_eq!((bounds.created, bounds.deleted, bounds.max_machines, bounds.min_available), (2, 2, 3, 2));
    assert!(workers.machines().iter().all(|machine| !kept.contains(&machine.name_any())));
    let templates = |workers: &Workers| {
        workers.shape().into_iter().filter(|(_, _, owned)| *owned > 0).collect::<Vec<_>>()
    };
    assert_eq!(templates(&workers), [("c-w-2".to_owned(), Some(2), 2)]);

    workers.population.limit(None);
    let world = workers.delete().await;
    assert!(world.list::<Cluster>().is_empty() && world.list::<MachineDeployment>().is_empty());
    assert!(world.list::<MachineSet>().is_empty() && world.list::<Machine>().is_empty());
    assert!(world.list::<DevMachine>().is_empty(), "the infrastructure goes too");
}

#[tokio::test(start_paused = true)]
async fn a_change_in_the_middle_of_a_rollout_wins() {
    let mut workers = Workers::new(2, WorkerGroup::new("w", 3)).await;
    workers.population.limit(Some(Limits { max_machines: 4, min_available: 3 }));
    workers.change_spec().await;
    let population = workers.population.clone();
    workers.world.run_until("two are new", LONG, |_| population.bounds().created >= 2).await.unwrap();
    workers.change_spec().await;
    workers.until_complete().await.unwrap();
    let used: Vec<_> = workers.shape().into_iter().filter(|(_, _, owned)| *owned > 0).collect();
    assert_eq!(used, [("c-w-3".to_owned(), Some(3), 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_change_of_nothing_but_the_size_replaces_nobody() {
    let mut workers = Workers::new(3, WorkerGroup::new("w", 2)).await;
    workers.change(|group| group.replicas(0)).await;
    workers.until_complete().await.unwrap();
    workers.change(|group| group.replicas(1)).await;
    workers.until_complete().await.unwrap();
    assert_eq!(workers.shape(), [("c-w-1".to_owned(), Some(1), 1)]);
}

#[tokio::test(start_paused = true)]
async fn machines_are_replaced_on_delete_only() {
    let mut workers = Workers::new(4, WorkerGroup::new("w", 3).on_delete()).await;
    let before: Vec<String> = workers.machines().iter().map(|machine| machine.name_any()).collect();
    workers.population.limit(Some(Limits { max_machines: 3, min_available: 2 }));
    workers.change_spec().await;
    let hours = std::time::Duration::from_secs(600);
    workers.world.run_until("never", hours, |_| false).await.unwrap_err();
    let names =
        |workers: &Workers| workers.machines().iter().map(|machine| machine.name_any()).collect::<Vec<_>>();
    assert_eq!(names(&workers), before, "nothing happens by itself");
    assert!(!is_complete(&workers.world, &workers.deployment_name()));

    for machine in &before {
        workers.world.delete::<Machine>(&key(machine)).await.unwrap();
        let (name, population) = (workers.deployment_name(), workers.population.clone());
        let replaced = move |world: &windlass_simulate::World| {
            population.counts().deleting == 0 && windlass_simulate::is_settled(world, &name)
        };
        workers.world.run_until("it is replaced", LONG, replaced).await.unwrap();
    }
    workers.until_complete().await.unwrap();
    assert!(names(&workers).iter().all(|name| !before.contains(name)));
}
