//! Admission by webhooks, over real TLS.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::convert::Infallible;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, PostParams};
use kube::{Client, ResourceExt};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::PrivateKeyDer;
use tokio_rustls::rustls::{ServerConfig, crypto::ring::default_provider};
use windlass_apiserver::{ApiServer, Options};
use windlass_store::{History, Store};

/// Labels whatever is created, and refuses what is named `forbidden`.
fn verdict(review: &Value) -> Value {
    let request = &review["request"];
    let patch = json!([{"op": "add", "path": "/metadata/labels", "value": {"seen": "yes"}}]);
    let allowed = request["name"] != "forbidden";
    json!({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "response": {
        "uid": request["uid"], "allowed": allowed, "status": {"message": "not this name", "code": 403},
        "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string()),
    }})
}

/// Starts a webhook, and returns its address and its certificate.
async fn webhook() -> (String, String) {
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
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
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    let answer = verdict(&serde_json::from_slice(&body).unwrap()).to_string();
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
