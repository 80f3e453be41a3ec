//! The kinds of Cluster API in the embedded API: their definitions are accepted, and do what they say.

#![expect(clippy::panic, clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::fmt::Debug;

use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_api::addons::ClusterResourceSet;
use windlass_api::bootstrap::{KubeadmConfig, KubeadmConfigTemplate};
use windlass_api::cluster::{
    Cluster, ClusterClass, Machine, MachineDeployment, MachineDrainRule, MachineHealthCheck, MachinePool,
    MachineSet,
};
use windlass_api::control_plane::{KubeadmControlPlane, KubeadmControlPlaneTemplate};
use windlass_api::infrastructure::{
    DevCluster, DevClusterTemplate, DevMachine, DevMachinePool, DevMachinePoolTemplate, DevMachineTemplate,
};
use windlass_apiserver::{ApiServer, Options};
use windlass_store::{History, Store};

/// An API with all definitions in it, and a client of it.
async fn cluster_api() -> (ApiServer, Client) {
    let server =
        ApiServer::start(Store::in_memory(History::default()), Options::new().seed(1)).await.unwrap();
    let client = Client::new(server.service(), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in windlass_api::crds::all() {
        let name = definition.name_any();
        let created = definitions.create(&PostParams::default(), &definition).await;
        let created = created.unwrap_or_else(|error| panic!("{name}: {error}"));
        let stored: Vec<&str> =
            created.spec.versions.iter().filter(|found| found.storage).map(|found| &*found.name).collect();
        assert_eq!(stored, ["v1beta2"], "{name}");
    }
    (server, client)
}

fn message(error: kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message,
        other => panic!("{other}"),
    }
}

fn reference(kind: &str) -> Value {
    json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": "r"})
}

fn class_reference(kind: &str) -> Value {
    json!({"templateRef": {"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": kind, "name": "r"}})
}

fn machine_spec() -> Value {
    json!({
        "clusterName": "c", "version": "v1.33.0",
        "bootstrap": {"configRef": reference("KubeadmConfigTemplate")},
        "infrastructureRef": reference("DevMachineTemplate"),
    })
}

fn group_spec() -> Value {
    json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}, "template": {"spec": machine_spec()}})
}

fn object<K: Resource<DynamicType = ()> + DeserializeOwned>(spec: Value) -> K {
    serde_json::from_value(json!({
        "apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": {"name": "x"}, "spec": spec,
    }))
    .unwrap()
}

async fn created<K>(client: &Client, spec: Value) -> K
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Serialize
        + DeserializeOwned
        + Clone
        + Debug
        + PartialEq,
{
    let api: Api<K> = Api::default_namespaced(client.clone());
    let created = api
        .create(&PostParams::default(), &object(spec))
        .await
        .unwrap_or_else(|error| panic!("{}: {error}", K::kind(&())));
    assert_eq!(api.get("x").await.unwrap(), created);
    assert_eq!(api.list(&ListParams::default()).await.unwrap().items, std::slice::from_ref(&created));
    created
}

