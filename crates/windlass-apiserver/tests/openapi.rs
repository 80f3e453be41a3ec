//! What clients learn about kinds before they write or explain anything.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use windlass_apiserver::{ApiServer, Body, Options};
use windlass_store::{History, Store};

async fn server() -> ApiServer {
    ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap()
}

async fn ask(server: &ApiServer, request: Request<Full<Bytes>>) -> (u16, HeaderMap, Bytes) {
    let response: Response<Body> = server.service().answer(request).await;
    let (parts, body) = response.into_parts();
    (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes())
}

async fn get(server: &ApiServer, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    let mut request = Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    ask(server, request.body(Full::default()).unwrap()).await
}

async fn document(server: &ApiServer, path: &str) -> Value {
    let (code, _, body) = get(server, path, &[]).await;
    assert_eq!(code, 200, "{path}");
    serde_json::from_slice(&body).unwrap()
}

async fn define_widgets(server: &ApiServer) {
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.demo.test"},
        "spec": {
            "group": "demo.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "properties": {"spec": {"type": "object", "properties": {
                    "color": {"type": "string", "nullable": true}, "size": {"type": "integer", "maximum": 9},
                }}},
            }}}],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::post(path).body(Full::from(crd.to_string())).unwrap();
    let (code, _, body) = ask(server, request).await;
    assert_eq!(code, 201, "{body:?}");
}

/// Every reference in a document, wherever it stands.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match value {
                    Value::String(target) if name == "$ref" => found.push(target.clone()),
                    value => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

fn check_references(document: &Value) {
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(!found.is_empty());
    for target in found {
        let pointer = target.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{target} leads nowhere");
    }
}

#[tokio::test(start_paused = true)]
async fn every_group_has_a_document_that_refers_to_nothing_outside_of_it() {
    let server = server().await;
    define_widgets(&server).await;
    let index = document(&server, "/openapi/v3").await;
    let paths = index["paths"].as_object().unwrap();
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/demo.test/v1"));
    for place in paths.values() {
        let document = document(&server, place["serverRelativeURL"].as_str().unwrap()).await;
        check_references(&document);
    }
    let core = document(&server, "/openapi/v3/api/v1").await;
    let pod = &core["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(
        pod["x-kubernetes-group-version-kind"],
        json!([{"group": "", "kind": "Pod", "version": "v1"}])
    );
    let ports = &core["components"]["schemas"]["io.k8s.api.core.v1.Container"]["properties"]["ports"];
    assert_eq!(ports["x-kubernetes-list-map-keys"], json!(["containerPort", "protocol"]));
    assert_eq!(ports["x-kubernetes-patch-merge-key"], "containerPort");
}

#[tokio::test(start_paused = true)]
async fn clients_may_keep_a_document_until_its_kinds_change() {
    let server = server().await;
    define_widgets(&server).await;
    let url = async |server: &ApiServer, group: &str| {
        let index = document(server, "/openapi/v3").await;
        index["paths"][group]["serverRelativeURL"].as_str().unwrap_or_default().to_owned()
    };
    let (core, widgets) = (url(&server, "api/v1").await, url(&server, "apis/demo.test/v1").await);
    let (code, headers, _) = get(&server, &widgets, &[]).await;
    assert_eq!((code, headers["cache-control"].to_str().unwrap()), (200, "public, immutable"));
    assert!(headers.contains_key("expires"));

    let tag = headers["etag"].to_str().unwrap();
    let (code, _, body) = get(&server, "/openapi/v3/apis/demo.test/v1", &[("If-None-Match", tag)]).await;
    assert_eq!((code, body.len()), (304, 0));

    let patch = json!([{"op": "add", "value": {"type": "string"},
        "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/shape"}]);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.demo.test";
    let request = Request::patch(path).header("Content-Type", "application/json-patch+json");
    let (code, ..) = ask(&server, request.body(Full::from(patch.to_string())).unwrap()).await;
    assert_eq!(code, 200);
    assert_eq!(url(&server, "api/v1").await, core, "the core group has not changed");
    let (code, headers, _) = get(&server, &widgets, &[]).await;
    assert_eq!(code, 301);
    let moved = headers["location"].to_str().unwrap().to_owned();
    assert_eq!(moved, url(&server, "apis/demo.test/v1").await);
    let document = document(&server, &moved).await;
    let spec = &document["components"]["schemas"]["test.demo.v1.Widget"]["properties"]["spec"];
    assert_eq!(spec["properties"]["shape"]["type"], "string");
}

