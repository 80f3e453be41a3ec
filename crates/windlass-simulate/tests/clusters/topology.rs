//! The topology controller on a real API, with stand-ins for everything below it: control planes and worker groups that
//! take their time and do as they are told.
#![expect(clippy::unwrap_used, reason = "a failing helper fails the test")]

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachineDeployment};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::hooks::Hook;
use windlass_api::infrastructure::{DevCluster, DevMachineTemplate};
use windlass_api::names::{
    CLUSTER_API_VERSION, CLUSTER_NAME_LABEL, INFRASTRUCTURE_API_VERSION, PENDING_HOOKS_ANNOTATION,
    UPGRADE_STEP_ANNOTATION,
};
use windlass_controllers::extension_config::ExtensionConfigController;
use windlass_controllers::external::Externals;
use windlass_engine::features::Features;
use windlass_runtime::{Cache, Context, ObjectKey, Outcome, Reconciler, WriteError, WriteFault};
use windlass_simulate::{SimulatedExtension, Start, TopologyManifests, World, WorldOptions, key};

const LONG: Duration = Duration::from_secs(24 * 3600);
const CONTROL_PLANE_TAKES: Duration = Duration::from_secs(60);
const MACHINE_TAKES: Duration = Duration::from_secs(30);

/// Reaches its version after a minute.
struct ControlPlanes {
    control_planes: Cache<KubeadmControlPlane>,
    since: Mutex<BTreeMap<String, (String, Timestamp)>>,
}

impl Reconciler for ControlPlanes {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        let Some(found) = self.control_planes.get(key) else { return Ok(Outcome::done()) };
        let version = found.spec.version.clone();
        let running = found.status.versions.first().map(|running| running.version.clone());
        if running.as_ref() == Some(&version) {
            return Ok(Outcome::done());
        }
        let since = {
            let mut all = self.since.lock().unwrap();
            let entry = all.entry(key.name.clone()).or_insert_with(|| (version.clone(), context.now()));
            if entry.0 != version {
                *entry = (version.clone(), context.now());
            }
            entry.1
        };
        let waited = Duration::try_from(context.now().duration_since(since)).unwrap_or_default();
        if waited < CONTROL_PLANE_TAKES {
            return Ok(Outcome::after(CONTROL_PLANE_TAKES - waited));
        }
        let status = json!({"status": {"versions": [{"version": version, "replicas": 1}],
            "initialization": {"controlPlaneInitialized": true}}});
        context.writer::<KubeadmControlPlane>().patch_status_unconditionally(key, status).await?;
        let cluster = ObjectKey::new(&key.namespace, &found.labels()[CLUSTER_NAME_LABEL]);
        let status = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
        context.writer::<Cluster>().patch_status_unconditionally(&cluster, status).await?;
        Ok(Outcome::done())
    }
}

/// Replaces one machine every half a minute.
struct Deployments {
    deployments: Cache<MachineDeployment>,
    machines: Cache<Machine>,
}

impl Reconciler for Deployments {
    type Error = WriteError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Outcome, WriteError> {
        let Some(found) = self.deployments.get(key) else { return Ok(Outcome::done()) };
        let template = &found.spec.template;
        let machines = self.machines.labelled(&key.namespace, &template.metadata.labels);
        let wanted = usize::try_from(found.spec.replicas.unwrap_or(1)).unwrap();
        let writer = context.writer::<Machine>();
        // Killed before it had a Node.
        for machine in machines.iter().filter(|machine| machine.status.node_info.is_none()) {
            writer.patch_status_unconditionally(&ObjectKey::of(machine.as_ref()), node(machine)).await?;
        }
        let old = machines.iter().find(|machine| machine.spec.version != template.spec.version);
        if let Some(old) = old {
            writer.delete(old.as_ref()).await?;
        } else if machines.len() >= wanted {
            return Ok(Outcome::done());
        }
        let mut spec = json!(template.spec);
        spec["bootstrap"]["dataSecretName"] = json!("none");
        let machine = json!({"metadata": {"name": format!("{}-{}", key.name, context.name_suffix("Machine")),
            "namespace": key.namespace, "labels": template.metadata.labels}, "spec": spec});
        let machine = writer.apply("stand-in", &machine).await?;
        writer.patch_status_unconditionally(&ObjectKey::of(&machine), node(&machine)).await?;
        Ok(Outcome::after(MACHINE_TAKES))
    }
}

