//! What users do while a cluster is upgraded: hold groups back, let more of them go at once, edit the class, add, remove
//! and scale groups, have machines replaced, delete the cluster.

use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::cluster::{Cluster, ClusterClass, Machine, MachineDeployment};
use windlass_api::hooks::Hook;
use windlass_api::infrastructure::{DevCluster, DevMachine, DevMachineTemplate};
use windlass_api::names::{
    DEFER_UPGRADE_ANNOTATION, HOLD_UPGRADE_SEQUENCE_ANNOTATION, REMEDIATE_MACHINE_ANNOTATION,
    TOPOLOGY_DEPLOYMENT_NAME_LABEL, UPGRADE_CONCURRENCY_ANNOTATION,
};
use windlass_simulate::{Chronicle, TopologyManifests, World, is_at, key};
use windlass_version::Version;

use crate::support::{Chains, condition, planned, releases};

fn manifests(groups: &[&str]) -> TopologyManifests {
    let manifests = TopologyManifests::new("c1", "v1.29.0", 1).versions(releases(29..=33));
    groups.iter().fold(manifests, |manifests, group| manifests.machine_deployment(group, 1))
}

/// Entries of `workers.machineDeployments`, each with its annotations.
fn entries(groups: &[(&str, u32, Value)]) -> Value {
    let entry = |(name, replicas, annotations): &(&str, u32, Value)| json!({"class": "default", "name": name, "replicas": replicas, "metadata": {"annotations": annotations}});
    json!({"workers": {"machineDeployments": groups.iter().map(entry).collect::<Vec<_>>()}})
}

fn plain(name: &str) -> (&str, u32, Value) {
    (name, 1, json!({}))
}

fn has(chronicle: &Chronicle, fact: &str) -> bool {
    chronicle.facts("c1").iter().any(|found| found == fact)
}

fn machines_of(world: &World, group: &str) -> Vec<Machine> {
    let is_of = |machine: &Machine| {
        machine.labels().get(TOPOLOGY_DEPLOYMENT_NAME_LABEL).is_some_and(|found| found == group)
    };
    world.list::<Machine>().into_iter().filter(is_of).collect()
}

fn count(facts: &[String], beginning: &str) -> usize {
    facts.iter().filter(|fact| fact.starts_with(beginning) && fact.contains("->")).count()
}

