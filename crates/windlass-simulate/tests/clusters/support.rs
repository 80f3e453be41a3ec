//! What several of these tests do with a cluster.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::Value;
use windlass_simulate::{TopologyManifests, World, WorldOptions, is_at, key};
use windlass_version::Version;

/// Longer than anything takes.
pub(crate) const LONG: Duration = Duration::from_secs(24 * 3600);

/// Cluster `c1` of these manifests, complete at v1.31.0 and at rest.
pub(crate) async fn settled(options: WorldOptions, manifests: &TopologyManifests) -> World {
    let mut world = World::begin(options).await.unwrap();
    world.apply_objects(&manifests.objects()).await.unwrap();
    reach(&mut world, "v1.31.0").await;
    world
}

/// Waits for all of `c1` to have a version, and to be at rest.
pub(crate) async fn reach(world: &mut World, version: &str) {
    let version = Version::parse(version).unwrap();
    world.run_until("the version", LONG, |world| is_at(world, &key("c1"), &version)).await.unwrap();
    rest(world).await;
}

/// Lets ten minutes pass, in which no rule may be broken.
pub(crate) async fn rest(world: &mut World) {
    let error = world.run_until("never", Duration::from_secs(600), |_| false).await.unwrap_err();
    assert!(error.to_string().contains("never"), "{error}");
}

/// Applies objects of Cluster API's kinds, as a user does.
pub(crate) async fn apply(client: &Client, objects: &[Value]) {
    for object in objects {
        let kind = object["kind"].as_str().unwrap();
        let resource = ApiResource::from_gvk(&GroupVersionKind {
            group: object["apiVersion"].as_str().unwrap().split('/').next().unwrap().to_owned(),
            version: "v1beta2".to_owned(),
            kind: kind.to_owned(),
        });
        let api: Api<DynamicObject> = match kind {
            "ExtensionConfig" => Api::all_with(client.clone(), &resource),
            _ => Api::default_namespaced_with(client.clone(), &resource),
        };
        let name = object["metadata"]["name"].as_str().unwrap();
        api.patch(name, &PatchParams::apply("user").force(), &Patch::Apply(object)).await.unwrap();
    }
}