#[tokio::test(start_paused = true)]
async fn version_2_has_all_kinds_in_one_document_as_json_and_as_protobuf() {
    let server = server().await;
    define_widgets(&server).await;
    let json = document(&server, "/openapi/v2").await;
    check_references(&json);
    let widget = &json["definitions"]["test.demo.v1.Widget"];
    let kinds = json!([{"group": "demo.test", "kind": "Widget", "version": "v1"}]);
    assert_eq!(widget["x-kubernetes-group-version-kind"], kinds);
    // Something that may be null has no type in version 2.
    assert_eq!(widget["properties"]["spec"]["properties"]["color"], json!({}));
    let patch = &json["paths"]["/apis/demo.test/v1/namespaces/{namespace}/widgets/{name}"]["patch"];
    let can_be_tried = patch["parameters"].as_array().unwrap().iter().any(|known| known["name"] == "dryRun");
    assert!(can_be_tried, "{patch}");

    let accept = [("Accept", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf")];
    let (code, headers, body) = get(&server, "/openapi/v2", &accept).await;
    assert_eq!(code, 200);
    assert_eq!(headers["content-type"], "application/com.github.proto-openapi.spec.v2.v1.0+protobuf");
    assert!(body.starts_with(b"\x0a\x032.0\x12"));
    let contains = |text: &str| body.windows(text.len()).any(|window| window == text.as_bytes());
    assert!(contains("test.demo.v1.Widget") && contains("io.k8s.api.core.v1.Pod"));
}

/// What an operation of a document says about an answer.
fn promised(document: &Value, path: &str, method: &str, code: u16) -> Value {
    let responses = &document["paths"][path][method]["responses"];
    let response = responses.get(code.to_string()).unwrap_or(&responses["default"]);
    response["content"]["application/json"]["schema"].clone()
}

#[tokio::test]
async fn answers_are_what_the_document_promises() {
    let server = server().await;
    define_widgets(&server).await;
    let document = document(&server, "/openapi/v3/apis/demo.test/v1").await;
    let collection = "/apis/demo.test/v1/namespaces/{namespace}/widgets";
    let object = "/apis/demo.test/v1/namespaces/{namespace}/widgets/{name}";
    let patches = document["paths"][object]["patch"]["requestBody"]["content"].as_object().unwrap();
    let media: Vec<&str> = patches.keys().map(String::as_str).collect();
    let three =
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];
    assert_eq!(media, three);
    let widget = json!({"apiVersion": "demo.test/v1", "kind": "Widget", "metadata": {"name": "w"},
        "spec": {"color": "red"}});
    let nothing = Value::Null;
    let (json, merge, apply) = ("application/json", three[2], "application/apply-patch+yaml");
    let refused = json!({"spec": {"size": "large"}});
    let cases = [
        ("post", collection, json, &widget, 201, "Widget"),
        ("post", collection, json, &widget, 409, "Status"),
        ("get", object, json, &nothing, 200, "Widget"),
        ("get", collection, json, &nothing, 200, "WidgetList"),
        ("patch", object, merge, &json!({"spec": {"size": 1}}), 200, "Widget"),
        ("patch", object, three[1], &json!([{"op": "add", "path": "/spec/size", "value": 2}]), 200, "Widget"),
        ("patch", object, apply, &widget, 200, "Widget"),
        ("patch", object, json, &widget, 415, "Status"),
        ("patch", object, merge, &refused, 422, "Status"),
        ("delete", object, json, &nothing, 200, "Status"),
        ("delete", object, json, &nothing, 404, "Status"),
        ("patch", object, apply, &widget, 201, "Widget"),
        ("delete", collection, json, &nothing, 200, "WidgetList"),
    ];
    for (method, path, media, body, code, kind) in cases {
        let address = path.replace("{namespace}", "default").replace("{name}", "w");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder()
            .method(method.to_uppercase().as_str())
            .uri(format!("{address}?fieldManager=somebody"))
            .header("content-type", media);
        let (found, _, answer) = ask(&server, request.body(Full::from(body)).unwrap()).await;
        assert_eq!(found, code, "{method} {path} {media}");
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!(answer["kind"], kind, "{method} {path} {media}");
        let mut schemas = Vec::new();
        references(&promised(&document, path, method, code), &mut schemas);
        assert!(
            schemas.iter().any(|name| name.ends_with(&format!(".{kind}"))),
            "{method} {path}: {schemas:?}"
        );
    }
}

#[tokio::test]
async fn an_event_says_what_it_is_about_even_if_nobody_said_so() {
    let server = server().await;
    let event = json!({"metadata": {"name": "e"}});
    for (path, field) in [("/api/v1", "involvedObject"), ("/apis/events.k8s.io/v1", "regarding")] {
        let path = format!("{path}/namespaces/default/events/e");
        let request = Request::put(path).body(Full::from(event.to_string())).unwrap();
        let (_, _, body) = ask(&server, request).await;
        let event: Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(event[field], json!({}), "{event}");
    }
}
