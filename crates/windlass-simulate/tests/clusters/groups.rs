//! Groups of machines whose size, or whose progress, is told elsewhere: by an autoscaler, by a provider, by Nodes.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeSet;

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachinePool};
use windlass_simulate::{TopologyManifests, World, WorldOptions, key};

use crate::support::{LONG, reach, rest, settled};

/// Writes the only entry of a list of worker groups.
async fn write_group(world: &World, list: &str, group: Value) {
    let patch = json!({"spec": {"topology": {"workers": {list: [group]}}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
}

fn machines(world: &World) -> BTreeSet<String> {
    world.list::<Machine>().iter().map(ResourceExt::name_any).collect()
}

/// An entry that an autoscaler sizes, within limits.
fn autoscaled(name: &str, min: u32, max: u32) -> Value {
    json!({"class": "default", "name": name, "metadata": {"annotations": {
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": min.to_string(),
        "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": max.to_string(),
    }}})
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_handed_to_an_autoscaler_keeps_its_size() {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1).machine_deployment("web", 5);
    let mut world = settled(WorldOptions::new(3), &manifests).await;
    let before = machines(&world);
    write_group(&world, "machineDeployments", autoscaled("web", 1, 10)).await;
    rest(&mut world).await;
    let group = world.list::<MachineDeployment>().remove(0);
    assert_eq!((group.spec.replicas, machines(&world)), (Some(5), before));

    // From now on the autoscaler says it, and the topology leaves it alone.
    let name = group.name_any();
    world.patch::<MachineDeployment>(&key(&name), json!({"spec": {"replicas": 7}})).await.unwrap();
    rest(&mut world).await;
    assert_eq!(world.get::<MachineDeployment>(&key(&name)).unwrap().spec.replicas, Some(7));
    assert_eq!(machines(&world).len(), 8);
    // Limits that exclude the size of the group move it to the nearest one.
    world
        .patch::<MachineDeployment>(
            &key(&name),
            json!({"spec": {"replicas": null}, "metadata":
        {"annotations": {"cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "6"}}}),
        )
        .await
        .unwrap();
    assert_eq!(world.get::<MachineDeployment>(&key(&name)).unwrap().spec.replicas, Some(6));
}

#[tokio::test(start_paused = true)]
async fn without_webhooks_it_waits_for_the_autoscaler_at_its_size() {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1).machine_deployment("web", 5);
    let options = WorldOptions { has_admission: false, ..WorldOptions::new(3) };
    let mut world = settled(options, &manifests).await;
    let before = machines(&world);
    write_group(&world, "machineDeployments", autoscaled("web", 1, 10)).await;
    rest(&mut world).await;
    let group = world.list::<MachineDeployment>().remove(0);
    assert_eq!((group.spec.replicas, machines(&world)), (None, before));
    let name = group.name_any();
    world.patch::<MachineDeployment>(&key(&name), json!({"spec": {"replicas": 3}})).await.unwrap();
    rest(&mut world).await;
    assert_eq!(machines(&world).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn without_webhooks_a_group_that_says_nothing_has_one_machine() {
    let mut objects = TopologyManifests::new("c1", "v1.31.0", 1).machine_deployment("web", 5).objects();
    for object in objects.iter_mut().filter(|object| object["kind"] == "Cluster") {
        let group = &mut object["spec"]["topology"]["workers"]["machineDeployments"][0];
        group.as_object_mut().unwrap().remove("replicas");
    }
    let options = WorldOptions { has_admission: false, ..WorldOptions::new(3) };
    let mut world = World::begin(options).await.unwrap();
    world.apply_objects(&objects).await.unwrap();
    reach(&mut world, "v1.31.0").await;
    assert_eq!(machines(&world).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_size_of_a_pool_that_its_provider_manages_is_never_written() {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1).machine_pool("pool", 2);
    let mut world = settled(WorldOptions::new(3), &manifests).await;
    let name = world.list::<MachinePool>()[0].name_any();
    let managed = json!({"class": "default", "name": "pool", "replicas": 2, "metadata":
        {"annotations": {"cluster.x-k8s.io/replicas-managed-by": "provider"}}});
    write_group(&world, "machinePools", managed).await;
    rest(&mut world).await;
    let replicas = |world: &World| {
        let pool = world.get::<MachinePool>(&key(&name)).unwrap();
        (pool.spec.replicas, pool.status.replicas)
    };
    assert_eq!(replicas(&world), (Some(2), Some(2)));
    world.patch::<MachinePool>(&key(&name), json!({"spec": {"replicas": 4}})).await.unwrap();
    rest(&mut world).await;
    assert_eq!(replicas(&world), (Some(4), Some(4)));
}

/// The CRDs, those of MachinePools as they were up to Cluster API 1.13.
fn without_versions_of_pools() -> Vec<Value> {
    let mut crds = windlass_api::crds::manifests();
    for crd in &mut crds {
        if crd["spec"]["names"]["kind"] != "MachinePool" {
            continue;
        }
        for version in crd["spec"]["versions"].as_array_mut().unwrap() {
            let status = &mut version["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
            if let Some(fields) = status.as_object_mut() {
                assert!(fields.remove("versions").is_some());
            }
        }
    }
    crds
}

#[tokio::test(start_paused = true)]
async fn pools_without_versions_in_their_status_are_upgraded_by_what_their_nodes_say() {
    let manifests = TopologyManifests::new("c1", "v1.31.0", 1)
        .machine_deployment("web", 1)
        .machine_pool("pool", 3)
        .versions(["v1.31.0", "v1.32.0", "v1.33.0"]);
    let options = WorldOptions { crds: without_versions_of_pools(), ..WorldOptions::new(3) };
    let mut world = World::begin(options).await.unwrap();
    world.apply_objects(&manifests.objects()).await.unwrap();
    let all_at = |version: &'static str| {
        move |world: &World| {
            let cluster = world.get::<Cluster>(&key("c1")).unwrap();
            let told = cluster.status.conditions.iter().find(|found| found.type_ == "TopologyReconciled");
            let pool = world.list::<MachinePool>().into_iter().next();
            told.is_some_and(|told| told.status == "True")
                && pool.is_some_and(|pool| {
                    pool.spec.template.spec.version == version && pool.status.up_to_date_replicas == Some(3)
                })
        }
    };
    world.run_until("it is created", LONG, all_at("v1.31.0")).await.unwrap();
    assert_eq!(world.list::<MachinePool>()[0].status.versions, vec![]);
    world.patch::<Cluster>(&key("c1"), json!({"spec": {"topology": {"version": "v1.33.0"}}})).await.unwrap();
    world.run_until("it is upgraded", LONG, all_at("v1.33.0")).await.unwrap();
}
