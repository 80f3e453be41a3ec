//! Manifests of clusters on the in-memory provider, without a ClusterClass.

use serde_json::{Value, json};
use windlass_api::names::{
    BOOTSTRAP_API_VERSION, BOOTSTRAP_GROUP, CLUSTER_API_VERSION, CLUSTER_NAME_LABEL,
    CONTROL_PLANE_API_VERSION, CONTROL_PLANE_GROUP, INFRASTRUCTURE_API_VERSION, INFRASTRUCTURE_GROUP,
};

/// A cluster to be: one control plane and groups of workers.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterManifests {
    name: String,
    version: String,
    control_plane: u32,
    workers: Vec<WorkerGroup>,
    startup: Startup,
}

/// A group of workers: a MachineDeployment and its templates.
#[derive(Debug, Clone, PartialEq)]
pub struct WorkerGroup {
    name: String,
    replicas: u32,
    strategy: Value,
    generation: u32,
    version: Option<String>,
    extra: Value,
}

/// How long the parts of a machine take to start, in seconds, and the fraction by which that varies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Startup {
    /// The virtual machine.
    pub vm: f64,
    /// The Node, and on control planes etcd and the API server.
    pub node: f64,
    /// Up to this fraction longer.
    pub jitter: f64,
}

impl Default for Startup {
    fn default() -> Self {
        // What end-to-end tests of Cluster API use.
        Self { vm: 10.0, node: 2.0, jitter: 0.2 }
    }
}

impl ClusterManifests {
    /// A cluster with so many control plane machines, and no workers.
    pub fn new(name: &str, version: &str, control_plane: u32) -> Self {
        Self {
            name: name.to_owned(),
            version: version.to_owned(),
            control_plane,
            workers: Vec::new(),
            startup: Startup::default(),
        }
    }

    /// Adds a group of workers.
    #[must_use]
    pub fn workers(mut self, group: WorkerGroup) -> Self {
        self.workers.push(group);
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
        let mut objects = vec![self.infrastructure(), self.cluster()];
        objects.extend(self.control_plane_objects());
        objects.extend(self.workers.iter().flat_map(|group| self.worker_objects(group)));
        objects
    }

    /// The objects of a group of workers, for example the desired ones.
    pub fn worker_objects(&self, group: &WorkerGroup) -> Vec<Value> {
        let template = group.template_name(&self.name);
        let bootstrap = json!({"apiVersion": BOOTSTRAP_API_VERSION, "kind": "KubeadmConfigTemplate",
            "metadata": self.metadata(&template), "spec": {"template": {"spec": {"joinConfiguration": {}}}}});
        let infrastructure = self.machine_template(&template, &group.extra);
        let version = group.version.as_ref().unwrap_or(&self.version);
        let name = group.deployment_name(&self.name);
        let labels = json!({CLUSTER_NAME_LABEL: self.name, "group": group.name});
        let reference = |group: &str, kind: &str| json!({"apiGroup": group, "kind": kind, "name": template});
        let deployment = json!({"apiVersion": CLUSTER_API_VERSION, "kind": "MachineDeployment",
            "metadata": self.metadata(&name),
            "spec": {"clusterName": self.name, "replicas": group.replicas,
                "rollout": {"strategy": group.strategy},
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels},
                    "spec": {"clusterName": self.name, "version": version,
                        "bootstrap": {"configRef": reference(BOOTSTRAP_GROUP, "KubeadmConfigTemplate")},
                        "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevMachineTemplate")}}}});
        vec![bootstrap, infrastructure, deployment]
    }

    fn cluster(&self) -> Value {
        let reference =
            |group: &str, kind: &str, name: &str| json!({"apiGroup": group, "kind": kind, "name": name});
        json!({"apiVersion": CLUSTER_API_VERSION, "kind": "Cluster", "metadata": self.metadata(&self.name),
            "spec": {"clusterNetwork": {"pods": {"cidrBlocks": ["192.168.0.0/16"]}, "serviceDomain": "cluster.local"},
                "controlPlaneRef": reference(CONTROL_PLANE_GROUP, "KubeadmControlPlane", &self.control_plane_name()),
                "infrastructureRef": reference(INFRASTRUCTURE_GROUP, "DevCluster", &self.name)}})
    }

    fn infrastructure(&self) -> Value {
        json!({"apiVersion": INFRASTRUCTURE_API_VERSION, "kind": "DevCluster", "metadata": self.metadata(&self.name),
            "spec": {"backend": {"inMemory": {}}}})
    }

    fn control_plane_objects(&self) -> [Value; 2] {
        let name = self.control_plane_name();
        let reference = json!({"apiGroup": INFRASTRUCTURE_GROUP, "kind": "DevMachineTemplate", "name": name});
        let control_plane = json!({"apiVersion": CONTROL_PLANE_API_VERSION, "kind": "KubeadmControlPlane",
            "metadata": self.metadata(&name),
            "spec": {"replicas": self.control_plane, "version": self.version,
                "machineTemplate": {"spec": {"infrastructureRef": reference}},
                "kubeadmConfigSpec": {"clusterConfiguration": {}, "initConfiguration": {}, "joinConfiguration": {}}}});
        [self.machine_template(&name, &json!({})), control_plane]
    }

    fn machine_template(&self, name: &str, metadata: &Value) -> Value {
        let part = |seconds: f64| {
            let millis = format!("{}ms", (seconds * 1000.0).round());
            json!({"provisioning": {"startupDuration": millis, "startupJitter": self.startup.jitter.to_string()}})
        };
        let (vm, node) = (part(self.startup.vm), part(self.startup.node));
        json!({"apiVersion": INFRASTRUCTURE_API_VERSION, "kind": "DevMachineTemplate", "metadata": self.metadata(name),
            "spec": {"template": {"metadata": metadata, "spec": {"backend": {"inMemory":
                {"vm": vm, "node": node, "etcd": node, "apiServer": node}}}}}})
    }

    fn metadata(&self, name: &str) -> Value {
        json!({"name": name, "namespace": "default", "labels": {CLUSTER_NAME_LABEL: self.name}})
    }

    fn control_plane_name(&self) -> String {
        format!("{}-control-plane", self.name)
    }
}