#[tokio::test(start_paused = true)]
/// The defaults of the CRDs. What Cluster API leaves to its webhooks is filled in by admission, which is not here: a group that is
/// handed to the autoscaler must stay without replicas.
async fn an_object_of_every_kind_is_created_with_the_defaults_of_its_crd() {
    let (_server, client) = cluster_api().await;
    created::<Cluster>(&client, json!({"topology": {"classRef": {"name": "class"}, "version": "v1.33.0"}}))
        .await;
    created::<ClusterClass>(
        &client,
        json!({
            "infrastructure": class_reference("DevClusterTemplate"),
            "controlPlane": class_reference("KubeadmControlPlaneTemplate"),
        }),
    )
    .await;
    created::<Machine>(&client, machine_spec()).await;
    let set: MachineSet = created(&client, group_spec()).await;
    assert_eq!(set.spec.replicas, None);
    let deployment: MachineDeployment = created(&client, group_spec()).await;
    assert_eq!(deployment.spec.replicas, None);
    assert_eq!(deployment.spec.rollout.strategy, Default::default());
    let pool: MachinePool =
        created(&client, json!({"clusterName": "c", "template": {"spec": machine_spec()}})).await;
    assert_eq!(pool.spec.replicas, None);
    let check: MachineHealthCheck =
        created(&client, json!({"clusterName": "c", "selector": {"matchLabels": {"a": "b"}}})).await;
    assert_eq!(check.spec.checks.node_startup_timeout_seconds, Some(600));
    let control_plane: KubeadmControlPlane = created(
        &client,
        json!({
            "version": "v1.33.0",
            "machineTemplate": {"spec": {"infrastructureRef": reference("DevMachineTemplate")}},
        }),
    )
    .await;
    assert_eq!(control_plane.spec.replicas, None);
    assert_eq!(control_plane.spec.rollout.strategy, Default::default());
    created::<KubeadmControlPlaneTemplate>(&client, json!({"template": {"spec": {}}})).await;
    created::<KubeadmConfig>(&client, json!({})).await;
    created::<KubeadmConfigTemplate>(&client, json!({"template": {"spec": {"verbosity": 5}}})).await;
    let in_memory = json!({"backend": {"inMemory": {}}});
    created::<DevCluster>(&client, in_memory.clone()).await;
    created::<DevClusterTemplate>(&client, json!({"template": {"spec": in_memory}})).await;
    created::<DevMachine>(&client, in_memory.clone()).await;
    created::<DevMachineTemplate>(&client, json!({"template": {"spec": in_memory}})).await;
    let pool = json!({"template": in_memory});
    created::<DevMachinePool>(&client, pool.clone()).await;
    created::<DevMachinePoolTemplate>(&client, json!({"template": {"spec": pool}})).await;

    let extensions: Api<DynamicObject> = Api::all_with(client.clone(), &extension_config());
    let mut config = DynamicObject::new("x", &extension_config());
    config.data = json!({"spec": {"clientConfig": {"url": "https://e"}}});
    let config = extensions.create(&PostParams::default(), &config).await;
    assert_eq!(config.unwrap().data["spec"]["namespaceSelector"], json!({}));
}

