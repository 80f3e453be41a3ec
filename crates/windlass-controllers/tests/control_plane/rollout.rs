//! Bringing Machines up to date, with and without replacing them.

use std::time::Duration;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::ResourceExt;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Machine, StatusVersion};
use windlass_api::infrastructure::DevMachine;

use crate::world::{World, labels};

#[tokio::test(start_paused = true)]
async fn an_upgrade_replaces_all_machines_within_the_surge() {
    for (surge, most, fewest) in [(1, 4, 3), (0, 3, 2)] {
        let world = World::new().await;
        let _running = world.start();
        let strategy = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge}});
        world.create(json!({"rollout": {"strategy": strategy}})).await;
        world.settled(3).await;
        let before = world.names().await;
        world.faults.keep_journal();
        world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
        world.until("it begins", async || world.condition("RollingOut").await.starts_with("True")).await;
        world.settled(3).await;
        let after = world.names().await;
        assert!(before.iter().all(|name| !after.contains(name)), "{before:?} {after:?}");
        let status = world.control_plane().await.status;
        assert_eq!(status.versions, [StatusVersion { version: "v1.33.0".to_owned(), replicas: Some(3) }]);
        assert_eq!(world.most_and_fewest(3), (most, fewest), "maxSurge {surge}");
        let mut domains: Vec<String> =
            world.machines().await.into_iter().map(|machine| machine.spec.failure_domain).collect();
        domains.sort();
        assert_eq!(domains, ["a", "b", "c"], "still spread");
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_infrastructure_template_or_configuration_is_rolled_out() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({"replicas": 1})).await;
    world.settled(1).await;
    let first = world.names().await;
    world.create_template("t2").await;
    world.patch(json!({"spec": {"machineTemplate": {"spec": {"infrastructureRef": {"name": "t2"}}}}})).await;
    world.until("it is replaced", async || world.names().await != first).await;
    world.settled(1).await;
    let second = world.names().await;
    world.patch(json!({"spec": {"kubeadmConfigSpec": {"preKubeadmCommands": ["true"]}}})).await;
    world.until("it is replaced", async || world.names().await != second).await;
    world.settled(1).await;
    let config: Vec<KubeadmConfig> = world.list().await;
    assert_eq!(config[0].spec.pre_kubeadm_commands, ["true"]);
}

#[tokio::test(start_paused = true)]
async fn what_needs_no_rollout_reaches_all_objects_in_place() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({})).await;
    world.settled(3).await;
    let before = world.names().await;
    let template = json!({"metadata": {"labels": {"team": "a"}, "annotations": {"note": "b"}},
        "spec": {"deletion": {"nodeDrainTimeoutSeconds": 30}}});
    world.patch(json!({"spec": {"machineTemplate": template}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(world.names().await, before);
    for machine in world.machines().await {
        assert_eq!(labels(&machine)["team"], "a");
        assert_eq!(machine.spec.deletion.node_drain_timeout_seconds, Some(30));
        assert_eq!(machine.annotations()["note"], "b");
        assert_eq!(machine.status.node_ref.unwrap().name, machine.metadata.name.unwrap(), "left alone");
    }
    let (configs, infrastructure): (Vec<KubeadmConfig>, Vec<DevMachine>) =
        (world.list().await, world.list().await);
    assert!(configs.iter().all(|config| labels(config)["team"] == "a"));
    assert!(infrastructure.iter().all(|machine| labels(machine)["team"] == "a"));
    assert!(infrastructure.iter().all(|machine| machine.annotations().contains_key("note")));

    world.patch(json!({"spec": {"machineTemplate": {"metadata": {"labels": {"team": null}}}}})).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert!(world.machines().await.iter().all(|machine| !labels(machine).contains_key("team")));
    let infrastructure: Vec<DevMachine> = world.list().await;
    assert!(infrastructure.iter().all(|machine| !labels(machine).contains_key("team")));
    assert_eq!(world.names().await, before);
}

#[tokio::test(start_paused = true)]
async fn the_external_strategy_without_fallback_stops_and_says_why() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({"rollout": {"strategy": {"type": "External"}}})).await;
    world.settled(3).await;
    let before = world.names().await;
    world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
    tokio::time::sleep(Duration::from_secs(900)).await;
    assert_eq!(world.names().await, before);
    let rolling_out = world.condition("RollingOut").await;
    assert!(
        rolling_out.ends_with("the strategy has no fallback: no extension updates Machines in place"),
        "{rolling_out}"
    );
    world.patch(json!({"spec": {"rollout": {"strategy": {"fallbackRolling": {"maxSurge": 1}}}}})).await;
    world.until("it goes on", async || world.names().await != before).await;
    world.settled(3).await;
}

