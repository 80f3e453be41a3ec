//! Admission by webhooks, over real TLS.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::StreamExt;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams, WatchEvent};
use kube::{Client, ResourceExt};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto::ring::default_provider};
use windlass_apiserver::{ApiServer, Options};
use windlass_store::{History, Store};

/// Labels whatever is created, and refuses what is named `forbidden`. On the path `/count` it counts how often
/// it was asked, and on `/version` it says in which version it saw the object.
fn verdict(path: &str, review: &Value) -> Value {
    let request = &review["request"];
    if path == "/convert" {
        return converted(request);
    }
    let annotation = |name: &str, value: &str| {
        json!([{"op": "test", "path": "/apiVersion", "value": request["object"]["apiVersion"]},
            {"op": "add", "path": "/metadata/annotations", "value": {name: value}}])
    };
    let patch = match path {
        "/count" => {
            let before = request["object"]["metadata"]["annotations"]["asked"].as_str().unwrap_or_default();
            annotation("asked", &format!("{before}x"))
        }
        "/version" => annotation("seen-in", request["kind"]["version"].as_str().unwrap()),
        _ => json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]),
    };
    let allowed = request["name"] != "forbidden";
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {
        "uid": request["uid"], "allowed": allowed, "status": {"message": "not this name", "code": 403},
        "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
    }})
}

/// What is `spec.color` in version 1 is `spec.paint` in version 2.
fn converted(request: &Value) -> Value {
    let mut object = request["objects"][0].clone();
    let to = request["desiredAPIVersion"].as_str().unwrap();
    let (from, name) = if to.ends_with("v1") { ("paint", "color") } else { ("color", "paint") };
    object["apiVersion"] = to.into();
    object["spec"][name] = object["spec"][from].take();
    object["spec"].as_object_mut().unwrap().remove(from);
    let result = match object["spec"][name] == "unspeakable" {
        true => json!({"status": "Failed", "message": "no word for it"}),
        false => json!({"status": "Success"}),
    };
    json!({"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "response": {
        "uid": request["uid"], "result": result, "convertedObjects": [object],
    }})
}

/// Starts a webhook, and returns its address and its certificate.
async fn webhook() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned(), "hook.default.svc".to_owned()]).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let stream = acceptor.accept(stream).await.unwrap();
                let service = service_fn(|request: Request<Incoming>| async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let answer = verdict(&path, &serde_json::from_slice(&body).unwrap()).to_string();
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::from(answer))))
                });
                drop(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await,
                );
            });
        }
    });
    (format!("https://localhost:{port}/hook"), cert.pem())
}

async fn configure(client: &Client, plural: &str, kind: &str, url: &str, ca: &str, policy: &str) {
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "test"},
        "webhooks": [{
            "name": "hook.test.io", "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": policy,
            "timeoutSeconds": 2, "clientConfig": {"url": url, "caBundle": STANDARD.encode(ca)},
            "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        }],
    });
    let request = Request::post(format!("/apis/admissionregistration.k8s.io/v1/{plural}"));
    client.request::<Value>(request.body(configuration.to_string().into_bytes()).unwrap()).await.unwrap();
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}})).unwrap()
}

async fn client() -> Client {
    let server = ApiServer::start(Store::in_memory(History::default()), Options::new()).await.unwrap();
    Client::new(server.service(), "default")
}

#[tokio::test]
async fn a_mutating_webhook_changes_what_is_written() {
    let client = client().await;
    let (url, ca) = webhook().await;
    configure(&client, "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", &url, &ca, "Fail")
        .await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert_eq!(created.labels()["seen"], "yes");
}

#[tokio::test]
async fn a_validating_webhook_refuses_with_its_own_words() {
    let client = client().await;
    let (url, ca) = webhook().await;
    configure(
        &client,
        "validatingwebhookconfigurations",
        "ValidatingWebhookConfiguration",
        &url,
        &ca,
        "Fail",
    )
    .await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let refused = api.create(&PostParams::default(), &config_map("forbidden")).await.unwrap_err();
    let expected = "admission webhook \"hook.test.io\" denied the request: not this name";
    assert!(refused.to_string().contains(expected), "{refused}");
    assert!(api.create(&PostParams::default(), &config_map("a")).await.unwrap().labels().is_empty());
    api.delete("a", &DeleteParams::default()).await.unwrap();
}

