//! How a Machine goes.

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use serde_json::json;
use windlass_api::infrastructure::DevMachine;
use windlass_inmemory::knobs;

use super::world::{World, is_cordoned, message, phase};

const PRE_DRAIN: &str = "pre-drain.delete.hook.machine.cluster.x-k8s.io/backup";
const PRE_TERMINATE: &str = "pre-terminate.delete.hook.machine.cluster.x-k8s.io/etcd";

#[tokio::test(start_paused = true)]
async fn hooks_drain_and_objects_follow_in_order() {
    let world = World::start().await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    world.pod_on("w1", "app", json!({})).await;
    world.annotate("w1", PRE_DRAIN, Some("")).await;
    world.annotate("w1", PRE_TERMINATE, Some("")).await;
    world.delete("w1").await;

    let machine = world.until_reason("w1", "Deleting", "WaitingForPreDrainHook").await;
    assert!(message(&machine, "Deleting").contains(PRE_DRAIN));
    assert_eq!(phase(&machine), "Deleting");
    world.seconds(600).await;
    assert!(!is_cordoned(&world.node("w1").await.unwrap()), "nothing has happened to the Node");

    world.annotate("w1", PRE_DRAIN, None).await;
    let machine = world.until_reason("w1", "Deleting", "WaitingForPreTerminateHook").await;
    assert!(message(&machine, "Deleting").contains(PRE_TERMINATE));
    assert!(is_cordoned(&world.node("w1").await.unwrap()));
    let pods: Api<Pod> = Api::namespaced(world.workload().inside().clone(), "default");
    assert!(pods.get_opt("app").await.unwrap().is_none(), "the pod was evicted");
    assert!(world.dev_machine("w1").await.unwrap().metadata.deletion_timestamp.is_none());

    world.annotate("w1", PRE_TERMINATE, None).await;
    world.until_gone("w1").await;
    assert!(world.dev_machine("w1").await.is_none());
    assert!(world.node("w1").await.is_none());
    let configs = world.dynamic("bootstrap.cluster.x-k8s.io/v1beta2", "KubeadmConfig");
    assert!(configs.get_opt("w1").await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn pods_that_do_not_go_hold_the_drain_and_are_named() {
    let world = World::start().await;
    world.with_control_plane().await;
    let stubborn = json!({knobs::DRAIN_NEVER_ENDS_ANNOTATION: ""});
    world.add_machine("w1", json!({}), json!({}), stubborn).await;
    world.until_ready("w1").await;
    let mirror = json!({"annotations": {"kubernetes.io/config.mirror": "x"}});
    world.pod_on("w1", "static", mirror).await;
    world.pod_on("w1", "kept", json!({"labels": {"cluster.x-k8s.io/drain": "skip"}})).await;
    world.delete("w1").await;
    let machine = world.until_reason("w1", "Deleting", "DrainingNode").await;
    assert!(message(&machine, "Deleting").contains("Pod default/w1-stubborn: terminating"));
    world.seconds(1200).await;
    let machine = world.machine("w1").await.unwrap();
    let says = message(&machine, "Deleting");
    assert!(says.contains("w1-stubborn") && !says.contains("static") && !says.contains("kept"), "{says}");

    let release = json!({"metadata": {"annotations": {knobs::DRAIN_NEVER_ENDS_ANNOTATION: null}}});
    world.patch::<DevMachine>("w1", release).await;
    world.until_gone("w1").await;
}

#[tokio::test(start_paused = true)]
async fn a_drain_that_does_not_end_is_given_up_after_its_timeout() {
    let world = World::start().await;
    world.with_control_plane().await;
    let stubborn = json!({knobs::DRAIN_NEVER_ENDS_ANNOTATION: ""});
    let spec = json!({"deletion": {"nodeDrainTimeoutSeconds": 300}});
    world.add_machine("w1", spec, json!({}), stubborn).await;
    world.until_ready("w1").await;
    world.delete("w1").await;
    world.until_reason("w1", "Deleting", "DrainingNode").await;
    world.seconds(280).await;
    assert!(world.machine("w1").await.is_some());
    world.seconds(60).await;
    assert!(world.machine("w1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_machine_excluded_from_draining_is_not_drained() {
    let world = World::start().await;
    world.with_control_plane().await;
    let stubborn = json!({knobs::DRAIN_NEVER_ENDS_ANNOTATION: ""});
    world.add_machine("w1", json!({}), json!({}), stubborn).await;
    world.until_ready("w1").await;
    world.annotate("w1", "machine.cluster.x-k8s.io/exclude-node-draining", Some("")).await;
    world.delete("w1").await;
    world.seconds(10).await;
    assert!(world.machine("w1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_never_came_up_goes_without_its_node() {
    let world = World::start().await;
    world.with_control_plane().await;
    let fails = json!({knobs::FAIL_PROVISIONING_ANNOTATION: ""});
    world.add_machine("w1", json!({}), json!({}), fails).await;
    world.seconds(60).await;
    world.delete("w1").await;
    world.until_gone("w1").await;
    assert!(world.dev_machine("w1").await.is_none());
}

#[tokio::test(start_paused = true)]
async fn the_last_control_plane_machine_goes_without_a_drain() {
    let world = World::start().await;
    world.with_control_plane().await;
    world.delete("cp1").await;
    world.until_gone("cp1").await;
    assert!(!world.is_open(), "nothing listens any more");

    // Without the control plane the remaining machines have no API to ask.
    world.add_worker("w1").await;
    world.seconds(60).await;
    world.delete("w1").await;
    world.until_gone("w1").await;
}

#[tokio::test(start_paused = true)]
async fn a_disruption_budget_is_asked_until_it_agrees() {
    let world = World::start().await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    world.until_ready("w1").await;
    world.pod_on("w1", "db", json!({"labels": {"app": "db"}})).await;
    let client = world.workload().inside().clone();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let status = |status: serde_json::Value| kube::api::Patch::Merge(json!({"status": status}));
    let parameters = kube::api::PatchParams::default();
    pods.patch_status("db", &parameters, &status(json!({"phase": "Running"}))).await.unwrap();
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client, "default");
    let budget = serde_json::from_value(json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": {"name": "db-budget"}, "spec": {"selector": {"matchLabels": {"app": "db"}}}}));
    budgets.create(&kube::api::PostParams::default(), &budget.unwrap()).await.unwrap();
    let allowed = |allowed: i32| {
        status(
            json!({"disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1,
                "observedGeneration": 1}),
        )
    };
    budgets.patch_status("db-budget", &parameters, &allowed(0)).await.unwrap();

    world.delete("w1").await;
    let machine = world.until_reason("w1", "Deleting", "DrainingNode").await;
    let says = message(&machine, "Deleting");
    assert!(says.contains("Pod default/db: eviction refused") && says.contains("db-budget"), "{says}");
    world.seconds(300).await;
    assert!(pods.get_opt("db").await.unwrap().is_some());
    budgets.patch_status("db-budget", &parameters, &allowed(1)).await.unwrap();
    world.until_gone("w1").await;
}
