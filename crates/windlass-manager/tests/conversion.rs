//! v1beta1 on the embedded API, as clients see it: written, read, patched, applied, watched and deleted beside v1beta2.

#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use futures_util::StreamExt;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, WatchEvent, WatchParams};
use serde_json::{Value, json};
use windlass_controllers::conversion::ConversionWebhook;
use windlass_manager::{Data, Embedded, EmbeddedAdmission, install};

const CORE: &str = "/apis/cluster.x-k8s.io";
const DATA: &str = "cluster.x-k8s.io/conversion-data";

struct Answer {
    code: u16,
    warnings: Vec<String>,
    body: Value,
}

struct Server {
    embedded: Embedded,
}

impl Server {
    async fn start() -> Self {
        let embedded = Embedded::open(&Data::Memory, Some(&EmbeddedAdmission::new())).await.unwrap();
        install(embedded.server(), windlass_api::crds::manifests()).await.unwrap();
        Self { embedded }
    }

    async fn ask(&self, method: Method, path: &str, content_type: &str, body: &Value) -> Answer {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, content_type);
        let response = self.embedded.server().service().answer(request.body(Full::from(body)).unwrap()).await;
        let code = response.status().as_u16();
        let warnings = response.headers().get_all(header::WARNING).iter();
        let warnings = warnings.map(|warning| warning.to_str().unwrap().to_owned()).collect();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer { code, warnings, body: serde_json::from_slice(&body).unwrap_or_default() }
    }

    async fn get(&self, path: &str) -> Value {
        let answer = self.ask(Method::GET, path, "application/json", &Value::Null).await;
        assert_eq!(answer.code, 200, "{path}: {}", answer.body);
        answer.body
    }

    /// Creates an object where its `apiVersion` says.
    async fn create(&self, object: &Value) -> Answer {
        let plural = windlass_controllers::external::plural(object["kind"].as_str().unwrap());
        let path = format!("/apis/{}/namespaces/default/{plural}", object["apiVersion"].as_str().unwrap());
        self.ask(Method::POST, &path, "application/json", object).await
    }

    async fn created(&self, manifest: &str) -> Answer {
        let object: Value = parse(manifest);
        let answer = self.create(&object).await;
        assert_eq!(answer.code, 201, "{}", answer.body);
        answer
    }

    async fn apply(&self, path: &str, manager: &str, object: &Value) -> Answer {
        let path = format!("{path}?fieldManager={manager}");
        self.ask(Method::PATCH, &path, "application/apply-patch+yaml", object).await
    }

    async fn patch(&self, path: &str, patch: &Value) -> Answer {
        self.ask(Method::PATCH, path, "application/merge-patch+json", patch).await
    }

    fn client(&self) -> Client {
        self.embedded.client()
    }
}

fn parse(manifest: &str) -> Value {
    serde_saphyr::from_str(manifest).unwrap()
}

/// A class of v1beta1 with everything that a class needs.
const CLASS: &str = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata: {name: chained}
spec:
  infrastructure:
    ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevClusterTemplate, name: chained}
  controlPlane:
    ref: {apiVersion: controlplane.cluster.x-k8s.io/v1beta1, kind: KubeadmControlPlaneTemplate, name: chained}
    machineInfrastructure:
      ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevMachineTemplate, name: chained}
    nodeDrainTimeout: 2m
  kubernetesVersions: [v1.31.0, v1.32.0, v1.33.0]
  workers:
    machineDeployments:
    - class: default
      strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1}}
      template:
        bootstrap:
          ref: {apiVersion: bootstrap.cluster.x-k8s.io/v1beta1, kind: KubeadmConfigTemplate, name: chained}
        infrastructure:
          ref: {apiVersion: infrastructure.cluster.x-k8s.io/v1beta1, kind: DevMachineTemplate, name: chained}
";

const CLUSTER: &str = "
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata: {name: c1}
spec:
  clusterNetwork: {pods: {cidrBlocks: [192.168.0.0/16]}}
  topology:
    class: chained
    version: v1.31.0
    controlPlane: {replicas: 1, nodeDeletionTimeout: 10s}
    workers:
      machineDeployments:
      - {class: default, name: md-0, replicas: 2}
