//! A management API, a workload API, and a stand-in for everything between a Machine and its Node.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::{Api, Patch, PatchParams};
use kube::{Resource, ResourceExt};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::infrastructure::DevMachineTemplate;
use windlass_controllers::control_plane::ControlPlaneReconciler;
use windlass_controllers::external::Externals;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_runtime::{Manager, Running};
use windlass_testkit::{ControlPlaneMachines, Options};

/// The kinds that take part; each one costs every test a little time.
const KINDS: &[&str] = &[
    "Cluster",
    "DevMachine",
    "DevMachineTemplate",
    "KubeadmConfig",
    "KubeadmControlPlane",
    "Machine",
    "MachinePool",
];

pub(crate) struct World {
    kit: windlass_testkit::World,
    manager: Mutex<Option<Manager>>,
}

windlass_testkit::deref_to_kit!(World);

impl World {
    pub(crate) async fn new() -> Self {
        let kit = windlass_testkit::World::new(Options::new().kinds(KINDS).with_workload()).await;
        Self { kit, manager: Mutex::default() }
    }

    /// Starts the controllers, as a process would.
    pub(crate) fn start(&self) -> Running {
        let manager = self.kit.manager(7);
        let access = self.one_workload();
        ControlPlaneReconciler::register(&manager, Externals::new(), access, InPlaceExtensions::none());
        ControlPlaneMachines::register(&manager, self.workload(), self.etcd());
        *self.manager.lock().unwrap() = Some(manager.clone());
        manager.start()
    }

    /// A Cluster whose infrastructure is there, and a control plane that it owns.
    pub(crate) async fn create(&self, spec: Value) {
        self.create_cluster().await;
        self.create_template("t1").await;
        self.create_control_plane(spec).await;
    }