#[tokio::test]
async fn a_webhook_that_cannot_be_asked_fails_the_write_unless_it_may_be_ignored() {
    for (policy, succeeds) in [("Fail", false), ("Ignore", true)] {
        let client = client().await;
        let (url, _) = webhook().await;
        let other = generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap().cert.pem();
        let (plural, kind) = ("validatingwebhookconfigurations", "ValidatingWebhookConfiguration");
        configure(&client, plural, kind, &url, &other, policy).await;
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let result = api.create(&PostParams::default(), &config_map("a")).await;
        assert_eq!(result.is_ok(), succeeds, "{policy}: {result:?}");
    }
}

/// Writes any object.
async fn post(client: &Client, path: &str, object: Value) -> Value {
    let request = Request::post(path).body(object.to_string().into_bytes()).unwrap();
    client.request::<Value>(request).await.unwrap()
}

/// Registers mutating webhooks, each a configuration of its own, with what they have in common filled in.
async fn register(client: &Client, ca: &str, webhooks: Vec<Value>) {
    for (index, mut webhook) in webhooks.into_iter().enumerate() {
        let name = format!("hook-{index}");
        webhook["name"] = format!("{name}.test.io").into();
        webhook["admissionReviewVersions"] = json!(["v1"]);
        webhook["sideEffects"] = "None".into();
        webhook["clientConfig"]["caBundle"] = STANDARD.encode(ca).into();
        if webhook["rules"].is_null() {
            webhook["rules"] = json!([{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"]}]);
        }
        let configuration = json!({"apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "MutatingWebhookConfiguration", "metadata": {"name": name}, "webhooks": [webhook]});
        post(client, "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", configuration)
            .await;
    }
}

fn port(url: &str) -> u16 {
    url.trim_start_matches("https://localhost:").split('/').next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn a_service_is_found_by_its_endpoints() {
    let client = client().await;
    let (url, ca) = webhook().await;
    let service = json!({"namespace": "default", "name": "hook", "path": "label", "port": 8443});
    register(&client, &ca, vec![json!({"clientConfig": {"service": service}})]).await;
    let api: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let error = api.create(&PostParams::default(), &config_map("a")).await.unwrap_err();
    assert!(error.to_string().contains("no address is known of service \"hook.default.svc\""), "{error}");

    let service = json!({"kind": "Service", "metadata": {"name": "hook"}, "spec": {
        "ports": [{"name": "other", "port": 1}, {"name": "web", "port": 8443}]}});
    post(&client, "/api/v1/namespaces/default/services", service).await;
    let slice = json!({"kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "hook-1", "labels": {"kubernetes.io/service-name": "hook"}},
        "ports": [{"name": "other", "port": 1}, {"name": "web", "port": port(&url)}],
        "endpoints": [{"addresses": ["127.0.0.2"], "conditions": {"ready": false}}, {"addresses": ["127.0.0.1"]}]});
    post(&client, "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices", slice).await;
    let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert_eq!(created.labels()["seen"], "yes");
}

#[tokio::test]
async fn a_resolver_says_where_services_are() {
    let (url, ca) = webhook().await;
    let port = port(&url);
    let resolver = move |service: &windlass_apiserver::ServiceReference| {
        (service.name == "hook" && service.port == 443).then(|| format!("127.0.0.1:{port}"))
    };
    let options = Options::new().service_resolver(Arc::new(resolver));
    let server = ApiServer::start(Store::in_memory(History::default()), options).await.unwrap();
    let client = Client::new(server.service(), "default");
    let service = json!({"namespace": "default", "name": "hook"});
    register(&client, &ca, vec![json!({"clientConfig": {"service": service}})]).await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert_eq!(created.labels()["seen"], "yes");
}

#[tokio::test]
async fn a_webhook_is_asked_only_if_its_conditions_hold() {
    let client = client().await;
    let (url, ca) = webhook().await;
    let conditions = json!([{"name": "not-plain", "expression": "!object.metadata.name.startsWith('plain')"},
        {"name": "creates", "expression": "request.operation == 'CREATE' && oldObject == null"}]);
    register(&client, &ca, vec![json!({"clientConfig": {"url": url}, "matchConditions": conditions})]).await;
    let api: Api<ConfigMap> = Api::default_namespaced(client);
    assert_eq!(api.create(&PostParams::default(), &config_map("a")).await.unwrap().labels()["seen"], "yes");
    assert!(api.create(&PostParams::default(), &config_map("plain")).await.unwrap().labels().is_empty());
}

#[tokio::test]
async fn a_webhook_sees_what_others_changed_after_it_once_more_if_it_wants() {
    for (policy, asked) in [("IfNeeded", "xx"), ("Never", "x")] {
        let client = client().await;
        let (url, ca) = webhook().await;
        let count = url.replace("/hook", "/count");
        let hooks = vec![
            json!({"clientConfig": {"url": count}, "reinvocationPolicy": policy}),
            json!({"clientConfig": {"url": url}}),
        ];
        register(&client, &ca, hooks).await;
        let api: Api<ConfigMap> = Api::default_namespaced(client);
        let created = api.create(&PostParams::default(), &config_map("a")).await.unwrap();
        assert_eq!(created.annotations()["asked"], asked, "{policy}");
        assert_eq!(created.labels()["seen"], "yes");
    }
}

#[tokio::test]
async fn a_webhook_for_one_version_is_asked_about_all_of_them() {
    let client = client().await;
    let (url, ca) = webhook().await;
    let version = |name: &str, storage: bool| json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object"}}});
    let crd = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "gadgets.demo.test"},
        "spec": {"group": "demo.test", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version("v1", false), version("v2", true)]}});
    post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
    let rules = json!([{"operations": ["CREATE"], "apiGroups": ["demo.test"], "apiVersions": ["v2"],
        "resources": ["gadgets"]}]);
    let url = url.replace("/hook", "/version");
    register(&client, &ca, vec![json!({"clientConfig": {"url": url}, "rules": rules})]).await;
    let gadget = json!({"apiVersion": "demo.test/v1", "kind": "Gadget", "metadata": {"name": "g"}});
    let created = post(&client, "/apis/demo.test/v1/namespaces/default/gadgets", gadget).await;
    assert_eq!(created["apiVersion"], "demo.test/v1");
    assert_eq!(created["metadata"]["annotations"]["seen-in"], "v2");
}

/// The webhook, the server and the client share one thread: the one that blocks it waits forever.
#[tokio::test]
async fn versions_of_a_kind_are_converted_by_a_webhook() {
    let client = client().await;
    let (url, ca) = webhook().await;
    let version = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "string"}}});
        json!({"name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    let config = json!({"url": url.replace("/hook", "/convert"), "caBundle": STANDARD.encode(ca)});
    let crd = json!({"kind": "CustomResourceDefinition", "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": "gadgets.demo.test"},
        "spec": {"group": "demo.test", "scope": "Namespaced", "names": {"plural": "gadgets", "kind": "Gadget"},
            "versions": [version("v1", "color", false), version("v2", "paint", true)],
            "conversion": {"strategy": "Webhook",
                "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": config}}}});
    post(&client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd).await;
    let gadget = |color: &str| json!({"apiVersion": "demo.test/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"color": color}});
    let path = "/apis/demo.test/v1/namespaces/default/gadgets";
    let created = post(&client, path, gadget("red")).await;
    assert_eq!(
        (&created["apiVersion"], &created["spec"]),
        (&json!("demo.test/v1"), &json!({"color": "red"}))
    );
    let get = async |version: &str| {
        let path = format!("/apis/demo.test/{version}/namespaces/default/gadgets");
        let list: Value = client.request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap();
        list["items"][0]["spec"].clone()
    };
    assert_eq!(get("v2").await, json!({"paint": "red"}));
    assert_eq!(get("v1").await, json!({"color": "red"}));
    let watch = format!("{path}?watch=true&timeoutSeconds=60");
    let watch = Request::get(watch).body(Vec::new()).unwrap();
    let mut events = std::pin::pin!(client.request_events::<Value>(watch).await.unwrap());
    let mut blue = created.clone();
    blue["spec"]["color"] = "blue".into();
    let put = Request::put(format!("{path}/g")).body(blue.to_string().into_bytes()).unwrap();
    client.request::<Value>(put).await.unwrap();
    for color in ["red", "blue"] {
        let (WatchEvent::Added(seen) | WatchEvent::Modified(seen)) = events.next().await.unwrap().unwrap()
        else {
            panic!("neither added nor modified");
        };
        assert_eq!(seen["spec"], json!({"color": color}));
    }
    let mut other = gadget("unspeakable");
    other["metadata"]["name"] = "h".into();
    let request = Request::post(path).body(other.to_string().into_bytes()).unwrap();
    let error = client.request::<Value>(request).await.unwrap_err();
    let why = "conversion webhook for demo.test/v1, Kind=Gadget failed: no word for it";
    assert!(error.to_string().contains(why), "{error}");
}
