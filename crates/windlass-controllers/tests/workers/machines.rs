//! Single machines: adopted, left alone, marked, remediated, handed over, named.

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Machine, MachineDeployment, MachineSet};

use crate::world::{World, said, settle};

fn machine(name: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "spec": {"clusterName": "c1", "version": "v1.31.0",
        "bootstrap": {"dataSecretName": "s"},
        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": name}}})
}

#[tokio::test(start_paused = true)]
async fn orphans_are_adopted_and_foreign_machines_left_alone() {
    let world = World::new().await;
    world.create::<Machine>(machine("orphan", json!({"machine-template-hash": "ms"}))).await;
    let mut foreign = machine("foreign", json!({"machine-template-hash": "ms"}));
    // Its owner must exist, or it would be collected as garbage.
    let api: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::default_namespaced(world.client.clone());
    let owner = serde_json::from_value(json!({"metadata": {"name": "owner"}})).unwrap();
    let owner = api.create(&Default::default(), &owner).await.unwrap();
    foreign["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner",
        "uid": owner.uid(), "controller": true}]);
    let foreign = world.create::<Machine>(foreign).await;
    world.set("ms", json!({"spec": {"replicas": 2}})).await;
    let running = world.start(1);
    settle(&running).await;
    let machines: Vec<Machine> = world.list().await;
    assert_eq!(machines.len(), 3, "the orphan, one more, and the foreign one");
    let set = world.list::<MachineSet>().await.remove(0);
    let owner = |name: &str| {
        let machine = machines.iter().find(|machine| machine.name_any() == name).unwrap();
        machine.metadata.owner_references.as_ref().unwrap()[0].uid.clone()
    };
    assert_eq!(owner("orphan"), set.uid().unwrap());
    assert_ne!(owner("foreign"), set.uid().unwrap());
    assert_eq!(set.status.replicas, Some(2));
    assert_eq!(
        world.events("ForeignMachine").await,
        ["Machine foreign matches the selector but belongs to ConfigMap owner, it is left alone"]
    );
    // Also when the MachineSet shrinks to nothing, and when it goes.
    world.patch::<MachineSet>("ms", json!({"spec": {"replicas": 0}})).await;
    settle(&running).await;
    world.delete::<MachineSet>("ms").await;
    settle(&running).await;
    let left: Vec<Machine> = world.list().await;
    assert_eq!(left.len(), 1);
    assert_eq!((left[0].name_any(), left[0].spec.clone()), ("foreign".to_owned(), foreign.spec));
    assert_eq!(left[0].metadata.labels, foreign.metadata.labels);
}

