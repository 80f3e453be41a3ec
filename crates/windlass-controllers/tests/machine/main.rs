//! One Machine from end to end: the real controller, the in-memory provider, the embedded API, virtual time.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failing helper fails the test")]

mod cluster_resource_sets;
mod deletion;
mod drain_rules;
mod in_place;
mod world;

use serde_json::json;
use windlass_engine::condition;
use windlass_inmemory::knobs;

use world::{World, has_annotation, kubelet, message, phase};

#[tokio::test(start_paused = true)]
async fn the_first_control_plane_machine_opens_the_cluster_and_becomes_a_node() {
    let world = World::start().await;
    world.cluster().await;
    world.add_control_plane("cp1").await;
    let machine =
        world.until("cp1", "provisioned", |machine| machine.is_some_and(|m| phase(m) == "Provisioned")).await;
    let machine = machine.unwrap();
    assert_eq!(machine.spec.provider_id, "in-memory://cp1");
    assert_eq!(machine.spec.bootstrap.data_secret_name.as_deref(), Some("cp1"));
    assert!(message(&machine, "NodeHealthy").contains("control plane of Cluster c1 is not initialized"));

    world.until("cp1", "open", |_| world.is_open()).await;
    world.cluster_status(json!({"initialization": {"controlPlaneInitialized": true}})).await;
    let machine = world.until_ready("cp1").await;
    assert_eq!(phase(&machine), "Running");
    assert_eq!(machine.status.node_ref.as_ref().unwrap().name, "cp1");
    assert_eq!(machine.status.node_info.as_ref().unwrap().kubelet_version, "v1.31.0");
    assert!(condition::is_true(&machine.status.conditions, "Available"));
    assert!(!machine.status.addresses.is_empty());

    world.seconds(5).await;
    let node = world.node("cp1").await.unwrap();
    assert_eq!(node.metadata.annotations.as_ref().unwrap()["cluster.x-k8s.io/machine"], "cp1");
    let taints = node.spec.unwrap().taints.unwrap();
    assert_eq!(taints.len(), 1, "only that of the control plane is left: {taints:?}");
    let dev_machine = world.dev_machine("cp1").await.unwrap();
    assert_eq!(dev_machine.metadata.owner_references.unwrap()[0].kind, "Machine");
}

#[tokio::test(start_paused = true)]
async fn workers_wait_for_the_control_plane_and_then_join_it() {
    let world = World::start().await;
    world.cluster().await;
    world.add_worker("w1").await;
    world.seconds(60).await;
    let machine = world.machine("w1").await.unwrap();
    assert_eq!(phase(&machine), "Pending");
    assert!(message(&machine, "BootstrapConfigReady").contains("control plane to be initialized"));

    world.add_control_plane("cp1").await;
    world.until("cp1", "open", |_| world.is_open()).await;
    world.cluster_status(json!({"initialization": {"controlPlaneInitialized": true}})).await;
    let machine = world.until_ready("w1").await;
    assert_eq!(machine.status.node_info.unwrap().kubelet_version, "v1.31.0");
}