/// The status of a Machine that has a Node.
fn node(machine: &Machine) -> Value {
    let version = &machine.spec.version;
    json!({"status": {"nodeInfo": {"kubeletVersion": version, "kubeProxyVersion": version, "machineID": "", "systemUUID": "",
        "bootID": "", "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "operatingSystem": "",
        "architecture": ""}}})
}

async fn world(seed: u64, extension: &SimulatedExtension) -> World {
    world_with(seed, extension, windlass_api::crds::manifests()).await
}

async fn world_with(seed: u64, extension: &SimulatedExtension, crds: Vec<Value>) -> World {
    let extension = extension.clone();
    let setup = move |start: &Start<'_>| {
        let manager = start.manager;
        let hooks = extension.client();
        let extensions = ExtensionConfigController::register(manager, hooks.clone());
        windlass_controllers::topology::register(
            manager,
            hooks,
            Externals::new(),
            extensions,
            Features::default(),
            None,
        );
        let control_planes = manager.cache();
        manager
            .controller("control-planes", &control_planes)
            .register(ControlPlanes { control_planes: control_planes.clone(), since: Mutex::default() });
        let (deployments, machines) = (manager.cache(), manager.cache());
        let stand_in = Deployments { deployments: deployments.clone(), machines: machines.clone() };
        manager.controller("deployments", &deployments).register(stand_in);
    };
    let options = WorldOptions {
        seed,
        machine_seed: None,
        start: "2026-01-01T00:00:00Z".parse().unwrap(),
        crds,
        setup: Arc::new(setup),
        prelude: None,
        has_admission: false,
        admission: Vec::new(),
        features: Features::default(),
    };
    World::begin(options).await.unwrap()
}

fn manifests(version: &str) -> TopologyManifests {
    TopologyManifests::new("c1", version, 1)
        .machine_deployment("a", 2)
        .machine_deployment("b", 1)
        .versions((29..=34).map(|minor| format!("v1.{minor}.0")))
}

fn condition(world: &World) -> (String, String, String) {
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let found = cluster.status.conditions.into_iter().find(|found| found.type_ == "TopologyReconciled");
    found.map(|found| (found.status, found.reason, found.message)).unwrap_or_default()
}

fn is_at(world: &World, version: &str) -> bool {
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let deployments = world.list::<MachineDeployment>();
    let machines = world.list::<Machine>();
    let control_planes = world.list::<KubeadmControlPlane>();
    condition(world).0 == "True"
        && !cluster.annotations().contains_key(PENDING_HOOKS_ANNOTATION)
        && control_planes.iter().all(|found| {
            found.spec.version == version
                && !found.status.versions.is_empty()
                && found.status.versions.iter().all(|running| running.version == version)
        })
        && deployments.len() == 2
        && machines.len() == 3
        && machines.iter().all(|machine| machine.spec.version == version)
}

async fn create(seed: u64, extension: &SimulatedExtension) -> World {
    let mut world = world(seed, extension).await;
    world.apply_object(&SimulatedExtension::config()).await.unwrap();
    world.apply_objects(&manifests("v1.29.0").objects()).await.unwrap();
    world.run_until("created", LONG, |world| is_at(world, "v1.29.0")).await.unwrap();
    world
}

