//! An API with one Cluster and its templates, the two controllers, and a stand-in that brings machines up.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment, MachineSet};
use windlass_controllers::external::Externals;
use windlass_controllers::in_place::InPlaceExtensions;
use windlass_controllers::{machine_deployment, machine_set};
use windlass_engine::condition;
use windlass_engine::features::Features;
use windlass_runtime::Running;
use windlass_testkit::{Options, Seen, WorkerMachines, merge};

/// The kinds that are needed here; making room for all of them takes longer than most tests.
const KINDS: &[&str] = &[
    "Cluster",
    "MachineDeployment",
    "MachineSet",
    "Machine",
    "DevMachineTemplate",
    "DevMachine",
    "KubeadmConfigTemplate",
    "KubeadmConfig",
    "KubeadmControlPlane",
];

pub(crate) struct World {
    kit: windlass_testkit::World,
    seen: Arc<Mutex<Seen>>,
}

windlass_testkit::deref_to_kit!(World);

impl World {
    pub(crate) async fn new() -> Self {
        let kit = windlass_testkit::World::new(Options::new().kinds(KINDS)).await;
        let world = Self { kit, seen: Arc::default() };
        world
            .create::<Cluster>(
                json!({"metadata": {"name": "c1"}, "spec": {"clusterNetwork": {"serviceDomain": "x"}}}),
            )
            .await;
        world.infrastructure("i1").await;
        world
            .create_dynamic(json!({
                "apiVersion": "bootstrap.cluster.x-k8s.io/v1beta2", "kind": "KubeadmConfigTemplate",
                "metadata": {"name": "b1"}, "spec": {"template": {"spec": {"verbosity": 1}}},
            }))
            .await;
        world
    }

    /// An infrastructure template.
    pub(crate) async fn infrastructure(&self, name: &str) {
        let machine = json!({"metadata": {"labels": {"rack": "7"}}, "spec": {"backend": {"inMemory": {}}}});
        self.create_dynamic(json!({
            "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "DevMachineTemplate",
            "metadata": {"name": name}, "spec": {"template": machine},
        }))
        .await;
    }

    /// Starts the controllers and the stand-in, as a process would.
    pub(crate) fn start(&self, seed: u64) -> Running {
        let manager = self.manager(seed);
        let externals = Externals::new();
        machine_deployment::register(&manager, &externals, &InPlaceExtensions::none());
        machine_set::register(&manager, &externals, Features::default());
        WorkerMachines::register(&manager, &self.seen);
        manager.start()
    }

    /// Objects of a kind of a provider.
    pub(crate) fn part(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        self.dynamic(&format!("{group}.cluster.x-k8s.io/v1beta2"), kind)
    }

    /// A MachineDeployment `md`.
    pub(crate) async fn deploy(&self, over: Value) {
        let mut md = json!({
            "metadata": {"name": "md"},
            "spec": {
                "clusterName": "c1", "replicas": 3, "selector": {"matchLabels": {"pool": "a"}},
                "template": {
                    "metadata": {"labels": {"pool": "a"}},
                    "spec": {
                        "clusterName": "c1", "version": "v1.31.0",
                        "bootstrap": {"configRef":
                            {"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfigTemplate", "name": "b1"}},
                        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                            "kind": "DevMachineTemplate", "name": "i1"},
                    },
                },
            },
        });
        merge(&mut md, over);
        self.create::<MachineDeployment>(md).await;
    }

    /// A MachineSet that belongs to no MachineDeployment.
    pub(crate) async fn set(&self, name: &str, over: Value) {
        let mut set = json!({
            "metadata": {"name": name, "labels": {"machine-template-hash": name}},
            "spec": {
                "clusterName": "c1", "replicas": 2, "selector": {"matchLabels": {"machine-template-hash": name}},
                "template": {
                    "metadata": {"labels": {"machine-template-hash": name}},
                    "spec": {
                        "clusterName": "c1", "version": "v1.31.0", "bootstrap": {"dataSecretName": "s"},
                        "infrastructureRef": {"apiGroup": "infrastructure.cluster.x-k8s.io",
                            "kind": "DevMachineTemplate", "name": "i1"},
                    },
                },
            },
        });
        merge(&mut set, over);
        self.create::<MachineSet>(set).await;
    }

    pub(crate) async fn md(&self) -> MachineDeployment {
        self.list().await.remove(0)
    }

    /// The versions of all machines, sorted.
    pub(crate) async fn versions(&self) -> Vec<String> {
        let mut versions: Vec<String> =
            self.list::<Machine>().await.into_iter().map(|machine| machine.spec.version).collect();
        versions.sort();
        versions
    }

    pub(crate) async fn events(&self, reason: &str) -> Vec<String> {
        let events = self.list::<Event>().await.into_iter();
        events
            .filter(|event| event.reason.as_deref() == Some(reason))
            .filter_map(|event| event.message)
            .collect()
    }

    /// Reports from now on how few machines were available.
    pub(crate) fn watch_availability(&self) {
        self.seen.lock().unwrap().watch_availability();
    }

    pub(crate) fn seen<T>(&self, read: impl FnOnce(&Seen) -> T) -> T {
        read(&self.seen.lock().unwrap())
    }
}

/// Waits until nothing happens any more, for at most some hours.
pub(crate) async fn settle(running: &Running) {
    for _ in 0..400 {
        let idle = running.manager().idle().await;
        match idle.until {
            None => return,
            Some(_) => tokio::time::sleep(Duration::from_secs(30)).await,
        }
    }
}

/// The status, reason and message of a condition.
pub(crate) fn said(
    conditions: &[k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition],
    type_: &str,
) -> (String, String, String) {
    let found = condition::find(conditions, type_).unwrap();
    (found.status.clone(), found.reason.clone(), found.message.clone())
}
