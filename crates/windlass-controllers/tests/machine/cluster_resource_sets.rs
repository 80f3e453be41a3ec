//! ClusterResourceSets: what they hold gets into the clusters that they select.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};
use windlass_api::addons::{ClusterResourceSet, ClusterResourceSetBinding};
use windlass_api::cluster::Cluster;
use windlass_engine::condition;

use super::world::World;

const MANIFESTS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: addons}\n\
                         data: {colour: blue}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: addons}\n";

async fn set(world: &World, name: &str, strategy: &str, resource: Value) {
    let set = json!({"apiVersion": "addons.cluster.x-k8s.io/v1beta2", "kind": "ClusterResourceSet",
        "metadata": {"name": name}, "spec": {"clusterSelector": {"matchLabels": {"stage": "test"}},
            "strategy": strategy, "resources": [resource]}});
    world.create_dynamic(set).await;
}

async fn select(world: &World) {
    world.patch::<Cluster>("c1", json!({"metadata": {"labels": {"stage": "test"}}})).await;
}

/// What the set says about itself: reason and message.
async fn said(world: &World, name: &str) -> (String, String) {
    let set: ClusterResourceSet = world.find(name).await.unwrap();
    let applied = condition::find(&set.status.conditions, "ResourcesApplied");
    applied.map(|applied| (applied.reason.clone(), applied.message.clone())).unwrap_or_default()
}

async fn colour(world: &World) -> Option<String> {
    let maps: Api<ConfigMap> = Api::namespaced(world.workload().inside().clone(), "addons");
    let map = maps.get_opt("settings").await.unwrap()?;
    map.data?.get("colour").cloned()
}

#[tokio::test(start_paused = true)]
async fn a_set_is_applied_once_its_cluster_answers_and_removed_from_the_record_with_it() {
    let world = World::start().await;
    let data = json!({"metadata": {"name": "addons"}, "data": {"all.yaml": MANIFESTS}});
    world.create::<ConfigMap>(data).await;
    set(&world, "once", "ApplyOnce", json!({"kind": "ConfigMap", "name": "addons"})).await;
    world.cluster().await;
    select(&world).await;
    world.seconds(60).await;
    assert_eq!(world.find::<ClusterResourceSetBinding>("c1").await, None, "there is no API server yet");

    world.add_control_plane("cp1").await;
    world.until("cp1", "open", |_| world.is_open()).await;
    world.cluster_status(json!({"initialization": {"controlPlaneInitialized": true}})).await;
    world.seconds(60).await;
    assert_eq!(said(&world, "once").await.0, "Applied");
    assert_eq!(colour(&world).await.as_deref(), Some("blue"), "the namespace comes before what is in it");
    let namespaces: Api<Namespace> = Api::all(world.workload().inside().clone());
    assert!(namespaces.get_opt("addons").await.unwrap().is_some());
    let binding: ClusterResourceSetBinding = world.find("c1").await.unwrap();
    let record = &binding.spec.bindings[0].resources[0];
    assert_eq!(binding.spec.cluster_name, "c1");
    assert!(record.applied == Some(true) && record.hash.starts_with("sha256:"), "{record:?}");

    let green = MANIFESTS.replace("blue", "green");
    world.patch::<ConfigMap>("addons", json!({"data": {"all.yaml": green}})).await;
    world.seconds(600).await;
    assert_eq!(colour(&world).await.as_deref(), Some("blue"), "once is once");
    let unchanged: ClusterResourceSetBinding = world.find("c1").await.unwrap();
    assert_eq!(unchanged.metadata.resource_version, binding.metadata.resource_version);

    world.api::<ClusterResourceSet>().delete("once", &DeleteParams::default()).await.unwrap();
    world.seconds(10).await;
    assert_eq!(world.find::<ClusterResourceSet>("once").await, None);
    assert_eq!(world.find::<ClusterResourceSetBinding>("c1").await, None);
    assert_eq!(colour(&world).await.as_deref(), Some("blue"), "what was applied stays");
}

#[tokio::test(start_paused = true)]
async fn a_set_that_reconciles_follows_changes_and_says_what_is_wrong() {
    let world = World::start().await;
    world.with_control_plane().await;
    select(&world).await;
    set(&world, "again", "Reconcile", json!({"kind": "Secret", "name": "addons"})).await;
    world.seconds(60).await;
    assert_eq!(
        said(&world, "again").await,
        ("NotApplied".to_owned(), "* Secret addons does not exist".to_owned())
    );

    let secret = |type_: &str, text: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "addons"}, "type": type_,
            "stringData": {"all.yaml": text}})
    };
    world.create_dynamic(secret("Opaque", MANIFESTS)).await;
    world.seconds(60).await;
    assert_eq!(said(&world, "again").await.0, "WrongSecretType");
    assert_eq!(colour(&world).await, None);

    world.api::<Secret>().delete("addons", &DeleteParams::default()).await.unwrap();
    world.create_dynamic(secret("addons.cluster.x-k8s.io/resource-set", MANIFESTS)).await;
    world.seconds(60).await;
    assert_eq!(said(&world, "again").await.0, "Applied");
    assert_eq!(colour(&world).await.as_deref(), Some("blue"));

    let green = json!({"stringData": {"all.yaml": MANIFESTS.replace("blue", "green")}});
    world.patch::<Secret>("addons", green).await;
    world.seconds(120).await;
    assert_eq!(colour(&world).await.as_deref(), Some("green"));

    let unknown = "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: t}";
    let broken = json!({"stringData": {"more.yaml": unknown}});
    world.patch::<Secret>("addons", broken).await;
    world.seconds(120).await;
    let (reason, message) = said(&world, "again").await;
    assert_eq!(reason, "NotApplied");
    assert!(message.contains("Cluster c1: Secret addons: Thing t: "), "{message}");
    let binding: ClusterResourceSetBinding = world.find("c1").await.unwrap();
    world.seconds(600).await;
    let later: ClusterResourceSetBinding = world.find("c1").await.unwrap();
    assert_eq!(later, binding, "that it fails again is not written again");
}
