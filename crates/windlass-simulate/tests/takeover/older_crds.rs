//! CRDs of releases that do not have all fields: what there is no place for is not shown, and everything else goes on.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, PostParams};
use serde_json::json;
use windlass_api::cluster::{Cluster, Machine};
use windlass_simulate::{TopologyManifests, World, WorldOptions, key};

use crate::{LONG, is_settled};

#[tokio::test(start_paused = true)]
async fn an_upgrade_goes_on_where_clusters_have_no_place_for_the_plan() {
    let mut world = World::begin(WorldOptions::new(4)).await.unwrap();
    let crds: Api<CustomResourceDefinition> = Api::all(world.client().clone());
    let mut crd = serde_json::to_value(crds.get("clusters.cluster.x-k8s.io").await.unwrap()).unwrap();
    for version in crd["spec"]["versions"].as_array_mut().unwrap() {
        for part in ["controlPlane", "workers"] {
            let place = format!("/schema/openAPIV3Schema/properties/status/properties/{part}/properties");
            if let Some(fields) = version.pointer_mut(&place).and_then(|fields| fields.as_object_mut()) {
                assert!(fields.remove("upgradePlan").is_some());
            }
        }
    }
    let crd = serde_json::from_value(crd).unwrap();
    crds.replace("clusters.cluster.x-k8s.io", &PostParams::default(), &crd).await.unwrap();

    let manifests = TopologyManifests::new("c1", "v1.33.0", 1).machine_deployment("a", 1);
    world.apply_objects(&manifests.objects()).await.unwrap();
    world.run_until("created", LONG, |world| is_settled(world, 2)).await.unwrap();
    let target = json!({"spec": {"topology": {"version": "v1.34.0"}}});
    world.patch::<Cluster>(&key("c1"), target).await.unwrap();
    let is_at_target = |world: &World| {
        let machines = world.list::<Machine>();
        machines.iter().all(|machine| machine.spec.version == "v1.34.0")
    };
    world.run_until("upgraded", LONG, |world| is_settled(world, 2) && is_at_target(world)).await.unwrap();
}