";

const TEMPLATES: [&str; 4] = [
    "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DevClusterTemplate
metadata: {name: chained}
spec: {template: {spec: {backend: {inMemory: {}}}}}
",
    "
apiVersion: infrastructure.cluster.x-k8s.io/v1beta1
kind: DevMachineTemplate
metadata: {name: chained}
spec: {template: {spec: {backend: {inMemory: {}}}}}
",
    "
apiVersion: controlplane.cluster.x-k8s.io/v1beta1
kind: KubeadmControlPlaneTemplate
metadata: {name: chained}
spec:
  template:
    spec:
      rolloutStrategy: {rollingUpdate: {maxSurge: 1}}
      kubeadmConfigSpec:
        clusterConfiguration: {apiServer: {extraArgs: {v: '4'}}}
        joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {eviction-hard: 'a'}}}
",
    "
apiVersion: bootstrap.cluster.x-k8s.io/v1beta1
kind: KubeadmConfigTemplate
metadata: {name: chained}
spec: {template: {spec: {joinConfiguration: {nodeRegistration: {kubeletExtraArgs: {b: '2', a: '1'}}}}}}
",
];

async fn with_cluster() -> Server {
    let api = Server::start().await;
    for template in TEMPLATES {
        api.created(template).await;
    }
    api.created(CLASS).await;
    api.created(CLUSTER).await;
    api
}

#[tokio::test]
async fn a_class_and_a_cluster_of_v1beta1_are_stored_as_v1beta2() {
    let api = with_cluster().await;
    let class = api.get(&format!("{CORE}/v1beta2/namespaces/default/clusterclasses/chained")).await;
    assert_eq!(
        class["spec"]["controlPlane"]["templateRef"],
        json!({"apiVersion": "controlplane.cluster.x-k8s.io/v1beta1", "kind": "KubeadmControlPlaneTemplate", "name": "chained"})
    );
    assert_eq!(class["spec"]["controlPlane"]["deletion"]["nodeDrainTimeoutSeconds"], 120);
    assert_eq!(class["spec"]["kubernetesVersions"], json!(["v1.31.0", "v1.32.0", "v1.33.0"]));
    let cluster = api.get(&format!("{CORE}/v1beta2/namespaces/default/clusters/c1")).await;
    assert_eq!(cluster["spec"]["topology"]["classRef"]["name"], "chained");
    assert_eq!(cluster["metadata"]["annotations"].get(DATA), None);
    let template = api
        .get("/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/default/kubeadmconfigtemplates/chained")
        .await;
    assert_eq!(
        template["spec"]["template"]["spec"]["joinConfiguration"]["nodeRegistration"]["kubeletExtraArgs"],
        json!([{"name": "a", "value": "1"}, {"name": "b", "value": "2"}])
    );
    // And what a client of v1beta1 sees is what it wrote.
    let cluster = api.get(&format!("{CORE}/v1beta1/namespaces/default/clusters/c1")).await;
    assert_eq!(cluster["apiVersion"], "cluster.x-k8s.io/v1beta1");
    assert_eq!(cluster["spec"]["topology"]["class"], "chained");
    assert_eq!(cluster["spec"]["topology"]["controlPlane"]["nodeDeletionTimeout"], "10s");
    assert!(cluster["metadata"]["annotations"][DATA].is_string());
    let clusters = api.get(&format!("{CORE}/v1beta1/clusters")).await;
    assert_eq!(clusters["items"][0]["spec"]["topology"]["class"], "chained");
}

