//! Kinds that are found while controllers run.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Event};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use kube::{Resource, ResourceExt};
use serde_json::json;
use windlass_runtime::{
    Cache, Context, EventType, GroupKind, ObjectKey, Outcome, Reconciler, WatchKindError, WriteError,
};

use crate::replicas::World;

pub(crate) fn things() -> ApiResource {
    ApiResource {
        group: "test.io".into(),
        version: "v1".into(),
        api_version: "test.io/v1".into(),
        kind: "Thing".into(),
        plural: "things".into(),
    }
}

pub(crate) async fn define(world: &World) {
    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.test.io"}, "spec": {"group": "test.io", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true,
            "storage": true, "schema": {"openAPIV3Schema": schema}, "subresources": {"status": {}}}]}});
    let api: Api<DynamicObject> = Api::all_with(world.client.clone(), &resource);
    api.create(&PostParams::default(), &serde_json::from_value(definition).unwrap()).await.unwrap();
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Watch(#[from] WatchKindError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// Makes a Thing for a ConfigMap, and remembers its colour.
struct Owner {
    maps: Cache<ConfigMap>,
    colours: Arc<Mutex<Vec<String>>>,
}

impl Reconciler for Owner {
    type Error = Error;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, Error> {
        let Some(map) = self.maps.get(key).filter(|map| map.name_any() == "owner") else {
            return Ok(Outcome::done());
        };
        let cache = context.watch(&things()).await?;
        match cache.owned_by(&map.uid().unwrap()).first() {
            None => {
                let thing = json!({"metadata": {"name": "thing", "namespace": key.namespace,
                    "ownerReferences": [map.controller_owner_ref(&())]}});
                context.writer_of(&things()).apply("owner", &thing).await?;
                context.event(map.as_ref(), EventType::Normal, "Made", "made a thing");
            }
            Some(thing) => {
                let colour = thing.data["status"]["colour"].as_str().unwrap_or("none");
                self.colours.lock().unwrap().push(colour.to_owned());
                context.event(map.as_ref(), EventType::Warning, "Seen", "saw it");
            }
        }
        Ok(Outcome::done())
    }
}

#[tokio::test(start_paused = true)]
async fn a_kind_is_watched_from_the_moment_it_is_known() {
    let world = World::new().await;
    let manager = world.manager(1);
    let maps = manager.cache();
    let colours = Arc::new(Mutex::new(Vec::new()));
    let owner = Owner { maps: maps.clone(), colours: Arc::clone(&colours) };
    manager.controller("owner", &maps).register(owner);
    let _running = manager.start();
    world.create(json!({"metadata": {"name": "owner"}})).await;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let failing = manager.failing();
    assert!(failing[0].error.starts_with("cannot watch Thing.test.io: "), "{failing:?}");

    define(&world).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(manager.failing().is_empty());
    let writer = manager.writer_of(&things());
    for colour in ["red", "green"] {
        let status =
            json!({"metadata": {"name": "thing", "namespace": "default"}, "status": {"colour": colour}});
        writer.apply_status("painter", &status).await.unwrap();
        manager.idle().await;
    }
    assert_eq!(*colours.lock().unwrap(), ["none", "red", "green"]);
    assert!(manager.watches().iter().any(|watch| watch.kind == GroupKind::new("test.io", "Thing")));

    let events: Api<Event> = Api::default_namespaced(world.client.clone());
    let events = events.list(&ListParams::default()).await.unwrap();
    let mut told: Vec<_> = events
        .iter()
        .filter(|event| event.involved_object.name.as_deref() == Some("owner"))
        .map(|event| (event.reason.clone().unwrap(), event.type_.clone().unwrap(), event.count.unwrap()))
        .collect();
    told.sort();
    assert_eq!(told, [("Made".into(), "Normal".into(), 1), ("Seen".into(), "Warning".into(), 3)]);
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_writes_nothing_and_is_not_counted() {
    let world = World::new().await;
    define(&world).await;
    let manager = world.manager(1);
    let writer = manager.writer_of(&things());
    let intent = json!({"metadata": {"name": "thing", "namespace": "default"}, "spec": {"size": 3}});
    let shown = writer.dry_run_apply("me", &intent).await.unwrap();
    assert_eq!((shown.data["spec"]["size"].as_i64(), manager.writes()), (Some(3), 0));
    let api: Api<DynamicObject> = Api::default_namespaced_with(world.client.clone(), &things());
    assert!(api.get_opt("thing").await.unwrap().is_none());

    let written = writer.apply("me", &intent).await.unwrap();
    writer.patch(&written, json!({"spec": {"size": 4}})).await.unwrap();
    let conflict = writer.patch(&written, json!({"spec": {"size": 5}})).await.unwrap_err();
    assert!(conflict.is_conflict() && !conflict.is_rejected(), "{conflict}");
    assert!(writer.delete_unchanged(&written).await.unwrap_err().is_conflict());
    let mut uid = intent.clone();
    uid["metadata"]["uid"] = "another".into();
    assert!(writer.apply("me", &uid).await.unwrap_err().is_conflict());
    writer.delete(&written).await.unwrap();
    writer.delete(&written).await.unwrap();
    assert!(writer.patch(&written, json!({})).await.unwrap_err().is_not_found());
    let mut unnamed = written.clone();
    unnamed.metadata.name = Some("Not a name".into());
    assert!(writer.create(&unnamed).await.unwrap_err().is_rejected());
}