#[tokio::test(start_paused = true)]
async fn as_many_groups_go_at_once_as_are_let() {
    let names = ["a", "b", "c", "d", "e"];
    let mut chains = Chains::begin(31).await;
    let clusters: Vec<(String, usize)> = (1..=5).map(|number| (format!("c{number}"), number)).collect();
    for (name, concurrency) in &clusters {
        let mut manifests = TopologyManifests::new(name, "v1.29.0", 1).versions(releases(29..=33));
        manifests = manifests.annotation(UPGRADE_CONCURRENCY_ANNOTATION, &concurrency.to_string());
        for group in names {
            manifests = manifests.machine_deployment(group, 1);
        }
        chains.world.apply_objects(&manifests.objects()).await.unwrap();
    }
    for version in ["v1.29.0", "v1.30.0"] {
        for (name, _) in &clusters {
            if version != "v1.29.0" {
                chains.chronicle.begin(name);
                chains.change_version(name, version).await;
            }
        }
        let target = Version::parse(version).unwrap();
        let all = |world: &World| clusters.iter().all(|(name, _)| is_at(world, &key(name), &target));
        chains.until("all clusters are there", all).await;
    }
    for (name, concurrency) in &clusters {
        assert_eq!(chains.chronicle.most_moving(name), *concurrency, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_deferred_group_is_waited_for_and_the_others_go_on() {
    let mut chains = Chains::with(32, manifests(&["a", "b", "c"]), "v1.29.0").await;
    let deferred = ("b", 1, json!({DEFER_UPGRADE_ANNOTATION: ""}));
    chains.change("c1", entries(&[plain("a"), deferred, plain("c")])).await;
    chains.change_version("c1", "v1.31.0").await;
    let reason = |world: &World| condition(world).1 == "MachineDeploymentsUpgradeDeferred";
    chains.until("only the deferred group is left", reason).await;
    chains.pass(300).await;
    assert!(has(&chains.chronicle, "a at v1.31.0") && has(&chains.chronicle, "c at v1.31.0"));
    assert_eq!(count(&chains.chronicle.facts("c1"), "b "), 0, "{:?}", chains.chronicle.facts("c1"));
    assert!(!chains.story("c1").contains(&"AfterWorkersUpgrade v1.31.0".to_owned()));
    chains.change("c1", entries(&[plain("a"), plain("b"), plain("c")])).await;
    chains.until_at("c1", "v1.31.0").await.unwrap();
    assert_eq!(chains.story("c1").last().unwrap(), "AfterClusterUpgrade v1.31.0");
}

#[tokio::test(start_paused = true)]
async fn a_hold_holds_its_group_and_those_after_it() {
    let mut chains = Chains::with(33, manifests(&["a", "b", "c"]), "v1.29.0").await;
    let holding = ("b", 1, json!({HOLD_UPGRADE_SEQUENCE_ANNOTATION: ""}));
    chains.change("c1", entries(&[plain("a"), holding, plain("c")])).await;
    chains.change_version("c1", "v1.33.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("the group before it is done", |_| has(&chronicle, "a at v1.32.0")).await;
    chains.pass(600).await;
    let message = condition(&chains.world).2;
    assert!(message.contains(HOLD_UPGRADE_SEQUENCE_ANNOTATION), "{message}");
    let facts = chains.chronicle.facts("c1");
    // The control plane cannot go on from there: the held groups would be too far behind.
    assert_eq!(facts.last().unwrap(), "a at v1.32.0");
    assert_eq!((count(&facts, "b "), count(&facts, "c "), count(&facts, "cp ")), (0, 0, 3), "{facts:?}");
    chains.change("c1", entries(&[plain("a"), plain("b"), plain("c")])).await;
    chains.until_at("c1", "v1.33.0").await.unwrap();
    assert_eq!(chains.story("c1"), planned("v1.29.0", "v1.33.0", &["a", "b", "c"], &releases(29..=33)));
}

async fn list_versions(chains: &Chains, versions: &[&str]) {
    let patch = json!({"spec": {"kubernetesVersions": versions}});
    chains.world.patch::<ClusterClass>(&key("quick"), patch).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_plan_follows_the_versions_of_the_class() {
    let mut chains = Chains::with(34, manifests(&["a"]), "v1.29.0").await;
    chains.change_version("c1", "v1.33.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("the first step is taken", |_| has(&chronicle, "cp v1.29.0 -> v1.30.0")).await;
    // What comes next is taken away: there is no way any more. The step that has begun ends.
    list_versions(&chains, &["v1.32.0", "v1.33.0"]).await;
    chains.until("there is no way", |world| condition(world).2.contains("no upgrade path")).await;
    chains.pass(300).await;
    let facts = chains.chronicle.facts("c1");
    assert!(count(&facts, "cp ") <= 1 && has(&chains.chronicle, "cp at v1.30.0"), "{facts:?}");
    // There is a way again, through later releases.
    list_versions(&chains, &["v1.29.0", "v1.30.0", "v1.31.4", "v1.32.5", "v1.33.0"]).await;
    chains.until_at("c1", "v1.33.0").await.unwrap();
    let facts = chains.chronicle.facts("c1");
    let decided: Vec<&String> = facts.iter().filter(|fact| fact.contains("->")).collect();
    assert_eq!(
        decided,
        [
            "cp v1.29.0 -> v1.30.0",
            "cp v1.30.0 -> v1.31.4",
            "cp v1.31.4 -> v1.32.5",
            "a v1.29.0 -> v1.32.5",
            "cp v1.32.5 -> v1.33.0",
            "a v1.32.5 -> v1.33.0",
        ]
    );
    chains.nothing_is_pending("c1");
}

#[tokio::test(start_paused = true)]
async fn changes_of_templates_come_with_the_version_and_replace_nobody_twice() {
    let mut chains = Chains::with(35, manifests(&["a", "b"]), "v1.29.0").await;
    chains.change_version("c1", "v1.32.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("the upgrade has begun", |_| has(&chronicle, "cp at v1.30.0")).await;
    let patch = json!({"spec": {"template": {"spec": {"backend": {"inMemory": {"vm":
        {"provisioning": {"startupDuration": "7s"}}}}}}}});
    for template in ["quick-worker", "quick-control-plane"] {
        chains.world.patch::<DevMachineTemplate>(&key(template), patch.clone()).await.unwrap();
    }
    let before = machines(&chains.world);
    chains.until_at("c1", "v1.32.0").await.unwrap();
    chains.pass(120).await;
    // The chronicle counts: no version had more machines made for it than there are.
    let expected = planned("v1.29.0", "v1.32.0", &["a", "b"], &releases(29..=33));
    assert_eq!(chains.story("c1"), expected);
    assert!(machines(&chains.world).iter().all(|name| !before.contains(name)), "all are new");
    let slow = |machine: &DevMachine| {
        let text = serde_json::to_string(&machine.spec).unwrap();
        text.contains("\"7s\"")
    };
    assert!(chains.world.list::<DevMachine>().iter().all(slow), "the change has arrived");
}

fn machines(world: &World) -> Vec<String> {
    world.list::<Machine>().iter().map(ResourceExt::name_any).collect()
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_added_waits_for_the_target_and_one_that_is_removed_goes() {
    let mut chains = Chains::with(36, manifests(&["a", "b"]), "v1.29.0").await;
    chains.change_version("c1", "v1.33.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("the upgrade has begun", |_| has(&chronicle, "cp at v1.30.0")).await;
    chains.change("c1", entries(&[plain("a"), plain("new")])).await;
    let names = |world: &World| -> Vec<String> {
        let groups = world.list::<MachineDeployment>();
        groups.iter().map(|group| group.labels()[TOPOLOGY_DEPLOYMENT_NAME_LABEL].clone()).collect()
    };
    chains.until("the group is gone", |world| names(world) == ["a"]).await;
    chains.until("the rest is at the target", |_| has(&chronicle, "cp at v1.33.0")).await;
    chains.until_at("c1", "v1.33.0").await.unwrap();
    assert_eq!(names(&chains.world), ["a", "new"]);
    let facts = chains.chronicle.facts("c1");
    assert!(facts.contains(&"new at v1.33.0".to_owned()), "{facts:?}");
    assert_eq!((count(&facts, "new "), count(&facts, "b ")), (0, 0), "made at the target: {facts:?}");
    let at = |fact: &str| facts.iter().position(|found| found == fact).unwrap();
    assert!(at("new at v1.33.0") > at("cp at v1.33.0"));
    chains.nothing_is_pending("c1");
}

#[tokio::test(start_paused = true)]
async fn a_group_that_is_done_can_be_scaled_while_others_are_not() {
    let mut chains = Chains::with(37, manifests(&["a", "b"]), "v1.29.0").await;
    let deferred = || ("b", 1, json!({DEFER_UPGRADE_ANNOTATION: ""}));
    chains.change("c1", entries(&[plain("a"), deferred()])).await;
    chains.change_version("c1", "v1.30.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("the first group is done", |_| has(&chronicle, "a at v1.30.0")).await;
    let deferred_and_scaled = ("b", 3, json!({DEFER_UPGRADE_ANNOTATION: ""}));
    chains.change("c1", entries(&[("a", 3, json!({})), deferred_and_scaled])).await;
    chains.until("it is scaled", |world| machines_of(world, "a").len() == 3).await;
    chains.pass(120).await;
    let waiting = machines_of(&chains.world, "b");
    assert_eq!(waiting.len(), 1, "what waits for its version waits with everything");
    chains.change("c1", entries(&[("a", 3, json!({})), ("b", 3, json!({}))])).await;
    chains.until_at("c1", "v1.30.0").await.unwrap();
    let count = |group: &str| machines_of(&chains.world, group).len();
    assert_eq!((count("a"), count("b")), (3, 3));
}

#[tokio::test(start_paused = true)]
async fn a_machine_of_a_group_that_is_done_is_remediated_while_others_are_not() {
    let mut chains = Chains::with(39, manifests(&["a", "b"]), "v1.29.0").await;
    let check = json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
        "metadata": {"name": "workers", "namespace": "default"},
        "spec": {"clusterName": "c1", "checks": {"nodeStartupTimeoutSeconds": 600},
            "selector": {"matchExpressions": [{"key": TOPOLOGY_DEPLOYMENT_NAME_LABEL, "operator": "Exists"}]}}});
    chains.world.apply_object(&check).await.unwrap();
    chains.change("c1", entries(&[plain("a"), ("b", 1, json!({DEFER_UPGRADE_ANNOTATION: ""}))])).await;
    chains.change_version("c1", "v1.30.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("the first group is done", |_| has(&chronicle, "a at v1.30.0")).await;
    let mut ill = Vec::new();
    for group in ["a", "b"] {
        let name = machines_of(&chains.world, group).remove(0).name_any();
        let annotation = json!({"metadata": {"annotations": {REMEDIATE_MACHINE_ANNOTATION: ""}}});
        chains.world.patch::<Machine>(&key(&name), annotation).await.unwrap();
        ill.push(name);
    }
    let is_replaced = |world: &World, group: &str, ill: &str| {
        let machines = machines_of(world, group);
        let is_new = |machine: &Machine| {
            machine.name_any() != ill
                && machine.spec.version == "v1.30.0"
                && machine.status.node_info.is_some()
        };
        machines.len() == 1 && machines.iter().all(is_new)
    };
    chains.until("the done one is replaced", |world| is_replaced(world, "a", &ill[0])).await;
    chains.pass(600).await;
    // kubeadm of v1.29 cannot join a control plane at v1.30: who has the old version is kept, and it is told why.
    let waiting = machines_of(&chains.world, "b").remove(0);
    assert_eq!((waiting.name_any(), waiting.spec.version.as_str()), (ill[1].clone(), "v1.29.0"));
    let told = waiting.status.conditions.iter().find(|found| found.type_ == "OwnerRemediated").unwrap();
    assert!(told.message.contains("KubeadmVersionSkew"), "{}", told.message);
    chains.change("c1", entries(&[plain("a"), plain("b")])).await;
    chains.until_at("c1", "v1.30.0").await.unwrap();
    assert!(is_replaced(&chains.world, "b", &ill[1]));
    chains.nothing_is_pending("c1");
}

#[tokio::test(start_paused = true)]
async fn a_cluster_can_be_deleted_in_the_middle_of_an_upgrade() {
    let mut chains = Chains::with(38, manifests(&["a", "b"]), "v1.29.0").await;
    chains.change_version("c1", "v1.33.0").await;
    let chronicle = chains.chronicle.clone();
    chains.until("workers are on their way", |_| has(&chronicle, "a v1.29.0 -> v1.32.0")).await;
    chains.extension.block(Hook::BeforeClusterDelete, 3, 60, "backup first");
    chains.world.delete::<Cluster>(&key("c1")).await.unwrap();
    chains.until("it is held", |world| condition(world).2.contains("backup first")).await;
    assert!(!machines(&chains.world).is_empty());
    chains.until("it is gone", |world| world.get::<Cluster>(&key("c1")).is_none()).await;
    chains.pass(60).await;
    let world = &chains.world;
    assert_eq!(machines(world), Vec::<String>::new());
    assert_eq!((world.list::<MachineDeployment>().len(), world.list::<DevCluster>().len()), (0, 0));
    assert_eq!(world.list::<DevMachine>().len(), 0);
    // Only the templates of the class are left.
    let templates: Vec<String> =
        world.list::<DevMachineTemplate>().iter().map(ResourceExt::name_any).collect();
    assert_eq!(templates, ["quick-control-plane", "quick-worker"]);
    assert_eq!(chains.story("c1").last().unwrap(), "BeforeClusterDelete");
}
