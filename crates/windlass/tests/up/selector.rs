//! Which namespaces an extension is asked about, by the labels that they have now.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use serde_json::{Value, json};
use windlass_api::cluster::Cluster;
use windlass_extension::hooks::{
    BeforeClusterCreate, BeforeClusterCreateRequest, BeforeClusterCreateResponse, HookResponse,
};
use windlass_extension::{DevelopmentCertificate, Extension, Handler, Server, Tls};
use windlass_manager::{Data, Up, UpOptions};
use windlass_simulate::TopologyManifests;

use crate::apply::apply;

const PATIENCE: Duration = Duration::from_secs(120);

/// Names of the Clusters that the extension was asked about.
type Asked = Arc<Mutex<Vec<String>>>;

/// An extension on HTTPS that remembers what it is asked, and the object that registers it.
async fn extension(asked: &Asked) -> Value {
    let asked = Arc::clone(asked);
    let hear = move |_, request: BeforeClusterCreateRequest| {
        let cluster = request.cluster.name().unwrap_or_default().to_owned();
        asked.lock().unwrap().push(cluster);
        std::future::ready(BeforeClusterCreateResponse::success())
    };
    let handler = Handler::named("hear").timeout_seconds(10);
    let extension = Extension::new("ear").on(BeforeClusterCreate, handler, hear).build().unwrap();
    let certificate = DevelopmentCertificate::generate(["127.0.0.1"]).unwrap();
    let server = Server::new(extension, Tls::development(certificate));
    let server = server.bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let config = serde_saphyr::from_str(&server.manifest("127.0.0.1")).unwrap();
    tokio::spawn(server.run_until(std::future::pending()));
    config
}

/// Registers the extension, and waits until it is known as it is registered now.
async fn register(client: &Client, config: &Value) {
    apply(client, config).await.unwrap();
    let kind = GroupVersionKind::gvk("runtime.cluster.x-k8s.io", "v1beta2", "ExtensionConfig");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let begun = Instant::now();
    loop {
        let found = api.get("ear").await.unwrap();
        let conditions = found.data["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let is_known = |condition: &Value| {
            condition["type"] == "Discovered"
                && condition["status"] == "True"
                && condition["observedGeneration"].as_i64() == found.metadata.generation
        };
        if conditions.iter().any(is_known) {
            return;
        }
        assert!(begun.elapsed() < PATIENCE, "the extension is not known: {conditions:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

async fn label(client: &Client, namespace: &str, team: Option<&str>) {
    let object = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "labels": {"team": team}}});
    let api: Api<Namespace> = Api::all(client.clone());
    match api.get_opt(namespace).await.unwrap() {
        None => {
            drop(api.create(&Default::default(), &serde_json::from_value(object).unwrap()).await.unwrap())
        }
        Some(_) => {
            drop(api.patch(namespace, &PatchParams::default(), &Patch::Merge(object)).await.unwrap());
        }
    }
}

/// Creates a Cluster without machines and waits until its topology has been made, which is after the hook.
async fn create(client: &Client, namespace: &str, name: &str) {
    for mut object in TopologyManifests::new(name, "v1.33.0", 1).objects() {
        object["metadata"]["namespace"] = json!(namespace);
        apply(client, &object).await.unwrap();
    }
    let api: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    let begun = Instant::now();
    while api.get(name).await.unwrap().spec.control_plane_ref.is_none() {
        let conditions = api.get(name).await.unwrap().status.conditions;
        assert!(begun.elapsed() < PATIENCE, "{name} is not created: {conditions:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_extension_is_asked_about_the_namespaces_that_it_selects_at_the_time() {
    let up = Up::start(UpOptions::new(Data::Memory, "127.0.0.1:0".parse().unwrap())).await.unwrap();
    let client = up.client();
    let asked = Asked::default();
    let mut config = extension(&asked).await;
    config["spec"]["namespaceSelector"] = json!({"matchLabels": {"team": "blue"}});
    register(&client, &config).await;
    label(&client, "a", Some("blue")).await;
    label(&client, "b", Some("red")).await;
    create(&client, "a", "a1").await;
    create(&client, "b", "b1").await;
    assert_eq!(*asked.lock().unwrap(), ["a1"]);
    // Labels change, the extension does not.
    label(&client, "a", None).await;
    label(&client, "b", Some("blue")).await;
    create(&client, "a", "a2").await;
    create(&client, "b", "b2").await;
    assert_eq!(*asked.lock().unwrap(), ["a1", "b2"]);
    // So does the selector.
    config["spec"]["namespaceSelector"] = json!({"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["b"]}]});
    register(&client, &config).await;
    create(&client, "a", "a3").await;
    create(&client, "b", "b3").await;
    assert_eq!(*asked.lock().unwrap(), ["a1", "b2", "a3"]);
}
