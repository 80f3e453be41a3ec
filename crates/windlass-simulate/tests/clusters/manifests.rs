//! The manifests that simulations use are what the CRDs of the kinds allow.

use std::sync::Arc;

use windlass_api::cluster::{Cluster, MachineDeployment};
use windlass_simulate::{ClusterManifests, WorkerGroup, World, WorldOptions, key};

#[tokio::test(start_paused = true)]
async fn manifests_are_accepted_as_they_are() {
    let options = WorldOptions::with(1, windlass_api::crds::manifests(), Arc::new(|_| ()));
    let world = World::begin(options).await.unwrap();
    let rolling = WorkerGroup::new("a", 3).rolling_update("25%", 0).version("v1.32.0");
    let on_delete = WorkerGroup::new("b", 0).on_delete().machine_annotation("example.com/knob", "on");
    let manifests = ClusterManifests::new("c", "v1.33.0", 3).workers(rolling.clone()).workers(on_delete);
    for object in manifests.objects() {
        let applied = world.apply_object(&object).await.unwrap();
        let (wanted, got) = (&object["spec"], serde_json::to_value(&applied).unwrap());
        assert!(is_within(wanted, &got["spec"]), "nothing was pruned:\n{wanted}\n{}", got["spec"]);
    }
    let deployment: MachineDeployment = world.get(&key("c-a")).unwrap();
    assert_eq!(deployment.spec.template.spec.version, "v1.32.0");
    assert_eq!(world.list::<Cluster>().len(), 1);

    world.apply_objects(&manifests.worker_objects(&rolling.generation(2))).await.unwrap();
    let deployment: MachineDeployment = world.get(&key("c-a")).unwrap();
    assert_eq!(deployment.spec.template.spec.infrastructure_ref.name, "c-a-2");
}

/// Whether everything that is wanted is there; defaults may have been added.
fn is_within(wanted: &serde_json::Value, got: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Object};
    match (wanted, got) {
        (Object(wanted), Object(got)) => {
            wanted.iter().all(|(key, value)| got.get(key).is_some_and(|got| is_within(value, got)))
        }
        (Array(wanted), Array(got)) => {
            wanted.len() == got.len() && wanted.iter().zip(got).all(|(wanted, got)| is_within(wanted, got))
        }
        (wanted, got) => wanted == got,
    }
}