impl WorkerGroup {
    /// A group of so many workers, rolled out one at a time.
    pub fn new(name: &str, replicas: u32) -> Self {
        Self {
            name: name.to_owned(),
            replicas,
            strategy: json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}),
            generation: 1,
            version: None,
            extra: json!({}),
        }
    }

    /// How many workers.
    #[must_use]
    pub fn replicas(mut self, replicas: u32) -> Self {
        self.replicas = replicas;
        self
    }

    /// Replaces machines within these limits, each a number or a percentage such as `"25%"`.
    #[must_use]
    pub fn rolling_update(mut self, max_surge: impl Into<Value>, max_unavailable: impl Into<Value>) -> Self {
        let limits = json!({"maxSurge": max_surge.into(), "maxUnavailable": max_unavailable.into()});
        self.strategy = json!({"type": "RollingUpdate", "rollingUpdate": limits});
        self
    }

    /// Replaces machines only when a user deletes them.
    #[must_use]
    pub fn on_delete(mut self) -> Self {
        self.strategy = json!({"type": "OnDelete"});
        self
    }

    /// Refers to templates of this number, which are made under another name. Changing it rolls all machines out.
    #[must_use]
    pub fn generation(mut self, generation: u32) -> Self {
        self.generation = generation;
        self
    }

    /// The Kubernetes version of the group, if it is another than that of the control plane.
    #[must_use]
    pub fn version(mut self, version: &str) -> Self {
        self.version = Some(version.to_owned());
        self
    }

    /// Annotations of the infrastructure of its machines, for example to make them fail.
    #[must_use]
    pub fn machine_annotation(mut self, annotation: &str, value: &str) -> Self {
        self.extra["annotations"][annotation] = value.into();
        self
    }

    /// Without annotations of the infrastructure.
    #[must_use]
    pub fn clean(mut self) -> Self {
        self.extra = json!({});
        self
    }

    /// The name of its MachineDeployment.
    pub fn deployment_name(&self, cluster: &str) -> String {
        format!("{cluster}-{}", self.name)
    }

    pub(crate) fn template_name(&self, cluster: &str) -> String {
        format!("{cluster}-{}-{}", self.name, self.generation)
    }
}