#[tokio::test]
async fn the_older_version_is_deprecated_and_validated_as_the_stored_one() {
    let api = with_cluster().await;
    let answer =
        api.ask(Method::GET, &format!("{CORE}/v1beta1/clusters"), "application/json", &Value::Null).await;
    assert_eq!(
        answer.warnings,
        [r#"299 - "cluster.x-k8s.io/v1beta1 Cluster is deprecated; use cluster.x-k8s.io/v1beta2 Cluster""#]
    );
    let answer =
        api.ask(Method::GET, &format!("{CORE}/v1beta2/clusters"), "application/json", &Value::Null).await;
    assert_eq!(answer.warnings, [""; 0]);

    let mut cluster = parse(CLUSTER);
    cluster["metadata"]["name"] = "c2".into();
    cluster["spec"]["topology"]["version"] = "nonsense".into();
    let refused = api.create(&cluster).await;
    assert_eq!(refused.code, 422, "admission sees v1beta2: {}", refused.body);
    cluster["spec"]["topology"] =
        json!({"class": "chained", "classNamespace": "Not A Name", "version": "v1.31.0"});
    let refused = api.create(&cluster).await;
    assert_eq!(refused.code, 422);
    let message = refused.body["message"].as_str().unwrap();
    assert!(message.contains("spec.topology.classRef.namespace"), "{message}");
    cluster["spec"]["topology"]["controlPlane"] = json!({"nodeDrainTimeout": "soon"});
    let refused = api.create(&cluster).await;
    assert_eq!(refused.code, 400);
    assert_eq!(
        refused.body["message"],
        "cannot be converted to cluster.x-k8s.io/v1beta2: spec.topology.controlPlane.nodeDrainTimeout: \
         invalid duration \"soon\""
    );
}

#[tokio::test]
async fn a_patch_through_v1beta1_keeps_what_only_v1beta2_can_say() {
    let api = with_cluster().await;
    let config = json!({"apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfig",
        "metadata": {"name": "k"}, "spec": {
            "initConfiguration": {"timeouts": {"etcdAPICallSeconds": 5}},
            "files": [{"path": "/a", "content": "x", "append": false}]}});
    let created = api.create(&config).await;
    assert_eq!(created.code, 201, "{}", created.body);
    let path = |version: &str| {
        format!("/apis/bootstrap.cluster.x-k8s.io/{version}/namespaces/default/kubeadmconfigs/k")
    };
    let patch = json!({"spec": {"preKubeadmCommands": ["true"], "clusterConfiguration": {"featureGates": {"a": false}}}});
    let patched = api.patch(&path("v1beta1"), &patch).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    assert_eq!(patched.body["apiVersion"], "bootstrap.cluster.x-k8s.io/v1beta1");
    let spec = &api.get(&path("v1beta2")).await["spec"];
    assert_eq!(spec["initConfiguration"], config["spec"]["initConfiguration"]);
    assert_eq!(spec["files"], config["spec"]["files"]);
    assert_eq!(spec["preKubeadmCommands"], json!(["true"]));
    assert_eq!(spec["clusterConfiguration"], json!({"featureGates": {"a": false}}));
    // The whole object, sent back as it was read.
    let read = api.get(&path("v1beta1")).await;
    let put = api.ask(Method::PUT, &path("v1beta1"), "application/json", &read).await;
    assert_eq!(
        (put.code, &put.body["metadata"]["resourceVersion"]),
        (200, &read["metadata"]["resourceVersion"])
    );
}

#[tokio::test]
async fn conditions_of_both_sorts_are_where_each_version_has_them() {
    let api = with_cluster().await;
    let time = "2026-01-02T03:04:05Z";
    let status = json!({"status": {
        "conditions": [{"type": "Available", "status": "True", "reason": "Fine", "message": "", "lastTransitionTime": time}],
        "deprecated": {"v1beta1": {"conditions": [
            {"type": "Ready", "status": "False", "severity": "Info", "reason": "Waiting", "lastTransitionTime": time}]}},
        "initialization": {"infrastructureProvisioned": true}}});
    let path = format!("{CORE}/v1beta2/namespaces/default/clusters/c1/status");
    let patched = api.patch(&path, &status).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let old = api.get(&format!("{CORE}/v1beta1/namespaces/default/clusters/c1")).await;
    assert_eq!(old["status"]["conditions"][0]["type"], "Ready");
    assert_eq!(old["status"]["conditions"][0]["severity"], "Info");
    assert_eq!(old["status"]["v1beta2"]["conditions"][0]["type"], "Available");
    assert_eq!(old["status"]["infrastructureReady"], true);
    // A provider of v1beta1 writes its own through the status of v1beta1.
    let ready = json!({"status": {"controlPlaneReady": true}});
    let patched = api.patch(&format!("{CORE}/v1beta1/namespaces/default/clusters/c1/status"), &ready).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let new = api.get(&format!("{CORE}/v1beta2/namespaces/default/clusters/c1")).await;
    assert_eq!(
        new["status"]["initialization"],
        json!({"infrastructureProvisioned": true, "controlPlaneInitialized": true})
    );
    assert_eq!(new["status"]["deprecated"]["v1beta1"]["conditions"][0]["type"], "Ready");
}

#[tokio::test]
async fn applies_through_both_versions_own_what_they_say() {
    let api = with_cluster().await;
    let path = |version: &str| format!("{CORE}/{version}/namespaces/default/clusters/c1");
    let intent = |version: &str, topology: Value| {
        json!({"apiVersion": format!("cluster.x-k8s.io/{version}"), "kind": "Cluster",
            "metadata": {"name": "c1"}, "spec": {"topology": topology}})
    };
    let first = json!({"controlPlane": {"nodeDrainTimeout": "1m", "nodeVolumeDetachTimeout": "2m"}});
    let applied = api.apply(&path("v1beta1"), "old", &intent("v1beta1", first)).await;
    assert_eq!(applied.code, 200, "{}", applied.body);
    let managers = applied.body["metadata"]["managedFields"].as_array().unwrap();
    let own = managers.iter().find(|entry| entry["manager"] == "old").unwrap();
    assert_eq!(
        (&own["apiVersion"], &own["operation"]),
        (&json!("cluster.x-k8s.io/v1beta1"), &json!("Apply"))
    );
    assert!(own["fieldsV1"]["f:spec"]["f:topology"]["f:controlPlane"]["f:nodeDrainTimeout"].is_object());
    let deletion = |cluster: &Value| cluster["spec"]["topology"]["controlPlane"]["deletion"].clone();
    let stored = api.get(&path("v1beta2")).await;
    assert_eq!(
        deletion(&stored),
        json!({"nodeDeletionTimeoutSeconds": 10, "nodeDrainTimeoutSeconds": 60, "nodeVolumeDetachTimeoutSeconds": 120})
    );
    // Another manager, of v1beta2, wants another value of a field that is owned at v1beta1.
    let other = intent("v1beta2", json!({"controlPlane": {"deletion": {"nodeDrainTimeoutSeconds": 90}}}));
    let conflict = api.apply(&path("v1beta2"), "new", &other).await;
    assert_eq!(conflict.code, 409, "{}", conflict.body);
    // What an apply does not say any more goes, and nothing else.
    let second = json!({"controlPlane": {"nodeDrainTimeout": "1m"}});
    let applied = api.apply(&path("v1beta1"), "old", &intent("v1beta1", second)).await;
    assert_eq!(applied.code, 200, "{}", applied.body);
    let stored = api.get(&path("v1beta2")).await;
    assert_eq!(deletion(&stored), json!({"nodeDeletionTimeoutSeconds": 10, "nodeDrainTimeoutSeconds": 60}));
    assert_eq!(stored["spec"]["topology"]["workers"]["machineDeployments"][0]["name"], "md-0");
}

#[tokio::test]
async fn a_watch_of_v1beta1_shows_what_is_written_in_v1beta2() {
    let api = with_cluster().await;
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("cluster.x-k8s.io", "v1beta1", "Cluster"));
    let clusters: Api<DynamicObject> = Api::namespaced_with(api.client(), "default", &kind);
    let mut events = clusters.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let Some(Ok(WatchEvent::Added(found))) = events.next().await else {
        unreachable!("the Cluster is there")
    };
    assert_eq!(found.data["spec"]["topology"]["class"], "chained");
    let patch =
        json!({"spec": {"topology": {"controlPlane": {"deletion": {"nodeDrainTimeoutSeconds": 600}}}}});
    let patched = api.patch(&format!("{CORE}/v1beta2/namespaces/default/clusters/c1"), &patch).await;
    assert_eq!(patched.code, 200, "{}", patched.body);
    let found = loop {
        match events.next().await.unwrap().unwrap() {
            WatchEvent::Modified(found) => break found,
            WatchEvent::Bookmark(_) => {}
            other => unreachable!("{other:?}"),
        }
    };
    assert_eq!(found.types.unwrap().api_version, "cluster.x-k8s.io/v1beta1");
    assert_eq!(found.data["spec"]["topology"]["controlPlane"]["nodeDrainTimeout"], "10m0s");
}