async fn change_version(world: &World, version: &str) {
    let patch = json!({"spec": {"topology": {"version": version}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
}

fn calls(extension: &SimulatedExtension) -> Vec<String> {
    let text = |call: &windlass_simulate::HookRecord| match (&call.from, &call.to) {
        (Some(from), Some(to)) => format!("{} {from} -> {to}", call.hook),
        (_, Some(to)) => format!("{} {to}", call.hook),
        _ => call.hook.to_owned(),
    };
    extension.calls().iter().filter(|call| call.retry_after_seconds == 0).map(text).collect()
}

const HOOKS: [&str; 14] = [
    "BeforeClusterUpgrade v1.29.0 -> v1.33.0",
    "BeforeControlPlaneUpgrade v1.29.0 -> v1.30.0",
    "AfterControlPlaneUpgrade v1.30.0",
    "BeforeControlPlaneUpgrade v1.30.0 -> v1.31.0",
    "AfterControlPlaneUpgrade v1.31.0",
    "BeforeControlPlaneUpgrade v1.31.0 -> v1.32.0",
    "AfterControlPlaneUpgrade v1.32.0",
    "BeforeWorkersUpgrade v1.29.0 -> v1.32.0",
    "AfterWorkersUpgrade v1.32.0",
    "BeforeControlPlaneUpgrade v1.32.0 -> v1.33.0",
    "AfterControlPlaneUpgrade v1.33.0",
    "BeforeWorkersUpgrade v1.32.0 -> v1.33.0",
    "AfterWorkersUpgrade v1.33.0",
    "AfterClusterUpgrade v1.33.0",
];

#[tokio::test(start_paused = true)]
async fn a_cluster_is_made_from_its_class_and_upgraded_by_one_edit() {
    let extension = SimulatedExtension::new();
    let mut world = create(1, &extension).await;
    assert_eq!(calls(&extension), ["BeforeClusterCreate", "AfterControlPlaneInitialized"]);
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    assert!(cluster.spec.infrastructure_ref.is_some() && cluster.spec.control_plane_ref.is_some());
    assert_eq!(world.list::<DevCluster>().len(), 1);
    // Two of the class, one of the control plane, one for each worker group.
    assert_eq!(world.list::<DevMachineTemplate>().len(), 2 + 1 + 2);

    extension.begin();
    extension.block(Hook::BeforeClusterUpgrade, 2, 600, "backup is running");
    change_version(&world, "v1.33.0").await;
    let limit = Duration::from_secs(60);
    world.run_until("held", limit, |world| condition(world).2.contains("backup is running")).await.unwrap();
    let (_, reason, message) = condition(&world);
    assert_eq!(reason, "ClusterUpgrading");
    assert!(
        message.contains("KubeadmControlPlane will upgrade to v1.30.0, v1.31.0, v1.32.0, v1.33.0"),
        "{message}"
    );
    world.run_until("upgraded", LONG, |world| is_at(world, "v1.33.0")).await.unwrap();
    assert_eq!(calls(&extension), HOOKS);
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    assert!(!cluster.annotations().contains_key(PENDING_HOOKS_ANNOTATION));
    assert!(!cluster.annotations().contains_key(UPGRADE_STEP_ANNOTATION));
    assert!(cluster.status.control_plane.is_none_or(|status| status.upgrade_plan.is_empty()));
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_holds_versions_and_nothing_else() {
    let extension = SimulatedExtension::new();
    let mut world = create(2, &extension).await;
    extension.fail(Hook::BeforeControlPlaneUpgrade, Some("no quota"));
    change_version(&world, "v1.30.0").await;
    let limit = Duration::from_secs(60);
    world.run_until("failed", limit, |world| condition(world).2.contains("no quota")).await.unwrap();
    assert_eq!(condition(&world).1, "ReconcileFailed");
    let versions = |world: &World| world.list::<KubeadmControlPlane>()[0].spec.version.clone();
    assert_eq!(versions(&world), "v1.29.0");
    extension.fail(Hook::BeforeControlPlaneUpgrade, None);
    world.run_until("upgraded", LONG, |world| is_at(world, "v1.30.0")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn without_a_path_nothing_moves_until_the_class_has_one() {
    let extension = SimulatedExtension::new();
    let mut world = create(3, &extension).await;
    change_version(&world, "v1.36.0").await;
    let limit = Duration::from_secs(60);
    world.run_until("refused", limit, |world| condition(world).2.contains("no upgrade path")).await.unwrap();
    let patch = json!({"spec": {"kubernetesVersions": (29..=36).map(|minor| format!("v1.{minor}.0")).collect::<Vec<_>>()}});
    world.patch::<windlass_api::cluster::ClusterClass>(&key("quick"), patch).await.unwrap();
    world.run_until("upgraded", LONG, |world| is_at(world, "v1.36.0")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_changed_template_is_rotated_and_the_old_one_goes() {
    let extension = SimulatedExtension::new();
    let mut world = create(4, &extension).await;
    let reference = |world: &World, entry: &str| {
        let groups = world.list::<MachineDeployment>();
        let group =
            groups.into_iter().find(|group| group.name_any().starts_with(&format!("c1-{entry}-"))).unwrap();
        group.spec.template.spec.infrastructure_ref.name
    };
    let before = reference(&world, "a");
    let patch = json!({"spec": {"template": {"spec": {"backend": {"inMemory": {"vm":
        {"provisioning": {"startupDuration": "99s"}}}}}}}});
    world.patch::<DevMachineTemplate>(&key("quick-worker"), patch).await.unwrap();
    world.run_until("rotated", LONG, |world| reference(world, "a") != before).await.unwrap();
    world.run_until_idle(LONG).await.unwrap();
    let names: Vec<String> = world.list::<DevMachineTemplate>().iter().map(ResourceExt::name_any).collect();
    assert!(!names.contains(&before), "{names:?}");
    assert!(names.contains(&reference(&world, "a")), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_crash_at_any_write_of_an_upgrade_loses_no_hook() {
    for number in [1, 2, 3, 5, 8, 13, 21, 34] {
        let extension = SimulatedExtension::new();
        let mut world = create(number, &extension).await;
        extension.begin();
        let fault = if number % 2 == 0 { WriteFault::CrashBefore } else { WriteFault::CrashAfter };
        world.faults().on_write(world.faults().writes() + number, fault);
        change_version(&world, "v1.33.0").await;
        let _ = world.run_to_the_end(Duration::from_secs(3600)).await;
        if world.has_crashed() {
            world.restart().await;
        }
        world.run_until("upgraded", LONG, |world| is_at(world, "v1.33.0")).await.unwrap();
        world.run_until_idle(LONG).await.unwrap();
        let called = calls(&extension);
        for hook in HOOKS.iter().filter(|hook| !hook.starts_with("BeforeWorkers")) {
            assert!(
                called.iter().any(|call| call == hook),
                "{hook} is missing after a crash at {number}: {called:?}"
            );
        }
        assert_eq!(world.list::<KubeadmControlPlane>().len(), 1, "{number}");
        assert_eq!(
            world.list::<DevMachineTemplate>().len(),
            5,
            "templates are left over after a crash at {number}"
        );
    }
}

/// A kind of a provider that keeps the contract before.
fn old_kind(kind: &str) -> Value {
    let plural = format!("{}s", kind.to_lowercase());
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.controlplane.example.io"),
            "labels": {"cluster.x-k8s.io/v1beta1": "v1alpha4_v1beta1"}},
        "spec": {"group": "controlplane.example.io", "scope": "Namespaced", "names": {"kind": kind, "plural": plural},
            "versions": [{"name": "v1beta1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

#[tokio::test(start_paused = true)]
async fn a_control_plane_of_the_contract_before_is_upgraded_step_by_step() {
    let mut crds = windlass_api::crds::manifests();
    crds.extend(["HostedControlPlane", "HostedControlPlaneTemplate"].map(old_kind));
    let extension = SimulatedExtension::new();
    let mut world = world_with(5, &extension, crds).await;
    world.apply_object(&SimulatedExtension::config()).await.unwrap();
    let api_version = "controlplane.example.io/v1beta1";
    let mut objects = manifests("v1.29.0").objects();
    for object in &mut objects {
        let kind = object["kind"].clone();
        if kind == "KubeadmControlPlaneTemplate" {
            *object = json!({"apiVersion": api_version, "kind": "HostedControlPlaneTemplate",
                "metadata": {"name": "quick", "namespace": "default"}, "spec": {"template": {"spec": {"tier": "small"}}}});
        } else if kind == "ClusterClass" {
            object["spec"]["controlPlane"]["templateRef"] =
                json!({"apiVersion": api_version, "kind": "HostedControlPlaneTemplate", "name": "quick"});
        } else if kind == "Cluster" {
            object["spec"]["topology"]["controlPlane"]["deletion"] = json!({"nodeDrainTimeoutSeconds": 90});
            object["spec"]["topology"]["controlPlane"]["readinessGates"] = json!([{"conditionType": "Mine"}]);
        }
    }
    world.apply_objects(&objects).await.unwrap();

    let gvk = kube::api::GroupVersionKind::gvk("controlplane.example.io", "v1beta1", "HostedControlPlane");
    let resource = kube::api::ApiResource::from_gvk_with_plural(&gvk, "hostedcontrolplanes");
    let mut targets = vec!["v1.33.0"];
    let mut seen: Vec<String> = Vec::new();
    for _ in 0..200 {
        let _ = world.run_to_the_end(Duration::from_secs(60)).await;
        let cluster = world.get::<Cluster>(&key("c1")).unwrap();
        let Some(reference) = cluster.spec.control_plane_ref else { continue };
        let control_plane: kube::api::DynamicObject = world.get_of(&resource, &key(&reference.name)).unwrap();
        let version = control_plane.data["spec"]["version"].as_str().unwrap().to_owned();
        if seen.last() != Some(&version) {
            seen.push(version.clone());
            // It says in the places of its contract that it is there.
            let status =
                json!({"status": {"version": version, "initialized": true, "ready": true, "replicas": 1}});
            let _: kube::api::DynamicObject =
                world.patch_of(&resource, &key(&reference.name), status).await.unwrap();
            let path = format!("/apis/{CLUSTER_API_VERSION}/namespaces/default/clusters");
            let patch = json!({"status": {"initialization": {"controlPlaneInitialized": true}}});
            let parameters = kube::api::PatchParams::default();
            let patch = kube::api::Patch::Merge(patch);
            let request =
                kube::core::Request::new(path).patch_subresource("status", "c1", &parameters, &patch);
            let _: Cluster = world.client().request(request.unwrap()).await.unwrap();
        } else if condition(&world).0 == "True" {
            let Some(target) = targets.pop() else { break };
            change_version(&world, target).await;
        }
    }
    assert_eq!(condition(&world).0, "True", "{:?}", condition(&world));
    assert_eq!(seen, ["v1.29.0", "v1.30.0", "v1.31.0", "v1.32.0", "v1.33.0"]);
    assert!(world.list::<Machine>().iter().all(|machine| machine.spec.version == "v1.33.0"));

    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let name = cluster.spec.control_plane_ref.unwrap().name;
    let control_plane: kube::api::DynamicObject = world.get_of(&resource, &key(&name)).unwrap();
    let machines = &control_plane.data["spec"]["machineTemplate"];
    assert_eq!((&machines["nodeDrainTimeout"], machines.get("spec")), (&json!("1m30s"), None));
    assert_eq!(machines["readinessGates"], json!([{"conditionType": "Mine"}]));
    let reference = &machines["infrastructureRef"];
    assert_eq!(
        (&reference["apiVersion"], &reference["kind"], &reference["namespace"]),
        (&json!(INFRASTRUCTURE_API_VERSION), &json!("DevMachineTemplate"), &json!("default"))
    );
    let template = world.get::<DevMachineTemplate>(&key(reference["name"].as_str().unwrap()));
    assert!(template.is_some(), "a template that is referred to stays");
}