    pub(crate) async fn create_cluster(&self) {
        let cluster = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster",
            "metadata": {"name": "c1", "namespace": windlass_testkit::NAMESPACE},
            "spec": {"controlPlaneEndpoint": {"host": "10.0.0.1", "port": 6443},
                "controlPlaneRef": {"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane",
                    "name": "cp"}},
        });
        self.kit.create::<Cluster>(cluster).await;
        let status = json!({"initialization": {"infrastructureProvisioned": true},
            "failureDomains": [{"name": "a", "controlPlane": true}, {"name": "b", "controlPlane": true},
                {"name": "c", "controlPlane": true}]});
        self.patch_status::<Cluster>("c1", status).await;
    }

    pub(crate) async fn create_template(&self, name: &str) {
        let template = json!({
            "apiVersion": DevMachineTemplate::API_VERSION, "kind": DevMachineTemplate::KIND,
            "metadata": {"name": name, "namespace": windlass_testkit::NAMESPACE},
            "spec": {"template": {"spec": {"backend": {"inMemory": {}}}}},
        });
        self.kit.create::<DevMachineTemplate>(template).await;
    }

    pub(crate) async fn create_control_plane(&self, spec: Value) {
        let mut control_plane = json!({
            "apiVersion": "controlplane.cluster.x-k8s.io/v1beta2", "kind": "KubeadmControlPlane",
            "metadata": {"name": "cp", "namespace": windlass_testkit::NAMESPACE,
                "labels": {"cluster.x-k8s.io/cluster-name": "c1"}},
            "spec": {"replicas": 3, "version": "v1.32.0", "machineTemplate": {"spec": {"infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "DevMachineTemplate", "name": "t1"}}}},
        });
        for (key, value) in spec.as_object().unwrap() {
            control_plane["spec"][key] = value.clone();
        }
        self.kit.create::<KubeadmControlPlane>(control_plane).await;
    }

    pub(crate) async fn patch(&self, patch: Value) {
        self.kit.patch::<KubeadmControlPlane>("cp", patch).await;
    }

    pub(crate) async fn control_plane(&self) -> KubeadmControlPlane {
        self.get("cp").await
    }

    pub(crate) async fn machines(&self) -> Vec<Machine> {
        self.list().await
    }

    pub(crate) async fn names(&self) -> Vec<String> {
        self.machines().await.iter().map(|machine| machine.name_any()).collect()
    }

    pub(crate) async fn secret(&self, name: &str) -> Option<Secret> {
        self.find(name).await
    }

    /// The message of a condition of the control plane, after its status and reason.
    pub(crate) async fn condition(&self, type_: &str) -> String {
        let control_plane = self.control_plane().await;
        let condition = control_plane.status.conditions.iter().find(|condition| condition.type_ == type_);
        let text = condition.map(|found| format!("{} {} {}", found.status, found.reason, found.message));
        text.unwrap_or_default().trim_end().to_owned()
    }

    pub(crate) async fn set_machine_conditions(&self, name: &str, conditions: &[(&str, &str)]) {
        let mut all = self.get::<Machine>(name).await.status.conditions;
        for (type_, status) in conditions {
            all.retain(|condition| condition.type_ != *type_);
            all.push(
                serde_json::from_value(
                    json!({"type": type_, "status": status, "reason": "Test", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}),
                )
                .unwrap(),
            );
        }
        self.patch_status::<Machine>(name, json!({"conditions": all})).await;
    }

    /// Makes the pod of a component ready or not.
    pub(crate) async fn set_pod_ready(&self, pod: &str, ready: bool) {
        let pods: Api<Pod> = Api::namespaced(self.workload().clone(), "kube-system");
        let status = if ready { "True" } else { "False" };
        let patch =
            json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": status}]}});
        pods.patch_status(pod, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    }

    /// Lets time pass until this many Machines are there, all up to date and healthy, and nothing goes on; at most an
    /// hour.
    pub(crate) async fn settled(&self, replicas: usize) {
        for _ in 0..360 {
            tokio::time::sleep(Duration::from_secs(10)).await;
            let status = self.control_plane().await.status;
            let all = Some(i32::try_from(replicas).unwrap());
            let counted = [status.replicas, status.up_to_date_replicas, status.ready_replicas];
            let machines = self.machines().await;
            let deleting = machines.iter().any(|machine| machine.meta().deletion_timestamp.is_some());
            if counted == [all; 3] && machines.len() == replicas && !deleting {
                return;
            }
        }
        self.give_up("it does not settle").await;
    }

    /// Lets time pass until a check holds; at most an hour.
    pub(crate) async fn until(&self, what: &str, mut check: impl AsyncFnMut() -> bool) {
        for _ in 0..720 {
            tokio::time::sleep(Duration::from_secs(5)).await;
            if check().await {
                return;
            }
        }
        self.give_up(what).await;
    }

    /// Says what is known, to explain a failing test.
    async fn give_up(&self, what: &str) {
        let status = serde_json::to_string_pretty(&self.control_plane().await.status).unwrap();
        let failing = self.manager.lock().unwrap().as_ref().map(Manager::failing);
        unreachable!("{what}: {status}\n{failing:#?}\n{:#?}", self.names().await);
    }

    /// The most Machines and the fewest that were there together, from the journal of writes.
    pub(crate) fn most_and_fewest(&self, before: usize) -> (usize, usize) {
        let (mut present, mut most, mut fewest) = (before, before, before);
        let mut known = std::collections::BTreeSet::new();
        for write in self.faults.journal() {
            if write.kind.kind != "Machine" {
                continue;
            }
            let by = write.by.as_ref().map(|(controller, _)| controller.as_str()).unwrap_or_default();
            match (by, write.verb.to_string().as_str()) {
                ("kubeadmcontrolplane", "apply") if known.insert(write.key.clone()) => present += 1,
                ("kubeadmcontrolplane", "delete") => present -= 1,
                _ => {}
            }
            most = most.max(present);
            fewest = fewest.min(present);
        }
        (most, fewest)
    }
}

/// Labels of an object as JSON, for comparison.
pub(crate) fn labels<K: Resource>(object: &K) -> BTreeMap<String, String> {
    object.meta().labels.clone().unwrap_or_default()
}