#[tokio::test(start_paused = true)]
async fn kubeadm_and_kube_proxy_follow_the_version() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({"replicas": 1})).await;
    world.settled(1).await;
    let before = world.names().await;
    world.patch(json!({"spec": {"version": "v1.33.0"}})).await;
    world
        .until("it is replaced", async || world.names().await.iter().all(|name| !before.contains(name)))
        .await;
    world.settled(1).await;
    let maps: Api<ConfigMap> = Api::namespaced(world.workload().clone(), "kube-system");
    let configuration = maps.get("kubeadm-config").await.unwrap().data.unwrap();
    assert_eq!(configuration["ClusterConfiguration"], "kubernetesVersion: v1.33.0\nclusterName: c1\n");
    let sets: Api<DaemonSet> = Api::namespaced(world.workload().clone(), "kube-system");
    let proxy = sets.get("kube-proxy").await.unwrap().spec.unwrap().template.spec.unwrap();
    assert_eq!(proxy.containers[0].image.as_deref(), Some("registry.k8s.io/kube-proxy:v1.33.0"));
}

#[tokio::test(start_paused = true)]
async fn an_in_place_update_that_was_begun_is_started_completely() {
    let world = World::new().await;
    let _running = world.start();
    world.create(json!({"replicas": 1, "rollout": {"strategy": {"type": "External"}}})).await;
    world.settled(1).await;
    let name = world.names().await.remove(0);
    world.create_template("t2").await;
    let machine_template = json!({"spec": {"infrastructureRef": {"name": "t2"}}});
    world.patch(json!({"spec": {"version": "v1.33.0", "machineTemplate": machine_template}})).await;
    // As if there had been a crash after the first of five writes.
    let mark = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";
    let patch = Patch::Merge(json!({"metadata": {"annotations": {mark: ""}}}));
    world.api::<Machine>().patch(&name, &PatchParams::default(), &patch).await.unwrap();
    let hooks = "runtime.cluster.x-k8s.io/pending-hooks";
    world
        .until("the hook is pending", async || {
            let machine = world.api::<Machine>().get(&name).await.unwrap();
            machine.annotations().get(hooks).is_some_and(|pending| pending == "UpdateMachine")
        })
        .await;
    let machine = world.api::<Machine>().get(&name).await.unwrap();
    assert_eq!(machine.spec.version, "v1.33.0");
    let infrastructure = world.api::<DevMachine>().get(&name).await.unwrap();
    assert_eq!(infrastructure.annotations()["cluster.x-k8s.io/cloned-from-name"], "t2");
    assert!(infrastructure.annotations().contains_key(mark));
    assert!(labels(&infrastructure).contains_key("cluster.x-k8s.io/control-plane"), "labels stay");
    let config = world.api::<KubeadmConfig>().get(&name).await.unwrap();
    assert!(config.annotations().contains_key(mark) && config.spec.join_configuration.is_some());
    assert_eq!(config.spec.init_configuration, None, "the init form is given up");
    world
        .until("it is waited for", async || {
            world.condition("RollingOut").await.contains("In-place update in progress")
        })
        .await;
    assert_eq!(world.names().await, [name]);
}