fn extension_config() -> ApiResource {
    ApiResource {
        group: "runtime.cluster.x-k8s.io".into(),
        version: "v1beta2".into(),
        api_version: "runtime.cluster.x-k8s.io/v1beta2".into(),
        kind: "ExtensionConfig".into(),
        plural: "extensionconfigs".into(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_is_given_keeps_what_it_says() {
    let (_server, client) = cluster_api().await;
    let api: Api<MachineDeployment> = Api::default_namespaced(client.clone());
    for (name, strategy) in [
        ("rolling", json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "20%"}})),
        ("on-delete", json!({"type": "OnDelete"})),
        ("external", json!({"type": "External"})),
        ("fallback", json!({"type": "External", "fallbackRolling": {"maxSurge": 2}})),
    ] {
        let mut deployment: MachineDeployment = object(group_spec());
        deployment.metadata.name = Some(name.to_owned());
        deployment.spec.rollout.strategy = serde_json::from_value(strategy.clone()).unwrap();
        let created = api.create(&PostParams::default(), &deployment).await.unwrap();
        assert_eq!(serde_json::to_value(&created.spec.rollout.strategy).unwrap(), strategy, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_wrong_is_refused_with_its_field() {
    let (_server, client) = cluster_api().await;
    let refused = async |resource: ApiResource, spec: Value| {
        let api: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource);
        let mut object = DynamicObject::new("x", &resource);
        object.data = json!({"spec": spec});
        message(api.create(&PostParams::default(), &object).await.unwrap_err())
    };
    let with = |mut spec: Value, pointer: &str, value: Value| {
        let (parent, field) = pointer.rsplit_once('/').unwrap();
        spec.pointer_mut(parent).unwrap()[field] = value;
        spec
    };
    let deployment = || ApiResource::erase::<MachineDeployment>(&());
    let cluster = || ApiResource::erase::<Cluster>(&());
    let topology = json!({"topology": {"classRef": {"name": "class"}, "version": "v1.33.0"}});
    for (resource, spec, says) in [
        (cluster(), json!({"topology": {"version": "v1.33.0"}}), "spec.topology.classRef: Required value"),
        (cluster(), with(topology.clone(), "/topology/version", "".into()), "spec.topology.version"),
        (
            cluster(),
            with(topology.clone(), "/controlPlaneEndpoint", json!({"port": 70000})),
            "spec.controlPlaneEndpoint.port",
        ),
        (
            cluster(),
            with(
                topology.clone(),
                "/topology/workers",
                json!({"machineDeployments": [{"class": "a", "name": "b"}, {"class": "a", "name": "b"}]}),
            ),
            "spec.topology.workers.machineDeployments[1]: Duplicate value",
        ),
        (
            deployment(),
            with(group_spec(), "/rollout", json!({"strategy": {"type": "Recreate"}})),
            r#"spec.rollout.strategy.type: Unsupported value: "Recreate": supported values: "RollingUpdate", "OnDelete", "External""#,
        ),
        (
            deployment(),
            with(group_spec(), "/replicas", "three".into()),
            "spec.replicas: Invalid value: \"string\"",
        ),
        (
            deployment(),
            with(group_spec(), "/deletion", json!({"order": "Any"})),
            "spec.deletion.order: Unsupported value",
        ),
        (deployment(), json!({"clusterName": "c"}), "spec.template: Required value"),
        (
            ApiResource::erase::<Machine>(&()),
            with(machine_spec(), "/infrastructureRef/kind", "".into()),
            "spec.infrastructureRef.kind",
        ),
        (
            ApiResource::erase::<MachineHealthCheck>(&()),
            json!({"clusterName": "c", "selector": {}, "remediation": {"triggerIf": {"unhealthyInRange": "1-3"}}}),
            "spec.remediation.triggerIf.unhealthyInRange",
        ),
        (
            ApiResource::erase::<KubeadmControlPlane>(&()),
            json!({"version": "v1.33.0"}),
            "spec.machineTemplate: Required value",
        ),
        (ApiResource::erase::<DevMachine>(&()), json!({}), "spec.backend: Required value"),
        (
            ApiResource::erase::<KubeadmConfig>(&()),
            json!({"joinConfiguration": {"nodeRegistration": {"kubeletExtraArgs": [
                {"name": "v", "value": "1"}, {"name": "v", "value": "2"},
            ]}}}),
            "every argument may be there once",
        ),
        (
            ApiResource::erase::<KubeadmConfig>(&()),
            json!({"diskSetup": {"partitions": [{"device": "/dev/sdb"}]}}),
            "exactly one of layout and diskLayout must be set",
        ),
        (
            ApiResource::erase::<ClusterResourceSet>(&()),
            json!({"clusterSelector": {}, "resources": [{"kind": "ConfigMap", "name": "m"}]}),
            "spec.clusterSelector: Invalid value",
        ),
        (
            ApiResource::erase::<MachineDrainRule>(&()),
            json!({"drain": {"behavior": "Wait"}}),
            "spec.drain.behavior: Unsupported value",
        ),
    ] {
        let said = refused(resource, spec).await;
        assert!(said.contains(says), "expected {says:?} in {said:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn fields_that_no_code_looks_at_survive_and_unknown_ones_are_pruned() {
    let (_server, client) = cluster_api().await;
    let untyped: Api<DynamicObject> =
        Api::default_namespaced_with(client.clone(), &ApiResource::erase::<KubeadmConfig>(&()));
    let spec = json!({
        "clusterConfiguration": {
            "etcd": {"local": {"dataDir": "/d", "imageTag": "3.6"}},
            "apiServer": {"extraArgs": [{"name": "a", "value": "b"}]},
            "certificatesDir": "/certs",
        },
        "initConfiguration": {"bootstrapTokens": [{"token": "abcdef.0123456789abcdef", "ttlSeconds": 60}]},
        "joinConfiguration": {"nodeRegistration": {"taints": [], "imagePullSerial": false}, "controlPlane": {}},
        "users": [{"name": "u", "sudo": "ALL"}],
    });
    let mut object = DynamicObject::new("x", &ApiResource::erase::<KubeadmConfig>(&()));
    object.data = json!({"spec": spec});
    object.data["spec"]["clusterConfiguration"]["notOfKubeadm"] = json!({"deep": [1]});
    untyped.create(&PostParams::default(), &object).await.unwrap();

    let api: Api<KubeadmConfig> = Api::default_namespaced(client);
    let mut config = api.get("x").await.unwrap();
    config.spec.verbosity = Some(3);
    api.replace("x", &PostParams::default(), &config).await.unwrap();
    let mut expected = spec;
    expected["verbosity"] = 3.into();
    assert_eq!(untyped.get("x").await.unwrap().data["spec"], expected);
}

#[tokio::test(start_paused = true)]
async fn status_is_written_apart_and_groups_are_scaled() {
    let (_server, client) = cluster_api().await;
    let api: Api<MachineDeployment> = Api::default_namespaced(client.clone());
    let mut deployment: MachineDeployment = object(group_spec());
    deployment.status.replicas = Some(7);
    let created = api.create(&PostParams::default(), &deployment).await.unwrap();
    assert_eq!(created.status.replicas, None, "status does not come with the object");
    let status = json!({"status": {
        "replicas": 1, "selector": "a=b",
        "conditions": [{
            "type": "Available", "status": "True", "reason": "Available", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
    }});
    let written = api.patch_status("x", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
    assert_eq!(written.status.replicas, Some(1));
    assert_eq!(written.metadata.generation, created.metadata.generation);

    let scale = api.get_scale("x").await.unwrap();
    assert_eq!(scale.status.unwrap().selector.as_deref(), Some("a=b"));
    api.patch_scale("x", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 4}})))
        .await
        .unwrap();
    assert_eq!(api.get("x").await.unwrap().spec.replicas, Some(4));

    let twice = json!({"status": {"conditions": [
        {"type": "A", "status": "Perhaps", "reason": "R", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"},
    ]}});
    let said =
        message(api.patch_status("x", &PatchParams::default(), &Patch::Merge(&twice)).await.unwrap_err());
    assert!(said.contains("status.conditions[0].status: Unsupported value"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn conditions_merge_by_type_when_they_are_applied() {
    let (_server, client) = cluster_api().await;
    let api: Api<Machine> = Api::default_namespaced(client.clone());
    api.create(&PostParams::default(), &object(machine_spec())).await.unwrap();
    let condition = |type_: &str| {
        json!({
            "apiVersion": Machine::API_VERSION, "kind": Machine::KIND,
            "status": {"conditions": [{
                "type": type_, "status": "True", "reason": "R", "message": "",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]},
        })
    };
    for (manager, type_) in [("capi-kubeadmcontrolplane", "EtcdPodHealthy"), ("capi-machine", "Ready")] {
        let apply = PatchParams::apply(manager).force();
        api.patch_status("x", &apply, &Patch::Apply(condition(type_))).await.unwrap();
    }
    let types: Vec<String> =
        api.get("x").await.unwrap().status.conditions.into_iter().map(|condition| condition.type_).collect();
    assert_eq!(types, ["EtcdPodHealthy", "Ready"]);
}

#[tokio::test(start_paused = true)]
async fn columns_are_those_that_users_know() {
    let (server, client) = cluster_api().await;
    let api: Api<KubeadmControlPlane> = Api::default_namespaced(client.clone());
    let mut control_plane: KubeadmControlPlane = object(json!({
        "version": "v1.33.0", "replicas": 3,
        "machineTemplate": {"spec": {"infrastructureRef": reference("DevMachineTemplate")}},
    }));
    control_plane.metadata.labels =
        Some([("cluster.x-k8s.io/cluster-name".to_owned(), "c1".to_owned())].into());
    api.create(&PostParams::default(), &control_plane).await.unwrap();
    let status = json!({"status": {"replicas": 2, "conditions": [{
        "type": "Available", "status": "False", "reason": "NotAvailable", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }]}});
    api.patch_status("x", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();

    let request = http::Request::get(
        "/apis/controlplane.cluster.x-k8s.io/v1beta2/namespaces/default/kubeadmcontrolplanes",
    )
    .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")
    .body(Vec::new())
    .unwrap();
    let table: Value = client.request(request).await.unwrap();
    drop(server);
    let names: Vec<&str> = table["columnDefinitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|column| column["name"].as_str().unwrap())
        .collect();
    assert_eq!(
        names,
        [
            "Name",
            "Cluster",
            "Available",
            "Desired",
            "Current",
            "Ready",
            "Available",
            "Up-to-date",
            "Paused",
            "Initialized",
            "Age",
            "Version",
        ]
    );
    let cells = &table["rows"][0]["cells"];
    assert_eq!(
        [&cells[0], &cells[1], &cells[2], &cells[3], &cells[4]],
        [&json!("x"), &json!("c1"), &json!("False"), &json!(3), &json!(2)]
    );
    assert_eq!(cells[11], "v1.33.0");
}
