//! Worker groups that are kept at a version: a sample of the planner's combinations of pin and target, with all real
//! controllers and the skew checked after every write.

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, Machine, MachinePool};
use windlass_api::names::{PIN_ANNOTATION, TOPOLOGY_DEPLOYMENT_NAME_LABEL, TOPOLOGY_POOL_NAME_LABEL};
use windlass_controllers::describe::describe_cluster;
use windlass_engine::features::Features;
use windlass_plan::{PlanRequest, Source, WorkerGroup, plan};
use windlass_simulate::{SimulatedExtension, TopologyManifests, World, WorldOptions, key};
use windlass_version::Version;

use crate::support::{Chains, condition, planned, releases};

const MINORS: std::ops::Range<u64> = 28..36;

fn text(minor: u64) -> String {
    format!("v1.{minor}.0")
}

/// How a pin is written.
#[derive(Clone, Copy, Debug)]
enum Form {
    Field,
    Annotation,
}

/// The topology with a pin of the group `pinned`, or without.
fn pinned(world: &World, form: Form, pin: Option<&str>) -> Value {
    let cluster = world.get::<Cluster>(&key("c1")).unwrap();
    let mut workers = json!(cluster.spec.topology.unwrap())["workers"].clone();
    for list in ["machineDeployments", "machinePools"] {
        let entries = workers[list].as_array_mut().into_iter().flatten();
        for entry in entries.filter(|entry| entry["name"] == "pinned") {
            match (form, pin) {
                (Form::Field, Some(pin)) => entry["version"] = json!(pin),
                (Form::Annotation, Some(pin)) => {
                    entry["metadata"]["annotations"] = json!({PIN_ANNOTATION: pin});
                }
                // In a list, null would be a value.
                (Form::Field, None) => drop(entry.as_object_mut().unwrap().remove("version")),
                (Form::Annotation, None) => drop(entry.as_object_mut().unwrap().remove("metadata")),
            }
        }
    }
    json!({"workers": workers})
}

/// What there is of the pinned group: machines by their names, or the version of the pool.
fn parts(world: &World) -> Vec<(String, String)> {
    let machines = world.list::<Machine>().into_iter();
    let machines = machines
        .filter(|machine| {
            machine.labels().get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).is_some_and(|name| name == "pinned")
        })
        .map(|machine| (machine.name_any(), machine.spec.version.clone()));
    let pools = world.list::<MachinePool>().into_iter();
    let pools = pools
        .filter(|pool| pool.labels().get(TOPOLOGY_POOL_NAME_LABEL).is_some_and(|name| name == "pinned"))
        .map(|pool| (pool.name_any(), pool.spec.template.spec.version.clone()));
    machines.chain(pools).collect()
}

fn is_planned(pin: u64, from: u64, to: u64) -> bool {
    let version = |minor| Version::new(1, minor, 0);
    let request = PlanRequest::new(version(from), version(to))
        .with_workers([
            WorkerGroup::new("free", version(from)),
            WorkerGroup::new("pinned", version(pin)).pinned(),
        ])
        .with_source(Source::versions(releases(MINORS)));
    plan(&request).is_ok()
}

/// A group is pinned, the rest goes to `from`, and then to `to`: accepted if there is a plan, with the steps and hooks of
/// the plan without that group. The pinned group keeps its machines.
async fn upgrade(number: usize, pin: u64, from: u64, to: u64) {
    let about = format!("pinned to v1.{pin}, from v1.{from} to v1.{to}");
    let form = if number.is_multiple_of(2) { Form::Field } else { Form::Annotation };
    let manifests = TopologyManifests::new("c1", &text(pin), 1).machine_deployment("free", 1);
    let manifests = match number % 3 {
        0 => manifests.machine_pool("pinned", 1),
        _ => manifests.machine_deployment("pinned", 1),
    };
    let manifests = manifests.versions(releases(MINORS));
    let mut chains = Chains::with(900 + number as u64, manifests, &text(pin)).await;
    chains.change("c1", pinned(&chains.world, form, Some(&text(pin)))).await;
    let kept = parts(&chains.world);
    assert_eq!(kept.len(), 1, "{about}");
    if from > pin {
        chains.change_version("c1", &text(from)).await;
        chains.until_at("c1", &text(from)).await.unwrap();
    }
    chains.forget("c1");
    let patch = json!({"spec": {"topology": {"version": text(to)}}});
    let answer = chains.world.patch::<Cluster>(&key("c1"), patch).await;
    assert_eq!(answer.is_ok(), is_planned(pin, from, to), "{about}: {answer:?}");
    match answer {
        Ok(_) => {
            chains.until_at("c1", &text(to)).await.unwrap();
            assert_eq!(
                chains.story("c1"),
                planned(&text(from), &text(to), &["free"], &releases(MINORS)),
                "{about}"
            );
            chains.nothing_is_pending("c1");
        }
        Err(error) => {
            assert!(error.to_string().contains("pinned"), "{about}: {error}");
            chains.pass(600).await;
            assert_eq!(chains.story("c1"), Vec::<String>::new(), "{about}");
        }
    }
    assert_eq!(parts(&chains.world), kept, "{about}");
}

