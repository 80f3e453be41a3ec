//! What programs beside the controllers make of the objects while a cluster is upgraded: Argo CD, kstatus, and providers that
//! read v1beta1. Their rules are stated here once more, from their documentation and behaviour.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::Request;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, ClusterClass, Machine, MachineDeployment, MachinePool, MachineSet};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_simulate::{TopologyManifests, World, WorldOptions, Written, key};
use windlass_store::Scope;

use crate::support::{reach, rest, settled};

/// A cluster with two MachineDeployments.
fn with_deployments() -> TopologyManifests {
    manifests().machine_deployment("b", 2)
}

/// A cluster with a MachineDeployment and a MachinePool.
fn with_pool() -> TopologyManifests {
    manifests().machine_pool("p", 2)
}

fn manifests() -> TopologyManifests {
    TopologyManifests::new("c1", "v1.31.0", 3)
        .machine_deployment("a", 3)
        .versions(["v1.31.0", "v1.32.0", "v1.33.0"])
}

async fn upgrade(world: &mut World, version: &str) {
    let patch = json!({"spec": {"topology": {"version": version}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
    reach(world, version).await;
}

/// The objects of a cluster that others look at, whatever their kind, with the name of the kind.
fn object(written: &Written<'_>) -> Option<(&'static str, Value)> {
    fn of<K: windlass_runtime::Kind + serde::Serialize>(written: &Written<'_>) -> Option<Value>
    where
        K::DynamicType: Default,
    {
        written.object::<K>().map(|object| serde_json::to_value(object).unwrap())
    }
    None.or_else(|| Some(("Cluster", of::<Cluster>(written)?)))
        .or_else(|| Some(("KubeadmControlPlane", of::<KubeadmControlPlane>(written)?)))
        .or_else(|| Some(("MachineDeployment", of::<MachineDeployment>(written)?)))
        .or_else(|| Some(("MachineSet", of::<MachineSet>(written)?)))
        .or_else(|| Some(("MachinePool", of::<MachinePool>(written)?)))
        .or_else(|| Some(("Machine", of::<Machine>(written)?)))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Healthy,
    Progressing,
    Degraded,
    Suspended,
}

/// Types of a Cluster's conditions that degrade it unless they are `True`.
const NEEDED: [&str; 8] = [
    "Available",
    "Ready",
    "RemoteConnectionProbe",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "ControlPlaneMachinesReady",
];
/// Those that are about something under way unless they are `False`.
const UNDER_WAY: [&str; 5] = ["RollingOut", "Remediating", "ScalingDown", "ScalingUp", "Deleting"];
/// Those that are about something under way unless they are `True`.
const TO_COME: [&str; 4] =
    ["WorkerMachinesReady", "ControlPlaneMachinesUpToDate", "WorkerMachinesUpToDate", "TopologyReconciled"];

/// Argo CD, of a Cluster: the first condition of the list that means anything decides, then the phase.
fn argo_of_cluster(cluster: &Value, conditions: &Value) -> Health {
    if cluster["spec"]["paused"] == true {
        return Health::Suspended;
    }
    for condition in conditions.as_array().into_iter().flatten() {
        let (type_, status) = (condition["type"].as_str().unwrap(), condition["status"].as_str().unwrap());
        if NEEDED.contains(&type_) && status != "True" {
            return Health::Degraded;
        }
        if (UNDER_WAY.contains(&type_) && status != "False") || (TO_COME.contains(&type_) && status != "True")
        {
            return Health::Progressing;
        }
    }
    match cluster["status"]["phase"].as_str() {
        Some("Provisioned") => Health::Healthy,
        Some("Failed") => Health::Degraded,
        _ => Health::Progressing,
    }
}

/// Argo CD, of any kind it has a rule for; others are never degraded.
fn argo(kind: &str, object: &Value) -> Health {
    let phase = object["status"]["phase"].as_str().unwrap_or_default();
    match (kind, phase) {
        ("Cluster", _) => argo_of_cluster(object, &object["status"]["conditions"]),
        ("MachineDeployment" | "Machine" | "MachinePool", "Failed") | ("MachinePool", "Unknown") => {
            Health::Degraded
        }
        (_, "Running") => Health::Healthy,
        _ => Health::Progressing,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Current,
    InProgress,
    Failed,
    Terminating,
}

/// kstatus, of a kind that it has no rule of its own for.
fn kstatus(object: &Value) -> Status {
    let (metadata, status) = (&object["metadata"], &object["status"]);
    if metadata["deletionTimestamp"].is_string() {
        return Status::Terminating;
    }
    let observed = status["observedGeneration"].as_i64();
    if observed.is_some_and(|observed| metadata["generation"] != observed) {
        return Status::InProgress;
    }
    for condition in status["conditions"].as_array().into_iter().flatten() {
        match condition["type"].as_str() {
            Some("Reconciling") if condition["status"] == "True" => return Status::InProgress,
            Some("Stalled") if condition["status"] == "True" => return Status::Failed,
            _ => {}
        }
    }
    Status::Current
}

#[tokio::test(start_paused = true)]
async fn a_chained_upgrade_is_progress_and_never_a_failure_to_those_who_read_conditions() {
    // A pool is as its provider makes it: the one in memory takes an instance away before the next one comes.
    let mut world = settled(WorldOptions::new(0), &with_deployments()).await;
    let progressing = Arc::new(AtomicU64::new(0));
    let seen = Arc::clone(&progressing);
    world.observe(move |written: &Written<'_>| {
        let Some((kind, object)) = object(written).filter(|_| !written.is_deletion()) else { return Ok(()) };
        let mut healths = vec![argo(kind, &object)];
        if kind == "Cluster" {
            // The same as one that reads v1beta1 sees it, by the conditions of that version.
            healths.push(argo_of_cluster(&object, &object["status"]["deprecated"]["v1beta1"]["conditions"]));
        }
        if healths.contains(&Health::Degraded) || kstatus(&object) == Status::Failed {
            return Err(format!("a {kind} looks broken ({healths:?}): {}", object["status"]));
        }
        if kind == "Cluster" && healths[0] == Health::Progressing {
            seen.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    });
    upgrade(&mut world, "v1.33.0").await;
    assert!(progressing.load(Ordering::Relaxed) > 20, "the upgrade was seen");

    let cluster = serde_json::to_value(world.get::<Cluster>(&key("c1")).unwrap()).unwrap();
    assert_eq!((argo("Cluster", &cluster), kstatus(&cluster)), (Health::Healthy, Status::Current));
    let all = [
        serde_json::to_value(world.list::<KubeadmControlPlane>()).unwrap(),
        serde_json::to_value(world.list::<MachineDeployment>()).unwrap(),
        serde_json::to_value(world.list::<MachineSet>()).unwrap(),
        serde_json::to_value(world.list::<MachinePool>()).unwrap(),
        serde_json::to_value(world.list::<Machine>()).unwrap(),
    ];
    for object in all.iter().flat_map(|list| list.as_array().unwrap()) {
        assert_eq!(kstatus(object), Status::Current, "{object}");
        assert!(object["status"]["observedGeneration"].is_i64(), "{object}");
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_of_a_cluster_are_written_in_the_order_of_cluster_api() {
    let world = settled(WorldOptions::new(0), &with_pool()).await;
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let order: Vec<&str> = cluster.status.conditions.iter().map(|found| found.type_.as_str()).collect();
    assert_eq!(
        order,
        [
            "Available",
            "RemoteConnectionProbe",
            "InfrastructureReady",
            "ControlPlaneInitialized",
            "ControlPlaneAvailable",
            "WorkersAvailable",
            "TopologyReconciled",
            "RollingOut",
            "Remediating",
            "ScalingDown",
            "ScalingUp",
            "ControlPlaneMachinesReady",
            "WorkerMachinesReady",
            "ControlPlaneMachinesUpToDate",
            "WorkerMachinesUpToDate",
            "Paused",
            "Deleting",
        ]
    );
}

/// What a chained upgrade over two minors of this cluster cost before v1beta1 was written beside v1beta2, and since then one more for
/// each machine that joins: the discovery of its KubeadmConfig.
const WRITES: u64 = 678;

#[tokio::test(start_paused = true)]
async fn conditions_of_v1beta1_cost_no_write_of_their_own() {
    let mut world = settled(WorldOptions::new(0), &with_pool()).await;
    let before = world.faults().writes();
    upgrade(&mut world, "v1.33.0").await;
    let after = world.faults().writes();
    assert!(after - before <= WRITES, "{} writes, {WRITES} without v1beta1", after - before);
    world.faults().keep_journal();
    rest(&mut world).await;
    // The token of a pool is replaced before it expires, in its KubeadmConfig and its Secret; the topology then looks whether the
    // KubeadmConfig is still what it wants.
    let is_token =
        |write: &&windlass_runtime::Write| ["KubeadmConfig", "Secret"].contains(&write.kind.kind.as_str());
    let journal = world.faults().journal();
    let others: Vec<&windlass_runtime::Write> = journal.iter().filter(|write| !is_token(write)).collect();
    assert!(others.is_empty(), "a cluster at rest is left alone, but for the token of its pool: {others:?}");
}

/// An object as a client of v1beta1 reads it.
async fn v1beta1(world: &World, group: &str, plural: &str, name: &str) -> Value {
    let path = format!("/apis/{group}/v1beta1/namespaces/default/{plural}/{name}");
    world.client().request(Request::get(path).body(Vec::new()).unwrap()).await.unwrap()
}

/// Types of the conditions that hold, and of those that do not.
fn conditions(object: &Value) -> (Vec<&str>, Vec<&str>) {
    let all = object["status"]["conditions"].as_array().unwrap();
    let with = |holds: bool| {
        let found = all.iter().filter(|found| (found["status"] == "True") == holds);
        found.map(|found| found["type"].as_str().unwrap()).collect()
    };
    (with(true), with(false))
}

#[tokio::test(start_paused = true)]
async fn readers_of_v1beta1_find_their_conditions() {
    let world = settled(WorldOptions::new(0), &with_pool()).await;
    let core = "cluster.x-k8s.io";
    let cluster = v1beta1(&world, core, "clusters", "c1").await;
    let expected = [
        "Ready",
        "ControlPlaneInitialized",
        "ControlPlaneReady",
        "InfrastructureReady",
        "TopologyReconciled",
    ];
    assert_eq!(conditions(&cluster), (expected.to_vec(), vec![]));

    let name = |object: &str| object.to_owned();
    let machines = world.list::<Machine>();
    let machine = v1beta1(&world, core, "machines", &name(machines[0].metadata.name.as_ref().unwrap())).await;
    let expected = ["Ready", "BootstrapReady", "InfrastructureReady", "NodeHealthy"];
    assert_eq!(conditions(&machine), (expected.to_vec(), vec![]));

    let deployments = world.list::<MachineDeployment>();
    let path = name(deployments[0].metadata.name.as_ref().unwrap());
    let deployment = v1beta1(&world, core, "machinedeployments", &path).await;
    assert_eq!(conditions(&deployment), (vec!["Ready", "Available", "MachineSetReady"], vec![]));
    let status = &deployment["status"];
    let counters = ["updatedReplicas", "readyReplicas", "availableReplicas"].map(|counter| &status[counter]);
    assert_eq!(counters, [&json!(3); 3]);

    let sets = world.list::<MachineSet>();
    let path = name(sets[0].metadata.name.as_ref().unwrap());
    let set = v1beta1(&world, core, "machinesets", &path).await;
    assert_eq!(conditions(&set), (vec!["Ready", "MachinesCreated", "MachinesReady", "Resized"], vec![]));

    let planes = world.list::<KubeadmControlPlane>();
    let path = name(planes[0].metadata.name.as_ref().unwrap());
    let plane = v1beta1(&world, "controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes", &path).await;
    let expected = [
        "Ready",
        "Available",
        "CertificatesAvailable",
        "ControlPlaneComponentsHealthy",
        "EtcdClusterHealthy",
        "MachinesReady",
        "MachinesSpecUpToDate",
        "Resized",
    ];
    assert_eq!(conditions(&plane), (expected.to_vec(), vec![]));
    assert_eq!((&plane["status"]["ready"], &plane["status"]["readyReplicas"]), (&json!(true), &json!(3)));
}

/// Everything in the namespace of the cluster, with its kind.
fn stored(world: &World) -> Vec<Value> {
    let snapshot = world.server().store().snapshot();
    let objects =
        snapshot.list(&Scope::All).map(|object| -> Value { serde_json::from_slice(object.value()).unwrap() });
    objects.filter(|object| object["metadata"]["namespace"] == "default").collect()
}

#[tokio::test(start_paused = true)]
async fn everything_that_clusterctl_moves_is_owned_by_the_cluster_or_its_class() {
    let world = settled(WorldOptions::new(0), &with_pool()).await;
    let all = stored(&world);
    let find = |uid: &Value| all.iter().find(|object| object["metadata"]["uid"] == *uid);
    let mut moved = 0;
    for object in &all {
        let (kind, name) = (object["kind"].as_str().unwrap(), object["metadata"]["name"].as_str().unwrap());
        // clusterctl looks at kinds of Cluster API, and at these two.
        let group = object["apiVersion"].as_str().unwrap();
        let is_looked_at = group.contains("cluster.x-k8s.io") || matches!(kind, "Secret" | "ConfigMap");
        if !is_looked_at || name == "kube-root-ca.crt" {
            continue;
        }
        let (mut chain, mut at) = (vec![format!("{kind} {name}")], object);
        while !matches!(at["kind"].as_str(), Some("Cluster" | "ClusterClass")) {
            let owners = at["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            let owner = owners.filter_map(|owner| find(&owner["uid"])).next();
            let owner = owner.unwrap_or_else(|| panic!("{} belongs to nothing", chain.join(", owned by ")));
            chain.push(format!("{} {}", owner["kind"], owner["metadata"]["name"]));
            assert!(chain.len() < 10, "{chain:?}");
            at = owner;
        }
        moved += 1;
    }
    assert!(moved > 30, "{moved} objects");
    for crd in windlass_api::crds::manifests() {
        let labels = &crd["metadata"]["labels"];
        assert_eq!(labels["clusterctl.cluster.x-k8s.io"], "", "{}", crd["metadata"]["name"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_says_which_of_its_references_are_of_an_old_version() {
    let told = |world: &World| {
        let class = world.list::<ClusterClass>().remove(0);
        let found = class.status.conditions.into_iter().find(|found| found.type_ == "RefVersionsUpToDate");
        found.map(|found| (found.status, found.message)).unwrap()
    };
    let world = settled(WorldOptions::new(0), &with_pool()).await;
    assert_eq!(told(&world), ("True".to_owned(), String::new()));

    let mut objects = with_pool().objects();
    for object in objects.iter_mut().filter(|object| object["kind"] == "ClusterClass") {
        object["spec"]["infrastructure"]["templateRef"]["apiVersion"] =
            json!("infrastructure.cluster.x-k8s.io/v1beta1");
    }
    let mut world = World::begin(WorldOptions::new(0)).await.unwrap();
    world.apply_objects(&objects).await.unwrap();
    rest(&mut world).await;
    let (status, message) = told(&world);
    assert_eq!(status, "False");
    assert!(message.contains("the newest is infrastructure.cluster.x-k8s.io/v1beta2"), "{message}");
}
