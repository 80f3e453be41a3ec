//! Manifests of clusters that a ClusterClass makes, on the in-memory provider.

use serde_json::{Value, json};
use windlass_api::names::{
    BOOTSTRAP_API_VERSION, CLUSTER_API_VERSION, CONTROL_PLANE_API_VERSION, INFRASTRUCTURE_API_VERSION,
};

use crate::manifests::Startup;

/// A ClusterClass with its templates, and a Cluster of it.
#[derive(Debug, Clone, PartialEq)]
pub struct TopologyManifests {
    name: String,
    version: String,
    control_plane: u32,
    workers: Vec<Workers>,
    versions: Vec<String>,
    plan_extension: Option<String>,
    annotations: Value,
    startup: Startup,
}

#[derive(Debug, Clone, PartialEq)]
struct Workers {
    name: String,
    replicas: u32,
    pool: bool,
    annotations: Value,
}

impl TopologyManifests {
    /// A cluster of a class, with so many control plane machines and no workers. The class lists no versions.
    pub fn new(name: &str, version: &str, control_plane: u32) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            control_plane,
            workers: Vec::new(),
            versions: Vec::new(),
            plan_extension: None,
            annotations: json!({}),
            startup: Startup::default(),
        }
    }

    /// So many control plane machines.
    #[must_use]
    pub fn control_plane(mut self, replicas: u32) -> Self {
        self.control_plane = replicas;
        self
    }

    /// Whether it has a worker group already.
    pub fn has_workers(&self) -> bool {
        !self.workers.is_empty()
    }

    /// Adds a MachineDeployment.
    #[must_use]
    pub fn machine_deployment(mut self, name: &str, replicas: u32) -> Self {
        self.workers.push(Workers { name: name.to_owned(), replicas, pool: false, annotations: json!({}) });
        self
    }

    /// Adds a MachinePool.
    #[must_use]
    pub fn machine_pool(mut self, name: &str, replicas: u32) -> Self {
        self.workers.push(Workers { name: name.to_owned(), replicas, pool: true, annotations: json!({}) });
        self
    }

    /// Gives the worker group that was added last an annotation.
    #[must_use]
    pub fn worker_annotation(mut self, key: &str, value: &str) -> Self {
        if let Some(group) = self.workers.last_mut() {
            group.annotations[key] = json!(value);
        }
        self
    }

    /// Gives the Cluster an annotation.
    #[must_use]
    pub fn annotation(mut self, key: &str, value: &str) -> Self {
        self.annotations[key] = json!(value);
        self
    }

    /// The versions that the class lists, from old to new.
    #[must_use]
    pub fn versions<T: Into<String>>(mut self, versions: impl IntoIterator<Item = T>) -> Self {
        self.versions = versions.into_iter().map(Into::into).collect();
        self
    }

    /// The handler that plans upgrades.
    #[must_use]
    pub fn plan_extension(mut self, handler: &str) -> Self {
        self.plan_extension = Some(handler.to_owned());
        self
    }

    /// How long machines take to start.
    #[must_use]
    pub fn startup(mut self, startup: Startup) -> Self {
        self.startup = startup;
        self
    }

    /// All objects, in an order in which they can be applied.
    pub fn objects(&self) -> Vec<Value> {
        let template = |api_version: &str, kind: &str, name: &str, spec: Value| {
            json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": "default"},
                "spec": {"template": {"spec": spec}}})
        };
        let machine = self.machine();
        let mut objects = vec![
            template(
                INFRASTRUCTURE_API_VERSION,
                "DevClusterTemplate",
                "quick",
                json!({"backend": {"inMemory": {}}}),
            ),
            template(
                INFRASTRUCTURE_API_VERSION,
                "DevMachineTemplate",
                "quick-control-plane",
                machine.clone(),
            ),
            template(INFRASTRUCTURE_API_VERSION, "DevMachineTemplate", "quick-worker", machine.clone()),
            template(
                CONTROL_PLANE_API_VERSION,
                "KubeadmControlPlaneTemplate",
                "quick",
                json!({"kubeadmConfigSpec":
                    {"clusterConfiguration": {}, "initConfiguration": {}, "joinConfiguration": {}}}),
            ),
            template(
                BOOTSTRAP_API_VERSION,
                "KubeadmConfigTemplate",
                "quick-worker",
                json!({"joinConfiguration": {}}),
            ),
        ];
        if self.workers.iter().any(|group| group.pool) {
            let spec = json!({"template": machine});
            objects.push(template(INFRASTRUCTURE_API_VERSION, "DevMachinePoolTemplate", "quick-pool", spec));
        }
        objects.push(self.class());
        objects.push(self.cluster());
        objects
    }

    fn class(&self) -> Value {
        let reference = |api_version: &str, kind: &str, name: &str| json!({"templateRef": {"apiVersion": api_version, "kind": kind, "name": name}});
        let bootstrap = reference(BOOTSTRAP_API_VERSION, "KubeadmConfigTemplate", "quick-worker");
        let mut control_plane = reference(CONTROL_PLANE_API_VERSION, "KubeadmControlPlaneTemplate", "quick");
        control_plane["machineInfrastructure"] =
            reference(INFRASTRUCTURE_API_VERSION, "DevMachineTemplate", "quick-control-plane");
        let mut workers = json!({"machineDeployments": [{"class": "default", "bootstrap": bootstrap,
            "infrastructure": reference(INFRASTRUCTURE_API_VERSION, "DevMachineTemplate", "quick-worker")}]});
        if self.workers.iter().any(|group| group.pool) {
            workers["machinePools"] = json!([{"class": "default", "bootstrap": bootstrap,
                "infrastructure": reference(INFRASTRUCTURE_API_VERSION, "DevMachinePoolTemplate", "quick-pool")}]);
        }
        let mut spec = json!({
            "infrastructure": reference(INFRASTRUCTURE_API_VERSION, "DevClusterTemplate", "quick"),
            "controlPlane": control_plane,
            "workers": workers,
        });
        if !self.versions.is_empty() {
            spec["kubernetesVersions"] = json!(self.versions);
        }
        if let Some(handler) = &self.plan_extension {
            spec["upgrade"] = json!({"external": {"generateUpgradePlanExtension": handler}});
        }
        json!({"apiVersion": CLUSTER_API_VERSION, "kind": "ClusterClass",
            "metadata": {"name": "quick", "namespace": "default"}, "spec": spec})
    }

    fn cluster(&self) -> Value {
        let entries = |pool: bool| -> Vec<Value> {
            let groups = self.workers.iter().filter(|group| group.pool == pool);
            let entry = |group: &Workers| {
                let mut entry = json!({"class": "default", "name": group.name, "replicas": group.replicas});
                if group.annotations != json!({}) {
                    entry["metadata"] = json!({"annotations": group.annotations});
                }
                entry
            };
            groups.map(entry).collect()
        };
        let mut workers = json!({});
        for (list, pool) in [("machineDeployments", false), ("machinePools", true)] {
            let entries = entries(pool);
            if !entries.is_empty() {
                workers[list] = json!(entries);
            }
        }
        let mut metadata = json!({"name": self.name, "namespace": "default"});
        if self.annotations != json!({}) {
            metadata["annotations"] = self.annotations.clone();
        }
        json!({"apiVersion": CLUSTER_API_VERSION, "kind": "Cluster", "metadata": metadata,
        "spec": {
            "clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local"},
            "topology": {
                "classRef": {"name": "quick"},
                "version": self.version,
                "controlPlane": {"replicas": self.control_plane},
                "workers": workers,
            },
        }})
    }

    fn machine(&self) -> Value {
        let part = |seconds: f64| {
            let millis = format!("{}ms", (seconds * 1000.0).round());
            json!({"provisioning": {"startupDuration": millis, "startupJitter": self.startup.jitter.to_string()}})
        };
        let (vm, node) = (part(self.startup.vm), part(self.startup.node));
        json!({"backend": {"inMemory": {"vm": vm, "node": node, "etcd": node, "apiServer": node}}})
    }
}
