//! Groups of machines: their size, what belongs to them, what holds them.

use kube::ResourceExt;
use kube::api::ListParams;
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};

use crate::world::{World, said, settle};

#[tokio::test(start_paused = true)]
async fn a_deployment_has_the_machines_that_it_asks_for() {
    let world = World::new().await;
    world.deploy(json!({})).await;
    let running = world.start(1);
    settle(&running).await;
    let machines: Vec<Machine> = world.list().await;
    assert_eq!(machines.len(), 3);
    let set = &world.list::<MachineSet>().await[0];
    for machine in &machines {
        let name = machine.name_any();
        assert!(name.starts_with(&set.name_any()), "{name}");
        let labels = machine.labels();
        assert_eq!(labels["cluster.x-k8s.io/set-name"], set.name_any());
        assert_eq!(labels["cluster.x-k8s.io/cluster-name"], "c1");
        assert_eq!(labels["cluster.x-k8s.io/deployment-name"], "md");
        assert_eq!(machine.spec.infrastructure_ref.to_string(), format!("DevMachine {name}"));
        let config = machine.spec.bootstrap.config_ref.as_ref().unwrap();
        assert_eq!(config.to_string(), format!("KubeadmConfig {name}"));
        for (group, kind, template) in
            [("infrastructure", "DevMachine", "i1"), ("bootstrap", "KubeadmConfig", "b1")]
        {
            let part = world.part(group, kind).get(&name).await.unwrap();
            assert_eq!(part.annotations()["cluster.x-k8s.io/cloned-from-name"], template);
            assert_eq!(part.labels()["pool"], "a", "labels of the Machine");
            assert_eq!(part.labels().contains_key("rack"), kind == "DevMachine", "labels of the template");
        }
    }
    let md = world.md().await;
    let status = &md.status;
    assert_eq!(
        (status.replicas, status.available_replicas, status.up_to_date_replicas),
        (Some(3), Some(3), Some(3))
    );
    assert_eq!(status.phase.as_ref().unwrap().to_string(), "Running");
    assert_eq!(status.selector, "pool=a");
    assert_eq!(status.observed_generation, md.metadata.generation);
    assert_eq!(said(&status.conditions, "Available").0, "True");
    assert_eq!(said(&status.conditions, "RollingOut").1, "NotRollingOut");
    assert_eq!(said(&status.conditions, "Paused").0, "False");
    assert_eq!(said(&set.status.conditions, "MachinesReady").0, "True");
    assert_eq!(md.annotations()["machinedeployment.clusters.x-k8s.io/revision"], "1");

    for replicas in [5, 1, 0, 2] {
        world.patch::<MachineDeployment>("md", json!({"spec": {"replicas": replicas}})).await;
        settle(&running).await;
        assert_eq!(world.list::<Machine>().await.len(), replicas);
        assert_eq!(world.md().await.status.replicas, Some(i32::try_from(replicas).unwrap()));
        // What machines were made of goes with them.
        let parts = world.part("infrastructure", "DevMachine").list(&ListParams::default()).await.unwrap();
        assert_eq!(parts.items.len(), replicas);
    }
    assert_eq!(world.seen(|seen| seen.names.len()), 3 + 2 + 2, "no machine was made twice");
    assert_eq!(world.list::<MachineSet>().await.len(), 1);
    // Once all is as it should be, nothing is written any more.
    let writes = running.manager().writes();
    world.patch::<MachineDeployment>("md", json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    settle(&running).await;
    assert_eq!(running.manager().writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn a_missing_template_is_named_until_it_is_there() {
    let world = World::new().await;
    world.deploy(json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "later"}}}}})).await;
    let running = world.start(1);
    settle(&running).await;
    assert!(world.list::<MachineSet>().await.is_empty());
    let (status, _, message) = said(&world.md().await.status.conditions, "ScalingUp");
    assert_eq!(status, "True");
    assert_eq!(
        message,
        "Scaling up from 0 to 3 replicas is blocked because:\n* DevMachineTemplate later does not exist"
    );
    world.infrastructure("later").await;
    settle(&running).await;
    assert_eq!(world.list::<Machine>().await.len(), 3);
    assert_eq!(said(&world.md().await.status.conditions, "ScalingUp").0, "False");

    // A MachineSet whose template went away says so too, and goes on when it is back.
    world.part("infrastructure", "DevMachineTemplate").delete("later", &Default::default()).await.unwrap();
    world.patch::<MachineDeployment>("md", json!({"spec": {"replicas": 4}})).await;
    settle(&running).await;
    let set = world.list::<MachineSet>().await.remove(0);
    let (status, _, message) = said(&set.status.conditions, "ScalingUp");
    assert_eq!(status, "True");
    assert!(message.ends_with("is blocked because:\n* DevMachineTemplate later does not exist"), "{message}");
    assert_eq!(world.list::<Machine>().await.len(), 3);
    world.infrastructure("later").await;
    settle(&running).await;
    assert_eq!(world.list::<Machine>().await.len(), 4);
}

