//! Annotations that are written only if what they were decided from is still so.

use http::{Method, Request, Response};
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use kube::client::Body;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};
use windlass_runtime::{Manager, Options, WriteError, Writer};

use crate::dynamic::{define, things};
use crate::replicas::World;

/// A Thing at a version, with the annotations that it is created with.
async fn thing(world: &World, annotations: Value) -> DynamicObject {
    define(world).await;
    let metadata = json!({"name": "thing", "namespace": "default", "annotations": annotations});
    let intent = json!({"metadata": metadata, "spec": {"version": "v1"}});
    world.manager(1).writer_of(&things()).apply("owner", &intent).await.unwrap()
}

fn api(world: &World) -> Api<DynamicObject> {
    Api::default_namespaced_with(world.client.clone(), &things())
}

async fn change(world: &World, patch: Value) {
    api(world).patch("thing", &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
}

/// Annotates what was read, on condition that its version is still `v1`.
async fn annotate(
    writer: &Writer<DynamicObject>,
    read: &DynamicObject,
    annotations: &[(&str, &str)],
) -> Result<DynamicObject, WriteError> {
    let annotations: Vec<(&str, String)> =
        annotations.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    writer.annotate_if(read, &[("/spec/version", json!("v1"))], &annotations).await
}

#[tokio::test(start_paused = true)]
async fn annotations_are_set_while_the_condition_holds() {
    for before in [json!({}), json!({"theirs": "1"})] {
        let world = World::new().await;
        let read = thing(&world, before.clone()).await;
        change(&world, json!({"spec": {"size": 3}, "metadata": {"labels": {"other": "change"}}})).await;
        let writer = world.manager(2).writer_of(&things());
        let written = annotate(&writer, &read, &[("demo.test/step", "2"), ("plain", "x")]).await.unwrap();
        let annotations = written.annotations();
        assert_eq!((annotations["demo.test/step"].as_str(), annotations["plain"].as_str()), ("2", "x"));
        assert_eq!(annotations.contains_key("theirs"), before != json!({}));
        assert_eq!(
            (written.data["spec"]["size"].as_i64(), written.labels()["other"].as_str()),
            (Some(3), "change")
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_does_not_hold_any_more_is_a_conflict() {
    for (before, changed) in [
        (json!({"theirs": "1"}), json!({"spec": {"version": "v2"}})),
        (json!({"theirs": "1"}), json!({"spec": {"version": null}})),
        (json!({"theirs": "1"}), json!({"metadata": {"annotations": null}})),
        (json!({}), json!({"metadata": {"annotations": {"theirs": "1"}}})),
    ] {
        let world = World::new().await;
        let read = thing(&world, before).await;
        change(&world, changed.clone()).await;
        let writer = world.manager(2).writer_of(&things());
        let error = annotate(&writer, &read, &[("demo.test/step", "2")]).await.unwrap_err();
        assert!(matches!(error, WriteError::Outdated { .. }) && error.is_conflict(), "{changed}: {error}");
        let there = api(&world).get("thing").await.unwrap();
        assert!(!there.annotations().contains_key("demo.test/step"), "{changed}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_object_of_the_same_name_is_not_annotated() {
    let world = World::new().await;
    let read = thing(&world, json!({"theirs": "1"})).await;
    let writer = world.manager(2).writer_of(&things());
    writer.delete(&read).await.unwrap();
    let intent = json!({"metadata": {"name": "thing", "namespace": "default", "annotations": {"theirs": "1"}},
        "spec": {"version": "v1"}});
    writer.apply("owner", &intent).await.unwrap();
    let error = annotate(&writer, &read, &[("demo.test/step", "2")]).await.unwrap_err();
    assert!(matches!(error, WriteError::Outdated { .. }), "{error}");
}

/// What the API answers to an object that it finds invalid is 422 as well. The key is named as it was given, although a
/// JSON pointer writes it differently.
#[tokio::test(start_paused = true)]
async fn an_invalid_annotation_is_refused_and_no_conflict() {
    for before in [json!({}), json!({"theirs": "1"})] {
        let world = World::new().await;
        let read = thing(&world, before).await;
        let writer = world.manager(2).writer_of(&things());
        let error = annotate(&writer, &read, &[("demo.test/a~1b~0", "2")]).await.unwrap_err();
        assert_eq!(error.status().map(|status| status.code), Some(422), "{error}");
        assert!(error.is_rejected() && !error.is_conflict(), "{error}");
        assert!(error.to_string().contains("demo.test/a~1b~0"), "{error}");
        let there = api(&world).get("thing").await.unwrap();
        assert!(!there.annotations().keys().any(|key| key.starts_with("demo.test")));
    }
}

/// A client of an API whose admission webhook refuses every patch, with the code of its choice and without details.
fn with_webhook(client: Client) -> Client {
    let service = tower::service_fn(move |request: Request<Body>| {
        let client = client.clone();
        async move {
            if request.method() != Method::PATCH {
                return client.send(request).await;
            }
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "admission webhook \"policy.test\" denied the request: not on a Friday",
                "reason": "Invalid", "code": 422});
            let answer = Response::builder().status(422).header("content-type", "application/json");
            Ok(answer.body(Body::from(status.to_string().into_bytes())).unwrap())
        }
    });
    Client::new(service, "default")
}

#[tokio::test(start_paused = true)]
async fn a_refusal_of_a_webhook_is_no_conflict_unless_the_condition_fails_too() {
    let world = World::new().await;
    let read = thing(&world, json!({"theirs": "1"})).await;
    let options = Options::new().clock(world.clock.clone()).seed(2);
    let writer = Manager::new(with_webhook(world.client.clone()), options).writer_of(&things());
    let error = annotate(&writer, &read, &[("demo.test/step", "2")]).await.unwrap_err();
    assert!(error.is_rejected() && !error.is_conflict(), "{error}");
    assert!(error.to_string().contains("not on a Friday"), "{error}");

    change(&world, json!({"spec": {"version": "v2"}})).await;
    let error = annotate(&writer, &read, &[("demo.test/step", "2")]).await.unwrap_err();
    assert!(
        matches!(error, WriteError::Outdated { .. }),
        "deciding anew is due before anything else: {error}"
    );
}
