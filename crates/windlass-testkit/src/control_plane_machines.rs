//! A stand-in for everything between a Machine of a control plane and its Node. It is not under test; its decisions are as few
//! as possible.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt};
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::Machine;
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::KCP_CLEANUP_ANNOTATION;
use windlass_etcd::MemoryEtcd;
use windlass_runtime::{Cache, Context, Manager, ObjectKey, Outcome, Reconciler, WriteError};

const FINALIZER: &str = "test.io/stand-in";
const PODS: [&str; 4] = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"];

/// Machine controller and providers in one: brings a Machine up ten seconds after its parts are there, and lets it go when its
/// hooks are off.
pub struct ControlPlaneMachines {
    machines: Cache<Machine>,
    configs: Cache<KubeadmConfig>,
    infrastructure: Cache<DevMachine>,
    workload: Client,
    etcd: MemoryEtcd,
}

impl Reconciler for ControlPlaneMachines {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        let Some(machine) = self.machines.get(key) else { return Ok(Outcome::done()) };
        let writer = context.writer::<Machine>();
        if machine.meta().deletion_timestamp.is_some() {
            return self.delete(&machine, context).await;
        }
        if machine.finalizers().is_empty() {
            writer.patch(&machine, json!({"metadata": {"finalizers": [FINALIZER]}})).await?;
            return Ok(Outcome::done());
        }
        if self.configs.get(key).is_none() || self.infrastructure.get(key).is_none() {
            return Ok(Outcome::after(Duration::from_secs(1)));
        }
        let age = context.now().duration_since(machine.creation_timestamp().unwrap().0);
        if age.as_secs() < 10 {
            return Ok(Outcome::after(Duration::from_secs(1)));
        }
        if machine.status.node_ref.is_none() {
            self.bring_up(&machine).await;
            let status = json!({"status": {
                "nodeRef": {"name": key.name},
                "nodeInfo": {"kubeletVersion": machine.spec.version, "machineID": "", "systemUUID": "", "bootID": "",
                    "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "",
                    "operatingSystem": "", "architecture": ""},
                "initialization": {"infrastructureProvisioned": true, "bootstrapDataSecretCreated": true},
            }});
            writer.patch_status(&machine, status).await?;
            return Ok(Outcome::done());
        }
        self.summarise(&machine, context).await
    }
}

impl ControlPlaneMachines {
    /// Adds it to a manager. Nodes and pods are written to the workload API, members join its etcd.
    pub fn register(manager: &Manager, workload: &Client, etcd: &MemoryEtcd) {
        let machines: Cache<Machine> = manager.cache();
        let stand_in = Self {
            machines: machines.clone(),
            configs: manager.cache(),
            infrastructure: manager.cache(),
            workload: workload.clone(),
            etcd: etcd.clone(),
        };
        manager.controller("stand-in", &machines).register(stand_in);
    }

