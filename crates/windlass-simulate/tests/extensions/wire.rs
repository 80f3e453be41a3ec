//! What an extension receives, as it comes over the wire: a field that is misspelt or unknown would be dropped
//! where requests are decoded into types.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Map, Value, json};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto::ring::default_provider};
use tower::ServiceExt;
use windlass_extension::{DevelopmentCertificate, Extension};
use windlass_simulate::simulate_upgrade;

use crate::https::{EXPECTED, expected, request};
use crate::recorder::{Log, RealServer, recorder};

/// One request: the line, the type of its content, and the body as it came.
#[derive(Clone, Debug)]
struct Received {
    line: String,
    content_type: String,
    body: Value,
}

type Wire = Arc<Mutex<Vec<Received>>>;

/// HTTPS with nothing of ours in between, in front of an extension.
fn listen(extension: Extension, wire: &Wire) -> RealServer {
    let wire = Arc::clone(wire);
    RealServer::serve(move |certificate, ready, stopped| async move {
        let acceptor = acceptor(&certificate);
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        ready.send(format!("https://{}", listener.local_addr().unwrap())).unwrap();
        tokio::select! {
            () = accept(listener, acceptor, extension, wire) => {}
            _ = stopped => {}
        }
    })
}

fn acceptor(certificate: &DevelopmentCertificate) -> TlsAcceptor {
    let chain = CertificateDer::pem_slice_iter(certificate.certificate_pem().as_bytes());
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem().as_bytes()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect::<Result<_, _>>().unwrap(), key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, extension: Extension, wire: Wire) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let stream = acceptor.accept(stream).await.unwrap();
        let (extension, wire) = (extension.clone(), Arc::clone(&wire));
        let service = service_fn(move |request| answer(request, extension.clone(), Arc::clone(&wire)));
        // A caller that goes away is none of our business.
        let connection = hyper::server::conn::http1::Builder::new();
        tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(
    request: Request<Incoming>,
    extension: Extension,
    wire: Wire,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let content_type = head.headers.get("content-type").map(|value| value.to_str().unwrap().to_owned());
    wire.lock().unwrap().push(Received {
        line: format!("{} {}", head.method, head.uri),
        content_type: content_type.unwrap_or_default(),
        body: serde_json::from_slice(&body).unwrap(),
    });
    let Ok(response) = extension.oneshot(Request::from_parts(head, body)).await;
    Ok(response.map(Full::new))
}

/// The Cluster is an object of its API as it is stored: nothing is added except a status where there is none yet, and
/// nothing is left out except what only the user who applies it needs.
fn check_cluster(cluster: &Map<String, Value>, is_created: bool, version: &str) {
    let keys: Vec<&str> = cluster.keys().map(String::as_str).collect();
    assert_eq!(keys, ["apiVersion", "kind", "metadata", "spec", "status"]);
    // Before it is created there is nothing to say about it.
    assert_eq!(cluster["status"].as_object().is_some_and(|status| !status.is_empty()), is_created);
    assert_eq!(
        (&cluster["apiVersion"], &cluster["kind"]),
        (&json!("cluster.x-k8s.io/v1beta2"), &json!("Cluster"))
    );
    let metadata = cluster["metadata"].as_object().unwrap();
    assert_eq!((&metadata["name"], &metadata["namespace"]), (&json!("c1"), &json!("default")));
    let known = [
        "annotations",
        "creationTimestamp",
        "finalizers",
        "generation",
        "labels",
        "name",
        "namespace",
        "resourceVersion",
        "uid",
    ];
    let unknown: Vec<&String> = metadata.keys().filter(|key| !known.contains(&key.as_str())).collect();
    assert_eq!(unknown, Vec::<&String>::new());
    let applied = "kubectl.kubernetes.io/last-applied-configuration";
    assert_eq!(cluster["metadata"]["annotations"].get(applied), None);
    assert_eq!(cluster["spec"]["topology"]["version"], version);
}

/// Checks a request of a hook, of which `payload` is what is said besides the Cluster.
fn check(received: &Received, hook: &str, handler: &str, payload: &Value, version: &str) {
    let path = format!("/hooks.runtime.cluster.x-k8s.io/v1alpha1/{}/{handler}", hook.to_lowercase());
    assert_eq!(received.line, format!("POST {path}?timeout=10s"));
    assert_eq!(received.content_type, "application/json");
    let mut fields = received.body.as_object().unwrap().clone();
    let Some(Value::Object(cluster)) = fields.remove("cluster") else {
        unreachable!("{hook} has no cluster")
    };
    check_cluster(&cluster, hook != "BeforeClusterCreate", version);
    let mut wanted = payload.clone();
    wanted["kind"] = json!(format!("{hook}Request"));
    wanted["apiVersion"] = json!("hooks.runtime.cluster.x-k8s.io/v1alpha1");
    assert_eq!(Value::Object(fields), wanted, "{hook}");
}

#[test]
fn requests_have_the_fields_of_the_contract_and_no_others() {
    let (log, wire) = (Log::default(), Wire::default());
    let server = listen(recorder(&log), &wire);
    simulate_upgrade(&request("v1.29.0", server.config("recorder"))).unwrap();

    let received = wire.lock().unwrap().clone();
    let (discoveries, calls): (Vec<_>, Vec<_>) =
        received.into_iter().partition(|received| received.line.contains("/discovery"));
    assert!(!discoveries.is_empty());
    for discovery in &discoveries {
        assert_eq!(discovery.line, "POST /hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery?timeout=10s");
        let body =
            json!({"kind": "DiscoveryRequest", "apiVersion": "hooks.runtime.cluster.x-k8s.io/v1alpha1"});
        assert_eq!(discovery.body, body);
    }
    let (creation, upgrade) = calls.split_at(2);
    check(&creation[0], "BeforeClusterCreate", "create", &json!({}), "v1.29.0");
    check(&creation[1], "AfterControlPlaneInitialized", "initialized", &json!({}), "v1.29.0");
    assert_eq!(upgrade.len(), EXPECTED.len());
    for (received, row) in upgrade.iter().zip(&EXPECTED) {
        let (hook, payload) = expected(row);
        let handler = match hook.as_str() {
            "BeforeClusterUpgrade" => "upgrade",
            "BeforeControlPlaneUpgrade" => "before-cp",
            "AfterControlPlaneUpgrade" => "after-cp",
            "BeforeWorkersUpgrade" => "before-workers",
            "AfterWorkersUpgrade" => "after-workers",
            _ => "done",
        };
        check(received, &hook, handler, &payload, "v1.33.0");
    }
}