#[tokio::test]
async fn an_object_may_be_deleted_and_created_dry_through_v1beta1() {
    let api = with_cluster().await;
    let mut class = parse(CLASS);
    class["metadata"]["name"] = "dry".into();
    let path = format!("{CORE}/v1beta1/namespaces/default/clusterclasses?dryRun=All");
    let shown = api.ask(Method::POST, &path, "application/json", &class).await;
    assert_eq!((shown.code, &shown.body["apiVersion"]), (201, &json!("cluster.x-k8s.io/v1beta1")));
    assert_eq!(shown.body["spec"]["controlPlane"]["nodeDrainTimeout"], "2m0s");
    // A class in use is kept by admission, which knows v1beta2 alone.
    let path = format!("{CORE}/v1beta1/namespaces/default/clusterclasses/chained");
    let refused = api.ask(Method::DELETE, &path, "application/json", &Value::Null).await;
    assert!((400..500).contains(&refused.code), "{}", refused.body);
    let cluster = format!("{CORE}/v1beta1/namespaces/default/clusters/c1");
    let deleted = api.ask(Method::DELETE, &cluster, "application/json", &Value::Null).await;
    assert_eq!(deleted.code, 200, "{}", deleted.body);
}

#[tokio::test]
async fn the_webhook_answers_reviews_with_the_versions_that_crds_say() {
    let api = Server::start().await;
    let webhook = ConversionWebhook::new(api.client());
    let cluster = |group: &str| {
        json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c", "namespace": "ns1", "uid": "u"},
            "spec": {"infrastructureRef": {"apiGroup": group, "kind": "DevCluster", "name": "d"}}})
    };
    let review = |objects: Value| {
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": {"uid": "r-1",
            "desiredAPIVersion": "cluster.x-k8s.io/v1beta1", "objects": objects}})
        .to_string()
    };
    let old = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": "Cluster", "metadata": {"name": "a"}});
    let body = review(json!([cluster("infrastructure.cluster.x-k8s.io"), old]));
    let answer = webhook.review(body.as_bytes()).await.unwrap();
    assert_eq!(answer["response"]["uid"], "r-1");
    assert_eq!(answer["response"]["result"]["status"], "Success");
    let converted = &answer["response"]["convertedObjects"];
    assert_eq!(
        converted[0]["spec"]["infrastructureRef"],
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevCluster", "name": "d", "namespace": "ns1"})
    );
    assert_eq!(converted[1], old, "what is in the wanted version already stays");
    let body = review(json!([cluster("nowhere.example.com")]));
    let answer = webhook.review(body.as_bytes()).await.unwrap();
    assert_eq!(
        answer["response"]["result"],
        json!({"status": "Failure", "message": "Cluster ns1/c cannot be converted to cluster.x-k8s.io/v1beta1: \
            spec.infrastructureRef: no CRD of DevCluster in group \"nowhere.example.com\" says which version keeps a \
            contract"})
    );
    assert!(webhook.review(b"{}").await.is_err());
}

#[test]
fn the_versions_that_are_served_are_those_that_are_converted() {
    for manifest in windlass_api::crds::manifests() {
        let text = |pointer: &str| manifest.pointer(pointer).unwrap().as_str().unwrap().to_owned();
        let served: Vec<&str> = manifest["spec"]["versions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|version| version["name"].as_str().unwrap())
            .collect();
        let known = windlass_conversion::versions(&text("/spec/group"), &text("/spec/names/kind"));
        if served.len() > 1 || !known.is_empty() {
            assert_eq!(known, served, "{}", text("/metadata/name"));
        }
    }
}
