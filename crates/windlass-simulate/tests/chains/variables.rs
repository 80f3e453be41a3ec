//! Variables and patches of a class that change while a cluster is upgraded: what waits for its version waits with
//! everything, and is replaced once.

use serde_json::{Value, json};
use windlass_api::cluster::{ClusterClass, Machine, MachineDeployment};
use windlass_api::control_plane::KubeadmControlPlane;
use windlass_api::hooks::Hook;
use windlass_api::infrastructure::DevMachine;
use windlass_api::names::INFRASTRUCTURE_API_VERSION;
use windlass_simulate::{Chronicle, TopologyManifests, World, key};

use crate::support::{Chains, condition, planned, releases};

/// A variable with a default for how long a part of a machine takes, and the patch that uses it.
fn variable(name: &str, default: &str) -> Value {
    let schema = json!({"type": "string", "pattern": "^[0-9]+s$", "default": default});
    json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}})
}

fn patch(name: &str, part: &str) -> Value {
    let path = format!("/spec/template/spec/backend/inMemory/{part}/provisioning/startupDuration");
    json!({"name": name, "definitions": [{
        "selector": {"apiVersion": INFRASTRUCTURE_API_VERSION, "kind": "DevMachineTemplate",
            "matchResources": {"controlPlane": true, "machineDeploymentClass": {"names": ["default"]}}},
        "jsonPatches": [{"op": "add", "path": path, "valueFrom": {"variable": name}}],
    }]})
}

/// An upgrade from v1.29.0 to v1.32.0 that a hook holds when the control plane is at v1.30.0, however often it is asked: it
/// is asked again after every edit.
async fn held(seed: u64) -> Chains {
    let manifests = TopologyManifests::new("c1", "v1.29.0", 1)
        .machine_deployment("a", 1)
        .machine_deployment("b", 1)
        .versions(releases(29..=32));
    let mut objects = manifests.objects();
    let class = objects.iter_mut().find(|object| object["kind"] == "ClusterClass").unwrap();
    class["spec"]["variables"] = json!([variable("vm", "5s")]);
    class["spec"]["patches"] = json!([patch("vm", "vm")]);
    let mut chains = Chains::begin(seed).await;
    chains.world.apply_objects(&objects).await.unwrap();
    chains.until_at("c1", "v1.29.0").await.unwrap();
    chains.forget("c1");
    chains.change_version("c1", "v1.32.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("the first step is taken", |_| has(&chronicle, "cp v1.29.0 -> v1.30.0")).await;
    chains.extension.block(Hook::BeforeControlPlaneUpgrade, u32::MAX, 900, "not before noon");
    chains.until("it is held", |world| condition(world).2.contains("not before noon")).await;
    chains
}

fn has(chronicle: &Chronicle, fact: &str) -> bool {
    chronicle.facts("c1").iter().any(|found| found == fact)
}

/// Everything that a change may not touch yet: generations of what waits, and the machines.
fn untouched(world: &World) -> Vec<(String, Option<i64>)> {
    let mut all = Vec::new();
    let mut add =
        |name: &Option<String>, generation| all.push((name.clone().unwrap_or_default(), generation));
    for found in world.list::<KubeadmControlPlane>() {
        add(&found.metadata.name, found.metadata.generation);
    }
    for found in world.list::<MachineDeployment>() {
        add(&found.metadata.name, found.metadata.generation);
    }
    for found in world.list::<Machine>() {
        add(&found.metadata.name, found.metadata.generation);
    }
    all
}

/// How long a part takes on each machine.
fn durations(world: &World, part: &str) -> Vec<String> {
    let machines = world.list::<DevMachine>().into_iter();
    let spec = machines.map(|machine| serde_json::to_value(&machine.spec).unwrap());
    let pointer = format!("/backend/inMemory/{part}/provisioning/startupDuration");
    spec.map(|spec| spec.pointer(&pointer).unwrap().as_str().unwrap().to_owned()).collect()
}

/// Lets the upgrade end, and checks that it was as if nothing had been changed meanwhile.
async fn finish(chains: &mut Chains) {
    chains.extension.pass(Hook::BeforeControlPlaneUpgrade);
    chains.until_at("c1", "v1.32.0").await.unwrap();
    chains.pass(120).await;
    // The chronicle counts: no version had more machines made for it than there are.
    assert_eq!(chains.story("c1"), planned("v1.29.0", "v1.32.0", &["a", "b"], &releases(29..=32)));
    chains.nothing_is_pending("c1");
}

#[tokio::test(start_paused = true)]
async fn a_value_that_changes_comes_with_the_version() {
    let mut chains = held(61).await;
    assert_eq!(durations(&chains.world, "vm"), ["5s"; 3], "the default");
    let before = untouched(&chains.world);
    chains.change("c1", json!({"variables": [{"name": "vm", "value": "7s"}]})).await;
    chains.pass(300).await;
    assert_eq!(untouched(&chains.world), before, "what waits for its version waits with everything");
    finish(&mut chains).await;
    assert_eq!(durations(&chains.world, "vm"), ["7s"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_does_not_fit_is_refused_and_holds_nothing_up() {
    let mut chains = held(62).await;
    let wrong = json!({"spec": {"topology": {"variables": [{"name": "vm", "value": "soon"}]}}});
    let refused = chains.world.patch::<windlass_api::cluster::Cluster>(&key("c1"), wrong).await;
    let refused = refused.map(|_| ()).unwrap_err().to_string();
    assert!(refused.contains("spec.topology.variables[vm].value"), "{refused}");
    assert!(refused.contains("^[0-9]+s$"), "it says what is accepted: {refused}");
    finish(&mut chains).await;
    assert_eq!(durations(&chains.world, "vm"), ["5s"; 3]);
}

#[tokio::test(start_paused = true)]
async fn a_variable_that_comes_is_used_with_the_version_and_one_that_goes_is_told() {
    let mut chains = held(63).await;
    let before = untouched(&chains.world);
    let edit =
        |variables: Value, patches: Value| json!({"spec": {"variables": variables, "patches": patches}});
    let both = edit(
        json!([variable("vm", "5s"), variable("node", "3s")]),
        json!([patch("vm", "vm"), patch("node", "node")]),
    );
    chains.world.patch::<ClusterClass>(&key("quick"), both).await.unwrap();
    let knows = |world: &World| {
        let class = world.get::<ClusterClass>(&key("quick")).unwrap();
        class.status.variables.iter().any(|variable| variable.name == "node")
    };
    chains.until("the class knows the variable", knows).await;
    chains
        .change("c1", json!({"variables": [{"name": "vm", "value": "5s"}, {"name": "node", "value": "4s"}]}))
        .await;
    chains.pass(120).await;
    assert_eq!(untouched(&chains.world), before, "what waits for its version waits with everything");
    // The class loses a variable that the cluster has a value for: nothing moves, and the reason is told.
    let one = edit(json!([variable("node", "3s")]), json!([patch("node", "node")]));
    chains.world.patch::<ClusterClass>(&key("quick"), one).await.unwrap();
    let told = |world: &World| {
        let (status, _, message) = condition(world);
        status == "False" && message.contains("spec.topology.variables[vm]")
    };
    chains.until("it is told", told).await;
    chains.pass(1200).await;
    assert_eq!(untouched(&chains.world), before, "nothing moves before it is corrected");
    chains.change("c1", json!({"variables": [{"name": "node", "value": "4s"}]})).await;
    finish(&mut chains).await;
    assert_eq!(durations(&chains.world, "node"), ["4s"; 3]);
    assert_eq!(durations(&chains.world, "vm"), ["10s"; 3], "as the template has it");
}
