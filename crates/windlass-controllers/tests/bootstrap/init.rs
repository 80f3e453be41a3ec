//! The first machine of a control plane.

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::ResourceExt;
use serde_json::{Value, json};
use windlass_api::bootstrap::KubeadmConfig;
use windlass_api::cluster::Machine;

use crate::world::World;

#[tokio::test(start_paused = true)]
async fn the_first_machine_initializes_the_cluster_with_its_certificates() {
    let world = World::new().await;
    let _running = world.start();
    world
        .machine("cp1", true, json!({"clusterConfiguration": {"apiServer": {"certSANs": ["a.test"]}}}))
        .await;
    world.seconds(1).await;
    let data = world.data("cp1").await.unwrap();
    assert!(data.starts_with("## template: jinja\n#cloud-config\n"), "{data}");
    for part in [
        "kubeadm init --config /run/kubeadm/kubeadm.yaml && echo success > /run/cluster-api/bootstrap-success.complete",
        "path: /etc/kubernetes/pki/ca.crt",
        "path: /etc/kubernetes/pki/etcd/ca.key",
        "path: /etc/kubernetes/pki/front-proxy-ca.key",
        "path: /etc/kubernetes/pki/sa.pub",
        "apiVersion: kubeadm.k8s.io/v1beta4",
        "kubernetesVersion: v1.33.1",
        "controlPlaneEndpoint: '10.0.0.1:6443'",
        "clusterName: c1",
        "podSubnet: '192.168.0.0/16'",
    ] {
        assert!(data.contains(part), "{part} is not in\n{data}");
    }
    let status = world.config("cp1").await.status;
    assert_eq!(status.data_secret_name, "cp1");
    assert_eq!(status.initialization.data_secret_created, Some(true));
    assert_eq!(world.condition("cp1", "Ready").await, "True Ready");
    assert_eq!(world.condition("cp1", "DataSecretAvailable").await, "True Available");
    assert_eq!(world.condition("cp1", "CertificatesAvailable").await, "True Available");
    let lock: ConfigMap = world.get("c1-lock").await;
    assert_eq!(lock.data.unwrap()["lock-information"], r#"{"machineName":"cp1"}"#);
    assert_eq!(world.tokens().await.len(), 0, "kubeadm makes the first token itself");
}

#[tokio::test(start_paused = true)]
async fn one_machine_initializes_and_another_only_when_it_is_gone() {
    let world = World::new().await;
    let _running = world.start();
    world.machine("cp1", true, json!({})).await;
    world.seconds(1).await;
    world.machine("cp2", true, json!({})).await;
    world.machine("w1", false, json!({})).await;
    world.seconds(120).await;
    assert!(world.data("cp2").await.is_none() && world.data("w1").await.is_none());
    assert_eq!(
        world.condition("cp2", "DataSecretAvailable").await,
        "False NotAvailable Waiting for Machine cp1 to initialize the control plane"
    );
    assert_eq!(
        world.condition("w1", "DataSecretAvailable").await,
        "False NotAvailable Waiting for Cluster control plane to be initialized"
    );
    world.delete::<Machine>("cp1").await;
    world.seconds(31).await;
    assert!(world.data("cp2").await.unwrap().contains("kubeadm init"));
    let lock: ConfigMap = world.get("c1-lock").await;
    assert_eq!(lock.data.unwrap()["lock-information"], r#"{"machineName":"cp2"}"#);
}

#[tokio::test(start_paused = true)]
async fn what_is_missing_is_waited_for_and_said() {
    let world = World::empty().await;
    world
        .cluster(
            json!({"apiGroup": "controlplane.cluster.x-k8s.io", "kind": "KubeadmControlPlane", "name": "cp"}),
        )
        .await;
    world.initialization(json!({"infrastructureProvisioned": false})).await;
    let _running = world.start();
    world.machine("cp1", true, json!({})).await;
    world.seconds(5).await;
    let says = "False NotAvailable Waiting for Cluster status.infrastructureReady to be true";
    assert_eq!(world.condition("cp1", "DataSecretAvailable").await, says);
    world.initialization(json!({"infrastructureProvisioned": true})).await;
    world.seconds(5).await;
    let says = "False NotAvailable Waiting for certificates: Secrets c1-ca, c1-etcd, c1-proxy, c1-sa";
    assert_eq!(world.condition("cp1", "DataSecretAvailable").await, says);
    assert!(world.find::<Secret>("c1-ca").await.is_none(), "a control plane makes its certificates itself");
    world.certificates().await;
    world.seconds(31).await;
    assert!(world.data("cp1").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_a_control_plane_gets_its_certificates_here() {
    let world = World::empty().await;
    world.cluster(Value::Null).await;
    let _running = world.start();
    world.machine("cp1", true, json!({})).await;
    world.seconds(1).await;
    let data = world.data("cp1").await.unwrap();
    for name in ["c1-ca", "c1-etcd", "c1-proxy", "c1-sa"] {
        let secret: Secret = world.get(name).await;
        assert_eq!(secret.owner_references()[0].kind, "KubeadmConfig", "{name}");
        let certificate = String::from_utf8(secret.data.unwrap()["tls.crt"].0.clone()).unwrap();
        let line = certificate.lines().nth(1).unwrap();
        assert!(data.contains(line), "{name} is among the files");
    }
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_rendered_is_refused_and_lets_another_machine_try() {
    let world = World::new().await;
    let _running = world.start();
    world.machine("cp1", true, json!({"format": "ignition"})).await;
    world.seconds(5).await;
    assert_eq!(
        world.condition("cp1", "DataSecretAvailable").await,
        "False NotAvailable format ignition is not supported: only cloud-config is"
    );
    assert!(world.condition("cp1", "Ready").await.starts_with("False NotReady"), "and it is not ready");
    assert!(world.find::<ConfigMap>("c1-lock").await.is_none(), "it does not keep the lock");
    world.machine("cp2", true, json!({})).await;
    world.seconds(5).await;
    assert!(world.data("cp2").await.is_some());
}

#[tokio::test(start_paused = true)]
async fn files_come_from_secrets_as_soon_as_these_are_there() {
    let world = World::new().await;
    let _running = world.start();
    let from = json!({"secret": {"name": "audit", "key": "policy"}});
    world.machine("cp1", true, json!({"files": [{"path": "/etc/audit.yaml", "contentFrom": from}]})).await;
    world.seconds(5).await;
    assert_eq!(
        world.condition("cp1", "DataSecretAvailable").await,
        "False NotAvailable Failed to prepare spec.files: Secret audit does not exist (content of /etc/audit.yaml)"
    );
    world
        .create::<Secret>(json!({"metadata": {"name": "audit"}, "stringData": {"policy": "rules: none"}}))
        .await;
    world.seconds(31).await;
    assert!(world.data("cp1").await.unwrap().contains("rules: none"));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_done_while_it_is_paused() {
    let world = World::new().await;
    world.patch::<windlass_api::cluster::Cluster>("c1", json!({"spec": {"paused": true}})).await;
    let _running = world.start();
    world.machine("cp1", true, json!({})).await;
    world.seconds(60).await;
    assert!(world.data("cp1").await.is_none());
    assert_eq!(world.condition("cp1", "Paused").await, "True Paused Cluster spec.paused is set to true");
    world.patch::<windlass_api::cluster::Cluster>("c1", json!({"spec": {"paused": false}})).await;
    world.seconds(1).await;
    assert!(world.data("cp1").await.is_some());
    assert_eq!(world.condition("cp1", "Paused").await, "False NotPaused");
}

#[tokio::test(start_paused = true)]
async fn data_of_a_machine_that_boots_already_are_remembered_and_not_made_again() {
    let world = World::new().await;
    world.machine("cp1", true, json!({})).await;
    world.patch::<Machine>("cp1", json!({"spec": {"bootstrap": {"dataSecretName": "moved"}}})).await;
    let _running = world.start();
    world.seconds(60).await;
    let config: KubeadmConfig = world.config("cp1").await;
    assert_eq!(config.status.data_secret_name, "moved");
    assert_eq!(config.status.initialization.data_secret_created, Some(true));
    assert!(
        world.find::<Secret>("cp1").await.is_none() && world.find::<ConfigMap>("c1-lock").await.is_none()
    );
}
