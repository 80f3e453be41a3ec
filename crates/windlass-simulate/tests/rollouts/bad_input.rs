//! What users get wrong.

use kube::ResourceExt;
use serde_json::json;
use windlass_api::cluster::{Machine, MachineDeployment};
use windlass_api::infrastructure::DevMachineTemplate;
use windlass_simulate::{WorkerGroup, World, WorldError, WorldOptions, key};

use crate::support::Workers;

#[tokio::test(start_paused = true)]
async fn a_template_that_is_missing_is_named_and_waited_for() {
    let mut workers = Workers::new(1, WorkerGroup::new("w", 2)).await;
    let patch = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "nobody"}}}}});
    workers.world.patch::<MachineDeployment>(&key("c-w"), patch).await.unwrap();
    let hour = std::time::Duration::from_secs(600);
    let error =
        workers.world.run_until("a rollout", hour, |world| windlass_simulate::is_complete(world, "c-w"));
    let WorldError::NotReached(not_reached) = error.await.unwrap_err() else {
        panic!("something else broke")
    };
    assert!(not_reached.to_string().contains("nobody"), "{not_reached}");
    assert_eq!(workers.population.counts().available, 2, "the old machines stay");

    let mut template: DevMachineTemplate = workers.world.get(&key("c-w-1")).unwrap();
    template.metadata = kube::api::ObjectMeta {
        name: Some("nobody".to_owned()),
        namespace: Some("default".to_owned()),
        ..kube::api::ObjectMeta::default()
    };
    workers.world.apply_object(&serde_json::to_value(&template).unwrap()).await.unwrap();
    workers.until_complete().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn machines_of_others_are_left_alone() {
    let world = World::begin(WorldOptions::new(2)).await.unwrap();
    let foreign = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine",
        "metadata": {"name": "foreign", "namespace": "default",
            "labels": {"cluster.x-k8s.io/cluster-name": "c", "group": "w"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "kube-root-ca.crt", "uid": "x",
                "controller": true}]},
        "spec": {"clusterName": "c", "version": "v1.33.0", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachine", "name": "foreign"}}});
    // It is not garbage collected: its owner is there.
    let owner = world.get::<k8s_openapi::api::core::v1::ConfigMap>(&key("kube-root-ca.crt")).unwrap();
    let mut foreign = foreign;
    foreign["metadata"]["ownerReferences"][0]["uid"] = owner.metadata.uid.clone().unwrap().into();
    world.apply_object(&foreign).await.unwrap();
    let mut workers = Workers::begun(world, "c", WorkerGroup::new("w", 2)).await;
    workers.until_complete().await.unwrap();
    workers.change(|group| group.replicas(0)).await;
    workers.until_complete().await.unwrap();
    let left: Vec<String> =
        workers.world.list::<Machine>().iter().map(|machine| machine.name_any()).collect();
    assert!(left.contains(&"foreign".to_owned()), "{left:?}");
    let foreign: Machine = workers.world.get(&key("foreign")).unwrap();
    assert_eq!(foreign.owner_references().iter().filter(|owner| owner.controller == Some(true)).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_selector_that_does_not_match_the_template_is_refused_or_said() {
    let mut workers = Workers::new(3, WorkerGroup::new("w", 1)).await;
    let patch = json!({"spec": {"template": {"metadata": {"labels": {"group": "another"}}}}});
    match workers.world.patch::<MachineDeployment>(&key("c-w"), patch).await {
        Err(WorldError::Refused { reason, .. }) => assert!(reason.contains("selector"), "{reason}"),
        Err(other) => panic!("{other}"),
        Ok(_) => {
            workers
                .world
                .run_until("never", std::time::Duration::from_secs(600), |_| false)
                .await
                .unwrap_err();
            assert!(workers.machines().len() <= 2, "no flood of machines that do not count");
        }
    }
}
