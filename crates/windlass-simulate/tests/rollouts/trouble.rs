//! Providers that fail, machines that are ill.

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_api::names::REMEDIATE_MACHINE_ANNOTATION;
use windlass_inmemory::knobs::{FAIL_PROVISIONING_ANNOTATION, NEVER_READY_ANNOTATION};
use windlass_simulate::{Limits, WorkerGroup, World, WorldError, key};

use crate::support::{LONG, Workers};

/// A health check of all workers of the cluster.
fn health_check(startup_seconds: u32) -> serde_json::Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "check", "namespace": "default"},
        "spec": {"clusterName": "c", "selector": {"matchLabels": {"group": "w"}},
            "checks": {"nodeStartupTimeoutSeconds": startup_seconds,
                "unhealthyNodeConditions": [{"type": "Ready", "status": "False", "timeoutSeconds": 60}]}}})
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_shall_be_remediated_is_replaced() {
    let mut workers = Workers::new(1, WorkerGroup::new("w", 3)).await;
    workers.world.apply_object(&health_check(600)).await.unwrap();
    workers.world.run_until_idle(LONG).await.ok();
    let ill = workers.machines()[0].name_any();
    let annotation = json!({"metadata": {"annotations": {REMEDIATE_MACHINE_ANNOTATION: ""}}});
    workers.world.patch::<Machine>(&key(&ill), annotation).await.unwrap();
    let (gone, population) = (ill.clone(), workers.population.clone());
    let replaced = move |world: &World| {
        world.get::<Machine>(&key(&gone)).is_none() && population.counts().available == 3
    };
    workers.world.run_until("it is replaced", LONG, replaced).await.unwrap();
    assert_eq!(workers.machines().len(), 3);
    assert_eq!(workers.population.bounds().created, 1);
}

#[tokio::test(start_paused = true)]
async fn a_rollout_to_machines_that_never_start_stops_and_says_so() {
    let mut workers = Workers::new(2, WorkerGroup::new("w", 3)).await;
    workers.population.limit(Some(Limits { max_machines: 4, min_available: 3 }));
    workers
        .change(|group| group.generation(2).machine_annotation(FAIL_PROVISIONING_ANNOTATION, "no capacity"))
        .await;
    let hour = std::time::Duration::from_secs(600);
    let name = workers.deployment_name();
    let complete = move |world: &World| windlass_simulate::is_complete(world, &name);
    let error = workers.world.run_until("the rollout is complete", hour, complete).await.unwrap_err();
    let WorldError::NotReached(not_reached) = error else { panic!("{error}") };
    assert!(not_reached.to_string().contains("no capacity"), "{not_reached}");
    assert_eq!(workers.population.counts().available, 3, "nobody was taken away");
    let deployment: MachineDeployment = workers.deployment();
    assert_eq!(deployment.status.up_to_date_replicas.unwrap_or(0), 1);

    workers.change(|group| group.generation(3).clean()).await;
    workers.until_complete().await.unwrap();
    assert_eq!(workers.machines().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_never_ready_are_replaced_by_a_health_check() {
    let mut workers = Workers::new(3, WorkerGroup::new("w", 2)).await;
    workers.world.apply_object(&health_check(600)).await.unwrap();
    let ill = workers.machines()[0].clone();
    let knob = json!({"metadata": {"annotations": {NEVER_READY_ANNOTATION: "disk is full"}}});
    let infrastructure = &ill.spec.infrastructure_ref.name;
    let patched =
        workers.world.patch::<windlass_api::infrastructure::DevMachine>(&key(infrastructure), knob).await;
    patched.unwrap();
    let (gone, population) = (ill.name_any(), workers.population.clone());
    let replaced = move |world: &World| {
        world.get::<Machine>(&key(&gone)).is_none() && population.counts().available == 2
    };
    workers.world.run_until("the ill machine is replaced", LONG, replaced).await.unwrap();
}
