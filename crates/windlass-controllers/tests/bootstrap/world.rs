//! A management API, a workload API, and the controller of KubeadmConfigs alone. Machines are made by the tests.

use std::collections::BTreeMap;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::ResourceExt;
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_bootstrap::certificates::{Purpose, secret};
use windlass_controllers::bootstrap::KubeadmConfigs;
use windlass_controllers::external::Externals;
use windlass_runtime::{Running, owner_reference};
use windlass_testkit::{NAMESPACE, Options};

const KINDS: &[&str] = &["Cluster", "KubeadmConfig", "KubeadmControlPlane", "Machine", "MachinePool"];

pub(crate) struct World {
    kit: windlass_testkit::World,
}

windlass_testkit::deref_to_kit!(World);

impl World {
    /// A Cluster of a control plane whose infrastructure and certificates are there.
    pub(crate) async fn new() -> Self {
        let world = Self::empty().await;
        world.cluster(json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp"})).await;
        world.certificates().await;
        world
    }

    /// The APIs, and nothing in them.
    pub(crate) async fn empty() -> Self {
        let kit = windlass_testkit::World::new(Options::new().kinds(KINDS).with_workload()).await;
        let namespaces: Api<Namespace> = Api::all(kit.workload().clone());
        let system = json!({"metadata": {"name": "kube-system"}});
        let _ = namespaces.create(&PostParams::default(), &serde_json::from_value(system).unwrap()).await;
        Self { kit }
    }

    pub(crate) fn start(&self) -> Running {
        let manager = self.kit.manager(7);
        KubeadmConfigs::register(&manager, Externals::new(), self.one_workload());
        manager.start()
    }

    pub(crate) async fn cluster(&self, control_plane: Value) {
        let mut spec = json!({"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
            "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local"}});
        if !control_plane.is_null() {
            spec["controlPlaneRef"] = control_plane;
        }
        self.create_named::<Cluster>("c1", json!({}), spec).await;
        self.initialization(json!({"infrastructureProvisioned": true})).await;
    }

    pub(crate) async fn initialization(&self, initialization: Value) {
        self.patch_status::<Cluster>("c1", json!({"initialization": initialization})).await;
    }

    pub(crate) async fn initialized(&self) {
        self.initialization(json!({"controlPlaneInitialized": true})).await;
    }

    pub(crate) async fn certificates(&self) {
        let now = Timestamp::from_second(1_767_225_600).unwrap();
        let owner = owner_reference(&self.get::<Cluster>("c1").await).unwrap();
        for purpose in Purpose::ALL {
            let data = purpose.generate(now).unwrap().data();
            let made = secret(NAMESPACE, &purpose.secret_name("c1"), "c1", owner.clone(), data);
            self.create::<Secret>(serde_json::to_value(made).unwrap()).await;
        }
    }

    /// A Machine and the KubeadmConfig that it owns.
    pub(crate) async fn machine(&self, name: &str, is_control_plane: bool, spec: Value) {
        let mut labels = json!({"cluster.x-k8s.io/cluster-name": "c1"});
        if is_control_plane {
            labels["cluster.x-k8s.io/control-plane"] = "".into();
        }
        let machine = json!({"clusterName": "c1", "version": "v1.33.1",
            "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestMachine", "name": name}});
        let machine: Machine = self.create_named(name, json!({"labels": labels}), machine).await;
        let owner = owner_reference(&machine).unwrap();
        let metadata = json!({"labels": labels, "ownerReferences": [owner]});
        self.create_named::<KubeadmConfig>(name, metadata, spec).await;
    }

    /// A MachinePool and the KubeadmConfig that it owns.
    pub(crate) async fn pool(&self, name: &str, replicas: i32) {
        let labels = json!({"cluster.x-k8s.io/cluster-name": "c1"});
        let template = json!({"clusterName": "c1", "version": "v1.30.0",
            "bootstrap": {"configRef": {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": name}},
            "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "TestPool", "name": name}});
        let pool = json!({"clusterName": "c1", "replicas": replicas, "template": {"spec": template}});
        let pool: MachinePool = self.create_named(name, json!({"labels": labels}), pool).await;
        let owner = owner_reference(&pool).unwrap();
        let metadata = json!({"labels": labels, "ownerReferences": [owner]});
        self.create_named::<KubeadmConfig>(name, metadata, json!({})).await;
    }

    pub(crate) async fn config(&self, name: &str) -> KubeadmConfig {
        self.get(name).await
    }

    /// Status, reason and message of a condition.
    pub(crate) async fn condition(&self, name: &str, type_: &str) -> String {
        let config = self.config(name).await;
        let found = config.status.conditions.iter().find(|condition| condition.type_ == type_);
        let text = found.map(|found| format!("{} {} {}", found.status, found.reason, found.message));
        text.unwrap_or_default().trim_end().to_owned()
    }

    /// The data that a machine boots from, if they are there.
    pub(crate) async fn data(&self, name: &str) -> Option<String> {
        let secret: Secret = self.find(name).await?;
        assert_eq!(secret.type_.as_deref(), Some("cluster.x-k8s.io/secret"));
        assert_eq!(secret.owner_references()[0].kind, "KubeadmConfig");
        let data = secret.data.unwrap();
        assert_eq!(data["format"].0, b"cloud-config");
        Some(String::from_utf8(data["value"].0.clone()).unwrap())
    }

    /// The token that a KubeadmConfig has.
    pub(crate) async fn token(&self, name: &str) -> String {
        let config = serde_json::to_value(self.config(name).await.spec).unwrap();
        let token = config.pointer("/joinConfiguration/discovery/bootstrapToken/token");
        token.and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// The tokens of the workload cluster and until when they are good.
    pub(crate) async fn tokens(&self) -> BTreeMap<String, Timestamp> {
        let found = self.secrets().list(&ListParams::default()).await.unwrap().items.into_iter();
        found
            .filter(|secret| secret.type_.as_deref() == Some("bootstrap.kubernetes.io/token"))
            .map(|secret| {
                let data = secret.data.unwrap();
                let text = |key: &str| String::from_utf8(data[key].0.clone()).unwrap();
                let token = format!("{}.{}", text("token-id"), text("token-secret"));
                (token, text("expiration").parse().unwrap())
            })
            .collect()
    }

    pub(crate) fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.workload().clone(), "kube-system")
    }

    /// For how many more minutes a token is good.
    pub(crate) async fn minutes_left(&self, token: &str) -> i64 {
        self.tokens().await[token].duration_since(self.clock().now()).as_mins()
    }
}