#[tokio::test(start_paused = true)]
async fn marked_machines_go_first() {
    let world = World::new().await;
    world.deploy(json!({"spec": {"deletion": {"order": "Newest"}}})).await;
    let running = world.start(1);
    settle(&running).await;
    let marked = world.list::<Machine>().await[1].name_any();
    world
        .patch::<Machine>(
            &marked,
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": ""}}}),
        )
        .await;
    world.patch::<MachineDeployment>("md", json!({"spec": {"replicas": 2}})).await;
    settle(&running).await;
    let left: Vec<String> = world.list::<Machine>().await.iter().map(ResourceExt::name_any).collect();
    assert!(left.len() == 2 && !left.contains(&marked), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn machines_are_named_as_the_user_wants() {
    let world = World::new().await;
    world
        .deploy(json!({"spec": {"machineNaming": {"template": "{{ .cluster.name }}-worker-{{ .random }}"}}}))
        .await;
    let running = world.start(1);
    settle(&running).await;
    let machines: Vec<Machine> = world.list().await;
    assert_eq!(machines.len(), 3);
    assert!(machines.iter().all(|machine| machine.name_any().starts_with("c1-worker-")));
}

#[tokio::test(start_paused = true)]
async fn unhealthy_machines_are_replaced_a_few_at_a_time() {
    let world = World::new().await;
    world.deploy(json!({"spec": {"remediation": {"maxInFlight": 1}}})).await;
    let running = world.start(1);
    settle(&running).await;
    let hold = json!({"metadata": {"finalizers": ["test/hold"]}});
    let sick: Vec<String> = world.list::<Machine>().await.iter().take(2).map(ResourceExt::name_any).collect();
    for name in &sick {
        world.patch::<Machine>(name, hold.clone()).await;
        let machine: Machine =
            world.list::<Machine>().await.into_iter().find(|m| m.name_any() == *name).unwrap();
        let mut conditions = serde_json::to_value(&machine.status.conditions).unwrap();
        for type_ in ["HealthCheckSucceeded", "OwnerRemediated"] {
            conditions
                .as_array_mut()
                .unwrap()
                .push(json!({"type": type_, "status": "False", "reason": "UnhealthyNode",
                "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}));
        }
        world.patch_status::<Machine>(name, json!({"conditions": conditions})).await;
    }
    settle(&running).await;
    let find = async |name: &str| {
        world.list::<Machine>().await.into_iter().find(|machine| machine.name_any() == name)
    };
    let mut going = Vec::new();
    for name in &sick {
        going.push(find(name).await.unwrap().metadata.deletion_timestamp.is_some());
    }
    assert_eq!(going.iter().filter(|going| **going).count(), 1, "one at a time");
    let (gone, waits) = if going[0] { (&sick[0], &sick[1]) } else { (&sick[1], &sick[0]) };
    let reason = |machine: Option<Machine>| said(&machine.unwrap().status.conditions, "OwnerRemediated").1;
    assert_eq!(reason(find(gone).await), "MachineDeleting");
    assert_eq!(reason(find(waits).await), "RemediationDeferred");
    assert_eq!(said(&world.list::<MachineSet>().await[0].status.conditions, "Remediating").0, "True");
    for name in [gone, waits] {
        world.patch::<Machine>(name, json!({"metadata": {"finalizers": null}})).await;
        settle(&running).await;
    }
    let left: Vec<String> = world.list::<Machine>().await.iter().map(ResourceExt::name_any).collect();
    assert_eq!(left.len(), 3);
    assert!(!sick.iter().any(|name| left.contains(name)), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_handed_over_in_one_write() {
    let world = World::new().await;
    world.set("from", json!({})).await;
    let running = world.start(1);
    settle(&running).await;
    let prefix = "in-place-updates.internal.cluster.x-k8s.io";
    world
        .set(
            "to",
            json!({"metadata": {"annotations": {format!("{prefix}/receive-machines-from-machinesets"): "other"}},
                "spec": {"replicas": 0, "template": {"spec": {"version": "v1.32.0"}}}}),
        )
        .await;
    let give = json!({"metadata": {"annotations": {format!("{prefix}/move-machines-to-machineset"): "to"}},
        "spec": {"replicas": 1}});
    world.patch::<MachineSet>("from", give).await;
    running.manager().idle().await;
    // No machine is deleted while the other MachineSet does not agree.
    assert_eq!(world.list::<Machine>().await.len(), 2);
    let set = world.list::<MachineSet>().await.into_iter().find(|set| set.name_any() == "from").unwrap();
    let (_, _, message) = said(&set.status.conditions, "ScalingDown");
    assert!(message.contains("MachineSet to does not accept Machines of from"), "{message}");
    let agree =
        json!({"metadata": {"annotations": {format!("{prefix}/receive-machines-from-machinesets"): "from"}}});
    world.patch::<MachineSet>("to", agree).await;
    settle(&running).await;
    let machines: Vec<Machine> = world.list().await;
    assert_eq!(machines.len(), 2, "no machine was created or deleted");
    let to = world.list::<MachineSet>().await.into_iter().find(|set| set.name_any() == "to").unwrap();
    let moved: Vec<&Machine> = machines
        .iter()
        .filter(|machine| machine.metadata.owner_references.as_ref().unwrap()[0].uid == to.uid().unwrap())
        .collect();
    assert_eq!(moved.len(), 1);
    assert_eq!(moved[0].labels()["machine-template-hash"], "to");
    for mark in ["update-in-progress", "pending-acknowledge-move"] {
        assert!(moved[0].annotations().contains_key(&format!("{prefix}/{mark}")), "{mark}");
    }
    assert_eq!(moved[0].spec.version, "v1.31.0", "its update has not begun");
    assert_eq!(to.status.replicas, Some(1), "it waits to be counted, and is not too many");
    assert_eq!(to.status.available_replicas, Some(0));
}
