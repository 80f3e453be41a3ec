//! What a snapshot has in it, and what becomes of it.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine};
use windlass_simulate::{
    NotRebuilt, PreviewOptions, RebuildOptions, Snapshot, SnapshotError, TopologyManifests, UpgradeSteering,
    World, WorldOptions, is_at, key, live_of, preview_upgrade,
};
use windlass_version::Version;

use crate::disguise::disguised;

const LONG: Duration = Duration::from_secs(24 * 3600);

async fn world(manifests: &TopologyManifests) -> World {
    let mut world = World::begin(WorldOptions::new(3)).await.unwrap();
    world.apply_objects(&manifests.objects()).await.unwrap();
    let start = Version::parse("v1.30.0").unwrap();
    world.run_until("created", LONG, |world| is_at(world, &key("c1"), &start)).await.unwrap();
    world
}

fn manifests() -> TopologyManifests {
    TopologyManifests::new("c1", "v1.30.0", 1)
        .machine_deployment("a", 2)
        .machine_pool("p", 1)
        .versions(["v1.30.0", "v1.31.0", "v1.32.0"])
}

async fn read(world: &World) -> Snapshot {
    Snapshot::read(world.client(), "default", "c1", world.now()).await.unwrap()
}

fn kinds(snapshot: &Snapshot) -> Vec<String> {
    let mut kinds: Vec<String> =
        snapshot.objects.iter().map(|object| object["kind"].as_str().unwrap().to_owned()).collect();
    kinds.sort();
    kinds
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_has_everything_that_the_cluster_is_made_of_and_no_secrets() {
    let world = world(&manifests()).await;
    let snapshot = read(&world).await;
    let mut expected = vec![
        "Cluster",
        "ClusterClass",
        "DevCluster",
        "DevClusterTemplate",
        "DevMachinePool",
        "DevMachinePoolTemplate",
        "KubeadmControlPlane",
        "KubeadmControlPlaneTemplate",
        "MachineDeployment",
        "MachinePool",
        "MachineSet",
        "Namespace",
    ];
    expected.extend(["Machine", "DevMachine"].iter().flat_map(|kind| [*kind; 3]));
    // One per Machine, and one of the pool.
    expected.extend(["KubeadmConfig"; 4]);
    // Two of the class, one of the control plane and one of the group.
    expected.extend(["DevMachineTemplate"; 4]);
    expected.extend(["KubeadmConfigTemplate"; 2]);
    expected.sort_unstable();
    assert_eq!(kinds(&snapshot), expected);
    assert_eq!(snapshot.unread, []);
    assert_eq!(snapshot.served, "cluster.x-k8s.io/v1beta2");

    let text = serde_json::to_string(&snapshot).unwrap();
    assert_eq!(serde_json::from_str::<Snapshot>(&text).unwrap(), snapshot, "what is saved is what is read");
    let other = text.replace("windlass-snapshot/1", "windlass-snapshot/2");
    assert!(serde_json::from_str::<Snapshot>(&other).is_err(), "a format that is not known is refused");

    let missing = Snapshot::read(world.client(), "default", "c2", world.now()).await;
    assert!(matches!(missing, Err(SnapshotError::NotFound { .. })), "{missing:?}");
}

#[tokio::test(start_paused = true)]
async fn a_world_that_is_rebuilt_stays_as_it_is() {
    for is_disguised in [false, true] {
        let world = world(&manifests()).await;
        let mut snapshot = read(&world).await;
        drop(world);
        if is_disguised {
            snapshot = disguised(&snapshot);
        }
        let rebuilt = snapshot.rebuild(&RebuildOptions::default()).unwrap();
        let options = WorldOptions { start: rebuilt.now, crds: rebuilt.crds.clone(), ..WorldOptions::new(4) };
        let mut again = World::restored(options, &rebuilt.namespaces, &rebuilt.objects).await.unwrap();
        let machines = again.list::<Machine>();
        again.resume();
        again.run_until("time passes", Duration::from_secs(3600), |_| false).await.unwrap_err();
        let text = |machines: &[Machine]| -> Vec<Value> {
            machines
                .iter()
                .map(|machine| {
                    json!([machine.metadata.uid, machine.metadata.generation, machine.spec, machine.status])
                })
                .collect()
        };
        assert_eq!(text(&again.list::<Machine>()), text(&machines), "no machine is touched");
        assert!(is_at(&again, &key("c1"), &rebuilt.version));
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_cluster_is_planned_from_where_it_is() {
    let mut world = world(&manifests()).await;
    let target = json!({"spec": {"topology": {"version": "v1.32.0"}}});
    world.patch::<Cluster>(&key("c1"), target).await.unwrap();
    let is_further =
        |world: &World| world.list::<Machine>().iter().any(|machine| machine.spec.version == "v1.31.0");
    world.run_until("the first step begins", LONG, is_further).await.unwrap();
    let snapshot = read(&world).await;
    let live = std::thread::spawn(move || live_of(&snapshot).unwrap()).join().unwrap();
    let at = live.state.control_plane.as_ref().map(|found| found.version.to_string());
    assert_eq!(at.as_deref(), Some("v1.31.0"));
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_simulated_is_refused_with_its_name() {
    let world = world(&manifests()).await;
    let snapshot = read(&world).await;
    let refused = |change: &dyn Fn(&mut Value)| {
        let mut changed = snapshot.clone();
        changed.objects.iter_mut().for_each(change);
        changed.rebuild(&RebuildOptions::default()).unwrap_err()
    };
    let managed = refused(&|object| {
        if object["kind"] == "Cluster" {
            object["spec"]["controlPlaneRef"]["kind"] = json!("AcmeManagedControlPlane");
        }
    });
    assert!(matches!(managed, NotRebuilt::ControlPlane { .. }), "{managed}");
    let patched = refused(&|object| {
        if object["kind"] == "ClusterClass" {
            object["spec"]["patches"] =
                json!([{"name": "x", "external": {"generatePatchesExtension": "patches.acme"}}]);
        }
    });
    assert!(patched.to_string().contains("patches.acme"), "{patched}");
    let plain = refused(&|object| {
        if object["kind"] == "Cluster" {
            object["spec"]["topology"] = Value::Null;
        }
    });
    assert!(matches!(plain, NotRebuilt::NoTopology(_)), "{plain}");
}

#[tokio::test(start_paused = true)]
async fn what_other_programs_hold_is_assumed_to_be_released_and_said_so() {
    let world = world(&manifests()).await;
    let mut snapshot = read(&world).await;
    for object in snapshot.objects.iter_mut().filter(|object| object["kind"] == "Machine") {
        object["metadata"]["finalizers"].as_array_mut().unwrap().push(json!("backup.example.com/volumes"));
        object["metadata"]["annotations"]["pre-drain.delete.hook.machine.cluster.x-k8s.io/storage"] =
            json!("");
        object["metadata"]["ownerReferences"]
            .as_array_mut()
            .unwrap()
            .push(json!({"apiVersion": "example.com/v1", "kind": "Tenant", "name": "t", "uid": "elsewhere"}));
    }
    let extension = json!({"apiVersion": "runtime.cluster.x-k8s.io/v1beta2", "kind": "ExtensionConfig",
        "metadata": {"name": "guard"}, "spec": {"clientConfig": {"url": "https://guard.invalid"}}});
    snapshot.objects.push(extension);
    let options =
        PreviewOptions::new(RebuildOptions::default(), "v1.31.0".to_owned(), 1, UpgradeSteering::default());
    let report = preview_upgrade(&snapshot, &options.unwrap()).await.unwrap();
    assert_eq!((report.machines.created, report.machines.deleted), (4, 4), "{report:#?}");
    for told in [
        "finalizer backup.example.com/volumes",
        "annotation pre-drain.delete.hook",
        "every hook is assumed to pass",
    ] {
        assert!(report.warnings.iter().any(|warning| warning.contains(told)), "{:?}", report.warnings);
    }
}

/// The snapshot that docs/preview.md begins with. `cargo xtask bless` takes it anew.
#[tokio::test(start_paused = true)]
async fn the_snapshot_of_the_documentation_can_be_read() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../windlass/tests/snapshots/prod.json");
    if std::env::var_os("TRYCMD").is_some_and(|mode| mode == "overwrite") {
        let manifests = TopologyManifests::new("prod", "v1.30.0", 1)
            .machine_deployment("web", 2)
            .machine_deployment("batch", 1)
            .versions(["v1.30.0", "v1.31.0", "v1.32.0"]);
        let mut world = World::begin(WorldOptions::new(7)).await.unwrap();
        world.apply_object(&windlass_simulate::SimulatedExtension::config()).await.unwrap();
        world.apply_objects(&manifests.objects()).await.unwrap();
        let start = Version::parse("v1.30.0").unwrap();
        world.run_until("created", LONG, |world| is_at(world, &key("prod"), &start)).await.unwrap();
        let mut snapshot = Snapshot::read(world.client(), "default", "prod", world.now()).await.unwrap();
        snapshot = disguised(&snapshot);
        // Of the provider nothing is known but its kinds: how long its machines take, the user has to say.
        for object in &mut snapshot.objects {
            for path in ["/spec", "/spec/template/spec"] {
                if let Some(spec) = object.pointer_mut(path).and_then(Value::as_object_mut) {
                    spec.remove("backend");
                }
            }
        }
        std::fs::write(file, serde_json::to_string(&snapshot).unwrap() + "\n").unwrap();
    }
    let snapshot: Snapshot = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert!(snapshot.rebuild(&RebuildOptions::default()).is_ok());
}