#[tokio::test(start_paused = true)]
async fn a_machine_is_available_after_its_min_ready_seconds() {
    let world = World::start().await;
    world.with_control_plane().await;
    world.add_machine("w1", json!({"minReadySeconds": 90}), json!({}), json!({})).await;
    let ready = world.until_ready("w1").await;
    assert!(condition::is_false(&ready.status.conditions, "Available"));
    let available = |machine: Option<&windlass_api::cluster::Machine>| {
        machine.is_some_and(|machine| condition::is_true(&machine.status.conditions, "Available"))
    };
    let machine = world.until("w1", "available", available).await.unwrap();
    let since = |type_| condition::since(condition::find(&machine.status.conditions, type_).unwrap());
    assert_eq!(since("Available").as_second() - since("Ready").as_second(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_never_answers_is_named_in_the_conditions() {
    let world = World::start().await;
    world.cluster().await;
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    world
        .create_dynamic(json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "silentmachines.example.com", "labels": {"cluster.x-k8s.io/v1beta2": "v1"}},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"kind": "SilentMachine", "plural": "silentmachines", "singular": "silentmachine",
                "listKind": "SilentMachineList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}]}}))
        .await;
    let silent =
        json!({"infrastructureRef": {"apiGroup": "example.com", "kind": "SilentMachine", "name": "s1"}});
    world.add_machine("m1", silent.clone(), json!({}), json!({})).await;
    let machine = world.until_reason("m1", "InfrastructureReady", "ObjectDoesNotExist").await;
    assert!(message(&machine, "InfrastructureReady").contains("waiting for SilentMachine s1 to be created"));

    world
        .create_dynamic(
            json!({"apiVersion": "example.com/v1", "kind": "SilentMachine", "metadata": {"name": "s1"}}),
        )
        .await;
    let machine = world.until_reason("m1", "InfrastructureReady", "NotReady").await;
    assert!(
        message(&machine, "InfrastructureReady").contains("waiting for SilentMachine s1 to be provisioned")
    );
    world.seconds(3600).await;
    assert!(message(&world.machine("m1").await.unwrap(), "Ready").contains("SilentMachine s1"));

    let nowhere =
        json!({"infrastructureRef": {"apiGroup": "example.com", "kind": "NoSuchMachine", "name": "x"}});
    world.add_machine("m2", nowhere, json!({}), json!({})).await;
    let machine = world.until_reason("m2", "InfrastructureReady", "InternalError").await;
    assert!(message(&machine, "InfrastructureReady").contains("nosuchmachines.example.com"));
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_fails_says_why_and_goes_on_when_it_can() {
    let world = World::start().await;
    world.with_control_plane().await;
    let fails = json!({knobs::FAIL_PROVISIONING_ANNOTATION: "the rack is full"});
    world.add_machine("w1", json!({}), json!({}), fails).await;
    let missing = json!({knobs::MISSING_IMAGES_ANNOTATION: "v1.31.0"});
    world.add_machine("w2", json!({}), json!({}), missing).await;
    let has = |machine: Option<&windlass_api::cluster::Machine>, text: &str| {
        machine.is_some_and(|machine| message(machine, "InfrastructureReady").contains(text))
    };
    world.until("w1", "failing", |machine| has(machine, "the rack is full")).await;
    world.until("w2", "failing", |machine| has(machine, "no machine image for v1.31.0")).await;
    world.seconds(3600).await;
    assert_eq!(phase(&world.machine("w1").await.unwrap()), "Provisioning");

    let repair = json!({"metadata": {"annotations": {knobs::FAIL_PROVISIONING_ANNOTATION: null}}});
    world.patch::<windlass_api::infrastructure::DevMachine>("w1", repair).await;
    world.until_ready("w1").await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_becomes_ready_keeps_its_machine_from_being_ready() {
    let world = World::start().await;
    world.with_control_plane().await;
    let sick = json!({knobs::NEVER_READY_ANNOTATION: "no network"});
    world.add_machine("w1", json!({}), json!({}), sick).await;
    let machine = world.until_reason("w1", "NodeHealthy", "NodeNotHealthy").await;
    assert!(message(&machine, "Ready").contains("no network"), "{}", message(&machine, "Ready"));
    assert_eq!(phase(&machine), "Running");
}

#[tokio::test(start_paused = true)]
async fn a_machine_without_a_kubeconfig_says_what_is_missing() {
    let world = World::start().await;
    world.cluster().await;
    let secrets: kube::Api<k8s_openapi::api::core::v1::Secret> =
        kube::Api::namespaced(world.client.clone(), "default");
    secrets.delete("c1-kubeconfig", &kube::api::DeleteParams::default()).await.unwrap();
    world.add_control_plane("cp1").await;
    world.until("cp1", "open", |_| world.is_open()).await;
    world.cluster_status(json!({"initialization": {"controlPlaneInitialized": true}})).await;
    let machine = world.until_reason("cp1", "NodeHealthy", "ConnectionDown").await;
    assert!(message(&machine, "NodeHealthy").contains("no Secret c1-kubeconfig"));
    world.kubeconfig("https://c1.default.dev.windlass.internal:6443").await;
    world.until_ready("cp1").await;
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_workload_cluster_is_what_it_was() {
    let mut world = World::start().await;
    world.with_control_plane().await;
    world.add_worker("w1").await;
    let before = world.until_ready("w1").await;
    let newer = json!({"metadata": {"annotations": {knobs::KUBELET_VERSION_ANNOTATION: "v1.31.1"}}});
    world.patch::<windlass_api::infrastructure::DevMachine>("w1", newer).await;
    world
        .until("w1", "newer", |machine| {
            machine.is_some_and(|m| m.status.node_info.as_ref().unwrap().kubelet_version == "v1.31.1")
        })
        .await;

    world.restart().await;
    world.until("cp1", "open", |_| world.is_open()).await;
    world.seconds(30).await;
    assert_eq!(kubelet(&world.node("w1").await.unwrap()), "v1.31.1", "no older and no newer than before");
    let after = world.until_ready("w1").await;
    assert_eq!(after.spec, before.spec);
    assert_eq!(after.status.node_ref, before.status.node_ref);
    let ready = |machine: &windlass_api::cluster::Machine| {
        condition::since(condition::find(&machine.status.conditions, "Ready").unwrap())
    };
    assert_eq!(ready(&after), ready(&before), "it has been ready all the time");
    assert!(has_annotation(&world.dev_machine("w1").await.unwrap(), knobs::KUBELET_VERSION_ANNOTATION));
}

#[tokio::test(start_paused = true)]
async fn a_paused_machine_is_left_alone() {
    let world = World::start().await;
    world.with_control_plane().await;
    world.patch::<windlass_api::cluster::Cluster>("c1", json!({"spec": {"paused": true}})).await;
    world.add_worker("w1").await;
    let machine = world.until_reason("w1", "Paused", "Paused").await;
    world.seconds(300).await;
    assert!(machine.metadata.finalizers.is_none());
    assert!(condition::is_true(&world.machine("cp1").await.unwrap().status.conditions, "Ready"));
    world.patch::<windlass_api::cluster::Cluster>("c1", json!({"spec": {"paused": false}})).await;
    let machine = world.until_ready("w1").await;
    assert!(condition::is_false(&machine.status.conditions, "Paused"));
}