async fn sample(combinations: &[(u64, u64, u64)]) {
    for (number, (pin, from, to)) in combinations.iter().enumerate() {
        upgrade(number, *pin, *from, *to).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pins_where_the_upgrade_begins() {
    let combinations = [(28, 28, 29), (28, 28, 31), (28, 28, 32), (29, 29, 32), (31, 31, 34), (32, 32, 35)];
    sample(&combinations).await;
}

#[tokio::test(start_paused = true)]
async fn pins_behind_where_the_upgrade_begins() {
    let combinations = [(28, 29, 31), (28, 30, 31), (29, 30, 32), (31, 33, 34), (32, 33, 35), (33, 34, 35)];
    sample(&combinations).await;
}

#[tokio::test(start_paused = true)]
async fn pins_that_allow_no_further_step() {
    let combinations = [(28, 31, 32), (28, 30, 32), (29, 31, 33), (31, 34, 35)];
    sample(&combinations).await;
}

#[tokio::test(start_paused = true)]
async fn a_pin_that_is_raised_rolls_its_group_alone_and_is_removed_without_a_rollout() {
    for form in [Form::Field, Form::Annotation] {
        let manifests = TopologyManifests::new("c1", "v1.30.0", 1)
            .machine_deployment("free", 1)
            .machine_deployment("pinned", 1)
            .versions(releases(MINORS));
        let mut chains = Chains::with(930, manifests, "v1.30.0").await;
        chains.change("c1", pinned(&chains.world, form, Some("v1.30.0"))).await;
        chains.change_version("c1", "v1.32.0").await;
        chains.until_at("c1", "v1.32.0").await.unwrap();
        let removed = json!({"spec": {"topology": pinned(&chains.world, form, None)}});
        let refused = chains.world.patch::<Cluster>(&key("c1"), removed.clone()).await.unwrap_err();
        assert!(refused.to_string().contains("raising it to v1.32.0 first is accepted"), "{refused}");
        chains.forget("c1");
        chains.change("c1", pinned(&chains.world, form, Some("v1.32.0"))).await;
        chains.until_at("c1", "v1.32.0").await.unwrap();
        assert_eq!(chains.story("c1"), ["pinned v1.30.0 -> v1.32.0", "pinned at v1.32.0"]);
        let before = parts(&chains.world);
        chains.world.patch::<Cluster>(&key("c1"), removed).await.unwrap();
        chains.pass(600).await;
        assert_eq!(parts(&chains.world), before);
    }
}

/// Without admission nothing keeps a pin from being written.
#[tokio::test(start_paused = true)]
async fn with_the_feature_gate_off_a_pin_has_no_effect_and_that_is_said() {
    let features = Features { worker_version_pinning: false };
    let manifests = TopologyManifests::new("c1", "v1.30.0", 1)
        .machine_deployment("pinned", 1)
        .worker_annotation(PIN_ANNOTATION, "v1.30.0")
        .versions(releases(MINORS));
    let refused = World::begin(WorldOptions { features, ..WorldOptions::new(940) }).await.unwrap();
    let answer = refused.apply_objects(&manifests.objects()).await.unwrap_err().to_string();
    assert!(
        answer.contains(
            "v1.30.0 is not accepted while feature gate ClusterTopologyWorkerVersionPinning is off"
        ),
        "{answer}"
    );

    let extension = SimulatedExtension::new();
    let options = WorldOptions::extended_by(941, &extension);
    let mut world = World::begin(WorldOptions { features, has_admission: false, ..options }).await.unwrap();
    world.apply_object(&SimulatedExtension::config()).await.unwrap();
    world.apply_objects(&manifests.objects()).await.unwrap();
    let all_at = |world: &World, version: &str| {
        let machines = world.list::<Machine>();
        machines.len() == 2 && machines.iter().all(|machine| machine.spec.version == version)
    };
    let long = crate::support::LONG;
    world
        .run_until("created", long, |world| all_at(world, "v1.30.0") && condition(world).0 == "True")
        .await
        .unwrap();
    let patch = json!({"spec": {"topology": {"version": "v1.31.0"}}});
    world.patch::<Cluster>(&key("c1"), patch).await.unwrap();
    let said = "Pins have no effect, because feature gate ClusterTopologyWorkerVersionPinning is off: \
                MachineDeployment pinned v1.30.0";
    world.run_until("it is said", long, |world| condition(world).2.contains(said)).await.unwrap();
    world.run_until("all are at v1.31.0", long, |world| all_at(world, "v1.31.0")).await.unwrap();

    // At rest nothing else tells a reader that the pin is none.
    world.run_until("the upgrade is over", long, |world| condition(world).0 == "True").await.unwrap();
    assert_eq!(condition(&world).2, said);
    let described = describe_cluster(world.client(), "default", "c1", world.now()).await.unwrap();
    assert_eq!(described.notes, [said]);
    let groups = described.tree.objects.iter().flat_map(|part| &part.objects);
    assert!(groups.clone().any(|group| group.kind == "MachineDeployment"));
    assert!(groups.into_iter().all(|group| group.pinned.is_none()), "{:?}", described.tree);
}
