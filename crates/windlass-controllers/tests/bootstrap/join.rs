//! Machines that join, and their tokens.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::DeleteParams;
use serde_json::json;
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::{Machine, MachinePool};
use windlass_bootstrap::discovery::ca_cert_hashes;
use windlass_runtime::controller_reference;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn machines_join_with_a_token_of_their_own_and_the_hash_of_the_authority() {
    let world = World::new().await;
    let _running = world.start();
    world.machine("cp1", true, json!({})).await;
    world.seconds(1).await;
    world.initialized().await;
    world.machine("cp2", true, json!({})).await;
    world.machine("w1", false, json!({"joinConfiguration": {"nodeRegistration": {"name": "n1"}}})).await;
    world.seconds(1).await;
    let authority: Secret = world.get("c1-ca").await;
    let authority = String::from_utf8(authority.data.unwrap()["tls.crt"].0.clone()).unwrap();
    let hash = ca_cert_hashes(&authority).unwrap().remove(0);
    let tokens = world.tokens().await;
    assert_eq!(tokens.len(), 2);
    for (name, has_certificates) in [("cp2", true), ("w1", false)] {
        let (data, token) = (world.data(name).await.unwrap(), world.token(name).await);
        assert!(tokens.contains_key(&token), "{token} is none of {tokens:?}");
        for part in ["kubeadm join --config", &token, &hash, "apiServerEndpoint: '10.0.0.1:6443'"] {
            assert!(data.contains(part), "{part} is not in\n{data}");
        }
        assert_eq!(data.contains("/etc/kubernetes/pki/ca.key"), has_certificates, "{name}");
        assert_eq!(world.condition(name, "Ready").await, "True Ready");
    }
    assert_ne!(world.token("cp2").await, world.token("w1").await);
    assert!(world.data("w1").await.unwrap().contains("node.cluster.x-k8s.io/uninitialized"));
    assert!(world.find::<ConfigMap>("c1-lock").await.is_none(), "the cluster is initialized");
}

#[tokio::test(start_paused = true)]
async fn a_token_is_good_for_as_long_as_a_machine_has_no_node() {
    let world = World::new().await;
    world.initialized().await;
    let _running = world.start();
    world.machine("w1", false, json!({})).await;
    world.seconds(1).await;
    let (token, data) = (world.token("w1").await, world.data("w1").await);
    for _ in 0..12 {
        world.seconds(300).await;
        assert!(world.minutes_left(&token).await >= 9, "an hour later the machine can still join");
    }
    let name = format!("bootstrap-token-{}", token.split('.').next().unwrap());
    world.secrets().delete(&name, &DeleteParams::default()).await.unwrap();
    world.seconds(301).await;
    assert!(world.minutes_left(&token).await >= 9, "the machine has no other token");
    assert_eq!(
        (world.token("w1").await, world.data("w1").await),
        (token.clone(), data),
        "nothing else changes"
    );

    world.patch_status::<Machine>("w1", json!({"nodeRef": {"name": "n1"}})).await;
    world.seconds(3600).await;
    assert!(world.minutes_left(&token).await < 0, "nobody needs it any more");
}

#[tokio::test(start_paused = true)]
async fn the_token_of_a_pool_is_replaced_before_it_expires_and_data_with_it() {
    let world = World::new().await;
    world.initialized().await;
    let _running = world.start();
    world.pool("p1", 2).await;
    world.seconds(1).await;
    let first = world.token("p1").await;
    assert!(
        world.data("p1").await.unwrap().contains("apiVersion: kubeadm.k8s.io/v1beta3"),
        "its own version"
    );
    world.seconds(1800).await;
    assert_eq!(world.token("p1").await, first, "as long as Nodes are missing it is the same token");
    let nodes = json!({"nodeRefs": [{"name": "a"}, {"name": "b"}]});
    world.patch_status::<MachinePool>("p1", nodes).await;
    for _ in 0..6 {
        world.seconds(601).await;
        let token = world.token("p1").await;
        assert!(world.minutes_left(&token).await >= 2, "an instance can join at any time");
        assert!(world.data("p1").await.unwrap().contains(&token), "with the data that the pool has");
    }
    assert_ne!(world.token("p1").await, first);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_says_it_is_a_control_plane_machine_is_refused() {
    let world = World::new().await;
    world.initialized().await;
    let _running = world.start();
    world.machine("w1", false, json!({"joinConfiguration": {"controlPlane": {}}})).await;
    world.seconds(60).await;
    assert!(world.data("w1").await.is_none() && world.tokens().await.is_empty());
    let says = world.condition("w1", "DataSecretAvailable").await;
    assert!(
        says.contains("spec.joinConfiguration.controlPlane is set, but the Machine is not part"),
        "{says}"
    );
}

#[tokio::test(start_paused = true)]
async fn discovery_that_a_user_gives_is_kept() {
    let world = World::new().await;
    world.initialized().await;
    let _running = world.start();
    let file =
        json!({"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/etc/discovery.conf"}}}});
    world.machine("w1", false, file.clone()).await;
    world.seconds(60).await;
    assert!(world.data("w1").await.unwrap().contains("kubeConfigPath: /etc/discovery.conf"));
    assert!(world.tokens().await.is_empty(), "a kubeconfig needs no token");
    let spec = serde_json::to_value(world.config("w1").await.spec).unwrap();
    assert_eq!(spec, file, "and nothing is written");
}

#[tokio::test(start_paused = true)]
async fn a_secret_of_something_else_is_not_overwritten() {
    let world = World::new().await;
    world.initialized().await;
    let other: ConfigMap = world.create(json!({"metadata": {"name": "other"}})).await;
    let owner = controller_reference(&other).unwrap();
    let secret =
        json!({"metadata": {"name": "w1", "ownerReferences": [owner]}, "stringData": {"value": "theirs"}});
    world.create::<Secret>(secret).await;
    let running = world.start();
    world.machine("w1", false, json!({})).await;
    world.seconds(60).await;
    let secret: Secret = world.get("w1").await;
    assert_eq!(secret.data.unwrap()["value"].0, b"theirs");
    let config: KubeadmConfig = world.config("w1").await;
    assert_eq!(config.status.initialization.data_secret_created, None);
    let failing = format!("{:?}", running.manager().failing());
    assert!(failing.contains("controlled by ConfigMap other"), "{failing}");
    assert_eq!(world.tokens().await.len(), 1, "it is not tried with one token after the other");
}