#[tokio::test(start_paused = true)]
async fn paused_groups_are_left_alone() {
    let world = World::new().await;
    world.deploy(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}})).await;
    let running = world.start(1);
    settle(&running).await;
    assert!(world.list::<MachineSet>().await.is_empty());
    let md = world.md().await;
    assert_eq!(said(&md.status.conditions, "Paused").0, "True");
    assert!(md.finalizers().is_empty(), "not even a finalizer is added");
    world
        .patch::<MachineDeployment>(
            "md",
            json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}}),
        )
        .await;
    settle(&running).await;
    assert_eq!(world.list::<Machine>().await.len(), 3);
    assert_eq!(said(&world.md().await.status.conditions, "Paused").0, "False");

    world.patch::<Cluster>("c1", json!({"spec": {"paused": true}})).await;
    settle(&running).await;
    world.patch::<MachineDeployment>("md", json!({"spec": {"replicas": 1}})).await;
    settle(&running).await;
    assert_eq!(world.list::<Machine>().await.len(), 3);
    assert_eq!(said(&world.list::<MachineSet>().await[0].status.conditions, "Paused").0, "True");
    world.patch::<Cluster>("c1", json!({"spec": {"paused": false}})).await;
    settle(&running).await;
    assert_eq!(world.list::<Machine>().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_deployment_goes_with_all_its_machines() {
    let world = World::new().await;
    world.deploy(json!({})).await;
    let running = world.start(1);
    settle(&running).await;
    world.delete::<MachineDeployment>("md").await;
    settle(&running).await;
    assert!(world.list::<MachineDeployment>().await.is_empty());
    assert!(world.list::<MachineSet>().await.is_empty());
    assert!(world.list::<Machine>().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn labels_and_timeouts_reach_machines_without_a_rollout() {
    let world = World::new().await;
    world.deploy(json!({"spec": {"template": {"metadata": {"labels": {"tier": "x"}, "annotations": {"note": "1"}}}}})).await;
    let running = world.start(1);
    settle(&running).await;
    let before: Vec<String> = world.list::<Machine>().await.iter().map(ResourceExt::name_any).collect();
    world
        .patch::<MachineDeployment>(
            "md",
            json!({"spec": {"template": {
                "metadata": {"labels": {"tier": null, "zone": "y"}, "annotations": {"note": "2"}},
                "spec": {"minReadySeconds": 7, "deletion": {"nodeDrainTimeoutSeconds": 30}},
            }}}),
        )
        .await;
    settle(&running).await;
    let machines: Vec<Machine> = world.list().await;
    assert_eq!(machines.iter().map(ResourceExt::name_any).collect::<Vec<_>>(), before);
    assert_eq!(world.list::<MachineSet>().await.len(), 1);
    for machine in machines {
        assert_eq!((machine.labels().get("tier"), machine.labels()["zone"].as_str()), (None, "y"));
        assert_eq!(machine.annotations()["note"], "2");
        assert_eq!(machine.spec.min_ready_seconds, Some(7));
        assert_eq!(machine.spec.deletion.node_drain_timeout_seconds, Some(30));
        let part = world.part("infrastructure", "DevMachine").get(&machine.name_any()).await.unwrap();
        assert_eq!((part.labels().get("tier"), part.labels()["zone"].as_str()), (None, "y"));
        assert_eq!(part.annotations()["note"], "2");
    }
}

#[tokio::test(start_paused = true)]
async fn machines_wait_for_a_control_plane_that_is_stable() {
    let world = World::new().await;
    let plane = |versions: &[&str]| {
        let versions: Vec<_> =
            versions.iter().map(|version| json!({"version": version, "replicas": 1})).collect();
        json!({"status": {"versions": versions}})
    };
    let planes = world.part("controlplane", "KubeadmControlPlane");
    let template = json!({"spec": {"infrastructureRef":
        {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "i1"}}});
    let spec =
        json!({"replicas": 1, "version": "v1.31.0", "machineTemplate": template, "kubeadmConfigSpec": {}});
    world
        .create_dynamic(
            json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp"}, "spec": spec}),
        )
        .await;
    let status = async |versions: &[&str]| {
        let patch = kube::api::Patch::Merge(plane(versions));
        planes.patch_status("cp", &Default::default(), &patch).await.unwrap();
    };
    status(&["v1.30.0"]).await;
    let reference =
        json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp"});
    world.patch::<Cluster>("c1", json!({"spec": {"controlPlaneRef": reference}})).await;
    world.deploy(json!({})).await;
    let running = world.start(1);
    running.manager().idle().await;
    tokio::time::sleep(std::time::Duration::from_secs(20)).await;
    running.manager().idle().await;
    assert!(world.list::<Machine>().await.is_empty());
    let (status_, _, message) = said(&world.list::<MachineSet>().await[0].status.conditions, "ScalingUp");
    assert_eq!(status_, "True");
    assert_eq!(
        message,
        "Scaling up from 0 to 3 replicas is blocked because:\n* control plane is being upgraded to v1.31.0 \
         (ControlPlaneIsStable preflight check)"
    );
    status(&["v1.31.0"]).await;
    settle(&running).await;
    assert_eq!(world.list::<Machine>().await.len(), 3);
}