    async fn bring_up(&self, machine: &Machine) {
        let name = machine.name_any();
        let post = PostParams::default();
        let nodes: Api<Node> = Api::all(self.workload.clone());
        let node = json!({"metadata": {"name": name}, "spec": {}});
        if nodes.create(&post, &serde_json::from_value(node).unwrap()).await.is_err() {
            // It was there before a crash.
            return;
        }
        self.etcd.join(&name).unwrap();
        let pods: Api<Pod> = Api::namespaced(self.workload.clone(), "kube-system");
        let namespaces: Api<k8s_openapi::api::core::v1::Namespace> = Api::all(self.workload.clone());
        let system = json!({"metadata": {"name": "kube-system"}});
        let _ = namespaces.create(&post, &serde_json::from_value(system).unwrap()).await;
        for component in PODS {
            let pod = json!({
                "metadata": {"name": format!("{component}-{name}"),
                    "labels": {"component": component, "tier": "control-plane"}},
                "spec": {"nodeName": name, "containers": [{"name": component, "image": "i"}]},
            });
            pods.create(&post, &serde_json::from_value(pod).unwrap()).await.unwrap();
            let ready =
                json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
            let pod = format!("{component}-{name}");
            pods.patch_status(&pod, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
        }
        let maps: Api<ConfigMap> = Api::namespaced(self.workload.clone(), "kube-system");
        let configuration = format!("kubernetesVersion: {}\nclusterName: c1\n", machine.spec.version);
        let map =
            json!({"metadata": {"name": "kubeadm-config"}, "data": {"ClusterConfiguration": configuration}});
        let _ = maps.create(&post, &serde_json::from_value(map).unwrap()).await;
        let sets: Api<DaemonSet> = Api::namespaced(self.workload.clone(), "kube-system");
        let image = format!("registry.k8s.io/kube-proxy:{}", machine.spec.version);
        let proxy = json!({"metadata": {"name": "kube-proxy"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}},
                "spec": {"containers": [{"name": "kube-proxy", "image": image}]}}}});
        let _ = sets.create(&post, &serde_json::from_value(proxy).unwrap()).await;
    }

    /// `Ready` if all gates are.
    async fn summarise(&self, machine: &Machine, context: &Context) -> Result<Outcome, WriteError> {
        let conditions = &machine.status.conditions;
        let holds = |type_: &str| conditions.iter().any(|c| c.type_ == type_ && c.status == "True");
        let ready = machine.spec.readiness_gates.iter().all(|gate| holds(&gate.condition_type));
        if ready != holds("Ready") {
            let mut all: Vec<_> = conditions
                .iter()
                .filter(|condition| condition.type_ != "Ready" && condition.type_ != "Available")
                .cloned()
                .collect();
            for type_ in ["Ready", "Available"] {
                let status = if ready { "True" } else { "False" };
                let condition = json!({"type": type_, "status": status, "reason": "StandIn", "message": "",
                    "lastTransitionTime": context.now().to_string()});
                all.push(serde_json::from_value(condition).unwrap());
            }
            let writer = context.writer::<Machine>();
            writer.patch_status(machine, json!({"status": {"conditions": all}})).await?;
        }
        Ok(Outcome::done())
    }

    async fn delete(&self, machine: &Machine, context: &Context) -> Result<Outcome, WriteError> {
        let writer = context.writer::<Machine>();
        if machine.annotations().contains_key(KCP_CLEANUP_ANNOTATION) {
            let waits =
                |c: &&k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition| c.type_ == "Deleting";
            if machine.status.conditions.iter().find(waits).is_none() {
                let mut all = machine.status.conditions.clone();
                let condition = json!({"type": "Deleting", "status": "True", "reason": "WaitingForPreTerminateHook",
                    "message": "", "lastTransitionTime": context.now().to_string()});
                all.push(serde_json::from_value(condition).unwrap());
                writer.patch_status(machine, json!({"status": {"conditions": all}})).await?;
            }
            return Ok(Outcome::done());
        }
        let name = machine.name_any();
        let (delete, key) = (DeleteParams::default(), ObjectKey::of(machine));
        self.etcd.stop(&name);
        let nodes: Api<Node> = Api::all(self.workload.clone());
        let _ = nodes.delete(&name, &delete).await;
        let pods: Api<Pod> = Api::namespaced(self.workload.clone(), "kube-system");
        for component in PODS {
            let _ = pods.delete(&format!("{component}-{name}"), &delete.clone().grace_period(0)).await;
        }
        if let Some(config) = self.configs.get(&key) {
            context.writer::<KubeadmConfig>().delete(&config).await?;
        }
        if let Some(infrastructure) = self.infrastructure.get(&key) {
            context.writer::<DevMachine>().delete(&infrastructure).await?;
        }
        if !machine.finalizers().is_empty() {
            writer.patch(machine, json!({"metadata": {"finalizers": []}})).await?;
        }
        Ok(Outcome::done())
    }
}
