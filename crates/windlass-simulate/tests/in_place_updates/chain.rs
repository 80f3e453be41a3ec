//! A chained upgrade in which no machine is created or deleted.

use std::time::Duration;

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_simulate::{SimulatedExtension, Startup, TopologyManifests, World, WorldOptions, key};

use crate::support::{LONG, external, kubelet};

fn runs(world: &World, version: &str) -> bool {
    let machines: Vec<Machine> = world.list();
    let at = |machine: &Machine| {
        kubelet(machine) == version && !windlass_engine::machine_set::is_updating(machine)
    };
    machines.len() == 3 && machines.iter().all(at)
}

#[tokio::test(start_paused = true)]
async fn four_minors_are_climbed_in_place() {
    let extension = SimulatedExtension::new();
    let updater = extension.add_updater("updater").taking(Duration::from_secs(60));
    let manifests = TopologyManifests::new("c", "v1.29.0", 1)
        .startup(Startup { vm: 1.0, node: 1.0, jitter: 0.0 })
        .machine_deployment("web", 2)
        .versions((29..=33).map(|minor| format!("v1.{minor}.0")));
    let mut objects = manifests.objects();
    for object in &mut objects {
        match object["kind"].as_str().unwrap() {
            "KubeadmControlPlaneTemplate" => {
                object["spec"]["template"]["spec"]["rollout"] = json!({"strategy": external(None)});
            }
            "ClusterClass" => {
                object["spec"]["workers"]["machineDeployments"][0]["rollout"] =
                    json!({"strategy": external(None)});
            }
            _ => {}
        }
    }
    let mut world = World::begin(WorldOptions::extended_by(1, &extension)).await.unwrap();
    world.apply_objects(&[updater.config()]).await.unwrap();
    world.apply_objects(&objects).await.unwrap();
    world.run_until("the cluster is up", LONG, |world| runs(world, "v1.29.0")).await.unwrap();
    let names = |world: &World| world.list::<Machine>().iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let before = names(&world);
    let deployments: Vec<MachineDeployment> = world.list();
    assert_eq!(serde_json::to_value(&deployments[0].spec.rollout.strategy.type_).unwrap(), "External");

    let target = json!({"spec": {"topology": {"version": "v1.33.0"}}});
    world.patch::<Cluster>(&key("c"), target).await.unwrap();
    let same = before.clone();
    world
        .run_until("everything runs v1.33.0", LONG, |world| {
            assert_eq!(names(world), same, "no machine is created or deleted");
            runs(world, "v1.33.0")
        })
        .await
        .unwrap();
    assert_eq!(names(&world), before);
    let planes: Vec<KubeadmControlPlane> = world.list();
    assert_eq!(planes[0].spec.version, "v1.33.0");
    // The control plane in four steps, each worker in two: workers skip what they may.
    assert_eq!(updater.finished(), 4 + 2 * 2);
    assert!(updater.calls().iter().all(|call| !call.after_completion));
}
